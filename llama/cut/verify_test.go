package cut_test

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"neuron/llama/cut"
	"neuron/llama/gguf"
)

// fresh is a folder with layers 2 to 7 that has been verified and prepared.
func fresh(t *testing.T) *cut.Store {
	t.Helper()
	s := imported(t, open(t, write(t, shape())), filepath.Join(t.TempDir(), "shard"), 2, 7)
	prepared(t, s, 2, 7).Release()
	return s
}

// hashed verifies layers 2 to 7 and returns the bytes that were hashed.
func hashed(t *testing.T, s *cut.Store, o cut.VerifyOptions) (n int64, bad []string) {
	t.Helper()
	o.Progress = func(done, total int64) {
		if done > total || done < n {
			t.Errorf("progress %d after %d of %d", done, n, total)
		}
		n = done
	}
	bad, err := s.Verify(t.Context(), 2, 7, o)
	if err != nil {
		t.Fatal(err)
	}
	return n, bad
}

func fileBytes(s *cut.Store, file string) (n int64) {
	for _, x := range s.Index().Files[file] {
		n += int64(x.Bytes)
	}
	return n
}

// TestVerifiedIsRememberedWhileNothingChanges: each file is hashed once, also
// over changes of the headers that Prepare makes; never when it may have
// changed.
func TestVerifiedIsRememberedWhileNothingChanges(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	if n, bad := hashed(t, s, cut.VerifyOptions{}); n != 0 || len(bad) > 0 {
		t.Errorf("hashed %d bytes again, damaged %v", n, bad)
	}
	prepared(t, s, 4, 7).Release() // other headers
	prepared(t, s, 3, 6).Release()
	if n, bad := hashed(t, s, cut.VerifyOptions{}); n != 0 || len(bad) > 0 {
		t.Errorf("after other cuts hashed %d bytes, damaged %v", n, bad)
	}
	other, err := cut.Open(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if n, _ := hashed(t, other, cut.VerifyOptions{}); n != 0 {
		t.Errorf("another process hashed %d bytes", n)
	}
	var all int64
	for file := range s.Index().Files {
		all += fileBytes(s, file)
	}
	for _, workers := range []int{1, 3} {
		if n, bad := hashed(t, s, cut.VerifyOptions{Again: true, Workers: workers, Low: workers == 3}); n != all || len(bad) > 0 {
			t.Errorf("asked to, hashed %d bytes of %d, damaged %v", n, all, bad)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Verify(ctx, 2, 7, cut.VerifyOptions{Again: true}); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled check: %v", err)
	}
	if _, err := s.Verify(t.Context(), 1, 7, cut.VerifyOptions{}); !errors.Is(err, cut.ErrShard) {
		t.Errorf("a layer that is not there: %v", err)
	}
}

// TestRecordsAreNotTrustedAfterAChange: size, times, inode, index or the
// record itself.
func TestRecordsAreNotTrustedAfterAChange(t *testing.T) {
	t.Parallel()
	const file = "blk.0004.gguf"
	edit := func(t *testing.T, path string, change func(map[string]any)) {
		t.Helper()
		raw, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		var x map[string]any
		if err := json.Unmarshal(raw, &x); err != nil {
			t.Fatal(err)
		}
		change(x)
		if raw, err = json.Marshal(x); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	poke := func(t *testing.T, path string) { // one bit, in place
		t.Helper()
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, cut.HeaderRegion+77); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1
		if _, err := f.WriteAt(b, cut.HeaderRegion+77); err != nil {
			t.Fatal(err)
		}
	}
	for name, c := range map[string]struct {
		harm  func(t *testing.T, dir string)
		bad   bool // damaged; else sound, but hashed again
		every bool // all files are hashed again
	}{
		"written": {func(t *testing.T, dir string) { poke(t, filepath.Join(dir, file)) }, true, false},
		"written, with the old time": {func(t *testing.T, dir string) {
			path := filepath.Join(dir, file)
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			poke(t, path)
			if err := os.Chtimes(path, time.Time{}, st.ModTime()); err != nil {
				t.Fatal(err)
			}
		}, true, false},
		"another time": {func(t *testing.T, dir string) {
			if err := os.Chtimes(filepath.Join(dir, file), time.Time{}, time.Now()); err != nil {
				t.Fatal(err)
			}
		}, false, false},
		"another file": {func(t *testing.T, dir string) {
			path := filepath.Join(dir, file)
			st, err := os.Stat(path)
			if err != nil {
				t.Fatal(err)
			}
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			err = errors.Join(os.WriteFile(path+".new", raw, 0o600), os.Chtimes(path+".new", time.Time{}, st.ModTime()), os.Rename(path+".new", path))
			if err != nil {
				t.Fatal(err)
			}
		}, false, false},
		"longer": {func(t *testing.T, dir string) {
			st, err := os.Stat(filepath.Join(dir, file))
			if err == nil {
				err = os.Truncate(filepath.Join(dir, file), st.Size()+1)
			}
			if err != nil {
				t.Fatal(err)
			}
		}, true, false},
		"another hash in the index": {func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "shard.json"), func(x map[string]any) {
				list := x["files"].(map[string]any)[file].([]any)
				list[0].(map[string]any)["sha256"] = strings.Repeat("ab", 32)
			})
		}, true, false},
		"torn record": {func(t *testing.T, dir string) {
			if err := os.Truncate(filepath.Join(dir, "verified.json"), 50); err != nil {
				t.Fatal(err)
			}
		}, false, true},
		"record of another build": {func(t *testing.T, dir string) {
			edit(t, filepath.Join(dir, "verified.json"), func(x map[string]any) { x["version"] = 2 })
		}, false, true},
		"no record": {func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, "verified.json")); err != nil {
				t.Fatal(err)
			}
		}, false, true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := fresh(t)
			c.harm(t, s.Dir())
			n, bad := hashed(t, s, cut.VerifyOptions{})
			want := fileBytes(s, file)
			if c.every {
				want = 0
				for f := range s.Index().Files {
					want += fileBytes(s, f)
				}
			}
			if c.bad && !slices.Equal(bad, []string{file}) || !c.bad && (len(bad) > 0 || n != want) {
				t.Errorf("hashed %d bytes, want %d; damaged %v", n, want, bad)
			}
			p, err := s.Prepare(2, 7)
			if err == nil {
				p.Release()
			}
			if c.bad != errors.Is(err, cut.ErrUnverified) {
				t.Errorf("prepare: %v", err)
			}
			if !c.bad {
				if n, _ := hashed(t, s, cut.VerifyOptions{}); n != 0 {
					t.Errorf("hashed %d bytes a third time", n)
				}
			}
		})
	}
}

