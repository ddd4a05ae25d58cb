package acceptance

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/chaos"
	"neuron/internal/localnet"
)

// lane is a network of three nodes behind proxies that goes through losses one
// after another. One goroutine uses it.
type lane struct {
	n       *network
	asker   chaos.Asker
	options []localnet.NodeOptions
	proxies []*chaos.Proxy
	f       *lossFigures
}

func (e *env) newLane(ctx context.Context, name, model string, f *lossFigures) (_ *lane, err error) {
	l := &lane{f: f}
	if l.n, err = e.start(ctx, name, model); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, l.close())
		}
	}()
	end, err := localnet.Endpoint(l.n.gateway)
	if err != nil {
		return nil, err
	}
	l.asker = chaos.Asker{URL: end.URL, Key: end.Key}
	for i, layers := range lossLayers {
		port, err := chaos.FreePort()
		if err != nil {
			return nil, err
		}
		p, err := chaos.NewProxy(port)
		if err != nil {
			return nil, err
		}
		l.proxies = append(l.proxies, p)
		l.options = append(l.options, localnet.NodeOptions{
			Model: model, Layers: layers, Args: []string{"--seam", port, "--seam-public", p.Addr()},
		})
		x, err := l.n.net.StartNode(ctx, nodeName(i), l.options[i])
		if err != nil {
			return nil, err
		}
		l.n.nodes = append(l.n.nodes, x)
	}
	return l, nil
}

func nodeName(hop int) string { return fmt.Sprintf("hop-%d", hop) }

func (l *lane) close() error {
	err := l.n.net.Stop()
	for _, p := range l.proxies {
		p.Close()
	}
	return err
}

// lossWait bounds what a case waits for beside its own limits.
const lossWait = 30 * time.Second

// settle waits for a route of idle nodes.
func (l *lane) settle(ctx context.Context) error {
	if err := l.n.net.WaitCovered(ctx, lossName, 1, lossWait); err != nil {
		return err
	}
	for _, x := range l.n.nodes {
		_, err := chaos.Until(ctx, x.Data, time.Now(), lossWait, x.Name+" idle", func(k chaos.Look) bool { return k.Ready() && k.Idle() })
		if err != nil {
			return err
		}
	}
	return nil
}

// asked is a request under way.
type asked struct {
	done  chan struct{}
	err   error     // valid after done
	ended time.Time // the same
	leave context.CancelFunc
}

// ask begins a request; known are the sessions before it.
func (l *lane) ask(ctx context.Context, r chaos.Request) *asked {
	ctx, cancel := context.WithCancel(ctx)
	a := &asked{done: make(chan struct{}), leave: cancel}
	go func() {
		defer close(a.done)
		_, a.err = l.asker.Ask(ctx, r)
		a.ended = time.Now()
	}()
	return a
}

func (a *asked) wait(within time.Duration) bool {
	select {
	case <-a.done:
		return true
	case <-time.After(within):
		return false
	}
}

// reach waits until the newest session is in the phase, well inside of it.
func (l *lane) reach(ctx context.Context, a *asked, old protocol.SessionID, phase protocol.Phase) error {
	deadline := time.Now().Add(lossWait)
	var since time.Time
	var last protocol.Telemetry
	for {
		list, err := sessionsOf(ctx, l.n)
		if err != nil {
			return err
		}
		if len(list) > 0 && list[0].Session != old {
			last = list[0]
			if last.Phase == phase && since.IsZero() {
				since = time.Now()
			}
			switch {
			case last.Phase != phase:
			case phase == protocol.PhaseOpening && time.Since(since) > 100*time.Millisecond,
				phase == protocol.PhasePrefill && last.PrefillDone > 0,
				phase == protocol.PhaseDecode && last.Tokens >= 3:
				return nil
			}
		}
		if a.wait(0) {
			return fmt.Errorf("the request ended before it was in %s: %w", phase, a.err)
		}
		if time.Now().After(deadline) {
			return fmt.Errorf("the request is not in %s: %+v", phase, last)
		}
		time.Sleep(chaos.Poll)
	}
}

func (l *lane) newest(ctx context.Context) (protocol.SessionID, error) {
	list, err := sessionsOf(ctx, l.n)
	if err != nil || len(list) == 0 {
		return "", err
	}
	return list[0].Session, nil
}

