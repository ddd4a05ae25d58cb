package server

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"encoding/json"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/publish"
	"neuron/tracker-server/operator"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/standing"
	"neuron/tracker-server/store"
)

var _ operator.Network = (*core)(nil)

// bannedOwnersEvery is how soon a node is sent away that came to a banned owner
// while it was connected.
const bannedOwnersEvery = 5 * time.Second

// openOperator makes the operator's area and its key. Money and receipts are
// open.
func (s *Server) openOperator() (*operator.Area, error) {
	if _, err := operator.LoadOrCreateKey(s.dir); err != nil {
		return nil, err
	}
	c := s.core
	cfg := operator.Config{
		Network: c, Store: c.store, Ledger: c.ledger, Keys: c.keys, Owners: c.owners, Faults: c.receipts.Faults(),
		Logger: c.o.Logger, Now: c.o.Now, KeyPath: s.dir.File(operator.KeyFile), PublishFrom: c.o.PublishFrom,
	}
	if u, err := url.Parse(c.o.PublicURL); err == nil && u.Scheme == "https" {
		cfg.SecureHost = u.Host
	}
	return operator.New(cfg), nil
}

// LocalFile is the file of the data folder that tells the operator's commands
// where the running tracker listens on this computer.
const LocalFile = "tracker.local"

// Local is what stands in it, as JSON.
type Local struct {
	URL string `json:"url"`
	// CertSHA256 is the hash of the certificate, hex, or "" without TLS.
	CertSHA256 string `json:"cert_sha256,omitempty"`
}

// writeLocal writes LocalFile. An unspecified address is reached by loopback.
func (s *Server) writeLocal(cert *tls.Config) error {
	at, err := netip.ParseAddrPort(s.Addr())
	if err != nil {
		return protocol.Errorf(protocol.CodeInternal, "listen address %s: %w", s.Addr(), err)
	}
	if at.Addr().IsUnspecified() {
		// Go's "::" takes IPv4 as well.
		at = netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, 1}), at.Port())
	}
	l := Local{URL: "http://" + at.String() + "/"}
	if cert != nil {
		sum := sha256.Sum256(cert.Certificates[0].Certificate[0])
		l = Local{URL: "https://" + at.String() + "/", CertSHA256: hex.EncodeToString(sum[:])}
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return protocol.Errorf(protocol.CodeInternal, "encode %s: %w", LocalFile, err)
	}
	return s.dir.WriteFile(LocalFile, raw)
}

// openStanding reads what the operator said of nodes, before anybody connects.
func (c *core) openStanding(ctx context.Context) error {
	list, err := c.store.Standings(ctx)
	if err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book = standing.NewBook(c.o.Admission, list)
	for i := range list {
		if list[i].Kind == standing.KindNode {
			c.limitLocked(protocol.NodeID(list[i].ID))
		}
	}
	return nil
}

// restoreStanding ends restored sessions of nodes that are banned: their end was
// not written when the tracker stopped.
func (c *core) restoreStanding() {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, r := range c.book.List() {
		if r.Kind == standing.KindNode {
			c.banLocked(protocol.NodeID(r.ID), c.OwnerOf(protocol.NodeID(r.ID)))
		}
	}
}

// refusalOf says why a node may not be connected, or nil.
func (c *core) refusalOf(id protocol.NodeID, owner string) *protocol.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.book.Refusal(id, owner)
}

// limitLocked tells registry and placement what the operator said of a node. It
// reports whether placement may count on it.
func (c *core) limitLocked(id protocol.NodeID) (placed bool) {
	l := registry.Limit{Waits: c.book.Waits(id), Drained: c.book.Drained(id)}
	c.reg.Limit(id, l)
	if l == (registry.Limit{}) {
		return true
	}
	c.places.drop(id)
	return false
}