// TestFoldersOfEarlierBuilds have neither a hash of the metadata nor a list of
// shared tensors; the next import adds both.
func TestFoldersOfEarlierBuilds(t *testing.T) {
	t.Parallel()
	src := open(t, write(t, shape()))
	dir := t.TempDir()
	s := imported(t, src, dir, 2, 7)
	x := *s.Index()
	now := x
	x.Meta, x.Shared = "", nil
	raw, err := json.Marshal(x)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "shard.json"), raw, 0o600); err != nil {
		t.Fatal(err)
	}
	old, err := cut.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	prepared(t, old, 2, 7).Release()
	if again := imported(t, src, dir, 2, 7); !reflect.DeepEqual(*again.Index(), now) {
		t.Errorf("index %+v, want %+v", again.Index(), now)
	}
}

// TestMissingSharedTensorIsRefused: rope_freqs is optional in the family; a
// stage without the model's own would compute something else.
func TestMissingSharedTensorIsRefused(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	if err := cut.Drop(s.Dir(), "rope_freqs.weight.gguf", "none"); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Prepare(2, 7); !errors.Is(err, cut.ErrShard) || !strings.Contains(err.Error(), "rope_freqs") {
		t.Errorf("error %v", err)
	}
}

// TestFilledWithoutASource begins a folder from metadata and adds files whose
// bytes come from elsewhere.
func TestFilledWithoutASource(t *testing.T) {
	t.Parallel()
	src := open(t, write(t, shape()))
	ref := imported(t, src, t.TempDir(), 0, 10)
	var list []cut.Tensor
	var all []cut.Shape
	hashes := map[string]string{}
	for _, tensors := range ref.Index().Files {
		for _, x := range tensors {
			hashes[x.Name] = x.SHA256
		}
	}
	for _, x := range src.Tensors() {
		all = append(all, cut.Shape{Name: x.Name, Dims: x.Dims, Type: uint32(x.Type)})
		list = append(list, cut.Tensor{
			Name: x.Name, Dims: x.Dims, Type: uint32(x.Type), SHA256: hashes[x.Name], SourceFile: x.File, SourceOffset: x.FileOffset,
		})
	}
	files, err := cut.Layout(list, src.Meta().Alignment)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(files, ref.Index().Files) {
		t.Error("another layout than an import's")
	}
	dir := t.TempDir()
	if _, err := cut.ReadIndex(dir); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("index before Begin: %v", err)
	}
	spec := cut.Spec{Model: modelID, Meta: src.Meta(), Layers: 10, Tensors: all}
	for range 2 {
		if err := cut.Begin(dir, spec); err != nil {
			t.Fatal(err)
		}
	}
	for _, name := range slices.Sorted(maps.Keys(files)) {
		if err := cut.Add(dir, name, files[name]); !errors.Is(err, cut.ErrShard) {
			t.Errorf("%s is listed without a file: %v", name, err)
		}
		raw, err := os.ReadFile(filepath.Join(ref.Dir(), name))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw[:len(raw)-1], 0o600); err != nil {
			t.Fatal(err)
		}
		if err := cut.Add(dir, name, files[name]); !errors.Is(err, cut.ErrShard) {
			t.Errorf("%s is listed with another size: %v", name, err)
		}
		if err := os.WriteFile(filepath.Join(dir, name), raw, 0o600); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := cut.Add(dir, name, files[name]); err != nil {
				t.Fatal(err)
			}
		}
	}
	s, err := cut.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if !reflect.DeepEqual(s.Index(), ref.Index()) {
		t.Errorf("index %+v, want %+v", s.Index(), ref.Index())
	}
	prepared(t, s, 0, 10).Release()
	// Refused.
	bad := slices.Clone(files["blk.0001.gguf"])
	bad[1].Offset += 32
	if err := cut.Add(dir, "blk.0001.gguf", bad); !errors.Is(err, cut.ErrShard) {
		t.Errorf("another layout: %v", err)
	}
	if err := cut.Add(dir, "blk.0002.gguf", nil); !errors.Is(err, cut.ErrShard) {
		t.Errorf("no tensors: %v", err)
	}
	if err := cut.Add(dir, "x.gguf", files["blk.0001.gguf"]); !errors.Is(err, cut.ErrShard) {
		t.Errorf("another file's tensors: %v", err)
	}
	spec.Model = "other"
	if err := cut.Begin(dir, spec); !errors.Is(err, cut.ErrShard) {
		t.Errorf("another model: %v", err)
	}
	spec.Model, spec.Layers = modelID, 11
	if err := cut.Begin(dir, spec); !errors.Is(err, cut.ErrShard) {
		t.Errorf("other layers: %v", err)
	}
}

