package seam_test

import (
	"crypto/tls"
	"encoding/json"
	"net"
	"net/http"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam"
	"neuron/internal/leaktest"
)

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
			c := seam.NewClient(newID(t), seam.WithLiveness(silence, silence/4))
			defer c.Close()
			hop := protocol.Hop{Node: id.ID(), Addr: l.Addr().String()}
			r, err := c.Open(t.Context(), hop, &protocol.OpenRequest{Hop: 2})
			if signs {
				if err != nil || r.Session != session {
					t.Fatalf("%+v, %v", r, err)
				}
				return
			}
			wantHop(t, "open", wantCode(t, "open", err, protocol.CodeStageFrozen), 2, protocol.PhaseOpening)
		})
	}
}
