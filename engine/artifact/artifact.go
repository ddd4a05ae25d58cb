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
	"io/fs"
	"log/slog"
	"path/filepath"
	"regexp"
	"strings"

	"neuron/engine/manifest"
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
	Weight int64 // bytes of all tensors that a stage can use
	// Folder is the shard folder of a model that was fetched; Path is "" then,
	// and Files are its whole files, if it has any.
	Folder string

	layerWeight map[int]int64 // bytes per layer
	whole       []cut.Whole   // Files with their hashes
	recordPath  string        // where the load gate remembers whole files; "" for nowhere
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
	desc, err := Describe(path, m)
	if err != nil {
		return nil, err
	}
	s := &Source{Path: path, Name: nameOf(path), Model: desc, layerWeight: map[int]int64{}}
	if cacheDir != "" {
		s.recordPath = filepath.Join(cacheDir, wholeRecord)
	}
	for _, f := range m.Files() {
		s.Files = append(s.Files, f.Path())
	}
	for _, t := range m.Tensors() {
		n, err := t.Bytes()
		if err != nil {
			return nil, protocol.Errorf(protocol.CodeModelInvalid, "%s: %w", path, err)
		}
		block, ok := manifest.BlockOf(t.Name)
		if ok && block >= desc.Layers {
			continue // predicts further tokens; the library does not load it
		}
		s.Weight += int64(n)
		if ok {
			s.layerWeight[block] += int64(n)
		}
	}
	if s.ID, s.whole, err = digest(ctx, s.Files, cacheDir, log); err != nil {
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

// kvElem is the size of a cached key or value: the F16 default.
const (
	kvElem = 2
	kvType = "f16"
)

// Context is the longest session that the model allows, in tokens: what it
// was trained for, at most protocol.MaxContext.
func (s *Source) Context() int { return min(s.Model.Context, protocol.MaxContext) }

// wholeRecord remembers files that are used in place and were verified.
const wholeRecord = "verified-files.json"

// unchanged checks that files which are used in place still are what the id
// says.
func (s *Source) unchanged(ctx context.Context) error {
	bad, err := cut.VerifyWhole(ctx, s.recordPath, s.whole, cut.VerifyOptions{Low: true})
	switch {
	case err != nil && ctx.Err() != nil:
		return protocol.Errorf(protocol.CodeCancelled, "verify %s: %w", s.Name, err)
	case err != nil:
		return protocol.Errorf(protocol.CodeDataFolder, "verify %s: %w", s.Name, err)
	case len(bad) > 0:
		e := &DamagedError{}
		for _, i := range bad {
			e.Files = append(e.Files, s.whole[i].Path)
		}
		return e
	}
	return nil
}
