package cut

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"neuron/internal/atomicfile"
	"neuron/internal/filelock"
	"neuron/llama/family"
	"neuron/llama/gguf"
)

// A folder may be filled without a source file, by whoever has the tensors'
// bytes from elsewhere: Begin writes the metadata, then each file is put in
// place with the bytes where Layout says, and Add lists it.

// ReadIndex reads what the folder in dir holds; it fails with fs.ErrNotExist
// before Begin.
func ReadIndex(dir string) (*Index, error) { return readIndex(dir) }

// Spec is what Begin has to know of a model.
type Spec struct {
	Model string // content id of the publisher's files
	// Meta is the header of the publisher's first file; its tensors are not
	// used.
	Meta *gguf.Header
	// Layers is what the caller expects of the metadata.
	Layers int
	// Tensors are all tensors of the model, without their bytes.
	Tensors []Shape
}

// shared lists the tensors that belong to no layer, sorted.
func (p Spec) shared() []string {
	out := []string{}
	for _, t := range p.Tensors {
		if _, _, block := splitBlock(t.Name); !block {
			out = append(out, t.Name)
		}
	}
	slices.Sort(out)
	return out
}

// Begin makes dir a shard folder. One that is a shard folder already keeps its
// files, and gets its metadata file again if that is missing or damaged;
// another model's folder is refused.
func Begin(dir string, p Spec) error {
	m, err := family.Describe(p.Meta)
	if err != nil {
		return err
	}
	if m.Layers != p.Layers {
		return fmt.Errorf("%w: metadata has %d layers, not %d", ErrShard, m.Layers, p.Layers)
	}
	return locked(dir, func() error {
		_, err := begin(dir, m, p)
		return err
	})
}

func begin(dir string, m *family.Model, p Spec) (*Index, error) {
	err := m.CheckTensors(func(name string) bool {
		return slices.ContainsFunc(p.Tensors, func(t Shape) bool { return t.Name == name })
	})
	if err != nil {
		return nil, err
	}
	meta, shared, shapes := p.Meta, p.shared(), shapesOf(p.Tensors, p.Layers)
	if err := shapes.check(p.Layers); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrShard, err)
	}
	tied := !slices.Contains(shared, "output.weight")
	if meta.Alignment > HeaderRegion {
		return nil, fmt.Errorf("%w: alignment %d", ErrShard, meta.Alignment)
	}
	raw, err := gguf.EncodeHeader(withoutSplit(meta.KVs), nil, gguf.WriteOptions{Alignment: meta.Alignment})
	if err != nil {
		return nil, fmt.Errorf("encode metadata: %w", err)
	}
	sum := sha256.Sum256(raw)
	x, err := readIndex(dir)
	switch {
	case err == nil && x.Model != p.Model:
		return nil, fmt.Errorf("%w: %s holds another model (%.12s, not %.12s)", ErrShard, dir, x.Model, p.Model)
	case err == nil && (x.Layers != p.Layers || x.Tied != tied || x.Alignment != meta.Alignment):
		return nil, fmt.Errorf("%w: %s was made with other metadata", ErrShard, dir)
	case err != nil && !errors.Is(err, fs.ErrNotExist):
		return nil, err
	case err != nil:
		x = &Index{Version: indexVersion, Model: p.Model, Alignment: meta.Alignment, Layers: p.Layers, Tied: tied, Files: map[string][]Tensor{}}
	}
	if err == nil && x.Meta == hex.EncodeToString(sum[:]) && slices.Equal(x.Shared, shared) && x.Shapes.equal(shapes) {
		if have, err := os.ReadFile(filepath.Join(dir, metaName)); err == nil && sha256.Sum256(have) == sum {
			return x, nil
		}
	}
	// The file first: an index with a hash promises that it is there.
	if err := atomicfile.Write(filepath.Join(dir, metaName), raw); err != nil {
		return nil, fmt.Errorf("write %s: %w", metaName, err)
	}
	x.Meta, x.Shared, x.Shapes = hex.EncodeToString(sum[:]), shared, shapes
	return x, writeIndex(dir, x)
}

// Add lists a file whose bytes are all in place and synced to the disk. Adding
// one again does nothing.
func Add(dir, file string, tensors []Tensor) error {
	return change(dir, func(x *Index) (bool, error) {
		if len(tensors) == 0 {
			return false, fmt.Errorf("%w: %.64q has no tensors", ErrShard, file)
		}
		if err := x.checkFile(file, tensors); err != nil {
			return false, fmt.Errorf("%w: %w", ErrShard, err)
		}
		st, err := os.Stat(filepath.Join(dir, file))
		if err != nil {
			return false, fmt.Errorf("%w: %w", ErrShard, err)
		}
		if want := FileSize(tensors, x.Alignment); st.Size() != want {
			return false, fmt.Errorf("%w: %s has %d bytes, want %d", ErrShard, file, st.Size(), want)
		}
		if slices.EqualFunc(x.Files[file], tensors, Tensor.equal) {
			return false, nil
		}
		x.Files[file] = tensors
		return true, nil
	})
}

