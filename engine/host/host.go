// Package host reads the signals of the operating system that engine/policy
// decides on: input, power, network, screen and load. The desktop engine imports
// it; it knows the rules only by what they need (policy.Needs), and does nothing
// about them but keep the computer awake when it is told to.
//
// Each subject has a package of its own below this one, with one file per system.
package host

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"sync"
	"time"

	"neuron/engine/host/power"
	"neuron/engine/host/source"
	"neuron/engine/policy"
)

// Host asks the sources for what the rules need, as seldom as they allow. It has
// no goroutine of its own. Read belongs to one goroutine at a time; the other
// methods may be called by any.
type Host struct {
	log     *slog.Logger
	sources *sources

	// Read's own.
	idle       signal[time.Duration]
	battery    signal[bool]
	metered    signal[bool]
	fullScreen signal[bool]
	processor  signal[float64]
	memory     signal[float64]
	apps       signal[[]string]
	wanted     []string
	looked     time.Time

	mu      sync.Mutex
	answers []Answer // guarded by mu
}

// Answer says who answers for a signal, for people who look for a fault.
type Answer struct {
	Signal string // a policy.Unknown name
	From   string // the part of the system that answered last, "" for none
	Failed string // why there is no answer, "" while there is one, or nothing needs it
}

// Open finds the sources of this computer and connects to none of them yet. own
// are the ids of our child processes, whose load is not that of other programs;
// it is called from Read.
func Open(own func() []int, log *slog.Logger) *Host { return newHost(find(own), log) }

func newHost(s *sources, log *slog.Logger) *Host {
	return &Host{
		log: log, sources: s,
		idle:       signal[time.Duration]{name: policy.UnknownIdle, read: s.idle.Read},
		battery:    signal[bool]{name: policy.UnknownBattery, read: power.OnBattery(s.battery).Read},
		metered:    signal[bool]{name: policy.UnknownMetered, read: s.metered.Read},
		fullScreen: signal[bool]{name: policy.UnknownFullScreen, read: s.fullScreen.Read},
		processor:  signal[float64]{name: policy.UnknownProcessor, read: s.processor.Read},
		memory:     signal[float64]{name: policy.UnknownMemory, read: s.memory.Read},
		apps:       signal[[]string]{name: policy.UnknownApps},
	}
}

// Read tells what n needs, and nothing else. It may be called as often as one
// likes: a source is asked every two seconds at most, or every ten where that
// will do, and what it said holds until then. It takes a second at most, and
// returns early when ctx ends: what it returns is of no use then. One that fails
// is "not told" and is asked again later.
func (h *Host) Read(ctx context.Context, n policy.Needs) policy.System {
	now := time.Now().Round(0) // the wall's clock goes on in sleep
	if gap := now.Sub(h.looked); gap > policy.StaleAfter || gap < 0 {
		h.forget()
	}
	h.looked = now
	fast := slowly
	if n.Fast {
		fast = tick
	}
	if !slices.Equal(n.Apps, h.wanted) {
		h.look(slices.Clone(n.Apps))
	}
	var due []asker
	put := func(g asker, yes bool) {
		if yes {
			due = append(due, g)
		}
	}
	put(&h.idle, h.idle.due(n.Idle, now, fast))
	put(&h.battery, h.battery.due(n.Battery, now, slowly))
	put(&h.metered, h.metered.due(n.Metered, now, slowly))
	put(&h.fullScreen, h.fullScreen.due(n.FullScreen, now, fast))
	put(&h.processor, h.processor.due(n.Processor, now, fast))
	put(&h.memory, h.memory.due(n.Memory, now, slowly))
	put(&h.apps, h.apps.due(len(n.Apps) > 0, now, slowly))
	var all sync.WaitGroup
	for _, g := range due {
		all.Go(func() { g.ask(ctx, now, h.log) })
	}
	all.Wait()
	h.report()
	return policy.System{
		At: now, Idle: h.idle.told, OnBattery: h.battery.told, Metered: h.metered.told, FullScreen: h.fullScreen.told,
		OtherPercent: h.processor.told, Pressure: h.memory.told, Apps: h.apps.told,
	}
}

// forget has everything asked anew.
func (h *Host) forget() {
	for _, g := range []asker{&h.idle, &h.battery, &h.metered, &h.fullScreen, &h.processor, &h.memory, &h.apps} {
		g.forget()
	}
}

// look takes over which programs to look for: another list is another question.
func (h *Host) look(wanted []string) {
	h.wanted = wanted
	h.apps.forget()
	h.apps.read = func(ctx context.Context) ([]string, error) { return h.sources.programs(ctx, wanted) }
}

func (h *Host) report() {
	s := h.sources
	answers := []Answer{
		answer(&h.idle, s.idle.Name()), answer(&h.battery, s.battery.Name()), answer(&h.metered, s.metered.Name()),
		answer(&h.fullScreen, s.fullScreen.Name()), answer(&h.processor, s.processor.Name()), answer(&h.memory, s.memory.Name()),
		answer(&h.apps, "list of processes"),
	}
	h.mu.Lock()
	h.answers = answers
	h.mu.Unlock()
}

// Answers tells of all signals, in a fixed order; nothing before the first Read.
func (h *Host) Answers() []Answer {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.answers)
}

// KeepAwake keeps the computer from going to sleep by itself, or no longer. Where
// the system has no such thing, nothing happens.
func (h *Host) KeepAwake(ctx context.Context, on bool) error {
	ctx, cancel := context.WithTimeout(ctx, limit)
	defer cancel()
	err := h.sources.awake.Set(ctx, on)
	if errors.Is(err, source.ErrNotTold) {
		h.log.Debug("The computer cannot be kept awake", "error", err)
		return nil
	}
	return err
}

// Battery is the state of the power supply, Network the kind of connection: see
// engine/probe/hardware.
func (h *Host) Battery() source.Source[power.State] { return h.sources.battery }

// Network is described at Battery.
func (h *Host) Network() source.Source[string] { return h.sources.network }

// Close lets the computer sleep and ends all connections. No Read may run.
func (h *Host) Close() error { return h.sources.close() }
