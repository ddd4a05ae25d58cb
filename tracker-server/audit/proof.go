package audit

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"slices"
	"time"

	"neuron/engine/protocol"
)

// FaultKind says what a node has done that nobody can do by accident.
type FaultKind string

// Kinds of objective faults; the list is append-only.
const (
	// Equivocation: two different receipts for one span with the same signer.
	Equivocation FaultKind = "equivocation"
	// BrokenChain: a node signed that it received one thing, and that it
	// worked on another.
	BrokenChain FaultKind = "broken_chain"
	// WrongManifest: a receipt for another model or other layers than leased.
	WrongManifest FaultKind = "wrong_manifest"
	// DoubleBilling: two receipts of one hop for the same positions.
	DoubleBilling FaultKind = "double_billing"
)

// Fault is what a proof proves.
type Fault struct {
	Kind    FaultKind
	Culprit protocol.NodeID
	Session protocol.SessionID
	Hop     int // the culprit's place on the route; len of the route for the driver
	// Lease is the hash of the lease and Tracker the key that signed it. A
	// proof is worth what that tracker's leases are worth: compare the key.
	Lease   protocol.Hash
	Tracker ed25519.PublicKey
	Text    string // one sentence
}

// Proof is a fault with the file that proves it.
type Proof struct {
	Fault Fault
	File  []byte
}

// ID names a proof: the hash of its file. The same fault by the same receipts
// has the same file, whoever found it.
func (p *Proof) ID() protocol.Hash { return sha256.Sum256(p.File) }

// maxProof bounds a proof's file: a lease of 64 KiB in base64 and receipts.
const maxProof = 128 << 10

// proofFormat is the first field of every proof.
const proofFormat = "neuron-slash-proof-1"

// proofFile is the file: JSON in exactly this order without white space.
type proofFile struct {
	Format   string          `json:"format"`
	Kind     FaultKind       `json:"kind"`
	Culprit  protocol.NodeID `json:"culprit"`
	Tracker  []byte          `json:"tracker"`   // Ed25519 public key that signed the lease
	Lease    []byte          `json:"lease"`     // the JSON that is signed
	LeaseSig []byte          `json:"lease_sig"` // see protocol.SignedLease
	Receipts [][]byte        `json:"receipts"`  // signed receipts in their wire form, keys included
}

// prove makes the proofs that receipts give of a fault, one per culprit; none
// when they prove nothing.
func prove(kind FaultKind, lease *protocol.SignedLease, raws [][]byte) (out []*Proof) {
	raws = slices.Clone(raws)
	if kind == Equivocation || kind == DoubleBilling {
		slices.SortFunc(raws, bytes.Compare) // one file, in whatever order they came
	}
	var suspects []protocol.NodeID
	for _, raw := range raws {
		c, err := Check(raw)
		if err != nil {
			return nil
		}
		for _, n := range []protocol.NodeID{c.receipt.Node, c.receipt.Receiver} {
			if !slices.Contains(suspects, n) {
				suspects = append(suspects, n)
			}
		}
	}
	for _, n := range suspects {
		file, err := json.Marshal(&proofFile{
			Format: proofFormat, Kind: kind, Culprit: n, Tracker: lease.Key, Lease: lease.Lease, LeaseSig: lease.Sig, Receipts: raws,
		})
		if err != nil {
			continue // all fields are bytes and texts
		}
		// A proof that a stranger would not accept is none.
		if f, err := VerifyProof(file); err == nil {
			out = append(out, &Proof{Fault: f, File: file})
		}
	}
	return out
}

// VerifyProof checks a proof with nothing but its bytes: form, signatures, and
// that what was signed cannot be true together. Every error has the code
// receipt_invalid, unauthorized, lease_invalid, protocol_version or
// request_too_large.
func VerifyProof(file []byte) (Fault, error) {
	bad := func(format string, args ...any) (Fault, error) {
		return Fault{}, protocol.Errorf(protocol.CodeReceiptInvalid, "proof: "+format, args...)
	}
	if len(file) > maxProof {
		return Fault{}, protocol.Errorf(protocol.CodeRequestTooLarge, "proof of %d bytes, at most %d", len(file), maxProof)
	}
	var p proofFile
	dec := json.NewDecoder(bytes.NewReader(file))
	dec.DisallowUnknownFields()
	if err := dec.Decode(&p); err != nil {
		return bad("%w", err)
	}
	if again, err := json.Marshal(&p); err != nil || !bytes.Equal(again, file) {
		return bad("the file is not in canonical form")
	}
	if p.Format != proofFormat {
		return bad("format %.40q", p.Format)
	}
	signed := &protocol.SignedLease{Lease: p.Lease, Key: p.Tracker, Sig: p.LeaseSig}
	lease, err := signed.Verify(p.Tracker, time.Time{}) // faults do not expire
	if err != nil {
		return Fault{}, err
	}
	f := Fault{Kind: p.Kind, Culprit: p.Culprit, Session: lease.Session, Lease: signed.Hash(), Tracker: p.Tracker}
	want := 2
	if p.Kind == WrongManifest {
		want = 1
	}
	if len(p.Receipts) != want {
		return bad("%d receipts for %s", len(p.Receipts), p.Kind)
	}
	var all []*Checked
	for _, raw := range p.Receipts {
		c, err := Check(raw)
		if err != nil {
			return Fault{}, err
		}
		if c.receipt.Lease != f.Lease || c.receipt.Session != lease.Session {
			return bad("a receipt is about another lease")
		}
		all = append(all, c)
	}
	judge := judges[p.Kind]
	if judge == nil {
		return bad("unknown kind %.40q", p.Kind)
	}
	if f.Hop, f.Text, err = judge(lease, p.Culprit, all); err != nil {
		return Fault{}, err
	}
	return f, nil
}

