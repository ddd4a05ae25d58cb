package announce

import (
	"crypto/ed25519"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/hex"
	"strings"

	"neuron/engine/protocol"
)

// Tokens make and check announce tokens: the node id and a MAC over it, under
// a key that follows from the tracker's. So they survive a restart, and nothing
// is stored. A token is worth nothing while its node is not connected.
type Tokens struct{ key []byte }

const tokenDomain = "neuron-announce-v1\x00"

// NewTokens makes those of the tracker with this key.
func NewTokens(key ed25519.PrivateKey) Tokens {
	return Tokens{mac(key.Seed(), tokenDomain)}
}

func mac(key []byte, text string) []byte {
	h := hmac.New(sha256.New, key)
	h.Write([]byte(text)) // never fails
	return h.Sum(nil)
}

// Of is the token of a node.
func (t Tokens) Of(id protocol.NodeID) string {
	return string(id) + "." + hex.EncodeToString(mac(t.key, string(id))[:16])
}

// Node is whom the token was given to; false for a token that nobody got.
func (t Tokens) Node(token string) (protocol.NodeID, bool) {
	id, _, _ := strings.Cut(token, ".")
	node := protocol.NodeID(id)
	return node, hmac.Equal([]byte(t.Of(node)), []byte(token))
}
