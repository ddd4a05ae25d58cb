package update

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/update/feed"
	"neuron/internal/proxy"
)

// Times of requests.
const (
	listTime  = 30 * time.Second // for the whole list
	headTime  = 30 * time.Second // until an answer begins
	silence   = time.Minute      // without a byte of a package
	redirects = 5
)

// errPlain ends a request that would go on without TLS.
var errPlain = protocol.Errorf(protocol.CodeUpdateInvalid, "the server sends on to an address without TLS, which is not followed")

// newClient makes requests that never leave https.
func newClient(t http.RoundTripper) *http.Client {
	if t == nil {
		t = &http.Transport{
			Proxy:               proxy.For,
			DialContext:         (&net.Dialer{Timeout: 15 * time.Second}).DialContext,
			TLSHandshakeTimeout: 15 * time.Second, ResponseHeaderTimeout: headTime, MaxResponseHeaderBytes: 64 << 10,
			MaxIdleConns: 2, IdleConnTimeout: 15 * time.Second, ForceAttemptHTTP2: true,
		}
	}
	return &http.Client{Transport: t, CheckRedirect: func(r *http.Request, via []*http.Request) error {
		if r.URL.Scheme != "https" {
			return errPlain
		}
		if len(via) >= redirects {
			return protocol.Errorf(protocol.CodeUnavailable, "the server sends on %d times", len(via))
		}
		return nil
	}}
}

// lostError is a server that was not reached, or did not answer to the end: it
// is worth another try soon.
type lostError struct{ err *protocol.Error }

func (e *lostError) Error() string { return e.err.Error() }
func (e *lostError) Unwrap() error { return e.err }

func lost(err error) error {
	var known *protocol.Error
	if errors.As(err, &known) {
		return known
	}
	return &lostError{protocol.Errorf(protocol.CodeUnavailable, "the server of the releases is not reached: %w", err)}
}

// get asks for an address from a byte on. The request tells the server nothing
// but the address: no version, no identity.
func (k *Keeper) get(ctx context.Context, address string, header http.Header) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodGet, address, nil)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the address of the releases cannot be used: %w", err)
	}
	if r.URL.Scheme != "https" {
		return nil, errPlain
	}
	r.Header = header
	r.Header.Set("User-Agent", "Neuron")
	// A compressed answer could not be resumed, nor bounded by its length.
	r.Header.Set("Accept-Encoding", "identity")
	resp, err := k.client.Do(r)
	if err != nil {
		return nil, lost(err)
	}
	return resp, nil
}

// read fetches the list.
func (k *Keeper) read(ctx context.Context, address string) ([]byte, error) {
	ctx, cancel := context.WithTimeout(ctx, listTime)
	defer cancel()
	resp, err := k.get(ctx, address, http.Header{"Cache-Control": {"no-cache"}})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the server of the releases answers %d %s", resp.StatusCode, http.StatusText(resp.StatusCode))
	}
	raw, err := io.ReadAll(io.LimitReader(resp.Body, feed.MaxBytes+1))
	if err != nil {
		return nil, lost(err)
	}
	return raw, nil // Parse refuses one byte too many
}
