package snapshot

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"neuron/engine/prefix"
	"neuron/engine/protocol"
)

const (
	suffix = ".prefix"
	// tempMark begins the names of files that are not finished.
	tempMark = ".snapshot-"
	// MaxAge is how long a file stays after its last use.
	MaxAge = 24 * time.Hour
	// maxFiles bounds the headers in memory.
	maxFiles = 512
	// spare is the free space that a shelf leaves to others.
	spare = 1 << 30
	// step is what is written between two looks at whether somebody waits.
	step = 1 << 20
)

// ErrBusy says that a snapshot was given up for work that is more urgent.
var ErrBusy = errors.New("the stage is busy")

// Shelf is a folder of snapshots. It is safe for concurrent use; one process
// uses a folder at a time.
type Shelf struct {
	dir   string
	limit int64
	stage Header // what its snapshots have to fit
	free  func() (int64, error)
	log   *slog.Logger

	mu    sync.Mutex
	files map[string]*file // by name; guarded by mu
	count Counts           // guarded by mu
}

type file struct {
	h    *Header // nil when it is for another stage
	size int64
	used time.Time
}

// Counts are what a shelf did since it was opened, and what it holds.
type Counts struct {
	Written  int   `json:"written,omitempty"`
	Restored int   `json:"restored,omitempty"`
	Damaged  int   `json:"damaged,omitempty"` // files that were removed for it
	Files    int   `json:"files,omitempty"`
	Bytes    int64 `json:"bytes,omitempty"`
}

// Options say what a shelf holds.
type Options struct {
	Dir   string
	Limit int64 // bytes of all files
	// Stage is what the snapshots have to fit.
	Stage Header
	// Free tells the free space of the folder's disk.
	Free   func() (int64, error)
	Logger *slog.Logger
}

// Open reads the headers of a folder's files, which it makes when it is missing.
// What is damaged, unfinished or too old is removed; what is for other stages
// stays, and counts.
func Open(o Options) (*Shelf, error) {
	if err := os.MkdirAll(o.Dir, 0o700); err != nil {
		return nil, fmt.Errorf("folder of snapshots: %w", err)
	}
	s := &Shelf{dir: o.Dir, limit: o.Limit, stage: o.Stage, free: o.Free, log: o.Logger, files: map[string]*file{}}
	list, err := os.ReadDir(o.Dir)
	if err != nil {
		return nil, fmt.Errorf("folder of snapshots: %w", err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, e := range list {
		switch name := e.Name(); {
		case strings.HasPrefix(name, tempMark):
			s.unlink(name)
		case strings.HasSuffix(name, suffix) && e.Type().IsRegular():
			s.scanLocked(name)
		}
	}
	s.shrinkLocked(0, time.Now())
	return s, nil
}

// scanLocked reads a file's header.
func (s *Shelf) scanLocked(name string) {
	h, size, used, err := peek(filepath.Join(s.dir, name))
	if err != nil {
		s.damagedLocked(name, err)
		return
	}
	f := &file{size: size, used: used}
	if s.stage.Fits(h) {
		f.h = h
	}
	s.files[name] = f
}

// peek reads the beginning of a file.
func peek(path string) (h *Header, size int64, used time.Time, err error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, 0, used, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, 0, used, err
	}
	b, err := io.ReadAll(io.LimitReader(f, maxHeader))
	if err != nil {
		return nil, 0, used, err
	}
	h, head, blob, err := parseHeader(b)
	if err == nil && st.Size() != int64(head)+blob+sha256.Size {
		err = fmt.Errorf("%w: %d bytes", ErrDamaged, st.Size())
	}
	return h, st.Size(), st.ModTime(), err
}

// Found is a snapshot that helps.
type Found struct {
	Name   string
	Blocks int   // that it has in common with what was asked for
	Size   int64 // of the file
}

// Find looks for the file with the most blocks in common; Blocks is 0 without
// one.
func (s *Shelf) Find(scope protocol.Hash, exit int, keys prefix.Keys) (best Found) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, f := range s.files {
		if f.h == nil || f.h.Scope != scope || f.h.Exit != exit {
			continue
		}
		if n := f.h.Keys.Common(keys); n > best.Blocks || n > 0 && n == best.Blocks && f.size < best.Size {
			best = Found{name, n, f.size}
		}
	}
	return best
}

// States are what the shelf's files hold for this stage, newest first.
func (s *Shelf) States() []prefix.Keys {
	s.mu.Lock()
	defer s.mu.Unlock()
	var all []*file
	for _, f := range s.files {
		if f.h != nil {
			all = append(all, f)
		}
	}
	slices.SortFunc(all, func(a, b *file) int { return b.used.Compare(a.used) })
	out := make([]prefix.Keys, len(all))
	for i, f := range all {
		out[i] = f.h.Keys
	}
	return out
}

