package protocol

import (
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"strings"
	"time"
)

// Hash is a SHA-256; in JSON and for people it is 64 hex digits.
type Hash [sha256.Size]byte

func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler; only lower case is taken,
// so that a hash has one form.
func (h *Hash) UnmarshalText(b []byte) error {
	raw, err := hex.DecodeString(string(b))
	if err != nil || len(raw) != len(h) || strings.ToLower(string(b)) != string(b) {
		return Errorf(CodeInvalidRequest, "hash %.80q is not 64 hex digits", b)
	}
	copy(h[:], raw)
	return nil
}

// Receipt is what one hop did in one span of a session. The hop signs it, and
// so does the receiver of its frames: the next hop, or the driver for the tail.
// Span.Input is the root over the frames that the hop was given and
// Span.Output that over the frames that its receiver got, so that the input of
// a hop is the output of the one before.
type Receipt struct {
	Session SessionID
	// Lease is the hash of the lease that the session runs under, see
	// SignedLease.Hash.
	Lease Hash
	Model ModelID
	// Node is the hop at index Hop of the lease, Receiver who got its frames.
	Node     NodeID
	Receiver NodeID
	Hop      int
	Layers   Range // that ran, as the lease says
	DType    DType // of hidden states on the seams, as the lease says
	Span     Span
	Class    Class
	Time     time.Time // when the span closed, by the hop's clock; whole milliseconds
}

// Class is what a re-execution has to agree with to give the same digits.
type Class struct {
	Threads int    // thread class: threads of a decode step; 255 stands for more
	CPU     string // CPU variant of the stage, see Capability
	Llama   string // version of libllama, as Build has it
	Engine  string // version of the engine
}

// Sizes on the wire, in bytes.
const (
	// ReceiptSize is a receipt without signatures. Layout, little-endian:
	//
	//	  0 u32 magic "NRNr"     154 u8  threads        188 i64 time, Unix ms
	//	  4 u8  version          155 u8  zero           196 32  input root
	//	  5 u8  span kind        156 u32 first layer    228 32  output root
	//	  6 u8  flags (1: final) 160 u32 last layer     260 32  CPU variant
	//	  7 u8  dtype            164 u32 sequence       292 32  libllama
	//	  8 16  session          168 u32 first epoch    324 48  engine
	//	 24 32  lease            172 u32 last epoch     372
	//	 56 32  model            176 u32 first position
	//	 88 32  node             180 u32 last position
	//	120 32  receiver         184 u32 rows
	//	152 u16 hop
	//
	// Texts are printable ASCII, filled up with zero bytes.
	ReceiptSize = 372
	// SignedReceiptSize is a receipt with room for both signatures: receipt,
	// node's key 32, node's signature 64, receiver's key 32, receiver's
	// signature 64. The receiver's part is zero until it has signed.
	SignedReceiptSize = ReceiptSize + 2*(ed25519.PublicKeySize+ed25519.SignatureSize)
)

// ReceiptVersion is the version of the layout above.
const ReceiptVersion = 1

// receiptMagic is "NRNr".
const receiptMagic uint32 = 0x724e524e

// What stands before a receipt's body where its node and its receiver sign it. A
// node may sign in both roles where a driver is a hop of its own route, and one
// must not pass for the other.
const (
	ReceiptDomain         = "neuron-receipt-v1\x00"
	ReceiptReceiverDomain = "neuron-receipt-receiver-v1\x00"
)

const leaseHashDomain = "neuron-lease-hash-v1\x00"

// Limits of a receipt's numbers.
const (
	maxReceiptLayers = 1 << 16
	maxReceiptSeq    = 1 << 24
	maxReceiptEpoch  = 1 << 28
)

// maxReceiptTime is the end of the year 9999, in Unix milliseconds.
const maxReceiptTime = 253402300799999

// Hash names a lease in receipts.
func (s *SignedLease) Hash() Hash {
	return sha256.Sum256(append([]byte(leaseHashDomain), s.Lease...))
}

// ReceiptKey is the work that a receipt is about, whatever it says of it. Of
// one key at most one receipt may ever be signed.
type ReceiptKey struct {
	Lease Hash
	Hop   int
	Seq   uint32
}

// Key is the work that r is about.
func (r *Receipt) Key() ReceiptKey { return ReceiptKey{Lease: r.Lease, Hop: r.Hop, Seq: r.Span.Seq} }

