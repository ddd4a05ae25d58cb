package shelf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
)

// Want says which layers to hold: it checks the free space for what is
// missing, creates files (sparse, at their full size), and moves bytes that
// lie in side files into them. It returns what the ranges need together (Range
// is that of a single range, else zero); no ranges means the publisher's first
// header alone. Files that are no longer wanted stay until Trim.
//
// Pieces of Need that are not Complete are what has to be fetched. For a model
// with WholeOnly the only range is all layers.
//
// Errors: range_invalid, model_whole_only, disk_full, data_folder.
func (s *Shelf) Want(ranges []protocol.Range) (*manifest.Need, error) {
	need, err := s.plan.m.NeedAll(ranges...)
	if err != nil {
		return nil, err
	}
	s.op.Lock()
	defer s.op.Unlock()
	if s.closed {
		return nil, errClosed()
	}
	wanted := s.plan.needed(need)
	s.mu.Lock()
	s.wanted = wanted
	var fetch int64
	for _, run := range need.Pieces {
		for piece := run.First; piece < run.Last; piece++ {
			if !s.done[piece] {
				fetch += s.PieceBytes(piece)
			}
		}
	}
	s.mu.Unlock()
	if s.adoptedFiles() != nil {
		return need, nil
	}
	if fetch > 0 {
		if err := s.room(fetch); err != nil {
			return nil, err
		}
	}
	for _, f := range s.plan.files {
		if wanted[f] && f.phase == absent {
			if err := s.create(f); err != nil {
				return nil, err
			}
		}
	}
	s.wake()
	return need, nil
}

// create makes a file that grows: with holes, but for what side files hold.
// Nobody moves bytes meanwhile, so that none goes to a side file unseen.
func (s *Shelf) create(f *file) error {
	s.layout.Lock()
	defer s.layout.Unlock()
	var taken []int // complete pieces whose bytes of f lie in a side file
	err := s.writeSparse(f.size, s.partialPath(f), func(dst *os.File) error {
		for _, c := range f.cover {
			if !s.isDone(c.piece) {
				continue
			}
			start, size := s.plan.pieceBounds(c.piece)
			side, err := s.openSide(c.piece, size)
			if errors.Is(err, fs.ErrNotExist) {
				// Somebody removed it; the piece is fetched again.
				if err := s.setDone(c.piece, false); err != nil {
					return err
				}
				continue
			}
			if err != nil {
				return err
			}
			taken = append(taken, c.piece)
			for _, g := range s.plan.of(c.piece) {
				if g.file == f && err == nil {
					err = copyBytes(dst, g.at, side, g.pos-start, g.n)
				}
			}
			if err = errors.Join(err, side.Close()); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return ioError("create "+f.name, err)
	}
	f.phase = partial
	for _, piece := range taken {
		if err := s.shrinkSide(piece); err != nil {
			return err
		}
	}
	return nil
}

// writeSparse makes a file of size bytes: with what fill writes and holes, or
// not at all. It is not synced: a file that is not listed proves nothing.
func (s *Shelf) writeSparse(size int64, path string, fill func(*os.File) error) (err error) {
	tmp, err := os.CreateTemp(filepath.Join(s.dir, partialDir), ".new-*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = tmp.Close() // a second time does no harm
			err = errors.Join(err, os.Remove(tmp.Name()))
		}
	}()
	markSparse(tmp)
	if err := tmp.Truncate(size); err != nil {
		return err
	}
	if err := fill(tmp); err != nil {
		return err
	}
	if err := tmp.Close(); err != nil {
		return err
	}
	return os.Rename(tmp.Name(), path)
}

// shrinkSide takes bytes off a piece's side file that lie in a file now.
func (s *Shelf) shrinkSide(piece int) error {
	start, size := s.plan.pieceBounds(piece)
	old, err := s.openSide(piece, size)
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return ioError("read a side file", err)
	}
	defer old.Close() // only read
	var keep []segment
	for _, g := range s.plan.of(piece) {
		if g.file != nil && g.file.phase != absent {
			continue
		}
		if g.file == nil {
			zero, err := zeros(old, g.pos-start, g.n)
			if err != nil {
				return ioError("read a side file", err)
			}
			if zero {
				continue
			}
		}
		keep = append(keep, g)
	}
	return s.writeSide(piece, keep, func(dst *os.File, g segment) error {
		return copyBytes(dst, g.pos-start, old, g.pos-start, g.n)
	})
}

// Progress lists the files that the last Want needs, by layer: header and
// tensors first.
func (s *Shelf) Progress() []FileProgress {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := []FileProgress{}
	for _, f := range s.plan.files {
		if !s.wanted[f] {
			continue
		}
		p := FileProgress{Name: f.name, Layer: f.layer, Bytes: f.bytes, Listed: f.listed}
		last := int64(0)
		for _, c := range f.cover {
			if s.done[c.piece] {
				p.Done += c.bytes
				last = c.bytes
			}
		}
		switch {
		case s.adopted != nil:
			p.Done, p.Listed = p.Bytes, true
		case p.Done == p.Bytes && !f.listed:
			p.Done -= last
		}
		out = append(out, p)
	}
	return out
}
