// Package prefix names the beginnings of prompts without telling what they say.
//
// A driver computes keys of a prompt, hops compare them with those of the state
// that they keep, and the tracker compares them too. engine/session,
// engine/seam, engine/stage and engine/stage/worker import it. It does no I/O
// and knows neither routes nor models.
//
// The keys are a chain of keyed hashes at fixed block borders: equal keys at a
// border mean equal tokens up to it. Only who has the secret can make them, so a
// hop or the tracker can neither guess a prompt and compare, nor tell anything
// but that two prompts of one client begin alike.
package prefix

import (
	"bytes"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"

	"neuron/engine/protocol"
)

// Block is the number of tokens between two borders. Chunks that begin at a
// border have the rows of a prefill from the start.
const Block = 64

// KeySize is the length of one key, in bytes.
const KeySize = 16

// MaxKeys bounds the keys of a prompt: the longest context.
const MaxKeys = protocol.MaxContext / Block

// Keys are the keys of a prompt's whole blocks, one behind the other. The key at
// a border stands for all tokens before it.
type Keys []byte

// Secret derives the secret of one group of sessions that may share state from a
// node's secret. The words are told apart by their lengths.
func Secret(node []byte, words ...string) []byte {
	m := hmac.New(sha256.New, node)
	m.Write([]byte("neuron-prefix-v1\x00"))
	for _, w := range words {
		m.Write(binary.LittleEndian.AppendUint64(nil, uint64(len(w))))
		m.Write([]byte(w))
	}
	return m.Sum(nil)
}

// Of computes the keys of ids' whole blocks.
func Of(secret []byte, ids []int32) Keys {
	n := min(len(ids)/Block, MaxKeys)
	out := make(Keys, 0, n*KeySize)
	state := make([]byte, 0, sha256.Size)
	m := hmac.New(sha256.New, secret)
	var row [4 * Block]byte
	for i := range n {
		for j, id := range ids[i*Block : (i+1)*Block] {
			binary.LittleEndian.PutUint32(row[4*j:], uint32(id))
		}
		m.Reset()
		m.Write(state)
		m.Write(row[:])
		state = m.Sum(state[:0])
		// The rest of the state stays here, so that not even the secret's holder
		// could go on from a key alone.
		out = append(out, state[:KeySize]...)
	}
	return out
}

// Parse checks keys that came from outside. Code: invalid_request.
func Parse(b []byte) (Keys, error) {
	if len(b)%KeySize != 0 || len(b)/KeySize > MaxKeys {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "prefix keys of %d bytes", len(b))
	}
	return b, nil
}

// Blocks is the number of keys.
func (k Keys) Blocks() int { return len(k) / KeySize }

// Tokens is the number of tokens that the keys stand for.
func (k Keys) Tokens() int { return k.Blocks() * Block }

// First are the keys of the first n blocks.
func (k Keys) First(n int) Keys { return k[: n*KeySize : n*KeySize] }

// Common is the number of blocks at the beginning that k and o share.
func (k Keys) Common(o Keys) int {
	for n := min(k.Blocks(), o.Blocks()); n > 0; n-- {
		if bytes.Equal(k.key(n), o.key(n)) {
			return n // the chain says so of all before it
		}
	}
	return 0
}

// key is the key at border n, from 1 on.
func (k Keys) key(n int) []byte { return k[(n-1)*KeySize : n*KeySize] }

// ID is the key at border n as the tracker sees it.
func (k Keys) ID(n int) string { return hex.EncodeToString(k.key(n)) }

// landmarks are the borders that are told to the tracker, in blocks: few enough
// for one request, at most a third apart.
var landmarks = [...]int{
	1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 192, 256, 384, 512, 768, 1024, 1536, 2048,
}

// Landmarks names k for a route request, the longest beginnings last.
func (k Keys) Landmarks() []protocol.Prefix {
	var out []protocol.Prefix
	for _, n := range landmarks {
		if n > k.Blocks() {
			break
		}
		out = append(out, protocol.Prefix{ID: k.ID(n), Tokens: n * Block})
	}
	return out
}

// reported is how many landmarks of one kept state a node tells: enough that a
// prompt with half of it in common is recognised.
const reported = 4

// Names are the ids by which a node reports kept states, which are given in the
// order of their worth; at most protocol.MaxPrefixes.
func Names(states []Keys) []string {
	var out []string
	seen := map[string]bool{}
	for _, k := range states {
		all := k.Landmarks()
		for i := len(all) - 1; i >= max(0, len(all)-reported); i-- {
			if id := all[i].ID; !seen[id] && len(out) < protocol.MaxPrefixes {
				seen[id] = true
				out = append(out, id)
			}
		}
	}
	return out
}
