package publish_test

import (
	"bytes"
	"context"
	"crypto/sha1"
	"crypto/sha256"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/publish"
	"neuron/internal/torrentfile"
	"neuron/llama/cut"
	"neuron/llama/family"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

func code(err error) protocol.Code {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// shape is a small model of a family; gemma3 has enough layers for rules about
// ranges.
func shape(fam string) synth.Shape {
	s := synth.Shape{Family: fam, Layers: 4, Embd: 64, FF: 96, Heads: 4, KVHeads: 2, HeadDim: 32, Vocab: 300, Context: 512}
	switch fam {
	case synth.FamilyLlama:
		s.RopeFreqs = true
	case synth.FamilyQwen3:
		s.Tied = true
	case synth.FamilyGemma3:
		s.Tied, s.SlidingWindow, s.Layers = true, 64, 14
	}
	return s
}

func write(t testing.TB, name string, s synth.Shape) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	if err := synth.Write(path, s, synth.Options{Type: gguf.TypeQ8_0, Seed: 5}); err != nil {
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

func build(t testing.TB, o publish.Options, paths ...string) *publish.Result {
	t.Helper()
	r, err := publish.Build(t.Context(), paths, o)
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// part is one file of rewrite: which tensors, how aligned.
type part struct {
	tensors   []string
	alignment uint64
}

// rewrite writes a model anew: other files, another order, changed metadata.
func rewrite(t testing.TB, src, prefix string, change func(kvs []gguf.KV) []gguf.KV, extra []gguf.TensorInfo, parts ...part) string {
	t.Helper()
	m := open(t, src)
	kvs := slices.Clone(m.Meta().KVs)
	if change != nil {
		kvs = change(kvs)
	}
	total := 0
	for _, p := range parts {
		total += len(p.tensors)
	}
	dir := t.TempDir()
	first := ""
	for i, p := range parts {
		path := filepath.Join(dir, prefix+".gguf")
		head := kvs
		if i > 0 {
			head = nil
		}
		if len(parts) > 1 {
			path = filepath.Join(dir, gguf.SplitName(prefix, i, len(parts)))
			head = append(slices.Clone(head), gguf.KV{Key: gguf.SplitNoKey, Value: gguf.U16(uint16(i))},
				gguf.KV{Key: gguf.SplitCountKey, Value: gguf.U16(uint16(len(parts)))}, gguf.KV{Key: gguf.SplitTensorsKey, Value: gguf.I32(int32(total))})
		}
		var infos []gguf.TensorInfo
		var data [][]byte
		for _, name := range p.tensors {
			if x, ok := m.Tensor(name); ok {
				x.Offset = 0
				infos, data = append(infos, x.TensorInfo), append(data, m.Data(x))
				continue
			}
			k := slices.IndexFunc(extra, func(x gguf.TensorInfo) bool { return x.Name == name })
			n, err := extra[k].Bytes()
			if err != nil {
				t.Fatal(err)
			}
			infos, data = append(infos, extra[k]), append(data, bytes.Repeat([]byte{byte(k + 1)}, int(n)))
		}
		put := func(k int, w io.Writer) error { _, err := w.Write(data[k]); return err }
		if err := gguf.WriteFile(path, head, infos, put, gguf.WriteOptions{Alignment: p.alignment}); err != nil {
			t.Fatal(err)
		}
		if i == 0 {
			first = path
		}
	}
	return first
}

func names(t testing.TB, path string) []string {
	t.Helper()
	var out []string
	for _, x := range open(t, path).Tensors() {
		out = append(out, x.Name)
	}
	return out
}

// verify compares a result with hashes that are taken here in the plainest way.
func verify(t *testing.T, r *publish.Result) {
	t.Helper()
	m := r.Manifest
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	var all []byte
	var ids [][32]byte
	for i, f := range m.Files {
		raw, err := os.ReadFile(r.Paths[i])
		if err != nil {
			t.Fatal(err)
		}
		if int64(len(raw)) != f.Size || sha256.Sum256(raw) != f.SHA256 || sha256.Sum256(raw[:f.Header]) != f.HeaderSHA256 || f.Name != filepath.Base(r.Paths[i]) {
			t.Errorf("file %+v", f)
		}
		for _, x := range m.Tensors {
			if x.File == i && sha256.Sum256(raw[x.Offset:x.Offset+x.Bytes]) != x.SHA256 {
				t.Errorf("tensor %s has another hash", x.Name)
			}
		}
		all, ids = append(all, raw...), append(ids, f.SHA256)
	}
	if m.Model != protocol.ModelIDOf(ids) {
		t.Errorf("model id %s", m.Model)
	}
	src := open(t, r.Paths[0])
	if len(src.Tensors()) != len(m.Tensors) {
		t.Errorf("%d tensors, want %d", len(m.Tensors), len(src.Tensors()))
	}
	for i, x := range src.Tensors() {
		y := m.Tensors[i]
		if n, _ := x.Bytes(); x.Name != y.Name || x.File != y.File || x.FileOffset != y.Offset || int64(n) != y.Bytes || uint32(x.Type) != y.Type || !slices.Equal(x.Dims, y.Dims) {
			t.Errorf("tensor %+v, the file has %+v", y, x)
		}
	}
	i, err := torrentfile.Parse(r.Torrent)
	if err != nil {
		t.Fatal(err)
	}
	var sums []byte
	for p := range slices.Chunk(all, int(m.Torrent.PieceLength)) {
		sum := sha1.Sum(p)
		sums = append(sums, sum[:]...)
	}
	if !bytes.Equal(sums, i.Hashes) {
		t.Error("the torrent's hashes are not those of the files")
	}
	if err := i.Check(m); err != nil || r.InfoHash != i.InfoHash {
		t.Errorf("torrent: %v", err)
	}
}

func TestFamilies(t *testing.T) {
	t.Parallel()
	for _, fam := range []string{synth.FamilyLlama, synth.FamilyQwen2, synth.FamilyQwen3, synth.FamilyGemma3} {
		t.Run(fam, func(t *testing.T) {
			t.Parallel()
			s := shape(fam)
			path := write(t, fam+".gguf", s)
			r := build(t, publish.Options{}, path)
			verify(t, r)
			m := r.Manifest
			src := open(t, path)
			desc, err := family.Describe(src.Meta())
			if err != nil {
				t.Fatal(err)
			}
			if m.WholeOnly != "" || m.Name != fam || m.Architecture != fam || m.Layers != s.Layers || m.Width != s.Embd || m.Context != s.Context ||
				m.Tied != s.Tied || !slices.Equal(m.Cuts, desc.Cuts()) || m.KVWindow != s.SlidingWindow || m.Torrent.Private {
				t.Errorf("%+v", m)
			}
			dir := t.TempDir()
			for a := range s.Layers {
				for b := a + 1; b <= s.Layers; b++ {
					x := protocol.Range{First: a, Last: b}
					n, err := m.Need(x)
					if legal := desc.CheckRange(a, b) == nil; legal != (err == nil) || err != nil && code(err) != protocol.CodeRangeInvalid {
						t.Fatalf("%s: %v, the family's rules say %v", x, err, desc.CheckRange(a, b))
					}
					if err != nil {
						continue
					}
					var want int64 // without pads, which are no layers of the model
					for _, n := range desc.KVLayerBytes(a, b, 2) {
						want += n
					}
					if got := m.KVCellBytes(x); got != want {
						t.Errorf("%s: %d bytes of KV, want %d", x, got, want)
					}
					if b-a > 2 && b-a < s.Layers {
						continue
					}
					// The cutter takes the same tensors for this range.
					store, err := cut.Import(t.Context(), src, string(m.Model), filepath.Join(dir, x.String()), a, b, nil)
					if err != nil {
						t.Fatal(err)
					}
					var taken, needed []string
					for _, list := range store.Index().Files {
						for _, y := range list {
							taken = append(taken, fmt.Sprintf("%s %d %d %d %s", y.Name, y.SourceFile, y.SourceOffset, y.Bytes, y.SHA256))
						}
					}
					for _, k := range n.Tensors {
						y := m.Tensors[k]
						needed = append(needed, fmt.Sprintf("%s %d %d %d %s", y.Name, y.File, y.Offset, y.Bytes, y.SHA256))
					}
					slices.Sort(taken)
					slices.Sort(needed)
					if d := cmp.Diff(taken, needed); d != "" {
						t.Errorf("%s (-cutter +manifest):\n%s", x, d)
					}
				}
			}
		})
	}
}

// TestSplit publishes one model in many layouts; each file of a set leads to
// the same result.
func TestSplit(t *testing.T) {
	t.Parallel()
	single := write(t, "m.gguf", shape(synth.FamilyLlama))
	list := names(t, single)
	backwards := slices.Clone(list)
	slices.Reverse(backwards)
	k := len(list) / 3
	layouts := map[string][]part{
		"backwards":         {{backwards, 0}},
		"two":               {{list[:k], 0}, {list[k:], 0}},
		"empty first":       {{nil, 0}, {list[:k], 0}, {list[k:], 0}},
		"empty last":        {{list, 0}, {nil, 0}},
		"three backwards":   {{backwards[:k], 0}, {backwards[k : 2*k], 0}, {backwards[2*k:], 0}},
		"unlike alignments": {{list[:k], 256}, {list[k:], 64}},
		"one per tensor":    nil,
	}
	for _, n := range list {
		layouts["one per tensor"] = append(layouts["one per tensor"], part{[]string{n}, 0})
	}
	whole := build(t, publish.Options{}, single).Manifest
	for name, parts := range layouts {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			first := rewrite(t, single, "split", nil, nil, parts...)
			r := build(t, publish.Options{}, first)
			verify(t, r)
			m := r.Manifest
			if m.WholeOnly != "" || m.Name != "split" || len(m.Files) != len(parts) || m.Model == whole.Model {
				t.Errorf("%+v", m)
			}
			for a := range m.Layers {
				for b := a + 1; b <= m.Layers; b++ {
					x := protocol.Range{First: a, Last: b}
					if got, want := m.WeightBytes(x), whole.WeightBytes(x); got != want {
						t.Errorf("%s: %d bytes, the single file has %d", x, got, want)
					}
				}
			}
			if len(parts) > 4 {
				return
			}
			for i := range r.Paths {
				again := build(t, publish.Options{Workers: i + 1}, r.Paths[i])
				if d := cmp.Diff(m, again.Manifest); d != "" || !bytes.Equal(r.Torrent, again.Torrent) {
					t.Errorf("from file %d: %s", i, d)
				}
			}
			turned := slices.Clone(r.Paths)
			slices.Reverse(turned)
			if again := build(t, publish.Options{}, turned...); !bytes.Equal(r.Torrent, again.Torrent) {
				t.Error("all files in another order give another torrent")
			}
		})
	}
}

func set(key string, v gguf.Value) func([]gguf.KV) []gguf.KV {
	return func(kvs []gguf.KV) []gguf.KV {
		kvs = slices.DeleteFunc(kvs, func(kv gguf.KV) bool { return kv.Key == key })
		return append(kvs, gguf.KV{Key: key, Value: v})
	}
}

func both(a, b func([]gguf.KV) []gguf.KV) func([]gguf.KV) []gguf.KV {
	return func(kvs []gguf.KV) []gguf.KV { return b(a(kvs)) }
}

// TestWholeOnly publishes what may not be cut: it works, whole, with a reason.
func TestWholeOnly(t *testing.T) {
	t.Parallel()
	src := write(t, "m.gguf", shape(synth.FamilyQwen2))
	list := names(t, src)
	extra := func(name string, dims ...uint64) []gguf.TensorInfo {
		return []gguf.TensorInfo{{Name: name, Dims: dims, Type: gguf.TypeF32}}
	}
	unknown := func(kvs []gguf.KV) []gguf.KV {
		for i, kv := range kvs {
			if kv.Key == gguf.ArchitectureKey {
				kvs[i].Value = gguf.String("newarch")
			}
			kvs[i].Key = strings.Replace(kv.Key, "qwen2.", "newarch.", 1)
		}
		return kvs
	}
	tests := map[string]struct {
		change func([]gguf.KV) []gguf.KV
		extra  []gguf.TensorInfo
		drop   string
		align  uint64
		want   string
	}{
		"unknown family":       {change: unknown, want: `"newarch" family is not certified`},
		"unknown tensor":       {extra: extra("per_layer_embd.weight", 8, 6), want: `"per_layer_embd.weight" is not known`},
		"layer beyond":         {extra: extra("blk.4.nextn.weight", 8), want: `"blk.4.nextn.weight" belongs to none of the 4 layers`},
		"layer oddly written":  {extra: extra("blk.01.x.weight", 8), want: `"blk.01.x.weight" is not known`},
		"path as name":         {extra: extra("blk.0./../x", 8), want: "unusual name"},
		"path outside":         {extra: extra("../x.weight", 8), want: "is not known"},
		"huge layer":           {extra: extra("blk.99999999999999999999.x", 8), want: "is not known"},
		"layer without tensor": {drop: "blk.2.", want: "layer 2 has no tensors"},
		"no embedding":         {drop: "token_embd", want: "no token_embd.weight"},
		"no last norm":         {drop: "output_norm", want: "no output_norm.weight"},
		"wide alignment":       {align: 1 << 17, want: "aligned to 131072"},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			take := slices.Clone(list)
			for _, x := range tt.extra {
				take = slices.Insert(take, 3, x.Name)
			}
			if tt.drop != "" {
				take = slices.DeleteFunc(take, func(n string) bool { return strings.HasPrefix(n, tt.drop) })
			}
			r := build(t, publish.Options{}, rewrite(t, src, "w", tt.change, tt.extra, part{take, tt.align}))
			verify(t, r)
			m := r.Manifest
			if !strings.Contains(m.WholeOnly, tt.want) || len(m.Cuts)+len(m.Ends) != 0 {
				t.Errorf("whole only %q, want %q", m.WholeOnly, tt.want)
			}
			n, err := m.Need(protocol.Range{Last: m.Layers})
			if err != nil || n.Bytes != m.Size() || len(n.Tensors) != len(take) {
				t.Errorf("need %+v, %v", n, err)
			}
			if _, err := m.Need(protocol.Range{Last: 1}); code(err) != protocol.CodeModelUncut {
				t.Errorf("a part: %v", err)
			}
		})
	}
}

