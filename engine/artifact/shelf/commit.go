package shelf

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"sync"

	"neuron/internal/atomicfile"
)

// handle is a file that stays open while its phase is the same.
type handle struct {
	mu sync.Mutex
	f  *os.File
}

// open gives the file for its phase; layout is held (shared is enough).
func (s *Shelf) open(f *file) (*os.File, error) {
	f.h.mu.Lock()
	defer f.h.mu.Unlock()
	if f.h.f != nil {
		return f.h.f, nil
	}
	path, flag := s.path(f), os.O_RDONLY
	switch f.phase {
	case absent:
		return nil, fmt.Errorf("%s: %w", f.name, fs.ErrNotExist)
	case partial:
		path, flag = s.partialPath(f), os.O_RDWR
	}
	o, err := os.OpenFile(path, flag, 0)
	if err != nil {
		return nil, err
	}
	f.h.f = o
	return o, nil
}

// shut closes it; layout is held alone.
func (f *file) shut() error {
	if f.h.f == nil {
		return nil
	}
	err := f.h.f.Close()
	f.h.f = nil
	return err
}

// blocks are buffers for copying.
var blocks = sync.Pool{New: func() any { return new([256 << 10]byte) }}

// copyBytes copies n bytes; short files are io.ErrUnexpectedEOF.
func copyBytes(dst io.WriterAt, to int64, src io.ReaderAt, from, n int64) error {
	block := blocks.Get().(*[256 << 10]byte)
	defer blocks.Put(block)
	for n > 0 {
		b := block[:min(n, int64(len(block)))]
		if k, err := src.ReadAt(b, from); k < len(b) {
			return short(err)
		}
		if _, err := dst.WriteAt(b, to); err != nil {
			return err
		}
		k := int64(len(b))
		from, to, n = from+k, to+k, n-k
	}
	return nil
}

func short(err error) error {
	if errors.Is(err, io.EOF) {
		return io.ErrUnexpectedEOF
	}
	return err
}

// sameBytes compares n bytes of two files; a file that is too short differs.
func sameBytes(a io.ReaderAt, from int64, b io.ReaderAt, at, n int64) (bool, error) {
	x, y := blocks.Get().(*[256 << 10]byte), blocks.Get().(*[256 << 10]byte)
	defer blocks.Put(x)
	defer blocks.Put(y)
	for n > 0 {
		k := min(n, int64(len(x)))
		if i, err := a.ReadAt(x[:k], from); int64(i) < k {
			return false, short(err)
		}
		if i, err := b.ReadAt(y[:k], at); int64(i) < k {
			if errors.Is(err, io.EOF) {
				return false, nil
			}
			return false, err
		}
		if !bytes.Equal(x[:k], y[:k]) {
			return false, nil
		}
		from, at, n = from+k, at+k, n-k
	}
	return true, nil
}

// zeros reports whether n bytes are all zero.
func zeros(r io.ReaderAt, from, n int64) (bool, error) {
	block := blocks.Get().(*[256 << 10]byte)
	defer blocks.Put(block)
	for n > 0 {
		b := block[:min(n, int64(len(block)))]
		if k, err := r.ReadAt(b, from); k < len(b) {
			return false, short(err)
		}
		for _, c := range b {
			if c != 0 {
				return false, nil
			}
		}
		from, n = from+int64(len(b)), n-int64(len(b))
	}
	return true, nil
}

// damagedError says that a file that may not be written has not the bytes that
// a proven piece has.
type damagedError struct{ file string }

func (e *damagedError) Error() string { return e.file + " has other bytes than the piece" }

// Commit says that the piece's hash matched what ReadAt gave. Its bytes go to
// their files; files that a stage may map are never written: where a proven
// piece shows that one is damaged, it is renewed (Repair) first. On error the
// piece stays in staging and Commit may be called again. Committing a complete
// piece does nothing.
//
// Errors: disk_full, data_folder, not_found (staging lacks bytes).
func (s *Shelf) Commit(piece int) error {
	if err := s.bounds(piece, 0, 0); err != nil {
		return err
	}
	err := s.commit(piece)
	var d *damagedError
	for tries := 0; errors.As(err, &d) && tries < len(s.plan.filesOf(piece)); tries++ {
		s.log.Warn("A file has other bytes than a proven piece, renewing it", "file", d.file, "piece", piece)
		cleared, failed := s.Repair(context.Background(), d.file)
		if failed != nil {
			return failed
		}
		cleared = slices.DeleteFunc(cleared, func(other int) bool { return other == piece })
		if s.lost != nil && len(cleared) > 0 {
			s.lost(cleared)
		}
		err = s.commit(piece)
	}
	if errors.As(err, &d) {
		return ioError("write a piece", err)
	}
	return err
}

