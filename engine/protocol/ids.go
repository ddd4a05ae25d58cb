package protocol

import (
	"crypto/ed25519"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base32"
	"encoding/hex"
	"fmt"
	"strings"
)

// base32Lower is RFC 4648 base32 without padding, in lower case: short enough
// for people, safe in URLs and file names.
var base32Lower = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// NodeID names a node: the SHA-256 of its Ed25519 public key, as 52 characters
// of base32.
type NodeID string

// NodeIDOf is the node id of a public key.
func NodeIDOf(pub ed25519.PublicKey) NodeID {
	sum := sha256.Sum256(pub)
	return NodeID(base32Lower.EncodeToString(sum[:]))
}

// ParseNodeID checks s.
func ParseNodeID(s string) (NodeID, error) {
	// Encoding back refuses what Go's decoder forgives: line breaks, spare bits.
	if b, err := base32Lower.DecodeString(s); err != nil || len(b) != sha256.Size || base32Lower.EncodeToString(b) != s {
		return "", Errorf(CodeInvalidRequest, "node id %.64q is not 52 characters of base32", s)
	}
	return NodeID(s), nil
}

// Short is the part of the id that tables show.
func (n NodeID) Short() string { return string(n[:min(8, len(n))]) }

// ModelID names a model by content: the SHA-256 over the SHA-256 of its files
// in order, as 64 hex digits. A model's display name is never an identity.
type ModelID string

// ModelIDOf computes the id from the SHA-256 of each file, in split order.
func ModelIDOf(files [][sha256.Size]byte) ModelID {
	h := sha256.New()
	for _, f := range files {
		h.Write(f[:])
	}
	return ModelID(hex.EncodeToString(h.Sum(nil)))
}

// ParseModelID checks s.
func ParseModelID(s string) (ModelID, error) {
	if b, err := hex.DecodeString(s); err != nil || len(b) != sha256.Size || strings.ToLower(s) != s {
		return "", Errorf(CodeInvalidRequest, "model id %.80q is not 64 hex digits", s)
	}
	return ModelID(s), nil
}

// Short is the part of the id that tables show.
func (m ModelID) Short() string { return string(m[:min(12, len(m))]) }

// SessionID names a route session: the same on every hop, in every log line
// and in all telemetry, for the session's whole life.
type SessionID string

// NewSessionID draws a random session id, "s-" and 26 characters of base32.
func NewSessionID() SessionID {
	var b [16]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return SessionID("s-" + base32Lower.EncodeToString(b[:]))
}

// ParseSessionID checks s.
func ParseSessionID(s string) (SessionID, error) {
	rest, ok := strings.CutPrefix(s, "s-")
	if b, err := base32Lower.DecodeString(rest); !ok || err != nil || len(b) != 16 || base32Lower.EncodeToString(b) != rest {
		return "", Errorf(CodeInvalidRequest, "session id %.64q is not well formed", s)
	}
	return SessionID(s), nil
}

// Range is a contiguous range of layers [First, Last).
type Range struct {
	First int `json:"first"`
	Last  int `json:"last"`
}

// Len is the number of layers.
func (r Range) Len() int { return r.Last - r.First }

// Valid reports whether r is a non-empty range inside a model of n layers.
func (r Range) Valid(n int) bool { return 0 <= r.First && r.First < r.Last && r.Last <= n }

// Contains reports whether o lies inside r.
func (r Range) Contains(o Range) bool { return r.First <= o.First && o.Last <= r.Last }

// String is "first-last" with last exclusive, as the command line writes it.
func (r Range) String() string { return fmt.Sprintf("%d-%d", r.First, r.Last) }

// ParseRange reads "first-last" (last exclusive).
func ParseRange(s string) (Range, error) {
	var r Range
	var rest string
	if n, _ := fmt.Sscanf(s+" .", "%d-%d %s", &r.First, &r.Last, &rest); n != 3 || rest != "." || r.First < 0 || r.Last <= r.First || r.String() != s {
		return Range{}, Errorf(CodeRangeInvalid, "layer range %.40q is not FIRST-LAST with FIRST < LAST (LAST not included)", s)
	}
	return r, nil
}
