// Package receiptstest signs receipts as the nodes of a route do. Only tests
// import it.
package receiptstest

import (
	"crypto/ed25519"
	"crypto/sha256"
	"fmt"
	"slices"
	"testing"
	"time"

	"neuron/engine/protocol"
)

// Key is a key that the name decides.
func Key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte("receiptstest " + name))
	return ed25519.NewKeyFromSeed(seed[:])
}

// ID is the node id of a key.
func ID(k ed25519.PrivateKey) protocol.NodeID {
	return protocol.NodeIDOf(k.Public().(ed25519.PublicKey))
}

// Route is the route of a session with the keys of all its nodes.
type Route struct {
	Lease  *protocol.Lease
	Signed *protocol.SignedLease
	keys   map[protocol.NodeID]ed25519.PrivateKey
	t      testing.TB
}

// New makes a route of a lease that a tracker signed. keys are those of the
// hops and of the driver.
func New(t testing.TB, signed *protocol.SignedLease, keys ...ed25519.PrivateKey) *Route {
	t.Helper()
	l, err := signed.Verify(signed.Key, time.Time{})
	if err != nil {
		t.Fatal(err)
	}
	r := &Route{Lease: l, Signed: signed, keys: make(map[protocol.NodeID]ed25519.PrivateKey), t: t}
	for _, k := range keys {
		r.keys[ID(k)] = k
	}
	return r
}

// Sign makes a route under a lease that tracker signs, from issued on for an
// hour: hops of four layers each.
func Sign(t testing.TB, tracker ed25519.PrivateKey, session protocol.SessionID, issued time.Time, driver ed25519.PrivateKey, hops ...ed25519.PrivateKey) *Route {
	t.Helper()
	l := &protocol.Lease{
		Version: protocol.Version, Session: session, Model: protocol.ModelIDOf([][sha256.Size]byte{{1}}), Layers: 4 * len(hops), Driver: ID(driver),
		Context: 8192, DType: protocol.DTypeF32, EngineBuild: protocol.Build{Protocol: protocol.Version, Llama: "v0.4.0"},
		Issued: issued, Expires: issued.Add(time.Hour), Policy: protocol.PolicyPublic,
	}
	for i, k := range hops {
		l.Hops = append(l.Hops, protocol.Hop{Node: ID(k), Addr: "127.0.0.1:1", Use: protocol.Range{First: 4 * i, Last: 4*i + 4}})
	}
	signed, err := protocol.SignLease(l, tracker)
	if err != nil {
		t.Fatal(err)
	}
	return New(t, signed, append(slices.Clone(hops), driver)...)
}

// Receipt is what hop signs for a span: a chunk of 64 rows first, then 32
// decoded positions each.
func (r *Route) Receipt(hop int, seq uint32) *protocol.Receipt {
	sp := protocol.Span{Kind: protocol.SpanPrefill, Last: 64, Rows: 64}
	if seq > 0 {
		sp = protocol.Span{Kind: protocol.SpanDecode, Seq: seq, First: 32 + 32*seq, Last: 64 + 32*seq, Rows: 32}
	}
	sp.Input = sha256.Sum256(fmt.Append(nil, "seam", hop, seq))
	sp.Output = sha256.Sum256(fmt.Append(nil, "seam", hop+1, seq))
	l := r.Lease
	receiver := l.Driver
	if hop+1 < len(l.Hops) {
		receiver = l.Hops[hop+1].Node
	}
	return &protocol.Receipt{
		Session: l.Session, Lease: r.Signed.Hash(), Model: l.Model, Node: l.Hops[hop].Node, Receiver: receiver,
		Hop: hop, Layers: l.Hops[hop].Use, DType: l.DType, Span: sp,
		Class: protocol.Class{Threads: 1, CPU: "haswell", Llama: l.EngineBuild.Llama, Engine: "0.2.0"},
		Time:  l.Issued.Add(time.Duration(seq) * time.Second).Truncate(time.Millisecond),
	}
}

// Half is the receipt with the hop's signature.
func (r *Route) Half(x *protocol.Receipt) *protocol.SignedReceipt {
	r.t.Helper()
	s, err := protocol.SignReceipt(x, r.keys[x.Node])
	if err != nil {
		r.t.Fatal(err)
	}
	return s
}

// Both is the wire form with both signatures.
func (r *Route) Both(x *protocol.Receipt) []byte {
	r.t.Helper()
	return r.Half(x).Countersign(r.keys[x.Receiver]).Encode()
}

// Span is Both of an honest receipt.
func (r *Route) Span(hop int, seq uint32) []byte { return r.Both(r.Receipt(hop, seq)) }
