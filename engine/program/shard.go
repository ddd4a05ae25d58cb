package program

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"neuron/engine/artifact"
	"neuron/engine/library"
	"neuron/engine/protocol"
	"neuron/engine/stage"
	"neuron/engine/swarm"
)

// assignment is what a shard should hold.
type assignment struct {
	// local is a shard of a file of this computer, ready to be verified.
	local *artifact.Shard
	// model and layers are fetched, where local is nil. Both zero: nothing yet.
	model  *library.Model
	layers protocol.Range
}

func (a assignment) empty() bool { return a.local == nil && a.model == nil }

// leaves reports whether a fetched model is given up for this assignment.
func (a assignment) leaves(held *artifact.Shard) bool {
	return held.Source.Folder != "" && (a.model == nil || a.model.Manifest.Model != held.Source.ID)
}

// shard keeps one range of layers running: it gets the files, lets the load
// gate see them, runs the stage, repairs what is found damaged, and moves to
// another assignment when it gets one. Run owns all of its goroutines.
type shard struct {
	// Constant.
	lib      *library.Library // nil when nothing can be fetched
	newStage func(*artifact.Shard, prepare) (*stage.Host, error)
	changed  func() // called after each change of Report
	log      *slog.Logger

	mu sync.Mutex
	// Protected by mu.
	want   assignment
	parked bool                 // nothing is held for now
	moved  chan struct{}        // closed when want or parked change
	held   *artifact.Shard      // nil until its files are there
	host   *stage.Host          // nil until its files are there
	idle   protocol.ShardReport // what Report says while there is no host
	gate   bool                 // the load gate is at work
	mends  map[string]int       // repairs of each file under this assignment
}

// prepare is stage.HostOptions.Prepare.
type prepare func(context.Context) ([]string, func(), error)

const (
	// retryPause is between attempts to get the files.
	retryPause = 5 * time.Second
	// drainPatience is how long sessions may take to end before a shard moves.
	drainPatience = 2 * time.Minute
	drainPoll     = 100 * time.Millisecond
)

func newShard(want assignment, lib *library.Library, changed func(), log *slog.Logger) *shard {
	s := &shard{lib: lib, changed: changed, log: log, moved: make(chan struct{})}
	s.want = want
	s.idle = idleReport(want)
	return s
}

// idleReport is what can be said of an assignment before its files are there.
func idleReport(a assignment) protocol.ShardReport {
	switch {
	case a.local != nil:
		return protocol.ShardReport{State: protocol.ShardVerifying, Capability: a.local.Capability(defaultChunkRows)}
	case a.model != nil:
		return protocol.ShardReport{State: protocol.ShardDownloading, Capability: a.model.Capability(a.layers)}
	}
	return protocol.ShardReport{}
}

// Assign moves the shard; what it holds goes on until its sessions have ended.
func (s *shard) Assign(a assignment) {
	s.mu.Lock()
	s.want, s.mends = a, nil
	if s.host == nil {
		s.idle = s.idleLocked()
	}
	close(s.moved)
	s.moved = make(chan struct{})
	s.mu.Unlock()
}

// Park holds nothing, and unloads what is held once its sessions have ended.
func (s *shard) Park(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parked == on {
		return
	}
	s.parked = on
	if s.host == nil {
		s.idle = s.idleLocked()
	}
	close(s.moved)
	s.moved = make(chan struct{})
}

// idleLocked is what can be said while there is no stage.
func (s *shard) idleLocked() protocol.ShardReport {
	r := idleReport(s.want)
	if s.parked && !s.want.empty() {
		r.State = protocol.ShardDraining
	}
	return r
}

// awake waits until the shard is not parked; false when ctx ends first.
func (s *shard) awake(ctx context.Context) bool {
	for ctx.Err() == nil {
		s.mu.Lock()
		parked, moved := s.parked, s.moved
		s.mu.Unlock()
		if !parked {
			return true
		}
		select {
		case <-moved:
		case <-ctx.Done():
		}
	}
	return false
}

// current is what is to be held now, nothing while the shard is parked.
func (s *shard) current() (assignment, <-chan struct{}) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.parked {
		return assignment{}, s.moved
	}
	return s.want, s.moved
}

// Run holds what is assigned until ctx ends.
func (s *shard) Run(ctx context.Context) {
	for ctx.Err() == nil {
		want, moved := s.current()
		if want.empty() {
			select {
			case <-moved:
			case <-ctx.Done():
			}
			continue
		}
		held, err := s.obtain(ctx, want, moved)
		if err == nil {
			err = s.serve(ctx, held, moved)
		}
		if err == nil || ctx.Err() != nil {
			continue
		}
		s.fail(want, protocol.AsError(err))
		timer := time.NewTimer(retryPause)
		select {
		case <-timer.C:
		case <-moved:
		case <-ctx.Done():
		}
		timer.Stop()
	}
}

// until is a context that ends with the assignment, too.
func until(ctx context.Context, moved <-chan struct{}) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(ctx)
	stop := make(chan struct{})
	var watch sync.WaitGroup
	watch.Go(func() {
		select {
		case <-moved:
			cancel()
		case <-stop:
		}
	})
	return ctx, func() {
		close(stop)
		watch.Wait()
		cancel()
	}
}

// obtain gets the files; nil without an error when the assignment has changed.
func (s *shard) obtain(ctx context.Context, want assignment, moved <-chan struct{}) (*artifact.Shard, error) {
	if want.local != nil {
		return want.local, nil
	}
	ctx, cancel := until(ctx, moved)
	defer cancel()
	s.set(func() { s.idle = idleReport(want) })
	err := s.lib.Fetch(ctx, want.model, []protocol.Range{want.layers}, func(swarm.ModelStatus) { s.changed() })
	if err == nil {
		var held *artifact.Shard
		if held, err = s.lib.Shard(ctx, want.model, want.layers); err == nil {
			return held, nil
		}
	}
	if ctx.Err() != nil {
		return nil, nil
	}
	return nil, err
}

