package cut_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/llama/cut"
	"neuron/llama/family"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

const modelID = "5ea5"

// shape is 10 layers of a llama with every tensor that a stage may need.
func shape() synth.Shape {
	return synth.Shape{
		Family: synth.FamilyLlama, Layers: 10, Embd: 64, FF: 64, Heads: 2, KVHeads: 1, HeadDim: 32, Vocab: 300, Context: 512, RopeFreqs: true,
	}
}

func write(t testing.TB, s synth.Shape) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	if err := synth.Write(path, s, synth.Options{Type: gguf.TypeQ4_0, Seed: 1}); err != nil {
		t.Fatal(err)
	}
	return path
}

func open(t testing.TB, path string) *gguf.Model {
	t.Helper()
	m, err := gguf.OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { m.Close() })
	return m
}

func imported(t testing.TB, src *gguf.Model, dir string, first, last int) *cut.Store {
	t.Helper()
	s, err := cut.Import(context.Background(), src, modelID, dir, first, last, nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func prepared(t testing.TB, s *cut.Store, first, last int) *cut.Prepared {
	t.Helper()
	p, err := s.Prepare(first, last)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { p.Release() })
	return p
}

// data is the content of all layer and tensor files behind the header region.
func data(t testing.TB, s *cut.Store) map[string][sha256.Size]byte {
	t.Helper()
	out := map[string][sha256.Size]byte{}
	for name := range s.Index().Files {
		raw, err := os.ReadFile(filepath.Join(s.Dir(), name))
		if err != nil {
			t.Fatal(err)
		}
		out[name] = sha256.Sum256(raw[cut.HeaderRegion:])
	}
	return out
}

func names(m map[string][]cut.Tensor) []string { return slices.Sorted(maps.Keys(m)) }

func layerNames(first, last int) []string {
	var out []string
	for i := first; i < last; i++ {
		out = append(out, fmt.Sprintf("blk.%04d.gguf", i))
	}
	return out
}

// TestBytesAreThePublishers: every tensor lies in its file with the very bytes
// of the publisher's extent, and the index says where and what.
func TestBytesAreThePublishers(t *testing.T) {
	t.Parallel()
	src := open(t, write(t, shape()))
	publisher, err := os.ReadFile(src.Files()[0].Path())
	if err != nil {
		t.Fatal(err)
	}
	s := imported(t, src, t.TempDir(), 0, 10)
	seen := 0
	for name, tensors := range s.Index().Files {
		file, err := os.ReadFile(filepath.Join(s.Dir(), name))
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range tensors {
			seen++
			want := publisher[e.SourceOffset : e.SourceOffset+int64(e.Bytes)]
			at := cut.HeaderRegion + e.Offset
			if !bytes.Equal(file[at:at+e.Bytes], want) {
				t.Errorf("%s in %s has other bytes", e.Name, name)
			}
			if sum := sha256.Sum256(want); hex.EncodeToString(sum[:]) != e.SHA256 {
				t.Errorf("%s has another hash", e.Name)
			}
			m, ok := src.Tensor(e.Name)
			if !ok || m.FileOffset != e.SourceOffset || m.File != e.SourceFile || uint32(m.Type) != e.Type || !slices.Equal(m.Dims, e.Dims) {
				t.Errorf("%s: publisher %+v, index %+v", e.Name, m, e)
			}
		}
	}
	if want := len(src.Tensors()); seen != want {
		t.Errorf("%d tensors of %d", seen, want)
	}
	again, err := cut.Open(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(s.Index(), again.Index()); d != "" {
		t.Error(d)
	}
	if again.Model().Layers != 10 || again.Meta().Architecture() != "llama" || len(again.Meta().Tensors) != 0 {
		t.Errorf("metadata %+v", again.Model())
	}
}

// TestStageIsASplitSet reads what a stage of each role shows the library.
func TestStageIsASplitSet(t *testing.T) {
	t.Parallel()
	for _, tied := range []bool{false, true} {
		sh := shape()
		sh.Tied = tied
		s := imported(t, open(t, write(t, sh)), t.TempDir(), 0, 10)
		for _, r := range []struct {
			first, last int
			head, tail  bool
		}{{0, 4, true, false}, {4, 7, false, false}, {6, 10, false, true}, {0, 10, true, true}} {
			name := fmt.Sprintf("%d-%d tied %v", r.first, r.last, tied)
			p := prepared(t, s, r.first, r.last)
			if p.Head != r.head || p.Tail != r.tail || p.First != r.first || p.Last != r.last {
				t.Errorf("%s: %+v", name, p)
			}
			tensors := map[string]gguf.TensorInfo{}
			total := 0
			for i, path := range p.Paths {
				f, err := gguf.Open(path)
				if err != nil {
					t.Fatalf("%s: %v", name, err)
				}
				h := f.Header()
				number := func(key string) int64 {
					v, _ := h.Get(key)
					n, _ := v.Int()
					return n
				}
				if number("split.no") != int64(i) || number("split.count") != int64(len(p.Paths)) {
					t.Errorf("%s: file %d is %d of %d", name, i, number("split.no"), number("split.count"))
				}
				if i == 0 {
					total = int(number("split.tensors.count"))
					if n := number("llama.block_count"); n != int64(r.last-r.first) || len(h.Tensors) != 0 {
						t.Errorf("%s: stem with %d layers and %d tensors", name, n, len(h.Tensors))
					}
					v, _ := h.Get("tokenizer.ggml.model")
					if kind, _ := v.Str(); (kind == "no_vocab") != (!r.head && !r.tail) {
						t.Errorf("%s: tokenizer %q", name, kind)
					}
				}
				for _, e := range h.Tensors {
					tensors[e.Name] = e
				}
				f.Close()
			}
			if total != len(tensors) {
				t.Errorf("%s: %d tensors, %d promised", name, len(tensors), total)
			}
			for i := range 11 {
				if _, ok := tensors[fmt.Sprintf("blk.%d.attn_q.weight", i)]; ok != (i < r.last-r.first) {
					t.Errorf("%s: layer %d present: %v", name, i, ok)
				}
			}
			want := []string{"token_embd.weight", "output_norm.weight", "rope_freqs.weight"}
			if !tied || r.head && !r.tail {
				want = append(want, "output.weight")
			}
			var got []string
			for n := range tensors {
				if !strings.HasPrefix(n, "blk.") {
					got = append(got, n)
				}
			}
			slices.Sort(want)
			slices.Sort(got)
			if d := cmp.Diff(want, got); d != "" {
				t.Errorf("%s: %s", name, d)
			}
			p.Release()
		}
	}
}

// TestOtherCutsMoveNoData rewrites headers for one cut after another.
func TestOtherCutsMoveNoData(t *testing.T) {
	t.Parallel()
	s := imported(t, open(t, write(t, shape())), t.TempDir(), 0, 10)
	before := data(t, s)
	for _, r := range [][2]int{{0, 10}, {0, 3}, {3, 8}, {5, 10}, {9, 10}, {3, 8}} {
		p := prepared(t, s, r[0], r[1])
		p.Release()
		if d := cmp.Diff(before, data(t, s)); d != "" {
			t.Fatalf("layers %v: %s", r, d)
		}
	}
}

// TestMovingImportsOnlyWhatIsMissing counts the bytes that are copied when a
// node's range changes.
func TestMovingImportsOnlyWhatIsMissing(t *testing.T) {
	t.Parallel()
	src := open(t, write(t, shape()))
	dir := t.TempDir()
	s := imported(t, src, dir, 4, 8)
	if d := cmp.Diff(append(layerNames(4, 8), "rope_freqs.weight.gguf"), names(s.Index().Files)); d != "" {
		t.Error(d)
	}
	before := data(t, s)
	move := func(first, last int) int64 {
		var total, done int64
		s, err := cut.Import(context.Background(), src, modelID, dir, first, last, func(d, all int64) {
			if d < done || d > all {
				t.Errorf("progress %d after %d of %d", d, done, all)
			}
			done, total = d, all
		})
		if err != nil {
			t.Fatal(err)
		}
		if done != total {
			t.Errorf("progress ended at %d of %d", done, total)
		}
		now := data(t, s)
		for name, sum := range before {
			if now[name] != sum {
				t.Errorf("%s has changed", name)
			}
		}
		return total
	}
	var layer int64
	for _, x := range s.Index().Files["blk.0004.gguf"] {
		layer += int64(x.Bytes)
	}
	if n := move(5, 8); n != 0 {
		t.Errorf("to 5-8 copied %d bytes", n)
	}
	if n := move(3, 7); n != layer {
		t.Errorf("to 3-7 copied %d bytes, one layer has %d", n, layer)
	}
	if n := move(3, 8); n != 0 {
		t.Errorf("to 3-8 copied %d bytes", n)
	}
	s, err := cut.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(append(layerNames(3, 8), "rope_freqs.weight.gguf"), names(s.Index().Files)); d != "" {
		t.Error(d)
	}
	prepared(t, s, 3, 8).Release()
	if _, err := s.Prepare(2, 8); !errors.Is(err, cut.ErrShard) {
		t.Errorf("a layer that is not there: %v", err)
	}
	if _, err := s.Prepare(5, 10); !errors.Is(err, cut.ErrShard) {
		t.Errorf("a tail without its head: %v", err)
	}
}

// TestInterruptedImportGoesOn cancels in the middle; the next import copies
// only the rest, and nothing half is left.
func TestInterruptedImportGoesOn(t *testing.T) {
	t.Parallel()
	src := open(t, write(t, shape()))
	dir := t.TempDir()
	ctx, cancel := context.WithCancel(context.Background())
	var total, copied int64
	_, err := cut.Import(ctx, src, modelID, dir, 0, 10, func(done, all int64) {
		total, copied = all, done
		if done > all/2 {
			cancel()
		}
	})
	if !errors.Is(err, context.Canceled) {
		t.Fatalf("error %v", err)
	}
	half, err := cut.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	var kept int64
	for _, tensors := range half.Index().Files {
		for _, x := range tensors {
			kept += int64(x.Bytes)
		}
	}
	if kept == 0 || kept > copied {
		t.Fatalf("kept %d bytes of %d copied", kept, copied)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, ".tmp-*")); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	var rest int64
	s, err := cut.Import(context.Background(), src, modelID, dir, 0, 10, func(_, all int64) { rest = all })
	if err != nil {
		t.Fatal(err)
	}
	if rest != total-kept {
		t.Errorf("copied %d bytes, %d were missing", rest, total-kept)
	}
	prepared(t, s, 0, 10).Release()
	ctx, cancel = context.WithCancel(context.Background())
	cancel()
	if _, err := cut.Import(ctx, src, modelID, t.TempDir(), 0, 10, nil); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled context: %v", err)
	}
}

