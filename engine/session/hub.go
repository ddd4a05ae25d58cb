package session

import (
	"context"
	"sync"

	"neuron/engine/protocol"
)

// hub keeps the newest snapshot of each session and hands it to watchers.
type hub struct {
	kept int
	wg   sync.WaitGroup // pumps
	// finished is closed when no snapshot follows, kill when pumps must stop
	// even with snapshots undelivered.
	finished, kill chan struct{}

	mu sync.Mutex
	// Protected by mu.
	last     map[protocol.SessionID]protocol.Telemetry
	ended    []protocol.SessionID // oldest first
	watchers map[*watcher]struct{}
	closed   bool
}

// watcher holds, per session, the newest snapshot that its reader has not yet
// taken; fields are protected by hub.mu but for wake and id.
type watcher struct {
	id      protocol.SessionID // "" for all
	wake    chan struct{}      // room for one
	order   []protocol.SessionID
	pending map[protocol.SessionID]protocol.Telemetry
}

func newHub(kept int) *hub {
	return &hub{
		kept: kept, finished: make(chan struct{}), kill: make(chan struct{}),
		last: map[protocol.SessionID]protocol.Telemetry{}, watchers: map[*watcher]struct{}{},
	}
}

func (w *watcher) putLocked(t protocol.Telemetry) {
	if _, waits := w.pending[t.Session]; !waits {
		w.order = append(w.order, t.Session)
	}
	w.pending[t.Session] = t
	select {
	case w.wake <- struct{}{}:
	default:
	}
}

func (h *hub) put(t protocol.Telemetry) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.last[t.Session] = t
	if t.Phase.Ended() {
		h.ended = append(h.ended, t.Session)
		if len(h.ended) > h.kept {
			delete(h.last, h.ended[0])
			h.ended = h.ended[1:]
		}
	}
	for w := range h.watchers {
		if w.id == "" || w.id == t.Session {
			w.putLocked(t)
		}
	}
}

func (h *hub) get(id protocol.SessionID) (protocol.Telemetry, bool) {
	h.mu.Lock()
	defer h.mu.Unlock()
	t, ok := h.last[id]
	return t, ok
}

// watch starts a pump that lives until ctx ends, the watched session has
// ended, or the hub is closed.
func (h *hub) watch(ctx context.Context, id protocol.SessionID) <-chan protocol.Telemetry {
	out := make(chan protocol.Telemetry)
	w := &watcher{id: id, wake: make(chan struct{}, 1), pending: map[protocol.SessionID]protocol.Telemetry{}}
	h.mu.Lock()
	defer h.mu.Unlock()
	t, known := h.last[id]
	if h.closed || id != "" && !known {
		close(out)
		return out
	}
	if id != "" {
		w.putLocked(t)
	} else {
		for _, t := range h.last {
			if !t.Phase.Ended() {
				w.putLocked(t)
			}
		}
	}
	h.watchers[w] = struct{}{}
	h.wg.Go(func() { h.pump(ctx, w, out) })
	return out
}

func (h *hub) pump(ctx context.Context, w *watcher, out chan<- protocol.Telemetry) {
	defer func() {
		h.mu.Lock()
		delete(h.watchers, w)
		h.mu.Unlock()
		close(out)
	}()
	for {
		h.mu.Lock()
		var t protocol.Telemetry
		have := len(w.order) > 0
		if have {
			id := w.order[0]
			w.order = w.order[1:]
			t = w.pending[id]
			delete(w.pending, id)
		}
		h.mu.Unlock()
		if !have {
			select {
			case <-w.wake:
				continue
			case <-h.finished:
				return
			case <-ctx.Done():
				return
			}
		}
		select {
		case out <- t:
		case <-ctx.Done():
			return
		case <-h.kill:
			return
		}
		if w.id != "" && t.Phase.Ended() {
			return
		}
	}
}

// close ends all pumps; those whose reader does not take the rest lose it when
// ctx ends.
func (h *hub) close(ctx context.Context) {
	h.mu.Lock()
	first := !h.closed
	h.closed = true
	h.mu.Unlock()
	if !first {
		h.wg.Wait()
		return
	}
	close(h.finished)
	stop := context.AfterFunc(ctx, func() { close(h.kill) })
	h.wg.Wait()
	stop()
}
