// Package publish makes a manifest and a BitTorrent metainfo file out of the
// GGUF files of a model, which stay as they are, and checks files against a
// manifest. Data is read once, whatever is hashed.
//
// The tracker's publish command, the engine's command line and tests import it.
// It knows GGUF, model families and metainfo; neither libllama, nor the cutter,
// nor peers, nor keys: the caller signs.
package publish

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"runtime"
	"slices"
	"strings"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/torrentfile"
	"neuron/llama/gguf"
)

// Options of Build; the zero value is a public torrent of default pieces.
type Options struct {
	// Name is what clients call the model; "": the file's name without
	// ".gguf" and split number.
	Name string
	// License replaces what the model says about itself.
	License string
	// PieceLength in bytes, a power of two from 16 KiB to 16 MiB. 0: 4 MiB, or
	// less so that a small model has 64 pieces, or more for a huge one.
	PieceLength int64
	Private     bool     // BEP 27
	Announce    []string // tracker URLs, one tier each
	WebSeeds    []string // BEP 19: URL of the one file, or of the folder above the torrent's
	// Workers is how many goroutines hash pieces, beside one each that reads,
	// hashes files and hashes tensors; 0: one per core.
	Workers int
	// Progress is called from one goroutine with the bytes read so far.
	Progress func(done, total int64)
}

// Result is what a publisher has to give away.
type Result struct {
	Manifest *manifest.Manifest
	Torrent  []byte   // metainfo; the same input gives the same bytes
	InfoHash string   // 40 hex digits
	Paths    []string // of the files, in the manifest's order
}

// Build describes the model of paths: one GGUF, any file of a split set, or
// all of them in any order. It fails with model_invalid for what is not a
// model, model_not_found and forbidden for paths, cancelled when ctx ends.
func Build(ctx context.Context, paths []string, o Options) (*Result, error) {
	d, err := describe(paths, o)
	if err != nil {
		return nil, err
	}
	m := d.manifest
	s, err := hashFiles(ctx, d.paths, m, plan{pieces: true, tensors: true, workers: o.Workers, progress: o.Progress})
	if err != nil {
		return nil, err
	}
	if err := d.unchanged(); err != nil {
		return nil, err
	}
	s.fill(m)
	r := &Result{Manifest: m, Paths: d.paths}
	if r.Torrent, r.InfoHash, err = encodeTorrent(m, s.pieces, o); err != nil {
		return nil, err
	}
	m.Torrent.InfoHash = r.InfoHash
	if err := m.Check(); err != nil {
		return nil, err
	}
	// What others will refuse must not leave this computer.
	if err := torrentfile.CheckTorrent(r.Torrent, m); err != nil {
		return nil, err
	}
	return r, nil
}

// Describe is the part of Build that reads headers only: the manifest has no
// hashes, no model id and no info hash, all else is as Build would say.
func Describe(paths []string, o Options) (*manifest.Manifest, error) {
	d, err := describe(paths, o)
	if err != nil {
		return nil, err
	}
	return d.manifest, nil
}

// description is a manifest without hashes, and what it was made from.
type description struct {
	manifest *manifest.Manifest
	paths    []string
	stats    []fs.FileInfo
}

func describe(paths []string, o Options) (*description, error) {
	if len(paths) == 0 {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "no file to publish")
	}
	model, err := gguf.OpenModel(paths[0])
	if err != nil {
		return nil, openError(paths[0], err)
	}
	defer model.Close()
	d := &description{}
	for _, f := range model.Files() {
		st, err := os.Stat(f.Path())
		if err != nil {
			return nil, openError(f.Path(), err)
		}
		d.paths, d.stats = append(d.paths, f.Path()), append(d.stats, st)
	}
	if err := d.sameSet(paths); err != nil {
		return nil, err
	}
	if d.manifest, err = layout(model, o); err != nil {
		return nil, err
	}
	return d, precheck(d.manifest)
}

// precheck finds what the manifest may not say before hours of hashing.
func precheck(m *manifest.Manifest) error {
	c := *m
	c.Model = protocol.ModelIDOf(make([][32]byte, len(c.Files)))
	c.Torrent.InfoHash = strings.Repeat("0", 40)
	return c.Check()
}

// sameSet refuses paths that do not belong to the model of the first one.
func (d *description) sameSet(paths []string) error {
	if len(paths) == 1 {
		return nil
	}
	found := make([]bool, len(d.paths))
	for _, p := range paths {
		st, err := os.Stat(p)
		if err != nil {
			return openError(p, err)
		}
		i := slices.IndexFunc(d.stats, func(have fs.FileInfo) bool { return os.SameFile(have, st) })
		if i < 0 {
			return protocol.Errorf(protocol.CodeInvalidRequest, "%s does not belong to the model of %s; publish one model at a time", p, paths[0])
		}
		if found[i] {
			return protocol.Errorf(protocol.CodeInvalidRequest, "%s was given twice", p)
		}
		found[i] = true
	}
	if i := slices.Index(found, false); i >= 0 {
		return protocol.Errorf(protocol.CodeInvalidRequest, "%s belongs to the model too; give all of its files, or one", d.paths[i])
	}
	return nil
}

// unchanged refuses files that were written or replaced since they were
// described: their header might not be what the manifest says.
func (d *description) unchanged() error {
	for i, p := range d.paths {
		st, err := os.Stat(p)
		if err != nil {
			return openError(p, err)
		}
		if was := d.stats[i]; !os.SameFile(was, st) || was.Size() != st.Size() || !was.ModTime().Equal(st.ModTime()) {
			return changed(p)
		}
	}
	return nil
}

func changed(path string) error {
	return protocol.Errorf(protocol.CodeModelInvalid, "%s changed while it was read", path)
}

func openError(path string, err error) error {
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return protocol.Errorf(protocol.CodeModelUnknown, "%s: %w", path, err)
	case errors.Is(err, fs.ErrPermission):
		return protocol.Errorf(protocol.CodeForbidden, "%s may not be read by this user", path)
	}
	return protocol.Errorf(protocol.CodeModelInvalid, "%s is not a usable GGUF: %w", path, err)
}

func workers(n int) int {
	if n > 0 {
		return n
	}
	return runtime.GOMAXPROCS(0)
}

// ETA estimates the rest of a job from its progress; 0 before anything is done.
func ETA(done, total int64, elapsed time.Duration) time.Duration {
	if done <= 0 || total <= done {
		return 0
	}
	return time.Duration(float64(elapsed) * float64(total-done) / float64(done))
}
