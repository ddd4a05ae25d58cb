// Package wizard is the state and the logic of the first-run questions without
// their page (app/ui/wizard): what the computer is, what the user wants, and the
// one saving at the end. It knows no toolkit.
package wizard

import (
	"context"
	"errors"
	"sync"

	"neuron/app/viewmodel/task"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// Engine is what the questions need of *localapi.Client.
type Engine interface {
	Settings(ctx context.Context) (policy.Settings, error)
	SetSettings(ctx context.Context, s policy.Settings) (policy.Settings, error)
	Hardware(ctx context.Context) (*localapi.Hardware, error)
}

// Login turns the start at login on and off.
type Login interface {
	On() (bool, error)
	Set(on bool) error
}

// Step is one of the questions.
type Step int

// The steps in their order.
const (
	Welcome  Step = iota
	Computer      // what it is and can do
	Sharing       // whether and when to share
	Network       // the tracker's address
	Last          // the owner key, the start at login
	Steps    = int(Last) + 1
)

// Check says what came of looking for a network.
type Check int

// The states of a check.
const (
	Unchecked Check = iota
	Checking
	Found
	NotFound
)

// View is what the page shows.
type View struct {
	Step     Step
	Hardware *localapi.Hardware // nil while not known
	// Draft are the settings as they will be saved.
	Draft policy.Settings
	// StartAtLogin is what the user wants.
	StartAtLogin bool
	Check        Check
	Models       int             // of the network that was found
	CheckErr     *protocol.Error // why none was found
	Saving       bool
	Err          *protocol.Error // why saving failed
	// LoginErr is why the start at login could not be set: that ends nothing.
	LoginErr *protocol.Error
	Done     bool // all is saved
}

// Model keeps the answers. Its methods return at once and are safe for
// concurrent use.
type Model struct {
	engine func() Engine
	login  Login
	ask    func(ctx context.Context, address string) (models int, err error)
	tasks  *task.Group

	mu   sync.Mutex
	view View // guarded by mu
}

// New makes a model with the settings of the engine, once it answers. ask is the
// function Ask, unless a test has another one.
func New(engine func() Engine, login Login, ask func(ctx context.Context, address string) (int, error)) *Model {
	m := &Model{engine: engine, login: login, ask: ask, tasks: task.New(), view: View{Draft: policy.Defaults()}}
	m.tasks.Go(func(ctx context.Context) {
		if e := m.engine(); e != nil {
			if s, err := e.Settings(ctx); err == nil {
				m.set(func(v *View) {
					if v.Step == Welcome { // nothing has been answered yet
						v.Draft = s
					}
				})
			}
		}
	})
	return m
}

// Changed gives a value after each change of View.
func (m *Model) Changed() <-chan struct{} { return m.tasks.Changed() }

// Close ends the goroutines and waits for them.
func (m *Model) Close() { m.tasks.Close() }

// View is the present state.
func (m *Model) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	v := m.view
	v.Draft = v.Draft.Clone()
	return v
}

func (m *Model) set(f func(*View)) {
	m.mu.Lock()
	f(&m.view)
	m.mu.Unlock()
	m.tasks.Tell()
}

// Next and Back go on and back by one step.
func (m *Model) Next() {
	var to Step
	m.set(func(v *View) { v.Step = min(v.Step+1, Last); to = v.Step })
	if to == Computer {
		m.look()
	}
}

// Back goes back by one step.
func (m *Model) Back() { m.set(func(v *View) { v.Step = max(v.Step-1, Welcome) }) }

// look asks what the computer is.
func (m *Model) look() {
	if m.View().Hardware != nil {
		return
	}
	m.tasks.Go(func(ctx context.Context) {
		if e := m.engine(); e != nil {
			if h, err := e.Hardware(ctx); err == nil {
				m.set(func(v *View) { v.Hardware = h })
			}
		}
	})
}

// Answer changes the draft.
func (m *Model) Answer(f func(*policy.Settings)) { m.set(func(v *View) { f(&v.Draft) }) }

// SetStartAtLogin says what the user wants.
func (m *Model) SetStartAtLogin(on bool) { m.set(func(v *View) { v.StartAtLogin = on }) }

// SetAddress changes the network's address; what was checked was another one.
func (m *Model) SetAddress(text string) {
	m.set(func(v *View) { v.Draft.Tracker, v.Check, v.CheckErr = text, Unchecked, nil })
}

// CheckAddress looks whether the network answers.
func (m *Model) CheckAddress() {
	text := m.View().Draft.Tracker
	m.set(func(v *View) { v.Check, v.CheckErr = Checking, nil })
	m.tasks.Go(func(ctx context.Context) {
		n, err := m.ask(ctx, text)
		m.set(func(v *View) {
			if v.Draft.Tracker != text {
				return // the user has gone on typing
			}
			v.Check, v.Models, v.CheckErr = Found, n, nil
			if err != nil {
				v.Check, v.CheckErr = NotFound, protocol.AsError(err)
			}
		})
	})
}

// Finish saves the answers.
func (m *Model) Finish() {
	v := m.View()
	m.save(func(s *policy.Settings) {
		revision, pause := s.Revision, s.Pause
		*s = v.Draft
		s.Revision, s.Pause = revision, pause
	}, v.StartAtLogin)
}

// Skip saves nothing but that the questions are over.
func (m *Model) Skip() { m.save(func(*policy.Settings) {}, false) }

// save writes all of it at once, on what the engine has now.
func (m *Model) save(f func(*policy.Settings), startAtLogin bool) {
	m.set(func(v *View) { v.Saving, v.Err = true, nil })
	m.tasks.Go(func(ctx context.Context) {
		err := m.write(ctx, f)
		if err != nil {
			m.set(func(v *View) { v.Saving, v.Err = false, protocol.AsError(err) })
			return
		}
		var loginErr error
		if startAtLogin {
			loginErr = m.login.Set(true)
		}
		m.set(func(v *View) { v.Saving, v.Done, v.LoginErr = false, true, protocol.AsError(loginErr) })
	})
}

func (m *Model) write(ctx context.Context, f func(*policy.Settings)) error {
	e := m.engine()
	if e == nil {
		return protocol.Errorf(protocol.CodeUnavailable, "the engine does not run; nothing is saved yet")
	}
	for attempt := 0; ; attempt++ {
		s, err := e.Settings(ctx)
		if err != nil {
			return err
		}
		s = s.Clone()
		f(&s)
		s.SetUp = true
		if s.Tracker, err = Address(s.Tracker); err != nil {
			return err
		}
		if err := s.Check(); err != nil {
			return err
		}
		if _, err = e.SetSettings(ctx, s); err == nil {
			return nil
		}
		if attempt > 0 || !errors.Is(err, &protocol.Error{Code: protocol.CodeConflict}) {
			return err
		}
	}
}
