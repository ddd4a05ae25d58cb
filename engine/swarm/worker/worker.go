// Package worker is the BitTorrent process: it reads what is wanted as JSON
// lines, keeps one torrent per model on a shelf (engine/artifact/shelf), and
// writes what it does as JSON lines. docs/decisions/0009 says why it is a
// process of its own, how the library is set up, and which traps that avoids.
//
// The command line's hidden command and tests import it; nothing else does,
// so that the library is linked in one place.
package worker

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"runtime/debug"
	"slices"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/swarm"
)

const (
	// activePause and idlePause are between two looks at figures.
	activePause = time.Second
	idlePause   = 5 * time.Second
	// leastPause is between two statuses: pieces may complete a hundred times a
	// second.
	leastPause = 200 * time.Millisecond
	// trimPause is between two looks at the space that all folders take.
	trimPause = time.Minute
	// memoryGoal makes the garbage collector work harder above it; nothing
	// fails when it is exceeded.
	memoryGoal = 256 << 20
)

// Run serves one engine until in ends or ctx does; both are an orderly end.
func Run(ctx context.Context, in io.Reader, out io.Writer, log *slog.Logger) error {
	debug.SetMemoryLimit(memoryGoal)
	w := &worker{
		out: out, log: log, models: map[protocol.ModelID]*model{}, leaving: map[protocol.ModelID]*model{},
		dirty: make(chan struct{}, 1), wanted: make(chan swarm.Wanted, 1), broken: make(chan error, 1),
	}
	go w.read(in)
	return w.run(ctx)
}

// worker is the owner of everything; only its goroutine (run) uses the fields
// without a comment.
type worker struct {
	out    io.Writer
	log    *slog.Logger
	wanted chan swarm.Wanted // the newest that was not taken yet
	broken chan error        // why reading ended
	dirty  chan struct{}     // a model has changed

	client  *client
	latest  swarm.Wanted
	models  map[protocol.ModelID]*model
	leaving map[protocol.ModelID]*model // not wanted, still closing
	err     *protocol.Error             // why there is no client
	said    []byte                      // the last status without its time
	saidAt  time.Time
	trimmed time.Time
}

// read passes on what is wanted until the input ends. It cannot be waited for:
// it may be inside a Read of a pipe that nothing closes. The process ends.
func (w *worker) read(in io.Reader) {
	lines := swarm.NewLines(in)
	for {
		line, err := lines.Next()
		if err == nil {
			var n swarm.Wanted
			if n, err = swarm.ParseWanted(line); err == nil {
				select {
				case <-w.wanted: // an older one that nobody needs any more
				default:
				}
				w.wanted <- n
				continue
			}
		}
		w.broken <- err
		return
	}
}

// run is the main loop.
func (w *worker) run(ctx context.Context) error {
	defer w.close()
	tick := time.NewTimer(idlePause)
	defer tick.Stop()
	var due <-chan time.Time // a status is due; nil: not before something changes
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-w.broken:
			if errors.Is(err, io.EOF) {
				return nil
			}
			return fmt.Errorf("input of the BitTorrent process: %w", err)
		case n := <-w.wanted:
			w.latest = n
			w.converge(ctx)
			due = time.After(0)
		case <-w.dirty:
			if due == nil {
				due = time.After(max(0, leastPause-time.Since(w.saidAt)))
			}
		case <-due:
			due = nil
			if _, err := w.say(); err != nil {
				return err
			}
		case <-tick.C:
			if w.client == nil && len(w.latest.Models) > 0 {
				w.converge(ctx) // the port may be free now
			}
			w.trim()
			moving, err := w.say()
			if err != nil {
				return err
			}
			if moving {
				tick.Reset(activePause)
			} else {
				tick.Reset(idlePause)
			}
		}
	}
}

// converge starts, tells and stops models until they are those of latest.
func (w *worker) converge(ctx context.Context) {
	if w.client == nil {
		if w.err = w.start(ctx); w.err != nil {
			w.log.Error("BitTorrent does not start", "code", string(w.err.Code), "error", w.err.Message)
			return
		}
	}
	w.client.setLimits(w.latest.Limits)
	w.trimmed = time.Time{} // look soon: less may be wanted
	left := map[protocol.ModelID]bool{}
	for id := range w.models {
		left[id] = true
	}
	for _, m := range w.latest.Models {
		o := order{version: w.latest.Version, model: m, paused: w.latest.Paused, limits: w.latest.Limits}
		delete(left, m.Model)
		if old := w.models[m.Model]; old != nil {
			old.tell(o)
			continue
		}
		var after <-chan struct{}
		if old := w.leaving[m.Model]; old != nil {
			after = old.done
		}
		w.models[m.Model] = newModel(w.client, w.log, o, w.touch, after)
	}
	for id := range left {
		m := w.models[id]
		delete(w.models, id)
		m.stop()
		w.leaving[id] = m
		go func() { // wakes the owner; ends with the model, which close waits for
			<-m.done
			w.touch()
		}()
	}
}

// start opens the socket and makes the client.
func (w *worker) start(ctx context.Context) *protocol.Error {
	l, e := listen(ctx, w.latest.Listen)
	if e != nil {
		return e
	}
	c, err := newClient(l, w.log)
	if err != nil {
		return protocol.Errorf(protocol.CodeInternal, "%w", err)
	}
	w.client = c
	return nil
}

// touch says that the status may have changed; it never blocks.
func (w *worker) touch() {
	select {
	case w.dirty <- struct{}{}:
	default: // one is due already
	}
}

// say writes a status when it differs from the last one or that is long ago;
// moving says that bytes move.
func (w *worker) say() (moving bool, err error) {
	now := time.Now()
	s := swarm.Status{Version: w.latest.Version, Error: w.err, Models: []swarm.ModelStatus{}}
	if w.client != nil {
		s.Addr = w.client.listener.Addr().String()
	}
	for id, m := range w.leaving {
		select {
		case <-m.done:
			delete(w.leaving, id)
		default:
			s.Version = min(s.Version, m.newest().version)
		}
	}
	for _, o := range w.latest.Models {
		m := w.models[o.Model]
		if m == nil {
			continue // no client yet
		}
		ms, version, active := m.status(now)
		s.Models = append(s.Models, ms)
		s.Version = min(s.Version, version)
		moving = moving || active
	}
	line, err := json.Marshal(s)
	if err != nil {
		return false, err
	}
	if slices.Equal(line, w.said) && now.Sub(w.saidAt) < swarm.Heartbeat {
		return moving, nil
	}
	w.said, w.saidAt = line, now
	s.Time = now.UTC()
	if line, err = json.Marshal(s); err != nil {
		return false, err
	}
	if _, err := w.out.Write(append(line, '\n')); err != nil {
		return false, fmt.Errorf("output of the BitTorrent process: %w", err)
	}
	return moving, nil
}

// close ends all models, then the client.
func (w *worker) close() {
	all := []*model{}
	for _, m := range w.models {
		all = append(all, m)
	}
	for _, m := range w.leaving {
		all = append(all, m)
	}
	for _, m := range all {
		m.stop()
	}
	for _, m := range all {
		<-m.done
	}
	if w.client != nil {
		w.client.close()
	}
}