func TestImportRefuses(t *testing.T) {
	t.Parallel()
	path := write(t, shape())
	src := open(t, path)
	dir := t.TempDir()
	imported(t, src, dir, 0, 2)
	if _, err := cut.Import(context.Background(), src, "another", dir, 0, 2, nil); !errors.Is(err, cut.ErrShard) || !strings.Contains(err.Error(), "another model") {
		t.Errorf("another model's folder: %v", err)
	}
	for _, r := range [][2]int{{0, 0}, {4, 2}, {-1, 2}, {0, 11}} {
		if _, err := cut.Import(context.Background(), src, modelID, t.TempDir(), r[0], r[1], nil); !errors.Is(err, family.ErrModel) {
			t.Errorf("layers %v: %v", r, err)
		}
	}
	// A non-block tensor that the family's entry does not name.
	odd := rewrite(t, src, func(kvs []gguf.KV, infos []gguf.TensorInfo) ([]gguf.KV, []gguf.TensorInfo) {
		for i := range infos {
			if infos[i].Name == "rope_freqs.weight" {
				infos[i].Name = "mystery.weight"
			}
		}
		return kvs, infos
	})
	if _, err := cut.Import(context.Background(), open(t, odd), modelID, t.TempDir(), 0, 2, nil); !errors.Is(err, cut.ErrShard) || !strings.Contains(err.Error(), "mystery") {
		t.Errorf("an unknown tensor: %v", err)
	}
	// A family without an entry: never cut, not even as a whole.
	foreign := rewrite(t, src, func(kvs []gguf.KV, infos []gguf.TensorInfo) ([]gguf.KV, []gguf.TensorInfo) {
		for i, kv := range kvs {
			kvs[i].Key = strings.Replace(kv.Key, "llama.", "gptj.", 1)
			if kv.Key == gguf.ArchitectureKey {
				kvs[i].Value = gguf.String("gptj")
			}
		}
		return kvs, infos
	})
	for _, last := range []int{2, 10} {
		if _, err := cut.Import(context.Background(), open(t, foreign), modelID, t.TempDir(), 0, last, nil); err == nil || !strings.Contains(err.Error(), "certified") {
			t.Errorf("an uncertified family to %d: %v", last, err)
		}
	}
	// A file where the folder should be.
	if _, err := cut.Import(context.Background(), src, modelID, path, 0, 2, nil); err == nil {
		t.Error("a folder that is a file")
	}
}

