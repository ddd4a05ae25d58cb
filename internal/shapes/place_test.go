package shapes_test

import (
	"path/filepath"
	"testing"

	"neuron/internal/shapes"
	"neuron/llama/family"
	"neuron/llama/gguf"
)

// The header is a usable GGUF of the published size that takes next to no disk,
// and what llama/family counts of its memory is what the shape says.
func TestHeaderAgreesWithFamily(t *testing.T) {
	t.Parallel()
	for _, s := range shapes.All() {
		for _, r := range s.Recipes() {
			if !s.Placed(r) {
				continue
			}
			path := filepath.Join(t.TempDir(), "model.gguf")
			if err := s.WriteHeader(path, r); err != nil {
				t.Fatal(err)
			}
			f, err := gguf.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			sum := int64(0)
			for _, x := range f.Header().Tensors {
				n, err := x.Bytes()
				if err != nil {
					t.Fatal(err)
				}
				sum += int64(n)
			}
			if sum != s.Bytes(r) || f.Size() < sum {
				t.Errorf("%s in %s: tensors of %d bytes in a file of %d, the shape says %d", s.Name, r.Name, sum, f.Size(), s.Bytes(r))
			}
			m, err := family.Describe(f.Header())
			if err != nil {
				t.Fatal(err)
			}
			if m.WholeOnly != "" {
				t.Errorf("%s may not be cut: %s", s.Name, m.WholeOnly)
			} else {
				checkMemory(t, s, m)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		}
	}
}

func checkMemory(t *testing.T, s *shapes.Shape, m *family.Model) {
	t.Helper()
	if m.Layers != s.Layers() || m.Width() != s.Seam {
		t.Errorf("%s: %d layers and a seam of %d, the shape says %d and %d", s.Name, m.Layers, m.Width(), s.Layers(), s.Seam)
		return
	}
	const tokens = 32 << 10
	for i := range s.Layers() {
		x := m.LayerMemory(i, 2)
		got := (x.Full+x.Indexer)*tokens + x.Window*int64(min(tokens, m.WindowCells(shapes.ChunkRows))) + x.State
		if want := s.KV(i, tokens, shapes.ChunkRows); got != want {
			t.Errorf("%s, layer %d: %d bytes of memory, the shape says %d", s.Name, i, got, want)
		}
	}
}

// Every layer has a node, computers that are too small say what they cannot hold.
func TestPlace(t *testing.T) {
	t.Parallel()
	s := shapes.GLM52()
	small, _ := s.Recipe("Q2_K")
	m, err := s.Describe(t.TempDir(), small)
	if err != nil {
		t.Fatal(err)
	}
	large, err := shapes.Place(m, 64)
	if err != nil {
		t.Fatal(err)
	}
	end := 0
	for _, r := range large.Ranges {
		if r.First > end {
			t.Errorf("nobody holds layer %d", end)
		}
		end = max(end, r.Last)
	}
	if end != s.Layers() || large.Refused != "" || len(large.Ranges) < 5 || len(large.Ranges) > 12 {
		t.Errorf("%+v", large)
	}
	fine, _ := s.Recipe("Q4_K")
	if m, err = s.Describe(t.TempDir(), fine); err != nil {
		t.Fatal(err)
	}
	if r, err := shapes.Place(m, 8); err != nil || r.Refused == "" {
		t.Errorf("8 GB hold layers of 5.9 GB: %+v %v", r, err)
	}
}