// request is long enough for the phase.
func request(phase protocol.Phase, stream bool) chaos.Request {
	prompt := lossPrompt
	if phase == protocol.PhaseDecode {
		prompt = 64
	}
	return chaos.Request{Model: lossName, IDs: promptIDs(prompt), MaxTokens: 900, IgnoreEOS: true, Stream: stream}
}

// lose goes through one case.
func (l *lane) lose(ctx context.Context, c lossCase) error {
	err := l.inTime(&l.f.cases, func(t *lossTimes) error { return l.loseOnce(ctx, c, t) })
	if err != nil {
		return fmt.Errorf("%s: %w", c, err)
	}
	return nil
}

func (l *lane) loseOnce(ctx context.Context, c lossCase, t *lossTimes) error {
	if err := l.settle(ctx); err != nil {
		return err
	}
	before, err := chaos.At(ctx, l.n.nodes[c.hop].Data)
	if err != nil {
		return err
	}
	old, err := l.newest(ctx)
	if err != nil {
		return err
	}
	stage := before.Status.StagePIDs[0]

	// Opening takes milliseconds: the victim of a kill is held in it first, and
	// a freeze comes before the request.
	var struck time.Time
	if c.phase == protocol.PhaseOpening {
		struck = time.Now()
		if err := l.strike(c, stage, frozen); err != nil {
			return err
		}
	}
	a := l.ask(ctx, request(c.phase, c.stream))
	defer func() { a.leave(); <-a.done }()
	if err := l.reach(ctx, a, old, c.phase); err != nil {
		return err
	}
	if c.phase != protocol.PhaseOpening || c.how != frozen {
		struck = time.Now()
		if err := l.strike(c, stage, c.how); err != nil {
			return err
		}
	}

	if !a.wait(patience * c.limit()) {
		return fmt.Errorf("the client got nothing within %s", patience*c.limit())
	}
	if err := c.check(a.err); err != nil {
		return err
	}
	seen := &t.killed
	if c.how == frozen {
		seen = &t.frozen
	}
	t.see(seen, a.ended.Sub(struck), c.limit(), "the client's error")

	if err := l.freed(ctx, c, a.ended, t); err != nil {
		return err
	}
	if err := l.revive(ctx, c, stage, struck, a.ended, t); err != nil {
		return err
	}
	if err := l.settle(ctx); err != nil {
		return err
	}
	if _, err := l.asker.Ask(ctx, chaos.Request{Model: lossName, IDs: promptIDs(16), MaxTokens: 3, IgnoreEOS: true}); err != nil {
		return fmt.Errorf("the next request: %w", err)
	}
	return nil
}

// strike breaks the victim.
func (l *lane) strike(c lossCase, stage int, how string) error {
	sig := syscall.SIGKILL
	if how == frozen {
		sig = syscall.SIGSTOP
	}
	switch c.victim {
	case stageVictim:
		return syscall.Kill(stage, sig)
	case engineVictim:
		if how == frozen {
			return l.n.nodes[c.hop].Freeze()
		}
		return l.n.net.Kill(l.n.nodes[c.hop].Proc)
	}
	if how == frozen {
		l.proxies[c.hop].Swallow(true)
	} else {
		l.proxies[c.hop].Reset()
	}
	return nil
}

// freed waits for the KV memory of all hops but the victim.
func (l *lane) freed(ctx context.Context, c lossCase, from time.Time, t *lossTimes) error {
	errs := make([]error, lossHops)
	took := make([]time.Duration, lossHops)
	var wg sync.WaitGroup
	for i, x := range l.n.nodes {
		if i == c.hop && c.victim != linkVictim {
			continue
		}
		wg.Go(func() {
			took[i], errs[i] = chaos.Until(ctx, x.Data, from, patience*freeLimit, x.Name+" free", chaos.Look.Idle)
		})
	}
	wg.Wait()
	for i, x := range l.n.nodes {
		t.see(&t.freed, took[i], freeLimit, x.Name+" free")
	}
	return errors.Join(errs...)
}