// Encode is the canonical form of r, ReceiptSize bytes, or receipt_invalid.
func (r *Receipt) Encode() ([]byte, error) {
	if err := r.check(); err != nil {
		return nil, err
	}
	b := make([]byte, 0, ReceiptSize)
	le := binary.LittleEndian
	b = le.AppendUint32(b, receiptMagic)
	flags := byte(0)
	if r.Span.Final {
		flags = 1
	}
	b = append(b, ReceiptVersion, byte(r.Span.Kind), flags, byte(r.DType))
	session, _ := base32Lower.DecodeString(strings.TrimPrefix(string(r.Session), "s-"))
	b = append(b, session...)
	b = append(b, r.Lease[:]...)
	model, _ := hex.DecodeString(string(r.Model))
	b = append(b, model...)
	for _, n := range []NodeID{r.Node, r.Receiver} {
		raw, _ := base32Lower.DecodeString(string(n)) // check has seen it
		b = append(b, raw...)
	}
	b = le.AppendUint16(b, uint16(r.Hop))
	b = append(b, byte(r.Class.Threads), 0)
	for _, v := range []uint32{
		uint32(r.Layers.First), uint32(r.Layers.Last), r.Span.Seq, r.Span.EpochFirst, r.Span.EpochLast,
		r.Span.First, r.Span.Last, r.Span.Rows,
	} {
		b = le.AppendUint32(b, v)
	}
	b = le.AppendUint64(b, uint64(r.Time.UnixMilli()))
	b = append(b, r.Span.Input[:]...)
	b = append(b, r.Span.Output[:]...)
	b = appendText(b, r.Class.CPU, 32)
	b = appendText(b, r.Class.Llama, 32)
	return appendText(b, r.Class.Engine, 48), nil
}

func appendText(b []byte, s string, size int) []byte {
	return append(append(b, s...), make([]byte, size-len(s))...)
}

// ParseReceipt decodes the canonical form and checks all that a receipt says
// by itself. Every error has the code receipt_invalid or protocol_version.
func ParseReceipt(b []byte) (*Receipt, error) {
	bad := func(format string, args ...any) (*Receipt, error) {
		return nil, Errorf(CodeReceiptInvalid, format, args...)
	}
	if len(b) != ReceiptSize {
		return bad("receipt of %d bytes, want %d", len(b), ReceiptSize)
	}
	le := binary.LittleEndian
	if le.Uint32(b) != receiptMagic {
		return bad("bad magic %x", b[:4])
	}
	if b[4] != ReceiptVersion {
		return nil, Errorf(CodeProtocolVersion, "receipt version %d, this build speaks %d", b[4], ReceiptVersion)
	}
	if b[6] > 1 || b[155] != 0 {
		return bad("unknown flags or reserved bytes")
	}
	u32 := func(at int) uint32 { return le.Uint32(b[at:]) }
	ms := le.Uint64(b[188:])
	if ms > maxReceiptTime {
		return bad("time %d", ms)
	}
	r := &Receipt{
		Session:  SessionID("s-" + base32Lower.EncodeToString(b[8:24])),
		Lease:    Hash(b[24:56]),
		Model:    ModelID(hex.EncodeToString(b[56:88])),
		Node:     NodeID(base32Lower.EncodeToString(b[88:120])),
		Receiver: NodeID(base32Lower.EncodeToString(b[120:152])),
		Hop:      int(le.Uint16(b[152:])),
		Layers:   Range{First: int(u32(156)), Last: int(u32(160))},
		DType:    DType(b[7]),
		Span: Span{
			Kind: SpanKind(b[5]), Final: b[6] == 1, Seq: u32(164), EpochFirst: u32(168), EpochLast: u32(172),
			First: u32(176), Last: u32(180), Rows: u32(184), Input: Hash(b[196:228]), Output: Hash(b[228:260]),
		},
		Class: Class{Threads: int(b[154])},
		Time:  time.UnixMilli(int64(ms)).UTC(),
	}
	for _, f := range []struct {
		to       *string
		at, size int
	}{{&r.Class.CPU, 260, 32}, {&r.Class.Llama, 292, 32}, {&r.Class.Engine, 324, 48}} {
		s, rest, _ := strings.Cut(string(b[f.at:f.at+f.size]), "\x00")
		if strings.Trim(rest, "\x00") != "" {
			return bad("a text goes on behind its end")
		}
		*f.to = s
	}
	if err := r.check(); err != nil {
		return nil, err
	}
	return r, nil
}

