package session

import (
	"context"
	"errors"
	"time"

	"neuron/engine/protocol"
)

// Receipts keeps the driver's side of receipts; engine/receipt/hooks makes one
// of a node's book. Safe for concurrent use.
type Receipts interface {
	// Open begins the receipts of a session whose lease was verified.
	Open(l *protocol.Lease, signed *protocol.SignedLease) (RouteReceipts, error)
}

// RouteReceipts are one session's receipts at its driver, who signs what the
// tail did. The first four methods note frames; they neither wait nor fail.
type RouteReceipts interface {
	// In notes a row frame that is about to be sent to hop 0, Executed an
	// acknowledgement of the tail, Out a token frame.
	In(f *protocol.Frame)
	// Truncate notes a truncate frame, in order with the rows.
	Truncate(f *protocol.Frame)
	Executed(epoch, pos uint32)
	Out(f *protocol.Frame)
	// Pull signs what waits at the tail, beside the frames.
	Pull(ctx context.Context) error
	// Finish tells the tail how far the session has come, when no frame is
	// noted any more, and signs the rest. The codes unavailable and timeout mean
	// that it may be called again.
	Finish(ctx context.Context) error
	// Close says that the session has ended here.
	Close()
}

const (
	// pullRows is how many rows the tail executes between two Pulls: two spans
	// of an answer, or a chunk of a prompt.
	pullRows = 64
	// finishFor bounds the attempts to exchange the last receipts, with
	// finishPause between them. The hops keep their side for a minute.
	finishFor   = 10 * time.Second
	finishPause = time.Second
)

// receipts is the driver's part; the zero value has none.
type receipts struct {
	route RouteReceipts // nil: none
	rows  uint32        // that the tail executed since the last Pull
	pull  chan struct{} // tells the puller; room for one
}

// openReceipts begins the session's receipts. A private route has none: nobody
// is paid.
func (d *driver) openReceipts(signed *protocol.SignedLease) *protocol.Error {
	if d.o.Receipts == nil || d.lease.Policy == protocol.PolicyPrivate {
		return nil
	}
	r, err := d.o.Receipts.Open(d.lease, signed)
	if err != nil {
		return protocol.AsError(err)
	}
	d.rec = receipts{route: r, pull: make(chan struct{}, 1)}
	return nil
}

func (r *receipts) in(f *protocol.Frame) {
	if r.route != nil {
		r.route.In(f)
	}
}

func (r *receipts) truncate(f *protocol.Frame) {
	if r.route != nil {
		r.route.Truncate(f)
	}
}

func (r *receipts) out(f *protocol.Frame) {
	if r.route != nil {
		r.route.Out(f)
	}
}

// executed notes rows that the tail acknowledged, and lets the puller work now
// and then.
func (r *receipts) executed(f *protocol.Frame, rows uint32) {
	if r.route == nil {
		return
	}
	r.route.Executed(f.Epoch, f.Pos)
	if r.rows += rows; r.rows >= pullRows {
		r.rows = 0
		select {
		case r.pull <- struct{}{}:
		default: // it has not come to the last one yet
		}
	}
}

// pullReceipts is a goroutine of the session: the signatures for the tail are
// exchanged beside the answer, never in its way. It ends with ctx.
func (d *driver) pullReceipts(ctx context.Context) {
	for {
		select {
		case <-d.rec.pull:
		case <-ctx.Done():
			return
		}
		if err := d.rec.route.Pull(ctx); err != nil && ctx.Err() == nil {
			d.log.Debug("not all receipts of the tail are signed", "error", err)
		}
	}
}

// settle exchanges the last receipts, after the client has its answer and the
// hops are free.
func (d *driver) settle() {
	if d.rec.route == nil {
		return
	}
	defer d.rec.route.Close()
	if d.stream == nil || d.lost == len(d.hops)-1 {
		return // nothing ran, or nobody is there to sign with
	}
	until := time.Now().Add(finishFor)
	for {
		ctx, cancel := context.WithTimeout(context.WithoutCancel(d.g.ctx), d.o.ReleaseTimeout)
		err := d.rec.route.Finish(ctx)
		cancel()
		if err == nil {
			return
		}
		if mayAgain(err) && time.Now().Before(until) && d.pause(finishPause) {
			continue
		}
		d.log.Warn("the last receipts of the session are not signed", "error", err)
		return
	}
}

// pause waits for d; false when the manager is closing.
func (d *driver) pause(wait time.Duration) bool {
	t := time.NewTimer(wait)
	defer t.Stop()
	select {
	case <-t.C:
		return true
	case <-d.g.m.life.Done():
		return false
	}
}

// mayAgain reports whether the tail may be asked once more.
func mayAgain(err error) bool {
	for _, c := range []protocol.Code{protocol.CodeUnavailable, protocol.CodeTimeout, protocol.CodeHopLost, protocol.CodeRateLimited} {
		if errors.Is(err, &protocol.Error{Code: c}) {
			return true
		}
	}
	return false
}
