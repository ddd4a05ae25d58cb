package owner_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/owner"
)

// TestBinding checks that a binding needs both keys and that no signature
// stands for another.
func TestBinding(t *testing.T) {
	t.Parallel()
	node := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{1}, 32))
	ownerKey := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{2}, 32))
	nodePub, ownerPub := node.Public().(ed25519.PublicKey), ownerKey.Public().(ed25519.PublicKey)
	at := time.Unix(1_800_000_000, 5)
	signed := func() *owner.Binding {
		b := owner.NewBinding(nodePub, ownerPub, at)
		b.SignNode(node)
		b.SignOwner(ownerKey)
		return b
	}
	good := signed()
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	if _, err := owner.ParseID(string(good.Owner())); err != nil || good.Node() != protocol.NodeIDOf(nodePub) {
		t.Errorf("ids: %s %s %v", good.Owner(), good.Node(), err)
	}
	raw, err := json.Marshal(good)
	var back owner.Binding
	if err != nil || json.Unmarshal(raw, &back) != nil || back.Check() != nil {
		t.Errorf("through JSON: %s %v", raw, err)
	}
	for name, f := range map[string]func(b *owner.Binding){
		"other time":       func(b *owner.Binding) { b.At++ },
		"other node":       func(b *owner.Binding) { b.NodeKey = bytes.Repeat([]byte{9}, 32) },
		"other owner":      func(b *owner.Binding) { b.OwnerKey = bytes.Repeat([]byte{9}, 32) },
		"no owner sig":     func(b *owner.Binding) { b.OwnerSig = nil },
		"no node sig":      func(b *owner.Binding) { b.NodeSig = nil },
		"sigs swapped":     func(b *owner.Binding) { b.NodeSig, b.OwnerSig = b.OwnerSig, b.NodeSig },
		"short key":        func(b *owner.Binding) { b.NodeKey = b.NodeKey[:31] },
		"no time":          func(b *owner.Binding) { b.At = 0 },
		"signed by itself": func(b *owner.Binding) { b.OwnerKey = b.NodeKey; b.SignNode(node); b.SignOwner(node) },
		"owner's only":     func(b *owner.Binding) { b.NodeSig = b.OwnerSig },
	} {
		b := signed()
		f(b)
		if err := b.Check(); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
	for _, key := range []ed25519.PrivateKey{node, ownerKey} {
		r := owner.SignRelease(nodePub, ownerPub, at, key)
		if err := r.Check(); err != nil {
			t.Error(err)
		}
		r.ByNode = !r.ByNode
		if r.Check() == nil {
			t.Error("a release of the other side passed")
		}
	}
	if owner.SignRelease(nodePub, ownerPub, at, ed25519.NewKeyFromSeed(make([]byte, 32))).Check() == nil {
		t.Error("a stranger released a node")
	}
}

func TestParseID(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "o-", "o-abc", string(protocol.NodeIDOf(make([]byte, 32))), "O-" + string(protocol.NodeIDOf(make([]byte, 32)))} {
		if _, err := owner.ParseID(s); err == nil {
			t.Errorf("%q: accepted", s)
		}
	}
}
