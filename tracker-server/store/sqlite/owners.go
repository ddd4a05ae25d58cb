package sqlite

import (
	"context"
	"errors"
	"slices"
	"sync"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// maxOwners bounds the nodes whose owner is remembered.
const maxOwners = 1 << 14

// owners remembers who owns which node: each lease asks of the gateway and of
// all hops, and the answer hardly ever changes. It changes by this process
// alone, see the package's comment.
type owners struct {
	mu sync.Mutex // guards below
	// time counts the groups that have changed something: what was read before one
	// of them ended is not remembered.
	time uint64
	// changing says that the group that is written now has changed something,
	// which only its own reads see.
	changing bool
	known    map[protocol.NodeID]store.NodeOwner // Owner is "" for none
}

// of finds the owner of a node, in memory or by reading.
func (o *owners) of(n protocol.NodeID, read func() (store.NodeOwner, error)) (store.NodeOwner, error) {
	o.mu.Lock()
	time, changing := o.time, o.changing
	x, known := o.known[n]
	o.mu.Unlock()
	if known && !changing {
		return owned(n, x)
	}
	x, err := read()
	if err != nil {
		return x, err
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if !changing && !o.changing && o.time == time {
		if o.known == nil || len(o.known) >= maxOwners {
			o.known = make(map[protocol.NodeID]store.NodeOwner)
		}
		o.known[n] = x
	}
	return owned(n, x)
}

// owned is what is known of a node as an answer.
func owned(n protocol.NodeID, x store.NodeOwner) (store.NodeOwner, error) {
	if x.Owner == "" {
		return x, protocol.Errorf(protocol.CodeNotFound, "the node %s has no owner", n.Short())
	}
	x.Binding = slices.Clone(x.Binding) // others get it, too
	return x, nil
}

// change says that a group changes something.
func (o *owners) change() {
	o.mu.Lock()
	defer o.mu.Unlock()
	o.changing = true
}

// settled follows each group, whether it was written or not.
func (o *owners) settled() {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.changing {
		o.changing, o.known = false, nil
		o.time++
	}
}

// OwnerOf implements store.Ledger.
func (s *Store) OwnerOf(ctx context.Context, n protocol.NodeID) (store.NodeOwner, error) {
	return s.owners.of(n, func() (x store.NodeOwner, err error) {
		err = s.ViewLedger(ctx, func(v store.LedgerView) error {
			x, err = v.OwnerOf(n)
			if errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
				return nil
			}
			return err
		})
		return x, err
	})
}
