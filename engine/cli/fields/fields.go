// Package fields reads and writes single settings of a desktop engine by their
// names, as people write them on a command line: "limits.up_rate 2MB". The command
// line imports it; it is pure and knows settings by their JSON form alone.
package fields

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// All gives the settings by their names; values are those of JSON.
func All(s policy.Settings) (map[string]any, error) {
	raw, err := json.Marshal(s)
	if err != nil {
		return nil, err
	}
	d := json.NewDecoder(bytes.NewReader(raw))
	d.UseNumber()
	var tree map[string]any
	if err := d.Decode(&tree); err != nil {
		return nil, err
	}
	out := map[string]any{}
	var walk func(prefix string, m map[string]any)
	walk = func(prefix string, m map[string]any) {
		for k, v := range m {
			if sub, ok := v.(map[string]any); ok {
				walk(prefix+k+".", sub)
				continue
			}
			out[prefix+k] = v
		}
	}
	walk("", tree)
	return out, nil
}

// Unknown is the error for a name that no setting has.
func Unknown(name string) error {
	return protocol.Errorf(protocol.CodeInvalidRequest, "there is no setting %.100q; see: neuron-engine settings", name)
}

// isLimit says that 0 is no limit.
func isLimit(name string) bool { return strings.HasPrefix(name, "limits.") }

// Text is a value for people, in the form that With reads.
func Text(name string, v any) string {
	switch x := v.(type) {
	case bool:
		if x {
			return "on"
		}
		return "off"
	case json.Number:
		if isLimit(name) && x == "0" {
			return "none"
		}
		return x.String()
	case []any:
		parts := make([]string, len(x))
		for i, p := range x {
			parts[i] = fmt.Sprint(p)
		}
		return strings.Join(parts, ",")
	}
	return fmt.Sprint(v)
}

// With is s with one value changed. The engine checks the result.
func With(s policy.Settings, name, value string) (policy.Settings, error) {
	all, err := All(s)
	if err != nil {
		return s, err
	}
	switch name {
	case "form", "revision":
		return s, protocol.Errorf(protocol.CodeInvalidRequest, "%s cannot be set", name)
	case "pause.until", "pause.until_resumed":
		return s, protocol.Errorf(protocol.CodeInvalidRequest, "see: neuron-engine pause, neuron-engine resume")
	}
	old, ok := all[name]
	if !ok {
		return s, Unknown(name)
	}
	v, err := valueOf(name, old, value)
	if err != nil {
		return s, err
	}
	// The change alone, in the settings' own form, over what is in force.
	keys := strings.Split(name, ".")
	for i := len(keys) - 1; i >= 0; i-- {
		v = map[string]any{keys[i]: v}
	}
	raw, err := json.Marshal(v)
	if err != nil {
		return s, err
	}
	s = s.Clone()
	if err := json.Unmarshal(raw, &s); err != nil {
		return s, protocol.Errorf(protocol.CodeInvalidRequest, "%s cannot be %.100q", name, value)
	}
	return s, nil
}

// valueOf reads a value of the kind that is there.
func valueOf(name string, old any, value string) (any, error) {
	wrong := protocol.Errorf(protocol.CodeInvalidRequest, "%s cannot be %.100q", name, value)
	switch was := old.(type) {
	case bool:
		switch value {
		case "on", "true", "yes":
			return true, nil
		case "off", "false", "no":
			return false, nil
		}
		return nil, wrong
	case json.Number:
		if isLimit(name) && value == "none" {
			return 0, nil
		}
		n, ok := parseSize(value)
		if !ok {
			return nil, wrong
		}
		return n, nil
	case []any:
		list := []any{}
		for part := range strings.SplitSeq(value, ",") {
			part = strings.TrimSpace(part)
			if len(was) > 0 && part != "" {
				if _, number := was[0].(json.Number); number {
					n, err := strconv.ParseUint(part, 0, 32)
					if err != nil {
						return nil, wrong
					}
					list = append(list, n)
					continue
				}
			}
			if part != "" && value != "none" {
				list = append(list, part)
			}
		}
		return list, nil
	}
	return value, nil
}

// units are those of sizes, in powers of ten, and of two with an i.
var units = map[string]int64{
	"": 1, "b": 1, "k": 1e3, "kb": 1e3, "m": 1e6, "mb": 1e6, "g": 1e9, "gb": 1e9, "t": 1e12, "tb": 1e12,
	"kib": 1 << 10, "mib": 1 << 20, "gib": 1 << 30, "tib": 1 << 40,
}

// parseSize reads a number, or a size with a unit, which may be per second.
func parseSize(s string) (int64, bool) {
	s = strings.TrimSuffix(strings.ToLower(strings.TrimSpace(s)), "/s")
	digits := strings.TrimRight(s, "abgikmt ")
	unit, ok := units[strings.TrimSpace(s[len(digits):])]
	if !ok {
		return 0, false
	}
	if n, err := strconv.ParseInt(digits, 10, 64); err == nil {
		if n > (1<<62)/unit || n < -(1<<62)/unit {
			return 0, false
		}
		return n * unit, true
	}
	f, err := strconv.ParseFloat(digits, 64)
	if err != nil || f < 0 || f*float64(unit) >= 1<<62 || strings.ContainsAny(digits, "xXpPeEnN_") {
		return 0, false
	}
	return int64(f * float64(unit)), true
}
