package load

import (
	"crypto/ed25519"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/identity"
)

const testModel protocol.ModelID = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef"

// TestReceiptsAreSigned: receipts of the crowd are what both ends would have
// signed, with nonces that were prepared and without.
func TestReceiptsAreSigned(t *testing.T) {
	t.Parallel()
	var ends [2]*identity.Identity
	var signers [2]*signer
	for i := range ends {
		var err error
		if ends[i], err = identity.New(); err != nil {
			t.Fatal(err)
		}
		if signers[i], err = newSigner(ends[i].PrivateKey()); err != nil {
			t.Fatal(err)
		}
	}
	var p nonces
	if err := p.prepare(3); err != nil {
		t.Fatal(err)
	}
	r := &protocol.Receipt{
		Session: protocol.NewSessionID(), Model: testModel, Node: ends[0].ID(), Receiver: ends[1].ID(), Layers: protocol.Range{Last: layers},
		DType: protocol.DTypeF32, Span: protocol.Span{Kind: protocol.SpanPrefill, Last: prompt, Rows: prompt},
		Class: protocol.Class{Threads: 1, CPU: "simulated", Llama: build.Llama, Engine: "simulated"}, Time: time.UnixMilli(1_800_000_000_000).UTC(),
	}
	seen := map[string]bool{}
	for i := range 4 {
		raw, err := p.receipt(r, signers[0], signers[1])
		if err != nil {
			t.Fatal(err)
		}
		s, got, err := protocol.ParseSignedReceipt(raw)
		if err != nil {
			t.Fatalf("receipt %d: %v", i, err)
		}
		if !s.Both() || got.Node != r.Node || got.Receiver != r.Receiver {
			t.Errorf("receipt %d: both %t, %+v", i, s.Both(), got)
		}
		for _, sig := range [][]byte{s.Sig, s.ReceiverSig} {
			if len(sig) != ed25519.SignatureSize || seen[string(sig[:32])] {
				t.Errorf("receipt %d: a nonce was used twice", i)
			}
			seen[string(sig[:32])] = true
		}
	}
}
