package acceptance

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// Limits of AC-04, all as the client or the local API sees them.
const (
	killLimit   = 2 * time.Second // from a kill to the structured error
	freezeLimit = 5 * time.Second // from a freeze to it
	freeLimit   = 2 * time.Second // from it to KV memory free on all other hops
	returnLimit = 3 * time.Second // from the death of a stage to its successor
	idleLimit   = time.Second     // from a client's leaving to idle stages
)

// lossName is the model of AC-04: random weights, large enough that a prompt
// of 1,000 tokens takes seconds over stages of one thread, three networks side
// by side.
const lossName = "loss"

var lossShape = synth.Shape{
	Family: synth.FamilyLlama, Layers: 18, Embd: 768, FF: 2048, Heads: 12, KVHeads: 4, HeadDim: 64, Vocab: 2048, Context: 2048,
}

const (
	lossPrompt = 1000
	lossHops   = 3
)

var lossLayers = []string{"0-6", "6-12", "12-18"}

// What breaks in a case, and how.
const (
	stageVictim  = "stage"
	engineVictim = "engine"
	linkVictim   = "link" // the connections to a hop
	killed       = "kill"
	frozen       = "freeze" // of a link: its bytes vanish
)

// lossCase is one loss.
type lossCase struct {
	hop    int
	victim string
	how    string
	phase  protocol.Phase
	stream bool
}

func (c lossCase) String() string {
	s := fmt.Sprintf("%s of the %s of hop %d in %s", c.how, c.victim, c.hop, c.phase)
	if !c.stream {
		s += ", not streamed"
	}
	return s
}

// limit bounds the time to the client's error.
func (c lossCase) limit() time.Duration {
	if c.how == frozen {
		return freezeLimit
	}
	return killLimit
}

// check judges what the client got.
func (c lossCase) check(err error) error {
	var e *protocol.Error
	if !errors.As(err, &e) {
		return fmt.Errorf("the client got no structured error: %w", err)
	}
	if !slices.Contains([]protocol.Code{
		protocol.CodeStageLost, protocol.CodeStageFrozen, protocol.CodeHopLost, protocol.CodeUnavailable, protocol.CodeTimeout,
	}, e.Code) {
		return fmt.Errorf("code %s: %w", e.Code, err)
	}
	// Either end may be at fault when the connection between two hops breaks.
	if e.Hop == nil || *e.Hop != c.hop && !(c.victim == linkVictim && *e.Hop == c.hop-1) {
		return fmt.Errorf("the error names another hop: %w", err)
	}
	if e.Phase != c.phase {
		return fmt.Errorf("the error names phase %q: %w", e.Phase, err)
	}
	return nil
}

// lossFigures are the worst times of the cases that count. Safe for concurrent
// use.
type lossFigures struct {
	mu                 sync.Mutex
	cases, left, again int
	worst              lossTimes
}

// lossTimes are what one case took.
type lossTimes struct {
	killed, frozen, freed, back, stopped time.Duration
	late                                 []error // what took longer than its limit
}

// see keeps a time, and what it misses.
func (t *lossTimes) see(d *time.Duration, took, limit time.Duration, what string) {
	*d = max(*d, took)
	if took > limit {
		t.late = append(t.late, fmt.Errorf("%s: %s, not within %s", what, took.Round(time.Millisecond), limit))
	}
}

// patience is how many times a limit is waited for, so that a case that is late
// still ends in order.
const patience = 4

// maxAgain bounds the cases that may be run again: another program on the
// machine can make one late, but not many.
const maxAgain = 6

// mayRepeat says whether a late case may be run again.
func (f *lossFigures) mayRepeat() bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.again == maxAgain {
		return false
	}
	f.again++
	return true
}

