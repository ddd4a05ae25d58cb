package artifact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"neuron/engine/protocol"
	"neuron/llama/cut"
	"neuron/llama/gguf"
)

// Shard is a layer range of a source, ready to be verified and prepared for a
// stage.
type Shard struct {
	Source *Source
	Range  protocol.Range
	store  *cut.Store // nil when the publisher's files are used in place
}

// DamagedError says which files do not hold what they should. Their content
// never reaches the library.
type DamagedError struct {
	// Files are names in the shard folder, or paths of files used in place.
	Files []string
}

// Error implements error.
func (e *DamagedError) Error() string {
	return fmt.Sprintf("damaged: %s", strings.Join(e.Files, ", "))
}

// Shard makes layers r available under dir. A whole model is used where it
// lies, without a copy; a part is written as per-layer files. Layers of a shard
// folder must be there already.
func (s *Source) Shard(ctx context.Context, r protocol.Range, dir string, progress cut.Progress) (*Shard, error) {
	if err := s.check(r); err != nil {
		return nil, err
	}
	if len(s.Files) > 0 && r.First == 0 && r.Last == s.Model.Layers {
		return &Shard{Source: s, Range: r}, nil
	}
	store, err := s.cut(ctx, r, dir, progress)
	var coded *protocol.Error
	switch {
	case errors.As(err, &coded):
		return nil, err
	case err != nil && ctx.Err() != nil:
		return nil, protocol.Errorf(protocol.CodeCancelled, "cut %s: %w", s.Name, err)
	case errors.Is(err, syscall.ENOSPC):
		return nil, protocol.Errorf(protocol.CodeDiskFull, "no space left for layers %s of %s in %s: %w", r, s.Name, dir, err)
	case errors.Is(err, fs.ErrPermission):
		return nil, protocol.Errorf(protocol.CodeDataFolder, "%w", err)
	case err != nil:
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "cut %s: %w", s.Name, err)
	}
	return &Shard{Source: s, Range: r, store: store}, nil
}

// cut gives the shard folder with what layers r need.
func (s *Source) cut(ctx context.Context, r protocol.Range, dir string, progress cut.Progress) (*cut.Store, error) {
	if s.Path == "" {
		return cut.Open(s.Folder)
	}
	m, err := gguf.OpenModel(s.Path)
	if err != nil {
		return nil, openError(s.Path, err)
	}
	defer m.Close()
	return cut.Import(ctx, m, string(s.ID), filepath.Join(dir, s.ID.Short()), r.First, r.Last, progress)
}

// Verify is the load gate: it hashes what the shard needs and has changed since
// it was last verified, and fails with a DamagedError unless all of it is what
// the publisher made. progress gets bytes hashed and in all; it may be nil.
func (s *Shard) Verify(ctx context.Context, progress cut.Progress) error {
	if s.store == nil {
		return s.Source.unchanged(ctx)
	}
	bad, err := s.store.Verify(ctx, s.Range.First, s.Range.Last, cut.VerifyOptions{Progress: progress})
	switch {
	case err != nil && ctx.Err() != nil:
		return protocol.Errorf(protocol.CodeCancelled, "verify layers %s: %w", s.Range, err)
	case err != nil:
		return protocol.Errorf(protocol.CodeDataFolder, "verify layers %s: %w", s.Range, err)
	case len(bad) > 0:
		return &DamagedError{Files: bad}
	}
	return nil
}

// Renew cuts damaged files again from the source, which must be a file of this
// computer. A file that is used in place cannot be renewed: it is another model
// now. Not safe for concurrent use with the other methods.
func (s *Shard) Renew(ctx context.Context, files []string) error {
	if s.store == nil || s.Source.Path == "" {
		return protocol.Errorf(protocol.CodeModelDamaged, "%s has changed since it was read", strings.Join(files, ", "))
	}
	if err := s.Source.unchanged(ctx); err != nil {
		return protocol.Errorf(protocol.CodeModelDamaged, "layers of %s cannot be cut again: %w", s.Source.Name, err)
	}
	dir := s.store.Dir()
	if err := cut.Drop(dir, files...); err != nil {
		return protocol.Errorf(protocol.CodeDataFolder, "renew %s: %w", strings.Join(files, ", "), err)
	}
	again, err := s.Source.Shard(ctx, s.Range, filepath.Dir(dir), nil)
	if err != nil {
		return err
	}
	s.store = again.store
	return nil
}

// Prepare verifies what has changed since the last time and makes the stage's
// files ready; see cut.Store.Prepare. The returned function must be called when
// they are loaded.
func (s *Shard) Prepare(ctx context.Context) (paths []string, release func(), err error) {
	if err := s.Verify(ctx, nil); err != nil {
		return nil, nil, err
	}
	if s.store == nil {
		return s.Source.Files, func() {}, nil
	}
	p, err := s.store.Prepare(s.Range.First, s.Range.Last)
	if err != nil {
		return nil, nil, fmt.Errorf("layers %s: %w", s.Range, err)
	}
	return p.Paths, p.Release, nil
}

// Dir is the shard folder, "" when the file is used in place.
func (s *Shard) Dir() string {
	if s.store == nil {
		return ""
	}
	return s.store.Dir()
}

// Weight is what the shard's tensors take, in bytes: its layers, and at either
// end of the model all tensors that belong to no layer, as an upper bound.
func (s *Shard) Weight() int64 {
	var layers, n int64
	for i, b := range s.Source.layerWeight {
		layers += b
		if i >= s.Range.First && i < s.Range.Last {
			n += b
		}
	}
	if s.Range.First == 0 || s.Range.Last == s.Source.Model.Layers {
		n += s.Source.Weight - layers
	}
	return n
}

// Capability is the static part of the shard's report; chunkRows is the most
// rows of one call. A running stage completes it.
func (s *Shard) Capability(chunkRows int) protocol.Capability {
	m, first, last := s.Source.Model, s.Range.First, s.Range.Last
	return protocol.Capability{
		Model: s.Source.ID, Name: s.Source.Name, Architecture: m.Arch, Layers: m.Layers, Loaded: s.Range,
		Head: first == 0, Tail: last == m.Layers,
		Exits: m.Exits(first, last), Cuts: m.Cuts(), Width: m.Embd, WholeOnly: m.WholeOnly,
		DTypes: []string{protocol.DTypeF32.String()}, Sidebands: []string{},
		KVBytesPerCell: m.KVBytesPerCell(first, last, kvElem), KVLayerBytes: m.KVLayerBytes(first, last, kvElem), KVType: kvType,
		KVWindowBytes: m.KVWindowBytes(first, last, kvElem), KVWindowCells: m.WindowCells(chunkRows),
		MaxContext: s.Source.Context(), ChunkRows: chunkRows,
	}
}
