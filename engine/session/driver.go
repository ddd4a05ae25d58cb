package session

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"neuron/engine/prefix"
	"neuron/engine/protocol"
)

// driver leads one session over its route. Only the session's goroutine uses
// it, but for the poller, which works on hops and g alone, and the puller,
// which has the receipts' route.
type driver struct {
	g   *generation
	o   *Options
	log *slog.Logger

	lease *protocol.Lease
	hops  []protocol.Hop
	// release says, per hop, that the session may exist there.
	release []bool
	head    protocol.Capability
	rows    int // the most of a prefill chunk

	stream  Stream
	tokens  TokenStream
	dropAll context.CancelFunc // ends both streams

	stopPoll context.CancelFunc
	poller   sync.WaitGroup // and the puller of receipts
	expiry   *time.Timer    // ends the session with its lease
	rec      receipts
	lost     int // the hop that cannot be reached any more, -1: none

	guess guesses
	keys  prefix.Keys // of the prompt, none: nothing kept is used or left

	// Progress of the rows under way.
	start    uint32   // where prefill begins: all hops have kept what is before
	epoch    uint32   // of the rows that are sent
	sent     uint32   // next position to send
	expect   uint32   // position of the next token
	headWait []flight // sent, not acknowledged by hop 0, oldest first
	tailWait []flight // the same for the tail
	progress time.Time
	// Measured prefill time per row at both ends, and the larger of the two.
	rowHead, rowTail, perRow time.Duration
}

// flight is a row frame under way.
type flight struct{ epoch, pos, rows uint32 }

// drive does everything up to the end of the answer.
func (d *driver) drive() (protocol.FinishReason, *protocol.Error) {
	d.openKeys()
	signed, err := d.route()
	if err != nil {
		return "", err
	}
	if err := d.openReceipts(signed); err != nil {
		return "", err
	}
	if err := d.open(signed); err != nil {
		return "", err
	}
	d.startPoll()
	first, err := d.prefill()
	if err != nil {
		return "", err
	}
	return d.decode(first)
}

// route asks the tracker and checks its answer.
func (d *driver) route() (*protocol.SignedLease, *protocol.Error) {
	g := d.g
	g.setPhase(protocol.PhaseRouting)
	ctx, cancel := context.WithTimeout(g.ctx, d.o.OpenTimeout)
	defer cancel()
	need := len(g.req.Prompt) + g.req.MaxTokens
	rr := protocol.RouteRequest{
		Session: g.id, Model: g.req.Model, Context: d.roundContext(ctx, need), Prompt: len(g.req.Prompt), Policy: g.req.Policy,
		APIKey: d.o.APIKey, Prefixes: d.keys.Landmarks(),
	}
	if d.o.Halves {
		rr.DType = protocol.DTypeF16.String()
	}
	if d.o.RTT != nil {
		rr.RTTMicros = d.o.RTT()
	}
	reply, err := d.o.Router.Route(ctx, rr)
	if err != nil {
		return nil, d.pick(ctx, err, "routing")
	}
	if reply == nil || reply.Lease == nil {
		return nil, protocol.Errorf(protocol.CodeLeaseInvalid, "the tracker answered without a lease")
	}
	l, err := reply.Lease.Verify(d.o.Router.TrackerKey(), time.Now())
	if err != nil {
		return nil, protocol.AsError(err)
	}
	bad := func(format string, args ...any) (*protocol.SignedLease, *protocol.Error) {
		return nil, protocol.Errorf(protocol.CodeLeaseInvalid, format, args...)
	}
	switch {
	case l.Session != g.id:
		return bad("the lease is for session %s", l.Session)
	case l.Driver != d.o.Node:
		return bad("the lease names another driver")
	case l.DType == protocol.DTypeF16 && !d.o.Halves:
		return bad("the lease halves hidden states, which was not asked for")
	case l.Context < need:
		return bad("the lease reserves %d cells, %d are needed", l.Context, need)
	case g.req.Policy == "private" && l.Policy != "private":
		return bad("the lease is not for a private route")
	case l.EngineBuild.Protocol != protocol.Version:
		return nil, protocol.Errorf(protocol.CodeProtocolVersion, "the lease is for protocol %d", l.EngineBuild.Protocol)
	}
	if id, err := protocol.ParseModelID(g.req.Model); err == nil && id != l.Model {
		return bad("the lease is for another model")
	}
	d.lease, d.hops = l, l.Hops
	d.release = make([]bool, len(l.Hops))
	route := make([]protocol.HopTelemetry, len(l.Hops))
	for i, h := range l.Hops {
		route[i] = protocol.HopTelemetry{Hop: i, Node: h.Node, Use: h.Use, Health: protocol.HealthOK}
	}
	g.update(func(t *protocol.Telemetry) { t.Model, t.Route = l.Model, route })
	d.expiry = time.AfterFunc(time.Until(l.Expires), func() {
		g.cancel(protocol.Errorf(protocol.CodeLeaseExpired, "the lease ended during the answer"))
	})
	d.log.Info("session routed", "hops", len(l.Hops), "context", l.Context)
	return reply.Lease, nil
}

// roundContext rounds need up without exceeding what the model was trained for.
func (d *driver) roundContext(ctx context.Context, need int) int {
	limit := protocol.MaxContext
	// The gateway has this model at hand already; without it the tracker still
	// gets a correct, if unbounded, size.
	if tm, err := d.o.Texts.Text(ctx, d.g.req.Model); err == nil {
		if n := tm.ContextLength(); n > 0 {
			limit = min(limit, n)
		}
	}
	up := (need + contextUnit - 1) / contextUnit * contextUnit
	return max(need, min(up, limit))
}

