package session

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"neuron/engine/gateway"
	"neuron/engine/protocol"
)

// generation is one session. Its run goroutine owns the route; everything that
// telemetry shows is behind mu.
type generation struct {
	m     *Manager
	id    protocol.SessionID
	req   gateway.GenerateRequest
	begin time.Time

	// ctx ends with the reason (a *protocol.Error) when the session must stop.
	ctx    context.Context
	cancel context.CancelCauseFunc
	start  chan struct{} // closed when the session leaves the queue
	tokens chan protocol.Token

	// Written before tokens is closed, read after.
	finish protocol.FinishReason
	err    *protocol.Error

	mu sync.Mutex
	// Protected by mu.
	t      protocol.Telemetry // the route slice is replaced, never changed
	times  []time.Time        // of the tokens in the rolling window, oldest first
	first  time.Time          // of the first token
	routed time.Time          // when the tracker last got a snapshot
	sent   protocol.Phase     // the phase it had
}

// tokenBuffer lets the driver run ahead of a slow reader a little.
const tokenBuffer = 32

// rateWindow is the span of the rolling token rate.
const rateWindow = 2 * time.Second

// routerEvery is the least time between two snapshots of one phase to the
// tracker.
const routerEvery = time.Second

func newGeneration(m *Manager, r gateway.GenerateRequest) *generation {
	g := &generation{
		m: m, id: protocol.NewSessionID(), req: r, begin: time.Now(),
		start: make(chan struct{}), tokens: make(chan protocol.Token, tokenBuffer),
	}
	g.ctx, g.cancel = context.WithCancelCause(context.Background())
	g.t = protocol.Telemetry{Session: g.id, Request: r.Request, Phase: protocol.PhaseQueued, PrefillTotal: len(r.Prompt)}
	if id, err := protocol.ParseModelID(r.Model); err == nil {
		g.t.Model = id
	} else {
		g.t.Name = r.Model
	}
	return g
}

// Session is the session's id.
func (g *generation) Session() protocol.SessionID { return g.id }

// Tokens delivers the answer.
func (g *generation) Tokens() <-chan protocol.Token { return g.tokens }

// Result is valid after Tokens is closed.
func (g *generation) Result() (protocol.FinishReason, *protocol.Error) { return g.finish, g.err }

// Cancel ends the session; it returns at once.
func (g *generation) Cancel() {
	g.cancel(protocol.Errorf(protocol.CodeCancelled, "the client ended the request"))
}

// run is the goroutine of the session.
func (g *generation) run() {
	log := g.m.o.Logger.With("session", string(g.id))
	select {
	case <-g.start:
	case <-g.ctx.Done():
		if g.m.unqueue(g) {
			g.end("", stopReason(g.ctx), log)
			return
		}
	}
	d := &driver{g: g, o: &g.m.o, log: log, lost: -1}
	defer d.settle() // others need not wait for it
	defer g.m.leave()
	finish, err := d.drive()
	if err != nil {
		err = err.InPhase(g.phase())
		if err.Code != protocol.CodeCancelled {
			log.Warn("session failed", "code", err.Code, "phase", err.Phase, "hop", hopOf(err), "error", err)
		}
	}
	d.close(err, func() { g.end(finish, err, log) })
}

// stopReason is why ctx ended.
func stopReason(ctx context.Context) *protocol.Error {
	var e *protocol.Error
	if errors.As(context.Cause(ctx), &e) {
		return e
	}
	return protocol.Errorf(protocol.CodeCancelled, "the session was cancelled: %w", context.Cause(ctx))
}

func hopOf(e *protocol.Error) int {
	if e.Hop == nil {
		return -1
	}
	return *e.Hop
}

// end fixes the result, publishes the last snapshot and closes Tokens; nothing
// that a client could wait for comes after it.
func (g *generation) end(finish protocol.FinishReason, err *protocol.Error, log *slog.Logger) {
	g.cancel(nil)
	g.update(func(t *protocol.Telemetry) {
		t.QueuePosition = 0
		switch {
		case err == nil:
			t.Phase, t.Finish = protocol.PhaseDone, finish
		case err.Code == protocol.CodeCancelled:
			err = err.InPhase(t.Phase)
			t.Phase, t.Finish = protocol.PhaseDone, protocol.FinishCancelled
		default:
			err = err.InPhase(t.Phase)
			t.Phase, t.Finish, t.Error = protocol.PhaseFailed, protocol.FinishError, err
		}
		g.finish, g.err = t.Finish, err
	})
	log.Info("session ended", "finish", g.finish, "tokens", g.count())
	g.m.forget(g)
	close(g.tokens)
}

func (g *generation) phase() protocol.Phase {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.t.Phase
}

func (g *generation) count() int {
	g.mu.Lock()
	defer g.mu.Unlock()
	return g.t.Tokens
}

// update changes the snapshot and publishes it; f may be nil.
func (g *generation) update(f func(*protocol.Telemetry)) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.t.Phase.Ended() {
		return
	}
	if f != nil {
		f(&g.t)
	}
	now := time.Now()
	g.t.Seq++
	g.t.At = now
	g.t.ElapsedMillis = millis(now.Sub(g.begin))
	g.t.TokensPerSecond = g.rateLocked(now)
	g.m.hub.put(g.t)
	// The tracker knows a session from its lease on.
	if len(g.t.Route) > 0 && (g.t.Phase != g.sent || now.Sub(g.routed) >= routerEvery) {
		g.sent, g.routed = g.t.Phase, now
		g.m.o.Router.SendSession(g.t)
	}
}

func (g *generation) setPhase(p protocol.Phase) {
	g.update(func(t *protocol.Telemetry) { t.Phase, t.QueuePosition = p, 0 })
}

func (g *generation) setQueue(n int) {
	g.update(func(t *protocol.Telemetry) { t.QueuePosition = n })
}

// token counts one sampled token; an EOG token ends the answer and is no part
// of it.
func (g *generation) token(eog bool) {
	g.update(func(t *protocol.Telemetry) {
		now := time.Now()
		if g.first.IsZero() {
			g.first = now
			t.FirstTokenMillis = millis(now.Sub(g.begin))
			t.PrefillDone = t.PrefillTotal
			t.Phase = protocol.PhaseDecode
		}
		if !eog {
			t.Tokens++
			g.times = append(g.times, now)
		}
	})
}

// rateLocked is tokens per second over the last two seconds; the first token
// only starts the clock, since its time is the prefill's.
func (g *generation) rateLocked(now time.Time) float64 {
	from := now.Add(-rateWindow)
	i, _ := slices.BinarySearchFunc(g.times, from, func(a, b time.Time) int { return a.Compare(b) })
	g.times = g.times[i:]
	n, span := len(g.times), rateWindow
	if n > 0 && g.times[0].Equal(g.first) {
		n, span = n-1, now.Sub(g.first)
	} else if since := now.Sub(g.first); since < span {
		span = since
	}
	if n <= 0 || span <= 0 {
		return 0
	}
	return float64(n) / span.Seconds()
}

// setHops replaces the route by a changed copy.
func (g *generation) setHops(change func([]protocol.HopTelemetry)) {
	g.update(func(t *protocol.Telemetry) {
		t.Route = slices.Clone(t.Route)
		change(t.Route)
	})
}

func millis(d time.Duration) float64 { return float64(d.Microseconds()) / 1000 }
