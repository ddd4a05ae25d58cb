package storetest

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// Model is a catalog entry with made-up content. Tests of other packages use
// it where nobody looks inside the manifest.
func Model(i int) store.CatalogModel {
	return store.CatalogModel{
		Model: protocol.ModelID(fmt.Sprintf("%064x", i)), Name: fmt.Sprintf("model %d", i), InfoHash: fmt.Sprintf("%040x", i),
		Private: i%2 == 1, WebSeeds: []string{"https://seed.example/a b"}, Published: t0.Add(time.Duration(i) * time.Second),
		Manifest: []byte(fmt.Sprintf("manifest %d\x00\xff", i)), Torrent: []byte(fmt.Sprintf("d4:infod1:xi%deee", i)),
	}
}

func publish(t *testing.T, s store.Store, m store.CatalogModel) bool {
	t.Helper()
	changed, err := s.Publish(t.Context(), m)
	must(t, err)
	return changed
}

func version(t *testing.T, s store.Store) int64 {
	t.Helper()
	v, err := s.CatalogVersion(t.Context())
	must(t, err)
	return v
}

func isUnknown(err error) bool {
	return errors.Is(err, &protocol.Error{Code: protocol.CodeModelUnknown})
}

func catalog(t *testing.T, open Opener) {
	s := open(t)
	if all, err := s.Catalog(t.Context()); err != nil || len(all) != 0 {
		t.Fatalf("a new catalog: %v, %v", all, err)
	}
	v0 := version(t, s)
	for _, i := range []int{2, 1} {
		if !publish(t, s, Model(i)) {
			t.Errorf("model %d was there already", i)
		}
	}
	v1 := version(t, s)
	if v1 <= v0 {
		t.Errorf("version %d after %d", v1, v0)
	}
	s = reopen(t, s, open)
	again := Model(1)
	again.Published = t0.Add(time.Hour)
	if publish(t, s, again) || version(t, s) != v1 {
		t.Error("the same content counts as a change")
	}
	got, err := s.CatalogModel(t.Context(), Model(1).Model)
	must(t, err)
	want := Model(1)
	must(t, want.Seal())
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	all, err := s.Catalog(t.Context())
	must(t, err)
	if len(all) != 2 || all[0].Name != "model 1" || all[1].Name != "model 2" || all[0].Manifest != nil || all[0].TorrentSHA256 != want.TorrentSHA256 {
		t.Errorf("list: %+v", all)
	}
	for name, change := range map[string]func(*store.CatalogModel){
		"name":      func(m *store.CatalogModel) { m.Name = "other" },
		"private":   func(m *store.CatalogModel) { m.Private = !m.Private },
		"web seeds": func(m *store.CatalogModel) { m.WebSeeds = nil },
		"manifest":  func(m *store.CatalogModel) { m.Manifest = []byte("other") },
		"torrent":   func(m *store.CatalogModel) { m.Torrent = []byte("other") },
		"info hash": func(m *store.CatalogModel) { m.InfoHash = strings.Repeat("f", 40) },
	} {
		m := Model(2)
		change(&m)
		before := version(t, s)
		if !publish(t, s, m) || version(t, s) <= before {
			t.Errorf("another %s is no change", name)
		}
		publish(t, s, Model(2))
	}
	taken := Model(3)
	taken.Name = Model(1).Name
	if _, err := s.Publish(t.Context(), taken); !errors.Is(err, &protocol.Error{Code: protocol.CodeInvalidRequest}) {
		t.Errorf("a name that is taken: %v", err)
	}
	must(t, s.Unpublish(t.Context(), Model(2).Model))
	if err := s.Unpublish(t.Context(), Model(2).Model); !isUnknown(err) {
		t.Errorf("unpublish twice: %v", err)
	}
	if _, err := s.CatalogModel(t.Context(), Model(2).Model); !isUnknown(err) {
		t.Errorf("an unpublished model: %v", err)
	}
	must(t, s.Prune(t.Context(), t0.Add(24*time.Hour))) // models do not age
	if all, err := s.Catalog(t.Context()); err != nil || len(all) != 1 {
		t.Errorf("at the end: %v, %v", all, err)
	}
	must(t, s.Close())
}

func hostileCatalog(t *testing.T, open Opener) {
	s := open(t)
	for name, change := range map[string]func(*store.CatalogModel){
		"no id":           func(m *store.CatalogModel) { m.Model = "" },
		"no name":         func(m *store.CatalogModel) { m.Name = "" },
		"long name":       func(m *store.CatalogModel) { m.Name = strings.Repeat("x", store.MaxText+1) },
		"no manifest":     func(m *store.CatalogModel) { m.Manifest = nil },
		"huge manifest":   func(m *store.CatalogModel) { m.Manifest = make([]byte, store.MaxManifest+1) },
		"no torrent":      func(m *store.CatalogModel) { m.Torrent = nil },
		"huge torrent":    func(m *store.CatalogModel) { m.Torrent = make([]byte, store.MaxTorrent+1) },
		"info hash":       func(m *store.CatalogModel) { m.InfoHash = strings.Repeat("F", 40) },
		"many web seeds":  func(m *store.CatalogModel) { m.WebSeeds = make([]string, store.MaxWebSeeds+1) },
		"empty web seeds": func(m *store.CatalogModel) { m.WebSeeds = []string{""} },
	} {
		m := Model(1)
		change(&m)
		if _, err := s.Publish(t.Context(), m); !errors.Is(err, &protocol.Error{Code: protocol.CodeInvalidRequest}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if all, err := s.Catalog(t.Context()); err != nil || len(all) != 0 {
		t.Errorf("something was stored: %v, %v", all, err)
	}
	must(t, s.Close())
}

// twoOwners opens the database twice, as the tracker and the publishing
// command do, and writes through both at the same time.
func twoOwners(t *testing.T, open Opener) {
	const each = 20
	a, b := open(t), open(t)
	var wg sync.WaitGroup
	for owner, s := range []store.Store{a, b} {
		wg.Go(func() {
			for i := range each {
				if _, err := s.Publish(context.Background(), Model(2*i+owner)); err != nil {
					t.Errorf("owner %d: %v", owner, err)
				}
				if _, err := s.NodeConnected(context.Background(), node(owner)); err != nil {
					t.Errorf("owner %d: %v", owner, err)
				}
			}
		})
	}
	wg.Wait()
	for _, s := range []store.Store{a, b} {
		if all, err := s.Catalog(t.Context()); err != nil || len(all) != 2*each {
			t.Errorf("%d models, %v", len(all), err)
		}
		if v := version(t, s); v < 2*each {
			t.Errorf("version %d", v)
		}
	}
	must(t, b.Close())
	if !publish(t, a, Model(1000)) {
		t.Error("after the other owner has closed")
	}
	must(t, a.Close())
}