// placeableLocked refuses to give layers to a node that serves nobody.
func (c *core) placeableLocked(id protocol.NodeID) error {
	why := c.book.Waits(id)
	if why == "" {
		why = c.book.Drained(id)
	}
	if why == "" {
		return nil
	}
	return protocol.Errorf(protocol.CodeForbidden, "this node gets no layers: %s", why)
}

// banLocked sends a node away, in both roles, if it is banned: its sessions end
// first, so that everybody hears of it.
func (c *core) banLocked(id protocol.NodeID, owner string) {
	why := c.book.Refusal(id, owner)
	if why == nil {
		return
	}
	for _, s := range c.table.Revoke(c.o.Now(), id, why.Message) {
		c.finishLocked(s, true)
	}
	for _, p := range c.peersOfLocked(id) {
		delete(c.peers, keyOf(p))
		c.reg.Left(memberOf(p), true)
		p.Refuse(why, 0)
		c.o.Logger.Info("sent away", "node", id.Short(), "role", p.Hello().Role, "err", why)
	}
	c.places.drop(id)
}

// banOwnersLocked sends away what belongs to banned owners. A node may have been
// bound to one since it connected.
func (c *core) banOwnersLocked(now time.Time) {
	if now.Sub(c.bannedAt) < bannedOwnersEvery {
		return
	}
	c.bannedAt = now
	banned := map[string]bool{}
	for _, r := range c.book.List() {
		if r.Kind == standing.KindOwner && r.Banned.Set() {
			banned[r.ID] = true
		}
	}
	if len(banned) == 0 {
		return
	}
	for k := range c.peers {
		if owner := c.OwnerOf(k.id); banned[owner] {
			c.banLocked(k.id, owner)
		}
	}
}

// Policy implements operator.Network.
func (c *core) Policy() standing.Policy { return c.o.Admission }

// Standing implements operator.Network.
func (c *core) Standing(s standing.Subject) standing.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.book.Get(s)
}

// Standings implements operator.Network.
func (c *core) Standings() []standing.Record {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.book.List()
}

// SetStanding implements operator.Network. What was stored is in force when it
// returns; changes follow each other, and nothing waits for the disk under the
// core's lock.
func (c *core) SetStanding(ctx context.Context, ch standing.Change) (bool, error) {
	c.operating.Lock()
	defer c.operating.Unlock()
	c.mu.Lock()
	rec, changed := c.book.After(ch)
	c.mu.Unlock()
	if !changed {
		return false, nil
	}
	nodes := []protocol.NodeID{protocol.NodeID(ch.ID)}
	if ch.Kind == standing.KindOwner {
		nodes = nil
		list, err := c.owners.Nodes(ctx, store.AccountID(ch.ID))
		if err != nil {
			return false, err
		}
		for i := range list {
			nodes = append(nodes, list[i].Node)
		}
	}
	if _, err := c.store.SetStanding(ctx, rec, store.LogEntry{
		At: ch.At, By: ch.By, Action: string(ch.Action), Subject: ch.ID, Reason: ch.Reason,
	}); err != nil {
		return false, err
	}
	c.o.Logger.Info("operator", "by", ch.By, "action", ch.Action, "subject", ch.ID)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.book.Put(rec)
	for _, id := range nodes {
		owner := c.OwnerOf(id)
		if ch.Kind == standing.KindOwner {
			owner = ch.ID
		} else {
			c.limitLocked(id)
		}
		c.banLocked(id, owner)
	}
	return true, nil
}

// Unpublish implements operator.Network.
func (c *core) Unpublish(ctx context.Context, id protocol.ModelID) error {
	if err := c.store.Unpublish(ctx, id); err != nil {
		return err
	}
	c.reloadCatalog(ctx)
	return nil
}

// reloadCatalog shows a change at once. When that fails, watchCatalog shows it.
func (c *core) reloadCatalog(ctx context.Context) {
	if err := c.loadCatalog(ctx); err != nil {
		c.o.Logger.Warn("read the catalog", "err", err)
	}
}

