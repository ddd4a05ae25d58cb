package cut

import (
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
	// Files maps a file name to its tensors in the order of their data.
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

// fileOf says which file a tensor belongs to.
func fileOf(name string) string {
	if i, _, ok := splitBlock(name); ok {
		return layerFile(i)
	}
	return name + ".gguf"
}

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
	var x Index
	if err := json.Unmarshal(raw, &x); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrShard, indexName, err)
	}
	if x.Version != indexVersion || x.Layers < 1 || x.Files == nil {
		return nil, fmt.Errorf("%w: %s has version %d, this build reads %d", ErrShard, indexName, x.Version, indexVersion)
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
	for name, tensors := range x.Files {
		if len(tensors) == 0 {
			return fmt.Errorf("%.64q has no tensors", name)
		}
		infos := make([]gguf.TensorInfo, len(tensors))
		for i, t := range tensors {
			if fileOf(t.Name) != name || filepath.Base(name) != name {
				return fmt.Errorf("tensor %.64q in file %.64q", t.Name, name)
			}
			infos[i] = t.info(t.Name)
		}
		laid, _, err := gguf.Layout(infos, x.Alignment)
		if err != nil {
			return err
		}
		for i, t := range tensors {
			if n, err := infos[i].Bytes(); err != nil || n != t.Bytes || laid[i].Offset != t.Offset {
				return fmt.Errorf("tensor %.64q has %d bytes at %d", t.Name, t.Bytes, t.Offset)
			}
		}
	}
	return nil
}
