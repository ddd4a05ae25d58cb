package session

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"neuron/engine/gateway"
	"neuron/engine/protocol"
)

// Manager runs sessions, at most MaxActive at a time and the others in the
// order of their arrival. It owns one goroutine per session, which owns all
// others of that session; Close waits for all.
type Manager struct {
	o   Options
	hub *hub
	wg  sync.WaitGroup // sessions
	// life ends when Close begins.
	life context.Context
	stop context.CancelFunc

	mu sync.Mutex
	// Protected by mu.
	closed  bool
	active  int
	waiting []*generation
	all     map[protocol.SessionID]*generation // queued and running
}

// New checks o; no goroutine runs before the first Generate.
func New(o Options) (*Manager, error) {
	o, err := o.withDefaults()
	if err != nil {
		return nil, err
	}
	m := &Manager{o: o, hub: newHub(o.Kept), all: map[protocol.SessionID]*generation{}}
	m.life, m.stop = context.WithCancel(context.Background())
	return m, nil
}

// Models lists what the tracker serves.
func (m *Manager) Models(ctx context.Context) ([]protocol.ModelInfo, error) {
	return m.o.Router.Models(ctx)
}

// Text returns the text tools of a model.
func (m *Manager) Text(ctx context.Context, model string) (gateway.TextModel, error) {
	return m.o.Texts.Text(ctx, model)
}

// Telemetry is the newest snapshot of a running or recently ended session.
func (m *Manager) Telemetry(id protocol.SessionID) (protocol.Telemetry, bool) { return m.hub.get(id) }

// Watch delivers snapshots; see gateway.Backend. The channel of an unknown
// session is closed at once, that of id "" starts with the running sessions.
func (m *Manager) Watch(ctx context.Context, id protocol.SessionID) <-chan protocol.Telemetry {
	return m.hub.watch(ctx, id)
}

// Active is the number of running and of queued sessions.
func (m *Manager) Active() (running, queued int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.active, len(m.waiting)
}

// Generate queues a session. ctx covers this call only; the session ends by
// itself, by Cancel, or by Close. Errors: invalid_request,
// context_length_exceeded, rate_limited (the queue is full), shutdown.
func (m *Manager) Generate(ctx context.Context, r gateway.GenerateRequest) (gateway.Generation, error) {
	if err := ctx.Err(); err != nil {
		return nil, protocol.Errorf(protocol.CodeCancelled, "the request was cancelled: %w", err)
	}
	switch {
	case r.Model == "":
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "a request without a model")
	case len(r.Prompt) == 0:
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the prompt is empty")
	case r.MaxTokens < 1:
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "max_tokens is %d, want at least 1", r.MaxTokens)
	case len(r.Prompt) > protocol.MaxContext || r.MaxTokens > protocol.MaxContext-len(r.Prompt):
		return nil, protocol.Errorf(protocol.CodeContextExceeded, "%d prompt tokens and %d for the answer exceed %d",
			len(r.Prompt), r.MaxTokens, protocol.MaxContext)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.closed {
		return nil, protocol.Errorf(protocol.CodeShutdown, "the engine is stopping")
	}
	if m.active >= m.o.MaxActive && len(m.waiting) >= max(m.o.MaxQueue, 0) {
		return nil, protocol.Errorf(protocol.CodeRateLimited, "%d sessions run and %d wait; no more are taken", m.active, len(m.waiting))
	}
	g := newGeneration(m, r)
	m.all[g.id] = g
	if m.active < m.o.MaxActive {
		m.active++
		close(g.start)
		g.update(nil)
	} else {
		m.waiting = append(m.waiting, g)
		g.setQueue(len(m.waiting))
	}
	m.wg.Go(g.run)
	return g, nil
}

// End ends a session that the tracker gave up; false when it is not ours.
func (m *Manager) End(id protocol.SessionID, e *protocol.Error) bool {
	m.mu.Lock()
	g := m.all[id]
	m.mu.Unlock()
	if g == nil {
		return false
	}
	if e == nil {
		e = protocol.Errorf(protocol.CodeHopLost, "the tracker ended the session")
	}
	g.cancel(e)
	return true
}

// unqueue takes a session that never started out of the queue; false when it
// has a place among the running ones.
func (m *Manager) unqueue(g *generation) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	i := slices.Index(m.waiting, g)
	if i < 0 {
		return false
	}
	m.waiting = slices.Delete(m.waiting, i, i+1)
	m.renumberLocked()
	return true
}

// leave gives a running session's place to the next one.
func (m *Manager) leave() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.active--
	if len(m.waiting) > 0 && m.active < m.o.MaxActive {
		next := m.waiting[0]
		m.waiting = m.waiting[1:]
		m.active++
		next.setQueue(0)
		close(next.start)
		m.renumberLocked()
	}
}

func (m *Manager) renumberLocked() {
	for i, g := range m.waiting {
		g.setQueue(i + 1)
	}
}

func (m *Manager) forget(g *generation) {
	m.mu.Lock()
	delete(m.all, g.id)
	m.mu.Unlock()
}

// drainWatchers is how long Close gives slow watchers for their last snapshot.
const drainWatchers = time.Second

// Close refuses new sessions, ends all with CodeShutdown and waits for them
// and for the watchers. When ctx ends first it returns ctx's error; the rest
// still ends by its own timeouts.
func (m *Manager) Close(ctx context.Context) error {
	m.stop()
	m.mu.Lock()
	m.closed = true
	for _, g := range m.all {
		g.cancel(protocol.Errorf(protocol.CodeShutdown, "the engine is stopping"))
	}
	m.mu.Unlock()
	done := make(chan struct{})
	go func() {
		defer close(done)
		m.wg.Wait()
		dctx, cancel := context.WithTimeout(ctx, drainWatchers)
		defer cancel()
		m.hub.close(dctx)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return errors.Join(protocol.Errorf(protocol.CodeTimeout, "sessions did not end in time"), ctx.Err())
	}
}
