// Package library is what this node has of the network's models: it finds them
// in the tracker's catalog, has the swarm fetch the layers that are wanted into
// shard folders, seeds files that the user already has, and orders repairs.
//
// The composition (engine/program) imports it. It joins engine/artifact,
// engine/manifest and engine/swarm, and knows neither stages nor sessions.
package library

import (
	"context"
	"log/slog"
	"maps"
	"path/filepath"
	"slices"
	"sync"
	"time"

	"neuron/engine/artifact"
	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/engine/swarm"
)

// Catalog gives what the tracker publishes; *catalog.Client satisfies it.
type Catalog interface {
	// Get finds a model by id or name, checks its manifest and torrent, and
	// writes both into the model's folder. Errors: model_not_found,
	// model_invalid, forbidden, unavailable.
	Get(ctx context.Context, ref string) (m *manifest.Manifest, dir string, err error)
	// AnnounceURL is where the tracker tells peers of a model.
	AnnounceURL(m *manifest.Manifest) string
}

// Swarm fetches and seeds; *swarm.Host satisfies it.
type Swarm interface {
	Set(swarm.Wanted) error
	Status() swarm.Status
}

// Options of a Library.
type Options struct {
	Catalog Catalog
	Swarm   Swarm
	Listen  string // of the swarm
	Limits  swarm.Limits
	Logger  *slog.Logger
}

// Model is a model of the catalog and its folder on this node.
type Model struct {
	Manifest *manifest.Manifest
	Dir      string
}

// Library is safe for concurrent use. It has no goroutine of its own.
type Library struct {
	o Options

	mu sync.Mutex
	// Protected by mu.
	wanted  map[protocol.ModelID]*swarm.Model
	paused  bool
	version int64         // of the newest Wanted
	repairs int           // number of the newest repair order
	news    chan struct{} // closed at each Changed
}

// New makes a library that wants nothing.
func New(o Options) *Library {
	return &Library{o: o, wanted: map[protocol.ModelID]*swarm.Model{}, news: make(chan struct{})}
}

// Find looks a model up by id or name.
func (l *Library) Find(ctx context.Context, ref string) (*Model, error) {
	m, dir, err := l.o.Catalog.Get(ctx, ref)
	if err != nil {
		return nil, err
	}
	return &Model{Manifest: m, Dir: dir}, nil
}

// Changed tells the library that the swarm's status is a new one.
func (l *Library) Changed() {
	l.mu.Lock()
	close(l.news)
	l.news = make(chan struct{})
	l.mu.Unlock()
}

// update changes what is wanted of a model and tells the swarm.
func (l *Library) update(id protocol.ModelID, change func(*swarm.Model)) (version int64, err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.wanted[id]
	if m == nil {
		m = &swarm.Model{Model: id}
		l.wanted[id] = m
	}
	change(m)
	return l.sendLocked()
}

// sendLocked hands the whole description over, while the lock keeps the order.
func (l *Library) sendLocked() (int64, error) {
	l.version++
	w := swarm.Wanted{Version: l.version, Listen: l.o.Listen, Paused: l.paused, Limits: l.o.Limits}
	for _, id := range slices.Sorted(maps.Keys(l.wanted)) {
		m := *l.wanted[id]
		m.Ranges, m.Damaged = slices.Clone(m.Ranges), slices.Clone(m.Damaged)
		w.Models = append(w.Models, m)
	}
	return l.version, l.o.Swarm.Set(w)
}

// Release says that no layers of a model are wanted any more: they are no longer
// fetched or seeded, and stay on disk as long as the limits allow. A model that
// was adopted is seeded on.
func (l *Library) Release(id protocol.ModelID) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	m := l.wanted[id]
	switch {
	case m == nil:
		return nil
	case len(m.Adopted) > 0:
		m.Ranges = nil
	default:
		delete(l.wanted, id)
	}
	_, err := l.sendLocked()
	return err
}

// Pause stops or resumes all transfer.
func (l *Library) Pause(on bool) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.paused = on
	_, err := l.sendLocked()
	return err
}

// SetLimits changes what the swarm may take.
func (l *Library) SetLimits(x swarm.Limits) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.o.Limits = x
	_, err := l.sendLocked()
	return err
}

