package receipt

import (
	"time"

	"neuron/engine/protocol"
)

// Countersign is the receiver's side: it signs a half-signed receipt in its
// wire form if it says what came over the seam, and returns it. The same
// receipt is signed as often as it comes; another one for the same span never.
// Codes: receipt_invalid, unauthorized, receipt_conflict, not_found,
// unavailable when this side has not come so far.
func (s *Session) Countersign(raw []byte) ([]byte, error) {
	out, err := s.countersign(raw)
	s.b.count(func(st *Stats) {
		switch {
		case err == nil:
			st.Given++
		case protocol.AsError(err).Code != protocol.CodeUnavailable:
			st.Denied++
		}
	})
	return out, err
}

func (s *Session) countersign(raw []byte) ([]byte, error) {
	sr, r, err := protocol.ParseSignedReceipt(raw)
	if err != nil {
		return nil, err
	}
	from := s.hop - 1
	if s.hop < 0 {
		from = len(s.lease.Hops) - 1
	}
	if from < 0 {
		return nil, protocol.Errorf(protocol.CodeReceiptInvalid, "no hop comes before this one")
	}
	if err := r.CheckLease(s.lease, s.hash); err != nil {
		return nil, err
	}
	if r.Hop != from || r.Receiver != s.b.o.Identity.ID() {
		return nil, protocol.Errorf(protocol.CodeReceiptInvalid, "the receipt of hop %d is not for this node to sign", r.Hop)
	}
	if d := s.b.o.Now().Sub(r.Time).Abs(); d > protocol.ReceiptSkew {
		return nil, protocol.Errorf(protocol.CodeReceiptInvalid, "the receipt's time is %s away from this node's", d.Round(time.Second))
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if old := s.given[r.Span.Seq]; old != nil {
		if old.ID() != sr.ID() {
			return nil, protocol.Errorf(protocol.CodeReceiptConflict, "another receipt was signed for span %d", r.Span.Seq)
		}
		return old.Encode(), nil
	}
	if s.broken {
		return nil, protocol.Errorf(protocol.CodeNotFound, "this node keeps no receipts of the session")
	}
	if err := s.spans.Check(r.Span); err != nil {
		return nil, err
	}
	if s.hop < 0 && from == 0 {
		if err := s.spans.CheckInput(r.Span); err != nil {
			return nil, err
		}
	}
	full := sr.Countersign(s.b.o.Identity.PrivateKey())
	s.given[r.Span.Seq] = full
	return full.Encode(), nil
}
