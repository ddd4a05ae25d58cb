package manifest

import (
	"bytes"
	"crypto/ed25519"
	"encoding/hex"

	"neuron/engine/protocol"
)

// domain keeps signatures of manifests apart from all others of the same key.
const domain = "neuron-manifest-v1\x00"

// The signed form is these around the canonical manifest, the publisher's key
// and the signature in lower-case hex: JSON again, and one form only.
const (
	openPart      = `{"manifest":`
	publisherPart = `,"publisher":"`
	signaturePart = `","signature":"`
	closePart     = `"}`

	keyDigits = 2 * ed25519.PublicKeySize
	sigDigits = 2 * ed25519.SignatureSize
	trailer   = len(publisherPart) + keyDigits + len(signaturePart) + sigDigits + len(closePart)
	envelope  = len(openPart) + trailer
)

// Signed is a manifest that somebody vouches for. Whether Publisher may be
// believed, the reader decides.
type Signed struct {
	Manifest  *Manifest
	Publisher ed25519.PublicKey
	// Raw is the whole signed form: what is stored, sent, and read by
	// ParseSigned. Do not change it.
	Raw []byte
}

// Sign signs m with the publisher's key. The same manifest and key give the
// same bytes.
func Sign(m *Manifest, key ed25519.PrivateKey) (*Signed, error) {
	if len(key) != ed25519.PrivateKeySize {
		return nil, protocol.Errorf(protocol.CodeInternal, "sign manifest: the key has %d bytes", len(key))
	}
	body, err := Encode(m)
	if err != nil {
		return nil, err
	}
	pub := key.Public().(ed25519.PublicKey)
	raw := make([]byte, 0, len(body)+envelope)
	raw = append(append(raw, openPart...), body...)
	raw = hex.AppendEncode(append(raw, publisherPart...), pub)
	raw = hex.AppendEncode(append(raw, signaturePart...), ed25519.Sign(key, append([]byte(domain), body...)))
	return &Signed{m, pub, append(raw, closePart...)}, nil
}

// ParseSigned reads what Sign wrote. It refuses (model_invalid) everything
// else: another encoding of the same content, a field too many, a wrong
// signature, figures that do not pass Check. b is kept.
func ParseSigned(b []byte) (*Signed, error) {
	if len(b) > MaxBytes {
		return nil, bad("%d bytes, at most %d are allowed", len(b), MaxBytes)
	}
	if len(b) < envelope || !bytes.HasPrefix(b, []byte(openPart)) {
		return nil, bad("not a signed manifest")
	}
	body, end := b[len(openPart):len(b)-trailer], &reader{b: b[len(b)-trailer:]}
	pub := end.hex(publisherPart, keyDigits)
	sig := end.hex(signaturePart, sigDigits)
	end.take(closePart)
	if end.err != nil {
		return nil, end.err
	}
	if !ed25519.Verify(pub, append([]byte(domain), body...), sig) {
		return nil, bad("the signature is wrong")
	}
	m, err := decode(body)
	if err != nil {
		return nil, err
	}
	return &Signed{m, pub, b}, nil
}

// hex reads digits lower-case hex digits after a prefix.
func (r *reader) hex(prefix string, digits int) []byte {
	r.take(prefix)
	if r.err != nil {
		return nil
	}
	raw, err := hex.DecodeString(string(r.b[:digits]))
	if err != nil || hex.EncodeToString(raw) != string(r.b[:digits]) {
		r.fail("%.40q is not lower-case hex", r.b[:digits])
		return nil
	}
	r.b = r.b[digits:]
	return raw
}
