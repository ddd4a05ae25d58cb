package shelf

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"

	"neuron/engine/protocol"
)

// staged is a piece that is arriving. What a restart finds in the folder
// staging/ is of no use (which bytes are there, only memory knows) and dropped.
type staged struct {
	mu   sync.Mutex
	path string
	f    *os.File // nil: closed, or not made yet
	made bool
	have []span // ascending, apart from each other
	gone bool   // committed or rejected: not to be used any more
}

type span struct{ from, to int64 }

// maxStagedOpen bounds open files: pieces in flight may be many.
const maxStagedOpen = 128

// add notes that bytes [from, to) were written.
func (st *staged) add(from, to int64) {
	i, _ := slices.BinarySearchFunc(st.have, from, func(s span, at int64) int { return sign(s.to - at) })
	j := i
	for j < len(st.have) && st.have[j].from <= to {
		from, to = min(from, st.have[j].from), max(to, st.have[j].to)
		j++
	}
	st.have = slices.Replace(st.have, i, j, span{from, to})
}

// holds reports whether all of [from, to) was written.
func (st *staged) holds(from, to int64) bool {
	return slices.ContainsFunc(st.have, func(s span) bool { return s.from <= from && to <= s.to })
}

// use opens the staging file; done closes it again when too many are open.
func (s *Shelf) use(st *staged) (f *os.File, done func(), err error) {
	if st.f != nil {
		return st.f, func() {}, nil
	}
	flag := os.O_RDWR
	if !st.made {
		flag |= os.O_CREATE | os.O_TRUNC
	}
	f, err = os.OpenFile(st.path, flag, 0o600)
	if err != nil {
		return nil, nil, err
	}
	st.made = true
	if s.stagedOpen.Add(1) <= maxStagedOpen {
		st.f = f
		return f, func() {}, nil
	}
	s.stagedOpen.Add(-1)
	return f, func() { _ = f.Close() }, nil // a write that failed has said so
}

// discard removes the staging file; st.mu is held.
func (s *Shelf) discard(piece int, st *staged) error {
	st.gone = true
	if st.f != nil {
		_ = st.f.Close() // its content is of no use
		st.f = nil
		s.stagedOpen.Add(-1)
	}
	s.mu.Lock()
	if s.staging[piece] == st {
		delete(s.staging, piece)
	}
	s.mu.Unlock()
	if err := os.Remove(st.path); err != nil && st.made && !errors.Is(err, os.ErrNotExist) {
		return ioError("remove a staged piece", err)
	}
	return nil
}

// stagedPiece gives the piece's entry, made when wanted.
func (s *Shelf) stagedPiece(piece int, create bool) *staged {
	s.mu.Lock()
	defer s.mu.Unlock()
	st := s.staging[piece]
	if st == nil && create {
		st = &staged{path: filepath.Join(s.dir, stagingDir, fmt.Sprintf("%07d", piece))}
		s.staging[piece] = st
	}
	return st
}

// WriteAt puts bytes of an incomplete piece into staging. Bytes for a complete
// piece are dropped (and counted as written): a piece may arrive twice.
//
// Errors: disk_full (wraps ENOSPC; nothing is lost, try again when there is
// room), data_folder.
func (s *Shelf) WriteAt(piece int, b []byte, off int64) (int, error) {
	if err := s.bounds(piece, int64(len(b)), off); err != nil {
		return 0, err
	}
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	for {
		if s.Complete(piece) {
			return len(b), nil
		}
		st := s.stagedPiece(piece, true)
		n, again, err := s.stage(piece, st, b, off)
		if !again {
			return n, err
		}
	}
}

func (s *Shelf) stage(piece int, st *staged, b []byte, off int64) (n int, again bool, err error) {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.gone {
		return 0, true, nil
	}
	if !st.made {
		if err := s.room(s.PieceBytes(piece)); err != nil {
			return 0, false, err
		}
	}
	f, done, err := s.use(st)
	if err != nil {
		return 0, false, ioError("stage a piece", err)
	}
	defer done()
	n, err = f.WriteAt(b, off)
	if n > 0 {
		st.add(off, off+int64(n))
	}
	if err != nil {
		return n, false, ioError("stage a piece", err)
	}
	return n, false, nil
}

// room fails with disk_full unless n bytes fit and KeepFree remains.
func (s *Shelf) room(n int64) error {
	free, err := freeBytes(s.dir)
	if err != nil {
		return ioError("ask for free space", err)
	}
	if keep := s.keepFree.Load(); free-keep < n {
		return protocol.Errorf(protocol.CodeDiskFull, "%s has %d MB free, %d MB are wanted and %d MB have to stay free: %w",
			s.dir, free>>20, (n+1<<20-1)>>20, keep>>20, syscall.ENOSPC)
	}
	return nil
}

// readStaged reads staged bytes of an incomplete piece.
func (s *Shelf) readStaged(piece int, b []byte, off int64) (int, error) {
	st := s.stagedPiece(piece, false)
	if st == nil {
		return 0, missing(piece, off)
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.gone || !st.holds(off, off+int64(len(b))) {
		return 0, missing(piece, off)
	}
	f, done, err := s.use(st)
	if err != nil {
		return 0, ioError("read a staged piece", err)
	}
	defer done()
	n, err := f.ReadAt(b, off)
	if n == len(b) {
		return n, nil
	}
	return n, ioError("read a staged piece", err)
}

func missing(piece int, off int64) error {
	return protocol.Errorf(protocol.CodeNotFound, "bytes at %d of piece %d are not here", off, piece)
}

// bounds refuses what does not lie in a piece.
func (s *Shelf) bounds(piece int, n, off int64) error {
	if piece < 0 || piece >= s.plan.m.Torrent.Pieces {
		return protocol.Errorf(protocol.CodeInvalidRequest, "piece %d of %d", piece, s.plan.m.Torrent.Pieces)
	}
	if size := s.PieceBytes(piece); off < 0 || n > size || off > size-n {
		return protocol.Errorf(protocol.CodeInvalidRequest, "%d bytes at %d of piece %d, which has %d", n, off, piece, size)
	}
	return nil
}

// Reject drops what staging holds of the piece (its hash did not match). On a
// complete piece it clears the completion: its bytes on disk are wrong.
func (s *Shelf) Reject(piece int) error {
	if err := s.bounds(piece, 0, 0); err != nil {
		return err
	}
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.setDone(piece, false); err != nil {
		return err
	}
	st := s.stagedPiece(piece, false)
	if st == nil {
		return nil
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	return s.discard(piece, st)
}

// PieceBytes is the length of a piece; only the last is shorter than the
// others.
func (s *Shelf) PieceBytes(piece int) int64 { return s.plan.m.PieceBytes(piece) }

// ReadAt reads bytes of a piece: of a complete piece from where they lie, of
// an incomplete one what WriteAt has put in staging since Open. Bytes that were
// never written are an error (not_found), never zeros. Behind the piece's end
// the error is io.EOF.
func (s *Shelf) ReadAt(piece int, b []byte, off int64) (n int, err error) {
	if err := s.bounds(piece, 0, off); err != nil {
		return 0, err
	}
	var end error
	if left := s.PieceBytes(piece) - off; int64(len(b)) > left {
		b, end = b[:left], io.EOF
	}
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if s.Complete(piece) {
		n, err = s.readDone(piece, b, off)
	} else {
		n, err = s.readStaged(piece, b, off)
	}
	if err == nil {
		err = end
	}
	return n, err
}
