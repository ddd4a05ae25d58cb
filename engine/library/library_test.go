package library_test

import (
	"context"
	"log/slog"
	"sync"
	"testing"

	"neuron/engine/artifact"
	"neuron/engine/library"
	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/engine/swarm"
)

// recorder is a swarm and a catalog that remember what they were told.
type recorder struct {
	mu     sync.Mutex
	wanted swarm.Wanted // guarded by mu
}

func (r *recorder) Set(w swarm.Wanted) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.wanted = w
	return nil
}

func (r *recorder) Status() swarm.Status { return swarm.Status{} }

func (r *recorder) Get(context.Context, string) (*manifest.Manifest, string, error) {
	return &manifest.Manifest{Model: "m", Name: "m"}, "/shards/m", nil
}

func (r *recorder) AnnounceURL(*manifest.Manifest) string { return "http://tracker/announce" }

// TestReleaseKeepsAdoptedModels: a model that is given up is not wanted any
// more, unless a file of this computer is seeded.
func TestReleaseKeepsAdoptedModels(t *testing.T) {
	t.Parallel()
	r := &recorder{}
	l := library.New(library.Options{Catalog: r, Swarm: r, Logger: slog.New(slog.DiscardHandler)})
	if err := l.Damaged("fetched", []string{"blk.0001.gguf"}); err != nil {
		t.Fatal(err)
	}
	if err := l.Adopt(t.Context(), &artifact.Source{ID: "m", Name: "m", Files: []string{"/models/m.gguf"}}); err != nil {
		t.Fatal(err)
	}
	if n := len(r.wanted.Models); n != 2 {
		t.Fatalf("%d models are wanted", n)
	}
	before := r.wanted.Version
	for _, id := range []protocol.ModelID{"fetched", "m", "never"} {
		if err := l.Release(id); err != nil {
			t.Fatal(err)
		}
	}
	if m := r.wanted.Models; len(m) != 1 || m[0].Model != "m" || len(m[0].Adopted) != 1 || r.wanted.Version != before+2 {
		t.Errorf("wanted after the release: %+v", r.wanted)
	}
}