// TestPredictingBlocks publishes a model with a block that predicts further
// tokens: it is cut as one without that block, whose bytes no stage needs.
func TestPredictingBlocks(t *testing.T) {
	t.Parallel()
	src := write(t, "m.gguf", shape(synth.FamilyQwen2))
	list := names(t, src)
	extra := []gguf.TensorInfo{
		{Name: "blk.4.nextn.eh_proj.weight", Dims: []uint64{64, 700}, Type: gguf.TypeF32}, {Name: "blk.4.attn_q.weight", Dims: []uint64{8}, Type: gguf.TypeF32},
	}
	change := both(set("qwen2.block_count", gguf.U32(5)), set("qwen2.nextn_predict_layers", gguf.U32(1)))
	between := slices.Insert(slices.Clone(list), 5, extra[0].Name, extra[1].Name)
	plain := build(t, publish.Options{}, src).Manifest
	for name, path := range map[string]string{
		"one file":  rewrite(t, src, "n", change, extra, part{between, 0}),
		"own file":  rewrite(t, src, "n", change, extra, part{list, 0}, part{[]string{extra[1].Name, extra[0].Name}, 0}),
		"not there": rewrite(t, src, "n", change, nil, part{list, 0}),
	} {
		r := build(t, publish.Options{}, path)
		verify(t, r)
		m := r.Manifest
		if m.WholeOnly != "" || m.Layers != plain.Layers || !slices.Equal(m.Cuts, plain.Cuts) || !slices.Equal(m.LayerBytes(), plain.LayerBytes()) ||
			!slices.Equal(m.KVLayerBytes, plain.KVLayerBytes) {
			t.Errorf("%s: %+v", name, m)
		}
		if n := m.UseBytes(manifest.UseUnused); n != 64*700*4+32 && name != "not there" {
			t.Errorf("%s: %d unused bytes", name, n)
		}
		for a := range m.Layers {
			for b := a + 1; b <= m.Layers; b++ {
				x := protocol.Range{First: a, Last: b}
				n, err := m.Need(x)
				if err != nil {
					t.Fatal(err)
				}
				store, err := cut.Import(t.Context(), open(t, path), string(m.Model), filepath.Join(t.TempDir(), "s"), a, b, nil)
				if err != nil {
					t.Fatal(err)
				}
				var taken, needed []string
				for _, files := range store.Index().Files {
					for _, y := range files {
						taken = append(taken, y.Name)
					}
				}
				for _, k := range n.Tensors {
					needed = append(needed, m.Tensors[k].Name)
				}
				slices.Sort(taken)
				slices.Sort(needed)
				if d := cmp.Diff(taken, needed); d != "" || m.WeightBytes(x) != plain.WeightBytes(x) {
					t.Errorf("%s, layers %s: %d bytes, the plain model has %d (-cutter +manifest):\n%s", name, x, m.WeightBytes(x), plain.WeightBytes(x), d)
				}
			}
		}
	}
	beyond := append(slices.Clone(extra), gguf.TensorInfo{Name: "blk.5.x.weight", Dims: []uint64{8}, Type: gguf.TypeF32})
	m := build(t, publish.Options{}, rewrite(t, src, "n", change, beyond, part{append(between, "blk.5.x.weight"), 0})).Manifest
	if !strings.Contains(m.WholeOnly, `"blk.5.x.weight" belongs to none`) || m.UseBytes(manifest.UseUnused) != 0 {
		t.Errorf("a block that does not exist: %q", m.WholeOnly)
	}
}

