package cut

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"neuron/llama/gguf"
)

// ErrShard is wrapped by every complaint about a shard folder.
var ErrShard = errors.New("shard folder")

// ErrVersion is wrapped beside ErrShard when a newer build made the folder.
var ErrVersion = errors.New("made by a newer build")

const (
	indexName = "shard.json"
	metaName  = "meta.gguf"
	lockName  = "shard.lock"

	indexVersion = 1
)

// Index says what a shard folder holds.
type Index struct {
	Version   int    `json:"version"`
	Model     string `json:"model"` // content id of the publisher's files
	Alignment uint64 `json:"alignment"`
	Layers    int    `json:"layers"` // of the whole model
	// Tied says that the model has no output.weight of its own.
	Tied bool `json:"tied"`
	// Meta is the SHA-256 of meta.gguf; "" in folders of earlier builds.
	Meta string `json:"meta,omitempty"`
	// Shared names all tensors of the model that belong to no layer, sorted,
	// whether their files are here or not: some are optional in a family, and a
	// stage that lacks one would compute something else without an error. Empty
	// in folders of earlier builds.
	Shared []string `json:"shared,omitempty"`
	// Shapes are all tensors of the model, for those that a stage pretends to
	// have; nil in folders of earlier builds.
	Shapes *Shapes `json:"shapes,omitempty"`
	// Files maps a file name to its tensors in the order of their data. A file
	// stands here only when all its bytes are in place and on the disk.
	Files map[string][]Tensor `json:"files"`
}

// Tensor is one tensor of a file: the publisher's bytes and where they lie.
type Tensor struct {
	Name string   `json:"name"` // the publisher's name
	Dims []uint64 `json:"dims"`
	Type uint32   `json:"type"`
	// Offset is relative to the data region of the folder's file.
	Offset uint64 `json:"offset"`
	Bytes  uint64 `json:"bytes"`
	SHA256 string `json:"sha256"`
	// SourceFile and SourceOffset are the extent in the publisher's files.
	SourceFile   int   `json:"source_file"`
	SourceOffset int64 `json:"source_offset"`
}

func (t Tensor) info(name string) gguf.TensorInfo {
	return gguf.TensorInfo{Name: name, Dims: t.Dims, Type: gguf.Type(t.Type), Offset: t.Offset}
}

// layerFile is the name of layer i's file.
func layerFile(i int) string { return fmt.Sprintf("blk.%04d.gguf", i) }

// splitBlock takes "blk.7.attn_q.weight" apart.
func splitBlock(name string) (layer int, rest string, ok bool) {
	s, found := strings.CutPrefix(name, "blk.")
	if !found {
		return 0, "", false
	}
	digits, rest, found := strings.Cut(s, ".")
	if !found || digits == "" || len(digits) > 4 {
		return 0, "", false
	}
	for _, c := range digits {
		if c < '0' || c > '9' {
			return 0, "", false
		}
		layer = layer*10 + int(c-'0')
	}
	return layer, rest, true
}

func readIndex(dir string) (*Index, error) {
	raw, err := os.ReadFile(filepath.Join(dir, indexName))
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("%w: %s has no %s: %w", ErrShard, dir, indexName, fs.ErrNotExist)
	}
	if err != nil {
		return nil, fmt.Errorf("shard index: %w", err)
	}
	return parseIndex(raw)
}

func parseIndex(raw []byte) (*Index, error) {
	var x Index
	if err := json.Unmarshal(raw, &x); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrShard, indexName, err)
	}
	if x.Version > indexVersion {
		return nil, fmt.Errorf("%w: %s: %w: %d, this build reads %d", ErrShard, indexName, ErrVersion, x.Version, indexVersion)
	}
	if x.Version != indexVersion || x.Layers < 1 || x.Files == nil {
		return nil, fmt.Errorf("%w: %s has version %d, %d layers", ErrShard, indexName, x.Version, x.Layers)
	}
	if err := x.check(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrShard, indexName, err)
	}
	return &x, nil
}

// check refuses an index that this package did not write: the rest relies on
// its figures.
func (x *Index) check() error {
	if x.Alignment == 0 || x.Alignment&(x.Alignment-1) != 0 || x.Alignment > HeaderRegion {
		return fmt.Errorf("alignment %d", x.Alignment)
	}
	if x.Shapes != nil {
		if err := x.Shapes.check(x.Layers); err != nil {
			return err
		}
	}
	for name, tensors := range x.Files {
		if len(tensors) == 0 {
			return fmt.Errorf("%.64q has no tensors", name)
		}
		if err := x.checkFile(name, tensors); err != nil {
			return err
		}
	}
	return nil
}

func (x *Index) checkFile(name string, tensors []Tensor) error {
	for _, t := range tensors {
		if FileOf(t.Name) != name || filepath.Base(name) != name {
			return fmt.Errorf("tensor %.64q in file %.64q", t.Name, name)
		}
		if raw, err := hex.DecodeString(t.SHA256); err != nil || len(raw) != sha256.Size {
			return fmt.Errorf("tensor %.64q has the hash %.70q", t.Name, t.SHA256)
		}
	}
	laid, err := layOut(tensors, x.Alignment)
	if err != nil {
		return err
	}
	for i, t := range tensors {
		if laid[i].Bytes != t.Bytes || laid[i].Offset != t.Offset {
			return fmt.Errorf("tensor %.64q has %d bytes at %d", t.Name, t.Bytes, t.Offset)
		}
	}
	return nil
}