// judges hold what each kind of fault needs: they return the culprit's hop and
// the sentence.
var judges = map[FaultKind]func(l *protocol.Lease, culprit protocol.NodeID, c []*Checked) (int, string, error){
	Equivocation: func(l *protocol.Lease, culprit protocol.NodeID, c []*Checked) (int, string, error) {
		a, b := c[0], c[1]
		if a.receipt.Key() != b.receipt.Key() || a.id == b.id {
			return innocent("the receipts are not two for one span")
		}
		span, of := a.receipt.Span.Seq, a.receipt.Hop
		if a.receipt.Node == culprit && b.receipt.Node == culprit {
			return of, fmt.Sprintf("signed two different receipts for span %d of its hop %d", span, of), nil
		}
		if a.receipt.Receiver == culprit && b.receipt.Receiver == culprit && a.both && b.both {
			return of + 1, fmt.Sprintf("signed two different receipts for span %d that it received from hop %d", span, of), nil
		}
		return innocent("the accused has not signed both")
	},
	BrokenChain: func(l *protocol.Lease, culprit protocol.NodeID, c []*Checked) (int, string, error) {
		up, down := c[0], c[1]
		switch {
		case up.receipt.Hop+1 != down.receipt.Hop || !up.both || up.receipt.Receiver != culprit || down.receipt.Node != culprit:
			return innocent("the accused has not signed for both sides of its hop")
		case up.receipt.Span.Seq != down.receipt.Span.Seq || !breaks(&up.receipt.Span, &down.receipt.Span):
			return innocent("the receipts do not contradict each other")
		}
		return down.receipt.Hop, fmt.Sprintf("signed that it received %s in span %d, and that it worked on %s",
			up.receipt.Span.Output, up.receipt.Span.Seq, down.receipt.Span.Input), nil
	},
	WrongManifest: func(l *protocol.Lease, culprit protocol.NodeID, c []*Checked) (int, string, error) {
		r := c[0].receipt
		if r.Node != culprit || r.Hop >= len(l.Hops) || l.Hops[r.Hop].Node != culprit {
			return innocent("the accused is not the hop that signed")
		}
		if r.Model == l.Model && r.Layers == l.Hops[r.Hop].Use {
			return innocent("model and layers are as leased")
		}
		return r.Hop, fmt.Sprintf("signed for layers %s of model %s, leased were layers %s of model %s",
			r.Layers, r.Model.Short(), l.Hops[r.Hop].Use, l.Model.Short()), nil
	},
	DoubleBilling: func(l *protocol.Lease, culprit protocol.NodeID, c []*Checked) (int, string, error) {
		a, b := c[0].receipt, c[1].receipt
		if a.Hop != b.Hop || a.Span.Seq == b.Span.Seq || !a.Span.Overlaps(&b.Span) {
			return innocent("the receipts are not about the same work")
		}
		if a.Node != culprit || b.Node != culprit {
			return innocent("the accused has not signed for the work")
		}
		return a.Hop, fmt.Sprintf("billed positions [%d,%d) and [%d,%d) in spans %d and %d",
			a.Span.First, a.Span.Last, b.Span.First, b.Span.Last, a.Span.Seq, b.Span.Seq), nil
	},
}

func innocent(why string) (int, string, error) {
	return 0, "", protocol.Errorf(protocol.CodeReceiptInvalid, "proof: it proves nothing: %s", why)
}

// VerifyProofFile is VerifyProof for a file on disk.
func VerifyProofFile(path string) (Fault, error) {
	f, err := os.Open(path)
	if err != nil {
		return Fault{}, protocol.Errorf(protocol.CodeNotFound, "proof: %w", err)
	}
	b, err := io.ReadAll(io.LimitReader(f, maxProof+1))
	if err = errors.Join(err, f.Close()); err != nil {
		return Fault{}, protocol.Errorf(protocol.CodeDataFolder, "proof: %w", err)
	}
	return VerifyProof(bytes.TrimSuffix(b, []byte("\n")))
}

// RunVerifyProof is the command "verify-proof FILE": it says on stdout what
// the file proves, or fails.
func RunVerifyProof(path string, stdout io.Writer) error {
	f, err := VerifyProofFile(path)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(stdout, "The proof is valid: %s.\n  node     %s\n  did      %s\n  session  %s, hop %d\n  lease    %s\n  tracker  %x (the proof is worth what this tracker's leases are worth)\n",
		f.Kind, f.Culprit, f.Text, f.Session, f.Hop, f.Lease, []byte(f.Tracker))
	return err
}