// revive brings the victim back: a stage comes by itself, what happened to an
// engine or a connection is undone.
func (l *lane) revive(ctx context.Context, c lossCase, stage int, struck, seen time.Time, t *lossTimes) error {
	switch {
	case c.victim == stageVictim:
		from := struck
		if c.how == frozen {
			from = seen // its engine has just found and killed it
		}
		took, err := chaos.Until(ctx, l.n.nodes[c.hop].Data, from, patience*returnLimit, "another stage", func(k chaos.Look) bool {
			return k.Ready() && k.Status.StagePIDs[0] != stage
		})
		t.see(&t.back, took, returnLimit, "another stage")
		return err
	case c.victim == engineVictim && c.how == frozen:
		return l.n.nodes[c.hop].Thaw()
	case c.victim == engineVictim:
		x, err := l.n.net.StartNode(ctx, nodeName(c.hop), l.options[c.hop])
		if err == nil {
			l.n.nodes[c.hop] = x
		}
		return err
	case c.how == frozen:
		l.proxies[c.hop].Swallow(false)
	}
	return nil
}

// leaveCase is one client that loses interest.
type leaveCase struct {
	phase  protocol.Phase
	stream bool
	stop   bool // the gateway cancels, because a stop string came
}

// leave is about clients that lose interest: the work ends on every hop, also
// in the middle of a chunk.
func (l *lane) leave(ctx context.Context) error {
	for _, c := range []leaveCase{
		{protocol.PhasePrefill, true, false},
		{protocol.PhasePrefill, false, false},
		{protocol.PhaseDecode, true, false},
		{protocol.PhaseDecode, false, false},
		{protocol.PhaseDecode, true, true},
	} {
		if err := l.inTime(&l.f.left, func(t *lossTimes) error { return l.leaveOnce(ctx, c, t) }); err != nil {
			return fmt.Errorf("a client left in %s: %w", c.phase, err)
		}
	}
	return nil
}

func (l *lane) leaveOnce(ctx context.Context, c leaveCase, t *lossTimes) error {
	if err := l.settle(ctx); err != nil {
		return err
	}
	old, err := l.newest(ctx)
	if err != nil {
		return err
	}
	r := request(c.phase, c.stream)
	if c.stop {
		if r.Stop, err = l.somewhere(ctx, r); err != nil {
			return err
		}
		if old, err = l.newest(ctx); err != nil {
			return err
		}
	}
	a := l.ask(ctx, r)
	defer a.leave()
	if !c.stop {
		if err := l.reach(ctx, a, old, c.phase); err != nil {
			return err
		}
		a.leave()
	}
	<-a.done
	if c.stop && a.err != nil {
		return fmt.Errorf("an answer with a stop string: %w", a.err)
	}
	return l.idle(ctx, a.ended, t)
}

// somewhere is a piece of the answer to r, after its first tokens.
func (l *lane) somewhere(ctx context.Context, r chaos.Request) (string, error) {
	r.MaxTokens = 12
	a, err := l.asker.Ask(ctx, r)
	if err != nil {
		return "", err
	}
	text := []rune(a.Text)
	if len(text) < 8 {
		return "", fmt.Errorf("an answer of %d characters", len(text))
	}
	return string(text[len(text)-6:]), nil
}

// idle waits until no stage holds anything and none uses the processor.
func (l *lane) idle(ctx context.Context, from time.Time, t *lossTimes) error {
	for _, x := range l.n.nodes {
		k, err := chaos.At(ctx, x.Data)
		if err != nil {
			return err
		}
		pid := k.Status.StagePIDs[0]
		took, err := quiet(ctx, pid, from)
		if err != nil {
			return fmt.Errorf("%s: %w", x.Name, err)
		}
		t.see(&t.stopped, took, idleLimit, x.Name+" idle")
	}
	for _, x := range l.n.nodes {
		took, err := chaos.Until(ctx, x.Data, from, patience*freeLimit, x.Name+" free", chaos.Look.Idle)
		if err != nil {
			return err
		}
		t.see(&t.freed, took, freeLimit, x.Name+" free")
	}
	return nil
}

// quiet waits until a process uses less than a tenth of a core.
func quiet(ctx context.Context, pid int, from time.Time) (time.Duration, error) {
	const window = 200 * time.Millisecond
	for {
		began := time.Now()
		a, err := chaos.CPUTime(pid)
		if err != nil {
			return 0, err
		}
		select {
		case <-time.After(window):
		case <-ctx.Done():
			return 0, context.Cause(ctx)
		}
		b, err := chaos.CPUTime(pid)
		if err != nil {
			return 0, err
		}
		if b-a <= window/10 {
			return max(0, began.Sub(from)), nil
		}
		if began.Sub(from) > patience*idleLimit {
			return 0, fmt.Errorf("its stage still works %s after the end", patience*idleLimit)
		}
	}
}
