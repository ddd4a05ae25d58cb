package desktop

import (
	"context"
	"os"
	"runtime"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/probe"
	"neuron/engine/protocol"
	"neuron/internal/version"
)

// role is Status.Role of a desktop engine.
const role = "desktop"

// source is an Engine as the local API shows it.
type source Engine

var _ localapi.Source = (*source)(nil)

// Status implements localapi.Source.
func (s *source) Status() localapi.Status {
	e := (*Engine)(s)
	node, gateway := e.parts()
	set, now := e.settings.Get(), e.o.Now()
	var out localapi.Status
	if node != nil {
		out = node.Source().Status()
	} else {
		out = e.bare(set)
	}
	out.Version, out.Role, out.PID, out.Started, out.UptimeSec = version.String(), role, os.Getpid(), e.began, int64(now.Sub(e.began).Seconds())
	if gateway != nil {
		out.Gateway = gateway.Endpoint().URL
	}
	e.mu.Lock()
	decision, nodeErr, gateErr, holdErr, ending := e.decision, e.nodeErr, e.gateErr, e.holdErr, e.ending
	e.mu.Unlock()
	if ending {
		out.Ending = &localapi.Ending{By: decision.StopBy}
		if gateway != nil {
			out.Ending.Answers = gateway.Answers()
		}
	}
	out.Policy, out.Sharing = sharing(decision, now), set.Share
	out.Work = e.work(s.Sessions())
	add := func(sev localapi.Severity, err *protocol.Error) {
		if err != nil {
			out.Health = append(out.Health, localapi.HealthOf(sev, err))
		}
	}
	for _, t := range e.settings.Trouble() {
		add(localapi.SeverityWarning, t)
	}
	add(localapi.SeverityError, nodeErr)
	if gateErr != nil && (nodeErr == nil || gateErr.Code != nodeErr.Code) {
		add(localapi.SeverityError, gateErr) // one cause is told once
	}
	add(localapi.SeverityError, holdErr)
	out.Health = append(out.Health, e.updates.Health()...)
	return out
}

// bare is what can be told without a node.
func (e *Engine) bare(s policy.Settings) localapi.Status {
	state := "no tracker is set"
	if s.Tracker != "" {
		state = "the node does not run yet"
	}
	out := localapi.Status{
		Node: e.id.ID(), Tracker: localapi.Tracker{URL: s.Tracker, State: state, Since: e.began},
		Shards: []localapi.Shard{}, Transfers: []localapi.Transfer{}, Health: []localapi.HealthEntry{},
		Goroutines: runtime.NumGoroutine(), OpenFiles: probe.OpenFiles(os.Getpid()),
	}
	m := probe.ProcessMemory(os.Getpid())
	out.Memory = localapi.Memory{Anonymous: m.Anonymous, File: m.File, Engine: m.Anonymous + m.File}
	if host, err := probe.Read(); err == nil {
		out.Memory.Total = host.MemoryBytes
	}
	if m, err := probe.ReadMemory(); err == nil {
		out.Memory.Free = m.AvailableBytes
	}
	if free, err := probe.FreeDisk(e.o.Data); err == nil {
		out.Memory.DiskFree = free
	}
	return out
}

// work is what this computer does for others.
func (e *Engine) work(sessions []protocol.SessionState) *localapi.Work {
	credit, known := e.pay.today()
	return &localapi.Work{
		Sessions: len(sessions), TokensPerSecond: e.today.Rate(), TokensToday: e.today.Tokens(),
		CreditToday: credit, CreditKnown: known, BytesToday: e.today.Usage().Today(e.o.Now()),
	}
}

// Models implements localapi.Source.
func (s *source) Models() []localapi.Model {
	if n, _ := (*Engine)(s).parts(); n != nil {
		return n.Source().Models()
	}
	return []localapi.Model{}
}

// Sessions implements localapi.Source.
func (s *source) Sessions() []protocol.SessionState {
	if n, _ := (*Engine)(s).parts(); n != nil {
		return n.Source().Sessions()
	}
	return nil
}

// oneOrder is within what orders to end are one: tray and window may both give
// it for one click.
const oneOrder = time.Second

// Shutdown implements localapi.Source: no new sessions and no requests are taken,
// and the engine stops when those that run have ended, or their grace has. Asked
// again it stops at once.
func (s *source) Shutdown() {
	e := (*Engine)(s)
	now := e.o.Now()
	e.mu.Lock()
	if e.ending && now.Sub(e.asked) >= oneOrder {
		e.hurry = true
	}
	if !e.ending {
		e.ending, e.asked = true, now
	}
	gateway := e.gateway
	e.mu.Unlock()
	if gateway != nil {
		gateway.Drain()
	}
	e.nodeNews()
}

// Hold implements localapi.Source. Without a node the order is kept for later.
func (s *source) Hold(ctx context.Context, h localapi.Hold) error {
	e := (*Engine)(s)
	e.mu.Lock()
	node, was := e.node, e.held
	e.mu.Unlock()
	want := ordered{h.Model, h.Layers}
	if node != nil {
		if err := node.Source().Hold(ctx, h); err != nil {
			return err
		}
		e.noteHeld(was, want, nil)
	}
	return e.settings.Update(func(s *policy.Settings) { s.Model, s.Layers = h.Model, h.Layers })
}

// Share implements localapi.Source. To share again ends a pause as well.
func (s *source) Share(on bool) error {
	return s.settings.Update(func(s *policy.Settings) {
		s.Share, s.SetUp = on, s.SetUp || on
		if on {
			s.Pause = policy.Pause{}
		}
	})
}

// Plans implements localapi.Source.
func (s *source) Plans(ctx context.Context) ([]localapi.Plan, error) {
	e := (*Engine)(s)
	n, _ := e.parts()
	if n == nil {
		return nil, e.missing("node")
	}
	ctx, cancel := context.WithTimeout(ctx, askTime)
	defer cancel()
	return n.Source().Plans(ctx)
}

// askTime bounds questions to the tracker.
const askTime = 20 * time.Second

// missing says why a part does not run.
func (e *Engine) missing(part string) *protocol.Error {
	e.mu.Lock()
	err := e.nodeErr
	if part == "gateway" {
		err = e.gateErr
	}
	e.mu.Unlock()
	switch {
	case e.settings.Get().Tracker == "":
		return protocol.Errorf(protocol.CodeUnavailable, "no network is set: enter the address of its tracker in the settings")
	case err != nil:
		return protocol.Errorf(err.Code, "the %s does not run: %s", part, err.Message)
	}
	return protocol.Errorf(protocol.CodeUnavailable, "the %s is being started; try again in a moment", part)
}