func (s *Shelf) commit(piece int) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if s.Complete(piece) {
		return nil
	}
	st := s.stagedPiece(piece, false)
	size := s.PieceBytes(piece)
	if st == nil {
		return missing(piece, 0)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.gone || !st.holds(0, size) {
		return missing(piece, 0)
	}
	src, done, err := s.use(st)
	if err != nil {
		return ioError("read a staged piece", err)
	}
	defer done()
	if err := s.distribute(piece, src); err != nil {
		return err
	}
	if err := s.setDone(piece, true); err != nil {
		return err
	}
	s.kickFinisher(piece)
	if err := s.discard(piece, st); err != nil {
		s.log.Warn("A staged piece stays until the next start", "piece", piece, "error", err) // it costs room, no more
	}
	return nil
}

// distribute copies a proven piece to where its bytes belong.
func (s *Shelf) distribute(piece int, src *os.File) error {
	start, _ := s.plan.pieceBounds(piece)
	var side []segment
	for _, g := range s.plan.of(piece) {
		from := g.pos - start
		switch {
		case g.file == nil:
			if zero, err := zeros(src, from, g.n); err != nil {
				return ioError("read a staged piece", err)
			} else if !zero {
				side = append(side, g)
			}
		case g.file.phase == absent:
			side = append(side, g)
		case g.file.phase == partial:
			dst, err := s.open(g.file)
			if err == nil {
				err = copyBytes(dst, g.at, src, from, g.n)
			}
			if err != nil {
				return ioError("write "+g.file.name, err)
			}
		default:
			dst, err := s.open(g.file)
			if errors.Is(err, fs.ErrNotExist) {
				return &damagedError{g.file.name}
			}
			same := false
			if err == nil {
				same, err = sameBytes(src, from, dst, g.at, g.n)
			}
			if err != nil {
				return ioError("read "+g.file.name, err)
			}
			if !same {
				return &damagedError{g.file.name}
			}
		}
	}
	return s.writeSide(piece, side, func(dst *os.File, g segment) error {
		return copyBytes(dst, g.pos-start, src, g.pos-start, g.n)
	})
}

// sidePath is the file for the piece's bytes that belong to no file here. It
// has the piece's length, with holes.
func (s *Shelf) sidePath(piece int) string {
	return filepath.Join(s.dir, sideDir, fmt.Sprintf("%07d.bin", piece))
}

// writeSide replaces the piece's side file by one with the given segments, or
// removes it when there are none.
func (s *Shelf) writeSide(piece int, list []segment, fill func(*os.File, segment) error) error {
	path := s.sidePath(piece)
	if len(list) == 0 {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return ioError("remove a side file", err)
		}
		return nil
	}
	err := atomicfile.WriteFunc(path, func(f *os.File) error {
		markSparse(f)
		if err := f.Truncate(s.PieceBytes(piece)); err != nil {
			return err
		}
		for _, g := range list {
			if err := fill(f, g); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return ioError("write a side file", err)
	}
	return nil
}

// readDone reads bytes of a complete piece.
func (s *Shelf) readDone(piece int, b []byte, off int64) (int, error) {
	pos, _ := s.plan.pieceBounds(piece)
	if a := s.adoptedFiles(); a != nil {
		return a.readAt(s.plan, b, pos+off)
	}
	return s.readPlaced(piece, b, off)
}

// readPlaced reads bytes of a piece from the folder, whatever its completion
// says.
func (s *Shelf) readPlaced(piece int, b []byte, off int64) (int, error) {
	start, size := s.plan.pieceBounds(piece)
	var side *os.File
	defer func() {
		if side != nil {
			_ = side.Close() // only read
		}
	}()
	done := 0
	for _, g := range s.plan.at(start+off, int64(len(b))) {
		part := b[done : done+int(g.n)]
		var src *os.File
		at := g.at
		var err error
		if g.file != nil && g.file.phase != absent {
			src, err = s.open(g.file)
		} else {
			if side == nil {
				side, err = s.openSide(piece, size)
			}
			src, at = side, g.pos-start
			if g.file == nil && errors.Is(err, fs.ErrNotExist) {
				// Padding is kept only where it is not zero.
				clear(part)
				done += len(part)
				continue
			}
		}
		if err == nil {
			var n int
			if n, err = src.ReadAt(part, at); n == len(part) {
				done += n
				continue
			}
		}
		if errors.Is(err, fs.ErrNotExist) || errors.Is(err, io.EOF) {
			return done, missing(piece, g.pos-start)
		}
		return done, ioError("read a piece", err)
	}
	return done, nil
}

// openSide opens the piece's side file; one of another length is none.
func (s *Shelf) openSide(piece int, size int64) (*os.File, error) {
	f, err := os.Open(s.sidePath(piece))
	if err != nil {
		return nil, err
	}
	if st, err := f.Stat(); err != nil || st.Size() != size {
		_ = f.Close() // only read
		return nil, errors.Join(err, fs.ErrNotExist)
	}
	return f, nil
}
