package seam

import (
	"slices"
	"testing"

	"neuron/engine/protocol"
)

// seen notes what taps are shown.
type seen struct{ in, out []protocol.Kind }

func (s *seen) Received(_ protocol.SessionID, f *protocol.Frame) { s.in = append(s.in, f.Kind) }
func (s *seen) Sent(_ protocol.SessionID, f *protocol.Frame)     { s.out = append(s.out, f.Kind) }

// TestTaps: rows of public sessions are shown, everything else is not.
func TestTaps(t *testing.T) {
	t.Parallel()
	all := []protocol.Kind{protocol.KindPrefill, protocol.KindDecode, protocol.KindVerify, protocol.KindTruncate, protocol.KindCancel, protocol.KindToken}
	for policy, want := range map[string][]protocol.Kind{protocol.PolicyPublic: all[:3], protocol.PolicyPrivate: nil} {
		taps := new(seen)
		s := &session{srv: &Server{o: ServerOptions{Taps: taps}}, lease: &protocol.Lease{Policy: policy}}
		for _, k := range all {
			f := &protocol.Frame{Header: protocol.Header{Kind: k}}
			s.tapped(f, Taps.Received)
			s.tapped(f, Taps.Sent)
		}
		if !slices.Equal(taps.in, want) || !slices.Equal(taps.out, want) {
			t.Errorf("%s: received %v, sent %v", policy, taps.in, taps.out)
		}
	}
	none := &session{srv: &Server{}, lease: &protocol.Lease{Policy: protocol.PolicyPublic}}
	none.tapped(&protocol.Frame{Header: protocol.Header{Kind: protocol.KindDecode}}, Taps.Received)
}
