package server

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"sync"

	"neuron/engine/protocol"
	"neuron/tracker-server/accounts"
)

// mountAccounts adds the account API: what owners, their nodes and clients see
// of their money. The books are open.
func (c *core) mountAccounts(mux *http.ServeMux) {
	var order sync.Mutex // what is noted last was read last
	accounts.New(accounts.Options{
		Ledger: c.ledger, Keys: c.keys, Owners: c.owners, Tracker: c.key.Public().(ed25519.PublicKey), Now: c.o.Now, Logger: c.o.Logger,
		Node: c.nodeInfo,
		ModelName: func(id protocol.ModelID) string {
			if p := c.catalog.Get(id); p != nil {
				return p.Name
			}
			return ""
		},
		Owned: func(ctx context.Context, id protocol.NodeID) {
			if _, connected := c.nodeInfo(id); !connected {
				return // its next connection reads it
			}
			order.Lock()
			defer order.Unlock()
			o, err := c.owners.Owner(context.WithoutCancel(ctx), id)
			if err != nil && !isCode(err, protocol.CodeNotFound) {
				c.o.Logger.Error("look up the owner of a node", "node", id.Short(), "err", err)
				return
			}
			c.noteOwner(id, string(o.Owner))
		},
	}).Mount(mux)
}

// nodeInfo is what a connected peer said of itself; of two with one identity,
// the node counts.
func (c *core) nodeInfo(id protocol.NodeID) (accounts.NodeInfo, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for _, role := range []protocol.Role{protocol.RoleNode, protocol.RoleGateway} {
		if p := c.peers[peerKey{id, role}]; p != nil {
			h := p.Hello()
			return accounts.NodeInfo{Host: h.Host, Addr: h.Addr, Engine: h.Engine, Role: role}, true
		}
	}
	return accounts.NodeInfo{}, false
}
