package shelf

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"strings"

	"neuron/engine/protocol"
	"neuron/llama/cut"
)

// load finds out what the folder holds.
func (s *Shelf) load() error {
	if err := s.tidy(); err != nil {
		return err
	}
	listed, err := s.readIndex()
	if err != nil {
		return err
	}
	for _, f := range s.plan.files {
		if err := s.find(f, listed); err != nil {
			return err
		}
	}
	fresh := false
	if s.state, s.done, fresh, err = openState(s.dir, s.plan.m); err != nil {
		return err
	}
	doubt := s.doubt(fresh)
	lost := 0
	for piece, done := range s.done {
		switch {
		case done && (!s.locatable(piece) || doubt && s.unsure(piece)):
			lost++
			s.done[piece] = false
			if _, err := s.state.WriteAt([]byte{pieceMissing}, stateHeader+int64(piece)); err != nil {
				return ioError("note a lost piece", err)
			}
		case done:
			for _, f := range s.plan.filesOf(piece) {
				f.left--
			}
		}
	}
	if lost > 0 {
		s.log.Warn("Pieces of the model folder are in doubt after a power loss, or have gone", "folder", s.dir, "pieces", lost)
	}
	if !doubt {
		if err := s.noteProven(); err != nil {
			return err
		}
	}
	if err := s.tidySides(fresh); err != nil {
		return err
	}
	s.readServed()
	return nil
}

// readIndex reads what stages may be made of. The index can be made again
// from the manifest, so a damaged one is dropped.
func (s *Shelf) readIndex() (map[string][]cut.Tensor, error) {
	x, err := cut.ReadIndex(s.dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil, nil
	case errors.Is(err, cut.ErrVersion) || err != nil && !errors.Is(err, cut.ErrShard):
		return nil, ioError("model folder", err)
	case err != nil:
		s.log.Warn("The model folder's index is damaged, making it again", "folder", s.dir, "error", err)
		if err := cut.Reset(s.dir); err != nil {
			return nil, ioError("model folder", err)
		}
		return nil, nil
	case x.Model != string(s.plan.m.Model):
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "%s holds another model (%.12s, not %.12s)", s.dir, x.Model, s.plan.m.Model)
	}
	return x.Files, nil
}

// find sets a file's phase from what lies in the folder: its place says it.
func (s *Shelf) find(f *file, listed map[string][]cut.Tensor) error {
	size := func(path string) int64 {
		if st, err := os.Stat(path); err == nil && st.Mode().IsRegular() {
			return st.Size()
		}
		return -1
	}
	whole, part := size(s.path(f)), size(s.partialPath(f))
	tensors, known := listed[f.name]
	if known && !reflect.DeepEqual(tensors, f.tensors) {
		// Not what the signed manifest says.
		s.log.Warn("A file was listed with other tensors than the manifest's", "file", f.name)
		if err := cut.Drop(s.dir, f.name); err != nil {
			return ioError("model folder", err)
		}
		known, whole = false, -1
	}
	remove := func(path string) error {
		if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return ioError("model folder", err)
		}
		return nil
	}
	switch {
	case known || part != f.size && whole == f.size:
		// A stage may map it. A wrong size is the load gate's to find.
		f.phase, f.listed = placed, known
		return remove(s.partialPath(f))
	case part == f.size:
		f.phase = partial
		return remove(s.path(f)) // Repair was interrupted before it did this
	}
	return errors.Join(remove(s.partialPath(f)), remove(s.path(f)))
}

// locatable reports whether all bytes of a piece have a place.
func (s *Shelf) locatable(piece int) bool {
	_, size := s.plan.pieceBounds(piece)
	for _, g := range s.plan.of(piece) {
		if g.file == nil || g.file.phase != absent {
			continue
		}
		f, err := s.openSide(piece, size)
		if err != nil {
			return false
		}
		_ = f.Close() // only read
		return true
	}
	return true
}

// tidy removes what a killed process has left.
func (s *Shelf) tidy() error {
	for _, d := range []string{stagingDir, partialDir, sideDir} {
		list, err := os.ReadDir(filepath.Join(s.dir, d))
		if err != nil {
			return ioError("model folder", err)
		}
		for _, e := range list {
			if d == stagingDir || strings.HasPrefix(e.Name(), ".") {
				if err := os.RemoveAll(filepath.Join(s.dir, d, e.Name())); err != nil {
					return ioError("model folder", err)
				}
			}
		}
	}
	return cut.Tidy(s.dir)
}

// tidySides removes side files of pieces that are not complete and cannot be.
func (s *Shelf) tidySides(fresh bool) error {
	list, err := os.ReadDir(filepath.Join(s.dir, sideDir))
	if err != nil {
		return ioError("model folder", err)
	}
	for _, e := range list {
		piece, ok := sidePiece(e.Name())
		if ok && piece < len(s.done) && (fresh || s.done[piece] || s.unsure(piece)) {
			continue
		}
		if err := os.Remove(filepath.Join(s.dir, sideDir, e.Name())); err != nil {
			return ioError("model folder", err)
		}
	}
	return nil
}