// Load reads a file and checks all of it. A damaged one is removed; the error
// wraps ErrDamaged then.
func (s *Shelf) Load(name string) (*Header, []byte, error) {
	path := filepath.Join(s.dir, name)
	b, err := s.read(path)
	var h *Header
	var blob []byte
	if err == nil {
		if h, blob, err = Parse(b); err == nil && !s.stage.Fits(h) {
			err = fmt.Errorf("%w: it is for another stage", ErrDamaged)
		}
	}
	if errors.Is(err, ErrDamaged) || errors.Is(err, fs.ErrNotExist) {
		s.Damaged(name, err)
	}
	if err != nil {
		return nil, nil, err
	}
	now := time.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count.Restored++
	if f := s.files[name]; f != nil {
		f.used = now
	}
	if err := os.Chtimes(path, now, now); err != nil {
		s.log.Debug("A snapshot's time is not set", "error", err)
	}
	return h, blob, nil
}

// read reads a file whose size was checked when it was found.
func (s *Shelf) read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return nil, err
	}
	if st.Size() > s.limit || st.Size() < fixedSize {
		return nil, fmt.Errorf("%w: %d bytes", ErrDamaged, st.Size())
	}
	b := make([]byte, st.Size())
	if _, err := io.ReadFull(f, b); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	}
	return b, nil
}

// Damaged removes a file that cannot be used and counts it.
func (s *Shelf) Damaged(name string, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.damagedLocked(name, why)
}

func (s *Shelf) damagedLocked(name string, why error) {
	s.count.Damaged++
	s.log.Warn("A snapshot is damaged and was removed", "file", name, "error", why)
	s.removeLocked(name)
}

func (s *Shelf) removeLocked(name string) {
	delete(s.files, name)
	s.unlink(name)
}

func (s *Shelf) unlink(name string) {
	if err := os.Remove(filepath.Join(s.dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("A snapshot cannot be removed", "file", name, "error", err)
	}
}

// Save writes a snapshot, unless it does not fit, and removes those that it
// holds. It asks busy between steps of 1 MiB and gives up with ErrBusy.
func (s *Shelf) Save(h *Header, blob []byte, busy func() bool) error {
	head, err := h.encode(len(blob))
	if err != nil {
		return err
	}
	size := int64(len(head)+len(blob)) + sha256.Size
	if size > s.limit/2 {
		return fmt.Errorf("a snapshot of %d bytes is too large for a shelf of %d", size, s.limit)
	}
	free, err := s.free()
	if err != nil {
		return fmt.Errorf("free space: %w", err)
	}
	if free < size+spare {
		return fmt.Errorf("no space for a snapshot of %d bytes: %d are free", size, free)
	}
	s.mu.Lock()
	s.shrinkLocked(size, time.Now())
	s.mu.Unlock()
	name := nameOf(h)
	if err := s.write(name, head, blob, busy); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for other, f := range s.files {
		if f.h != nil && other != name && f.h.Scope == h.Scope && f.h.Exit == h.Exit && f.h.Keys.Common(h.Keys) == f.h.Keys.Blocks() {
			s.removeLocked(other)
		}
	}
	s.files[name] = &file{h: h, size: size, used: time.Now()}
	s.count.Written++
	return nil
}

// nameOf is one name for one state.
func nameOf(h *Header) string {
	sum := sha256.New()
	sum.Write([]byte(h.Model))
	sum.Write(h.Scope[:])
	sum.Write(binary.LittleEndian.AppendUint32(nil, uint32(h.Exit)))
	sum.Write(h.Keys)
	return hex.EncodeToString(sum.Sum(nil)[:16]) + suffix
}

// write puts a file into its place in one step. It is not forced to the disk:
// what a crash leaves of it is found damaged.
func (s *Shelf) write(name string, head, blob []byte, busy func() bool) (err error) {
	f, err := os.CreateTemp(s.dir, tempMark+"*")
	if err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, f.Close(), os.Remove(f.Name()))
		}
	}()
	sum := sha256.New()
	out := io.MultiWriter(f, sum)
	if _, err := out.Write(head); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	for len(blob) > 0 {
		if busy() {
			return ErrBusy
		}
		n := min(len(blob), step)
		if _, err := out.Write(blob[:n]); err != nil {
			return fmt.Errorf("snapshot: %w", err)
		}
		blob = blob[n:]
	}
	if _, err := f.Write(sum.Sum(nil)); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if err := f.Close(); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	if err := os.Rename(f.Name(), filepath.Join(s.dir, name)); err != nil {
		return fmt.Errorf("snapshot: %w", err)
	}
	return nil
}

// Sweep removes what is too old.
func (s *Shelf) Sweep(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.shrinkLocked(0, now)
}

// shrinkLocked removes what is too old, and the least used files until more
// bytes fit.
func (s *Shelf) shrinkLocked(more int64, now time.Time) {
	total := more
	for name, f := range s.files {
		if now.Sub(f.used) > MaxAge {
			s.removeLocked(name)
		} else {
			total += f.size
		}
	}
	for total > s.limit || len(s.files) >= maxFiles {
		oldest := ""
		for name, f := range s.files {
			if oldest == "" || f.used.Before(s.files[oldest].used) {
				oldest = name
			}
		}
		if oldest == "" {
			return
		}
		total -= s.files[oldest].size
		s.removeLocked(oldest)
	}
}

// Counts are the shelf's figures.
func (s *Shelf) Counts() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := s.count
	c.Files = len(s.files)
	for _, f := range s.files {
		c.Bytes += f.size
	}
	return c
}