// rewrite copies a model with other metadata or names.
func rewrite(t testing.TB, src *gguf.Model, change func([]gguf.KV, []gguf.TensorInfo) ([]gguf.KV, []gguf.TensorInfo)) string {
	t.Helper()
	var infos []gguf.TensorInfo
	for _, x := range src.Tensors() {
		infos = append(infos, x.TensorInfo)
	}
	kvs, infos := change(slices.Clone(src.Meta().KVs), infos)
	path := filepath.Join(t.TempDir(), "changed.gguf")
	put(t, path, kvs, infos, src, src.Tensors())
	return path
}

func put(t testing.TB, path string, kvs []gguf.KV, infos []gguf.TensorInfo, src *gguf.Model, from []gguf.ModelTensor) {
	t.Helper()
	err := gguf.WriteFile(path, kvs, infos, func(i int, w io.Writer) error {
		_, err := w.Write(src.Data(from[i]))
		return err
	}, gguf.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
}

// TestSplitSourceGivesTheSameShard publishes the model in two files.
func TestSplitSourceGivesTheSameShard(t *testing.T) {
	t.Parallel()
	src := open(t, write(t, shape()))
	all := src.Tensors()
	dir := t.TempDir()
	half := len(all)/2 + 3 // in the middle of a layer
	for i, list := range [][]gguf.ModelTensor{all[:half], all[half:]} {
		kvs := []gguf.KV{
			{Key: "split.no", Value: gguf.U16(uint16(i))}, {Key: "split.count", Value: gguf.U16(2)},
			{Key: "split.tensors.count", Value: gguf.I32(int32(len(all)))},
		}
		if i == 0 {
			kvs = append(slices.Clone(src.Meta().KVs), kvs...)
		}
		infos := make([]gguf.TensorInfo, len(list))
		for j, x := range list {
			infos[j] = x.TensorInfo
			infos[j].Offset = 0
		}
		put(t, filepath.Join(dir, gguf.SplitName("model", i, 2)), kvs, infos, src, list)
	}
	parts := open(t, filepath.Join(dir, gguf.SplitName("model", 0, 2)))
	for _, r := range [][2]int{{0, 10}, {3, 7}} {
		one := imported(t, src, t.TempDir(), r[0], r[1])
		two := imported(t, parts, t.TempDir(), r[0], r[1])
		if d := cmp.Diff(data(t, one), data(t, two)); d != "" {
			t.Error(d)
		}
		// Only the places in the source differ.
		fromTwo := false
		for _, list := range two.Index().Files {
			for i := range list {
				fromTwo = fromTwo || list[i].SourceFile == 1
				list[i].SourceFile, list[i].SourceOffset = 0, 0
			}
		}
		for _, list := range one.Index().Files {
			for i := range list {
				list[i].SourceFile, list[i].SourceOffset = 0, 0
			}
		}
		if d := cmp.Diff(one.Index(), two.Index()); d != "" || !fromTwo {
			t.Errorf("second file used: %v; %s", fromTwo, d)
		}
		a, b := prepared(t, one, r[0], r[1]), prepared(t, two, r[0], r[1])
		for i := range a.Paths {
			x, err1 := os.ReadFile(a.Paths[i])
			y, err2 := os.ReadFile(b.Paths[i])
			if err := errors.Join(err1, err2); err != nil || !bytes.Equal(x, y) {
				t.Errorf("%s differs (%v)", filepath.Base(a.Paths[i]), err)
			}
		}
	}
}

func TestDamagedFoldersAreRefused(t *testing.T) {
	t.Parallel()
	src := open(t, write(t, shape()))
	edit := func(change func(x *cut.Index)) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			path := filepath.Join(dir, "shard.json")
			raw, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			var x cut.Index
			if err := json.Unmarshal(raw, &x); err != nil {
				t.Fatal(err)
			}
			change(&x)
			if raw, err = json.Marshal(x); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, raw, 0o644); err != nil {
				t.Fatal(err)
			}
		}
	}
	remove := func(name string) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			if err := os.Remove(filepath.Join(dir, name)); err != nil {
				t.Fatal(err)
			}
		}
	}
	truncate := func(name string, less int64) func(*testing.T, string) {
		return func(t *testing.T, dir string) {
			st, err := os.Stat(filepath.Join(dir, name))
			if err == nil {
				err = os.Truncate(filepath.Join(dir, name), st.Size()-less)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
	}
	const layer = "blk.0005.gguf"
	tests := map[string]func(*testing.T, string){
		"no index":                   remove("shard.json"),
		"no metadata":                remove("meta.gguf"),
		"no layer file":              remove(layer),
		"no tensor file":             remove("rope_freqs.weight.gguf"),
		"one byte short":             truncate(layer, 1),
		"one byte long":              truncate(layer, -1),
		"only a header":              truncate(layer, 4096),
		"short tensor file":          truncate("rope_freqs.weight.gguf", 8),
		"short metadata":             truncate("meta.gguf", 200),
		"short index":                truncate("shard.json", 10),
		"newer index":                edit(func(x *cut.Index) { x.Version = 2 }),
		"no layers":                  edit(func(x *cut.Index) { x.Layers = 0 }),
		"other layers":               edit(func(x *cut.Index) { x.Layers = 11 }),
		"no files":                   edit(func(x *cut.Index) { x.Files = nil }),
		"alignment 0":                edit(func(x *cut.Index) { x.Alignment = 0 }),
		"alignment 3":                edit(func(x *cut.Index) { x.Alignment = 3 }),
		"huge alignment":             edit(func(x *cut.Index) { x.Alignment = 1 << 40 }),
		"file without tensors":       edit(func(x *cut.Index) { x.Files[layer] = nil }),
		"layer not in the index":     edit(func(x *cut.Index) { delete(x.Files, layer) }),
		"tensor of another file":     edit(func(x *cut.Index) { x.Files[layer][0].Name = "blk.4.attn_norm.weight" }),
		"path out of the folder":     edit(func(x *cut.Index) { x.Files["../x.gguf"] = []cut.Tensor{{Name: "../x", Dims: []uint64{1}, Bytes: 4}} }),
		"bytes beyond the file":      edit(func(x *cut.Index) { x.Files[layer][1].Bytes = 1 << 40 }),
		"dimensions beyond the file": edit(func(x *cut.Index) { x.Files[layer][1].Dims[1] = 1 << 40 }),
		"overflowing dimensions":     edit(func(x *cut.Index) { x.Files[layer][1].Dims = []uint64{1 << 62, 1 << 62} }),
		"unknown type":               edit(func(x *cut.Index) { x.Files[layer][1].Type = 4 }),
		"other offset":               edit(func(x *cut.Index) { x.Files[layer][1].Offset += 32 }),
	}
	for name, damage := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			dir := filepath.Join(t.TempDir(), "shard")
			imported(t, src, dir, 4, 8)
			damage(t, dir)
			s, err := cut.Open(dir)
			if err == nil {
				var p *cut.Prepared
				if p, err = s.Prepare(4, 8); err == nil {
					p.Release()
				}
			}
			if !errors.Is(err, cut.ErrShard) {
				t.Errorf("error %v, want ErrShard", err)
			}
			if name == "no index" && !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("error %v, want fs.ErrNotExist", err)
			}
			if name == "no layer file" && !strings.Contains(fmt.Sprint(err), layer) {
				t.Errorf("%v does not name the file", err)
			}
		})
	}
}

