package shelf

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"io/fs"
	"os"
	"slices"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/llama/cut"
)

// Repair renews one file of the folder: what matches its hash is copied to a
// new file that takes the old one's place (a running stage keeps the old one),
// and pieces that cover the rest are cleared and returned, to be fetched again.
// The file leaves shard.json until it is complete. A file that turns out sound
// is left alone, with no pieces. meta.gguf is made again from the header.
//
// Errors: not_found (no such file of the model), disk_full, data_folder,
// cancelled.
func (s *Shelf) Repair(ctx context.Context, name string) ([]int, error) {
	s.op.Lock()
	defer s.op.Unlock()
	if s.closed {
		return nil, errClosed()
	}
	if name == metaName {
		return s.repairMeta()
	}
	f := s.plan.byName[name]
	if f == nil {
		return nil, protocol.Errorf(protocol.CodeNotFound, "the model has no file %.80q", name)
	}
	if f.phase == absent || s.adoptedFiles() != nil {
		return nil, nil
	}
	old, err := s.open(f)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, ioError("read "+f.name, err)
	}
	bad, resized, err := s.damage(ctx, f, old)
	if err != nil {
		return nil, err
	}
	if len(bad) == 0 && !resized {
		return nil, nil
	}
	if f.phase == placed {
		err = s.renew(f, old, bad)
	}
	if err != nil {
		return nil, err
	}
	pieces, err := s.clear(bad)
	if err == nil && f.phase == placed {
		err = s.replace(f)
	}
	if err != nil {
		return nil, err
	}
	s.log.Warn("A damaged file is renewed", "folder", s.dir, "file", f.name, "parts", len(bad), "pieces", len(pieces))
	s.wake()
	return pieces, nil
}

// repairMeta makes meta.gguf again; when the header is damaged, that first.
func (s *Shelf) repairMeta() ([]int, error) {
	s.mu.Lock()
	s.hasMeta, s.metaErr = false, nil
	s.mu.Unlock()
	err := s.begin()
	if !errors.Is(err, &protocol.Error{Code: protocol.CodeModelInvalid}) && !errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
		return nil, err
	}
	return s.clear([]hashed{{pos: 0, n: s.plan.m.Files[0].Header}})
}

// damage lists the extents of f that have another content than the manifest
// says; of a partial file only those that should be there. old is nil when the
// file is gone.
func (s *Shelf) damage(ctx context.Context, f *file, old *os.File) (bad []hashed, resized bool, err error) {
	if old == nil {
		return f.extents(), true, nil
	}
	st, err := old.Stat()
	if err != nil {
		return nil, false, ioError("read "+f.name, err)
	}
	resized = st.Size() != f.size
	for _, h := range f.hashed {
		if f.phase == partial && !s.allDone(h) {
			continue
		}
		sum, err := hashAt(ctx, old, h.at, h.n)
		switch {
		case ctx.Err() != nil:
			return nil, false, protocol.Errorf(protocol.CodeCancelled, "check %s: %w", f.name, ctx.Err())
		case err != nil:
			s.log.Warn("A file cannot be read, renewing that part", "file", f.name, "error", err)
			bad = append(bad, h)
		case sum != h.sum:
			bad = append(bad, h)
		}
	}
	if f.kind != kindWhole || f.phase != placed || len(bad) > 0 {
		return bad, resized, nil
	}
	// Only the hash of the whole file covers what lies between tensors.
	sum, err := hashAt(ctx, old, 0, f.size)
	if ctx.Err() != nil {
		return nil, false, protocol.Errorf(protocol.CodeCancelled, "check %s: %w", f.name, ctx.Err())
	}
	if err != nil || sum != s.plan.m.Files[f.index].SHA256 {
		for _, e := range f.extents() {
			if e.sum == (manifest.Hash{}) {
				bad = append(bad, e)
			}
		}
	}
	return bad, resized, nil
}

// extents are all of the file's bytes: with a hash, or for padding of a whole
// file without one.
func (f *file) extents() []hashed {
	if f.kind != kindWhole {
		return f.hashed
	}
	list := slices.Clone(f.hashed)
	slices.SortFunc(list, func(a, b hashed) int { return sign(a.at - b.at) })
	var out []hashed
	base := f.hashed[0].pos - f.hashed[0].at
	at := int64(0)
	for _, h := range append(list, hashed{at: f.size}) {
		if h.at > at {
			out = append(out, hashed{pos: base + at, n: h.at - at, at: at})
		}
		if h.n > 0 {
			out = append(out, h)
		}
		at = h.at + h.n
	}
	return out
}

func (s *Shelf) allDone(h hashed) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	first, last := s.plan.piecesIn(h.pos, h.n)
	for piece := first; piece < last; piece++ {
		if !s.done[piece] {
			return false
		}
	}
	return true
}

func hashAt(ctx context.Context, f *os.File, at, n int64) (sum manifest.Hash, err error) {
	block := blocks.Get().(*[256 << 10]byte)
	defer blocks.Put(block)
	h := sha256.New()
	for n > 0 {
		if err := ctx.Err(); err != nil {
			return sum, err
		}
		b := block[:min(n, int64(len(block)))]
		if k, err := f.ReadAt(b, at); k < len(b) {
			return sum, short(err)
		}
		h.Write(b)
		at, n = at+int64(len(b)), n-int64(len(b))
	}
	h.Sum(sum[:0])
	return sum, nil
}

