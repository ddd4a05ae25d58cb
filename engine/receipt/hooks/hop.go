// Package hooks connects a node's book of receipts to the seam of its hops and
// to the driver of its sessions.
//
// The programs of the engine and tests of whole routes import it. It decides
// nothing about receipts: engine/receipt does, and engine/seam and
// engine/session say when.
package hooks

import (
	"neuron/engine/protocol"
	"neuron/engine/receipt"
	"neuron/engine/seam"
)

// Hops keeps the receipts of a node's hops in its book.
type Hops struct {
	Book *receipt.Book
	// Engine is the version of this program, for receipts.
	Engine string
}

var _ seam.Receipts = Hops{}

// Open implements seam.Receipts. How the stage computes is what its report
// says.
func (h Hops) Open(l *protocol.Lease, signed *protocol.SignedLease, hop int, c protocol.Capability) (seam.HopReceipts, error) {
	s, err := h.Book.OpenHop(l, signed, hop, protocol.Class{
		Threads: c.Threads, CPU: c.CPUVariant, Llama: c.Build.Llama, Engine: h.Engine,
	})
	if err != nil {
		return nil, err // not a typed nil
	}
	return s, nil
}

// Find implements seam.Receipts.
func (h Hops) Find(id protocol.SessionID, hop int) (seam.HopReceipts, error) {
	s, err := h.Book.Find(id, hop)
	if err != nil {
		return nil, err
	}
	return s, nil
}
