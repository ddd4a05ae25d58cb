package telemetry

import (
	"context"
	"time"

	"neuron/engine/protocol"
)

// known is what the intake knows of a live session.
type known struct {
	first, sampled, seen time.Time
	phase                protocol.Phase
	tokens, prefill      int
}

// intake is the state of the goroutine that takes snapshots.
type intake struct {
	r       *Recorder
	live    map[protocol.SessionID]*known
	pending Batch
	ripe    bool // pending has gathered long enough
	writing bool // a batch is with the writer
	minute  Figures
	waiting []chan struct{} // flushes
	swept   time.Time
}

func (in *intake) run(ctx context.Context) {
	r := in.r
	tick := time.NewTicker(gatherFor)
	defer tick.Stop()
	for {
		var full chan<- *Batch
		var out *Batch
		if !in.writing && r.o.Open != nil && in.due() && (in.ripe || len(in.waiting) > 0) {
			full, out = r.full, &Batch{Samples: in.pending.Samples, Minutes: in.pending.Minutes}
		}
		select {
		case <-ctx.Done():
			for len(r.queue) > 0 {
				in.take(<-r.queue)
			}
			in.endMinute(r.o.Now(), true)
			return
		case s := <-r.queue:
			in.take(s)
		case <-tick.C:
			in.endMinute(r.o.Now(), false)
			in.sweep(r.o.Now())
			in.ripe = in.due()
		case full <- out:
			in.pending, in.ripe, in.writing = Batch{}, false, true
		case <-r.wrote:
			in.writing = false
			in.answer()
		case ack := <-r.flush:
			for n := len(r.queue); n > 0; n-- {
				in.take(<-r.queue)
			}
			in.waiting = append(in.waiting, ack)
			in.answer()
		}
	}
}

// due says whether there is something for the writer.
func (in *intake) due() bool { return len(in.pending.Samples) > 0 || len(in.pending.Minutes) > 0 }

// answer ends flushes once nothing is on its way.
func (in *intake) answer() {
	if in.r.o.Open != nil && (in.writing || in.due()) {
		return
	}
	for _, ack := range in.waiting {
		close(ack)
	}
	in.waiting = nil
}

// gap is the time between two samples of a session of some age: one a second
// at first, then one per hundredth of its age, so that a session of two hours
// has about 500.
func gap(age time.Duration) time.Duration { return max(time.Second, age/100) }

// take counts a snapshot, and passes it on.
func (in *intake) take(s *Snapshot) {
	now := in.r.o.Now()
	in.endMinute(now, false)
	k := in.live[s.Session]
	fresh := k == nil
	if fresh {
		k = &known{first: s.At}
		if s.Phase == protocol.PhaseQueued || s.Phase == protocol.PhaseRouting {
			in.minute.Started++
		} else {
			// The tracker was restarted, or the beginning was dropped: what the
			// session did before is not done now.
			k.tokens, k.prefill = s.Tokens, s.PrefillDone
		}
		in.live[s.Session] = k
	}
	if n := s.Tokens - k.tokens; n > 0 {
		in.minute.Tokens += int64(n)
		in.r.tokens.Add(int64(n))
		k.tokens = s.Tokens
	}
	if n := s.PrefillDone - k.prefill; n > 0 {
		in.minute.Prefill += int64(n)
		in.r.prefill.Add(int64(n))
		k.prefill = s.PrefillDone
	}
	newPhase := fresh || s.Phase != k.phase
	sampled := newPhase || s.End != nil || s.At.Sub(k.sampled) >= gap(s.At.Sub(k.first))
	k.phase, k.seen = s.Phase, now
	if s.End != nil {
		in.minute.Ended++
		if s.Phase == protocol.PhaseFailed && s.End.Code != protocol.CodeCancelled && s.End.Finish != protocol.FinishCancelled {
			in.minute.Failed++
		}
		delete(in.live, s.Session)
	}
	pub := s.Public()
	if in.r.o.Sink != nil {
		in.r.o.Sink.Publish(pub, newPhase || s.End != nil)
	}
	if in.r.o.Open == nil || !sampled {
		return
	}
	if len(in.pending.Samples) >= maxPending {
		in.r.drop(1)
		return
	}
	if s.Private && !newPhase && s.End == nil {
		return // nothing that is kept of it has changed
	}
	k.sampled = s.At
	in.pending.Samples = append(in.pending.Samples, Row{Snapshot: pub, NewPhase: newPhase, Sampled: !s.Private})
}

// endMinute closes the minute when it is over; at the end of Run it closes
// what there is of it.
func (in *intake) endMinute(now time.Time, stop bool) {
	at := now.Truncate(time.Minute)
	if at.Equal(in.minute.At) && !stop {
		return
	}
	m := in.minute
	m.Credit, m.Dropped, m.Measured = in.r.credit.Swap(0), in.r.dropped.Swap(0), 1
	if in.r.o.Nodes != nil && !stop {
		m.Nodes = int64(in.r.o.Nodes())
	}
	in.r.ring.put(m)
	in.minute = Figures{At: at}
	if in.r.o.Open != nil && len(in.pending.Minutes) < maxPending {
		in.pending.Minutes = append(in.pending.Minutes, m)
	}
}

// sweep forgets sessions whose end never came.
func (in *intake) sweep(now time.Time) {
	if now.Sub(in.swept) < time.Minute {
		return
	}
	in.swept = now
	for id, k := range in.live {
		if now.Sub(k.seen) > forgetAfter {
			delete(in.live, id)
		}
	}
}
