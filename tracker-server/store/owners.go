package store

import (
	"crypto/sha256"
	"time"

	"neuron/engine/protocol"
)

// NodeOwner says who owns a node since when.
type NodeOwner struct {
	Node  protocol.NodeID
	Owner AccountID
	// Binding is what both keys signed, as JSON.
	Binding []byte
	At      time.Time // as signed
	Ended   time.Time // zero for the one that holds
}

// Pairing is a code that is open.
type Pairing struct {
	Hash    [sha256.Size]byte // of the code
	Owner   AccountID
	Expires time.Time
	// Node and Offer are set once a node has used the code: what it signed.
	Node  protocol.NodeID
	Offer []byte
	// Done is set when the owner has signed as well.
	Done bool
}

// OwnerView reads who owns what.
type OwnerView interface {
	// OwnerOf finds the binding that holds.
	OwnerOf(n protocol.NodeID) (NodeOwner, error)
	// OwnerHistory lists all bindings of a node, the newest first.
	OwnerHistory(n protocol.NodeID) ([]NodeOwner, error)
	// NodesOf lists what an owner owns now, by node id.
	NodesOf(a AccountID) ([]NodeOwner, error)
	Pairing(hash [sha256.Size]byte) (Pairing, error)
	// Pairings counts an owner's codes.
	Pairings(a AccountID) (int, error)
}

// OwnerTx writes who owns what.
type OwnerTx interface {
	AddNodeOwner(o NodeOwner) error
	// EndNodeOwner ends the binding that holds, if there is one.
	EndNodeOwner(n protocol.NodeID, at time.Time) error
	// PutPairing adds a code or replaces its row.
	PutPairing(p Pairing) error
	// ForgetPairings removes codes that expired before t.
	ForgetPairings(t time.Time) error
}