func TestLayoutRefusesNames(t *testing.T) {
	t.Parallel()
	f32 := func(names ...string) (out []cut.Tensor) {
		for _, n := range names {
			out = append(out, cut.Tensor{Name: n, Dims: []uint64{8}, Type: uint32(gguf.TypeF32)})
		}
		return out
	}
	for _, names := range [][]string{
		{""}, {"../x"}, {"a/b"}, {`a\b`}, {"a:b"}, {".x"}, {"meta"}, {"Meta"}, {"stem-0-4"}, {"standin-0-4"}, {"blk.0001"}, {"BLK.0001"},
		{"a\x00b"}, {"ä"}, {strings.Repeat("x", 64)}, {"x", "x"}, {"x.weight", "X.weight"},
	} {
		if got, err := cut.Layout(f32(names...), 32); !errors.Is(err, cut.ErrShard) {
			t.Errorf("%q: %v, %v", names, got, err)
		}
	}
	if _, err := cut.Layout([]cut.Tensor{{Name: "x", Dims: []uint64{1 << 62, 1 << 62}}}, 32); !errors.Is(err, cut.ErrShard) {
		t.Errorf("overflowing size: %v", err)
	}
	if _, err := cut.Layout(f32("x"), 3); !errors.Is(err, cut.ErrShard) {
		t.Errorf("alignment 3: %v", err)
	}
	for file, want := range map[string]int{"blk.0007.gguf": 7, "blk.0511.gguf": 511, "blk.7.gguf": -1, "blk.0007.x.gguf": -1, "output.weight.gguf": -1, "blk.00007.gguf": -1} {
		if i, ok := cut.LayerOf(file); ok != (want >= 0) || ok && i != want {
			t.Errorf("%s is layer %d, %v", file, i, ok)
		}
	}
}