// check holds the rules that need no other knowledge than the receipt.
func (r *Receipt) check() error {
	bad := func(format string, args ...any) error { return Errorf(CodeReceiptInvalid, format, args...) }
	if _, err := ParseSessionID(string(r.Session)); err != nil {
		return bad("%w", err)
	}
	if _, err := ParseModelID(string(r.Model)); err != nil {
		return bad("%w", err)
	}
	for _, n := range []NodeID{r.Node, r.Receiver} {
		if _, err := ParseNodeID(string(n)); err != nil {
			return bad("%w", err)
		}
	}
	if r.Hop < 0 || r.Hop >= MaxHops {
		return bad("hop %d", r.Hop)
	}
	if !r.Layers.Valid(maxReceiptLayers) {
		return bad("layers %s", r.Layers)
	}
	if r.DType.Size() == 0 {
		return bad("dtype %s", r.DType)
	}
	if ms := r.Time.UnixMilli(); ms < 0 || ms > maxReceiptTime || !r.Time.Equal(time.UnixMilli(ms)) {
		return bad("time %s is not whole milliseconds between 1970 and 9999", r.Time)
	}
	if r.Class.Threads < 1 || r.Class.Threads > 255 {
		return bad("thread class %d", r.Class.Threads)
	}
	for _, s := range []struct {
		text string
		size int
	}{{r.Class.CPU, 32}, {r.Class.Llama, 32}, {r.Class.Engine, 48}} {
		if len(s.text) > s.size || strings.ContainsFunc(s.text, func(c rune) bool { return c < ' ' || c > '~' }) {
			return bad("text %.64q is not printable ASCII of at most %d bytes", s.text, s.size)
		}
	}
	return r.Span.check()
}

// ReceiptSkew is how far a receipt's time may be off: from its receiver's clock,
// and from the lease's time by the tracker's. An hour exactly is taken.
const ReceiptSkew = time.Hour

// CheckLease checks r against the lease that it names; hash is that lease's.
// What a lease fixes is then true of the receipt: session, model, hop, node,
// receiver, layers, element type, build, context, time. Codes: lease_invalid
// for another lease, context_length_exceeded, lease_expired for a time outside
// of the lease's by more than ReceiptSkew, else receipt_invalid.
func (r *Receipt) CheckLease(l *Lease, hash Hash) error {
	bad := func(format string, args ...any) error { return Errorf(CodeReceiptInvalid, format, args...) }
	switch {
	case r.Lease != hash || r.Session != l.Session:
		return Errorf(CodeLeaseInvalid, "the receipt is about another lease")
	case r.Hop >= len(l.Hops) || r.Node != l.Hops[r.Hop].Node:
		return bad("node %s is not hop %d of the lease", r.Node.Short(), r.Hop)
	case r.Model != l.Model:
		return bad("the receipt is about model %s, the lease about %s", r.Model.Short(), l.Model.Short())
	case r.Layers != l.Hops[r.Hop].Use:
		return bad("layers %s ran, the lease says %s", r.Layers, l.Hops[r.Hop].Use)
	case r.Receiver != l.receiverOf(r.Hop):
		return bad("node %s does not receive from hop %d", r.Receiver.Short(), r.Hop)
	case r.DType != l.DType || r.Class.Llama != l.EngineBuild.Llama:
		return bad("the hop ran %s with llama.cpp %q, the lease says %s and %q", r.DType, r.Class.Llama, l.DType, l.EngineBuild.Llama)
	case int64(r.Span.Last) > int64(l.Context):
		return Errorf(CodeContextExceeded, "rows up to position %d, the session has %d cells", r.Span.Last, l.Context)
	case r.Time.Before(l.Issued.Add(-ReceiptSkew)) || r.Time.After(l.Expires.Add(ReceiptSkew)):
		return Errorf(CodeLeaseExpired, "the receipt is of %s, outside of the lease's time", r.Time.Format(time.RFC3339))
	}
	return nil
}

// receiverOf is who gets the frames of a hop.
func (l *Lease) receiverOf(hop int) NodeID {
	if hop+1 < len(l.Hops) {
		return l.Hops[hop+1].Node
	}
	return l.Driver
}

