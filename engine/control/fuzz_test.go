package control

import (
	"crypto/ed25519"
	"testing"

	"neuron/engine/protocol"
)

type fixedIdentity struct{}

func (fixedIdentity) ID() protocol.NodeID       { return protocol.NodeIDOf(fixedIdentity{}.Public()) }
func (fixedIdentity) Public() ed25519.PublicKey { return make([]byte, ed25519.PublicKeySize) }
func (fixedIdentity) Sign([]byte) []byte        { return nil }

// FuzzInbound feeds one message of a hostile tracker to the client: it may
// end the connection, but callbacks only ever get checked values.
func FuzzInbound(f *testing.F) {
	f.Add([]byte(`{"kind":"receipts","id":7,"body":{"verdicts":[{"status":"refused","error":{"code":"lease_expired","message":"too late"}}]}}`))
	f.Add([]byte(`{"kind":"lease","id":7,"body":{"lease":null}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		c, err := New(Options{
			URL: "http://tracker.invalid", Identity: fixedIdentity{},
			OnPeers: func(ps []protocol.Peer) {
				for _, p := range ps {
					if _, err := protocol.ParseNodeID(string(p.Node)); err != nil || p.Addr == "" {
						t.Errorf("peer %+v", p)
					}
				}
			},
			OnEndSession: func(s protocol.SessionID, e *protocol.Error) {
				if _, err := protocol.ParseSessionID(string(s)); err != nil || e == nil || e.Code == "" || len(e.Message) > maxSentence {
					t.Errorf("end of %q with %+v", s, e)
				}
			},
		})
		if err != nil {
			t.Fatal(err)
		}
		e, err := protocol.ParseEnvelope(raw)
		if err != nil {
			return
		}
		l := newLink(nil)
		answer := l.expect(7)
		if err := c.inbound(l, e); err != nil {
			if err.Error() == "" {
				t.Error("an ending without a reason")
			}
		}
		select {
		case a := <-answer:
			if a.ID != 7 {
				t.Errorf("answer with id %d", a.ID)
			}
			if list, err := verdicts(a, 1); err == nil {
				v := list[0]
				if v.Status == protocol.ReceiptRefused != (v.Error != nil) || v.Error != nil && (v.Error.Code == "" || len(v.Error.Message) > maxSentence) {
					t.Errorf("verdict %+v", v)
				}
			}
		default:
		}
	})
}
