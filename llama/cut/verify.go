package cut

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"syscall"

	"neuron/internal/lowprio"
)

// ErrUnverified is wrapped when files do not have the content that the index
// states, so that no stage is made of them.
var ErrUnverified = errors.New("content does not match")

// DamagedError names the files of a folder whose content is not what the index
// (for meta.gguf: the publisher) says. It wraps ErrShard and ErrUnverified.
type DamagedError struct{ Files []string }

func (e *DamagedError) Error() string {
	return fmt.Sprintf("%v: %v: %s", ErrShard, ErrUnverified, strings.Join(e.Files, ", "))
}

// Unwrap makes errors.Is match both errors.
func (e *DamagedError) Unwrap() []error { return []error{ErrShard, ErrUnverified} }

// VerifyOptions shape a verification; the zero value works.
type VerifyOptions struct {
	// Workers hash at the same time; 0: as many as there are processors.
	Workers int
	// Progress gets bytes hashed and bytes to hash, from one goroutine at a
	// time. Files that are remembered as sound are in neither.
	Progress Progress
	// Low hashes on threads of low priority, as everything does that is not
	// a stage's own work.
	Low bool
	// Again hashes also what is remembered as sound.
	Again bool
}

// Verify hashes every tensor that a stage for [first, last) needs and returns
// the files with other content than the index states, sorted: holes, flipped
// bits, missing or cut files. What was sound is remembered in verified.json
// and not hashed again while the file's size, times and inode are the same.
// The folder is locked meanwhile.
//
// An error means that the check could not be made, or the index lacks a file
// of the range (ErrShard).
func (s *Store) Verify(ctx context.Context, first, last int, o VerifyOptions) (bad []string, err error) {
	err = locked(s.dir, func() error {
		_, bad, err = s.verify(ctx, first, last, o)
		return err
	})
	return bad, err
}

// verify is Verify under the lock; it also returns the stage's files.
func (s *Store) verify(ctx context.Context, first, last int, o VerifyOptions) ([]part, []string, error) {
	if err := s.reload(); err != nil {
		return nil, nil, err
	}
	parts, err := s.parts(first, last)
	if err != nil {
		return nil, nil, err
	}
	x := s.Index()
	rec := readRecords(s.dir)
	var todo []*check
	var bad []string
	for _, p := range parts {
		if !p.own {
			continue
		}
		c := newCheck(s.dir, filepath.Base(p.path), x)
		switch ok, err := c.open(rec, o.Again); {
		case err != nil:
			closeAll(todo)
			return nil, nil, err
		case c.bad:
			bad = append(bad, c.file)
		case !ok:
			todo = append(todo, c)
		}
	}
	defer closeAll(todo)
	if err := hashAll(ctx, todo, o); err != nil {
		return nil, nil, err
	}
	for _, c := range todo {
		if !c.bad {
			if err := c.finish(rec); err != nil {
				return nil, nil, err
			}
		}
		if c.bad {
			delete(rec, c.file)
			bad = append(bad, c.file)
		}
	}
	if len(todo) > 0 || len(bad) > 0 {
		if err := writeRecords(s.dir, rec); err != nil {
			return nil, nil, err
		}
	}
	slices.Sort(bad)
	return parts, bad, nil
}

// reload takes the index as it is on disk now: another process may have added
// or dropped files.
func (s *Store) reload() error {
	x, err := readIndex(s.dir)
	if err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if x.Model != s.index.Model || x.Layers != s.index.Layers || x.Alignment != s.index.Alignment || x.Tied != s.index.Tied {
		return fmt.Errorf("%w: %s has become another model's", ErrShard, s.dir)
	}
	s.index = x
	return nil
}

// check is the verification of one file.
type check struct {
	file    string
	path    string
	tensors []Tensor
	size    int64
	digest  string // of what the file should hold
	f       *os.File
	before  stamp
	aged    bool
	bad     bool
}

func newCheck(dir, file string, x *Index) *check {
	list := x.Files[file]
	return &check{file: file, path: filepath.Join(dir, file), tensors: list, size: FileSize(list, x.Alignment), digest: digestOf(list)}
}

func closeAll(list []*check) {
	for _, c := range list {
		if c.f != nil {
			_ = c.f.Close() // only read
			c.f = nil
		}
	}
}

// damage reports whether a file that cannot be read is to be renewed, rather
// than a matter of rights or of the computer.
func damage(err error) bool {
	return errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF) || errors.Is(err, io.ErrUnexpectedEOF) || errors.Is(err, syscall.EIO)
}

