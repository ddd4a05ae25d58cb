package protocol

import (
	"crypto/ed25519"
	"encoding/json"
	"strings"
	"time"
)

// Lease is what the tracker decides for one session. It never changes during
// the session's life.
type Lease struct {
	Version int       `json:"version"`
	Session SessionID `json:"session"`
	Model   ModelID   `json:"model"`
	// Layers is the model's layer count; the hops cover [0, Layers) exactly once.
	Layers int `json:"layers"`
	// Driver is the gateway that may open the session and receive its tokens.
	Driver NodeID `json:"driver"`
	Hops   []Hop  `json:"hops"`
	// Context is the number of KV cells that every hop reserves: prompt,
	// answer and drafts. 1 to MaxContext.
	Context int `json:"context"`
	// DType is the element type of hidden states on all seams.
	DType DType `json:"dtype"`
	// EngineBuild is what all hops must run, see Build.
	EngineBuild Build     `json:"build"`
	Issued      time.Time `json:"issued"`
	Expires     time.Time `json:"expires"`
	Policy      string    `json:"policy"` // PolicyPublic or PolicyPrivate
}

// Hop is one shard's part in a route.
type Hop struct {
	Node NodeID `json:"node"`
	// Addr is the host:port of the node's seam.
	Addr string `json:"addr"`
	// Use is the range that runs here; it starts where the loaded shard
	// starts and ends at or before its end (early exit).
	Use Range `json:"use"`
	// StepMicros is the tracker's expectation of one decode step, for timers.
	StepMicros int64 `json:"step_us"`
}

// Build says which programs must agree along a route.
type Build struct {
	Protocol int    `json:"protocol"`
	Llama    string `json:"llama"` // version of libllama, as it reports it
}

// SignedLease is a lease with the tracker's signature over exactly the bytes
// in Lease.
type SignedLease struct {
	Lease json.RawMessage `json:"lease"`
	Key   []byte          `json:"key"` // Ed25519 public key of the tracker
	Sig   []byte          `json:"sig"`
}

// leaseDomain keeps lease signatures apart from all others of the same key.
const leaseDomain = "neuron-lease-v1\x00"

// MaxHops bounds a route, MaxAddr the length of an address, in bytes.
const (
	MaxHops = 64
	MaxAddr = 300
)

// Policies of a route.
const (
	PolicyPublic  = "public"
	PolicyPrivate = "private"
)

// SignLease signs l.
func SignLease(l *Lease, key ed25519.PrivateKey) (*SignedLease, error) {
	if err := l.check(); err != nil {
		return nil, err
	}
	raw, err := json.Marshal(l)
	if err != nil {
		return nil, Errorf(CodeInternal, "encode lease: %w", err)
	}
	return &SignedLease{
		Lease: raw,
		Key:   key.Public().(ed25519.PublicKey),
		Sig:   ed25519.Sign(key, append([]byte(leaseDomain), raw...)),
	}, nil
}

// Verify checks the signature against the tracker key that the node trusts,
// the lease's own consistency, and its time.
func (s *SignedLease) Verify(trusted ed25519.PublicKey, now time.Time) (*Lease, error) {
	if len(trusted) != ed25519.PublicKeySize || string(s.Key) != string(trusted) {
		return nil, Errorf(CodeLeaseInvalid, "the lease is signed by another tracker than this node's")
	}
	if len(s.Lease) > 64<<10 {
		return nil, Errorf(CodeLeaseInvalid, "lease of %d bytes", len(s.Lease))
	}
	if !ed25519.Verify(trusted, append([]byte(leaseDomain), s.Lease...), s.Sig) {
		return nil, Errorf(CodeLeaseInvalid, "the lease's signature is wrong")
	}
	var l Lease
	if err := json.Unmarshal(s.Lease, &l); err != nil {
		return nil, Errorf(CodeLeaseInvalid, "lease: %w", err)
	}
	if err := l.check(); err != nil {
		return nil, err
	}
	if now.After(l.Expires) {
		return nil, Errorf(CodeLeaseExpired, "the lease ended at %s", l.Expires.UTC().Format(time.RFC3339))
	}
	return &l, nil
}

// check holds the rules that need no other knowledge than the lease.
func (l *Lease) check() error {
	bad := func(format string, args ...any) error { return Errorf(CodeLeaseInvalid, format, args...) }
	if l.Version != Version {
		return Errorf(CodeProtocolVersion, "lease version %d, this build speaks %d", l.Version, Version)
	}
	if _, err := ParseSessionID(string(l.Session)); err != nil {
		return bad("%w", err)
	}
	if _, err := ParseModelID(string(l.Model)); err != nil {
		return bad("%w", err)
	}
	if _, err := ParseNodeID(string(l.Driver)); err != nil {
		return bad("driver: %w", err)
	}
	if l.Policy != PolicyPublic && l.Policy != PolicyPrivate {
		return bad("policy %.32q", l.Policy)
	}
	if len(l.Hops) == 0 || len(l.Hops) > MaxHops {
		return bad("%d hops", len(l.Hops))
	}
	if l.Context < 1 || l.Context > MaxContext {
		return bad("context of %d cells", l.Context)
	}
	if l.DType.Size() == 0 {
		return bad("dtype %s", l.DType)
	}
	if !l.Expires.After(l.Issued) {
		return bad("expires before it is issued")
	}
	seen := make(map[NodeID]bool, len(l.Hops))
	at := 0
	for i, h := range l.Hops {
		if h.Use.First != at || !h.Use.Valid(l.Layers) {
			return bad("hop %d uses layers %s, expected to start at %d of %d", i, h.Use, at, l.Layers)
		}
		if _, err := ParseNodeID(string(h.Node)); err != nil {
			return bad("hop %d: %w", i, err)
		}
		if !strings.Contains(h.Addr, ":") || len(h.Addr) > MaxAddr || h.StepMicros < 0 {
			return bad("hop %d has address %.64q and step time %d", i, h.Addr, h.StepMicros)
		}
		if seen[h.Node] {
			return bad("node %s appears twice", h.Node.Short())
		}
		seen[h.Node] = true
		at = h.Use.Last
	}
	if at != l.Layers {
		return bad("hops end at layer %d of %d", at, l.Layers)
	}
	return nil
}

// HopOf finds node's place on the route.
func (l *Lease) HopOf(n NodeID) (int, bool) {
	for i, h := range l.Hops {
		if h.Node == n {
			return i, true
		}
	}
	return 0, false
}
