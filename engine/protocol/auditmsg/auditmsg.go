// Package auditmsg holds the messages of numeric audits on the control channel:
// what the tracker asks of keepers and auditors, its signed tickets, and what
// they answer. Like the vocabulary it stands on it has no I/O.
//
// Engine and tracker import it; of our packages it imports engine/protocol only.
package auditmsg

import (
	"crypto/ed25519"
	"crypto/rand"
	"encoding/base32"
	"encoding/json"
	"math"
	"net"
	"strings"
	"time"

	"neuron/engine/protocol"
)

// Messages of numeric audits; they belong to the list in
// engine/protocol/control.go.
const (
	MsgAuditKeep   protocol.MessageKind = "audit_keep"   // T: keep the frames of a session (AuditKeep)
	MsgAuditRun    protocol.MessageKind = "audit_run"    // T: re-execute them (AuditRun)
	MsgAuditReady  protocol.MessageKind = "audit_ready"  // N: the auditor can begin (AuditReady)
	MsgAuditSend   protocol.MessageKind = "audit_send"   // T: send what was kept to the auditor (AuditSend)
	MsgAuditResult protocol.MessageKind = "audit_result" // N: what came of it (AuditResult)
)

// Bounds of one audit.
const (
	// MaxAuditRows bounds the positions of a session that are kept and
	// re-executed, from position 0 on.
	MaxAuditRows = 4096
	// MaxAuditReceipts bounds the receipts that an auditor is given: they take
	// 0.1 MB of MaxMessage in base64.
	MaxAuditReceipts = 128
	// MaxAuditKeep is the longest time for which frames are kept.
	MaxAuditKeep = 10 * time.Minute
	maxTicket    = 8 << 10
)

// base32Lower is the alphabet of all ids, see engine/protocol/ids.go.
var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// AuditID names an audit: "a-" and 26 characters of base32.
type AuditID string

// NewAuditID draws a random id.
func NewAuditID() AuditID {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return AuditID("a-" + base32Lower.EncodeToString(b[:]))
}

// ParseAuditID checks s.
func ParseAuditID(s string) (AuditID, error) {
	rest, ok := strings.CutPrefix(s, "a-")
	if b, err := base32Lower.DecodeString(rest); !ok || err != nil || len(b) != 16 || base32Lower.EncodeToString(b) != rest {
		return "", protocol.Errorf(protocol.CodeInvalidRequest, "audit id %.64q is not well formed", s)
	}
	return AuditID(s), nil
}

// AuditSide says which of a session's row frames a node keeps.
type AuditSide string

// Sides, as seen from the audited hop: its input is kept by who sent it, its
// output by who received it. The audited hop itself keeps nothing.
const (
	AuditInput  AuditSide = "input"
	AuditOutput AuditSide = "output"
)

// AuditKeep asks a neighbour of a sampled hop to keep row frames of a session
// from position 0 on. It may come before the session is opened.
type AuditKeep struct {
	Session protocol.SessionID `json:"session"`
	Side    AuditSide          `json:"side"`
	Rows    int                `json:"rows"`    // 1 to MaxAuditRows
	Seconds int                `json:"seconds"` // from now on, at most MaxAuditKeep
	// Drop ends it: what was kept is forgotten.
	Drop bool `json:"drop,omitempty"`
}

// Check refuses what cannot be kept.
func (k *AuditKeep) Check() error {
	if _, err := protocol.ParseSessionID(string(k.Session)); err != nil {
		return err
	}
	if k.Side != AuditInput && k.Side != AuditOutput {
		return protocol.Errorf(protocol.CodeInvalidRequest, "audit side %.32q", string(k.Side))
	}
	if !k.Drop && (k.Rows < 1 || k.Rows > MaxAuditRows || k.Seconds < 1 || k.Seconds > int(MaxAuditKeep/time.Second)) {
		return protocol.Errorf(protocol.CodeInvalidRequest, "keep %d rows for %d s", k.Rows, k.Seconds)
	}
	return nil
}

// AuditTicket lets two keepers hand frames of one session to one auditor. It
// does not name the audited node.
type AuditTicket struct {
	Version int                `json:"version"`
	Audit   AuditID            `json:"audit"`
	Session protocol.SessionID `json:"session"`
	Model   protocol.ModelID   `json:"model"`
	// Layers is the model's layer count, Use the range to re-execute; it is
	// never the tail's.
	Layers int            `json:"layers"`
	Use    protocol.Range `json:"use"`
	// Build is what the route ran.
	Build protocol.Build `json:"build"`
	Rows  int            `json:"rows"` // at most so many are sent and compared
	// Input and Output are the keepers. The input keeper is the session's
	// driver where Use starts at layer 0.
	Input   protocol.NodeID `json:"input"`
	Output  protocol.NodeID `json:"output"`
	Auditor protocol.Peer   `json:"auditor"`
	Expires time.Time       `json:"expires"`
}

