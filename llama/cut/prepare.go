package cut

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"neuron/internal/atomicfile"
	"neuron/internal/filelock"
	"neuron/llama/family"
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
	// Plan says how to run it.
	Plan family.Plan

	lock *filelock.Lock
}

// Release lets the next load of this folder go on; idempotent.
func (p *Prepared) Release() {
	if p.lock != nil {
		p.lock.Unlock()
		p.lock = nil
	}
}

// Prepare is PrepareVerified with default options.
func (s *Store) Prepare(first, last int) (*Prepared, error) {
	return s.PrepareVerified(context.Background(), first, last, VerifyOptions{})
}

// PrepareVerified makes the files of a stage for [first, last) ready: it
// verifies what is not remembered as sound (see Verify), writes the headers,
// and remembers the files as they are then. Nothing is written when a file is
// damaged: a *DamagedError names all of them. It fails with ErrShard when the
// folder lacks a file.
func (s *Store) PrepareVerified(ctx context.Context, first, last int, o VerifyOptions) (*Prepared, error) {
	st, err := s.model.Stage(first, last)
	if err != nil {
		return nil, err
	}
	if s.model.WholeOnly != "" {
		return nil, fmt.Errorf("%w: %s", ErrShard, s.model.WholeOnly)
	}
	lock, err := filelock.Wait(filepath.Join(s.dir, lockName))
	if err != nil {
		return nil, fmt.Errorf("shard folder: %w", err)
	}
	p := &Prepared{First: first, Last: last, Head: first == 0, Tail: last == s.model.Layers, Plan: st.Plan, lock: lock}
	parts, bad, err := s.verify(ctx, first, last, o)
	if err == nil && len(bad) > 0 {
		err = &DamagedError{Files: bad}
	}
	if err == nil {
		p.Paths, err = s.writeHeaders(parts, st)
	}
	if err != nil {
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

func (s *Store) writeHeaders(parts []part, st *family.Stage) ([]string, error) {
	meta, err := stageMetadata(s.meta.KVs, s.model, st)
	if err != nil {
		return nil, err
	}
	total := 0
	for _, p := range parts {
		total += len(p.tensors)
	}
	rec := readRecords(s.dir)
	changed := false
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
		paths[i] = p.path
		if !p.own {
			if err := p.create(header); err != nil {
				return nil, err
			}
			continue
		}
		wrote, err := p.write(header, rec)
		if err != nil {
			return nil, err
		}
		changed = changed || wrote
	}
	if changed {
		err = writeRecords(s.dir, rec)
	}
	return paths, err
}

// create writes a file that holds no tensor of the publisher's: its data is a
// hole.
func (p part) create(header []byte) error {
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
		return fmt.Errorf("write %s: %w", filepath.Base(p.path), err)
	}
	return nil
}

// write puts the header of a verified file in place, unless it is there, and
// corrects the file's record, which our own write has made invalid. A file
// that is not the verified one any more is refused: between verification and
// here nobody may write.
func (p part) write(header []byte, rec map[string]record) (wrote bool, err error) {
	name := filepath.Base(p.path)
	f, err := os.OpenFile(p.path, os.O_RDWR, 0)
	if err != nil {
		return false, fmt.Errorf("%w: %w", ErrShard, err)
	}
	defer f.Close()
	now, err := stampOf(f)
	if err != nil {
		return false, err
	}
	r, known := rec[name]
	if known && r.stamp != now || now.Size != HeaderRegion+int64(p.size) {
		return false, &DamagedError{Files: []string{name}}
	}
	have := make([]byte, len(header))
	if _, err := f.ReadAt(have, 0); err != nil {
		return false, fmt.Errorf("read header of %s: %w", name, err)
	}
	if bytes.Equal(have, header) {
		return false, nil
	}
	if _, err := f.WriteAt(header, 0); err != nil {
		return false, fmt.Errorf("write header of %s: %w", name, err)
	}
	after, ok, err := age(f, p.path)
	if err != nil {
		return false, err
	}
	if !ok || !known {
		delete(rec, name)
		return known, nil
	}
	rec[name] = record{stamp: after, Digest: r.Digest}
	return true, nil
}

// parts lists the stage's files: the stem, stand-ins, non-block tensors in the
// order of their names, layers.
func (s *Store) parts(first, last int) ([]part, error) {
	x := s.Index()
	tag := fmt.Sprintf("%d-%d.gguf", first, last)
	st, err := s.model.Stage(first, last)
	if err != nil {
		return nil, err
	}
	out := []part{{path: filepath.Join(s.dir, "stem-"+tag)}}
	list, err := standIns(s.model, x, st)
	if err != nil {
		return nil, err
	}
	if len(list) > 0 {
		infos, size, err := gguf.Layout(list, x.Alignment)
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
		p, err := s.ownPart(x, name, first-st.Plan.Front)
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

// complete checks that the tensors of the range that belong to no layer are
// there: those that every model has, and those that this one has.
func (s *Store) complete(x *Index, first, last int) error {
	want := x.Shared
	if len(want) == 0 { // of an earlier build
		want = []string{"token_embd.weight", "output_norm.weight"}
		if !x.Tied {
			want = append(want, "output.weight")
		}
	}
	for _, name := range want {
		need, err := needed(name, x.Tied, s.model, first, last)
		if err != nil {
			return err
		}
		if need && x.Files[FileOf(name)] == nil {
			return fmt.Errorf("%w: %s is missing", ErrShard, name)
		}
	}
	return nil
}
