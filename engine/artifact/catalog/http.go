package catalog

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"time"

	"neuron/engine/protocol"
)

const (
	maxList = 16 << 20
	// answerTimeout bounds the time until an answer begins. The whole answer
	// may then take as long as its limit takes at slowest bytes per second.
	answerTimeout = 30 * time.Second
	slowest       = 128 << 10
)

// noRedirect keeps the token, and what this node asks for, at the tracker.
func noRedirect(req *http.Request, _ []*http.Request) error {
	return protocol.Errorf(protocol.CodeUnavailable, "the tracker sends this node to %s; give that address instead", req.URL.Redacted())
}

// get asks the tracker for one document of at most most bytes. Errors: the
// tracker's own, unavailable, timeout, model_invalid for one that is too long.
func (c *Client) get(ctx context.Context, path string, most int64) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, answerTimeout+time.Duration(most/slowest)*time.Second)
	defer cancel()
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, c.base+path, http.NoBody)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "ask the tracker: %w", err)
	}
	if t := c.token(); t != "" {
		req.Header.Set("Authorization", "Bearer "+t)
	}
	resp, err := c.http.Do(req)
	if err != nil {
		return nil, broken(ctx, "the tracker does not answer", err)
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		most = maxError
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, most+1))
	switch {
	case err != nil:
		return nil, broken(ctx, "the tracker's answer broke off", err)
	case resp.StatusCode != http.StatusOK:
		return nil, answerError(resp.StatusCode, raw)
	case int64(len(raw)) > most:
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "the tracker's answer to %s has more than %d bytes", path, most)
	}
	return raw, nil
}

func broken(ctx context.Context, what string, err error) error {
	var coded *protocol.Error // of noRedirect
	switch {
	case errors.As(err, &coded):
		return coded
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return protocol.Errorf(protocol.CodeTimeout, "%s in time", what)
	case ctx.Err() != nil:
		return protocol.Errorf(protocol.CodeCancelled, "%s: %w", what, ctx.Err())
	}
	return protocol.Errorf(protocol.CodeUnavailable, "%s: %w", what, err)
}

const maxError = 64 << 10

// passed are the codes that the tracker may give for its own part; with any
// other one it would speak of this computer.
var passed = map[protocol.Code]bool{
	protocol.CodeModelUnknown: true, protocol.CodeNotFound: true, protocol.CodeForbidden: true, protocol.CodeUnauthorized: true,
	protocol.CodeRateLimited: true, protocol.CodeUnavailable: true, protocol.CodeInvalidRequest: true, protocol.CodeShutdown: true,
}

// answerError is the tracker's own error, or one by the HTTP status.
func answerError(status int, raw []byte) error {
	var e protocol.Error
	if json.Unmarshal(raw, &e) == nil && passed[e.Code] && len(e.Message) < 1000 {
		return protocol.Errorf(e.Code, "the tracker says: %s", e.Message)
	}
	switch status {
	case http.StatusNotFound:
		return protocol.Errorf(protocol.CodeModelUnknown, "the tracker does not have this model")
	case http.StatusUnauthorized, http.StatusForbidden:
		return protocol.Errorf(protocol.CodeForbidden, "the tracker does not give this model to this node")
	case http.StatusTooManyRequests:
		return protocol.Errorf(protocol.CodeRateLimited, "the tracker has had too many requests from here")
	}
	return protocol.Errorf(protocol.CodeUnavailable, "the tracker answered with status %d", status)
}
