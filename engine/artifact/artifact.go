// Package artifact finds out what a GGUF is (its content id, its shape, how it
// may be cut) and gets the files of a shard ready for a stage.
//
// It works on local files; fetching layers from peers comes with the artifact
// plane and stands behind the same Shard. The engine's composition and command
// line import it; it knows neither the network nor libllama.
package artifact

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"

	"neuron/engine/protocol"
	"neuron/llama/cut"
	"neuron/llama/family"
	"neuron/llama/gguf"
)

// Source is a GGUF on this computer, whole or in split files.
type Source struct {
	Path   string
	Files  []string // in split order
	ID     protocol.ModelID
	Name   string // what clients call it: the file name without suffixes
	Model  *family.Model
	Weight int64 // bytes of all tensors

	layerWeight map[int]int64 // bytes per layer
}

var splitSuffix = regexp.MustCompile(`-\d{5}-of-\d{5}$`)

// nameOf is the model's name for clients.
func nameOf(path string) string {
	return splitSuffix.ReplaceAllString(strings.TrimSuffix(filepath.Base(path), ".gguf"), "")
}

// Inspect reads a GGUF's header and computes its content id; hashes are
// remembered in cacheDir ("" for nowhere) by path, size and time.
func Inspect(ctx context.Context, path, cacheDir string, log *slog.Logger) (*Source, error) {
	m, err := gguf.OpenModel(path)
	if err != nil {
		return nil, openError(path, err)
	}
	defer m.Close()
	desc, err := family.Describe(m.Meta())
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "%s: %w", path, err)
	}
	s := &Source{Path: path, Name: nameOf(path), Model: desc, layerWeight: map[int]int64{}}
	for _, f := range m.Files() {
		s.Files = append(s.Files, f.Path())
	}
	for _, t := range m.Tensors() {
		n, err := t.Bytes()
		if err != nil {
			return nil, protocol.Errorf(protocol.CodeModelInvalid, "%s: %w", path, err)
		}
		s.Weight += int64(n)
		// llama.cpp's names: "blk.12.attn_q.weight".
		if rest, ok := strings.CutPrefix(t.Name, "blk."); ok {
			number, _, _ := strings.Cut(rest, ".")
			if i, err := strconv.Atoi(number); err == nil {
				s.layerWeight[i] += int64(n)
			}
		}
	}
	if s.ID, err = digest(ctx, s.Files, cacheDir, log); err != nil {
		return nil, err
	}
	return s, nil
}

func openError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return protocol.Errorf(protocol.CodeModelUnknown, "there is no file %s", path)
	case errors.Is(err, fs.ErrPermission):
		return protocol.Errorf(protocol.CodeForbidden, "%s may not be read by this user", path)
	}
	return protocol.Errorf(protocol.CodeModelInvalid, "%s is not a usable GGUF: %w", path, err)
}

// Shard is a layer range of a source, ready to be prepared for a stage.
type Shard struct {
	Source *Source
	Range  protocol.Range
	store  *cut.Store // nil when the publisher's file is used in place
}

// ParseLayers reads "all" or "FIRST-LAST" for a model.
func (s *Source) ParseLayers(text string) (protocol.Range, error) {
	if text == "" || text == "all" {
		return protocol.Range{Last: s.Model.Layers}, nil
	}
	r, err := protocol.ParseRange(text)
	if err != nil {
		return r, err
	}
	return r, s.check(r)
}

func (s *Source) check(r protocol.Range) error {
	if err := s.Model.CheckRange(r.First, r.Last); err != nil {
		code := protocol.CodeRangeInvalid
		if s.Model.WholeOnly != "" && r.Valid(s.Model.Layers) {
			code = protocol.CodeModelUncut
		}
		return protocol.Errorf(code, "%s: %w", s.Name, err)
	}
	return nil
}

// Shard makes layers r available under dir. A whole model is used where it
// lies, without a copy; a part is written as per-layer files.
func (s *Source) Shard(ctx context.Context, r protocol.Range, dir string, progress cut.Progress) (*Shard, error) {
	if err := s.check(r); err != nil {
		return nil, err
	}
	if r.First == 0 && r.Last == s.Model.Layers {
		return &Shard{Source: s, Range: r}, nil
	}
	m, err := gguf.OpenModel(s.Path)
	if err != nil {
		return nil, openError(s.Path, err)
	}
	defer m.Close()
	store, err := cut.Import(ctx, m, string(s.ID), filepath.Join(dir, s.ID.Short()), r.First, r.Last, progress)
	switch {
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

// Prepare makes the stage's files ready; see cut.Store.Prepare. The returned
// function must be called when they are loaded.
func (s *Shard) Prepare() (paths []string, release func(), err error) {
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

// kvElem is the size of a cached key or value: the F16 default.
const (
	kvElem = 2
	kvType = "f16"
)

// Context is the longest session that the model allows, in tokens: what it
// was trained for, at most protocol.MaxContext.
func (s *Source) Context() int { return min(s.Model.Context, protocol.MaxContext) }

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
