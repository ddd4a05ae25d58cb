package program_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"os"
	"path/filepath"
	"testing"
	"time"

	"neuron/engine/artifact/catalog"
	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/leaktest"
	"neuron/internal/publish"
	"neuron/tracker-server/datadir"
	"neuron/tracker-server/keys"
	"neuron/tracker-server/server"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

// publishGuide puts the guide model into a tracker's catalog as its publishing
// command does, beside the running tracker.
func publishGuide(t *testing.T, data string) *manifest.Manifest {
	t.Helper()
	dir, err := datadir.Share(data, true)
	if err != nil {
		t.Fatal(err)
	}
	key, err := keys.LoadOrCreate(dir)
	if err != nil {
		t.Fatal(err)
	}
	r, err := publish.Build(t.Context(), []string{guide}, publish.Options{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := manifest.Sign(r.Manifest, key)
	if err != nil {
		t.Fatal(err)
	}
	st, err := sqlite.Open(t.Context(), dir.File("tracker.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	if _, err := st.Publish(t.Context(), store.CatalogModel{
		Model: r.Manifest.Model, Name: r.Manifest.Name, InfoHash: r.InfoHash, Published: time.Now(), Manifest: s.Raw, Torrent: r.Torrent,
	}); err != nil {
		t.Fatal(err)
	}
	return r.Manifest
}

// TestCatalogOfARealTracker: an engine's client gets what was published while
// the tracker runs, trusts the pinned key only, and keeps what it got when the
// tracker is gone.
func TestCatalogOfARealTracker(t *testing.T) {
	leaktest.Check(t)
	data := t.TempDir()
	s, err := server.New(server.Options{Listen: "127.0.0.1:0", Data: data})
	if err != nil {
		t.Fatal(err)
	}
	tracker := run("tracker", s.Run)
	stopped := false
	defer func() {
		if !stopped {
			tracker.end(t)
		}
	}()
	folder := filepath.Join(t.TempDir(), "shards")
	trusted := s.Key()
	c, err := catalog.New(catalog.Options{URL: s.URL(), Dir: folder, Trusted: func() []ed25519.PublicKey { return []ed25519.PublicKey{trusted} }})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, _, err := c.Get(t.Context(), guideName); code(err) != protocol.CodeModelUnknown {
		t.Fatalf("an empty catalog: %v", err)
	}
	want := publishGuide(t, data)
	eventually(t, "the published model", func() bool {
		list, err := c.List(t.Context())
		return err == nil && len(list) == 1 && list[0].Model == want.Model && len(list[0].Replicas) == want.Layers
	})
	other, _, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	trusted = other
	if _, _, err := c.Get(t.Context(), guideName); code(err) != protocol.CodeForbidden {
		t.Errorf("signed by a stranger: %v", err)
	}
	trusted = s.Key()
	m, dir, err := c.Get(t.Context(), guideName)
	if err != nil || m.Model != want.Model {
		t.Fatal(err)
	}
	raw, err := os.ReadFile(filepath.Join(dir, catalog.ManifestFile))
	if err != nil {
		t.Fatal(err)
	}
	if signed, err := manifest.ParseSigned(raw); err != nil || !bytes.Equal(signed.Publisher, s.Key()) {
		t.Errorf("kept: %v", err)
	}
	tracker.end(t)
	stopped = true
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if m, d, err := c.Get(ctx, string(want.Model)); err != nil || m.Model != want.Model || d != dir {
		t.Errorf("without the tracker: %v", err)
	}
}
