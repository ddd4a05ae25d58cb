// Package owners keeps which owner's key owns which node, and pairs further
// computers with an owner by a short code. Money of all nodes of an owner goes
// to the owner's one account.
//
// The server imports it. It sees no private keys: both sides sign, and the
// tracker only carries what they signed (owner.Binding).
package owners

import (
	"context"
	"encoding/json"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/owner"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/store"
)

const (
	// maxSkew is how far ahead a signed time may be.
	maxSkew = 2 * time.Hour
	// maxNodes bounds the nodes of one owner.
	maxNodes = 10_000
)

// Owners is safe for concurrent use.
type Owners struct {
	l     *ledger.Ledger
	now   func() time.Time
	tries tries
}

// New makes an Owners with the tracker's clock.
func New(l *ledger.Ledger, now func() time.Time) *Owners {
	return &Owners{l: l, now: now, tries: tries{now: now, seen: make(map[string]window)}}
}

// Bind makes a node the owner's. Its earlier owner loses it, and keeps what it
// earned. The owner's first node makes the account, with the starting credit
// unless that node belonged to somebody before. Repeating a binding that holds
// is a no-op. Errors: invalid_request, forbidden for signatures, conflict for a
// binding that is not newer than what is known.
func (o *Owners) Bind(ctx context.Context, b *owner.Binding) (store.AccountID, error) {
	if err := b.Check(); err != nil {
		return "", err
	}
	raw, err := json.Marshal(b)
	if err != nil {
		return "", protocol.Errorf(protocol.CodeInternal, "encode a binding: %w", err)
	}
	var id store.AccountID
	err = o.l.Update(ctx, func(tx store.LedgerTx, now time.Time) (err error) {
		id, err = bind(tx, now, b, raw, o.l.StartingCredit())
		return err
	})
	return id, err
}

func bind(tx store.LedgerTx, now time.Time, b *owner.Binding, raw []byte, starting store.Credit) (store.AccountID, error) {
	at, id := time.Unix(b.At, 0).UTC(), ledger.OwnerAccount(b.OwnerKey)
	if at.After(now.Add(maxSkew)) {
		return id, protocol.Errorf(protocol.CodeInvalidRequest, "the binding's time is in the future; set the computer's clock")
	}
	before, err := tx.OwnerHistory(b.Node())
	if err != nil {
		return id, err
	}
	if len(before) > 0 {
		newest := before[0]
		if newest.Ended.IsZero() && newest.Owner == id && newest.At.Equal(at) {
			return id, nil
		}
		if !at.After(newest.At) || !newest.Ended.IsZero() && !at.After(newest.Ended) {
			return id, protocol.Errorf(protocol.CodeConflict, "a newer binding of this node is known")
		}
		starting = 0 // a node that changes hands brings no new starting credit
	}
	nodes, err := tx.NodesOf(id)
	if err != nil {
		return id, err
	}
	if len(nodes) >= maxNodes {
		return id, protocol.Errorf(protocol.CodeInvalidRequest, "the owner has %d nodes already", maxNodes)
	}
	if _, err := ledger.EnsureOwner(tx, b.OwnerKey, starting, now); err != nil {
		return id, err
	}
	if err := tx.EndNodeOwner(b.Node(), at); err != nil {
		return id, err
	}
	return id, tx.AddNodeOwner(store.NodeOwner{Node: b.Node(), Owner: id, Binding: raw, At: at})
}

// Release ends the binding of a node, as its owner or the node itself signed.
// Errors: invalid_request, forbidden, not_found when the node is not this
// owner's, conflict for a release that is older than the binding.
func (o *Owners) Release(ctx context.Context, r *owner.Release) error {
	if err := r.Check(); err != nil {
		return err
	}
	node, at := protocol.NodeIDOf(r.NodeKey), time.Unix(r.At, 0).UTC()
	return o.l.Update(ctx, func(tx store.LedgerTx, now time.Time) error {
		have, err := tx.OwnerOf(node)
		if err != nil {
			return err
		}
		if have.Owner != ledger.OwnerAccount(r.OwnerKey) {
			return protocol.Errorf(protocol.CodeNotFound, "the node %s is not this owner's", node.Short())
		}
		if at.Before(have.At) || at.After(now.Add(maxSkew)) {
			return protocol.Errorf(protocol.CodeConflict, "the release is older than the binding, or of the future")
		}
		return tx.EndNodeOwner(node, at)
	})
}

// Owner is the account that owns a node. Error: not_found.
func (o *Owners) Owner(ctx context.Context, n protocol.NodeID) (out store.NodeOwner, err error) {
	if err := ctx.Err(); err != nil {
		return out, err
	}
	// Each lease asks. It is over in no time, and watching for the end of ctx would
	// cost more than the answer.
	return o.l.OwnerOf(context.WithoutCancel(ctx), n)
}

// Nodes lists what an owner owns now.
func (o *Owners) Nodes(ctx context.Context, a store.AccountID) (out []store.NodeOwner, err error) {
	err = o.l.View(ctx, func(tx store.LedgerView) (err error) {
		out, err = tx.NodesOf(a)
		return err
	})
	return out, err
}
