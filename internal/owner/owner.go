// Package owner is the vocabulary of who owns which node: owner ids, and the
// bindings that an owner's key and a node's key both sign. It does no I/O.
//
// Engine, window and tracker may import it; of our packages it imports
// engine/protocol only.
package owner

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"strings"
	"time"

	"neuron/engine/protocol"
)

// ID names who owns nodes: "o-" and the SHA-256 of an owner's Ed25519
// public key as 52 characters of base32.
type ID string

// IDOf is the owner id of a public key.
func IDOf(pub ed25519.PublicKey) ID { return ID("o-" + string(protocol.NodeIDOf(pub))) }

// ParseID checks s.
func ParseID(s string) (ID, error) {
	rest, ok := strings.CutPrefix(s, "o-")
	if _, err := protocol.ParseNodeID(rest); !ok || err != nil {
		return "", protocol.Errorf(protocol.CodeInvalidRequest, "owner id %.64q is not o- and 52 characters of base32", s)
	}
	return ID(s), nil
}

// Short is the part of the id that tables show.
func (o ID) Short() string { return string(o[:min(10, len(o))]) }

// Domains keep the signatures of owners apart from all others of their keys.
const (
	ownerSignsDomain = "neuron-owner-has-node-v1\x00"
	nodeSignsDomain  = "neuron-node-has-owner-v1\x00"
	releaseDomain    = "neuron-owner-drops-node-v1\x00"
)

// Binding says that a node belongs to an owner. Both keys sign it, each in its
// own domain: nobody can take a node over, or give it to somebody, alone.
type Binding struct {
	NodeKey  []byte `json:"node_key"` // Ed25519 public keys
	OwnerKey []byte `json:"owner_key"`
	// At, in whole seconds since 1970, orders the bindings of one node: a later
	// one replaces it, an earlier one is a replay.
	At       int64  `json:"at"`
	NodeSig  []byte `json:"node_sig,omitempty"`
	OwnerSig []byte `json:"owner_sig,omitempty"`
}

// NewBinding makes a binding that nobody has signed.
func NewBinding(node, owner ed25519.PublicKey, at time.Time) *Binding {
	return &Binding{NodeKey: node, OwnerKey: owner, At: at.Unix()}
}

// Node is the node's id.
func (b *Binding) Node() protocol.NodeID { return protocol.NodeIDOf(b.NodeKey) }

// Owner is the owner's id.
func (b *Binding) Owner() ID { return IDOf(b.OwnerKey) }

// body is what is signed: a domain, SHA-256 of both keys, and the time.
func (b *Binding) body(domain string) []byte {
	node, owner := sha256.Sum256(b.NodeKey), sha256.Sum256(b.OwnerKey)
	out := append([]byte(domain), node[:]...)
	out = append(out, owner[:]...)
	return binary.LittleEndian.AppendUint64(out, uint64(b.At))
}

// SignNode adds the node's signature.
func (b *Binding) SignNode(key ed25519.PrivateKey) {
	b.NodeSig = ed25519.Sign(key, b.body(nodeSignsDomain))
}

// SignOwner adds the owner's signature.
func (b *Binding) SignOwner(key ed25519.PrivateKey) {
	b.OwnerSig = ed25519.Sign(key, b.body(ownerSignsDomain))
}

// CheckNode checks the form and the node's signature: an offer that waits for
// its owner. Errors: invalid_request, forbidden.
func (b *Binding) CheckNode() error {
	if len(b.NodeKey) != ed25519.PublicKeySize || len(b.OwnerKey) != ed25519.PublicKeySize || b.At <= 0 {
		return protocol.Errorf(protocol.CodeInvalidRequest, "the binding needs two keys of 32 bytes and a time")
	}
	if string(b.NodeKey) == string(b.OwnerKey) {
		return protocol.Errorf(protocol.CodeInvalidRequest, "a node's key cannot be its owner's")
	}
	if !ed25519.Verify(b.NodeKey, b.body(nodeSignsDomain), b.NodeSig) {
		return protocol.Errorf(protocol.CodeForbidden, "the node's signature of the binding is wrong")
	}
	return nil
}

// Check checks the form and both signatures.
func (b *Binding) Check() error {
	if err := b.CheckNode(); err != nil {
		return err
	}
	if !ed25519.Verify(b.OwnerKey, b.body(ownerSignsDomain), b.OwnerSig) {
		return protocol.Errorf(protocol.CodeForbidden, "the owner's signature of the binding is wrong")
	}
	return nil
}

// Release ends a binding. The owner or the node signs it.
type Release struct {
	NodeKey  []byte `json:"node_key"`
	OwnerKey []byte `json:"owner_key"`
	At       int64  `json:"at"` // later than the binding's
	ByNode   bool   `json:"by_node,omitempty"`
	Sig      []byte `json:"sig,omitempty"`
}

// SignRelease signs the end of what binds node to owner with the key of one of
// them.
func SignRelease(node, owner ed25519.PublicKey, at time.Time, key ed25519.PrivateKey) *Release {
	r := &Release{NodeKey: node, OwnerKey: owner, At: at.Unix()}
	r.ByNode = node.Equal(key.Public())
	r.Sig = ed25519.Sign(key, r.body())
	return r
}

func (r *Release) body() []byte {
	return (&Binding{NodeKey: r.NodeKey, OwnerKey: r.OwnerKey, At: r.At}).body(releaseDomain)
}

// Check checks the form and the signature. Errors: invalid_request, forbidden.
func (r *Release) Check() error {
	if len(r.NodeKey) != ed25519.PublicKeySize || len(r.OwnerKey) != ed25519.PublicKeySize || r.At <= 0 {
		return protocol.Errorf(protocol.CodeInvalidRequest, "the release needs two keys of 32 bytes and a time")
	}
	key := r.OwnerKey
	if r.ByNode {
		key = r.NodeKey
	}
	if !ed25519.Verify(key, r.body(), r.Sig) {
		return protocol.Errorf(protocol.CodeForbidden, "the signature of the release is wrong")
	}
	return nil
}
