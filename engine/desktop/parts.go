package desktop

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"time"

	"neuron/engine/policy"
	"neuron/engine/program"
	"neuron/engine/protocol"
	"neuron/engine/swarm"
)

// Pauses between attempts to run a part; calmLife is how long one must have run
// for the pause to start over.
const (
	firstPause = time.Second
	longPause  = time.Minute
	calmLife   = time.Minute
)

// plan is what a part is to be under settings: key tells plans apart, run builds
// it, says so, and serves until its context ends. A nil run means none.
type plan struct {
	key string
	run func(ctx context.Context) error
}

// keepPart runs what the settings want until ctx ends: what fails is tried again
// after growing pauses, what the settings change is ended and built anew. failed
// gets each error, and nil before each attempt.
func (e *Engine) keepPart(ctx context.Context, name string, of func(policy.Settings) plan, failed func(*protocol.Error)) {
	pause := firstPause
	for ctx.Err() == nil {
		s, changed := e.settings.Watch()
		p := of(s)
		if p.run == nil {
			failed(nil)
			select {
			case <-changed:
			case <-ctx.Done():
			}
			pause = firstPause
			continue
		}
		began := time.Now()
		replanned, err := e.runPart(ctx, p, changed, of)
		if ctx.Err() != nil || replanned {
			pause = firstPause
			continue
		}
		if time.Since(began) > calmLife {
			pause = firstPause
		}
		trouble := protocol.AsError(err)
		if err == nil {
			trouble = protocol.Errorf(protocol.CodeInternal, "the %s has ended by itself", name)
		}
		e.log.Warn("A part of the engine does not run and is tried again", "part", name, "code", string(trouble.Code), "error", trouble, "pause", pause)
		failed(trouble)
		e.rest(ctx, pause, changed, p, of)
		pause = min(2*pause, longPause)
	}
}

// runPart runs one life of a part; replanned says that the settings ended it.
func (e *Engine) runPart(ctx context.Context, p plan, changed <-chan struct{}, of func(policy.Settings) plan) (replanned bool, err error) {
	life, end := context.WithCancel(ctx)
	defer end()
	done := make(chan error, 1)
	go func() { done <- p.run(life) }() // waited for in every case below
	for {
		select {
		case err := <-done:
			return false, err
		case <-changed:
			var s policy.Settings
			s, changed = e.settings.Watch()
			if of(s).key != p.key {
				end()
				return true, <-done
			}
		}
	}
}

// rest waits, at most until the settings want something else.
func (e *Engine) rest(ctx context.Context, pause time.Duration, changed <-chan struct{}, p plan, of func(policy.Settings) plan) {
	timer := time.NewTimer(pause)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
			return
		case <-ctx.Done():
			return
		case <-changed:
			var s policy.Settings
			s, changed = e.settings.Watch()
			if of(s).key != p.key {
				return
			}
		}
	}
}

// transferLimits are those of the swarm; they change live.
func transferLimits(l policy.Limits) swarm.Limits {
	return swarm.Limits{UpBytes: l.UpRate, DownBytes: l.DownRate, DiskBytes: l.DiskBytes, KeepFree: l.KeepFree}
}

// mkdir makes a folder; what is wrong with it, its user says.
func mkdir(dir string) string {
	_ = os.MkdirAll(dir, 0o700)
	return dir
}

// runNode keeps the node that the settings want. It exists while a tracker is
// set, also when nothing is shared: it then says so, plans, and keeps the books.
func (e *Engine) runNode(ctx context.Context) {
	e.keepPart(ctx, "node", func(s policy.Settings) plan {
		if s.Tracker == "" {
			return plan{}
		}
		l := s.Limits
		o := program.NodeOptions{
			Data: filepath.Join(e.o.Data, NodeFolder), Owner: e.o.Owner, Tracker: s.Tracker, TrackerKey: e.o.TrackerKey,
			Model: s.Model, Layers: s.Layers, Publishers: e.o.Publishers,
			SwarmListen: e.o.SwarmListen, SeamListen: e.o.SeamListen, SeamAddr: e.o.SeamAddr,
			Threads: l.Threads, MaxSessions: l.Sessions, MemoryLimit: l.MemoryBytes, GPUs: l.GPUs,
			Swarm: transferLimits(l), NativeDir: e.o.NativeDir, Exe: e.o.Exe, Log: e.o.Log,
			Changed: e.nodeNews, Parked: true, Wrap: e.today.Meter,
		}
		if !s.Snapshots {
			o.PrefixDisk = -1
		}
		return plan{
			// Model, layers and rates change live.
			key: fmt.Sprintf("%q %q %d %d %d %t %q", s.Tracker, s.Proxy, l.Threads, l.Sessions, l.MemoryBytes, s.Snapshots, l.GPUs),
			run: func(ctx context.Context) error { return e.serveNode(ctx, o) },
		}
	}, func(err *protocol.Error) {
		e.mu.Lock()
		e.nodeErr = err
		e.mu.Unlock()
		e.nodeNews()
	})
}

