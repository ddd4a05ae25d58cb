package signed

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"io"
	"net/http"
	"sync/atomic"
	"time"

	"neuron/engine/protocol"
)

// Client sends signed requests with JSON bodies. It is safe for concurrent use;
// its fields are set before the first one.
type Client struct {
	HTTP     *http.Client // its limits of time and its proxies are the caller's
	Key      ed25519.PrivateKey
	Audience ed25519.PublicKey // of the tracker, as its control channel told
	Now      func() time.Time  // default time.Now

	skew atomic.Int64 // how far the receiver's clock is ahead
}

// maxAnswer bounds what is read of an answer, in bytes.
const maxAnswer = 16 << 20

// Do sends in as JSON, or no body when it is nil, and reads the answer into out
// unless that is nil: a *[]byte gets the raw bytes, all else is JSON. A refusal
// because of this computer's clock is tried again once with the receiver's time.
// Errors: the receiver's own; unavailable when no answer comes,
// request_too_large, internal for an answer that cannot be read.
func (c *Client) Do(ctx context.Context, method, url string, in, out any) error {
	var body []byte
	if in != nil {
		var err error
		if body, err = json.Marshal(in); err != nil {
			return protocol.Errorf(protocol.CodeInternal, "encode a request: %w", err)
		}
		if len(body) > MaxBody {
			return protocol.Errorf(protocol.CodeRequestTooLarge, "the request has %d bytes, at most %d are taken", len(body), MaxBody)
		}
	}
	err := c.once(ctx, method, url, body, in != nil, out)
	if skew, ok := Skew(err, c.now()); ok {
		c.skew.Store(int64(skew))
		err = c.once(ctx, method, url, body, in != nil, out)
	}
	return err
}

func (c *Client) now() time.Time {
	if c.Now != nil {
		return c.Now()
	}
	return time.Now()
}

func (c *Client) once(ctx context.Context, method, url string, body []byte, hasBody bool, out any) error {
	req, err := http.NewRequestWithContext(ctx, method, url, bytes.NewReader(body))
	if err != nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "the address of the tracker is not well formed: %w", err)
	}
	if hasBody {
		req.Header.Set("Content-Type", "application/json")
	}
	SignAt(req, body, c.Key, c.Audience, c.now().Add(time.Duration(c.skew.Load())))
	res, err := c.HTTP.Do(req)
	if err != nil {
		return protocol.Errorf(protocol.CodeUnavailable, "the tracker does not answer: %w", err)
	}
	defer res.Body.Close()
	raw, err := io.ReadAll(io.LimitReader(res.Body, maxAnswer+1))
	if err != nil {
		return protocol.Errorf(protocol.CodeUnavailable, "the tracker's answer did not come whole: %w", err)
	}
	if len(raw) > maxAnswer {
		return protocol.Errorf(protocol.CodeRequestTooLarge, "the tracker's answer has more than %d bytes", maxAnswer)
	}
	if res.StatusCode >= 300 {
		e := new(protocol.Error)
		if json.Unmarshal(raw, e) != nil || e.Code == "" {
			e = protocol.Errorf(protocol.CodeUnavailable, "the tracker's address answered %d without a reason; a proxy may stand before it", res.StatusCode)
		}
		return e
	}
	switch out := out.(type) {
	case nil:
		return nil
	case *[]byte:
		*out = raw
		return nil
	}
	if err := json.Unmarshal(raw, out); err != nil {
		return protocol.Errorf(protocol.CodeInternal, "the tracker's answer cannot be read: %w", err)
	}
	return nil
}