// Publish implements operator.Network: as the command does, with the tracker's
// key.
func (c *core) Publish(ctx context.Context, path string, o publish.Options) (*operator.Published, error) {
	if o.Announce == nil && c.announceURL != "" {
		o.Announce = []string{c.announceURL}
	}
	r, err := publish.Build(ctx, []string{path}, o)
	if err != nil {
		return nil, err
	}
	m := r.Manifest
	s, err := manifest.Sign(m, c.key)
	if err != nil {
		return nil, err
	}
	changed, err := c.store.Publish(ctx, store.CatalogModel{
		Model: m.Model, Name: m.Name, InfoHash: r.InfoHash, Private: m.Torrent.Private, WebSeeds: o.WebSeeds,
		Published: c.o.Now(), Manifest: s.Raw, Torrent: r.Torrent,
	})
	if err != nil {
		return nil, err
	}
	c.reloadCatalog(ctx)
	return &operator.Published{Model: m.Model, Name: m.Name, Changed: changed}, nil
}

// maxProofPages bounds how far back the proofs against one node are looked for.
const maxProofPages = 20

// Proofs implements operator.Network.
func (c *core) Proofs(ctx context.Context, id protocol.NodeID) ([]operator.Proof, error) {
	out := []operator.Proof{}
	before := int64(0)
	for range maxProofPages {
		list, err := c.store.Proofs(ctx, before, maxProofs)
		if err != nil {
			return nil, err
		}
		for i := range list {
			if p := &list[i]; p.Culprit == id {
				out = append(out, operator.Proof{
					ID: p.ID.String(), Kind: p.Kind, At: p.Found, Text: p.Text, Owner: p.Owner, Lifted: p.Lifted, Forfeited: p.Forfeited, Note: p.Note,
				})
			}
		}
		if len(list) < maxProofs {
			break
		}
		before = list[len(list)-1].Num
	}
	return out, nil
}

// Settings implements operator.Network.
func (c *core) Settings() []operator.Setting {
	o := &c.o
	number := strconv.Itoa
	prefixes := func(list []netip.Prefix) string {
		var out []string
		for _, p := range list {
			out = append(out, p.String())
		}
		return strings.Join(out, ",")
	}
	return []operator.Setting{
		{Name: "listen", Value: o.Listen, About: "for nodes, API and pages"},
		{Name: "data", Value: o.Data, About: "folder for database and keys"},
		{Name: "public-url", Value: o.PublicURL, About: "where others reach this tracker"},
		{Name: "tls-cert", Value: o.TLSCert, About: "certificate"},
		{Name: "insecure", Value: strconv.FormatBool(o.Insecure), About: "plain HTTP on other addresses than loopback"},
		{Name: "trusted-proxies", Value: prefixes(o.Proxies), About: "reverse proxies whose X-Forwarded-For is believed"},
		{Name: "admission", Value: string(o.Admission), About: "whether new nodes have to be approved"},
		{Name: "publish-from", Value: strings.Join(o.PublishFrom, " "), About: "folders out of which models can be published here"},
		{Name: "report-every", Value: o.ReportEvery.String(), About: "how often nodes report"},
		{Name: "max-connections", Value: number(o.MaxConns), About: "most connections of nodes and gateways; 0: the default"},
		{Name: "max-per-address", Value: number(o.MaxPerAddress), About: "most connections from one address; 0: the default"},
		{Name: "credit", Value: string(o.Credit), About: "whether sessions cost credit"},
		{Name: "starting-credit", Value: operator.Amount(o.StartingCredit).String(), About: "credits that each new owner is given"},
		{Name: "telemetry-days", Value: number(o.TelemetryDays), About: "days for which the history of sessions is kept"},
		{Name: "lease", Value: o.LeaseFor.String(), About: "longest life of a session"},
		{Name: "keep", Value: KeepFor.String(), About: "how long ended sessions and silent nodes are remembered"},
	}
}
