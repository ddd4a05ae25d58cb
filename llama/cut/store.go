package cut

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync"

	"neuron/internal/atomicfile"
	"neuron/internal/filelock"
	"neuron/llama/family"
	"neuron/llama/gguf"
)

// Store is a shard folder. Its methods are safe for concurrent use; loads of
// stages that share a folder wait for each other (Prepare).
type Store struct {
	// Constant after Open.
	dir   string
	meta  *gguf.Header
	model *family.Model

	mu    sync.Mutex
	index *Index // guarded by mu; replaced, never changed in place
}

// Open opens an existing shard folder.
func Open(dir string) (*Store, error) {
	x, err := readIndex(dir)
	if err != nil {
		return nil, err
	}
	meta, err := readMeta(dir, x)
	if err != nil {
		return nil, err
	}
	m, err := family.Describe(meta)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrShard, err)
	}
	if m.Layers != x.Layers {
		return nil, fmt.Errorf("%w: metadata has %d layers, index %d", ErrShard, m.Layers, x.Layers)
	}
	return &Store{dir: dir, meta: meta, model: m, index: x}, nil
}

// readMeta reads meta.gguf, and refuses it when it is not the one that the
// index promises: nothing else covers metadata and vocabulary.
func readMeta(dir string, x *Index) (*gguf.Header, error) {
	path := filepath.Join(dir, metaName)
	st, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrShard, err)
	}
	if most := int64(gguf.DefaultLimits().HeaderBytes); st.Size() > most {
		return nil, fmt.Errorf("%w: %s has %d bytes, at most %d are read", ErrShard, metaName, st.Size(), most)
	}
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrShard, err)
	}
	if sum := sha256.Sum256(raw); x.Meta != "" && hex.EncodeToString(sum[:]) != x.Meta {
		return nil, &DamagedError{Files: []string{metaName}}
	}
	h, err := gguf.ReadHeader(bytes.NewReader(raw), int64(len(raw)), gguf.DefaultLimits())
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrShard, metaName, err)
	}
	return h, nil
}

// Model describes the whole model.
func (s *Store) Model() *family.Model { return s.model }

// Meta is the publisher's metadata, without tensors.
func (s *Store) Meta() *gguf.Header { return s.meta }

// Dir is the folder.
func (s *Store) Dir() string { return s.dir }

// Index is what the folder holds now; treat it as constant.
func (s *Store) Index() *Index {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.index
}

// Progress is called with bytes done and in all; from the caller's goroutine.
type Progress func(done, total int64)

// Import copies from src what a stage for layers [first, last) needs into dir
// and returns the store. Files that are there already are kept, so moving from
// 4-11 to 6-13 copies only 12 and 13. id is the model's content id; a folder of
// another model is refused.
func Import(ctx context.Context, src *gguf.Model, id, dir string, first, last int, progress Progress) (*Store, error) {
	m, err := family.Describe(src.Meta())
	if err != nil {
		return nil, err
	}
	if err := m.CheckRange(first, last); err != nil {
		return nil, err
	}
	if m.WholeOnly != "" {
		return nil, fmt.Errorf("%w: %s", ErrShard, m.WholeOnly)
	}
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("shard folder: %w", err)
	}
	lock, err := filelock.Wait(filepath.Join(dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("shard folder: %w", err)
	}
	defer lock.Unlock()

	x, err := startIndex(dir, src, id, m)
	if err != nil {
		return nil, err
	}
	todo, total, err := missing(src, x, m, first, last)
	if err != nil {
		return nil, err
	}
	var done int64
	for _, w := range todo {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		tensors, err := copyFile(ctx, src, filepath.Join(dir, w.file), w.tensors, x.Alignment, func(n int64) {
			done += n
			if progress != nil {
				progress(done, total)
			}
		})
		if err != nil {
			return nil, fmt.Errorf("write %s: %w", w.file, err)
		}
		x.Files[w.file] = tensors
		// After each file, so that an interrupted import goes on where it was.
		if err := writeIndex(dir, x); err != nil {
			return nil, err
		}
	}
	return Open(dir)
}

// startIndex reads the folder's index or begins one with the metadata file.
func startIndex(dir string, src *gguf.Model, id string, m *family.Model) (*Index, error) {
	p := Spec{Model: id, Meta: src.Meta(), Layers: m.Layers}
	for _, t := range src.Tensors() {
		p.Tensors = append(p.Tensors, Shape{Name: t.Name, Dims: t.Dims, Type: uint32(t.Type)})
	}
	return begin(dir, m, p)
}

type fileWork struct {
	file    string
	tensors []gguf.ModelTensor
}

// missing groups the tensors that the range needs by file, in the publisher's
// order, without files that the folder has.
func missing(src *gguf.Model, x *Index, m *family.Model, first, last int) ([]fileWork, int64, error) {
	var out []fileWork
	var total int64
	at := map[string]int{}
	for _, t := range src.Tensors() {
		need, err := needed(t.Name, x.Tied, m, first, last)
		if err != nil {
			return nil, 0, err
		}
		file := FileOf(t.Name)
		if !need || x.Files[file] != nil {
			continue
		}
		n, err := t.Bytes()
		if err != nil {
			return nil, 0, err
		}
		i, ok := at[file]
		if !ok {
			i = len(out)
			at[file] = i
			out = append(out, fileWork{file: file})
		}
		out[i].tensors = append(out[i].tensors, t)
		total += int64(n)
	}
	return out, total, nil
}

// copyFile writes one file: an empty header region, then the tensors' bytes.
// Where the system can, the kernel copies them (and a file system that shares
// blocks shares those that lie at block borders on both sides).
func copyFile(ctx context.Context, src *gguf.Model, path string, list []gguf.ModelTensor, align uint64, wrote func(int64)) ([]Tensor, error) {
	out := make([]Tensor, len(list))
	for i, t := range list {
		out[i] = Tensor{Name: t.Name, Dims: t.Dims, Type: uint32(t.Type), SourceFile: t.File, SourceOffset: t.FileOffset}
	}
	out, err := layOut(out, align)
	if err != nil {
		return nil, err
	}
	err = atomicfile.WriteFunc(path, func(f *os.File) error {
		if err := f.Truncate(FileSize(out, align)); err != nil {
			return err
		}
		for i, t := range list {
			if err := ctx.Err(); err != nil {
				return err
			}
			sum := sha256.Sum256(src.Data(t))
			out[i].SHA256 = hex.EncodeToString(sum[:])
			if err := copyTensor(f, HeaderRegion+int64(out[i].Offset), src.Files()[t.File].Path(), t.FileOffset, int64(out[i].Bytes)); err != nil {
				return err
			}
			wrote(int64(out[i].Bytes))
		}
		return nil
	})
	return out, err
}

// copyTensor copies n bytes at off of the file path to dst at at.
func copyTensor(dst *os.File, at int64, path string, off, n int64) error {
	src, err := os.Open(path)
	if err != nil {
		return err
	}
	defer src.Close()
	if _, err := src.Seek(off, io.SeekStart); err != nil {
		return err
	}
	if _, err := dst.Seek(at, io.SeekStart); err != nil {
		return err
	}
	if _, err := io.CopyN(dst, src, n); err != nil {
		return err
	}
	return nil
}
