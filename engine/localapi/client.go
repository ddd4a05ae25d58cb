package localapi

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"net"
	"net/http"
	"path/filepath"
	"time"

	"neuron/engine/protocol"
)

// Client talks to the engine of one data folder. It is safe for concurrent use
// and starts no goroutines but those of its connections.
type Client struct {
	dir  string // the data folder
	addr Address
	http *http.Client
	dial func(ctx context.Context, network, addr string) (net.Conn, error)
}

// noEngine is what people see when there is nothing to talk to.
func noEngine(cause error) *protocol.Error {
	if cause == nil {
		return protocol.Errorf(protocol.CodeUnavailable, "no engine is running with this data folder")
	}
	return protocol.Errorf(protocol.CodeUnavailable, "no engine is running with this data folder: %w", cause)
}

// dialTimeout bounds the check that Dial makes.
const dialTimeout = 5 * time.Second

// Dial finds the engine that runs with dataDir and asks it for its status, so
// that a stale address file is noticed. Errors: unavailable when no engine
// runs there, data_folder when its address file is damaged or not ours.
func Dial(dataDir string) (*Client, error) {
	b, err := readSmall(filepath.Join(dataDir, AddressFile))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, noEngine(nil)
	}
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "read the engine's address: %w", err)
	}
	a, err := ParseAddress(b)
	if err != nil {
		return nil, err
	}
	d := net.Dialer{Timeout: 2 * time.Second}
	c := &Client{dir: dataDir, addr: *a, dial: d.DialContext, http: &http.Client{
		// No proxy, and no redirect that could carry the token elsewhere.
		Transport:     &http.Transport{DialContext: d.DialContext, MaxIdleConns: 2, IdleConnTimeout: 30 * time.Second},
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
	}}
	ctx, cancel := context.WithTimeout(context.Background(), dialTimeout)
	defer cancel()
	if _, err := c.Status(ctx); err != nil {
		c.Close()
		// Another program may have taken the port of an engine that crashed.
		var e *protocol.Error
		if errors.As(err, &e) && e.Code == protocol.CodeUnavailable {
			return nil, e
		}
		return nil, noEngine(err)
	}
	return c, nil
}

// Address is where the engine listens.
func (c *Client) Address() Address { return c.addr }

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// Status asks for the engine's status.
func (c *Client) Status(ctx context.Context) (*Status, error) {
	var s Status
	if err := c.get(ctx, pathStatus, &s); err != nil {
		return nil, err
	}
	return &s, nil
}

// Models lists the models that the engine knows.
func (c *Client) Models(ctx context.Context) ([]Model, error) {
	var m models
	if err := c.get(ctx, pathModels, &m); err != nil {
		return nil, err
	}
	return m.Models, nil
}

// Sessions lists the sessions that run on this node's shards.
func (c *Client) Sessions(ctx context.Context) ([]protocol.SessionState, error) {
	var s sessions
	if err := c.get(ctx, pathSessions, &s); err != nil {
		return nil, err
	}
	return s.Sessions, nil
}

// Shutdown asks the engine to stop; it returns when the engine has agreed.
func (c *Client) Shutdown(ctx context.Context) error {
	return c.post(ctx, pathShutdown, nil)
}

// Hold changes what the node holds; see Source.
func (c *Client) Hold(ctx context.Context, h Hold) error { return c.post(ctx, pathHold, h) }

// Share says whether others may use this node.
func (c *Client) Share(ctx context.Context, on bool) error { return c.post(ctx, pathShare, share{on}) }

// Plans says what this computer could hold.
func (c *Client) Plans(ctx context.Context) ([]Plan, error) {
	var p plans
	if err := c.get(ctx, pathPlans, &p); err != nil {
		return nil, err
	}
	return p.Plans, nil
}

// post sends an order; nil has no body.
func (c *Client) post(ctx context.Context, path string, body any) error {
	var raw []byte
	if body != nil {
		var err error
		if raw, err = json.Marshal(body); err != nil {
			return protocol.Errorf(protocol.CodeInternal, "encode the order: %w", err)
		}
	}
	resp, err := c.do(ctx, http.MethodPost, path, raw)
	if err != nil {
		return err
	}
	resp.Body.Close()
	return nil
}

// maxAnswer bounds an answer and one event, in bytes.
const maxAnswer = 8 << 20

func (c *Client) get(ctx context.Context, path string, out any) error {
	resp, err := c.do(ctx, http.MethodGet, path, nil)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return noEngine(err)
	}
	if len(b) > maxAnswer {
		return protocol.Errorf(protocol.CodeRequestTooLarge, "the engine's answer exceeds %d bytes", maxAnswer)
	}
	if err := json.Unmarshal(b, out); err != nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "the engine's answer is malformed: %w", err)
	}
	return nil
}

func (c *Client) do(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.addr.URL+path, bytes.NewReader(body))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "make the request: %w", err)
	}
	req.Header.Set("Authorization", "Bearer "+c.addr.Token)
	resp, err := c.http.Do(req)
	if err != nil {
		if ctx.Err() != nil {
			return nil, protocol.Errorf(protocol.CodeCancelled, "the request to the engine ended: %w", ctx.Err())
		}
		return nil, c.lost(err)
	}
	if resp.StatusCode < 300 {
		return resp, nil
	}
	defer resp.Body.Close()
	return nil, c.refused(resp)
}

// refused is the error of an answer that is none.
func (c *Client) refused(resp *http.Response) *protocol.Error {
	b, _ := io.ReadAll(io.LimitReader(resp.Body, 64<<10)) // a short body is judged below
	var eb errorBody
	if json.Unmarshal(b, &eb) != nil || eb.Error == nil || eb.Error.Code == "" {
		return protocol.Errorf(protocol.CodeInvalidRequest, "the engine answered with status %d", resp.StatusCode)
	}
	if eb.Error.Code == protocol.CodeUnauthorized {
		return tokenGone()
	}
	return eb.Error
}

// tokenGone is for a token that does not count any more.
func tokenGone() *protocol.Error {
	return protocol.Errorf(protocol.CodeUnauthorized, "the engine does not accept the token of this connection any more: it was renewed, or the engine was restarted; connect again")
}

// lost says what became of an engine that does not answer any more.
func (c *Client) lost(cause error) *protocol.Error {
	b, err := readSmall(filepath.Join(c.dir, AddressFile))
	if err == nil {
		if a, err := ParseAddress(b); err == nil && *a != c.addr {
			return protocol.Errorf(protocol.CodeUnavailable, "the engine was restarted, and has another address and token now; connect again")
		}
	}
	return noEngine(cause)
}