func (e *Engine) serveNode(ctx context.Context, o program.NodeOptions) error {
	e.useProxy()
	n, err := program.NewNode(ctx, o)
	if err != nil {
		return err
	}
	// Nothing is taken or fetched before the keeper has said so.
	if err := n.SetSharing(string(protocol.SharingStarting), false); err != nil {
		return orClose(err, n.Close)
	}
	e.setNode(n, ordered{o.Model, o.Layers})
	defer e.setNode(nil, ordered{})
	return n.Run(ctx)
}

func orClose(err error, end func() error) error {
	if cerr := end(); cerr != nil {
		return fmt.Errorf("%w (%w)", err, cerr)
	}
	return err
}

func (e *Engine) setNode(n *program.Node, has ordered) {
	e.mu.Lock()
	e.node, e.nodeBegan, e.held, e.holdErr = n, e.o.Now(), has, nil
	if n != nil {
		e.nodeErr = nil
	}
	e.mu.Unlock()
	wake(e.fresh)
	e.nodeNews()
}

// nodeNews is for the keeper too: what the node says may be a reason.
func (e *Engine) nodeNews() {
	e.changed()
	e.look()
}

// runGateway keeps the gateway that the settings want.
func (e *Engine) runGateway(ctx context.Context) {
	e.keepPart(ctx, "gateway", func(s policy.Settings) plan {
		if s.Tracker == "" {
			return plan{}
		}
		o := program.GatewayOptions{
			Data: filepath.Join(e.o.Data, GatewayFolder), Owner: e.o.Owner, Tracker: s.Tracker, TrackerKey: e.o.TrackerKey,
			Models: e.o.Models, Publishers: e.o.Publishers, SwarmListen: e.o.SwarmListen, Listen: e.o.GatewayListen,
			Halves: e.o.Halves, NativeDir: e.o.NativeDir, Exe: e.o.Exe, Log: e.o.Log,
		}
		return plan{key: fmt.Sprintf("%q %q", s.Tracker, s.Proxy), run: func(ctx context.Context) error { return e.serveGateway(ctx, o) }}
	}, func(err *protocol.Error) {
		e.mu.Lock()
		e.gateErr = err
		e.mu.Unlock()
		e.changed()
	})
}

// usualGateway is where the OpenAI API is when the port is free, so that the
// settings of other programs stay right.
const usualGateway = "127.0.0.1:8484"

func (e *Engine) serveGateway(ctx context.Context, o program.GatewayOptions) error {
	e.useProxy()
	free := o.Listen == ""
	if free {
		o.Listen = usualGateway
	}
	g, err := program.NewGateway(ctx, o)
	if free && errors.Is(err, &protocol.Error{Code: protocol.CodePortInUse}) {
		o.Listen = "127.0.0.1:0"
		g, err = program.NewGateway(ctx, o)
	}
	if err != nil {
		return err
	}
	e.setGateway(g)
	defer e.setGateway(nil)
	return g.Run(ctx)
}

func (e *Engine) setGateway(g *program.Gateway) {
	e.mu.Lock()
	e.gateway = g
	if g != nil {
		e.gateErr = nil
	}
	ending := e.ending
	e.mu.Unlock()
	if ending && g != nil {
		g.Drain()
	}
	e.changed()
}

// parts are the programs that run now.
func (e *Engine) parts() (*program.Node, *program.Gateway) {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.node, e.gateway
}
