package shelf

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/atomicfile"
	"neuron/llama/cut"
)

const (
	servedName    = "served.json"
	servedVersion = 1
	maxServed     = 8 << 20
	// servedEvery is how often times of service are written, in seconds: they
	// only decide what goes first when room is short.
	servedEvery = 60
)

type servedFile struct {
	Version int              `json:"version"`
	Files   map[string]int64 `json:"files"` // Unix seconds
}

// parseServed takes nothing from a damaged file. Times of the future (the clock
// was set back) count as now.
func parseServed(raw []byte, now int64) map[string]int64 {
	var x servedFile
	if len(raw) > maxServed || json.Unmarshal(raw, &x) != nil || x.Version != servedVersion {
		return nil
	}
	for name, at := range x.Files {
		x.Files[name] = min(max(at, 0), now)
	}
	return x.Files
}

func (s *Shelf) readServed() {
	raw, err := readSmall(filepath.Join(s.dir, servedName), maxServed)
	if err != nil {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, at := range parseServed(raw, time.Now().Unix()) {
		if f := s.plan.byName[name]; f != nil {
			f.served = at
		}
	}
}

// writeServed saves the times when they have changed.
func (s *Shelf) writeServed() error {
	x := servedFile{Version: servedVersion, Files: map[string]int64{}}
	s.mu.Lock()
	changed := s.servedNew
	s.servedNew, s.servedAt = false, time.Now().Unix()
	for _, f := range s.plan.files {
		if f.served > 0 {
			x.Files[f.name] = f.served
		}
	}
	s.mu.Unlock()
	if !changed {
		return nil
	}
	raw, err := json.MarshalIndent(x, "", " ")
	if err != nil {
		return fmt.Errorf("encode %s: %w", servedName, err)
	}
	if err := atomicfile.Write(filepath.Join(s.dir, servedName), append(raw, '\n')); err != nil {
		return ioError("note what was served", err)
	}
	return nil
}

// Touch notes that layers have just been served or loaded, for Trim. Ranges
// that are none of the model's are passed over.
func (s *Shelf) Touch(ranges ...protocol.Range) {
	now := time.Now().Unix()
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, r := range ranges {
		if !r.Valid(s.plan.m.Layers) {
			continue
		}
		for i := range s.plan.m.Tensors {
			if s.plan.m.NeededBy(&s.plan.m.Tensors[i], r) {
				s.plan.byTensor[i].served = now
			}
		}
		s.servedNew = true
	}
	if s.servedNew && now-s.servedAt >= servedEvery {
		s.wake()
	}
}

// Used is what the folder takes on disk, in bytes.
func (s *Shelf) Used() (int64, error) {
	var n int64
	err := filepath.WalkDir(s.dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && d.Type().IsRegular() {
			var st os.FileInfo
			if st, err = d.Info(); err == nil {
				n += allocated(path, st)
			}
		}
		if errors.Is(err, fs.ErrNotExist) {
			return nil // it has just gone
		}
		return err
	})
	if err != nil {
		return 0, ioError("measure the model folder", err)
	}
	return n, nil
}

// Trim drops files that keep does not need, the least recently touched first,
// until the folder takes at most quota bytes; it returns their names. What keep
// needs stays even above the quota.
//
// Errors: range_invalid, model_whole_only (of keep), data_folder, disk_full (no
// room for the bytes of boundary pieces).
func (s *Shelf) Trim(quota int64, keep []protocol.Range) ([]string, error) {
	need, err := s.plan.m.NeedAll(keep...)
	if err != nil {
		return nil, err
	}
	s.op.Lock()
	defer s.op.Unlock()
	if s.closed {
		return nil, errClosed()
	}
	if err := s.writeServed(); err != nil {
		return nil, err
	}
	// Stems and stand-ins of other ranges are made again when they are needed.
	err = cut.Prune(s.dir, func(first, last int) bool { return slices.Contains(keep, protocol.Range{First: first, Last: last}) })
	if err != nil {
		return nil, ioError("tidy the model folder", err)
	}
	used, err := s.Used()
	if err != nil {
		return nil, err
	}
	kept := s.plan.needed(need)
	var list []*file
	for _, f := range s.plan.files {
		if !kept[f] && f.phase != absent {
			list = append(list, f)
		}
	}
	s.mu.Lock()
	slices.SortStableFunc(list, func(a, b *file) int { return sign(a.served - b.served) })
	s.mu.Unlock()
	var dropped []string
	for _, f := range list {
		if used <= quota {
			break
		}
		if err := s.drop(f); err != nil {
			return dropped, err
		}
		dropped = append(dropped, f.name)
		if used, err = s.Used(); err != nil {
			return dropped, err
		}
	}
	return dropped, nil
}