// TestPrepareWaitsForRelease: headers belong to one load at a time, also for
// another Store of the same folder.
func TestPrepareWaitsForRelease(t *testing.T) {
	t.Parallel()
	s := imported(t, open(t, write(t, shape())), t.TempDir(), 0, 10)
	other, err := cut.Open(s.Dir())
	if err != nil {
		t.Fatal(err)
	}
	first, err := s.Prepare(0, 6)
	if err != nil {
		t.Fatal(err)
	}
	var released, early atomic.Bool // the file lock orders processes, not memory
	done := make(chan error, 1)
	started := make(chan struct{})
	go func() {
		close(started)
		p, err := other.Prepare(4, 10)
		early.Store(!released.Load())
		if err == nil {
			p.Release()
		}
		done <- err
	}()
	<-started
	// The first stage's headers stand for as long as it holds the folder.
	for range 20 {
		f, err := gguf.Open(filepath.Join(s.Dir(), "blk.0005.gguf"))
		if err != nil {
			t.Fatal(err)
		}
		if _, ok := f.Header().Tensor("blk.5.attn_q.weight"); !ok {
			t.Fatal("the header was rewritten under a load")
		}
		f.Close()
		select {
		case err := <-done:
			t.Fatalf("the second load did not wait (%v)", err)
		default:
		}
	}
	released.Store(true)
	first.Release()
	first.Release()
	if err := <-done; err != nil || early.Load() {
		t.Errorf("second load: %v, early %v", err, early.Load())
	}
	if _, err := s.Prepare(0, 11); !errors.Is(err, family.ErrModel) {
		t.Errorf("an illegal range: %v", err)
	}
}

