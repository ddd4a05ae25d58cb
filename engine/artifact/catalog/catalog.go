// Package catalog is the engine's client of the tracker's catalog: what models
// there are, and each one's signed manifest and torrent, checked and kept in
// the model's folder.
//
// What the tracker answers is hostile until checked: a manifest counts only
// with the signature of a key that this node trusts, a torrent only when it
// describes the manifest's files. The kept copy serves while the tracker is
// away. engine/program imports the package; it knows no BitTorrent and no
// shard files besides the two that it writes.
package catalog

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/proxy"
	"neuron/internal/torrentfile"
)

// Options of a Client.
type Options struct {
	// URL is the tracker's: http, https, ws or wss.
	URL string
	// Dir holds a folder per model.
	Dir string
	// Trusted are the keys that may sign manifests, asked for at each use.
	Trusted func() []ed25519.PublicKey
	// Token opens private models; nil or "": none.
	Token func() string
	// TLS is for https; nil takes the system's roots.
	TLS    *tls.Config
	Logger *slog.Logger
}

// Client is safe for concurrent use.
type Client struct {
	o    Options
	base string // without a trailing slash
	http *http.Client
}

// New checks o and connects to nothing.
func New(o Options) (*Client, error) {
	base, err := BaseURL(o.URL)
	if err != nil {
		return nil, err
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	t := &http.Transport{
		Proxy: proxy.For, TLSClientConfig: o.TLS, TLSHandshakeTimeout: 10 * time.Second, ResponseHeaderTimeout: answerTimeout,
		MaxIdleConns: 2, IdleConnTimeout: 15 * time.Second, MaxResponseHeaderBytes: 64 << 10,
		// The limits count what arrives, so nothing may be unpacked behind them.
		DisableCompression: true,
	}
	return &Client{o: o, base: base, http: &http.Client{Transport: t, CheckRedirect: noRedirect}}, nil
}

// Close drops idle connections.
func (c *Client) Close() { c.http.CloseIdleConnections() }

// BaseURL is the address of a tracker's HTTP faces, without a trailing slash,
// from any form of its address that the control channel takes. Error:
// invalid_request.
func BaseURL(tracker string) (string, error) {
	u, err := url.Parse(strings.TrimSpace(tracker))
	if err != nil || u.Host == "" {
		return "", protocol.Errorf(protocol.CodeInvalidRequest, "tracker address %.200q is not a URL", tracker)
	}
	switch u.Scheme {
	case "ws":
		u.Scheme = "http"
	case "wss":
		u.Scheme = "https"
	case "http", "https":
	default:
		return "", protocol.Errorf(protocol.CodeInvalidRequest, "tracker address %.200q: want http, https, ws or wss", tracker)
	}
	u.RawQuery, u.Fragment = "", ""
	return strings.TrimSuffix(strings.TrimSuffix(u.String(), "/"), "/v1/nodes"), nil
}

// AnnounceURL is where the tracker answers BitTorrent clients. That of a
// private model holds this node's token, which is a secret.
func (c *Client) AnnounceURL(m *manifest.Manifest) string {
	if t := c.token(); m.Torrent.Private && t != "" {
		return c.base + "/announce/" + url.PathEscape(t)
	}
	return c.base + "/announce"
}

func (c *Client) token() string {
	if c.o.Token == nil {
		return ""
	}
	return c.o.Token()
}

// maxModels bounds a list.
const maxModels = 10_000

// List asks for all models. Entries that are not well formed are left out.
// Errors: unavailable, timeout, rate_limited.
func (c *Client) List(ctx context.Context) ([]protocol.CatalogModel, error) {
	raw, err := c.get(ctx, "/v1/catalog", maxList)
	if err != nil {
		return nil, err
	}
	return parseList(raw)
}

func parseList(raw []byte) ([]protocol.CatalogModel, error) {
	var list protocol.Catalog
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the tracker's catalog is malformed: %w", err)
	}
	if len(list.Models) > maxModels {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "the tracker's catalog has %d models", len(list.Models))
	}
	return slices.DeleteFunc(list.Models, func(m protocol.CatalogModel) bool { return !wellFormed(&m) }), nil
}

func wellFormed(m *protocol.CatalogModel) bool {
	_, err := protocol.ParseModelID(string(m.Model))
	return err == nil && manifest.SafeName(m.Name) && m.Layers > 0 && m.Layers <= manifest.MaxLayers && len(m.Replicas) <= m.Layers && m.Bytes > 0 &&
		isHash(m.ManifestSHA256) && isHash(m.TorrentSHA256)
}