// open compares the file with the record; ok means that it is the file that
// was sound. Otherwise the file is left open, its time set back: a write from
// here on will show.
func (c *check) open(rec map[string]record, again bool) (ok bool, err error) {
	if c.f, err = os.Open(c.path); err != nil {
		c.bad = damage(err)
		if c.bad {
			return false, nil
		}
		return false, fmt.Errorf("%w: %w", ErrShard, err)
	}
	defer func() {
		if ok || c.bad || err != nil {
			closeAll([]*check{c})
		}
	}()
	now, err := stampOf(c.f)
	if err != nil {
		return false, err
	}
	if now.Size != c.size {
		c.bad = true
		return false, nil
	}
	if r, known := rec[c.file]; known && !again && r.Digest == c.digest && r.stamp == now {
		return true, nil
	}
	c.before, c.aged, err = age(c.f, c.path)
	return false, err
}

// finish remembers a file whose tensors all matched. What was hashed may have
// come from memory: the record must not outlive a power loss that the data
// does not.
func (c *check) finish(rec map[string]record) error {
	after, err := stampOf(c.f)
	if err != nil {
		return err
	}
	if c.aged && after != c.before {
		c.bad = true // somebody writes while we read
		return nil
	}
	if !c.aged {
		delete(rec, c.file)
		return nil
	}
	if err := syncPath(c.path); err != nil {
		return fmt.Errorf("sync %s: %w", c.file, err)
	}
	rec[c.file] = record{stamp: after, Digest: c.digest}
	return nil
}

// syncPath flushes a file; Windows wants a handle that may write for it.
func syncPath(path string) error {
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}

// hashJob is one tensor to hash.
type hashJob struct {
	c *check
	t Tensor
}

// hashBlock is what is read at a time: small enough to stay in the core's own
// cache between reading and hashing.
const hashBlock = 256 << 10

// hashAll hashes the tensors of all checks and marks files with a mismatch.
func hashAll(ctx context.Context, todo []*check, o VerifyOptions) error {
	var jobs []hashJob
	var total int64
	for _, c := range todo {
		for _, t := range c.tensors {
			jobs = append(jobs, hashJob{c, t})
			total += int64(t.Bytes)
		}
	}
	// The largest first, so that no worker is left with one at the end.
	slices.SortStableFunc(jobs, func(a, b hashJob) int { return int(min(max(int64(b.t.Bytes)-int64(a.t.Bytes), -1), 1)) })
	workers := o.Workers
	if workers <= 0 {
		workers = runtime.GOMAXPROCS(0)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var (
		mu   sync.Mutex
		next int
		done int64
		wg   sync.WaitGroup
	)
	progress := func(n int64) {
		if o.Progress == nil {
			return
		}
		mu.Lock()
		defer mu.Unlock()
		done += n
		o.Progress(done, total)
	}
	work := func() error {
		buf := make([]byte, hashBlock)
		for {
			mu.Lock()
			i := next
			next++
			mu.Unlock()
			if i >= len(jobs) {
				return nil
			}
			match, err := jobs[i].matches(ctx, buf, progress)
			if err != nil {
				return err
			}
			if !match {
				mu.Lock()
				jobs[i].c.bad = true
				mu.Unlock()
			}
		}
	}
	for range min(workers, len(jobs)) {
		wg.Go(func() {
			if err := o.run(work); err != nil {
				cancel(err)
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}

// run runs a worker at the priority that was asked for.
func (o VerifyOptions) run(work func() error) error {
	if o.Low {
		return lowprio.Do(work)
	}
	return work()
}

// matches hashes one tensor.
func (j hashJob) matches(ctx context.Context, buf []byte, progress func(int64)) (bool, error) {
	h := sha256.New()
	at, left := HeaderRegion+int64(j.t.Offset), int64(j.t.Bytes)
	for left > 0 {
		if err := ctx.Err(); err != nil {
			return false, err
		}
		n, err := j.c.f.ReadAt(buf[:min(left, int64(len(buf)))], at)
		if n == 0 && err != nil {
			if damage(err) {
				return false, nil
			}
			return false, fmt.Errorf("read %s: %w", j.c.file, err)
		}
		h.Write(buf[:n])
		at, left = at+int64(n), left-int64(n)
		progress(int64(n))
	}
	return hex.EncodeToString(h.Sum(nil)) == j.t.SHA256, nil
}
