package gguf

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"testing"
)

// writeSplit writes file i of n with one tensor per name and returns its path.
func writeSplit(t *testing.T, prefix string, i, n int, extra []KV, names ...string) string {
	t.Helper()
	var ts []TensorInfo
	for _, name := range names {
		ts = append(ts, TensorInfo{Name: name, Dims: []uint64{4, 2}, Type: TypeF32})
	}
	path := SplitName(prefix, i, n)
	err := WriteFile(path, extra, ts, func(i int, w io.Writer) error {
		_, err := w.Write(pattern(ts[i]))
		return err
	}, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func splitKVs(no, count uint16, total int32) []KV {
	return []KV{{SplitNoKey, U16(no)}, {SplitCountKey, U16(count)}, {SplitTensorsKey, I32(total)}}
}

func TestOpenModelSplit(t *testing.T) {
	t.Parallel()
	prefix := filepath.Join(t.TempDir(), "m")
	var paths []string
	paths = append(paths, writeSplit(t, prefix, 0, 3, append(splitKVs(0, 3, 3), KV{ArchitectureKey, String("test")})))
	paths = append(paths, writeSplit(t, prefix, 1, 3, splitKVs(1, 3, 3), "x", "y"))
	paths = append(paths, writeSplit(t, prefix, 2, 3, splitKVs(2, 3, 3), "z"))
	for _, p := range paths {
		m, err := OpenModel(p)
		if err != nil {
			t.Fatal(err)
		}
		if v, ok := m.Get(ArchitectureKey); !ok || m.Meta().Architecture() != "test" || v.Type() != ValueString {
			t.Error("metadata of the first file is missing")
		}
		if len(m.Files()) != 3 || len(m.Tensors()) != 3 {
			t.Fatalf("%d files, %d tensors", len(m.Files()), len(m.Tensors()))
		}
		for i, name := range []string{"x", "y", "z"} {
			mt := m.Tensors()[i]
			if byName, ok := m.Tensor(name); !ok || mt.Name != name || byName.FileOffset != mt.FileOffset {
				t.Errorf("tensor %d is %q", i, mt.Name)
			}
			want := pattern(mt.TensorInfo)
			if !bytes.Equal(m.Data(mt), want) {
				t.Errorf("data of %s differs", name)
			}
			disk, err := os.ReadFile(m.Files()[mt.File].Path())
			if err != nil {
				t.Fatal(err)
			}
			if !bytes.Equal(disk[mt.FileOffset:mt.FileOffset+int64(len(want))], want) {
				t.Errorf("FileOffset of %s is wrong", name)
			}
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
	}
}

func TestOpenModelRefuses(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name string
		make func(t *testing.T, prefix string) string
		code string
	}{
		{"name without keys", func(t *testing.T, p string) string {
			return writeSplit(t, p, 0, 2, nil, "a")
		}, CodeSplit},
		{"keys without name", func(t *testing.T, p string) string {
			path := writeSplit(t, p, 0, 2, splitKVs(0, 2, 1), "a")
			if err := os.Rename(path, p+".gguf"); err != nil {
				t.Fatal(err)
			}
			return p + ".gguf"
		}, CodeSplit},
		{"count contradicts name", func(t *testing.T, p string) string {
			return writeSplit(t, p, 0, 2, splitKVs(0, 3, 1), "a")
		}, CodeSplit},
		{"number contradicts name", func(t *testing.T, p string) string {
			return writeSplit(t, p, 1, 2, splitKVs(0, 2, 1), "a")
		}, CodeSplit},
		{"number beyond count", func(t *testing.T, p string) string {
			return writeSplit(t, p, 0, 2, splitKVs(7, 2, 1), "a")
		}, CodeSplit},
		{"count of wrong type", func(t *testing.T, p string) string {
			return writeSplit(t, p, 0, 2, []KV{{SplitNoKey, U16(0)}, {SplitCountKey, U32(2)}}, "a")
		}, CodeSplit},
		{"count 65535", func(t *testing.T, p string) string {
			return writeSplit(t, p, 0, 65535, splitKVs(0, 65535, 1), "a")
		}, CodeSplit},
		{"wrong total", func(t *testing.T, p string) string {
			writeSplit(t, p, 1, 2, splitKVs(1, 2, 3), "b")
			return writeSplit(t, p, 0, 2, splitKVs(0, 2, 3), "a")
		}, CodeSplit},
		{"no total", func(t *testing.T, p string) string {
			writeSplit(t, p, 1, 2, splitKVs(1, 2, 2)[:2], "b")
			return writeSplit(t, p, 0, 2, splitKVs(0, 2, 2)[:2], "a")
		}, CodeSplit},
		{"other file has another number", func(t *testing.T, p string) string {
			writeSplit(t, p, 1, 2, splitKVs(0, 2, 2), "b")
			return writeSplit(t, p, 0, 2, splitKVs(0, 2, 2), "a")
		}, CodeSplit},
		{"tensor twice", func(t *testing.T, p string) string {
			writeSplit(t, p, 1, 2, splitKVs(1, 2, 2), "a")
			return writeSplit(t, p, 0, 2, splitKVs(0, 2, 2), "a")
		}, CodeDuplicate},
		{"file missing", func(t *testing.T, p string) string {
			return writeSplit(t, p, 0, 2, splitKVs(0, 2, 1), "a")
		}, ""},
		{"other file is broken", func(t *testing.T, p string) string {
			if err := os.WriteFile(SplitName(p, 1, 2), []byte("GGUF"), 0o600); err != nil {
				t.Fatal(err)
			}
			return writeSplit(t, p, 0, 2, splitKVs(0, 2, 1), "a")
		}, CodeTruncated},
	} {
		t.Run(tc.name, func(t *testing.T) {
			t.Parallel()
			m, err := OpenModel(tc.make(t, filepath.Join(t.TempDir(), "m")))
			if err == nil {
				m.Close()
			}
			if err == nil || CodeOf(err) != tc.code {
				t.Errorf("%v, want code %q", err, tc.code)
			}
		})
	}
	if _, err := Open(t.TempDir()); CodeOf(err) != CodeMagic {
		t.Errorf("a directory: %v", err)
	}
}

func TestSplitNames(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"m.gguf", "m-00000-of-00002.gguf", "m-00003-of-00002.gguf", "m-1-of-2.gguf", "-00001-of-00002.gguf", "m-00001-of-00002.bin"} {
		if _, _, _, ok := ParseSplitName(name); ok {
			t.Errorf("%q is taken for a split name", name)
		}
	}
	prefix, i, n, ok := ParseSplitName(SplitName("a-00001-of-00001", 4, 12))
	if got := fmt.Sprintln(prefix, i, n, ok); got != "a-00001-of-00001 4 12 true\n" {
		t.Error(got)
	}
}
