package seam

import "neuron/engine/protocol"

// Receipts keeps the receipts of a node's hops. engine/receipt/hooks makes one
// of a node's book. Safe for concurrent use.
type Receipts interface {
	// Open begins the receipts of a hop whose lease was verified; c is the
	// report of the stage that will run it.
	Open(l *protocol.Lease, signed *protocol.SignedLease, hop int, c protocol.Capability) (HopReceipts, error)
	// Find is what Open returned, from then until some time after Close; code
	// session_unknown.
	Find(id protocol.SessionID, hop int) (HopReceipts, error)
}

// HopReceipts are the receipts of one session on one hop.
//
// The first five methods note frames, each from one goroutine at a time, where
// they pass: on the way of every step, so they neither wait nor start anything.
// Frames are not kept.
type HopReceipts interface {
	// In notes a row frame before the stage gets it.
	In(f *protocol.Frame)
	// Truncate notes a truncate frame as it came, in order with the rows.
	Truncate(f *protocol.Frame)
	// Executed notes rows that the stage has acknowledged, before anybody is
	// told.
	Executed(epoch, pos uint32)
	// Out notes a row frame before the next hop gets it, on the tail a token
	// before the driver does.
	Out(f *protocol.Frame)
	// Acked notes rows that the next hop has acknowledged.
	Acked(epoch, pos uint32)
	// Overdue is the reason to end the session because the receiver of its
	// frames does not sign, nil mostly. Code: receipt_unsigned.
	Overdue() error
	// Close says that the session has ended: no frame is noted any more.
	Close()

	// Countersign signs a receipt of the previous hop; Mark tells that hop
	// where the session ended, or unavailable while that is not known.
	Countersign(half []byte) ([]byte, error)
	Mark() (protocol.ReceiptMark, error)
	// Pending, Complete and CloseTail serve the driver on the tail: receipts
	// that it has to sign, one that it has signed, and how far it has come.
	Pending() [][]byte
	Complete(full []byte) error
	CloseTail(m protocol.ReceiptMark)
}

// openReceipts begins the receipts of a hop. A private route has none: it is
// between nodes of one owner, and nobody is paid.
func (s *Server) openReceipts(l *protocol.Lease, signed *protocol.SignedLease, hop int, c protocol.Capability) (HopReceipts, error) {
	if s.o.Receipts == nil || l.Policy == protocol.PolicyPrivate {
		return noReceipts{}, nil
	}
	return s.o.Receipts.Open(l, signed, hop, c)
}

// noReceipts is the HopReceipts of a session without any.
type noReceipts struct{}

func (noReceipts) In(*protocol.Frame)                 {}
func (noReceipts) Truncate(*protocol.Frame)           {}
func (noReceipts) Executed(uint32, uint32)            {}
func (noReceipts) Out(*protocol.Frame)                {}
func (noReceipts) Acked(uint32, uint32)               {}
func (noReceipts) Overdue() error                     { return nil }
func (noReceipts) Close()                             {}
func (noReceipts) Countersign([]byte) ([]byte, error) { return nil, errNoReceipts }
func (noReceipts) Mark() (protocol.ReceiptMark, error) {
	return protocol.ReceiptMark{}, errNoReceipts
}
func (noReceipts) Pending() [][]byte              { return nil }
func (noReceipts) Complete([]byte) error          { return errNoReceipts }
func (noReceipts) CloseTail(protocol.ReceiptMark) {}

var errNoReceipts = errorf(protocol.CodeSessionUnknown, "the session has no receipts")

// overdue ends the session when the receiver of its frames does not sign for
// them; the next hop is named, a driver is nobody to the tracker.
func (s *session) overdue() bool {
	err := s.rec.Overdue()
	if err == nil {
		return false
	}
	e := protocol.AsError(err)
	if s.tail {
		s.end(e, "")
	} else {
		s.end(e.AtHop(s.hop+1), s.lease.Hops[s.hop+1].Node)
	}
	return true
}
