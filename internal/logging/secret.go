package logging

import (
	"fmt"
	"log/slog"
)

// Secret is a string that must not be shown: an API key, a token. It prints,
// logs and encodes as "[redacted]" (empty as ""), and has to be unwrapped by
// name. It can be read from JSON. It is no key for a map: encoding/json writes the
// keys of a map of strings as they are.
type Secret string

const redacted = "[redacted]"

// Reveal is the value itself; for the one place that needs it.
func (s Secret) Reveal() string { return string(s) }

func (s Secret) String() string {
	if s == "" {
		return ""
	}
	return redacted
}

// Format covers every verb, %q, %x and %#v included.
func (s Secret) Format(f fmt.State, _ rune) { _, _ = f.Write([]byte(s.String())) }

// LogValue keeps the value out of slog.
func (s Secret) LogValue() slog.Value { return slog.StringValue(s.String()) }

// MarshalText keeps the value out of JSON and everything that encodes text.
func (s Secret) MarshalText() ([]byte, error) { return []byte(s.String()), nil }

// UnmarshalText reads the value.
func (s *Secret) UnmarshalText(b []byte) error {
	*s = Secret(b)
	return nil
}