func isHash(s string) bool {
	return len(s) == 64 && strings.Trim(s, "0123456789abcdef") == ""
}

// Find asks for one model, by id or name. Errors: model_not_found, and those
// of List.
func (c *Client) Find(ctx context.Context, ref string) (*protocol.CatalogModel, error) {
	list, err := c.List(ctx)
	if err != nil {
		return nil, err
	}
	i := slices.IndexFunc(list, func(m protocol.CatalogModel) bool { return string(m.Model) == ref })
	if i < 0 {
		i = slices.IndexFunc(list, func(m protocol.CatalogModel) bool { return m.Name == ref })
	}
	if i < 0 {
		return nil, protocol.Errorf(protocol.CodeModelUnknown, "the tracker's catalog has no model %.100q", ref)
	}
	return &list[i], nil
}

// Get finds a model by id or name, gets its manifest and torrent, checks them
// and keeps them in the model's folder dir. A kept copy that the tracker still
// has is not fetched again. While the tracker cannot be asked, or what it has
// now cannot be used, a kept copy serves, checked like a new one. Errors:
// model_not_found, model_invalid (what the tracker has is not what it should
// be), forbidden (nobody whom this node trusts has signed it, or it is private),
// unavailable, timeout, rate_limited, disk_full, data_folder.
func (c *Client) Get(ctx context.Context, ref string) (m *manifest.Manifest, dir string, err error) {
	m, dir, err = c.ask(ctx, ref)
	if err == nil || ctx.Err() != nil || errors.Is(err, &protocol.Error{Code: protocol.CodeModelUnknown}) {
		return m, dir, err
	}
	k := c.kept(ref)
	if k == nil {
		return nil, "", err
	}
	c.o.Logger.Warn("The tracker's manifest cannot be had, the kept one is used", "model", k.manifest.Name, "error", err)
	return k.manifest, k.dir, nil
}

func (c *Client) ask(ctx context.Context, ref string) (*manifest.Manifest, string, error) {
	for again := true; ; again = false {
		e, err := c.Find(ctx, ref)
		if err != nil {
			return nil, "", err
		}
		if k := c.kept(string(e.Model)); k != nil && k.manifestSHA256 == e.ManifestSHA256 && k.torrentSHA256 == e.TorrentSHA256 {
			return k.manifest, k.dir, nil
		}
		m, dir, err := c.fetch(ctx, e)
		// Somebody may have published the model again since the list.
		if again && errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
			continue
		}
		return m, dir, err
	}
}

// fetch gets, checks and keeps the files of one entry.
func (c *Client) fetch(ctx context.Context, e *protocol.CatalogModel) (*manifest.Manifest, string, error) {
	path := "/v1/models/" + string(e.Model) + "/"
	raw, err := c.get(ctx, path+"manifest?sha256="+e.ManifestSHA256, manifest.MaxBytes)
	if err != nil {
		return nil, "", err
	}
	m, err := c.check(raw)
	if err != nil {
		return nil, "", err
	}
	if m.Model != e.Model {
		return nil, "", protocol.Errorf(protocol.CodeModelInvalid, "a manifest of model %s where %s was asked for", m.Model.Short(), e.Model.Short())
	}
	torrent, err := c.get(ctx, path+"torrent?sha256="+e.TorrentSHA256, torrentfile.MaxBytes)
	if err != nil {
		return nil, "", err
	}
	if err := torrentfile.CheckTorrent(torrent, m); err != nil {
		return nil, "", err
	}
	dir, err := c.keep(m, raw, torrent)
	return m, dir, err
}

// check reads a signed manifest and wants a trusted signature.
func (c *Client) check(raw []byte) (*manifest.Manifest, error) {
	s, err := manifest.ParseSigned(raw)
	if err != nil {
		return nil, err
	}
	var trusted []ed25519.PublicKey
	if c.o.Trusted != nil {
		trusted = c.o.Trusted()
	}
	if !slices.ContainsFunc(trusted, func(k ed25519.PublicKey) bool { return s.Publisher.Equal(k) }) {
		return nil, protocol.Errorf(protocol.CodeForbidden, "the manifest of %s is signed by the key %x, which this node does not trust", s.Manifest.Name, []byte(s.Publisher))
	}
	return s.Manifest, nil
}
