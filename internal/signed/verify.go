package signed

import (
	"crypto/ed25519"
	"errors"
	"io"
	"net/http"
	"strconv"
	"time"

	"neuron/engine/protocol"
)

// Options configures a Verifier.
type Options struct {
	// Audience is the receiver's own public key.
	Audience ed25519.PublicKey
	// Now is the receiver's clock; default time.Now.
	Now func() time.Time
	// Known says that a key belongs to somebody here. It is asked only when
	// strangers' keys fill their half of the memory, and may block; nil knows
	// nobody. Its context is the request's.
	Known func(r *http.Request, key ed25519.PublicKey) bool
}

// Verifier checks signed requests. It is safe for concurrent use, has no
// goroutines, and holds at most some 50 MB.
type Verifier struct {
	o      Options
	nonces nonces
}

// NewVerifier makes a Verifier. Requests that were signed before this moment are
// refused: what came before a restart is not known any more, so it may be a
// replay.
func NewVerifier(o Options) *Verifier {
	if o.Now == nil {
		o.Now = time.Now
	}
	return &Verifier{o: o, nonces: nonces{floor: o.Now().UnixMilli(), keys: make(map[[ed25519.PublicKeySize]byte]*seen)}}
}

// Read reads the body of r, at most MaxBody bytes within 15 seconds, and
// verifies r. Errors: those of Verify; request_too_large; timeout or
// invalid_request for a body that does not come.
func (v *Verifier) Read(w http.ResponseWriter, r *http.Request) (ed25519.PublicKey, []byte, error) {
	body, err := ReadBody(w, r)
	if err != nil {
		return nil, nil, err
	}
	key, err := v.Verify(r, body)
	return key, body, err
}

const bodyTime = 15 * time.Second

// ReadBody reads the body of r, at most MaxBody bytes within 15 seconds. Errors:
// request_too_large; timeout or invalid_request for a body that does not come.
func ReadBody(w http.ResponseWriter, r *http.Request) ([]byte, error) {
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(bodyTime)) // writers of tests have none
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, MaxBody))
	_ = rc.SetReadDeadline(time.Time{})
	var large *http.MaxBytesError
	var slow interface{ Timeout() bool }
	switch {
	case errors.As(err, &large):
		return nil, protocol.Errorf(protocol.CodeRequestTooLarge, "the body is larger than %d bytes", MaxBody)
	case errors.As(err, &slow) && slow.Timeout():
		return nil, protocol.Errorf(protocol.CodeTimeout, "the body did not come within %s", bodyTime)
	case err != nil:
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the body did not come whole")
	}
	return body, nil
}

// Verify checks the signature of r over body, its time, and that it comes for
// the first time, and returns the key that signed. Errors: unauthorized, with
// the receiver's time where it is about that (see Skew); rate_limited when no
// more new keys can be remembered; request_too_large.
func (v *Verifier) Verify(r *http.Request, body []byte) (ed25519.PublicKey, error) {
	if len(body) > MaxBody {
		return nil, protocol.Errorf(protocol.CodeRequestTooLarge, "the body is larger than %d bytes", MaxBody)
	}
	header := r.Header.Values("Authorization")
	if len(header) != 1 {
		return nil, errHeader
	}
	a, err := parse(header[0])
	if err != nil {
		return nil, err
	}
	target := r.URL.RequestURI()
	if len(target) > maxTarget {
		return nil, protocol.Errorf(protocol.CodeRequestTooLarge, "the path is longer than %d bytes", maxTarget)
	}
	now := v.o.Now().UnixMilli()
	if a.at < now-Window.Milliseconds() || a.at > now+Window.Milliseconds() {
		return nil, timeError(now, "the request was signed at a time more than %d minutes from now: set the computer's clock", int(Window/time.Minute))
	}
	key := ed25519.PublicKey(a.key[:])
	if !ed25519.Verify(key, a.payload(r.Method, target, body, v.o.Audience), a.sig[:]) {
		return nil, protocol.Errorf(protocol.CodeUnauthorized, "the signature is wrong, of another request, or for another tracker")
	}
	return key, v.nonces.take(now, a, func() bool { return v.o.Known != nil && v.o.Known(r, key) })
}

// timeError tells the receiver's time.
func timeError(now int64, format string, args ...any) error {
	return protocol.Errorf(protocol.CodeUnauthorized, format, args...).With(timeDetail, strconv.FormatInt(now, 10))
}
