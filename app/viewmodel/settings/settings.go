// Package settings is the state and the logic of the settings page without the
// page: the engine's settings with undo, the owner key with its computers, and
// the API keys. The page (app/ui/settings) and the wizard's model stand on it;
// it knows no toolkit.
package settings

import (
	"context"
	"errors"

	"neuron/app/viewmodel/task"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// Engine is what the settings need of *localapi.Client.
type Engine interface {
	Settings(ctx context.Context) (policy.Settings, error)
	SetSettings(ctx context.Context, s policy.Settings) (policy.Settings, error)
	Hardware(ctx context.Context) (*localapi.Hardware, error)
}

// Stage says what of the settings is there.
type Stage int

// The stages.
const (
	Loading Stage = iota
	Absent        // no engine answers
	Failed        // it answers with an error: View.Err
	Ready
)

// View is what the page shows of the engine's settings.
type View struct {
	Stage    Stage
	Settings policy.Settings    // of use when Ready
	Hardware *localapi.Hardware // nil while not known
	// Err is why nothing could be read, nil unless Failed.
	Err *protocol.Error
	// Problem is why the last change was not taken, with the field in Param as
	// policy names it; nil when it was.
	Problem *protocol.Error
	// Saved names the last change that was taken, "" for none; Undo says that
	// it can be taken back. Reloaded says that somebody else had changed the
	// settings and the change was made on theirs.
	Saved    string
	Undo     bool
	Reloaded bool
	Busy     bool
}

// change is one wish of the user.
type change struct {
	name string
	f    func(*policy.Settings)
	undo bool
}

// Model keeps the settings. Its methods return at once and are safe for
// concurrent use. It owns goroutines until Close.
type Model struct {
	base[View]
	engine func() Engine // nil: none answers
	orders chan change
	before *policy.Settings // guarded by mu; what Undo brings back
}

// New makes a model that has not looked yet: see Load.
func New(engine func() Engine) *Model {
	m := &Model{base: base[View]{tasks: task.New()}, engine: engine, orders: make(chan change, 64)}
	m.tasks.Stay(m.work)
	return m
}

// View is the present state; its slices are the caller's.
func (m *Model) View() View {
	v := m.base.View()
	v.Settings = v.Settings.Clone()
	return v
}

// Load reads the settings and the hardware.
func (m *Model) Load() {
	m.tasks.Go(func(ctx context.Context) {
		e := m.engine()
		if e == nil {
			m.set(func(v *View) { v.Stage = Absent })
			return
		}
		s, err := e.Settings(ctx)
		if err != nil {
			m.set(func(v *View) { v.Stage, v.Err = Failed, protocol.AsError(err) })
			return
		}
		m.set(func(v *View) {
			if v.Stage != Ready || s.Revision >= v.Settings.Revision {
				v.Settings = s
			}
			v.Stage, v.Err = Ready, nil
		})
		if h, err := e.Hardware(ctx); err == nil {
			m.set(func(v *View) { v.Hardware = h })
		}
	})
}

// Change makes a change and saves it. name is what the page calls it, for Saved.
func (m *Model) Change(name string, f func(*policy.Settings)) { m.order(change{name: name, f: f}) }

// Undo takes the last change back.
func (m *Model) Undo() { m.order(change{undo: true}) }

func (m *Model) order(c change) {
	m.set(func(v *View) { v.Busy = true })
	select {
	case m.orders <- c:
	default:
		m.set(func(v *View) {
			v.Busy = false
			v.Problem = protocol.Errorf(protocol.CodeUnavailable, "the engine does not answer; the change is not made")
		})
	}
}

// work makes one change after the other.
func (m *Model) work(ctx context.Context) {
	for {
		select {
		case <-ctx.Done():
			return
		case c := <-m.orders:
			limited, cancel := context.WithTimeout(ctx, task.Patience)
			m.apply(limited, c)
			cancel()
		}
	}
}

func (m *Model) apply(ctx context.Context, c change) {
	was := m.View().Settings
	saved, before, reloaded, err := m.save(ctx, c, was)
	more := len(m.orders) > 0
	m.mu.Lock()
	v := &m.view
	v.Busy, v.Reloaded = more, reloaded
	if err != nil {
		v.Problem, v.Saved, v.Undo = protocol.AsError(err), "", false
	} else {
		v.Settings, v.Problem, v.Saved, v.Undo = saved, nil, c.name, !c.undo
		m.before = before
	}
	m.mu.Unlock()
	m.tasks.Tell()
}

// save makes the change on what the engine has. When somebody else was faster it
// is made once more, on theirs.
func (m *Model) save(ctx context.Context, c change, was policy.Settings) (saved policy.Settings, before *policy.Settings, reloaded bool, err error) {
	e := m.engine()
	if e == nil {
		return saved, nil, false, protocol.Errorf(protocol.CodeUnavailable, "the engine does not run; the change is not made")
	}
	for attempt := 0; ; attempt++ {
		next := was.Clone()
		if c.undo {
			m.mu.Lock()
			old := m.before
			m.mu.Unlock()
			if old == nil {
				return was, nil, reloaded, nil
			}
			next = old.Clone()
			next.Revision, next.Pause = was.Revision, was.Pause
		} else {
			c.f(&next)
		}
		if err := next.Check(); err != nil {
			return saved, nil, reloaded, err
		}
		saved, err = e.SetSettings(ctx, next)
		if err == nil {
			old := was.Clone()
			return saved, &old, reloaded, nil
		}
		if attempt > 0 || !errors.Is(err, &protocol.Error{Code: protocol.CodeConflict}) {
			return saved, nil, reloaded, err
		}
		if was, err = e.Settings(ctx); err != nil {
			return saved, nil, reloaded, err
		}
		reloaded = true
	}
}