func TestMetadata(t *testing.T) {
	t.Parallel()
	src := write(t, "a-model.gguf", shape(synth.FamilyLlama))
	list := names(t, src)
	change := both(both(set("general.license", gguf.String("apache-2.0")), set("tokenizer.chat_template", gguf.String("{{ x }}"))),
		set("tokenizer.ggml.pre", gguf.String("tekken")))
	m := build(t, publish.Options{}, rewrite(t, src, "a-model", change, nil, part{list, 0})).Manifest
	if m.License != "apache-2.0" || !m.ChatTemplate || !strings.HasSuffix(m.Tokenizer, "/tekken") || m.Name != "a-model" || len(m.Tokenizer) <= len("/tekken") {
		t.Errorf("%+v", m)
	}
	m = build(t, publish.Options{Name: "other", License: "mit"}, src).Manifest
	if m.License != "mit" || m.Name != "other" || m.Files[0].Name != "a-model.gguf" || m.TorrentName() != "a-model.gguf" {
		t.Errorf("%+v", m)
	}
	bare := func(kvs []gguf.KV) []gguf.KV {
		return slices.DeleteFunc(kvs, func(kv gguf.KV) bool { return strings.HasPrefix(kv.Key, "tokenizer.") })
	}
	m = build(t, publish.Options{}, rewrite(t, src, "m", bare, nil, part{list, 0})).Manifest
	if m.ChatTemplate || m.Tokenizer != "" || m.License != "" {
		t.Errorf("without a tokenizer: %q, template %t, licence %q", m.Tokenizer, m.ChatTemplate, m.License)
	}
	// A long or hostile licence is shortened, not a reason to fail.
	change = set("general.license", gguf.String("\xffL\x00\n"+strings.Repeat("ü", 300)))
	m = build(t, publish.Options{}, rewrite(t, src, "m", change, nil, part{list, 0})).Manifest
	if !strings.HasPrefix(m.License, "  L") && !strings.HasPrefix(m.License, " L") || len(m.License) > 256 || !strings.HasSuffix(m.License, "...") {
		t.Errorf("licence %q", m.License)
	}
}