// SignedReceipt is a receipt with the signatures over exactly the bytes in
// Body. ReceiverKey and ReceiverSig are nil until the receiver has signed.
type SignedReceipt struct {
	Body        []byte
	Key, Sig    []byte
	ReceiverKey []byte
	ReceiverSig []byte
}

// SignReceipt is the hop's half; key must be that of r.Node.
func SignReceipt(r *Receipt, key ed25519.PrivateKey) (*SignedReceipt, error) {
	pub := key.Public().(ed25519.PublicKey)
	if NodeIDOf(pub) != r.Node {
		return nil, Errorf(CodeReceiptInvalid, "the receipt is for node %s to sign", r.Node.Short())
	}
	body, err := r.Encode()
	if err != nil {
		return nil, err
	}
	return &SignedReceipt{Body: body, Key: pub, Sig: ed25519.Sign(key, append([]byte(ReceiptDomain), body...))}, nil
}

// Countersign is the receiver's half. It signs whatever the body says: the
// caller has compared it with what it received.
func (s *SignedReceipt) Countersign(key ed25519.PrivateKey) *SignedReceipt {
	out := *s
	out.ReceiverKey = key.Public().(ed25519.PublicKey)
	out.ReceiverSig = ed25519.Sign(key, append([]byte(ReceiptReceiverDomain), s.Body...))
	return &out
}

// Both reports whether the receiver's half is there, not whether it is right.
func (s *SignedReceipt) Both() bool { return len(s.ReceiverSig) != 0 }

// ID is the hash of the receipt: the same for all copies, however far signed.
func (s *SignedReceipt) ID() Hash { return sha256.Sum256(s.Body) }

// Encode is the wire form, SignedReceiptSize bytes.
func (s *SignedReceipt) Encode() []byte {
	b := make([]byte, SignedReceiptSize)
	n := copy(b[:ReceiptSize], s.Body)
	for _, f := range []struct {
		v    []byte
		size int
	}{{s.Key, ed25519.PublicKeySize}, {s.Sig, ed25519.SignatureSize}, {s.ReceiverKey, ed25519.PublicKeySize}, {s.ReceiverSig, ed25519.SignatureSize}} {
		copy(b[n:n+f.size], f.v)
		n += f.size
	}
	return b
}

// ParseSignedReceipt decodes the wire form and verifies every signature in it
// and that each key is that of the node that the receipt names. The node's
// signature has to be there; Both tells of the receiver's. Codes:
// receipt_invalid, protocol_version, unauthorized for a missing or wrong
// signature.
func ParseSignedReceipt(b []byte) (*SignedReceipt, *Receipt, error) {
	if len(b) != SignedReceiptSize {
		return nil, nil, Errorf(CodeReceiptInvalid, "signed receipt of %d bytes, want %d", len(b), SignedReceiptSize)
	}
	r, err := ParseReceipt(b[:ReceiptSize])
	if err != nil {
		return nil, nil, err
	}
	b = append([]byte(nil), b...)
	cut := func(n int) (v []byte) {
		v, b = b[:n:n], b[n:]
		return v
	}
	s := &SignedReceipt{Body: cut(ReceiptSize)}
	s.Key, s.Sig = cut(ed25519.PublicKeySize), cut(ed25519.SignatureSize)
	s.ReceiverKey, s.ReceiverSig = cut(ed25519.PublicKeySize), cut(ed25519.SignatureSize)
	if err := verifyHalf(r.Node, s.Key, s.Sig, ReceiptDomain, s.Body); err != nil {
		return nil, nil, err
	}
	if allZero(s.ReceiverKey) && allZero(s.ReceiverSig) {
		s.ReceiverKey, s.ReceiverSig = nil, nil
		return s, r, nil
	}
	if err := verifyHalf(r.Receiver, s.ReceiverKey, s.ReceiverSig, ReceiptReceiverDomain, s.Body); err != nil {
		return nil, nil, err
	}
	return s, r, nil
}

func verifyHalf(who NodeID, key, sig []byte, domain string, body []byte) error {
	if allZero(sig) {
		return Errorf(CodeUnauthorized, "node %s has not signed the receipt", who.Short())
	}
	if NodeIDOf(key) != who || !ed25519.Verify(key, append([]byte(domain), body...), sig) {
		return Errorf(CodeUnauthorized, "the signature of node %s on the receipt is wrong", who.Short())
	}
	return nil
}

func allZero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
