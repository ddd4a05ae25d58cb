package audit

import (
	"crypto/ed25519"
	"crypto/sha256"
	"slices"

	"neuron/engine/protocol"
	"neuron/tracker-server/audit/signatures"
)

// Checked is a receipt whose format and signatures are right.
type Checked struct {
	raw     []byte
	id      protocol.Hash
	both    bool
	receipt *protocol.Receipt
}

// ID names the receipt: the hash of its bytes without signatures.
func (c *Checked) ID() protocol.Hash { return c.id }

// Both reports whether both ends have signed.
func (c *Checked) Both() bool { return c.both }

// Receipt is what the receipt says; it must not be changed.
func (c *Checked) Receipt() *protocol.Receipt { return c.receipt }

// Check verifies a receipt in its wire form as far as that needs no other
// knowledge. Codes: receipt_invalid, protocol_version, unauthorized.
func Check(raw []byte) (*Checked, error) {
	s, r, err := protocol.ParseSignedReceipt(raw)
	if err != nil {
		return nil, err
	}
	return &Checked{raw: slices.Clone(raw), id: s.ID(), both: s.Both(), receipt: r}, nil
}

// Checker does what Check does for many receipts at one time, in half the time.
// That is most of what a receipt costs: call it outside of the lock that guards
// the Auditor. The zero Checker is ready, and safe for concurrent use.
type Checker struct{ signatures signatures.Verifier }

// Check verifies receipts. Of each, one of the two results is nil.
func (k *Checker) Check(raws [][]byte) ([]*Checked, []error) {
	out, errs := make([]*Checked, len(raws)), make([]error, len(raws))
	var checks []signatures.Check
	type origin struct {
		receipt int
		signer  protocol.NodeID
	}
	var of []origin
	for i, raw := range raws {
		c, err := parse(raw)
		if err != nil {
			errs[i] = err
			continue
		}
		out[i] = c
		for _, h := range c.halves() {
			if err := h.named(); err != nil {
				out[i], errs[i] = nil, err
				break
			}
			checks = append(checks, signatures.Check{Key: h.key, Message: append([]byte(h.domain), c.body()...), Sig: h.sig})
			of = append(of, origin{i, h.signer})
		}
	}
	for j, good := range k.signatures.Verify(checks) {
		if i := of[j].receipt; !good && errs[i] == nil {
			out[i], errs[i] = nil, wrongSignature(of[j].signer)
		}
	}
	return out, errs
}

// stored decodes a receipt that was verified before it was stored. Its
// signatures are not verified again: they are nearly all that a receipt costs,
// and no proof is made without looking at them anew.
func stored(raw []byte) (*Checked, error) { return parse(raw) }

// parse decodes a receipt in its wire form (protocol.SignedReceiptSize) without
// verifying its signatures.
func parse(raw []byte) (*Checked, error) {
	if len(raw) != protocol.SignedReceiptSize {
		return nil, protocol.Errorf(protocol.CodeReceiptInvalid, "signed receipt of %d bytes, want %d", len(raw), protocol.SignedReceiptSize)
	}
	c := &Checked{raw: slices.Clone(raw)}
	r, err := protocol.ParseReceipt(c.body())
	if err != nil {
		return nil, err
	}
	c.receipt, c.id = r, sha256.Sum256(c.body())
	c.both = !allZero(c.raw[receiverAt:])
	return c, nil
}

// The size of a half, and where the receiver's begins; see
// docs/protocol/receipts.md.
const (
	halfSize   = ed25519.PublicKeySize + ed25519.SignatureSize
	receiverAt = protocol.ReceiptSize + halfSize
)

func (c *Checked) body() []byte { return c.raw[:protocol.ReceiptSize] }

// half is one end's signature.
type half struct {
	signer   protocol.NodeID
	domain   string
	key, sig []byte
}

// halves are those that are there; the node's always has to be.
func (c *Checked) halves() []half {
	at := func(first int, who protocol.NodeID, domain string) half {
		sig := first + ed25519.PublicKeySize
		return half{who, domain, c.raw[first:sig], c.raw[sig : first+halfSize]}
	}
	out := []half{at(protocol.ReceiptSize, c.receipt.Node, protocol.ReceiptDomain)}
	if c.both {
		out = append(out, at(receiverAt, c.receipt.Receiver, protocol.ReceiptReceiverDomain))
	}
	return out
}

// named checks that a half is signed, and by the key of its node.
func (h *half) named() error {
	switch {
	case allZero(h.sig):
		return protocol.Errorf(protocol.CodeUnauthorized, "node %s has not signed the receipt", h.signer.Short())
	case protocol.NodeIDOf(h.key) != h.signer:
		return wrongSignature(h.signer)
	}
	return nil
}

func wrongSignature(who protocol.NodeID) error {
	return protocol.Errorf(protocol.CodeUnauthorized, "the signature of node %s on the receipt is wrong", who.Short())
}

func allZero(b []byte) bool { return !slices.ContainsFunc(b, func(c byte) bool { return c != 0 }) }
