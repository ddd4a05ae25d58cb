package hooks

import (
	"context"

	"neuron/engine/protocol"
	"neuron/engine/receipt"
	"neuron/engine/seam/seamclient"
	"neuron/engine/session"
)

// Tail reaches the receipts of a lease's tail; *seamclient.Client does.
type Tail interface {
	Pending(ctx context.Context, l *protocol.Lease) ([][]byte, error)
	Complete(ctx context.Context, l *protocol.Lease, full [][]byte) error
	CloseTail(ctx context.Context, l *protocol.Lease, m protocol.ReceiptMark) error
}

var _ Tail = (*seamclient.Client)(nil)

// Driver keeps the driver's side of receipts in a node's book.
type Driver struct {
	Book *receipt.Book
	Tail Tail
}

var _ session.Receipts = Driver{}

// Open implements session.Receipts.
func (d Driver) Open(l *protocol.Lease, signed *protocol.SignedLease) (session.RouteReceipts, error) {
	s, err := d.Book.OpenDriver(l, signed)
	if err != nil {
		return nil, err // not a typed nil
	}
	return &route{Session: s, tail: d.Tail, lease: l}, nil
}

// route is one session's driver.
type route struct {
	*receipt.Session
	tail  Tail
	lease *protocol.Lease
}

// Pull implements session.RouteReceipts: it fetches what waits at the tail,
// signs what is right, and gives it back. What is not signed stays there; the
// error is the first reason why.
func (r *route) Pull(ctx context.Context) error {
	var denied error
	seen := map[string]bool{} // by bytes: those not signed come again
	for {
		halves, err := r.tail.Pending(ctx, r.lease)
		if err != nil {
			return err
		}
		var full [][]byte
		for _, h := range halves {
			if seen[string(h)] {
				continue
			}
			seen[string(h)] = true
			out, err := r.Countersign(h)
			if err != nil {
				if denied == nil {
					denied = err
				}
				continue
			}
			full = append(full, out)
		}
		if len(full) == 0 {
			return denied
		}
		if err := r.tail.Complete(ctx, r.lease, full); err != nil {
			return err
		}
	}
}

// Finish implements session.RouteReceipts: the tail closes its last span where
// this driver has come to, and what waits there is signed.
func (r *route) Finish(ctx context.Context) error {
	m, err := r.Mark()
	if err != nil {
		return err
	}
	if err := r.tail.CloseTail(ctx, r.lease, m); err != nil {
		return err
	}
	return r.Pull(ctx)
}
