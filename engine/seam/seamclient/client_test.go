package seamclient

import (
	"crypto/tls"
	"encoding/json"
	"errors"
	"io"
	"net"
	"net/http"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/identity"
	"neuron/internal/leaktest"
)

func newID(t *testing.T) *identity.Identity {
	t.Helper()
	id, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

func wantCode(t *testing.T, what string, err error, code protocol.Code) *protocol.Error {
	t.Helper()
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("%s: error %v, want %s", what, err, code)
	}
	return e
}

// wantAt checks that e names a hop of the route being opened.
func wantAt(t *testing.T, what string, e *protocol.Error, hop int) {
	t.Helper()
	if e.Hop == nil || *e.Hop != hop || e.Phase != protocol.PhaseOpening {
		t.Fatalf("%s: %v in phase %q, want hop %d while opening", what, e, e.Phase, hop)
	}
}

// TestOpeningNeedsSignsOfLife: a node that works on an open for longer than
// the allowed silence is waited for while it gives signs, and is lost when it
// gives none.
func TestOpeningNeedsSignsOfLife(t *testing.T) {
	leaktest.Check(t)
	const silence = 400 * time.Millisecond
	id := newID(t)
	for name, signs := range map[string]bool{"busy": true, "frozen": false} {
		t.Run(name, func(t *testing.T) {
			session := protocol.NewSessionID()
			over := make(chan struct{})
			handler := func(w http.ResponseWriter, r *http.Request) {
				end := time.After(3 * silence)
				tick := time.NewTicker(silence / 4)
				defer tick.Stop()
				for {
					select {
					case <-tick.C:
						if signs {
							w.WriteHeader(http.StatusProcessing)
						}
						continue
					case <-over:
					case <-end:
					}
					break
				}
				w.WriteHeader(http.StatusCreated)
				json.NewEncoder(w).Encode(protocol.OpenReply{Session: session})
			}
			l, err := net.Listen("tcp", "127.0.0.1:0")
			if err != nil {
				t.Fatal(err)
			}
			s := &http.Server{Handler: http.HandlerFunc(handler)}
			served := make(chan struct{})
			go func() {
				defer close(served)
				s.Serve(tls.NewListener(l, id.ServerTLS()))
			}()
			defer func() { close(over); s.Close(); <-served }()
			c := New(newID(t), WithLiveness(silence, silence/4))
			defer c.Close()
			hop := protocol.Hop{Node: id.ID(), Addr: l.Addr().String()}
			r, err := c.Open(t.Context(), hop, &protocol.OpenRequest{Hop: 2})
			if signs {
				if err != nil || r.Session != session {
					t.Fatalf("%+v, %v", r, err)
				}
				return
			}
			wantAt(t, "open", wantCode(t, "open", err, protocol.CodeStageFrozen), 2)
		})
	}
}

// TestSilentHeaders dials a peer that takes the request and never answers: our
// own timer ends it, whatever the transport thinks.
func TestSilentHeaders(t *testing.T) {
	leaktest.Check(t)
	id := newID(t)
	l, err := tls.Listen("tcp", "127.0.0.1:0", id.ServerTLS())
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			defer c.Close()
			go io.Copy(io.Discard, c)
		}
	}()
	defer func() { l.Close(); <-done }()
	for _, opts := range [][]Option{nil, {WithUpgrade()}} {
		c := New(newID(t), append(opts, WithHeaderWait(300*time.Millisecond))...)
		defer c.Close()
		hop := protocol.Hop{Node: id.ID(), Addr: l.Addr().String()}
		start := time.Now()
		_, err = c.Stream(t.Context(), hop, protocol.NewSessionID())
		wantAt(t, "stream", wantCode(t, "stream", err, protocol.CodeTimeout), 0)
		if d := time.Since(start); d > 2*time.Second {
			t.Errorf("gave up after %s", d)
		}
		_, err = c.Tokens(t.Context(), hop, protocol.NewSessionID())
		wantCode(t, "tokens", err, protocol.CodeTimeout)
	}
}
