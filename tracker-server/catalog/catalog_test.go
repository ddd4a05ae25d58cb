package catalog

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/publish"
	"neuron/tracker-server/announce"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
	"neuron/tracker-server/store/storetest"
)

// guide is the bundled model as the publishing command puts it into the store.
func guide(t *testing.T, seed byte) store.CatalogModel {
	t.Helper()
	r, err := publish.Build(t.Context(), []string{"../../assets/model/guide-q8_0.gguf"}, publish.Options{Name: "guide"})
	if err != nil {
		t.Fatal(err)
	}
	s, err := manifest.Sign(r.Manifest, ed25519.NewKeyFromSeed(bytes.Repeat([]byte{seed}, 32)))
	if err != nil {
		t.Fatal(err)
	}
	return store.CatalogModel{
		Model: r.Manifest.Model, Name: "guide", InfoHash: r.InfoHash, Published: time.Unix(1_700_000_000, 0), Manifest: s.Raw, Torrent: r.Torrent,
	}
}

func publishTo(t *testing.T, db *sqlite.Store, m store.CatalogModel) {
	t.Helper()
	if _, err := db.Publish(t.Context(), m); err != nil {
		t.Fatal(err)
	}
}

func TestLoadAndFiles(t *testing.T) {
	t.Parallel()
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"))
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	var told [][]protocol.ModelID
	c := New(Options{Store: db, Logger: slog.New(slog.DiscardHandler), Changed: func(list []*manifest.Manifest) {
		ids := []protocol.ModelID{}
		for _, m := range list {
			ids = append(ids, m.Model)
		}
		told = append(told, ids)
	}})
	if c.Version() != -1 || len(c.List()) != 0 || c.Get("x") != nil {
		t.Error("a new catalog is not empty")
	}
	load := func() {
		t.Helper()
		if err := c.Load(t.Context()); err != nil {
			t.Fatal(err)
		}
	}
	m := guide(t, 1)
	publishTo(t, db, m)
	publishTo(t, db, storetest.Model(1)) // its files are nonsense
	load()
	load() // the same version: nobody is told
	if len(told) != 1 || !slices.Equal(told[0], []protocol.ModelID{m.Model}) {
		t.Fatalf("told %v", told)
	}
	e := c.Get(m.Model)
	if e == nil || c.ByHash(e.Hash) != e || len(c.List()) != 1 || e.Description.Model != m.Model {
		t.Fatalf("entry %+v", e)
	}
	check := func(what string, e *Entry, want store.CatalogModel) {
		t.Helper()
		raw, err := c.Manifest(t.Context(), e)
		if err != nil || !bytes.Equal(raw, want.Manifest) {
			t.Errorf("%s: a manifest of %d bytes, %v", what, len(raw), err)
		}
		raw, err = c.Torrent(t.Context(), e)
		if err != nil || !bytes.Equal(raw, want.Torrent) {
			t.Errorf("%s: a torrent of %d bytes, %v", what, len(raw), err)
		}
	}
	check("from memory", e, m)
	bare := *e // as beyond keepFiles
	bare.CatalogModel.Manifest, bare.CatalogModel.Torrent = nil, nil
	check("from the store", &bare, m)

	again := guide(t, 2) // another publisher: another manifest, the same torrent
	publishTo(t, db, again)
	if _, err := c.Manifest(t.Context(), &bare); !errors.Is(err, &protocol.Error{Code: protocol.CodeUnavailable}) {
		t.Errorf("while it is published again: %v", err)
	}
	load()
	check("published again", c.Get(m.Model), again)
	if bytes.Equal(c.Get(m.Model).Publisher, e.Publisher) {
		t.Error("the publisher has not changed")
	}
}

// empty is a store without models that counts how often it is asked.
type empty struct{ asked int }

func (s *empty) CatalogVersion(context.Context) (int64, error)       { s.asked++; return 0, nil }
func (*empty) Catalog(context.Context) ([]store.CatalogModel, error) { return nil, nil }
func (*empty) CatalogModel(context.Context, protocol.ModelID) (store.CatalogModel, error) {
	return store.CatalogModel{}, errors.New("no model")
}

// TestWatch: the store is asked every second, and every half a minute peers of
// other torrents are forgotten.
func TestWatch(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		s, swept := &empty{}, 0
		c := New(Options{
			Store: s, Logger: slog.New(slog.DiscardHandler), Changed: func([]*manifest.Manifest) {},
			Sweep: func(keep func(announce.Hash) bool) {
				if swept++; keep(announce.Hash{1}) {
					t.Error("a torrent that is not in the catalog is kept")
				}
			},
		})
		ctx, cancel := context.WithTimeout(t.Context(), 61500*time.Millisecond)
		defer cancel()
		c.Watch(ctx)
		if s.asked != 61 || swept != 2 || c.Version() != 0 {
			t.Errorf("asked %d times, swept %d times, version %d", s.asked, swept, c.Version())
		}
	})
}
