// Package shelf keeps one model's folder as storage for torrent pieces: the
// one copy on disk that libllama maps and that other nodes are served from.
//
// A piece arrives in a staging file (WriteAt). When its hash has matched,
// Commit copies its bytes to where they belong: layer and tensor files of the
// shard folder (package llama/cut), the publisher's header, and for bytes that
// belong to no file here a side file of the piece. Only then ReadAt gives them
// to others. docs/decisions/0008 says why it is built so.
//
// The BitTorrent child (engine/swarm/worker) owns a shelf; the engine reads
// the same folder through llama/cut at the same time. The package knows
// manifests and shard folders, and no BitTorrent library.
package shelf

import (
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"sync/atomic"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/filelock"
	"neuron/internal/syserr"
)

// Options of a shelf; the zero value works.
type Options struct {
	Logger *slog.Logger // nil: none
	// KeepFree is free space, in bytes, that Want and WriteAt leave on the disk.
	KeepFree int64
	// Listed is called when a file of the shard folder has become complete: it
	// stands in shard.json and stages may be made of it. It is called from the
	// shelf's own goroutine and must not call the shelf.
	Listed func(file string)
	// Cleared is called when other pieces than the one that Commit was called
	// for have become incomplete, since a damaged file was renewed: they have
	// to be fetched again. It is called inside Commit and must not call the
	// shelf.
	Cleared func(pieces []int)
}

// FileProgress is the state of one file that is wanted, see Progress.
type FileProgress struct {
	Name  string // in the folder
	Layer int    // -1: belongs to no layer
	Bytes int64  // of the publisher's content
	// Done is what of it lies in complete pieces. It is Bytes only when the
	// file is also Listed.
	Done   int64
	Listed bool // stands in shard.json: stages may be made of it
}

// The folder's own names, beside those of llama/cut.
const (
	lockName   = "shelf.lock"
	partialDir = "partial" // files that are not complete
	stagingDir = "staging" // pieces whose hash is not checked
	sideDir    = "side"    // bytes of complete pieces that belong to no file here
)

// Shelf is one model's folder. Its methods are safe for concurrent use; for
// one piece the caller orders WriteAt, Commit and Reject.
//
// Locks, in the order in which they are taken: op (one change of the folder at
// a time), layout, staged.mu, mu, handle.mu.
type Shelf struct {
	// Constant after Open.
	dir    string
	plan   *plan
	log    *slog.Logger
	notify func(string)
	lost   func([]int)
	lock   *filelock.Lock
	state  *os.File

	keepFree   atomic.Int64
	stagedOpen atomic.Int32

	op     sync.Mutex
	closed bool // guarded by op and layout

	// layout is held shared by whoever moves bytes, and alone to change which
	// files there are.
	layout sync.RWMutex

	mu        sync.Mutex
	done      []bool
	staging   map[int]*staged
	adopted   *adopted
	wanted    map[*file]bool
	hasMeta   bool
	metaErr   error // why there never will be, see begin
	servedAt  int64 // when times of service were written, Unix seconds
	servedNew bool

	kick     chan struct{}
	quit     chan struct{}
	finished chan struct{}
}

// Open takes the folder (one shelf per folder: already_running) and reads its
// state. m has passed its Check. The folder may be new, an older shelf, or one
// that cut.Import made; in the last case, or when the state is damaged,
// Unproven lists pieces that Recheck can win back.
//
// Errors: already_running, data_folder, disk_full, model_invalid (the manifest
// cannot be laid out, or the folder holds another model).
func Open(dir string, m *manifest.Manifest, o Options) (*Shelf, error) {
	p, err := newPlan(m)
	if err != nil {
		return nil, err
	}
	for _, d := range []string{dir, filepath.Join(dir, partialDir), filepath.Join(dir, stagingDir), filepath.Join(dir, sideDir)} {
		if err := os.MkdirAll(d, 0o755); err != nil {
			return nil, ioError("model folder", err)
		}
	}
	s := &Shelf{
		dir: dir, plan: p, log: o.Logger, notify: o.Listed, lost: o.Cleared,
		staging: map[int]*staged{}, wanted: map[*file]bool{}, kick: make(chan struct{}, 1), quit: make(chan struct{}), finished: make(chan struct{}),
	}
	if s.log == nil {
		s.log = slog.New(slog.DiscardHandler)
	}
	s.keepFree.Store(o.KeepFree)
	if s.lock, err = filelock.Try(filepath.Join(dir, lockName)); err != nil {
		if errors.Is(err, filelock.ErrLocked) {
			return nil, protocol.Errorf(protocol.CodeAlreadyRunning, "the folder %s is in use: %w", dir, err)
		}
		return nil, ioError("model folder", err)
	}
	if err := s.load(); err != nil {
		if s.state != nil {
			_ = s.state.Close() // nothing was written
		}
		s.lock.Unlock()
		return nil, err
	}
	go s.finisher()
	s.wake()
	return s, nil
}

// enter begins an operation that moves bytes; leave ends it.
func (s *Shelf) enter() error {
	s.layout.RLock()
	if s.closed {
		s.layout.RUnlock()
		return errClosed()
	}
	return nil
}

func (s *Shelf) leave() { s.layout.RUnlock() }

func errClosed() error {
	return protocol.Errorf(protocol.CodeShutdown, "the model folder is closed")
}

// Close waits for what runs and frees the folder. Methods called later fail
// with shutdown.
func (s *Shelf) Close() error {
	s.op.Lock()
	if s.closed {
		s.op.Unlock()
		return nil
	}
	s.layout.Lock()
	s.closed = true
	s.layout.Unlock()
	s.op.Unlock()
	close(s.quit)
	<-s.finished
	var errs []error
	s.layout.Lock()
	defer s.layout.Unlock()
	for _, f := range s.plan.files {
		errs = append(errs, f.shut())
	}
	for _, st := range s.staging {
		if st.f != nil {
			_ = st.f.Close() // of no use after this
		}
	}
	if a := s.adopted; a != nil {
		a.close()
	}
	errs = append(errs, s.writeServed(), s.state.Close())
	s.lock.Unlock()
	return errors.Join(errs...)
}

// Dir is the folder.
func (s *Shelf) Dir() string { return s.dir }

// SetKeepFree changes Options.KeepFree.
func (s *Shelf) SetKeepFree(bytes int64) { s.keepFree.Store(bytes) }

// ioError gives an error of the file system its code.
func ioError(what string, err error) error {
	var known *protocol.Error
	switch {
	case errors.As(err, &known):
		return known
	case syserr.DiskFull(err):
		return protocol.Errorf(protocol.CodeDiskFull, "%s: %w", what, err)
	case errors.Is(err, io.ErrUnexpectedEOF):
		return protocol.Errorf(protocol.CodeNotFound, "%s: %w", what, err)
	}
	return protocol.Errorf(protocol.CodeDataFolder, "%s: %w", what, err)
}