// Keeper is the node that keeps a side.
func (t *AuditTicket) Keeper(s AuditSide) protocol.NodeID {
	if s == AuditInput {
		return t.Input
	}
	return t.Output
}

// SignedAuditTicket is a ticket with the tracker's signature over exactly the
// bytes in Ticket.
type SignedAuditTicket struct {
	Ticket json.RawMessage `json:"ticket"`
	Key    []byte          `json:"key"` // Ed25519 public key of the tracker
	Sig    []byte          `json:"sig"`
}

// auditDomain keeps ticket signatures apart from all others of the same key.
const auditDomain = "neuron-audit-v1\x00"

// SignAuditTicket signs t.
func SignAuditTicket(t *AuditTicket, key ed25519.PrivateKey) (*SignedAuditTicket, error) {
	if err := t.check(); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(t)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "encode audit ticket: %w", err)
	}
	return &SignedAuditTicket{
		Ticket: raw, Key: key.Public().(ed25519.PublicKey), Sig: ed25519.Sign(key, append([]byte(auditDomain), raw...)),
	}, nil
}

// Verify checks the signature against the tracker key that the node trusts
// (unauthorized), the ticket's form (invalid_request) and its time (forbidden).
// Whom it names the caller compares.
func (s *SignedAuditTicket) Verify(trusted ed25519.PublicKey, now time.Time) (*AuditTicket, error) {
	if len(trusted) != ed25519.PublicKeySize || string(s.Key) != string(trusted) {
		return nil, protocol.Errorf(protocol.CodeUnauthorized, "the audit ticket is signed by another tracker than this node's")
	}
	if len(s.Ticket) > maxTicket {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "audit ticket of %d bytes", len(s.Ticket))
	}
	if !ed25519.Verify(trusted, append([]byte(auditDomain), s.Ticket...), s.Sig) {
		return nil, protocol.Errorf(protocol.CodeUnauthorized, "the audit ticket's signature is wrong")
	}
	var t AuditTicket
	if err := json.Unmarshal(s.Ticket, &t); err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "audit ticket: %w", err)
	}
	if err := t.check(); err != nil {
		return nil, err
	}
	if now.After(t.Expires) {
		return nil, protocol.Errorf(protocol.CodeForbidden, "the audit ticket ended at %s", t.Expires.UTC().Format(time.RFC3339))
	}
	return &t, nil
}

// check holds the rules that need no other knowledge than the ticket.
func (t *AuditTicket) check() error {
	bad := func(format string, args ...any) error {
		return protocol.Errorf(protocol.CodeInvalidRequest, format, args...)
	}
	if t.Version != protocol.Version {
		return protocol.Errorf(protocol.CodeProtocolVersion, "audit ticket version %d, this build speaks %d", t.Version, protocol.Version)
	}
	if _, err := ParseAuditID(string(t.Audit)); err != nil {
		return err
	}
	if _, err := protocol.ParseSessionID(string(t.Session)); err != nil {
		return err
	}
	if _, err := protocol.ParseModelID(string(t.Model)); err != nil {
		return err
	}
	for _, n := range []protocol.NodeID{t.Input, t.Output, t.Auditor.Node} {
		if _, err := protocol.ParseNodeID(string(n)); err != nil {
			return err
		}
	}
	switch host, port, err := net.SplitHostPort(t.Auditor.Addr); {
	case err != nil || host == "" || port == "" || len(t.Auditor.Addr) > protocol.MaxAddr:
		return bad("auditor's address %.64q", t.Auditor.Addr)
	case t.Auditor.Node == t.Output || t.Input == t.Output:
		return bad("an auditor that keeps frames, or one keeper for both sides")
	case !t.Use.Valid(t.Layers) || t.Use.Last == t.Layers:
		return bad("layers %s of %d", t.Use, t.Layers)
	case t.Rows < 1 || t.Rows > MaxAuditRows:
		return bad("%d rows", t.Rows)
	}
	return nil
}

// AuditRun asks a node to re-execute a range. It answers AuditReady with the
// same audit id, or AuditResult with an error.
type AuditRun struct {
	Ticket *SignedAuditTicket `json:"ticket"`
	// Receipts are those of the audited hop, with both signatures, each of
	// SignedReceiptSize bytes; empty when the tracker has none.
	Receipts [][]byte `json:"receipts,omitempty"`
}

