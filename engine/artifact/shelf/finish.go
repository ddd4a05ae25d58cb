package shelf

import (
	"context"
	"crypto/sha256"
	"errors"
	"io"
	"os"
	"path/filepath"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/atomicfile"
	"neuron/internal/syserr"
	"neuron/llama/cut"
	"neuron/llama/gguf"
)

// finisher lists files whose pieces are all complete, away from Commit: a sync
// takes seconds, and the shard folder may be locked by a load.
func (s *Shelf) finisher() {
	defer close(s.finished)
	for {
		select {
		case <-s.quit:
			return
		case <-s.kick:
		}
		if err := s.finish(context.Background()); err != nil && !errors.Is(err, &protocol.Error{Code: protocol.CodeShutdown}) {
			s.log.Warn("A complete file cannot be listed yet", "folder", s.dir, "error", err)
		}
		s.mu.Lock()
		due := s.servedNew && time.Now().Unix()-s.servedAt >= servedEvery
		s.mu.Unlock()
		if due {
			if err := s.writeServed(); err != nil {
				s.log.Warn("Times of service are not noted", "folder", s.dir, "error", err)
			}
		}
	}
}

// kickFinisher wakes the finisher when a file of the piece has become
// complete.
func (s *Shelf) kickFinisher(piece int) {
	s.mu.Lock()
	ready := !s.hasMeta && s.metaErr == nil
	for _, f := range s.plan.filesOf(piece) {
		ready = ready || f.left == 0
	}
	s.mu.Unlock()
	if ready {
		s.wake()
	}
}

// wake lets the finisher look again.
func (s *Shelf) wake() {
	select {
	case s.kick <- struct{}{}:
	default: // it runs anyway, after what it does now
	}
}

// Flush waits until every file whose pieces are all complete is listed, and
// returns the error that keeps one from it: disk_full, data_folder,
// model_invalid (the metadata contradict the manifest).
func (s *Shelf) Flush(ctx context.Context) error { return s.finish(ctx) }

func (s *Shelf) finish(ctx context.Context) error {
	s.op.Lock()
	defer s.op.Unlock()
	if s.closed {
		return errClosed()
	}
	return s.finishFiles(ctx)
}

// finishFiles runs under op. One file's trouble does not keep others back.
func (s *Shelf) finishFiles(ctx context.Context) error {
	if s.adoptedFiles() != nil {
		return nil
	}
	errs := []error{s.begin()}
	for _, f := range s.plan.files {
		if err := ctx.Err(); err != nil {
			return protocol.Errorf(protocol.CodeCancelled, "list files: %w", err)
		}
		s.mu.Lock()
		ready := f.left == 0 && !f.listed && f.phase != absent && (f.kind != kindShard || s.hasMeta)
		s.mu.Unlock()
		if !ready {
			continue
		}
		if err := s.list(f); err != nil {
			errs = append(errs, err)
		}
	}
	return first(errs)
}

// first is the first error of a list: a code says more than a sum of texts.
func first(errs []error) error {
	for _, err := range errs {
		if err != nil {
			return err
		}
	}
	return nil
}

// list puts a complete file in its place, then into the index.
func (s *Shelf) list(f *file) error {
	if err := s.place(f); err != nil {
		return err
	}
	if f.phase != placed {
		return nil // a piece was rejected meanwhile
	}
	if f.kind == kindShard {
		if err := cut.Add(s.dir, f.name, f.tensors); err != nil {
			return ioError("list "+f.name, err)
		}
	}
	s.mu.Lock()
	f.listed = true
	s.mu.Unlock()
	if s.notify != nil {
		s.notify(f.name)
	}
	return nil
}

// place moves a partial file to its name. What it holds is on the disk before
// anybody relies on it.
func (s *Shelf) place(f *file) error {
	if f.phase == partial {
		h, err := s.open(f)
		if err == nil {
			err = h.Sync()
		}
		if err != nil {
			return ioError("sync "+f.name, err)
		}
	}
	s.layout.Lock()
	defer s.layout.Unlock()
	s.mu.Lock()
	left := f.left
	s.mu.Unlock()
	if f.phase != partial || left > 0 {
		return nil
	}
	if err := f.shut(); err != nil {
		return ioError("close "+f.name, err)
	}
	path := s.path(f)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return ioError("model folder", err)
	}
	if err := os.Rename(s.partialPath(f), path); err != nil {
		return ioError("place "+f.name, err)
	}
	f.phase = placed
	atomicfile.SyncFolder(filepath.Dir(path))
	return nil
}

