package server

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/torrentfile"
	"neuron/tracker-server/announce"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/store"
	"neuron/tracker-server/web"
)

// catalogEvery is how soon a running tracker sees what the publishing commands
// have written.
const catalogEvery = time.Second

// sweepEvery is how often peers are forgotten that came no more.
const sweepEvery = 30 * time.Second

// keepFiles is how many bytes of manifests and torrents stay in memory, so that
// nodes that come for them do not keep the database busy. What is beyond it is
// read when somebody asks.
const keepFiles = 64 << 20

// published is one usable entry of the catalog.
type published struct {
	store.CatalogModel // with Manifest and Torrent within keepFiles
	manifest           *manifest.Manifest
	publisher          ed25519.PublicKey
	hash               announce.Hash
}

// catalog is what the store held at one version. It is never changed.
type catalog struct {
	version int64
	list    []*published // by name
	byID    map[protocol.ModelID]*published
	byHash  map[announce.Hash]*published
}

func emptyCatalog() *catalog {
	return &catalog{version: -1, byID: map[protocol.ModelID]*published{}, byHash: map[announce.Hash]*published{}}
}

// loadCatalog takes over the catalog when the store has another one. Entries
// that cannot be used are logged and left out.
func (c *core) loadCatalog(ctx context.Context) error {
	c.loading.Lock()
	defer c.loading.Unlock()
	v, err := c.store.CatalogVersion(ctx)
	have := c.catalog.Load()
	if err != nil || v == have.version {
		return err
	}
	all, err := c.store.Catalog(ctx)
	if err != nil {
		return err
	}
	next := emptyCatalog()
	next.version = v
	var shapes []registry.Published
	var manifests []*manifest.Manifest
	room := keepFiles
	for _, rec := range all {
		p := have.byID[rec.Model]
		if p == nil || p.ManifestSHA256 != rec.ManifestSHA256 || p.TorrentSHA256 != rec.TorrentSHA256 {
			if p, err = c.openEntry(ctx, rec.Model); err != nil {
				if ctx.Err() != nil {
					return err
				}
				c.o.Logger.Error("a model of the catalog cannot be used", "model", rec.Model.Short(), "err", err)
				continue
			}
		}
		q := *p
		q.CatalogModel = rec
		if n := len(p.Manifest) + len(p.Torrent); n <= room {
			q.Manifest, q.Torrent = p.Manifest, p.Torrent
			room -= n
		}
		if next.byHash[q.hash] != nil {
			c.o.Logger.Error("two models of the catalog have one torrent", "model", rec.Model.Short(), "info_hash", rec.InfoHash)
			continue
		}
		next.list = append(next.list, &q)
		next.byID[rec.Model], next.byHash[q.hash] = &q, &q
		m := q.manifest
		manifests = append(manifests, m)
		shapes = append(shapes, registry.Published{Model: m.Model, Name: m.Name, Architecture: m.Architecture, Layers: m.Layers, Context: m.Context, Width: m.Width})
	}
	c.mu.Lock()
	c.reg.SetCatalog(shapes)
	failed := c.places.setModels(manifests)
	c.mu.Unlock()
	for id, err := range failed {
		c.o.Logger.Error("a model of the catalog cannot be placed on nodes", "model", id.Short(), "err", err)
	}
	c.catalog.Store(next)
	c.o.Logger.Info("catalog", "models", len(next.list), "version", v)
	return nil
}

// openEntry reads and checks a whole entry: what nodes are told must hold.
func (c *core) openEntry(ctx context.Context, id protocol.ModelID) (*published, error) {
	rec, err := c.store.CatalogModel(ctx, id)
	if err != nil {
		return nil, err
	}
	s, err := manifest.ParseSigned(rec.Manifest)
	if err != nil {
		return nil, err
	}
	m := s.Manifest
	if m.Model != id || m.Torrent.InfoHash != rec.InfoHash || m.Torrent.Private != rec.Private {
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "the catalog entry and its manifest do not agree")
	}
	if err := torrentfile.CheckTorrent(rec.Torrent, m); err != nil {
		return nil, err
	}
	p := &published{CatalogModel: rec, manifest: m, publisher: s.Publisher}
	if _, err := hex.Decode(p.hash[:], []byte(rec.InfoHash)); err != nil {
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "info hash %.50q", rec.InfoHash)
	}
	return p, nil
}

