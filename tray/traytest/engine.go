// Package traytest has what tests of the tray need: an engine behind a real
// local API that remembers its orders, and a desktop's watcher of tray icons on
// a private session bus. Only tests import it.
package traytest

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// Engine is an engine of a desktop. It is safe for concurrent use.
type Engine struct {
	mu       sync.Mutex
	status   localapi.Status // guarded by mu
	settings policy.Settings // guarded by mu
	orders   []string        // guarded by mu
	changed  chan struct{}   // closed and replaced by each order; guarded by mu
	fail     *protocol.Error // what the next order fails with; guarded by mu
	// Ended is closed by the order to shut down.
	Ended chan struct{}
}

// NewEngine is one that shares.
func NewEngine() *Engine {
	s := policy.Defaults()
	s.SetUp, s.Share = true, true
	return &Engine{
		settings: s, changed: make(chan struct{}), Ended: make(chan struct{}),
		status: localapi.Status{Version: "test", Sharing: true, Policy: &localapi.Sharing{State: protocol.SharingOn}},
	}
}

// Serve starts the local API in dir.
func (e *Engine) Serve(dir string) (*localapi.Server, error) {
	return localapi.Start(localapi.Options{Dir: dir, Source: e, Desktop: e, Version: "test", EventEvery: 10 * time.Millisecond})
}

// Set changes the state.
func (e *Engine) Set(f func(*localapi.Status)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	f(&e.status)
}

// Fail lets the next order fail.
func (e *Engine) Fail(err *protocol.Error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.fail = err
}

// Orders are those that came, oldest first.
func (e *Engine) Orders() []string {
	e.mu.Lock()
	defer e.mu.Unlock()
	return slices.Clone(e.orders)
}

// Await waits until an order has come, and reports whether it did before ctx
// ended.
func (e *Engine) Await(ctx context.Context, order string) bool {
	for {
		e.mu.Lock()
		there, next := slices.Contains(e.orders, order), e.changed
		e.mu.Unlock()
		if there {
			return true
		}
		select {
		case <-ctx.Done():
			return false
		case <-next:
		}
	}
}

// take notes an order and does it, unless it has to fail.
func (e *Engine) take(order string, do func()) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.orders = append(e.orders, order)
	close(e.changed)
	e.changed = make(chan struct{})
	if err := e.fail; err != nil {
		e.fail = nil
		return err
	}
	do()
	return nil
}

// Status implements localapi.Source.
func (e *Engine) Status() localapi.Status {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.status
	if s.Policy != nil {
		p := *s.Policy
		s.Policy = &p
	}
	return s
}

// Models implements localapi.Source.
func (e *Engine) Models() []localapi.Model { return nil }

// Sessions implements localapi.Source.
func (e *Engine) Sessions() []protocol.SessionState { return nil }

// Hold implements localapi.Source.
func (e *Engine) Hold(context.Context, localapi.Hold) error { return nil }

// Plans implements localapi.Source.
func (e *Engine) Plans(context.Context) ([]localapi.Plan, error) { return nil, nil }

// Shutdown implements localapi.Source.
func (e *Engine) Shutdown() {
	_ = e.take("shutdown", func() { close(e.Ended) })
}

// Share implements localapi.Source.
func (e *Engine) Share(on bool) error {
	return e.take(fmt.Sprintf("share %v", on), func() {
		e.status.Sharing, e.settings.Share = on, on
		e.status.Policy = &localapi.Sharing{State: protocol.SharingOn}
		if !on {
			e.status.Policy = &localapi.Sharing{State: protocol.SharingOff, Reason: protocol.SharingUserOff}
		}
	})
}

// Settings implements localapi.Desktop.
func (e *Engine) Settings() policy.Settings {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.settings
}

// SetSettings implements localapi.Desktop.
func (e *Engine) SetSettings(_ context.Context, s policy.Settings) (policy.Settings, error) {
	err := e.take(fmt.Sprintf("only away %v", s.Rules.OnlyIdle), func() {
		s.Revision++
		e.settings = s
	})
	return e.Settings(), err
}

// Pause implements localapi.Desktop.
func (e *Engine) Pause(_ context.Context, p localapi.PauseOrder) error {
	return e.take(fmt.Sprintf("pause %+v", p), func() {
		until := time.Now().Add(time.Duration(p.Seconds) * time.Second)
		e.status.Policy = &localapi.Sharing{State: protocol.SharingPaused, Reason: protocol.SharingUserPause, Until: &until}
	})
}

// Resume implements localapi.Desktop.
func (e *Engine) Resume(context.Context) error {
	return e.take("resume", func() { e.status.Policy = &localapi.Sharing{State: protocol.SharingOn} })
}

// Hardware implements localapi.Desktop.
func (e *Engine) Hardware(context.Context) (*localapi.Hardware, error) {
	return &localapi.Hardware{}, nil
}

// Probe implements localapi.Desktop.
func (e *Engine) Probe(ctx context.Context) (*localapi.Hardware, error) { return e.Hardware(ctx) }

// Network implements localapi.Desktop.
func (e *Engine) Network(context.Context) (*localapi.Network, error) { return &localapi.Network{}, nil }

// Access implements localapi.Desktop.
func (e *Engine) Access(context.Context) (*localapi.Access, error) { return &localapi.Access{}, nil }

// Report implements localapi.Desktop.
func (e *Engine) Report(context.Context) (string, error) { return "", nil }

// Logs implements localapi.Desktop.
func (e *Engine) Logs(int64) []localapi.LogLine { return nil }