// drop removes a file: off the index, then its pieces are cleared (those that
// other files have a share in keep its bytes in side files), then it goes.
// Killed in between, the next Open finds a file that is whole, or pieces that
// Recheck wins back.
func (s *Shelf) drop(f *file) error {
	if f.kind == kindShard {
		if err := cut.Drop(s.dir, f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return ioError("drop "+f.name, err)
		}
	}
	s.layout.Lock()
	defer s.layout.Unlock()
	src, err := s.open(f)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ioError("drop "+f.name, err)
	}
	for _, c := range f.cover {
		if !s.isDone(c.piece) {
			continue
		}
		if src == nil || !s.shared(c.piece, f) {
			if err := s.forget(c.piece); err != nil {
				return err
			}
			continue
		}
		if err := s.moveAside(c.piece, f, src); err != nil {
			return err
		}
	}
	path := s.path(f)
	if f.phase == partial {
		path = s.partialPath(f)
	}
	err = f.shut()
	if e := os.Remove(path); e != nil && !errors.Is(e, fs.ErrNotExist) {
		err = errors.Join(err, e)
	}
	if err != nil {
		return ioError("drop "+f.name, err)
	}
	f.phase = absent
	s.mu.Lock()
	f.listed = false
	s.mu.Unlock()
	return nil
}

// shared reports whether the piece stays complete without f: another file that
// is here has a share in it, or it holds the metadata of a model that is not
// cut, which have no file of their own.
func (s *Shelf) shared(piece int, f *file) bool {
	if _, last := s.plan.piecesIn(0, s.plan.m.Files[0].Header); f.kind == kindWhole && piece < last {
		return true
	}
	return slices.ContainsFunc(s.plan.filesOf(piece), func(o *file) bool { return o != f && o.phase != absent })
}

// forget makes a piece incomplete and removes its side file.
func (s *Shelf) forget(piece int) error {
	if err := s.setDone(piece, false); err != nil {
		return err
	}
	return s.writeSide(piece, nil, nil)
}

// moveAside puts f's bytes of a piece into the piece's side file, beside what
// is there.
func (s *Shelf) moveAside(piece int, f *file, src *os.File) error {
	start, size := s.plan.pieceBounds(piece)
	old, err := s.openSide(piece, size)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return ioError("read a side file", err)
	}
	var list []segment
	for _, g := range s.plan.of(piece) {
		if g.file == f || old != nil && (g.file == nil || g.file.phase == absent) {
			list = append(list, g)
		}
	}
	err = s.writeSide(piece, list, func(dst *os.File, g segment) error {
		if g.file == f {
			return copyBytes(dst, g.pos-start, src, g.at, g.n)
		}
		return copyBytes(dst, g.pos-start, old, g.pos-start, g.n)
	})
	if old != nil {
		_ = old.Close() // only read
	}
	return err
}

// sidePiece reads the number in a side file's name.
func sidePiece(name string) (int, bool) {
	digits, ok := strings.CutSuffix(name, ".bin")
	if !ok || len(digits) != 7 {
		return 0, false
	}
	n := 0
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, false
		}
		n = n*10 + int(c-'0')
	}
	return n, true
}