// Fetch has the layers of ranges (none: the metadata alone) fetched into the
// model's folder and returns when they are there, whole pieces that matched
// their hashes. progress gets each new state. What does not get on (no peers, a
// full disk) goes on by itself when it can; ctx bounds the wait.
func (l *Library) Fetch(ctx context.Context, m *Model, ranges []protocol.Range, progress func(swarm.ModelStatus)) error {
	if _, err := m.Manifest.NeedAll(ranges...); err != nil {
		return err
	}
	id := m.Manifest.Model
	version, err := l.update(id, func(w *swarm.Model) {
		w.Dir, w.Ranges, w.Announce = m.Dir, ranges, []string{l.o.Catalog.AnnounceURL(m.Manifest)}
	})
	if err != nil {
		return err
	}
	for {
		l.mu.Lock()
		news := l.news
		l.mu.Unlock()
		st, ok := l.o.Swarm.Status(), false
		var s swarm.ModelStatus
		if st.Version >= version {
			s, ok = find(st, id)
		}
		if ok {
			progress(s)
			switch s.State {
			case swarm.StateComplete:
				return nil
			case swarm.StateFailed:
				if s.Error != nil {
					return s.Error
				}
			}
		}
		select {
		case <-news:
		case <-ctx.Done():
			return protocol.Errorf(protocol.CodeCancelled, "fetch %s: %w", m.Manifest.Name, context.Cause(ctx))
		}
	}
}

func find(st swarm.Status, id protocol.ModelID) (swarm.ModelStatus, bool) {
	for _, s := range st.Models {
		if s.Model == id {
			return s, true
		}
	}
	return swarm.ModelStatus{}, false
}

// Status is what the swarm says of a model.
func (l *Library) Status(id protocol.ModelID) (swarm.ModelStatus, bool) {
	return find(l.o.Swarm.Status(), id)
}

// Addr is where other nodes' swarms reach this one, "" before it listens.
func (l *Library) Addr() string { return l.o.Swarm.Status().Addr }

// Shard opens layers that Fetch has brought.
func (l *Library) Shard(ctx context.Context, m *Model, r protocol.Range) (*artifact.Shard, error) {
	src, err := artifact.OpenFolder(m.Dir, m.Manifest)
	if err != nil {
		return nil, err
	}
	return src.Shard(ctx, r, "", nil)
}

// Damaged orders a repair of files in a model's folder; Fetch then returns when
// they are whole again.
func (l *Library) Damaged(id protocol.ModelID, files []string) error {
	_, err := l.update(id, func(w *swarm.Model) {
		l.repairs++
		for _, f := range files {
			w.Damaged = slices.DeleteFunc(w.Damaged, func(d swarm.Damaged) bool { return d.File == f })
			w.Damaged = append(w.Damaged, swarm.Damaged{File: f, Number: l.repairs})
		}
	})
	return err
}

// adoptRetry is how often the catalog is asked for a file of this computer.
const adoptRetry = 10 * time.Second

// Adopt seeds a model that lies on this computer from where it is, as soon as
// the catalog has it; it returns then, or when ctx ends. Errors are those of
// Find that will not go away.
func (l *Library) Adopt(ctx context.Context, src *artifact.Source) error {
	files := make([]string, len(src.Files))
	for i, f := range src.Files {
		abs, err := filepath.Abs(f)
		if err != nil {
			return protocol.Errorf(protocol.CodeModelUnknown, "%s: %w", f, err)
		}
		files[i] = abs
	}
	for {
		m, err := l.Find(ctx, string(src.ID))
		switch code := protocol.AsError(err); {
		case err == nil:
			if _, err := l.update(src.ID, func(w *swarm.Model) {
				w.Dir, w.Adopted, w.Announce = m.Dir, files, []string{l.o.Catalog.AnnounceURL(m.Manifest)}
			}); err != nil {
				return err
			}
			l.o.Logger.Info("Model is seeded from its place", "model", src.Name, "files", len(src.Files))
			return nil
		case ctx.Err() != nil:
			return nil
		case code.Code == protocol.CodeModelUnknown, code.Code == protocol.CodeUnavailable, code.Code == protocol.CodeTimeout:
		default:
			return err
		}
		timer := time.NewTimer(adoptRetry)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// Capability is what can be reported of layers before a stage has them.
func (m *Model) Capability(r protocol.Range) protocol.Capability {
	x := m.Manifest
	return protocol.Capability{
		Model: x.Model, Name: x.Name, Architecture: x.Architecture, Layers: x.Layers, Loaded: r,
		Head: r.First == 0, Tail: r.Last == x.Layers, Exits: []int{r.Last}, Cuts: x.Cuts, Width: x.Width, WholeOnly: x.WholeOnly,
		DTypes: []string{protocol.DTypeF32.String()}, Sidebands: []string{}, KVBytesPerCell: x.KVCellBytes(r), KVType: "f16",
		MaxContext: min(x.Context, protocol.MaxContext), WeightBytes: x.WeightBytes(r),
	}
}
