// Package share is the state and the logic of the share page without the page:
// whether this computer shares and why not, what it holds and does, and what it
// could hold. The page (app/ui/share) stands on it; it knows no toolkit.
package share

import (
	"context"
	"sync"
	"time"

	"neuron/app/viewmodel/task"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
)

// Engine is what the page needs of *localapi.Client.
type Engine interface {
	Share(ctx context.Context, on bool) error
	Pause(ctx context.Context, p localapi.PauseOrder) error
	Resume(ctx context.Context) error
	Hardware(ctx context.Context) (*localapi.Hardware, error)
	Probe(ctx context.Context) (*localapi.Hardware, error)
	Plans(ctx context.Context) ([]localapi.Plan, error)
	Hold(ctx context.Context, h localapi.Hold) error
}

var _ Engine = (*localapi.Client)(nil)

// Options configure a Model.
type Options struct {
	Engine func() Engine // nil: none answers
	State  func() link.State
	Words  *words.Words
	Now    func() time.Time
}

// Model keeps what the page shows besides the engine's events. Its methods
// return at once and are safe for concurrent use. It owns goroutines until
// Close.
type Model struct {
	o     Options
	tasks *task.Group

	mu        sync.Mutex
	hardware  *localapi.Hardware // guarded by mu, like all below
	measuring bool
	plans     []localapi.Plan
	planning  bool
	planErr   *protocol.Error
	busy      int // orders under way
	problem   *protocol.Error
}

// New makes a model that has not looked yet: see Load.
func New(o Options) *Model { return &Model{o: o, tasks: task.New()} }

// Changed gives a value after each change that the model has made; those of the
// engine come from its link.
func (m *Model) Changed() <-chan struct{} { return m.tasks.Changed() }

// Close ends the goroutines and waits for them.
func (m *Model) Close() { m.tasks.Close() }

func (m *Model) set(f func()) {
	m.mu.Lock()
	f()
	m.mu.Unlock()
	m.tasks.Tell()
}

// Load reads what this computer is.
func (m *Model) Load() {
	m.tasks.Go(func(ctx context.Context) {
		e := m.o.Engine()
		if e == nil {
			return // the state of the link says so
		}
		h, err := e.Hardware(ctx)
		if err != nil {
			m.fail(err)
			return
		}
		m.set(func() { m.hardware = h })
	})
}

// measurePatience is longer than other questions get: a model is loaded and run.
const measurePatience = 3 * time.Minute

// Measure measures this computer again.
func (m *Model) Measure() {
	m.mu.Lock()
	already := m.measuring
	m.measuring = true
	m.mu.Unlock()
	if already {
		return
	}
	m.tasks.Tell()
	m.tasks.Stay(func(ctx context.Context) {
		ctx, cancel := context.WithTimeout(ctx, measurePatience)
		defer cancel()
		h, err := m.probe(ctx)
		m.set(func() {
			m.measuring = false
			if err != nil {
				m.problem = protocol.AsError(err)
				return
			}
			m.hardware, m.problem = h, nil
		})
	})
}

func (m *Model) probe(ctx context.Context) (*localapi.Hardware, error) {
	e := m.o.Engine()
	if e == nil {
		return nil, gone()
	}
	return e.Probe(ctx)
}

func gone() error {
	return protocol.Errorf(protocol.CodeUnavailable, "the engine does not run")
}

func (m *Model) fail(err error) {
	m.set(func() { m.problem = protocol.AsError(err) })
}

// order carries one wish to the engine.
func (m *Model) order(f func(ctx context.Context, e Engine) error) {
	m.set(func() { m.busy++ })
	m.tasks.Go(func(ctx context.Context) {
		err := gone()
		if e := m.o.Engine(); e != nil {
			err = f(ctx, e)
		}
		m.set(func() {
			m.busy--
			m.problem = nil
			if err != nil {
				m.problem = protocol.AsError(err)
			}
		})
	})
}

// Share turns sharing on or off; on ends a pause as well.
func (m *Model) Share(on bool) {
	m.order(func(ctx context.Context, e Engine) error { return e.Share(ctx, on) })
}

// Pause pauses, Resume ends that.
func (m *Model) Pause(p localapi.PauseOrder) {
	m.order(func(ctx context.Context, e Engine) error { return e.Pause(ctx, p) })
}

// Resume goes on sharing.
func (m *Model) Resume() { m.order(func(ctx context.Context, e Engine) error { return e.Resume(ctx) }) }

// Plan asks what this computer could hold.
func (m *Model) Plan() {
	m.set(func() { m.planning, m.planErr = true, nil })
	m.tasks.Go(func(ctx context.Context) {
		err := gone()
		var list []localapi.Plan
		if e := m.o.Engine(); e != nil {
			list, err = e.Plans(ctx)
		}
		m.set(func() {
			m.planning = false
			m.plans, m.planErr = list, nil
			if err != nil {
				m.planErr = protocol.AsError(err)
			}
		})
	})
}

// Hold asks the engine to hold layers; a model of "" leaves it to the network.
func (m *Model) Hold(model, layers string) {
	m.order(func(ctx context.Context, e Engine) error {
		return e.Hold(ctx, localapi.Hold{Model: model, Layers: layers})
	})
}