// AuditReady says that the auditor has room and waits for the frames.
type AuditReady struct {
	Audit AuditID `json:"audit"`
}

// AuditSend asks a keeper to send what it kept to the ticket's auditor. Only a
// keeper that fails answers, with AuditResult.
type AuditSend struct {
	Ticket *SignedAuditTicket `json:"ticket"`
	Side   AuditSide          `json:"side"`
}

// AuditResult ends an audit. Exactly one of Error and Measures is set; a keeper
// only ever sends Error.
type AuditResult struct {
	Audit    AuditID         `json:"audit"`
	Error    *protocol.Error `json:"error,omitempty"`
	Measures *AuditMeasures  `json:"measures,omitempty"`
}

// AuditBasis says what distances are relative to.
type AuditBasis string

// Bases.
const (
	// AuditContribution: the range's output minus its input.
	AuditContribution AuditBasis = "contribution"
	// AuditWhole: the output as it is, since the input has no hidden states of
	// the same width (the head takes token ids).
	AuditWhole AuditBasis = "whole"
)

// MaxAuditDistance stands for every distance that is larger, or that has no
// value because the contribution is zero.
const MaxAuditDistance = 1e6

// AuditMeasures compare a claimed output with a re-execution. With v the
// re-executed output, c the claimed one and b the input (or zero, see Basis),
// the distance of a row is |v-c| / |v-b| in the Euclidean norm, and its cosine
// that between v-b and c-b.
type AuditMeasures struct {
	Basis AuditBasis `json:"basis"`
	Rows  int        `json:"rows"` // compared
	// Proven is how many of them agree with roots that both ends have signed.
	Proven int `json:"proven"`
	// Exact is how many rows are equal bit for bit.
	Exact  int     `json:"exact"`
	Max    float64 `json:"max"`    // distance
	P90    float64 `json:"p90"`    // distance
	Median float64 `json:"median"` // distance
	// MinCosine is the worst row's, -1 to 1.
	MinCosine float64 `json:"min_cosine"`
	MaxAbs    float64 `json:"max_abs"` // of one element of v-c
	Micros    int64   `json:"micros"`  // time in the auditor's model
	// Class is the auditor's.
	Class AuditClass `json:"class"`
}

// AuditClass is a Class in JSON: what two nodes have to agree in to give the
// same digits.
type AuditClass struct {
	Threads int    `json:"threads"`
	CPU     string `json:"cpu"`
	Llama   string `json:"llama"`
	Engine  string `json:"engine"`
}

// Check refuses results that a tracker cannot record.
func (r *AuditResult) Check() error {
	if _, err := ParseAuditID(string(r.Audit)); err != nil {
		return err
	}
	if (r.Error == nil) == (r.Measures == nil) {
		return protocol.Errorf(protocol.CodeInvalidRequest, "an audit result has either an error or measures")
	}
	if r.Measures != nil {
		return r.Measures.check()
	}
	return nil
}

func (m *AuditMeasures) check() error {
	bad := func(format string, args ...any) error {
		return protocol.Errorf(protocol.CodeInvalidRequest, format, args...)
	}
	in := func(v, lo, hi float64) bool { return v >= lo && v <= hi } // false for NaN
	switch {
	case m.Basis != AuditContribution && m.Basis != AuditWhole:
		return bad("audit basis %.32q", string(m.Basis))
	case m.Rows < 1 || m.Rows > MaxAuditRows || m.Proven < 0 || m.Proven > m.Rows || m.Exact < 0 || m.Exact > m.Rows:
		return bad("%d rows, %d proven, %d exact", m.Rows, m.Proven, m.Exact)
	case !in(m.Median, 0, m.P90) || !in(m.P90, 0, m.Max) || !in(m.Max, 0, MaxAuditDistance):
		return bad("distances %g, %g and %g", m.Median, m.P90, m.Max)
	case !in(m.MinCosine, -1, 1) || !in(m.MaxAbs, 0, math.MaxFloat64) || m.Micros < 0:
		return bad("cosine %g, difference %g, time %d", m.MinCosine, m.MaxAbs, m.Micros)
	case m.Class.Threads < 0 || m.Class.Threads > 1<<16 || len(m.Class.CPU) > 64 || len(m.Class.Llama) > 64 || len(m.Class.Engine) > 64:
		return bad("the auditor's class is not well formed")
	}
	return nil
}
