package artifact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"path/filepath"
	"strings"

	"neuron/engine/protocol"
	"neuron/internal/syserr"
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
	case syserr.DiskFull(err):
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

// Renew cuts damaged files again from the source, which must be a file of this
// computer. A file that is used in place cannot be renewed: it is another model
// now.
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
	// The folder's index is read again by the next Prepare.
	_, err := s.Source.Shard(ctx, s.Range, filepath.Dir(dir), nil)
	return err
}

// Prepare is the load gate: it hashes what the shard needs and has changed
// since it was last verified, and makes the stage's files ready; a DamagedError
// says what is not as the publisher made it, and nothing of it reaches the
// library. The returned function must be called when the files are loaded; see
// cut.Store.PrepareVerified.
func (s *Shard) Prepare(ctx context.Context) (paths []string, release func(), err error) {
	if s.store == nil {
		return s.Source.Files, func() {}, s.Source.unchanged(ctx)
	}
	p, err := s.store.PrepareVerified(ctx, s.Range.First, s.Range.Last, cut.VerifyOptions{Low: true})
	var bad *cut.DamagedError
	switch {
	case err != nil && ctx.Err() != nil:
		return nil, nil, protocol.Errorf(protocol.CodeCancelled, "verify layers %s: %w", s.Range, err)
	case errors.As(err, &bad):
		return nil, nil, &DamagedError{Files: bad.Files}
	case err != nil:
		return nil, nil, protocol.Errorf(protocol.CodeDataFolder, "layers %s: %w", s.Range, err)
	}
	return p.Paths, p.Release, nil
}

// Sound lists the files of the shard folder that were verified and have not
// changed since; none when the publisher's files are used in place.
func (s *Shard) Sound() []string {
	if s.store == nil {
		return nil
	}
	return s.store.Sound()
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
