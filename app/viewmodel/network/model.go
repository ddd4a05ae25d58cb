// Package network is the state and the logic of the pages about the network
// without the pages: the tracker's view with the models of its catalog (page
// models), and the connection, own conversations with their routes, and the
// access for other programs (page network). It knows no toolkit.
package network

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"neuron/app/viewmodel/task"
	"neuron/engine/cli/apiclient"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
)

// Engine is what the pages need of *localapi.Client.
type Engine interface {
	Network(ctx context.Context) (*localapi.Network, error)
	Access(ctx context.Context) (*localapi.Access, error)
	Hold(ctx context.Context, h localapi.Hold) error
	Plans(ctx context.Context) ([]localapi.Plan, error)
}

var _ Engine = (*localapi.Client)(nil)

// Options configure a Model.
type Options struct {
	Engine func() Engine // nil: none answers
	State  func() link.State
	Words  *words.Words
	Now    func() time.Time
	// Every is how often the network is asked while somebody looks [5 s]; the
	// API of this computer is asked five times as often.
	Every time.Duration
}

// Model keeps what was told last. Its methods return at once and are safe for
// concurrent use. It owns goroutines until Close.
type Model struct {
	o     Options
	tasks *task.Group
	rest  func() // ends following, nil while at rest

	mu      sync.Mutex
	network *localapi.Network    // guarded by mu, like all below; nil: never told
	err     *protocol.Error      // of the last question to the network
	access  *localapi.Access     // nil: not known
	routes  []protocol.Telemetry // newest first
	plans   []localapi.Plan      // nil: never told
	filter  string
	held    string // name of what was ordered last
	problem *protocol.Error
}

// New makes a model that has not asked yet: see Follow.
func New(o Options) *Model {
	if o.Every <= 0 {
		o.Every = 5 * time.Second
	}
	return &Model{o: o, tasks: task.New()}
}

// Changed gives a value after each change.
func (m *Model) Changed() <-chan struct{} { return m.tasks.Changed() }

// Close ends the goroutines and waits for them.
func (m *Model) Close() {
	m.Rest()
	m.tasks.Close()
}

func (m *Model) set(f func()) {
	m.mu.Lock()
	f()
	m.mu.Unlock()
	m.tasks.Tell()
}

// Interest is what of the network a page shows besides the models.
type Interest int

// The interests.
const (
	Routes Interest = iota + 1 // this computer's own conversations
	Plans                      // what this computer could hold
)

// Follow asks now and then until Rest; both while a page is shown, and by one
// goroutine.
func (m *Model) Follow(i Interest) {
	m.Rest()
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { m.follow(ctx, i) })
	m.rest = func() { cancel(); wg.Wait() }
}

// Rest ends following and waits for it.
func (m *Model) Rest() {
	if m.rest != nil {
		m.rest()
		m.rest = nil
	}
}

// routeShare is how many times as often own conversations are looked at, and
// planShare how many times more seldom plans are made: they cost the engine and
// the tracker more, and change slowly.
const (
	routeShare = 5
	planShare  = 12
)

func (m *Model) follow(ctx context.Context, i Interest) {
	tick := time.NewTicker(m.o.Every / routeShare)
	defer tick.Stop()
	for n := 0; ; n++ {
		if n%routeShare == 0 {
			m.ask(ctx)
		}
		if i == Routes {
			m.look(ctx)
		}
		if i == Plans && n%(routeShare*planShare) == 0 {
			m.plan(ctx)
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// ask asks the network through the engine.
func (m *Model) ask(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, task.Patience)
	defer cancel()
	e := m.o.Engine()
	if e == nil {
		return // the state of the link says so
	}
	n, err := e.Network(ctx)
	a, _ := e.Access(ctx) // without an API there is nothing to show
	if ctx.Err() != nil && err != nil {
		return // nobody looks any more, or the next try is due
	}
	m.set(func() {
		m.access, m.err = a, nil
		if err != nil {
			m.err = protocol.AsError(err)
			return
		}
		m.network = n
	})
}

// look asks this computer's own API for its conversations.
func (m *Model) look(ctx context.Context) {
	m.mu.Lock()
	a := m.access
	m.mu.Unlock()
	if a == nil {
		return
	}
	ctx, cancel := context.WithTimeout(ctx, m.o.Every)
	defer cancel()
	var list struct {
		Data []protocol.Telemetry `json:"data"`
	}
	if _, err := apiclient.New(a.URL, a.Key).JSON(ctx, http.MethodGet, "/sessions", nil, &list); err != nil {
		return // it is asked again in a second; the engine's state tells trouble
	}
	m.set(func() { m.routes = list.Data })
}

// plan asks what this computer could hold. Where that cannot be told, the page
// does not say it; why, the page about sharing says.
func (m *Model) plan(ctx context.Context) {
	ctx, cancel := context.WithTimeout(ctx, task.Patience)
	defer cancel()
	e := m.o.Engine()
	if e == nil {
		return
	}
	if list, err := e.Plans(ctx); err == nil {
		m.set(func() { m.plans = list })
	}
}

// Filter keeps the models whose name contains the words.
func (m *Model) Filter(s string) { m.set(func() { m.filter = strings.ToLower(strings.TrimSpace(s)) }) }

// Hold asks the engine to hold a part of a model that the network chooses, or a
// model file of this computer.
func (m *Model) Hold(model, name string) {
	m.tasks.Go(func(ctx context.Context) {
		var err error = protocol.Errorf(protocol.CodeUnavailable, "the engine does not run")
		if e := m.o.Engine(); e != nil {
			err = e.Hold(ctx, localapi.Hold{Model: model})
		}
		m.set(func() {
			m.problem, m.held = nil, name
			if err != nil {
				m.problem, m.held = protocol.AsError(err), ""
			}
		})
	})
}
