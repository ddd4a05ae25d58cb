package session_test

import (
	"encoding/json"
	"strings"
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/session"
	"neuron/engine/session/sessiontest"
)

// TestPolicyAndPayer: what the client wants of the route and who pays for it
// reach the tracker; the key reaches nobody else.
func TestPolicyAndPayer(t *testing.T) {
	const key = "nk-abcdefgh-secret"
	var log strings.Builder
	run(t, sessiontest.Script{Answer: []int32{7}}, func(o *session.Options) {
		o.APIKey, o.Logger = key, textLogger(&log)
	}, func(w *world) {
		for _, policy := range []string{protocol.PolicyPrivate, protocol.PolicyPublic} {
			r := ask(1, 3)
			r.Policy = policy
			g := w.start(r)
			if _, _, _, err := answer(g); err != nil {
				t.Fatal(err)
			}
			w.n.Look(func() {
				if got := w.n.Requests[len(w.n.Requests)-1]; got.Policy != policy || got.APIKey != key || got.Nodes != nil {
					t.Errorf("%s: asked with policy %q, a key of %d bytes, nodes %v", policy, got.Policy, len(got.APIKey), got.Nodes)
				}
			})
			told, err := json.Marshal(w.last(g))
			if err != nil || strings.Contains(string(told), "secret") {
				t.Errorf("telemetry %s, %v", told, err)
			}
		}
		w.n.Look(func() {
			opened, err := json.Marshal(w.n.Opened)
			if err != nil || len(w.n.Opened) == 0 || strings.Contains(string(opened), "secret") {
				t.Errorf("what hops got: %s, %v", opened, err)
			}
		})
		if strings.Contains(log.String(), "secret") {
			t.Errorf("log:\n%s", log.String())
		}
	})
}