// serve runs the stage until ctx ends, the assignment changes, or files turn
// out damaged that have to be fetched again.
func (s *shard) serve(ctx context.Context, held *artifact.Shard, moved <-chan struct{}) error {
	if held == nil {
		return nil
	}
	damaged := make(chan []string, 1)
	host, err := s.newStage(held, func(ctx context.Context) ([]string, func(), error) {
		return s.prepare(ctx, held, damaged)
	})
	if err != nil {
		return err
	}
	s.set(func() { s.held, s.host = held, host })
	life, end := context.WithCancel(ctx)
	defer end()
	var running sync.WaitGroup
	running.Go(func() { host.Run(life) })

	var files []string
	select {
	case <-ctx.Done():
	case <-moved:
		s.prefetch(ctx, held)
		s.drain(ctx, host)
	case files = <-damaged:
	}
	end()
	running.Wait()
	var want assignment
	s.set(func() {
		want = s.want // also of one that is parked: it keeps its files
		s.held, s.host, s.idle = nil, nil, s.idleLocked()
	})
	if want.leaves(held) {
		return s.lib.Release(held.Source.ID)
	}
	if files == nil {
		return nil
	}
	if err := s.countMends(files); err != nil {
		return err
	}
	return s.lib.Damaged(held.Source.ID, files)
}

// maxMends is how often one file is fetched again before the node asks for
// help: what comes damaged each time is not a fault of the disk's moment.
const maxMends = 3

// countMends refuses to mend a file for ever.
func (s *shard) countMends(files []string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.mends == nil {
		s.mends = map[string]int{}
	}
	for _, f := range files {
		if s.mends[f]++; s.mends[f] > maxMends {
			return protocol.Errorf(protocol.CodeDataFolder, "%s was fetched %d times and is damaged again: the disk, or the publisher's torrent, is at fault", f, maxMends)
		}
	}
	return nil
}

// prefetch gets the files of the next assignment while the present stage goes
// on; what fails here is met again, and told, by obtain.
func (s *shard) prefetch(ctx context.Context, held *artifact.Shard) {
	for {
		want, moved := s.current()
		if want.model == nil {
			return
		}
		ranges := []protocol.Range{want.layers}
		if held.Source.ID == want.model.Manifest.Model && held.Source.Folder != "" {
			// Its files are in use until the stage has ended.
			ranges = append(ranges, held.Range)
		}
		life, cancel := until(ctx, moved)
		err := s.lib.Fetch(life, want.model, ranges, func(swarm.ModelStatus) { s.changed() })
		again := err != nil && life.Err() != nil && ctx.Err() == nil
		cancel()
		if !again {
			return
		}
	}
}

// prepare is the way of files to the stage: what is damaged never gets there.
// A file of this computer is cut again from its source; what was fetched is
// fetched again.
func (s *shard) prepare(ctx context.Context, held *artifact.Shard, damaged chan<- []string) ([]string, func(), error) {
	s.set(func() { s.gate = true })
	defer s.set(func() { s.gate = false })
	paths, release, err := held.Prepare(ctx)
	var bad *artifact.DamagedError
	if !errors.As(err, &bad) {
		return paths, release, err
	}
	s.log.Warn("Files are damaged", "model", held.Source.Name, "layers", held.Range.String(), "files", len(bad.Files))
	refused := protocol.Errorf(protocol.CodeModelDamaged, "%s, layers %s: %w", held.Source.Name, held.Range, err)
	if held.Source.Path == "" {
		select {
		case damaged <- bad.Files:
		default:
		}
		return nil, nil, refused
	}
	if err := held.Renew(ctx, bad.Files); err != nil {
		return nil, nil, protocol.Errorf(protocol.CodeModelDamaged, "%s: %w", refused.Message, err)
	}
	return held.Prepare(ctx)
}

// drain lets running sessions end.
func (s *shard) drain(ctx context.Context, host *stage.Host) {
	host.Drain(true)
	ctx, cancel := context.WithTimeout(ctx, drainPatience)
	defer cancel()
	tick := time.NewTicker(drainPoll)
	defer tick.Stop()
	for host.Report().Sessions > 0 {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return
		}
	}
}

func (s *shard) fail(want assignment, e *protocol.Error) {
	s.log.Warn("Shard is not there", "code", string(e.Code), "error", e)
	s.set(func() {
		s.idle = idleReport(want)
		s.idle.State, s.idle.Error = protocol.ShardFailed, e
	})
}

func (s *shard) set(f func()) {
	s.mu.Lock()
	f()
	s.mu.Unlock()
	s.changed()
}

// Report is the shard's state; ok is false while nothing is assigned.
func (s *shard) Report() (r protocol.ShardReport, ok bool) {
	s.mu.Lock()
	host, r, gate, empty := s.host, s.idle, s.gate, s.want.empty()
	s.mu.Unlock()
	if host == nil {
		return r, !empty
	}
	r = host.Report()
	if gate && r.State == protocol.ShardLoading {
		r.State = protocol.ShardVerifying
	}
	return r, true
}

// Host is the stage's keeper, nil until the files are there.
func (s *shard) Host() *stage.Host {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.host
}

// Process is the running stage, nil when there is none.
func (s *shard) Process() *stage.Process {
	if h := s.Host(); h != nil {
		return h.Process()
	}
	return nil
}

// Sound lists the files that were verified and have not changed since.
func (s *shard) Sound() []string {
	s.mu.Lock()
	held := s.held
	s.mu.Unlock()
	if held == nil {
		return nil
	}
	return held.Sound()
}
