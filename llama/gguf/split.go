package gguf

import (
	"errors"
	"fmt"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
)

// The keys by which the files of a split set know each other, with the only types that
// llama.cpp accepts for them.
const (
	SplitNoKey      = "split.no"            // u16, index of the file from 0
	SplitCountKey   = "split.count"         // u16, number of files
	SplitTensorsKey = "split.tensors.count" // i32, tensors of all files together

	// maxSplits is far above any published model and bounds how many files are opened.
	maxSplits = 4096
)

var splitName = regexp.MustCompile(`^(.+)-([0-9]{5})-of-([0-9]{5})\.gguf$`)

// SplitName is the name of file i (from 0) of n of a split set.
func SplitName(prefix string, i, n int) string {
	return fmt.Sprintf("%s-%05d-of-%05d.gguf", prefix, i+1, n)
}

// ParseSplitName takes a name made by SplitName apart; ok is false for any other name.
func ParseSplitName(name string) (prefix string, i, n int, ok bool) {
	m := splitName.FindStringSubmatch(name)
	if m == nil {
		return "", 0, 0, false
	}
	i, _ = strconv.Atoi(m[2]) // five digits always convert
	n, _ = strconv.Atoi(m[3])
	if i < 1 || i > n {
		return "", 0, 0, false
	}
	return m[1], i - 1, n, true
}

// ModelTensor is a tensor and where its bytes are.
type ModelTensor struct {
	TensorInfo
	File       int   // index in Model.Files
	FileOffset int64 // absolute position in that file
}

// Model is a model in one file or in a split set, open for reading. The rules of File
// about goroutines and Close hold here too.
type Model struct {
	files   []*File
	tensors []ModelTensor
	index   map[string]int
}

// OpenModel opens the model that path belongs to: one file, or all files of a split set
// of which path is any member. The files must agree about the set (CodeSplit) and no
// tensor may occur in two of them (CodeDuplicate).
func OpenModel(path string) (*Model, error) {
	first, err := Open(path)
	if err != nil {
		return nil, err
	}
	m := &Model{}
	if err := m.open(first); err != nil {
		return nil, errors.Join(err, m.Close())
	}
	return m, nil
}

// open takes over given, the file that the caller named, and opens the others.
func (m *Model) open(given *File) error {
	m.files = []*File{given}
	no, count, err := splitOf(given.header)
	if err != nil {
		return within(given.path, err)
	}
	prefix, i, n, named := ParseSplitName(filepath.Base(given.path))
	switch {
	case count <= 1 && named && n > 1:
		return errf(CodeSplit, "%s is named like file %d of %d but does not say so inside", given.path, i+1, n)
	case count <= 1:
		return m.merge()
	case !named:
		return errf(CodeSplit, "%s is file %d of a set of %d but is not named like one", given.path, no+1, count)
	case n != count || i != no:
		return errf(CodeSplit, "%s is file %d of %d by its name, but %d of %d inside", given.path, i+1, n, no+1, count)
	}
	for j := range count {
		if j == no {
			continue
		}
		f, err := Open(filepath.Join(filepath.Dir(given.path), SplitName(prefix, j, count)))
		if err != nil {
			return within(fmt.Sprintf("file %d of %d", j+1, count), err)
		}
		// Kept in order, and from now on closed with the others.
		at := len(m.files)
		if j < no {
			at--
		}
		m.files = slices.Insert(m.files, at, f)
		fno, fcount, err := splitOf(f.header)
		if err != nil {
			return within(f.path, err)
		}
		if fno != j || fcount != count {
			return errf(CodeSplit, "%s says it is file %d of %d, expected %d of %d", f.path, fno+1, fcount, j+1, count)
		}
	}
	return m.merge()
}

// splitOf returns the place of a file in its set, 0 of 0 if it is in none.
func splitOf(h *Header) (no, count int, err error) {
	nv, hasNo := h.Get(SplitNoKey)
	cv, hasCount := h.Get(SplitCountKey)
	if !hasCount {
		return 0, 0, nil
	}
	if cv.typ != ValueU16 || (hasNo && nv.typ != ValueU16) {
		return 0, 0, errf(CodeSplit, "%s and %s must be u16", SplitNoKey, SplitCountKey)
	}
	no, count = int(nv.bits), int(cv.bits)
	switch {
	case count > maxSplits:
		return 0, 0, errf(CodeSplit, "a set of %d files, at most %d are allowed", count, maxSplits)
	case count > 1 && (!hasNo || no >= count):
		return 0, 0, errf(CodeSplit, "file number %d of a set of %d", no, count)
	}
	return no, count, nil
}

// merge lists the tensors of all files and checks their total.
func (m *Model) merge() error {
	total := 0
	for _, f := range m.files {
		total += len(f.header.Tensors)
	}
	if uint64(total) > DefaultLimits().Tensors {
		return errf(CodeLimit, "%d tensors, at most %d are allowed", total, DefaultLimits().Tensors)
	}
	m.tensors = make([]ModelTensor, 0, total)
	m.index = make(map[string]int, total)
	for i, f := range m.files {
		if len(m.files) > 1 {
			if err := checkSplitTotal(f, total, i == 0); err != nil {
				return err
			}
		}
		for _, t := range f.header.Tensors {
			if _, dup := m.index[t.Name]; dup {
				return errf(CodeDuplicate, "tensor %s occurs in two files", short(t.Name))
			}
			m.index[t.Name] = len(m.tensors)
			m.tensors = append(m.tensors, ModelTensor{t, i, f.header.DataOffset + int64(t.Offset)})
		}
	}
	return nil
}

func checkSplitTotal(f *File, total int, need bool) error {
	v, ok := f.header.Get(SplitTensorsKey)
	switch {
	case !ok && need:
		return errf(CodeSplit, "%s lacks %s", f.path, SplitTensorsKey)
	case ok && (v.typ != ValueI32 || int64(v.bits) != int64(total)):
		n, _ := v.Int()
		return errf(CodeSplit, "%s: %s is %s %d, the set has i32 %d", f.path, SplitTensorsKey, v.typ, n, total)
	}
	return nil
}

// Tensors lists all tensors in the order of the files. The slice is shared.
func (m *Model) Tensors() []ModelTensor { return m.tensors }

// Tensor returns the tensor with that name.
func (m *Model) Tensor(name string) (ModelTensor, bool) {
	i, ok := m.index[name]
	if !ok {
		return ModelTensor{}, false
	}
	return m.tensors[i], true
}

// Files lists the files in the order of their numbers. The slice is shared.
func (m *Model) Files() []*File { return m.files }

// Meta is the header of the first file, which holds the model's metadata.
func (m *Model) Meta() *Header { return m.files[0].header }

// Get returns a metadata value of the first file.
func (m *Model) Get(key string) (Value, bool) { return m.Meta().Get(key) }

// Data returns a view of a tensor's bytes as File.TensorData does.
func (m *Model) Data(t ModelTensor) []byte {
	if t.File < 0 || t.File >= len(m.files) {
		return nil
	}
	return m.files[t.File].TensorData(t.TensorInfo)
}

// Close closes all files.
func (m *Model) Close() error {
	errs := make([]error, len(m.files))
	for i, f := range m.files {
		errs[i] = f.Close()
	}
	return errors.Join(errs...)
}
