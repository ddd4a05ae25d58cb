// Package catalog is the tracker's picture of the published models: it follows
// the store, checks each entry as strictly as nodes will, and gives out the
// files. Who may see a private model is for the caller to say.
//
// Only the tracker's server imports it. It knows no node and no session.
package catalog

import (
	"context"
	"crypto/ed25519"
	"encoding/hex"
	"log/slog"
	"sync"
	"sync/atomic"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/torrentfile"
	"neuron/tracker-server/announce"
	"neuron/tracker-server/store"
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

// Entry is one usable model of the catalog. It is never changed.
type Entry struct {
	store.CatalogModel // with Manifest and Torrent within keepFiles
	Description        *manifest.Manifest
	Publisher          ed25519.PublicKey
	Hash               announce.Hash
}

// Store is what a catalog reads; package store says what the methods do.
type Store interface {
	CatalogVersion(ctx context.Context) (int64, error)
	Catalog(ctx context.Context) ([]store.CatalogModel, error)
	CatalogModel(ctx context.Context, id protocol.ModelID) (store.CatalogModel, error)
}

// Options of New; all are required.
type Options struct {
	Store Store
	// Changed is given the manifests of a new version before anybody else sees
	// it. It may be called from Load and from Watch, one call at a time.
	Changed func([]*manifest.Manifest)
	// Sweep is called every half a minute by Watch: keep says which torrents the
	// catalog has.
	Sweep  func(keep func(announce.Hash) bool)
	Logger *slog.Logger
}

// Catalog follows the store. It is safe for concurrent use.
type Catalog struct {
	o       Options
	loading sync.Mutex // orders the loads
	now     atomic.Pointer[content]
}

// content is what the store held at one version. It is never changed.
type content struct {
	version int64
	list    []*Entry // by name
	byID    map[protocol.ModelID]*Entry
	byHash  map[announce.Hash]*Entry
}

func nothing() *content {
	return &content{version: -1, byID: map[protocol.ModelID]*Entry{}, byHash: map[announce.Hash]*Entry{}}
}

// New returns an empty catalog: Load fills it, Watch keeps it so.
func New(o Options) *Catalog {
	c := &Catalog{o: o}
	c.now.Store(nothing())
	return c
}

// List is the catalog, by name.
func (c *Catalog) List() []*Entry { return c.now.Load().list }

// Get is a model of the catalog, or nil.
func (c *Catalog) Get(id protocol.ModelID) *Entry { return c.now.Load().byID[id] }

// ByHash is the model of a torrent, or nil.
func (c *Catalog) ByHash(h announce.Hash) *Entry { return c.now.Load().byHash[h] }

// Version is the store's version that was loaded last, -1 before the first.
func (c *Catalog) Version() int64 { return c.now.Load().version }

// Load takes over the catalog when the store has another one. Entries
// that cannot be used are logged and left out.
func (c *Catalog) Load(ctx context.Context) error {
	c.loading.Lock()
	defer c.loading.Unlock()
	v, err := c.o.Store.CatalogVersion(ctx)
	have := c.now.Load()
	if err != nil || v == have.version {
		return err
	}
	all, err := c.o.Store.Catalog(ctx)
	if err != nil {
		return err
	}
	next := nothing()
	next.version = v
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
		if next.byHash[q.Hash] != nil {
			c.o.Logger.Error("two models of the catalog have one torrent", "model", rec.Model.Short(), "info_hash", rec.InfoHash)
			continue
		}
		next.list = append(next.list, &q)
		next.byID[rec.Model], next.byHash[q.Hash] = &q, &q
		manifests = append(manifests, q.Description)
	}
	c.o.Changed(manifests)
	c.now.Store(next)
	c.o.Logger.Info("catalog", "models", len(next.list), "version", v)
	return nil
}

// openEntry reads and checks a whole entry: what nodes are told must hold.
func (c *Catalog) openEntry(ctx context.Context, id protocol.ModelID) (*Entry, error) {
	rec, err := c.o.Store.CatalogModel(ctx, id)
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
	p := &Entry{CatalogModel: rec, Description: m, Publisher: s.Publisher}
	if _, err := hex.Decode(p.Hash[:], []byte(rec.InfoHash)); err != nil {
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "info hash %.50q", rec.InfoHash)
	}
	return p, nil
}

// Watch follows the store until ctx ends, and keeps the announced peers
// to it. Each failure is logged once.
func (c *Catalog) Watch(ctx context.Context) {
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
			cat := c.now.Load()
			c.o.Sweep(func(h announce.Hash) bool { return cat.byHash[h] != nil })
			continue
		case <-t.C:
		}
		err := c.Load(ctx)
		if err != nil && !failed && ctx.Err() == nil {
			c.o.Logger.Error("read the catalog; trying again", "err", err)
		}
		failed = err != nil
	}
}

// Manifest reads the signed manifest of e, Torrent its torrent. Code: unavailable
// when the model is being published again.
func (c *Catalog) Manifest(ctx context.Context, e *Entry) ([]byte, error) {
	rec, err := c.files(ctx, e)
	if err != nil {
		return nil, err
	}
	return same(rec.Manifest, rec.ManifestSHA256, e.ManifestSHA256)
}

// Torrent is described at Manifest.
func (c *Catalog) Torrent(ctx context.Context, e *Entry) ([]byte, error) {
	rec, err := c.files(ctx, e)
	if err != nil {
		return nil, err
	}
	return same(rec.Torrent, rec.TorrentSHA256, e.TorrentSHA256)
}

// files is e's record with its files, out of memory or of the store.
func (c *Catalog) files(ctx context.Context, e *Entry) (store.CatalogModel, error) {
	if e.CatalogModel.Manifest != nil {
		return e.CatalogModel, nil
	}
	return c.o.Store.CatalogModel(ctx, e.Model)
}

func same(raw []byte, sum, want string) ([]byte, error) {
	if sum != want {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the model is being published again")
	}
	return raw, nil
}
