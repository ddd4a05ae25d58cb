package server

import (
	"context"
	"net/netip"
	"net/url"
	"strconv"
	"strings"
	"time"

	"neuron/engine/protocol"
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
		Network: c, Store: c.store, Ledger: c.ledger, Keys: c.keys, Owners: c.owners, Faults: c.receipts.Faults(), Signer: c.key,
		Logger: c.o.Logger, Now: c.o.Now, KeyPath: s.dir.File(operator.KeyFile), PublishFrom: c.o.PublishFrom, Audits: c.audits.Page,
	}
	if at := s.publicURL(); at != "" {
		cfg.Announce = []string{at + "announce"}
	}
	if u, err := url.Parse(c.o.PublicURL); err == nil && u.Scheme == "https" {
		cfg.SecureHost = u.Host
	}
	return operator.New(cfg), nil
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
	return nil
}

// restoreStanding ends restored sessions of nodes that are banned, by themselves
// or with their owner: their end was not written when the tracker stopped.
func (c *core) restoreStanding(ctx context.Context) error {
	owned := map[protocol.NodeID]string{} // banned nodes with their owners
	for _, r := range c.Standings() {
		if r.Kind == standing.KindNode {
			owned[protocol.NodeID(r.ID)] = ""
			continue
		}
		list, err := c.owners.Nodes(ctx, store.AccountID(r.ID))
		if err != nil {
			return err
		}
		for i := range list {
			owned[list[i].Node] = r.ID
		}
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	for id, owner := range owned {
		c.banLocked(id, owner)
	}
	return nil
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
	c.places.Drop(id)
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
	c.places.Drop(id)
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

// ReloadCatalog implements operator.Network. When it fails, its watch shows
// the change.
func (c *core) ReloadCatalog(ctx context.Context) {
	if err := c.catalog.Load(ctx); err != nil {
		c.o.Logger.Warn("read the catalog", "err", err)
	}
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
		{Name: "keep", Value: number(int(KeepFor.Hours()/24)) + " days", About: "how long ended sessions and silent nodes are remembered"},
	}
}