// watchCatalog follows the store until ctx ends, and keeps the announced peers
// to it. Each failure is logged once.
func (c *core) watchCatalog(ctx context.Context) {
	t := time.NewTicker(catalogEvery)
	defer t.Stop()
	sweep := time.NewTicker(sweepEvery)
	defer sweep.Stop()
	failed := false
	for {
		select {
		case <-ctx.Done():
			return
		case <-sweep.C:
			cat := c.catalog.Load()
			c.announced.Sweep(func(h announce.Hash) bool { return cat.byHash[h] != nil })
			continue
		case <-t.C:
		}
		err := c.loadCatalog(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			c.o.Logger.Error("read the catalog; trying again", "err", err)
		}
		failed = err != nil
	}
}

// Catalog implements web.Source.
func (c *core) Catalog() []protocol.CatalogModel {
	cat := c.catalog.Load()
	c.mu.Lock()
	coverage := c.reg.Coverage(c.o.Now())
	c.mu.Unlock()
	out := make([]protocol.CatalogModel, 0, len(cat.list))
	for _, p := range cat.list {
		m := p.manifest
		e := protocol.CatalogModel{
			Model: p.Model, Name: p.Name, Architecture: m.Architecture, Layers: m.Layers, Context: m.Context, Bytes: m.Size(), Files: len(m.Files),
			License: m.License, WholeOnly: m.WholeOnly, Private: p.Private, Publisher: p.publisher, Published: p.Published,
			ManifestSHA256: p.ManifestSHA256, TorrentSHA256: p.TorrentSHA256, Replicas: make([]int, m.Layers),
		}
		if !p.Private {
			e.InfoHash, e.WebSeeds = p.InfoHash, p.WebSeeds
		}
		// The registry may be a moment ahead or behind.
		if cov, ok := coverage[p.Model]; ok && len(cov.Replicas) == m.Layers {
			e.Replicas, e.Routable, e.Fetching = cov.Replicas, cov.Routable, cov.Fetching
		}
		e.Missing = web.MissingLayers(e.Replicas)
		e.Seeders, e.Leechers = c.swarmCounts(p)
		out = append(out, e)
	}
	return out
}

// File implements web.Source.
func (c *core) File(ctx context.Context, id protocol.ModelID, kind web.FileKind, token string) (web.File, error) {
	p := c.catalog.Load().byID[id]
	if p == nil {
		return web.File{}, protocol.Errorf(protocol.CodeModelUnknown, "the model %.80q is not in the catalog", string(id))
	}
	if err := c.allowed(p, token); err != nil {
		return web.File{}, err
	}
	f := web.File{SHA256: p.ManifestSHA256, Private: p.Private, Published: p.Published}
	if kind == web.FileTorrent {
		f.SHA256 = p.TorrentSHA256
	}
	f.Read = func() ([]byte, error) {
		rec := p.CatalogModel
		if rec.Manifest == nil {
			var err error
			if rec, err = c.store.CatalogModel(ctx, id); err != nil {
				return nil, err
			}
		}
		raw, sum := rec.Manifest, rec.ManifestSHA256
		if kind == web.FileTorrent {
			raw, sum = rec.Torrent, rec.TorrentSHA256
		}
		if sum != f.SHA256 {
			return nil, protocol.Errorf(protocol.CodeUnavailable, "the model is being published again")
		}
		return raw, nil
	}
	return f, nil
}

// allowed lets everybody see a public model, and connected nodes a private one.
func (c *core) allowed(p *published, token string) error {
	if !p.Private {
		return nil
	}
	refused := protocol.Errorf(protocol.CodeForbidden, "the model is private: its files and peers are for nodes that are connected to this tracker")
	id, ok := c.tokens.node(token)
	if !ok {
		return refused
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.reg.Member(id) {
		return refused
	}
	return nil
}