// Drop takes files off the index; the files themselves stay. Names that are
// not listed are passed over.
func Drop(dir string, files ...string) error {
	return change(dir, func(x *Index) (bool, error) {
		n := len(x.Files)
		for _, f := range files {
			delete(x.Files, f)
		}
		return len(x.Files) != n, nil
	})
}

// Reset removes a damaged index and what is remembered of the files, so that
// the folder can be begun again; files with tensors stay.
func Reset(dir string) error {
	return locked(dir, func() error {
		for _, name := range []string{indexName, recordName} {
			if err := os.Remove(filepath.Join(dir, name)); err != nil && !errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("shard folder: %w", err)
			}
		}
		return nil
	})
}

// Tidy removes temporary files that a killed process has left. It does nothing
// while somebody works on the folder.
func Tidy(dir string) error {
	lock, err := filelock.Try(filepath.Join(dir, lockName))
	if errors.Is(err, filelock.ErrLocked) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("shard folder: %w", err)
	}
	defer lock.Unlock()
	list, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("shard folder: %w", err)
	}
	for _, e := range list {
		if !temporary(e.Name()) || !e.Type().IsRegular() {
			continue
		}
		if err := os.Remove(filepath.Join(dir, e.Name())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return fmt.Errorf("shard folder: %w", err)
		}
	}
	return nil
}

// Prune removes what Prepare has written for stages that keep does not name:
// stems and stand-ins, which are made again at each load. Files that the
// system does not let go (a stage maps them) stay.
func Prune(dir string, keep func(first, last int) bool) error {
	return locked(dir, func() error {
		list, err := os.ReadDir(dir)
		if err != nil {
			return fmt.Errorf("shard folder: %w", err)
		}
		for _, e := range list {
			if first, last, ok := stageFile(e.Name()); ok && !keep(first, last) {
				_ = os.Remove(filepath.Join(dir, e.Name())) // in use, see above
			}
		}
		return nil
	})
}

// stageFile reads the range in the name of a stem or a stand-in.
func stageFile(name string) (first, last int, ok bool) {
	for _, kind := range []string{"stem", "standin"} {
		n, err := fmt.Sscanf(name, kind+"-%d-%d.gguf", &first, &last)
		if err == nil && n == 2 && name == fmt.Sprintf("%s-%d-%d.gguf", kind, first, last) {
			return first, last, true
		}
	}
	return 0, 0, false
}

// temporary reports whether a name is one that atomicfile gives to a file of
// this package while it is written: others may write in the folder too.
func temporary(name string) bool {
	rest, ok := strings.CutPrefix(name, ".")
	i := strings.LastIndexByte(rest, '.')
	if !ok || i < 0 {
		return false
	}
	base := rest[:i]
	return base == indexName || base == recordName || strings.HasSuffix(base, ".gguf")
}

func (t Tensor) equal(o Tensor) bool {
	return t.Name == o.Name && slices.Equal(t.Dims, o.Dims) && t.Type == o.Type && t.Offset == o.Offset && t.Bytes == o.Bytes &&
		t.SHA256 == o.SHA256 && t.SourceFile == o.SourceFile && t.SourceOffset == o.SourceOffset
}

// change edits the index on disk; other processes do the same.
func change(dir string, edit func(*Index) (bool, error)) error {
	return locked(dir, func() error {
		x, err := readIndex(dir)
		if err != nil {
			return err
		}
		x.Files = maps.Clone(x.Files)
		changed, err := edit(x)
		if err != nil || !changed {
			return err
		}
		return writeIndex(dir, x)
	})
}

func locked(dir string, do func() error) error {
	lock, err := filelock.Wait(filepath.Join(dir, lockName))
	if err != nil {
		return fmt.Errorf("shard folder: %w", err)
	}
	defer lock.Unlock()
	return do()
}

func writeIndex(dir string, x *Index) error {
	raw, err := json.MarshalIndent(x, "", " ")
	if err != nil {
		return fmt.Errorf("encode index: %w", err)
	}
	if err := atomicfile.Write(filepath.Join(dir, indexName), append(raw, '\n')); err != nil {
		return fmt.Errorf("write %s: %w", indexName, err)
	}
	return nil
}
