package server

import (
	"context"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/tracker-server/catalog"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/web"
)

// catalogChanged takes a new version of the catalog over into registry and
// placement.
func (c *core) catalogChanged(list []*manifest.Manifest) {
	var shapes []registry.Published
	for _, m := range list {
		shapes = append(shapes, registry.Published{Model: m.Model, Name: m.Name, Architecture: m.Architecture, Layers: m.Layers, Context: m.Context, Width: m.Width})
	}
	c.mu.Lock()
	c.reg.SetCatalog(shapes)
	failed := c.places.SetModels(list)
	c.mu.Unlock()
	for id, err := range failed {
		c.o.Logger.Error("a model of the catalog cannot be placed on nodes", "model", id.Short(), "err", err)
	}
}

// Catalog implements web.Source.
func (c *core) Catalog() []protocol.CatalogModel {
	list := c.catalog.List()
	c.mu.Lock()
	coverage := c.reg.Coverage(c.o.Now())
	c.mu.Unlock()
	out := make([]protocol.CatalogModel, 0, len(list))
	for _, p := range list {
		m := p.Description
		e := protocol.CatalogModel{
			Model: p.Model, Name: p.Name, Architecture: m.Architecture, Layers: m.Layers, Context: m.Context, Bytes: m.Size(), Files: len(m.Files),
			License: m.License, WholeOnly: m.WholeOnly, Private: p.Private, Publisher: p.Publisher, Published: p.Published,
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
		peers := c.announced.ScrapeWith(p.Hash, (*c.swarm.Load())[p.Model])
		e.Seeders, e.Leechers = peers.Seeds, peers.Leechers
		out = append(out, e)
	}
	return out
}

// File implements web.Source.
func (c *core) File(ctx context.Context, id protocol.ModelID, kind web.FileKind, token string) (web.File, error) {
	p := c.catalog.Get(id)
	if p == nil {
		return web.File{}, protocol.Errorf(protocol.CodeModelUnknown, "the model %.80q is not in the catalog", string(id))
	}
	if err := c.allowed(p, token); err != nil {
		return web.File{}, err
	}
	f := web.File{
		SHA256: p.ManifestSHA256, Private: p.Private, Published: p.Published,
		Read: func() ([]byte, error) { return c.catalog.Manifest(ctx, p) },
	}
	if kind == web.FileTorrent {
		f.SHA256 = p.TorrentSHA256
		f.Read = func() ([]byte, error) { return c.catalog.Torrent(ctx, p) }
	}
	return f, nil
}

// allowed lets everybody see a public model, and connected nodes a private one.
func (c *core) allowed(p *catalog.Entry, token string) error {
	if !p.Private {
		return nil
	}
	refused := protocol.Errorf(protocol.CodeForbidden, "the model is private: its files and peers are for nodes that are connected to this tracker")
	id, ok := c.tokens.Node(token)
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