func TestTorrent(t *testing.T) {
	t.Parallel()
	src := write(t, "m.gguf", shape(synth.FamilyLlama))
	plain := build(t, publish.Options{}, src)
	o := publish.Options{
		Private: true, Announce: []string{"http://t/announce", "udp://u:1"}, WebSeeds: []string{"https://w/m.gguf"}, PieceLength: 32 << 10,
	}
	r := build(t, o, src)
	i, err := torrentfile.Parse(r.Torrent)
	if err != nil {
		t.Fatal(err)
	}
	if !i.Private || !r.Manifest.Torrent.Private || !slices.Equal(i.Announce, o.Announce) || !slices.Equal(i.WebSeeds, o.WebSeeds) || i.PieceLength != 32<<10 ||
		!i.Single || i.Name != "m.gguf" || r.InfoHash == plain.InfoHash {
		t.Errorf("%+v", i)
	}
	if r.Manifest.Model != plain.Manifest.Model {
		t.Error("the model id depends on the torrent")
	}
	// Who seeds where is not part of the identity.
	if o.Private, o.PieceLength = false, 0; build(t, o, src).InfoHash != plain.InfoHash {
		t.Error("the info hash depends on web seeds")
	}
	if again := build(t, publish.Options{}, src); !bytes.Equal(again.Torrent, plain.Torrent) {
		t.Error("the same file gives two torrents")
	}
	for name, o := range map[string]publish.Options{
		"web seed of a file": {WebSeeds: []string{"file:///etc/passwd"}},
		"announce":           {Announce: []string{"nowhere"}},
		"name":               {Name: "a/b"},
		"name of a device":   {Name: "NUL"},
	} {
		if _, err := publish.Build(t.Context(), []string{src}, o); code(err) != protocol.CodeModelInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, n := range []int64{-1, 1, 16383, 8192, 48 << 10, 32 << 20} {
		if _, err := publish.Build(t.Context(), []string{src}, publish.Options{PieceLength: n}); code(err) != protocol.CodeInvalidRequest {
			t.Errorf("pieces of %d: %v", n, err)
		}
	}
}

func TestRefused(t *testing.T) {
	t.Parallel()
	src := write(t, "m.gguf", shape(synth.FamilyLlama))
	list := names(t, src)
	other := write(t, "n.gguf", shape(synth.FamilyQwen2))
	pair := rewrite(t, src, "p", nil, nil, part{list[:5], 0}, part{list[5:], 0})
	second := strings.Replace(pair, "00001-of", "00002-of", 1)
	without := func(key string) func([]gguf.KV) []gguf.KV {
		return func(kvs []gguf.KV) []gguf.KV {
			return slices.DeleteFunc(kvs, func(kv gguf.KV) bool { return kv.Key == key })
		}
	}
	put := func(name string, data []byte) string {
		path := filepath.Join(t.TempDir(), name)
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	raw, err := os.ReadFile(src)
	if err != nil {
		t.Fatal(err)
	}
	bad := []gguf.TensorInfo{{Name: "blk.0.\xff", Dims: []uint64{8}, Type: gguf.TypeF32}}
	tests := map[string]struct {
		paths []string
		code  protocol.Code
		text  string
	}{
		"nothing":              {nil, protocol.CodeInvalidRequest, ""},
		"no file":              {[]string{"/nowhere/m.gguf"}, protocol.CodeModelUnknown, ""},
		"a folder":             {[]string{t.TempDir()}, protocol.CodeModelInvalid, ""},
		"text":                 {[]string{put("t.gguf", []byte("version https://git-lfs"))}, protocol.CodeModelInvalid, "Git LFS"},
		"half":                 {[]string{put("h.gguf", raw[:len(raw)/2])}, protocol.CodeModelInvalid, ""},
		"no architecture":      {[]string{rewrite(t, src, "a", without(gguf.ArchitectureKey), nil, part{list, 0})}, protocol.CodeModelInvalid, "general.architecture is missing"},
		"no layer count":       {[]string{rewrite(t, src, "l", without("llama.block_count"), nil, part{list, 0})}, protocol.CodeModelInvalid, "block_count"},
		"a vocabulary":         {[]string{rewrite(t, src, "v", nil, nil, part{nil, 0})}, protocol.CodeModelInvalid, "no tensors"},
		"two models":           {[]string{src, other}, protocol.CodeInvalidRequest, "one model at a time"},
		"a file twice":         {[]string{src, src}, protocol.CodeInvalidRequest, "twice"},
		"one of two and twice": {[]string{pair, second, pair}, protocol.CodeInvalidRequest, "twice"},
		"unprintable tensor":   {[]string{rewrite(t, src, "b", nil, bad, part{append(slices.Clone(list), bad[0].Name), 0})}, protocol.CodeModelInvalid, "tensor"},
		"name with a colon":    {[]string{put("a:b.gguf", raw)}, protocol.CodeModelInvalid, "a:b"},
	}
	if three := rewrite(t, src, "q", nil, nil, part{list[:5], 0}, part{list[5:7], 0}, part{list[7:], 0}); true {
		tests["two of three"] = struct {
			paths []string
			code  protocol.Code
			text  string
		}{[]string{three, strings.Replace(three, "00001-of", "00002-of", 1)}, protocol.CodeInvalidRequest, "belongs to the model too"}
	}
	for name, tt := range tests {
		r, err := publish.Build(t.Context(), tt.paths, publish.Options{})
		if code(err) != tt.code || !strings.Contains(err.Error(), tt.text) {
			t.Errorf("%s: %v, %v", name, r, err)
		}
	}
	if err := os.Remove(second); err != nil {
		t.Fatal(err)
	}
	if _, err := publish.Build(t.Context(), []string{pair}, publish.Options{}); code(err) != protocol.CodeModelUnknown {
		t.Errorf("a part of the set is missing: %v", err)
	}
}

// TestFileChangesMeanwhile changes files while they are read.
func TestFileChangesMeanwhile(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(path string) error{
		"cut": func(p string) error { return os.Truncate(p, 2<<20) },
		"appended": func(p string) error {
			f, err := os.OpenFile(p, os.O_APPEND|os.O_WRONLY, 0)
			if err == nil {
				_, err = f.Write([]byte("x"))
				err = errors.Join(err, f.Close())
			}
			return err
		},
		"written": func(p string) error { return os.Chtimes(p, time.Time{}, time.Unix(1_000_000, 0)) },
		"replaced": func(p string) error {
			raw, err := os.ReadFile(p)
			if err == nil {
				err = os.WriteFile(p+".new", raw, 0o600)
			}
			return errors.Join(err, os.Rename(p+".new", p))
		},
	} {
		s := shape(synth.FamilyLlama)
		s.Vocab = 60_000 // over several buffers
		path := write(t, "m.gguf", s)
		done := false
		_, err := publish.Build(t.Context(), []string{path}, publish.Options{Workers: 1, Progress: func(read, total int64) {
			if !done && read < total {
				done = true
				if err := change(path); err != nil {
					t.Error(err)
				}
			}
		}})
		if code(err) != protocol.CodeModelInvalid || !done || !strings.Contains(err.Error(), "changed") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestProgressAndCancel(t *testing.T) {
	t.Parallel()
	s := shape(synth.FamilyLlama)
	s.Vocab = 60_000
	path := write(t, "m.gguf", s)
	var seen []int64
	r := build(t, publish.Options{Progress: func(done, total int64) {
		if total <= 0 || done > total {
			t.Errorf("%d of %d", done, total)
		}
		seen = append(seen, done)
	}}, path)
	if len(seen) < 3 || !slices.IsSorted(seen) || seen[len(seen)-1] != r.Manifest.Size() {
		t.Errorf("progress %v", seen)
	}
	verify(t, r)
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := publish.Build(ctx, []string{path}, publish.Options{Progress: func(int64, int64) { cancel() }}); code(err) != protocol.CodeCancelled {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := publish.Build(ctx, []string{path}, publish.Options{}); code(err) != protocol.CodeCancelled {
		t.Errorf("cancelled before: %v", err)
	}
	if got := publish.ETA(25, 100, time.Second); got != 3*time.Second {
		t.Errorf("ETA %v", got)
	}
	if publish.ETA(0, 100, time.Second) != 0 || publish.ETA(100, 100, time.Second) != 0 {
		t.Error("an ETA without progress")
	}
}

func TestDescribe(t *testing.T) {
	t.Parallel()
	path := write(t, "m.gguf", shape(synth.FamilyQwen3))
	got, err := publish.Describe([]string{path}, publish.Options{})
	if err != nil {
		t.Fatal(err)
	}
	want := *build(t, publish.Options{}, path).Manifest
	want.Model, want.Torrent.InfoHash = "", ""
	want.Files = slices.Clone(want.Files)
	want.Files[0].SHA256, want.Files[0].HeaderSHA256 = manifest.Hash{}, manifest.Hash{}
	want.Tensors = slices.Clone(want.Tensors)
	for i := range want.Tensors {
		want.Tensors[i].SHA256 = manifest.Hash{}
	}
	if d := cmp.Diff(&want, got); d != "" {
		t.Error(d)
	}
}

func TestVerify(t *testing.T) {
	t.Parallel()
	src := write(t, "m.gguf", shape(synth.FamilyLlama))
	list := names(t, src)
	first := rewrite(t, src, "p", nil, nil, part{list[:5], 4096}, part{list[5:], 4096})
	r := build(t, publish.Options{}, first)
	m := r.Manifest
	check := func() []publish.Damage {
		t.Helper()
		d, err := publish.Verify(t.Context(), m, r.Paths, publish.Options{})
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if d := check(); d != nil {
		t.Errorf("unchanged files: %+v", d)
	}
	flip := func(file int, at int64) func() {
		f, err := os.OpenFile(r.Paths[file], os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		b := make([]byte, 1)
		if _, err := f.ReadAt(b, at); err != nil {
			t.Fatal(err)
		}
		b[0] ^= 1
		if _, err := f.WriteAt(b, at); err != nil {
			t.Fatal(err)
		}
		return func() { flipBack(t, r.Paths[file], at, b[0]^1) }
	}
	k := 7
	x := m.Tensors[k]
	back := flip(x.File, x.Offset+x.Bytes-1)
	if d, want := check(), []publish.Damage{{File: x.File, Tensors: []int{k}, Size: -1}}; !cmp.Equal(d, want) {
		t.Errorf("a bit of tensor %d: %+v", k, d)
	}
	back()
	back = flip(1, 30)
	if d, want := check(), []publish.Damage{{File: 1, Header: true, Size: -1}}; !cmp.Equal(d, want) {
		t.Errorf("a bit of a header: %+v", d)
	}
	back()
	i := slices.IndexFunc(m.Tensors, func(x manifest.Tensor) bool { return x.Bytes%4096 != 0 })
	back = flip(m.Tensors[i].File, m.Tensors[i].Offset+m.Tensors[i].Bytes)
	if d, want := check(), []publish.Damage{{File: m.Tensors[i].File, Size: -1}}; !cmp.Equal(d, want) {
		t.Errorf("a bit of padding: %+v", d)
	}
	back()
	if d := check(); d != nil {
		t.Errorf("repaired files: %+v", d)
	}
	if err := os.Truncate(r.Paths[1], 100); err != nil {
		t.Fatal(err)
	}
	if d, want := check(), []publish.Damage{{File: 1, Size: 100}}; !cmp.Equal(d, want) {
		t.Errorf("a cut file: %+v", d)
	}
	if _, err := publish.Verify(t.Context(), m, r.Paths[:1], publish.Options{}); code(err) != protocol.CodeInvalidRequest {
		t.Errorf("too few files: %v", err)
	}
	if _, err := publish.Verify(t.Context(), m, []string{r.Paths[0], "/nowhere"}, publish.Options{}); code(err) != protocol.CodeModelUnknown {
		t.Errorf("no file: %v", err)
	}
}

func flipBack(t *testing.T, path string, at int64, b byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if _, err := f.WriteAt([]byte{b}, at); err != nil {
		t.Fatal(err)
	}
}
