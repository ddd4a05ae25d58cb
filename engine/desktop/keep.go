package desktop

import (
	"context"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/program"
	"neuron/engine/protocol"
	"neuron/engine/swarm"
)

const (
	fastLook = 2 * time.Second
	// lookPause keeps news that come in bursts from being looked at one by one.
	lookPause = 200 * time.Millisecond
)

// keep decides and applies until ctx ends: at least every policy.LookEvery, at
// once after a change of the settings, and when something of the engine's own
// has changed. It calls stop when the engine was asked to end and nothing runs
// any more.
func (e *Engine) keep(ctx context.Context, stop func()) {
	k := keeper{e: e, stop: stop, sent: map[protocol.ModelID]moved{}}
	defer k.end()
	for {
		s, changed := e.settings.Watch()
		wait := k.decide(ctx, s)
		timer := time.NewTimer(wait)
		select {
		case <-timer.C:
		case <-changed:
		case <-k.answers:
		case <-e.poke:
			pause := time.NewTimer(min(wait, lookPause))
			select {
			case <-pause.C:
			case <-changed:
			case <-ctx.Done():
			}
			pause.Stop()
		case <-ctx.Done():
		}
		timer.Stop()
		if ctx.Err() != nil {
			return
		}
	}
}

// keeper is what keep has done so far; its goroutine's own.
type keeper struct {
	e       *Engine
	stop    func()
	applied applied
	awake   bool
	since   time.Time // when work was last allowed
	sent    map[protocol.ModelID]moved
	// answers is closed when the answers have ended that the end waits for; nil
	// while it waits for none.
	answers <-chan struct{}
}

// applied is what a node was told.
type applied struct {
	node     *program.Node
	off      protocol.SharingReason
	transfer bool
	parked   bool
	limits   swarm.Limits
}

// decide looks once, and says when to look again.
func (k *keeper) decide(ctx context.Context, s policy.Settings) time.Duration {
	e := k.e
	e.mu.Lock()
	was, node, gateway := e.decision, e.node, e.gateway
	hurry := e.hurry
	e.mu.Unlock()
	if hurry {
		k.stop()
		return 0
	}
	needs := was.Needs(s, e.o.Now())
	e.system.Lock()
	system := e.o.System.Read(ctx, needs)
	e.system.Unlock()
	if ctx.Err() != nil {
		return 0 // half of an answer
	}
	now := e.o.Now()
	own, sessions := k.look(node, s)
	d := policy.Decide(s, policy.Signals{System: system, Work: policy.Work{Own: own, Sessions: sessions, Used: e.today.Usage()}}, now, was)
	e.mu.Lock()
	e.decision = d
	e.mu.Unlock()
	if d.State != was.State || d.Reason != was.Reason {
		e.log.Info("Sharing", "state", string(d.State), "reason", string(d.Reason), "detail", d.Detail)
	}
	if d.State != was.State || d.Reason != was.Reason || d.Detail != was.Detail || !d.Until.Equal(was.Until) {
		e.changed()
	}
	if d.Woke {
		e.hw.again()
	}
	k.apply(ctx, s, d, node, now, sessions)
	if _, ending := own[protocol.SharingStopping]; ending {
		k.answers = answering(gateway)
		over := !now.Before(d.StopBy)
		served := sessions == 0 || over || !d.EndBy.IsZero() && !now.Before(d.EndBy)
		if served && (k.answers == nil || over) {
			k.stop()
			return 0
		}
	}
	wait := policy.LookEvery
	if d.Needs(s, now).Fast || sessions > 0 || k.answers != nil {
		wait = fastLook
	}
	for _, at := range []time.Time{d.EndBy, d.StopBy, d.Until} {
		if !at.IsZero() && at.After(now) {
			wait = min(wait, at.Sub(now)+time.Millisecond)
		}
	}
	if !d.Allow && !k.applied.parked {
		if left := k.since.Add(e.o.UnloadAfter).Sub(now); left > 0 {
			wait = min(wait, left+time.Millisecond)
		}
	}
	return wait
}