// pick chooses the reason to report when an operation under ctx failed: the
// session's own end first, then a coded error, then the timeout.
func (d *driver) pick(ctx context.Context, err error, what string) *protocol.Error {
	if d.g.ctx.Err() != nil {
		return stopReason(d.g.ctx)
	}
	var e *protocol.Error
	if errors.As(err, &e) && e.Code != protocol.CodeCancelled && e.Code != protocol.CodeInternal {
		return e
	}
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return protocol.Errorf(protocol.CodeTimeout, "%s took longer than %s", what, d.o.OpenTimeout)
	}
	if e != nil && e.Code == protocol.CodeInternal {
		return e
	}
	return protocol.Errorf(protocol.CodeHopLost, "%s: the connection broke: %w", what, err)
}

// blame tells the tracker about a hop that this driver found broken.
func (d *driver) blame(e *protocol.Error) *protocol.Error {
	h := hopOf(e)
	if h < 0 || h >= len(d.hops) {
		return e
	}
	e = e.InPhase(d.g.phase())
	d.o.Router.HopFailed(d.g.id, d.hops[h].Node, e)
	return e
}

// perHop runs f for all hops for which want is true at the same time and waits.
func (d *driver) perHop(want func(int) bool, f func(int)) {
	var wg sync.WaitGroup
	for i := range d.hops {
		if want(i) {
			wg.Go(func() { f(i) })
		}
	}
	wg.Wait()
}

func (d *driver) startPoll() {
	ctx, cancel := context.WithCancel(d.g.ctx)
	d.stopPoll = cancel
	if d.rec.route != nil {
		d.poller.Go(func() { d.pullReceipts(ctx) })
	}
	d.poller.Go(func() {
		t := time.NewTicker(d.o.PollEvery)
		defer t.Stop()
		for {
			select {
			case <-ctx.Done():
				return
			case <-t.C:
				pctx, done := context.WithTimeout(ctx, d.o.PollEvery)
				d.poll(pctx, func(int) bool { return true })
				done()
			}
		}
	})
}

// slowFactor is how far a hop's measured step may be above the lease's
// expectation before telemetry calls it slow.
const slowFactor = 3

// poll reads the counters of the wanted hops into telemetry and returns their
// next positions, -1 where there was no answer.
func (d *driver) poll(ctx context.Context, want func(int) bool) []int64 {
	next := make([]int64, len(d.hops))
	states := make([]*protocol.SessionState, len(d.hops))
	d.perHop(want, func(i int) {
		s, err := d.o.Hops.State(ctx, d.hops[i], d.g.id)
		if err == nil && s != nil && s.Session == d.g.id && s.Hop == i {
			states[i] = s
		}
	})
	if errors.Is(ctx.Err(), context.Canceled) {
		return next
	}
	d.g.setHops(func(r []protocol.HopTelemetry) {
		for i := range r {
			if !want(i) {
				continue
			}
			if states[i] == nil {
				next[i] = -1
				if r[i].Health == protocol.HealthOK {
					r[i].Health = protocol.HealthSlow
				}
				continue
			}
			c := states[i].Counters
			next[i] = c.NextPos
			r[i].Counters = c
			r[i].Health = protocol.HealthOK
			if step := d.hops[i].StepMicros; step > 0 && c.DecodeRows > 0 && c.DecodeMicros/c.DecodeRows > slowFactor*step {
				r[i].Health = protocol.HealthSlow
			}
		}
	})
	return next
}

// close ends the session on every hop within ReleaseTimeout: a cancel frame
// when work may be under way, a last look at the counters, the close frame
// (the stream's Close sends it), and the release. It calls tell when the
// client can have the result: an answer or a cancel when the hops are free, a
// failure before it waits for hops that may not answer.
func (d *driver) close(reason *protocol.Error, tell func()) {
	if d.stopPoll != nil {
		d.stopPoll()
		d.poller.Wait()
	}
	if d.expiry != nil {
		d.expiry.Stop()
	}
	base := context.WithoutCancel(d.g.ctx)
	ctx, cancel := context.WithTimeout(base, d.o.ReleaseTimeout)
	defer cancel()
	quick, stop := context.WithTimeout(base, d.o.ReleaseTimeout/4)
	defer stop()

	if reason != nil {
		switch reason.Code {
		case protocol.CodeHopLost, protocol.CodeStageFrozen, protocol.CodeStageLost, protocol.CodeUnavailable, protocol.CodeTimeout:
			d.lost = hopOf(reason)
		}
	}
	lost := d.lost
	if d.stream != nil {
		if reason != nil && lost != 0 {
			// The close frame that follows ends the work as well.
			_ = d.stream.Send(quick, protocol.ControlFrame(protocol.KindCancel, 0, d.epoch, d.sent))
		}
		d.poll(quick, func(i int) bool { return i != lost })
	}
	if lost >= 0 && lost < len(d.hops) {
		d.g.setHops(func(r []protocol.HopTelemetry) { r[lost].Health = protocol.HealthLost })
	}
	waits := reason != nil && reason.Code != protocol.CodeCancelled
	if waits {
		tell()
	}
	if d.stream != nil {
		d.stream.Close()
	}
	if d.tokens != nil {
		d.tokens.Close()
	}
	d.perHop(func(i int) bool { return d.release[i] }, func(i int) {
		rctx := ctx
		if i == lost {
			rctx = quick
		}
		if err := d.o.Hops.Release(rctx, d.hops[i], d.g.id); err != nil && protocol.AsError(err).Code != protocol.CodeSessionUnknown {
			d.log.Warn("hop not released", "hop", i, "error", err)
		}
	})
	if d.dropAll != nil {
		d.dropAll()
	}
	if !waits {
		tell()
	}
}