// add counts a case.
func (f *lossFigures) add(n *int, t *lossTimes) {
	f.mu.Lock()
	defer f.mu.Unlock()
	*n++
	w := &f.worst
	w.killed, w.frozen, w.freed = max(w.killed, t.killed), max(w.frozen, t.frozen), max(w.freed, t.freed)
	w.back, w.stopped = max(w.back, t.back), max(w.stopped, t.stopped)
}

// inTime runs a case, and once more when it was only late.
func (l *lane) inTime(n *int, run func(*lossTimes) error) error {
	for {
		var t lossTimes
		if err := run(&t); err != nil {
			return err
		}
		if len(t.late) == 0 {
			l.f.add(n, &t)
			return nil
		}
		if !l.f.mayRepeat() {
			return errors.Join(t.late...)
		}
	}
}

// lossOfHop is AC-04. A loss that is a freeze takes seconds of waiting, so
// three networks go through their cases side by side.
func lossOfHop(ctx context.Context, e *env) (string, error) {
	model := filepath.Join(e.data, lossName+".gguf")
	if err := synth.Write(model, lossShape, synth.Options{Type: gguf.TypeQ4_0, Seed: 4}); err != nil {
		return "", err
	}
	var f lossFigures
	lanes := []struct {
		name string
		run  func(context.Context, *lane) error
	}{
		{"kills", func(ctx context.Context, l *lane) error {
			err := l.all(ctx, []string{stageVictim, engineVictim}, killed)
			if err == nil {
				err = l.links(ctx, killed, 1, 2)
			}
			if err == nil {
				err = l.leave(ctx)
			}
			return err
		}},
		{"stages", func(ctx context.Context, l *lane) error {
			err := l.all(ctx, []string{stageVictim}, frozen)
			if err == nil {
				err = l.links(ctx, frozen, 2)
			}
			return err
		}},
		{"engines", func(ctx context.Context, l *lane) error {
			err := l.all(ctx, []string{engineVictim}, frozen)
			if err == nil {
				err = l.links(ctx, frozen, 1)
			}
			return err
		}},
	}
	errs := make([]error, len(lanes))
	var wg sync.WaitGroup
	for i, x := range lanes {
		wg.Go(func() {
			l, err := e.newLane(ctx, "loss-"+x.name, model, &f)
			if err == nil {
				err = errors.Join(x.run(ctx, l), l.close())
			}
			if err != nil {
				errs[i] = fmt.Errorf("%s: %w", x.name, err)
			}
		})
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		return "", err
	}
	ms := func(d time.Duration) int64 { return d.Milliseconds() }
	w := &f.worst
	return fmt.Sprintf("cases=%d kill_seen_ms=%d freeze_seen_ms=%d kv_free_ms=%d stage_back_ms=%d clients_left=%d idle_ms=%d late_and_repeated=%d",
		f.cases, ms(w.killed), ms(w.frozen), ms(w.freed), ms(w.back), f.left, ms(w.stopped), f.again), nil
}

// all goes through every hop and phase. Hops change fastest, so that a stage
// has some life before its next death.
func (l *lane) all(ctx context.Context, victims []string, how string) error {
	for _, phase := range []protocol.Phase{protocol.PhaseOpening, protocol.PhasePrefill, protocol.PhaseDecode} {
		for _, v := range victims {
			for hop := range lossHops {
				// Every third answer is not streamed, on each hop once.
				stream := (hop+int(phase[0]))%3 != 0
				if err := l.lose(ctx, lossCase{hop: hop, victim: v, how: how, phase: phase, stream: stream}); err != nil {
					return err
				}
			}
		}
	}
	return nil
}

// links breaks the connections to hops.
func (l *lane) links(ctx context.Context, how string, hops ...int) error {
	for _, phase := range []protocol.Phase{protocol.PhasePrefill, protocol.PhaseDecode} {
		for _, hop := range hops {
			if err := l.lose(ctx, lossCase{hop: hop, victim: linkVictim, how: how, phase: phase, stream: true}); err != nil {
				return err
			}
		}
	}
	return nil
}