// TestSlidingStagesCarryAPeriod: the pinned library ignores an array.
func TestSlidingStagesCarryAPeriod(t *testing.T) {
	t.Parallel()
	sh := shape()
	sh.Family, sh.RopeFreqs, sh.Tied, sh.SlidingWindow = synth.FamilyGemma3, false, true, 64
	s := imported(t, open(t, write(t, sh)), t.TempDir(), 0, 10)
	for _, r := range []struct{ first, last, period int }{{0, 10, 6}, {0, 3, 4}, {4, 7, 2}, {6, 10, 5}} {
		p := prepared(t, s, r.first, r.last)
		f, err := gguf.Open(p.Paths[0])
		if err != nil {
			t.Fatal(err)
		}
		v, ok := f.Header().Get("gemma3.attention.sliding_window_pattern")
		n, _ := v.Int()
		if !ok || v.Type() != gguf.ValueU32 || int(n) != r.period {
			t.Errorf("layers %d-%d: period %d (%s), want %d", r.first, r.last, n, v.Type(), r.period)
		}
		f.Close()
		p.Release()
	}
}

// TestPadLayersAreHoles: a stage that begins with a full layer gets one before
// it that slides, without a byte of its own on the disk.
func TestPadLayersAreHoles(t *testing.T) {
	t.Parallel()
	sh := shape()
	sh.Family, sh.RopeFreqs, sh.Tied, sh.SlidingWindow = synth.FamilyGemma3, false, true, 64
	s := imported(t, open(t, write(t, sh)), t.TempDir(), 5, 6) // the pad's layer is not here
	p := prepared(t, s, 5, 6)
	defer p.Release()
	if p.Plan.Front != 1 || p.Plan.Back != 0 || p.Plan.Entry != "l_out-0" || p.Plan.ExitNode(6) != "l_out-1" {
		t.Fatalf("plan %+v", p.Plan)
	}
	byBlock := map[string]int{}
	for i, path := range p.Paths {
		f, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		if v, _ := f.Header().Get("gemma3.block_count"); i == 0 {
			if n, _ := v.Int(); n != 2 {
				t.Errorf("%d layers", n)
			}
		}
		for _, e := range f.Header().Tensors {
			block, _, _ := strings.Cut(strings.TrimPrefix(e.Name, "blk."), ".")
			byBlock[block]++
			if block == "0" && slices.ContainsFunc(f.TensorData(e), func(b byte) bool { return b != 0 }) {
				t.Errorf("the pad's %s is not zero", e.Name)
			}
		}
		f.Close()
	}
	if byBlock["0"] == 0 || byBlock["0"] != byBlock["1"] {
		t.Errorf("tensors %v", byBlock)
	}
}
