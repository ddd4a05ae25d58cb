package shelf_test

import (
	"bytes"
	"crypto/sha1"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"neuron/engine/artifact/shelf"
	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// model is a published model in memory.
type model struct {
	paths   []string
	m       *manifest.Manifest
	content []byte // of the torrent
}

// variant says how a model is published.
type variant struct {
	shape  synth.Shape
	typ    gguf.Type
	splits int   // 0 or 1: one file
	piece  int64 // bytes
	whole  bool  // as if its family was not certified
	noise  bool  // padding between tensors is not zero
}

func tiny() synth.Shape {
	return synth.Shape{
		Family: synth.FamilyLlama, Layers: 14, Embd: 64, FF: 96, Heads: 2, KVHeads: 1, HeadDim: 32, Vocab: 300, Context: 512, RopeFreqs: true,
	}
}

// publish writes a model and its manifest.
func publish(t testing.TB, v variant) *model {
	t.Helper()
	dir := t.TempDir()
	path := filepath.Join(dir, "model.gguf")
	if err := synth.Write(path, v.shape, synth.Options{Type: v.typ, Seed: 7}); err != nil {
		t.Fatal(err)
	}
	out := &model{paths: []string{path}}
	if v.splits > 1 {
		out.paths = split(t, path, dir, v.splits)
	}
	if v.noise {
		makeNoise(t, out.paths)
	}
	src, err := gguf.OpenModel(out.paths[0])
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	m := &manifest.Manifest{
		Version: manifest.Version, Name: "model", Architecture: v.shape.Family, Layers: v.shape.Layers, Context: v.shape.Context,
		Width: v.shape.Embd, Tied: v.shape.Tied, Alignment: src.Meta().Alignment, Tokenizer: "llama",
	}
	if v.whole {
		m.WholeOnly = "for the test"
	} else {
		for b := 1; b < m.Layers; b++ {
			m.Cuts = append(m.Cuts, b)
		}
	}
	var sums [][32]byte
	for i, f := range src.Files() {
		raw, err := os.ReadFile(out.paths[i])
		if err != nil {
			t.Fatal(err)
		}
		sum := sha256.Sum256(raw)
		sums = append(sums, sum)
		m.Files = append(m.Files, manifest.File{
			Name: filepath.Base(out.paths[i]), Size: int64(len(raw)), SHA256: sum,
			Header: f.Header().DataOffset, HeaderSHA256: sha256.Sum256(raw[:f.Header().DataOffset]), Alignment: f.Header().Alignment,
		})
		out.content = append(out.content, raw...)
	}
	m.Model = protocol.ModelIDOf(sums)
	for _, x := range src.Tensors() {
		e := manifest.Tensor{
			Name: x.Name, Dims: x.Dims, Type: uint32(x.Type), File: x.File, Offset: x.FileOffset, Layer: -1,
			Bytes: int64(len(src.Data(x))), SHA256: sha256.Sum256(src.Data(x)),
		}
		e.Use = useOf(x.Name, m)
		if e.Use == manifest.UseLayer {
			number, _, _ := strings.Cut(strings.TrimPrefix(x.Name, "blk."), ".")
			if e.Layer, err = strconv.Atoi(number); err != nil {
				t.Fatal(err)
			}
		}
		m.Tensors = append(m.Tensors, e)
	}
	slices.SortFunc(m.Tensors, func(a, b manifest.Tensor) int {
		if a.File != b.File {
			return a.File - b.File
		}
		return int(a.Offset - b.Offset)
	})
	hash := sha1.Sum([]byte(m.Model))
	m.Torrent = manifest.Torrent{
		InfoHash: hex.EncodeToString(hash[:]), PieceLength: v.piece, Pieces: int((int64(len(out.content)) + v.piece - 1) / v.piece),
	}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	out.m = m
	return out
}

func useOf(name string, m *manifest.Manifest) manifest.Use {
	switch {
	case m.WholeOnly != "":
		return manifest.UseAll
	case strings.HasPrefix(name, "blk."):
		return manifest.UseLayer
	case name == "token_embd.weight" && m.Tied:
		return manifest.UseEnds
	case name == "token_embd.weight":
		return manifest.UseHead
	case strings.HasPrefix(name, "output"):
		return manifest.UseTail
	}
	return manifest.UseAll
}

// split publishes the model in n files that do not care for layers.
func split(t testing.TB, path, dir string, n int) []string {
	t.Helper()
	src, err := gguf.OpenModel(path)
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	all := src.Tensors()
	var out []string
	for i := range n {
		list := all[len(all)*i/n : len(all)*(i+1)/n]
		kvs := []gguf.KV{
			{Key: "split.no", Value: gguf.U16(uint16(i))}, {Key: "split.count", Value: gguf.U16(uint16(n))},
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
		out = append(out, filepath.Join(dir, gguf.SplitName("model", i, n)))
		err := gguf.WriteFile(out[i], kvs, infos, func(j int, w io.Writer) error {
			_, err := w.Write(src.Data(list[j]))
			return err
		}, gguf.WriteOptions{})
		if err != nil {
			t.Fatal(err)
		}
	}
	return out
}

// makeNoise writes bytes between and behind tensors, as some programs do.
func makeNoise(t testing.TB, paths []string) {
	t.Helper()
	n := 0
	for _, path := range paths {
		src, err := gguf.Open(path)
		if err != nil {
			t.Fatal(err)
		}
		f, err := os.OpenFile(path, os.O_RDWR, 0)
		if err != nil {
			t.Fatal(err)
		}
		h := src.Header()
		for i, x := range h.Tensors {
			end := src.Size()
			if i+1 < len(h.Tensors) {
				end = h.DataOffset + int64(h.Tensors[i+1].Offset)
			}
			at := h.DataOffset + int64(x.Offset) + int64(len(src.TensorData(x)))
			if _, err := f.WriteAt(bytes.Repeat([]byte{0xA5}, int(end-at)), at); err != nil {
				t.Fatal(err)
			}
			n += int(end - at)
		}
		if err := errors.Join(f.Close(), src.Close()); err != nil {
			t.Fatal(err)
		}
	}
	if n == 0 {
		t.Fatal("the model has no padding")
	}
}

func (p *model) piece(i int) []byte {
	from := int64(i) * p.m.Torrent.PieceLength
	return p.content[from : from+p.m.PieceBytes(i)]
}

func (p *model) ok(i int, data []byte) bool { return bytes.Equal(data, p.piece(i)) }

func open(t testing.TB, p *model, dir string) *shelf.Shelf {
	t.Helper()
	s, err := shelf.Open(dir, p.m, shelf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func want(t testing.TB, s *shelf.Shelf, ranges ...protocol.Range) *manifest.Need {
	t.Helper()
	need, err := s.Want(ranges)
	if err != nil {
		t.Fatal(err)
	}
	return need
}

func pieces(need *manifest.Need) []int {
	var out []int
	for _, r := range need.Pieces {
		for i := r.First; i < r.Last; i++ {
			out = append(out, i)
		}
	}
	return out
}

// missing are the needed pieces that have to be fetched.
func missing(s *shelf.Shelf, need *manifest.Need) []int {
	return slices.DeleteFunc(pieces(need), s.Complete)
}

// bring fetches pieces in a random order, in chunks of a random order.
func bring(t testing.TB, p *model, s *shelf.Shelf, list []int, rnd *rand.Rand) {
	t.Helper()
	list = slices.Clone(list)
	rnd.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, i := range list {
		stage(t, p, s, i, rnd)
		if err := s.Commit(i); err != nil {
			t.Fatalf("commit %d: %v", i, err)
		}
	}
}

func stage(t testing.TB, p *model, s *shelf.Shelf, i int, rnd *rand.Rand) {
	t.Helper()
	data := p.piece(i)
	var chunks [][2]int
	for at := 0; at < len(data); {
		n := min(1+rnd.IntN(1+len(data)/2), len(data)-at)
		chunks = append(chunks, [2]int{at, at + n})
		at += n
	}
	rnd.Shuffle(len(chunks), func(i, j int) { chunks[i], chunks[j] = chunks[j], chunks[i] })
	for k, c := range chunks {
		if n, err := s.WriteAt(i, data[c[0]:c[1]], int64(c[0])); err != nil || n != c[1]-c[0] {
			t.Fatalf("write piece %d: %d, %v", i, n, err)
		}
		if k < len(chunks)-1 && len(data) > 1 {
			// Parts that are not here are an error, never zeros.
			if _, err := s.ReadAt(i, make([]byte, len(data)), 0); code(err) != protocol.CodeNotFound {
				t.Fatalf("piece %d is half there: %v", i, err)
			}
		}
	}
	got := make([]byte, len(data))
	if _, err := s.ReadAt(i, got, 0); err != nil || !bytes.Equal(got, data) {
		t.Fatalf("staged piece %d: %v", i, err)
	}
}

func code(err error) protocol.Code {
	if err == nil {
		return ""
	}
	return protocol.AsError(err).Code
}

// readsAs compares all complete pieces with the publisher's bytes.
func readsAs(t testing.TB, p *model, s *shelf.Shelf, rnd *rand.Rand) {
	t.Helper()
	for i := range p.m.Torrent.Pieces {
		data := p.piece(i)
		got := make([]byte, len(data))
		n, err := s.ReadAt(i, got, 0)
		if !s.Complete(i) {
			if code(err) != protocol.CodeNotFound {
				t.Errorf("piece %d, which is not here: %d, %v", i, n, err)
			}
			continue
		}
		if err != nil || !bytes.Equal(got, data) {
			t.Fatalf("piece %d has other bytes (%v)", i, err)
		}
		at := rnd.IntN(len(data))
		part := make([]byte, len(data)) // beyond the end
		if n, err := s.ReadAt(i, part, int64(at)); n != len(data)-at || at > 0 && err != io.EOF || !bytes.Equal(part[:n], data[at:]) {
			t.Errorf("piece %d from %d: %d, %v", i, at, n, err)
		}
	}
}
