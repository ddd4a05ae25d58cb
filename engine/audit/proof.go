package audit

import (
	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
)

// proven counts the rows whose frames are those of which both ends of the
// audited hop have signed the roots. Receipts that cover rolled back rows,
// later epochs, or rows that were not kept count nothing. Codes:
// receipt_invalid, unauthorized for receipts that do not belong here,
// receipt_conflict when a keeper sent something else than what was signed.
func proven(t *auditmsg.AuditTicket, receipts [][]byte, in, out []*protocol.Frame) (int, error) {
	total := 0
	seen := map[uint32]bool{}
	for _, raw := range receipts {
		s, r, err := protocol.ParseSignedReceipt(raw)
		if err != nil {
			return 0, err
		}
		sp := &r.Span
		switch {
		case !s.Both():
			return 0, protocol.Errorf(protocol.CodeUnauthorized, "a receipt with one signature")
		case r.Session != t.Session || r.Model != t.Model || r.Layers != t.Use || r.Receiver != t.Output:
			return 0, protocol.Errorf(protocol.CodeReceiptInvalid, "a receipt of other work than the ticket's")
		case sp.EpochLast != 0 || sp.Rolled() != 0 || seen[sp.Seq]:
			continue
		}
		inRoot, ok := rootOf(t.Session, sp, in)
		if !ok {
			continue
		}
		outRoot, ok := rootOf(t.Session, sp, out)
		if !ok {
			continue
		}
		if inRoot != sp.Input {
			return 0, protocol.Errorf(protocol.CodeReceiptConflict, "the input of positions [%d,%d) is not what the hop signed", sp.First, sp.Last)
		}
		if outRoot != sp.Output {
			return 0, protocol.Errorf(protocol.CodeReceiptConflict, "the output of positions [%d,%d) is not what both ends signed", sp.First, sp.Last)
		}
		seen[sp.Seq] = true
		total += int(sp.Last - sp.First)
	}
	return total, nil
}

// rootOf chains the frames of a span; false when they do not cover it exactly.
func rootOf(s protocol.SessionID, sp *protocol.Span, frames []*protocol.Frame) (protocol.Hash, bool) {
	root, next := protocol.SpanRoot(s, sp.First), sp.First
	for _, f := range frames {
		if f.Pos < sp.First || f.Pos >= sp.Last {
			continue
		}
		if f.Pos != next {
			return root, false
		}
		root = protocol.ChainRoot(root, protocol.SumFrame(f))
		next += f.Rows
	}
	return root, next == sp.Last
}