// renew writes the sound parts of a placed file to a new one in partial/,
// under a name that is not yet that of the file.
func (s *Shelf) renew(f *file, old *os.File, bad []hashed) error {
	err := s.writeSparse(f.size, s.renewedPath(f), func(dst *os.File) error {
		for _, e := range f.extents() {
			if old == nil || slices.ContainsFunc(bad, func(b hashed) bool { return b.at == e.at }) {
				continue
			}
			if err := copyBytes(dst, e.at, old, e.at, e.n); err != nil {
				return err
			}
		}
		return nil
	})
	if err != nil {
		return ioError("renew "+f.name, err)
	}
	return nil
}

// clear makes the pieces that cover extents incomplete.
func (s *Shelf) clear(bad []hashed) ([]int, error) {
	var pieces []int
	for _, h := range bad {
		first, last := s.plan.piecesIn(h.pos, h.n)
		for piece := first; piece < last; piece++ {
			if err := s.setDone(piece, false); err != nil {
				return nil, err
			}
			pieces = append(pieces, piece)
		}
	}
	slices.Sort(pieces)
	return slices.Compact(pieces), nil
}

// replace lets the renewed file take the old one's place: off the index first,
// so that no stage is made of what is missing parts; then the new one counts.
// Killed in between, the next Open finds the old file, unlisted or with pieces
// that are fetched and compared again.
func (s *Shelf) replace(f *file) error {
	if f.kind == kindShard {
		if err := cut.Drop(s.dir, f.name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return ioError("renew "+f.name, err)
		}
	}
	s.layout.Lock()
	defer s.layout.Unlock()
	err := f.shut()
	if err == nil {
		err = os.Rename(s.renewedPath(f), s.partialPath(f))
	}
	if err != nil {
		return ioError("renew "+f.name, err)
	}
	f.phase = partial
	s.mu.Lock()
	f.listed = false
	s.mu.Unlock()
	// Where a running stage keeps the old file from being removed (Windows),
	// placing the new one over it is tried again and again.
	if err := os.Remove(s.path(f)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		s.log.Warn("The damaged file is still in use", "file", f.name, "error", err)
	}
	return nil
}

// Unproven lists pieces that are not complete although all their bytes lie on
// disk, under files that came from elsewhere or before a loss of state.
func (s *Shelf) Unproven() []int {
	if s.enter() != nil {
		return nil
	}
	defer s.leave()
	var out []int
	for piece := range s.plan.m.Torrent.Pieces {
		if !s.Complete(piece) && s.mayBeHere(piece) {
			out = append(out, piece)
		}
	}
	return out
}

func (s *Shelf) mayBeHere(piece int) bool {
	for _, f := range s.plan.filesOf(piece) {
		s.mu.Lock()
		unsure := f.unsure
		s.mu.Unlock()
		if f.phase == partial && !unsure {
			return false
		}
	}
	return s.locatable(piece)
}

// Recheck reads the given pieces (nil: Unproven) from disk, whatever their
// completion says, and asks ok with their content, which is valid during the
// call: true completes the piece, false clears it. ok must not call the shelf.
//
// Errors: cancelled, data_folder.
func (s *Shelf) Recheck(ctx context.Context, pieces []int, ok func(piece int, data []byte) bool) error {
	unproven := s.Unproven()
	if pieces == nil {
		pieces = unproven
	}
	looked := make(map[int]bool, len(pieces))
	for _, piece := range pieces {
		looked[piece] = true
	}
	all := !slices.ContainsFunc(unproven, func(piece int) bool { return !looked[piece] })
	buf := make([]byte, min(s.plan.m.Torrent.PieceLength, s.plan.size))
	for _, piece := range pieces {
		if err := s.bounds(piece, 0, 0); err != nil {
			return err
		}
		if err := ctx.Err(); err != nil {
			return protocol.Errorf(protocol.CodeCancelled, "check pieces: %w", err)
		}
		if err := s.recheck(piece, buf[:s.PieceBytes(piece)], ok); err != nil {
			return err
		}
	}
	if all {
		return s.settle()
	}
	return nil
}

// settle ends the doubt about partial files: all their pieces were looked at.
func (s *Shelf) settle() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	any := false
	s.mu.Lock()
	for _, f := range s.plan.files {
		any = any || f.unsure
		f.unsure = false
	}
	s.mu.Unlock()
	if !any {
		return nil
	}
	return s.noteProven()
}

func (s *Shelf) recheck(piece int, buf []byte, ok func(int, []byte) bool) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if s.adoptedFiles() != nil {
		return nil
	}
	_, err := s.readPlaced(piece, buf, 0)
	if err != nil && !errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) && !errors.Is(err, io.EOF) {
		return err
	}
	if err := s.setDone(piece, err == nil && ok(piece, buf)); err != nil {
		return err
	}
	s.kickFinisher(piece)
	return nil
}
