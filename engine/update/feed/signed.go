package feed

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"
	"encoding/json"
	"slices"
	"time"

	"neuron/engine/protocol"
)

// domain keeps signatures of feeds apart from all others of the same key.
const domain = "neuron-release-feed-v1\x00"

// maxSignatures bounds the keys of one feed: the one in force and the next.
const maxSignatures = 4

// envelope is the signed form. What is signed are the bytes of feed exactly as
// they stand there: a reader has to encode nothing, and what a newer writer adds
// is under the signature, too.
type envelope struct {
	Feed       json.RawMessage `json:"feed"`
	Signatures []signature     `json:"signatures"`
}

type signature struct {
	Key       string `json:"key"`       // public key, lower-case hex
	Signature string `json:"signature"` // over domain and feed, lower-case hex
}

// Encode gives the canonical form of f, which must pass Check: JSON with the
// fields in the order of the types, notes by the order of their languages, no
// blanks, no line end. The same feed has the same bytes on every system.
func Encode(f *Feed) ([]byte, error) {
	if err := f.Check(); err != nil {
		return nil, err
	}
	c := *f
	c.Issued, c.Expires = c.Issued.UTC().Truncate(time.Second), c.Expires.UTC().Truncate(time.Second)
	if c.Notes == nil {
		c.Notes = map[string]string{}
	}
	if c.Packages == nil {
		c.Packages = []Package{}
	}
	var b bytes.Buffer
	e := json.NewEncoder(&b)
	e.SetEscapeHTML(false)
	if err := e.Encode(c); err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "encode the list of releases: %w", err)
	}
	return bytes.TrimSuffix(b.Bytes(), []byte("\n")), nil
}

// Sign gives the signed form of f, by one key or several.
func Sign(f *Feed, keys ...ed25519.PrivateKey) ([]byte, error) {
	body, err := Encode(f)
	if err != nil {
		return nil, err
	}
	if len(keys) == 0 || len(keys) > maxSignatures {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "a list of releases is signed by 1 to %d keys", maxSignatures)
	}
	var b bytes.Buffer
	b.WriteString(`{"feed":`)
	b.Write(body)
	b.WriteString(`,"signatures":[`)
	for i, k := range keys {
		if len(k) != ed25519.PrivateKeySize {
			return nil, protocol.Errorf(protocol.CodeInvalidRequest, "a key has %d bytes", len(k))
		}
		if i > 0 {
			b.WriteByte(',')
		}
		b.WriteString(`{"key":"` + hex.EncodeToString(k.Public().(ed25519.PublicKey)) + `","signature":"`)
		b.WriteString(hex.EncodeToString(ed25519.Sign(k, signedBytes(body))) + `"}`)
	}
	b.WriteString("]}\n")
	if b.Len() > MaxBytes {
		return nil, bad("%d bytes, at most %d are allowed", b.Len(), MaxBytes)
	}
	return b.Bytes(), nil
}

func signedBytes(body []byte) []byte { return append([]byte(domain), body...) }

// Parse reads a signed feed. One of its signatures has to be by one of keys, and
// right; the others may be of keys that this build does not know. Nothing of the
// feed is looked at before. Errors: update_invalid; unsupported for a good feed
// of a newer form.
func Parse(raw []byte, keys []ed25519.PublicKey) (*Feed, error) {
	if len(raw) > MaxBytes {
		return nil, bad("%d bytes, at most %d are allowed", len(raw), MaxBytes)
	}
	var e envelope
	if json.Unmarshal(raw, &e) != nil || len(e.Feed) == 0 {
		return nil, bad("it is no signed list")
	}
	if len(e.Signatures) > maxSignatures {
		return nil, bad("it has %d signatures", len(e.Signatures))
	}
	if len(e.Signatures) == 0 {
		return nil, bad("nobody has signed it")
	}
	known, good := false, false
	for _, s := range e.Signatures {
		key, err := ParseKey(s.Key)
		if err != nil {
			continue // of a kind that this build does not know
		}
		if !slices.ContainsFunc(keys, func(k ed25519.PublicKey) bool { return k.Equal(key) }) {
			continue
		}
		known = true
		sig, err := hex.DecodeString(s.Signature)
		good = good || err == nil && ed25519.Verify(key, signedBytes(e.Feed), sig)
	}
	switch {
	case !known:
		return nil, bad("it is signed by a key that this version of Neuron does not know")
	case !good:
		return nil, bad("its signature is wrong")
	}
	f := new(Feed)
	// The form first: a newer one may have other types in its fields.
	var form struct {
		Form int `json:"form"`
	}
	if json.Unmarshal(e.Feed, &form) != nil {
		return nil, bad("it cannot be read")
	}
	if f.Form = form.Form; f.Form > Form {
		return nil, f.Check()
	}
	if err := json.Unmarshal(e.Feed, f); err != nil {
		return nil, bad("it cannot be read")
	}
	if err := f.Check(); err != nil {
		return nil, err
	}
	return f, nil
}

// ParseKey reads a public key of 64 hex digits.
func ParseKey(s string) (ed25519.PublicKey, error) {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "a release key is %d hex digits", 2*ed25519.PublicKeySize)
	}
	return raw, nil
}

// Seen is what a computer remembers of the feeds of one channel.
type Seen struct {
	Serial  int64  `json:"serial"`
	Version string `json:"version"` // the newest that was offered
	SHA256  string `json:"sha256"`  // of the signed form with Serial
}

// future is how far ahead of this computer's clock a feed may be issued.
const future = 24 * time.Hour

// Accept says whether a feed may be believed at this time on a computer that
// reads channel and has seen what was before. sum is the SHA-256 of its signed
// form, in hex. Error: update_invalid.
func (f *Feed) Accept(channel string, was Seen, sum string, now time.Time) error {
	switch {
	case f.Channel != channel:
		return bad("it is of the channel %s, and this computer follows %s", f.Channel, channel)
	case f.Issued.After(now.Add(future)):
		return bad("it is of %s, and it is %s: look at this computer's clock", f.Issued.UTC().Format(time.DateOnly), now.UTC().Format(time.DateOnly))
	case !now.Before(f.Expires):
		return bad("it was valid until %s: the server has an old one, or this computer's clock is wrong", f.Expires.UTC().Format(time.DateOnly))
	case f.Serial < was.Serial:
		return bad("it is older than the one that was read before (serial %d after %d)", f.Serial, was.Serial)
	case f.Serial == was.Serial && was.SHA256 != "" && sum != was.SHA256:
		return bad("it has the serial %d of another one that was read before", f.Serial)
	case was.Version != "" && Newer(was.Version, f.Version):
		return bad("it offers %s after %s", f.Version, was.Version)
	}
	return nil
}