// begin makes the folder a shard folder as soon as the publisher's first
// header is there: its metadata become meta.gguf.
//
// Metadata that contradict the manifest are not read again until one of their
// pieces is cleared: the error stays.
func (s *Shelf) begin() error {
	err := s.beginOnce()
	if errors.Is(err, &protocol.Error{Code: protocol.CodeModelInvalid}) {
		s.mu.Lock()
		s.metaErr = err
		s.mu.Unlock()
	}
	return err
}

func (s *Shelf) beginOnce() error {
	m := s.plan.m
	head := m.Files[0]
	s.mu.Lock()
	if err := s.metaErr; err != nil {
		s.mu.Unlock()
		return err
	}
	ready := !s.hasMeta
	from, to := s.plan.piecesIn(0, head.Header)
	for piece := from; piece < to; piece++ {
		ready = ready && s.done[piece]
	}
	s.mu.Unlock()
	if !ready {
		return nil
	}
	r := &canonical{s: s, pos: 0, size: head.Header}
	sum := sha256.New()
	if _, err := io.Copy(sum, io.NewSectionReader(r, 0, head.Header)); err != nil {
		return ioError("read the publisher's metadata", err)
	}
	if manifest.Hash(sum.Sum(nil)) != head.HeaderSHA256 {
		return protocol.Errorf(protocol.CodeModelInvalid, "the first file's header has not the manifest's hash")
	}
	r.size, r.zeroBehind = head.Size, head.Header
	h, err := gguf.ReadHeader(r, head.Size, gguf.DefaultLimits())
	if err != nil {
		return protocol.Errorf(protocol.CodeModelInvalid, "the publisher's metadata: %w", err)
	}
	if h.DataOffset != head.Header || h.Alignment != m.Alignment {
		return protocol.Errorf(protocol.CodeModelInvalid, "the publisher's metadata end at %d with alignment %d, the manifest says %d and %d",
			h.DataOffset, h.Alignment, head.Header, m.Alignment)
	}
	spec := cut.Spec{Model: string(m.Model), Meta: h, Layers: m.Layers}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		spec.Tensors = append(spec.Tensors, cut.Shape{Name: t.Name, Dims: t.Dims, Type: t.Type})
	}
	if err := cut.Begin(s.dir, spec); err != nil {
		var io *os.PathError
		if errors.As(err, &io) || syserr.DiskFull(err) {
			return ioError("write the model's metadata", err)
		}
		return protocol.Errorf(protocol.CodeModelInvalid, "the publisher's metadata: %w", err)
	}
	s.mu.Lock()
	s.hasMeta = true
	s.mu.Unlock()
	if s.notify != nil {
		s.notify(metaName)
	}
	return nil
}

// metaName is the metadata file of llama/cut.
const metaName = "meta.gguf"

// canonical reads the torrent from pos as one file of size bytes. Behind
// zeroBehind, when it is set, everything is zero: a parser may read ahead of
// what is here.
type canonical struct {
	s          *Shelf
	pos, size  int64
	zeroBehind int64
}

func (c *canonical) ReadAt(b []byte, off int64) (n int, err error) {
	if err := c.s.enter(); err != nil {
		return 0, err
	}
	defer c.s.leave()
	for n < len(b) && off < c.size {
		part := b[n:min(int64(len(b)), int64(n)+c.size-off)]
		if c.zeroBehind > 0 {
			if off >= c.zeroBehind {
				clear(part)
				n, off = n+len(part), off+int64(len(part))
				continue
			}
			part = part[:min(int64(len(part)), c.zeroBehind-off)]
		}
		piece := int((c.pos + off) / c.s.plan.m.Torrent.PieceLength)
		start, size := c.s.plan.pieceBounds(piece)
		at := c.pos + off - start
		part = part[:min(int64(len(part)), size-at)]
		k, err := c.s.readPlaced(piece, part, at)
		n, off = n+k, off+int64(k)
		if err != nil {
			return n, err
		}
	}
	if n < len(b) {
		return n, io.EOF
	}
	return n, nil
}

// Paths are the publisher's files for a model that is served whole
// (Manifest.WholeOnly or Adopt), in order; nil otherwise, and before the files
// are complete.
func (s *Shelf) Paths() []string {
	if a := s.adoptedFiles(); a != nil {
		return a.paths()
	}
	if s.plan.m.WholeOnly == "" {
		return nil
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	var out []string
	for _, f := range s.plan.files {
		if !f.listed {
			return nil
		}
		out = append(out, s.path(f))
	}
	return out
}
