package worker

import (
	"context"
	"log/slog"
	"slices"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/swarm"
)

// order is what one model's owner has been told last.
type order struct {
	version int64
	model   swarm.Model
	paused  bool
	limits  swarm.Limits
}

// model looks after one model: its goroutine (run) is the only one that opens
// the folder, adds the torrent and changes what is wanted of it. Storage and
// web seeds report from goroutines of the library.
type model struct {
	id      protocol.ModelID
	client  *client
	log     *slog.Logger
	changed func()          // the status may have changed
	poke    chan struct{}   // something is to do
	after   <-chan struct{} // an earlier owner of the same folder must be gone
	done    chan struct{}
	stop    context.CancelFunc

	mu               sync.Mutex
	order            order           // guarded by mu
	applied          int64           // guarded by mu; version of the order that all below reflects
	err              *protocol.Error // guarded by mu; why it is not open
	final            bool            // guarded by mu; err stands until the order changes
	trouble          *protocol.Error // guarded by mu; open, but cannot go on
	open             *opened         // guarded by mu; nil while starting
	checked, toCheck int64           // guarded by mu; bytes, while starting
	retired          counters        // guarded by mu; of torrents that were dropped
	repaired         int             // guarded by mu; highest Damaged.Number carried out
	down, up         meter           // guarded by mu
	active           time.Time       // guarded by mu; when payload last moved
}

const (
	// retryPause is how long a model that is blocked waits before it looks
	// again.
	retryPause = 3 * time.Second
	// dialPause is how often peers that the engine named are tried again.
	dialPause = 30 * time.Second
)

func newModel(c *client, log *slog.Logger, o order, changed func(), after <-chan struct{}) *model {
	ctx, stop := context.WithCancel(context.Background())
	m := &model{
		id: o.model.Model, client: c, log: log.With("model", o.model.Model.Short()), changed: changed,
		poke: make(chan struct{}, 1), after: after, done: make(chan struct{}), stop: stop, order: o,
	}
	go m.run(ctx)
	return m
}

// tell replaces the order.
func (m *model) tell(o order) {
	m.mu.Lock()
	m.order = o
	m.mu.Unlock()
	m.wake()
}

func (m *model) wake() {
	select {
	case m.poke <- struct{}{}:
	default: // one is due already
	}
}

func (m *model) newest() order {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.order
}

// run owns the model until stop.
func (m *model) run(ctx context.Context) {
	defer close(m.done)
	if m.after != nil {
		<-m.after
	}
	for ctx.Err() == nil {
		o := m.newest()
		err := m.life(ctx, o)
		if err == nil {
			continue // the order asks for another folder or source
		}
		e := protocol.AsError(err)
		m.mu.Lock()
		known := m.err != nil && m.err.Code == e.Code
		m.mu.Unlock()
		if ctx.Err() == nil && !known {
			m.log.Warn("Model is not ready for the swarm", "code", string(e.Code), "error", e.Message)
		}
		final := e.Code != protocol.CodeDiskFull && e.Code != protocol.CodeDataFolder && e.Code != protocol.CodeAlreadyRunning
		m.mu.Lock()
		m.err, m.final = e, final
		m.applied = max(m.applied, o.version)
		m.mu.Unlock()
		m.changed()
		m.pause(ctx, o, final)
	}
}

// pause waits for the order to change, or a while when the error may pass by
// itself.
func (m *model) pause(ctx context.Context, o order, final bool) {
	timer := time.NewTimer(retryPause)
	defer timer.Stop()
	retry := timer.C
	if final {
		retry = nil
	}
	for {
		select {
		case <-ctx.Done():
			return
		case <-retry:
			return
		case <-m.poke:
			if m.newest().version != o.version {
				return
			}
		}
	}
}

// life opens the model and looks after it until ctx ends or the order asks for
// something that needs another start; then it returns nil.
func (m *model) life(ctx context.Context, o order) error {
	op, err := m.openFolder(o)
	if err != nil {
		return err
	}
	defer m.closeFolder(op)
	m.mu.Lock()
	m.err = nil // it stood until now, so that a state does not flicker
	m.mu.Unlock()
	if err := m.prove(ctx, op, o); err != nil {
		return err
	}
	if err := m.addTorrent(op); err != nil {
		return err
	}
	m.mu.Lock()
	m.open = op
	m.mu.Unlock()

	timer := time.NewTimer(retryPause)
	defer timer.Stop()
	for first := true; ; first = false {
		now := m.newest()
		if !sameStart(o.model, now.model) {
			return nil
		}
		if first || now.version != o.version {
			if err := m.apply(ctx, op, o, now, first); err != nil {
				return err
			}
			o = now
		}
		m.settle(ctx, op)
		m.mu.Lock()
		m.applied = max(m.applied, o.version)
		m.mu.Unlock()
		m.changed()
		var again <-chan time.Time
		if d := m.nextLook(op, o); d > 0 {
			timer.Reset(d)
			again = timer.C
		}
		select {
		case <-ctx.Done():
			return nil
		case <-m.poke:
		case <-again:
			m.retry(op, o)
		}
	}
}

// sameStart reports whether the change from a to b needs no new start.
func sameStart(a, b swarm.Model) bool {
	// The library has no way to leave a tracker but to drop the torrent.
	left := slices.ContainsFunc(a.Announce, func(u string) bool { return !slices.Contains(b.Announce, u) })
	return a.Dir == b.Dir && slices.Equal(a.Adopted, b.Adopted) && !left
}
