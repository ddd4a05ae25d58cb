package cut

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"neuron/internal/atomicfile"
	"neuron/internal/filelock"
	"neuron/llama/gguf"
)

// Prepared is a stage whose files are ready to be loaded. Headers belong to
// one load at a time: the folder stays locked until Release, which the caller
// calls as soon as the library has loaded (or refused) the paths.
type Prepared struct {
	// Paths are the split files in order, for llama_model_load_from_splits.
	Paths []string
	// First and Last are the stage's layers, Head and Tail its role.
	First, Last int
	Head, Tail  bool

	lock *filelock.Lock
}

// Release lets the next load of this folder go on; idempotent.
func (p *Prepared) Release() {
	if p.lock != nil {
		p.lock.Unlock()
		p.lock = nil
	}
}

// Prepare writes the headers of a stage for [first, last) and returns its
// files. It fails when the folder lacks a file, or a file has not the size
// that its tensors need: a truncated mapped file kills the process.
func (s *Store) Prepare(first, last int) (*Prepared, error) {
	if err := s.model.CheckRange(first, last); err != nil {
		return nil, err
	}
	lock, err := filelock.Wait(filepath.Join(s.dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("shard folder: %w", err)
	}
	p := &Prepared{First: first, Last: last, Head: first == 0, Tail: last == s.model.Layers, lock: lock}
	if p.Paths, err = s.writeHeaders(first, last); err != nil {
		lock.Unlock()
		return nil, err
	}
	return p, nil
}

// part is one split file of a stage.
type part struct {
	path    string
	tensors []gguf.TensorInfo
	// own marks a file whose data is not ours to write (layer and tensor
	// files); others are written whole.
	own  bool
	size uint64 // data bytes
}

func (s *Store) writeHeaders(first, last int) ([]string, error) {
	parts, err := s.parts(first, last)
	if err != nil {
		return nil, err
	}
	meta, err := stageMetadata(s.meta.KVs, s.model, first, last)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, p := range parts {
		total += len(p.tensors)
	}
	paths := make([]string, len(parts))
	for i, p := range parts {
		kvs := []gguf.KV{
			{Key: "split.no", Value: gguf.U16(uint16(i))},
			{Key: "split.count", Value: gguf.U16(uint16(len(parts)))},
			{Key: "split.tensors.count", Value: gguf.I32(int32(total))},
		}
		o := gguf.WriteOptions{Alignment: s.Index().Alignment, DataOffset: HeaderRegion}
		if i == 0 {
			kvs, o.DataOffset = append(meta, kvs...), 0
		}
		header, err := gguf.EncodeHeader(kvs, p.tensors, o)
		if err != nil {
			return nil, fmt.Errorf("encode header of %s: %w", filepath.Base(p.path), err)
		}
		if err := p.write(header); err != nil {
			return nil, err
		}
		paths[i] = p.path
	}
	return paths, nil
}

// write puts the header in place: into an existing file, or as a new file with
// a hole for its data.
func (p part) write(header []byte) error {
	name := filepath.Base(p.path)
	if !p.own {
		err := atomicfile.WriteFunc(p.path, func(f *os.File) error {
			if p.size > 0 {
				markSparse(f)
			}
			if _, err := f.Write(header); err != nil {
				return err
			}
			return f.Truncate(int64(len(header)) + int64(p.size))
		})
		if err != nil {
			return fmt.Errorf("write %s: %w", name, err)
		}
		return nil
	}
	f, err := os.OpenFile(p.path, os.O_RDWR, 0)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrShard, err)
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return fmt.Errorf("stat: %w", err)
	}
	if want := HeaderRegion + int64(p.size); st.Size() != want {
		return fmt.Errorf("%w: %s has %d bytes, want %d", ErrShard, name, st.Size(), want)
	}
	if _, err := f.WriteAt(header, 0); err != nil {
		return fmt.Errorf("write header of %s: %w", name, err)
	}
	return nil
}

// parts lists the stage's files: the stem, stand-ins, non-block tensors in the
// order of their names, layers.
func (s *Store) parts(first, last int) ([]part, error) {
	x := s.Index()
	tag := fmt.Sprintf("%d-%d.gguf", first, last)
	out := []part{{path: filepath.Join(s.dir, "stem-"+tag)}}

	if list := standIns(s.model, x.Tied, first, last); len(list) > 0 {
		infos := make([]gguf.TensorInfo, len(list))
		for i, t := range list {
			infos[i] = gguf.TensorInfo{Name: t.name, Dims: t.dims, Type: t.typ}
		}
		infos, size, err := gguf.Layout(infos, x.Alignment)
		if err != nil {
			return nil, fmt.Errorf("stand-ins: %w", err)
		}
		out = append(out, part{path: filepath.Join(s.dir, "standin-"+tag), tensors: infos, size: size})
	}

	names := make([]string, 0, len(x.Files))
	for name, tensors := range x.Files {
		if _, _, block := splitBlock(tensors[0].Name); block {
			continue
		}
		need, err := needed(tensors[0].Name, x.Tied, s.model, first, last)
		if err != nil {
			return nil, err
		}
		if need {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	for i := first; i < last; i++ {
		names = append(names, layerFile(i))
	}
	for _, name := range names {
		p, err := s.ownPart(x, name, first)
		if err != nil {
			return nil, err
		}
		out = append(out, p)
	}
	return out, s.complete(x, first, last)
}

func (s *Store) ownPart(x *Index, name string, first int) (part, error) {
	tensors, ok := x.Files[name]
	if !ok {
		return part{}, fmt.Errorf("%w: %s is missing", ErrShard, name)
	}
	p := part{path: filepath.Join(s.dir, name), own: true}
	for _, t := range tensors {
		renamed := t.Name
		if i, rest, block := splitBlock(t.Name); block {
			renamed = fmt.Sprintf("blk.%d.%s", i-first, rest)
		}
		p.tensors = append(p.tensors, t.info(renamed))
		p.size = t.Offset + (t.Bytes+x.Alignment-1)/x.Alignment*x.Alignment
	}
	return p, nil
}

// complete checks that the head and tail tensors of the range are there.
func (s *Store) complete(x *Index, first, last int) error {
	var want []string
	if first == 0 || last == s.model.Layers && x.Tied {
		want = append(want, "token_embd.weight")
	}
	if last == s.model.Layers {
		want = append(want, "output_norm.weight")
		if !x.Tied {
			want = append(want, "output.weight")
		}
	}
	for _, name := range want {
		if x.Files[fileOf(name)] == nil {
			return fmt.Errorf("%w: %s is missing", ErrShard, name)
		}
	}
	return nil
}
