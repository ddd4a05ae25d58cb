package parity_test

import (
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"neuron/llama"
	"neuron/llama/archs"
	"neuron/llama/family"
	"neuron/llama/gguf"
	"neuron/llama/parity"
)

func loadNative(t testing.TB) {
	t.Helper()
	dir, err := llama.NativeDir()
	if err != nil {
		t.Fatal(err)
	}
	if err := llama.Load(dir); err != nil {
		t.Fatal(err)
	}
}

// write makes the small random model of that name.
func write(t testing.TB, name string, typ gguf.Type) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "m.gguf")
	if err := archs.Write(path, name, typ, 7); err != nil {
		t.Fatal(err)
	}
	return path
}

// TestOneOfEachKind runs a model of each way to cut: all others are for the
// families runner, which takes an hour.
func TestOneOfEachKind(t *testing.T) {
	loadNative(t)
	for _, tt := range []struct {
		name      string
		sidebands []string
		pads      bool
		rewinds   bool
	}{
		{"llama", nil, false, true},                 // hidden rows as embeddings
		{"glm4", nil, false, true},                  // overwriting what was looked up
		{"smollm3", nil, true, true},                // pads for the index
		{"nemotron_h", nil, true, false},            // pads for a kind of memory
		{"deepseek4", []string{"ids"}, true, false}, // several streams, ids
		{"glm-dsa", []string{"top_k"}, true, true},  // chosen positions
	} {
		t.Run(tt.name, func(t *testing.T) {
			r, err := parity.Check(t.Context(), write(t, tt.name, gguf.TypeQ4_0), parity.Options{Prompt: 70, Steps: 3, Cuts: 3})
			if err != nil {
				t.Fatal(err)
			}
			if !r.Passed() || r.MaxDiff != 0 || len(r.Cuts) < 2 {
				t.Errorf("%d routes, cuts %v: %s", r.Routes, r.Cuts, strings.Join(r.Failures, "\n"))
			}
			if !slices.Equal(r.Sidebands, tt.sidebands) || (r.Pads > 0) != tt.pads || r.Rewinds != tt.rewinds {
				t.Errorf("sidebands %v, %d pads, rewinds %v", r.Sidebands, r.Pads, r.Rewinds)
			}
		})
	}
}

// TestRefusedModelIsNotCompared: the report says why.
func TestRefusedModelIsNotCompared(t *testing.T) {
	loadNative(t)
	r, err := parity.Check(t.Context(), write(t, "talkie", gguf.TypeF32), parity.Options{})
	if err != nil || r.Passed() || r.WholeOnly == "" || r.Routes != 0 {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := parity.Check(t.Context(), filepath.Join(t.TempDir(), "no.gguf"), parity.Options{}); err == nil {
		t.Error("a missing file is no error")
	}
}

// TestEveryCertifiedFamilyHasAModel holds the list against the models that the
// families runner checks it with, and the table against the library's
// architectures.
func TestEveryCertifiedFamilyHasAModel(t *testing.T) {
	known := map[string]bool{}
	for _, m := range archs.List() {
		known[m.Arch] = true
	}
	for _, arch := range family.Certified() {
		if !known[arch] {
			t.Errorf("%s is certified and no model of it is checked", arch)
		}
	}
	for arch := range known {
		if _, ok := family.Lookup(arch); !ok {
			t.Errorf("%s has a model and no entry in the table", arch)
		}
	}
	if n := len(family.Certified()); n < 90 {
		t.Errorf("%d families are certified", n)
	}
}

// TestADifferenceShows holds the harness itself: stages of a model with other
// weights are found.
func TestADifferenceShows(t *testing.T) {
	loadNative(t)
	path, other := write(t, "llama", gguf.TypeF32), filepath.Join(t.TempDir(), "m.gguf")
	if err := archs.Write(other, "llama", gguf.TypeF32, 8); err != nil {
		t.Fatal(err)
	}
	r, err := parity.Check(t.Context(), path, parity.Options{Prompt: 10, Steps: 1, Cuts: 1, Quick: true, Stages: other})
	if err != nil {
		t.Fatal(err)
	}
	if r.Passed() || r.MaxDiff == 0 {
		t.Errorf("stages of another model pass: %+v", r)
	}
}