// TestVerifyWhole: files of other people are only read, and remembered when
// they have not been written just now.
func TestVerifyWhole(t *testing.T) {
	t.Parallel()
	path := write(t, shape())
	src := open(t, path)
	sum := sumOf(t, path)
	record := filepath.Join(t.TempDir(), "adopted.json")
	check := func(size int64, sum string) (n int64, bad []int) {
		t.Helper()
		bad, err := cut.VerifyWhole(t.Context(), record, []cut.Whole{{Path: path, Size: size, SHA256: sum}},
			cut.VerifyOptions{Progress: func(done, _ int64) { n = done }})
		if err != nil {
			t.Fatal(err)
		}
		return n, bad
	}
	size := src.Files()[0].Size()
	if n, bad := check(size, sum); n != size || len(bad) > 0 {
		t.Errorf("hashed %d of %d, damaged %v", n, size, bad)
	}
	// It was written just now: a write in the same tick would not show.
	if n, _ := check(size, sum); n != size {
		t.Errorf("a file that was just written is remembered")
	}
	if n, bad := check(size+1, sum); n != 0 || len(bad) != 1 {
		t.Errorf("another size: hashed %d, damaged %v", n, bad)
	}
	if _, bad := check(size, strings.Repeat("00", 32)); len(bad) != 1 {
		t.Error("another hash is sound")
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, bad := check(size, sum); len(bad) != 1 {
		t.Error("a missing file is sound")
	}
}

func sumOf(t *testing.T, path string) string {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	sum := sha256.Sum256(raw)
	return hex.EncodeToString(sum[:])
}

// TestPruneTakesOnlyOtherStages: stems and stand-ins of ranges that nobody
// wants go, layers stay.
func TestPruneTakesOnlyOtherStages(t *testing.T) {
	t.Parallel()
	s := fresh(t)
	prepared(t, s, 3, 6).Release()
	if err := cut.Prune(s.Dir(), func(first, last int) bool { return first == 3 && last == 6 }); err != nil {
		t.Fatal(err)
	}
	var left []string
	for _, glob := range []string{"st*.gguf", "blk*.gguf"} {
		list, err := filepath.Glob(filepath.Join(s.Dir(), glob))
		if err != nil {
			t.Fatal(err)
		}
		for _, path := range list {
			left = append(left, filepath.Base(path))
		}
	}
	if want := append([]string{"standin-3-6.gguf", "stem-3-6.gguf"}, layerNames(2, 7)...); !slices.Equal(left, want) {
		t.Errorf("left %v, want %v", left, want)
	}
	prepared(t, s, 2, 7).Release()
}