// answering has the gateway take no request any more. The channel is closed when
// its answers have ended; nil when they have.
func answering(g *program.Gateway) <-chan struct{} {
	if g == nil {
		return nil
	}
	ended := g.Drain()
	select {
	case <-ended:
		return nil
	default:
		return ended
	}
}

// moved are a model's counters as they were seen last.
type moved struct{ received, sent int64 }

// look reads what the node does: its own reasons not to share, and the number of
// sessions. It counts what was fetched and seeded.
func (k *keeper) look(node *program.Node, s policy.Settings) (own map[protocol.SharingReason]string, sessions int) {
	if node == nil {
		return k.e.reasons(nil, s), 0
	}
	st := node.Source().Status()
	for _, t := range st.Transfers {
		was := k.sent[t.Model]
		if t.Received < was.received || t.Sent < was.sent {
			was = moved{} // another process transfers
		}
		k.sent[t.Model] = moved{t.Received, t.Sent}
		if n := t.Received - was.received + t.Sent - was.sent; n > 0 {
			k.e.today.Add(0, n)
		}
	}
	return k.e.reasons(&st, s), len(node.Source().Sessions())
}

// apply tells the node what was decided, where it does not know it.
func (k *keeper) apply(ctx context.Context, s policy.Settings, d policy.Decision, node *program.Node, now time.Time, sessions int) {
	if d.KeepAwake != k.awake {
		k.awake = d.KeepAwake
		if err := k.e.o.System.KeepAwake(ctx, d.KeepAwake); err != nil {
			k.e.log.Warn("The computer is not kept awake while it works", "error", err)
		}
	}
	if d.Allow || k.since.IsZero() {
		k.since = now
	}
	if node == nil {
		k.applied = applied{}
		return
	}
	if k.applied.node != node { // as serveNode made it
		k.applied = applied{node: node, off: protocol.SharingStarting, parked: true}
	}
	want := applied{node: node, transfer: d.Transfer, limits: transferLimits(s.Limits), parked: k.parked(d, now)}
	if !d.Allow {
		want.off = d.Reason
	}
	report := func(err error) {
		if err != nil {
			k.e.log.Error("The transfers could not be told what was decided", "error", err)
		}
	}
	if want.off != k.applied.off || want.transfer != k.applied.transfer {
		report(node.SetSharing(string(want.off), want.transfer))
	}
	if want.limits != k.applied.limits {
		report(node.SetTransfer(want.limits))
	}
	if want.parked != k.applied.parked {
		k.e.log.Info("Layers", "loaded", !want.parked, "reason", string(d.Reason))
		node.Park(want.parked)
	}
	k.applied = want
	if sessions > 0 && !d.EndBy.IsZero() && !now.Before(d.EndBy) {
		node.EndSessions(protocol.Errorf(protocol.CodeHostBusy, "the owner of this computer needs it: %s", d.Reason.Sentence()))
	}
}

// parked says whether the stage's memory is to be free. It is at once when the
// user wants no sharing or the memory is needed, and after some minutes of any
// pause: loading takes seconds, so short ones keep it.
func (k *keeper) parked(d policy.Decision, now time.Time) bool {
	switch {
	case d.Allow:
		return false
	case k.applied.parked:
		return true // what is not loaded is not loaded for a pause
	}
	switch d.Reason {
	case protocol.SharingUserOff, protocol.SharingNotSetUp, protocol.SharingMemory:
		return true
	}
	return now.Sub(k.since) >= k.e.o.UnloadAfter
}

func (k *keeper) end() {
	if k.awake {
		// A dying process keeps nothing awake anyway.
		_ = k.e.o.System.KeepAwake(context.Background(), false)
	}
}

// sharing is the decision as the local API shows it.
func sharing(d policy.Decision, now time.Time) *localapi.Sharing {
	out := &localapi.Sharing{State: d.State, Reason: d.Reason, Text: d.Reason.Sentence(), Detail: d.Detail, Since: d.Since, Unknown: d.Unknown}
	if d.State == "" { // nothing was decided yet
		out.State, out.Reason, out.Since = protocol.SharingPaused, protocol.SharingStarting, now
		out.Text = out.Reason.Sentence()
	}
	if !d.Until.IsZero() {
		until := d.Until
		out.Until = &until
	}
	return out
}
