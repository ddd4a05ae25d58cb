package artifact_test

import (
	"errors"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"neuron/engine/artifact"
	"neuron/engine/artifact/artifacttest"
	"neuron/engine/artifact/shelf"
	"neuron/engine/manifest"
	"neuron/engine/planner"
	"neuron/engine/protocol"
	"neuron/internal/publish"
	"neuron/llama"
	"neuron/llama/archs"
	"neuron/llama/cut"
	"neuron/llama/exec"
	"neuron/llama/gguf"
)

func loadLibrary(t *testing.T) {
	t.Helper()
	dir, err := llama.NativeDir()
	if err == nil {
		err = llama.Load(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestPredictingBlocks publishes models with a block that predicts further
// tokens. Nodes hold ranges by the manifest, without any of that block, and
// answer together as the whole file does.
func TestPredictingBlocks(t *testing.T) {
	loadLibrary(t)
	for _, arch := range []string{"glm4moe/mtp", "deepseek2/mtp", "qwen35moe/mtp", "glm-dsa/mtp"} {
		t.Run(arch, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := archs.Write(path, arch, gguf.TypeQ8_0, 21); err != nil {
				t.Fatal(err)
			}
			r, err := publish.Build(t.Context(), []string{path}, publish.Options{})
			if err != nil {
				t.Fatal(err)
			}
			m, whole := r.Manifest, inspect(t, path, "")
			all := protocol.Range{Last: m.Layers}
			sizes(t, m, whole)
			at := m.Layers / 2
			for m.CheckRange(protocol.Range{Last: at}) != nil || m.CheckRange(protocol.Range{First: at, Last: m.Layers}) != nil {
				at++
			}
			want := answers(t, whole, all)
			got := answers(t, fetched(t, path, m, protocol.Range{Last: at}), protocol.Range{Last: at},
				fetched(t, path, m, protocol.Range{First: at, Last: m.Layers}))
			compareAnswers(t, "two nodes", want, got)
			compareAnswers(t, "one node with all layers", want, answers(t, fetched(t, path, m, all), all))
		})
	}
}

// sizes compares what layers weigh in all places that say so.
func sizes(t *testing.T, m *manifest.Manifest, whole *artifact.Source) {
	t.Helper()
	all := protocol.Range{Last: m.Layers}
	var sum, unused int64
	for i := range m.Tensors {
		block, ok := manifest.BlockOf(m.Tensors[i].Name)
		if behind := ok && block == m.Layers; behind != (m.Tensors[i].Use == manifest.UseUnused) {
			t.Errorf("%s has use %s in a model of %d layers", m.Tensors[i].Name, m.Tensors[i].Use, m.Layers)
		} else if behind {
			unused += m.Tensors[i].Bytes
			continue
		}
		sum += m.Tensors[i].Bytes
	}
	if m.WholeOnly != "" || m.Layers != whole.Model.Layers || len(m.Cuts) == 0 || unused == 0 || unused != m.UseBytes(manifest.UseUnused) {
		t.Fatalf("%d layers of %d, cuts %v, whole only %q, unused %d", m.Layers, whole.Model.Layers, m.Cuts, m.WholeOnly, unused)
	}
	layers := int64(0)
	for _, n := range m.LayerBytes() {
		layers += n
	}
	for _, u := range []manifest.Use{manifest.UseHead, manifest.UseTail, manifest.UseEnds, manifest.UseAll} {
		layers += m.UseBytes(u)
	}
	local := artifact.Shard{Source: whole, Range: all}
	if layers != sum || m.WeightBytes(all) != sum || whole.Weight != sum || local.Weight() != sum {
		t.Errorf("weights %d by use, %d by the manifest, %d and %d of the file, want %d", layers, m.WeightBytes(all), whole.Weight, local.Weight(), sum)
	}
	model, err := planner.ModelOf(m)
	if err != nil {
		t.Fatal(err)
	}
	p := model.Parts
	planned := p.All + p.Ends + p.Head + p.Tail
	for _, n := range p.Layers {
		planned += n
	}
	if planned != sum {
		t.Errorf("the planner counts %d bytes, want %d", planned, sum)
	}
}

// fetched brings what the manifest says that layers x need, and no other piece,
// into a folder.
func fetched(t *testing.T, path string, m *manifest.Manifest, x protocol.Range) *artifact.Source {
	t.Helper()
	dir := t.TempDir()
	s, err := shelf.Open(dir, m, shelf.Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	need, err := s.Want([]protocol.Range{x})
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	brought := map[int]bool{}
	for _, run := range need.Pieces {
		for p := run.First; p < run.Last; p++ {
			data := make([]byte, m.PieceBytes(p))
			if _, err := f.ReadAt(data, int64(p)*m.Torrent.PieceLength); err != nil {
				t.Fatal(err)
			}
			if _, err := s.WriteAt(p, data, 0); err != nil {
				t.Fatal(err)
			}
			if err := s.Commit(p); err != nil {
				t.Fatal(err)
			}
			brought[p] = true
		}
	}
	if err := s.Flush(t.Context()); err != nil {
		t.Fatal(err)
	}
	spared := 0
	for i := range m.Tensors {
		if y := &m.Tensors[i]; y.Use == manifest.UseUnused {
			run := m.PiecesOf(manifest.Extent{File: y.File, Offset: y.Offset, Bytes: y.Bytes})
			for p := run.First; p < run.Last; p++ {
				if !brought[p] {
					spared++
				}
			}
			if slices.Contains(need.Tensors, i) {
				t.Errorf("layers %s need %s", x, y.Name)
			}
			if _, err := os.Stat(filepath.Join(dir, cut.FileOf(y.Name))); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%s has a file: %v", y.Name, err)
			}
		}
	}
	if spared == 0 {
		t.Errorf("layers %s: all pieces of what no stage uses were fetched", x)
	}
	held, err := artifact.Held(dir, m)
	if err != nil || !slices.Equal(held, need.Tensors) {
		t.Errorf("holds %v, needs %v (%v)", held, need.Tensors, err)
	}
	src, err := artifact.OpenFolder(dir, m)
	if err != nil {
		t.Fatal(err)
	}
	if want := m.WeightBytes(protocol.Range{Last: m.Layers}); src.Weight != want {
		t.Errorf("the source weighs %d, want %d", src.Weight, want)
	}
	return src
}

// answers runs a prompt and some steps through src's layers r and, where there
// is a tail, on through the rest.
func answers(t *testing.T, src *artifact.Source, r protocol.Range, tail ...*artifact.Source) (out [][]float32) {
	t.Helper()
	layers := src.Model.Layers
	pools := []halfPool{halfStage(t, src, r.First, r.Last)}
	for _, s := range tail {
		pools = append(pools, halfStage(t, s, r.Last, layers))
	}
	for _, p := range pools {
		if err := p.Clear(0); err != nil {
			t.Fatal(err)
		}
	}
	pos := 0
	run := func(n int) {
		w := exec.Work{Pos: int32(pos), AllLogits: len(tail) == 0}
		ids := make([]int32, n)
		for i := range ids {
			ids[i] = int32((pos+i)*53%250) + 4
		}
		w.IDs = ids
		res, err := pools[0].Run(pools[0].last, []exec.Work{w})
		if err != nil {
			t.Fatal(err)
		}
		if len(tail) > 0 {
			w = exec.Work{Pos: int32(pos), Hidden: slices.Clone(res.Hidden), AllLogits: true}
			if side := src.Model.Sideband(r.Last); side.TopK > 0 {
				w.TopK = slices.Clone(res.TopK)
			} else if side.IDs {
				w.IDs = ids
			}
			if res, err = pools[1].Run(layers, []exec.Work{w}); err != nil {
				t.Fatal(err)
			}
		}
		for i := range n {
			l, err := pools[len(pools)-1].Logits(res.Rows[0] + i)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, slices.Clone(l))
		}
		pos += n
	}
	run(halfRows)
	for range 4 {
		run(1)
	}
	return out
}

// compareAnswers holds logits to those of the whole file, but for the rounding
// of kernels that differ with where weights lie.
func compareAnswers(t *testing.T, what string, want, got [][]float32) {
	t.Helper()
	worst, spread := 0.0, 0.0
	for i := range want {
		for k, v := range want[i] {
			spread = max(spread, math.Abs(float64(v)))
			d := math.Abs(float64(v) - float64(got[i][k]))
			if math.IsNaN(d) {
				t.Fatalf("%s: not a number in row %d", what, i)
			}
			worst = max(worst, d)
		}
	}
	t.Logf("%s: largest difference %g of %g", what, worst, spread)
	if worst > 1e-5*spread || spread == 0 {
		t.Errorf("%s: logits differ by %g of %g", what, worst, spread)
	}
}

// TestRefusedForTheLibrary: files over which the library would end the process
// reach it neither whole nor as parts, and are not published.
func TestRefusedForTheLibrary(t *testing.T) {
	loadLibrary(t)
	dir := t.TempDir()
	good, bare, plm := filepath.Join(dir, "codeshell.gguf"), filepath.Join(dir, "bare.gguf"), filepath.Join(dir, "plm.gguf")
	if err := archs.Write(good, "codeshell", gguf.TypeQ4_0, 3); err != nil {
		t.Fatal(err)
	}
	artifacttest.Rewrite(t, good, bare, "codeshell", func(name string) bool { return name != "token_embd.weight" })
	artifacttest.Rewrite(t, good, plm, "plm", func(string) bool { return true })
	inspect(t, good, "")
	for path, text := range map[string]string{bare: "without token_embd.weight", plm: "flash attention"} {
		_, err := artifact.Inspect(t.Context(), path, "", quiet)
		if code(err) != protocol.CodeUnsupported || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", path, err)
		}
		_, err = publish.Build(t.Context(), []string{path}, publish.Options{})
		if code(err) != protocol.CodeUnsupported || !strings.Contains(err.Error(), text) {
			t.Errorf("publish %s: %v", path, err)
		}
		m, err := gguf.OpenModel(path)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := cut.Import(t.Context(), m, "x", filepath.Join(dir, "cut"), 0, 4, nil); err == nil {
			t.Errorf("%s was cut", path)
		}
		if err := m.Close(); err != nil {
			t.Error(err)
		}
		// Published by another build, to be served whole.
		folder := filepath.Dir(path)
		_, err = artifact.OpenFolder(folder, &manifest.Manifest{Name: "x", WholeOnly: "why", Files: []manifest.File{{Name: filepath.Base(path)}}})
		if code(err) != protocol.CodeUnsupported {
			t.Errorf("a folder with %s: %v", path, err)
		}
	}
}
