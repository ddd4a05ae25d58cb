// Package signed is HTTP requests that an Ed25519 key signs: there is no
// password and no cookie, whoever holds the key of an owner or a node is that
// owner or node.
//
// Clients use Sign, servers a Verifier. Engine, window and tracker may import
// it; of our packages it imports engine/protocol only. It knows keys, not who
// they belong to or what they may do.
package signed

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/binary"
	"net/http"
	"strconv"
	"strings"
	"time"

	"neuron/engine/protocol"
)

const (
	// MaxBody bounds the body of a signed request, in bytes.
	MaxBody = 64 << 10
	// Window is how far the time of a request may be from the receiver's clock,
	// before and after.
	Window = 5 * time.Minute

	scheme    = "Neuron "
	domain    = "neuron-signed-request-v1\x00"
	nonceSize = 16
	maxHeader = 256 // bytes of the Authorization header; a real one has 194
	maxTarget = 4096
)

// auth is the content of an Authorization header.
type auth struct {
	key   [ed25519.PublicKeySize]byte
	at    int64 // milliseconds since 1970
	nonce [nonceSize]byte
	sig   [ed25519.SignatureSize]byte
}

func (a *auth) String() string {
	enc := base64.RawURLEncoding.EncodeToString
	return scheme + "key=" + enc(a.key[:]) + ", at=" + strconv.FormatInt(a.at, 10) + ", nonce=" + enc(a.nonce[:]) + ", sig=" + enc(a.sig[:])
}

var errHeader = protocol.Errorf(protocol.CodeUnauthorized, "this request has to be signed: the Authorization header is not Neuron key=, at=, nonce=, sig=")

// parse reads a header in the one form that String writes. Error: unauthorized.
func parse(h string) (*auth, error) {
	rest, ok := strings.CutPrefix(h, scheme)
	if !ok || len(h) > maxHeader {
		return nil, errHeader
	}
	a := new(auth)
	parts := strings.Split(rest, ", ")
	if len(parts) != 4 {
		return nil, errHeader
	}
	for i, f := range []struct {
		name string
		to   []byte
	}{{"key=", a.key[:]}, {"at=", nil}, {"nonce=", a.nonce[:]}, {"sig=", a.sig[:]}} {
		v, ok := strings.CutPrefix(parts[i], f.name)
		if !ok {
			return nil, errHeader
		}
		if f.to == nil {
			n, err := strconv.ParseInt(v, 10, 64)
			if err != nil || n <= 0 {
				return nil, errHeader
			}
			a.at = n
			continue
		}
		raw, err := base64.RawURLEncoding.Strict().DecodeString(v)
		if err != nil || len(raw) != len(f.to) {
			return nil, errHeader
		}
		copy(f.to, raw)
	}
	// One spelling only: Go's readers forgive line breaks, signs and zeros.
	if a.String() != h {
		return nil, errHeader
	}
	return a, nil
}

// payload is what is signed: the domain, then the audience, the time, the
// nonce, the SHA-256 of the body, and the method and the path with its query,
// these two with their length in front (4 bytes little-endian).
func (a *auth) payload(method, target string, body []byte, audience ed25519.PublicKey) []byte {
	sum := sha256.Sum256(body)
	out := append(make([]byte, 0, 256), domain...)
	out = append(out, audience...)
	out = binary.LittleEndian.AppendUint64(out, uint64(a.at))
	out = append(out, a.nonce[:]...)
	out = append(out, sum[:]...)
	for _, s := range []string{method, target} {
		out = binary.LittleEndian.AppendUint32(out, uint32(len(s)))
		out = append(out, s...)
	}
	return out
}

// Sign signs req with key, for the receiver whose public key is audience, at
// this computer's time. body has to be what req sends. A request is signed anew
// for each try: a signature is taken once.
func Sign(req *http.Request, body []byte, key ed25519.PrivateKey, audience ed25519.PublicKey) {
	SignAt(req, body, key, audience, time.Now())
}

// SignAt is Sign with another clock; see Skew.
func SignAt(req *http.Request, body []byte, key ed25519.PrivateKey, audience ed25519.PublicKey, at time.Time) {
	a := &auth{at: at.UnixMilli()}
	copy(a.key[:], key.Public().(ed25519.PublicKey))
	rand.Read(a.nonce[:]) // never fails (crypto/rand)
	method := req.Method
	if method == "" {
		method = http.MethodGet
	}
	copy(a.sig[:], ed25519.Sign(key, a.payload(method, req.URL.RequestURI(), body, audience)))
	req.Header.Set("Authorization", a.String())
}

// timeDetail is the detail of an error that tells the receiver's time, in
// milliseconds since 1970.
const timeDetail = "time_ms"

// Skew reads the receiver's time out of a refusal and reports how far ahead of
// now it is: add that to the time for SignAt and try once more. It reports false
// when the refusal is not about the time.
func Skew(err error, now time.Time) (time.Duration, bool) {
	e := protocol.AsError(err)
	if e == nil || e.Code != protocol.CodeUnauthorized {
		return 0, false
	}
	ms, perr := strconv.ParseInt(e.Detail[timeDetail], 10, 64)
	if perr != nil || ms <= 0 {
		return 0, false
	}
	return time.UnixMilli(ms).Sub(now), true
}
