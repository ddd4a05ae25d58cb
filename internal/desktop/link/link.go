// Package link keeps the connection of a desktop program to the engine of its
// data folder: it finds the engine, starts one when none runs, follows its
// events, and finds it again after a crash, an upgrade or a new token.
//
// Window and tray import it; it knows the local API's client and no screen.
package link

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// Phase says where the connection stands.
type Phase string

// The phases.
const (
	Starting  Phase = "starting"  // an engine is looked for or being started
	Connected Phase = "connected" // State.Event is the present state
	Lost      Phase = "lost"      // it was there and is being looked for
	Absent    Phase = "absent"    // none runs, and none is started by itself
)

// State is what is known of the engine.
type State struct {
	Phase Phase
	// Event is the last one that was seen, of an engine that may be gone: check
	// Phase. Its slices belong to everybody: do not change them.
	Event localapi.Event
	// Err says why there is no connection, nil while all is well.
	Err   *protocol.Error
	Since time.Time // when Phase began
}

// Options configure a Link.
type Options struct {
	// Data is the data folder.
	Data string
	// Start starts an engine and returns when it answers, or says why it does
	// not; nil: an engine is never started.
	Start  func(ctx context.Context) error
	Logger *slog.Logger
}

// Link is the connection. Run is its only goroutine of its own; the methods are
// safe for concurrent use and return at once.
type Link struct {
	o     Options
	retry chan struct{} // capacity 1
	dial  func(data string) (engine, error)
	there func(data string) bool

	mu       sync.Mutex
	state    State                      // guarded by mu
	client   *localapi.Client           // guarded by mu; nil while not connected
	watchers map[chan struct{}]struct{} // guarded by mu
}

// engine is what a Link needs of *localapi.Client.
type engine interface {
	Events(ctx context.Context, f func(localapi.Event) error) error
	Status(ctx context.Context) (*localapi.Status, error)
	Close()
}

// New makes a Link that has not looked yet.
func New(o Options) *Link {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	return &Link{
		o: o, retry: make(chan struct{}, 1), dial: dialEngine, there: hasAddress,
		state: State{Phase: Starting, Since: time.Now()}, watchers: map[chan struct{}]struct{}{},
	}
}

// State is what is known now.
func (l *Link) State() State {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.state
}

// Client talks to the engine; nil while not connected. It stays of use for as
// long as that engine runs, and answers unavailable afterwards.
func (l *Link) Client() *localapi.Client {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.client
}

// Watch gives a channel of capacity 1 that gets a value after each change, and
// what ends it.
func (l *Link) Watch() (changed <-chan struct{}, stop func()) {
	c := make(chan struct{}, 1)
	l.mu.Lock()
	l.watchers[c] = struct{}{}
	l.mu.Unlock()
	return c, func() {
		l.mu.Lock()
		delete(l.watchers, c)
		l.mu.Unlock()
	}
}

// Retry looks for an engine now, and starts one even if it was given up or has
// ended in order.
func (l *Link) Retry() {
	select {
	case l.retry <- struct{}{}:
	default: // one is waiting already
	}
}

// set changes the state and tells it.
func (l *Link) set(f func(*State)) {
	l.mu.Lock()
	defer l.mu.Unlock()
	before := l.state.Phase
	f(&l.state)
	if l.state.Phase != before {
		l.state.Since = time.Now()
	}
	for c := range l.watchers {
		select {
		case c <- struct{}{}:
		default: // it has not seen the last change yet
		}
	}
}

// move goes to another phase; nothing is told when nothing changes.
func (l *Link) move(p Phase, err *protocol.Error) {
	if now := l.State(); now.Phase == p && sameError(now.Err, err) {
		return
	}
	l.set(func(s *State) { s.Phase, s.Err = p, err })
}

// sameError compares what people see.
func sameError(a, b *protocol.Error) bool {
	if a == nil || b == nil {
		return a == b
	}
	return a.Code == b.Code && a.Message == b.Message
}
