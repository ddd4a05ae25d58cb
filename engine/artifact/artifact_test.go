package artifact_test

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/artifact"
	"neuron/engine/protocol"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

var quiet = slog.New(slog.DiscardHandler)

func guidePath() string { return filepath.Join("..", "..", "assets", "model", "guide-q8_0.gguf") }

func inspect(t testing.TB, path, cacheDir string) *artifact.Source {
	t.Helper()
	s, err := artifact.Inspect(t.Context(), path, cacheDir, quiet)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// write makes a small model; the same seed gives the same bytes.
func write(t testing.TB, name string, seed uint64) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	s := synth.Shape{Family: synth.FamilyQwen2, Layers: 4, Embd: 64, FF: 64, Heads: 2, KVHeads: 1, HeadDim: 32, Vocab: 300, Context: 512}
	if err := synth.Write(path, s, synth.Options{Type: gguf.TypeQ8_0, Seed: seed}); err != nil {
		t.Fatal(err)
	}
	return path
}

func code(err error) protocol.Code {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

func TestInspectGuide(t *testing.T) {
	t.Parallel()
	s := inspect(t, guidePath(), "")
	raw, err := os.ReadFile(guidePath())
	if err != nil {
		t.Fatal(err)
	}
	// The id follows from the content alone, by the protocol's own rule.
	if want := protocol.ModelIDOf([][sha256.Size]byte{sha256.Sum256(raw)}); s.ID != want {
		t.Errorf("id %s, want %s", s.ID, want)
	}
	if s.Name != "guide-q8_0" || s.Model.Layers != 8 || !slices.Equal(s.Files, []string{guidePath()}) {
		t.Errorf("source %+v", s)
	}
	if s.Weight < int64(len(raw))*9/10 || s.Weight > int64(len(raw)) {
		t.Errorf("%d bytes of tensors in a file of %d", s.Weight, len(raw))
	}
	if again := inspect(t, guidePath(), t.TempDir()); again.ID != s.ID {
		t.Errorf("id %s and %s", s.ID, again.ID)
	}
}

// TestDigestCache puts a wrong hash into the cache, which shows when it is
// used and when not.
func TestDigestCache(t *testing.T) {
	t.Parallel()
	path, cache := write(t, "m.gguf", 1), t.TempDir()
	first := inspect(t, path, cache)
	file := filepath.Join(cache, "digests.json")
	entries := func() map[string]map[string]json.RawMessage {
		t.Helper()
		raw, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		var m map[string]map[string]json.RawMessage
		if err := json.Unmarshal(raw, &m); err != nil || len(m) != 1 {
			t.Fatalf("cache of %d entries: %v", len(m), err)
		}
		return m
	}
	marked := strings.Repeat("5e", 32)
	mark := func() {
		t.Helper()
		m := entries()
		for _, e := range m {
			e["sha256"] = json.RawMessage(`"` + marked + `"`)
		}
		raw, err := json.Marshal(m)
		if err == nil {
			err = os.WriteFile(file, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	mark()
	hit := inspect(t, path, cache)
	if want := protocol.ModelIDOf([][sha256.Size]byte{[32]byte(bytes.Repeat([]byte{0x5e}, 32))}); hit.ID != want {
		t.Errorf("the cache was not used: %s", hit.ID)
	}
	// Another time stamp, same size.
	if err := os.Chtimes(path, time.Time{}, time.Unix(1_000_000, 0)); err != nil {
		t.Fatal(err)
	}
	if s := inspect(t, path, cache); s.ID != first.ID {
		t.Errorf("a touched file: %s, want %s", s.ID, first.ID)
	}
	for _, e := range entries() {
		if strings.Contains(string(e["sha256"]), marked) {
			t.Error("the new hash was not remembered")
		}
	}
	// Other content under the same name.
	other := write(t, "m.gguf", 2)
	if err := os.Rename(other, path); err != nil {
		t.Fatal(err)
	}
	changed := inspect(t, path, cache)
	if changed.ID == first.ID {
		t.Error("a changed file has the old id")
	}
	// A damaged cache costs hashing again, nothing else.
	for _, junk := range []string{"", "{", "[1]", `{"x":{"size":"no"}}`} {
		if err := os.WriteFile(file, []byte(junk), 0o600); err != nil {
			t.Fatal(err)
		}
		if s := inspect(t, path, cache); s.ID != changed.ID {
			t.Errorf("with cache %q: %s", junk, s.ID)
		}
	}
	mark()
	for name, damage := range map[string]string{"short": "5e", "not hexadecimal": strings.Repeat("zz", 32), "long": strings.Repeat("5e", 40)} {
		m := entries()
		for _, e := range m {
			e["sha256"] = json.RawMessage(`"` + damage + `"`)
		}
		raw, err := json.Marshal(m)
		if err == nil {
			err = os.WriteFile(file, raw, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		if s := inspect(t, path, cache); s.ID != changed.ID {
			t.Errorf("%s hash: %s", name, s.ID)
		}
	}
	// Nowhere to write it: still an answer.
	if s := inspect(t, path, filepath.Join(cache, "gone")); s.ID != changed.ID {
		t.Errorf("without a cache folder: %s", s.ID)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := artifact.Inspect(ended, path, "", quiet); !errors.Is(err, context.Canceled) {
		t.Errorf("a cancelled inspection: %v", err)
	}
}

func TestInspectRefuses(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	put := func(name, content string) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	raw, err := os.ReadFile(write(t, "m.gguf", 1))
	if err != nil {
		t.Fatal(err)
	}
	bare, err := gguf.EncodeHeader([]gguf.KV{{Key: "general.name", Value: gguf.String("no architecture")}}, nil, gguf.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	tests := map[string]struct {
		path string
		want protocol.Code
	}{
		"no file":         {filepath.Join(dir, "none.gguf"), protocol.CodeModelUnknown},
		"a folder":        {dir, protocol.CodeModelInvalid},
		"text":            {put("text.gguf", "this is not a model"), protocol.CodeModelInvalid},
		"empty":           {put("empty.gguf", ""), protocol.CodeModelInvalid},
		"half a header":   {put("half.gguf", string(raw[:100])), protocol.CodeModelInvalid},
		"half the data":   {put("short.gguf", string(raw[:len(raw)/2])), protocol.CodeModelInvalid},
		"no architecture": {put("bare.gguf", string(bare)), protocol.CodeModelInvalid},
		"one of a set":    {put("m-00001-of-00002.gguf", string(raw)), protocol.CodeModelInvalid},
	}
	for name, tt := range tests {
		if _, err := artifact.Inspect(t.Context(), tt.path, "", quiet); code(err) != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
	}
	if os.Getuid() > 0 {
		locked := put("locked.gguf", string(raw))
		if err := os.Chmod(locked, 0); err != nil {
			t.Fatal(err)
		}
		if _, err := artifact.Inspect(t.Context(), locked, "", quiet); code(err) != protocol.CodeForbidden {
			t.Errorf("a file without permission: %v", err)
		}
	}
}

func TestParseLayers(t *testing.T) {
	t.Parallel()
	s := inspect(t, write(t, "m.gguf", 1), "")
	for text, want := range map[string]protocol.Range{
		"": {First: 0, Last: 4}, "all": {First: 0, Last: 4}, "0-4": {First: 0, Last: 4}, "1-3": {First: 1, Last: 3}, "3-4": {First: 3, Last: 4},
	} {
		if got, err := s.ParseLayers(text); err != nil || got != want {
			t.Errorf("%q: %v, %v, want %v", text, got, err, want)
		}
	}
	for _, text := range []string{"0-5", "2-2", "3-1", "4-8", "x", "1", "1-", "-1-2", "0-99999999999999999999", "1-2-3", "ALL"} {
		if got, err := s.ParseLayers(text); code(err) != protocol.CodeRangeInvalid {
			t.Errorf("%q: %v, %v", text, got, err)
		}
	}
}

func TestShard(t *testing.T) {
	t.Parallel()
	path := write(t, "my-model.gguf", 1)
	s := inspect(t, path, "")
	dir := t.TempDir()

	whole, err := s.Shard(t.Context(), protocol.Range{Last: 4}, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	paths, release, err := whole.Prepare(t.Context())
	if err != nil || !slices.Equal(paths, []string{path}) || whole.Dir() != "" {
		t.Errorf("the whole model: %v in %q, %v", paths, whole.Dir(), err)
	}
	release()
	if left, _ := os.ReadDir(dir); len(left) != 0 {
		t.Errorf("the whole model was copied: %v", left)
	}
	want := protocol.Capability{
		Model: s.ID, Name: "my-model", Architecture: "qwen2", Layers: 4, Loaded: protocol.Range{Last: 4}, Head: true, Tail: true,
		Exits: []int{1, 2, 3, 4}, Cuts: []int{1, 2, 3}, Width: 64, DTypes: []string{"f32", "f16"}, Sidebands: []string{},
		KVBytesPerCell: 4 * 64 * 2, KVLayerBytes: []int64{128, 128, 128, 128}, KVType: "f16",
		MaxContext: s.Context(), ChunkRows: 256, Vocab: 300,
		Memory: protocol.Memory{{Kind: protocol.MemoryFull, Layers: 4, CellBytes: 4 * 64 * 2}},
	}
	if d := cmp.Diff(want, whole.Capability(256)); d != "" {
		t.Error(d)
	}

	var copied int64
	part, err := s.Shard(t.Context(), protocol.Range{First: 1, Last: 3}, dir, func(done, _ int64) { copied = done })
	if err != nil {
		t.Fatal(err)
	}
	if copied == 0 || !strings.HasPrefix(part.Dir(), dir+string(filepath.Separator)) {
		t.Errorf("%d bytes copied to %q", copied, part.Dir())
	}
	for range 2 { // the folder is free again after release
		paths, release, err = part.Prepare(t.Context())
		if err != nil || len(paths) < 3 {
			t.Fatalf("files %v, %v", paths, err)
		}
		release()
	}
	want.Loaded, want.Head, want.Tail = protocol.Range{First: 1, Last: 3}, false, false
	want.Exits, want.KVBytesPerCell, want.KVLayerBytes = []int{2, 3}, 2*64*2, []int64{128, 128}
	want.Memory = protocol.Memory{{Kind: protocol.MemoryFull, Layers: 2, CellBytes: 2 * 64 * 2}}
	if d := cmp.Diff(want, part.Capability(256)); d != "" {
		t.Error(d)
	}
	if a, b := part.Weight(), whole.Weight(); a <= 0 || b != s.Weight || a > s.Weight/2 {
		t.Errorf("two of four layers weigh %d, the whole model %d of %d", a, b, s.Weight)
	}
	// The next range of the same model shares the folder.
	tail, err := s.Shard(t.Context(), protocol.Range{First: 2, Last: 4}, dir, nil)
	if err != nil || tail.Dir() != part.Dir() {
		t.Errorf("folder %q, want %q (%v)", tail.Dir(), part.Dir(), err)
	}
	if c := tail.Capability(256); c.Head || !c.Tail {
		t.Errorf("role %+v", c)
	}
	// Another model of the same name has a folder of its own.
	other := inspect(t, write(t, "my-model.gguf", 2), "")
	second, err := other.Shard(t.Context(), protocol.Range{First: 1, Last: 3}, dir, nil)
	if err != nil || second.Dir() == part.Dir() {
		t.Errorf("folder %q (%v)", second.Dir(), err)
	}
	for _, r := range []protocol.Range{{First: 0, Last: 5}, {First: 2, Last: 2}, {First: -1, Last: 2}} {
		if _, err := s.Shard(t.Context(), r, dir, nil); code(err) != protocol.CodeRangeInvalid {
			t.Errorf("layers %v: %v", r, err)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := s.Shard(ended, protocol.Range{First: 1, Last: 3}, t.TempDir(), nil); code(err) != protocol.CodeCancelled {
		t.Errorf("a cancelled import: %v", err)
	}
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Shard(t.Context(), protocol.Range{First: 0, Last: 1}, t.TempDir(), nil); code(err) != protocol.CodeModelUnknown {
		t.Errorf("the file is gone: %v", err)
	}
}

// TestShardOfADamagedFolder: what lies in a shard folder is not trusted.
func TestShardOfADamagedFolder(t *testing.T) {
	t.Parallel()
	s := inspect(t, write(t, "m.gguf", 1), "")
	dir := t.TempDir()
	part, err := s.Shard(t.Context(), protocol.Range{First: 1, Last: 3}, dir, nil)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.Truncate(filepath.Join(part.Dir(), "blk.0001.gguf"), 70000); err != nil {
		t.Fatal(err)
	}
	if _, _, err := part.Prepare(t.Context()); err == nil || !strings.Contains(err.Error(), "blk.0001.gguf") {
		t.Errorf("a truncated layer: %v", err)
	}
	if err := os.WriteFile(filepath.Join(part.Dir(), "shard.json"), []byte("{"), 0o644); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Shard(t.Context(), protocol.Range{First: 1, Last: 3}, dir, nil); code(err) != protocol.CodeModelInvalid {
		t.Errorf("a damaged index: %v", err)
	}
}

// foreign writes a model of a family without an entry.
func foreign(t testing.TB) string {
	t.Helper()
	src, err := gguf.OpenModel(write(t, "m.gguf", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	kvs := slices.Clone(src.Meta().KVs)
	for i, kv := range kvs {
		kvs[i].Key = strings.Replace(kv.Key, "qwen2.", "gptj.", 1)
		if kv.Key == gguf.ArchitectureKey {
			kvs[i].Value = gguf.String("gptj")
		}
	}
	var infos []gguf.TensorInfo
	for _, x := range src.Tensors() {
		infos = append(infos, x.TensorInfo)
	}
	path := filepath.Join(t.TempDir(), "gptj.gguf")
	err = gguf.WriteFile(path, kvs, infos, func(i int, w io.Writer) error {
		_, err := w.Write(src.Data(src.Tensors()[i]))
		return err
	}, gguf.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	return path
}

func TestWholeOnly(t *testing.T) {
	t.Parallel()
	s := inspect(t, foreign(t), "")
	if _, err := s.ParseLayers("0-2"); code(err) != protocol.CodeModelUncut {
		t.Errorf("a part: %v", err)
	}
	if _, err := s.ParseLayers("0-9"); code(err) != protocol.CodeRangeInvalid {
		t.Errorf("too many layers: %v", err)
	}
	if _, err := s.Shard(t.Context(), protocol.Range{First: 2, Last: 4}, t.TempDir(), nil); code(err) != protocol.CodeModelUncut {
		t.Errorf("a shard: %v", err)
	}
	whole, err := s.Shard(t.Context(), protocol.Range{Last: 4}, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if c := whole.Capability(256); c.WholeOnly == "" || !slices.Equal(c.Exits, []int{4}) {
		t.Errorf("report %+v", c)
	}
}

// TestSplitFiles names and identifies a set by any of its files.
func TestSplitFiles(t *testing.T) {
	t.Parallel()
	src, err := gguf.OpenModel(write(t, "m.gguf", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	dir := t.TempDir()
	all := src.Tensors()
	var files []string
	for i, list := range [][]gguf.ModelTensor{all[:7], all[7:]} {
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
		files = append(files, filepath.Join(dir, gguf.SplitName("big", i, 2)))
		err := gguf.WriteFile(files[i], kvs, infos, func(j int, w io.Writer) error {
			_, err := w.Write(src.Data(list[j]))
			return err
		}, gguf.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	a, b := inspect(t, files[0], ""), inspect(t, files[1], "")
	if a.ID != b.ID || a.Name != "big" || !slices.Equal(a.Files, files) || !slices.Equal(b.Files, files) {
		t.Errorf("%+v and %+v", a, b)
	}
	var one int64
	for _, x := range all {
		n, err := x.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		one += int64(n)
	}
	if a.Weight != one {
		t.Errorf("%d bytes, want %d", a.Weight, one)
	}
	part, err := b.Shard(t.Context(), protocol.Range{First: 2, Last: 4}, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	paths, release, err := part.Prepare(t.Context())
	if err != nil || len(paths) < 4 {
		t.Errorf("files %v, %v", paths, err)
	}
	release()
	if err := os.Remove(files[1]); err != nil {
		t.Fatal(err)
	}
	if _, err := artifact.Inspect(t.Context(), files[0], "", quiet); code(err) != protocol.CodeModelUnknown {
		t.Errorf("half a set: %v", err)
	}
}
