// Package snapshot keeps state of prompts' beginnings in files: their format,
// and a shelf of them that is bounded in bytes and age.
//
// A blob of libllama does not say what it holds, and the library takes a wrong
// one without a word. So a file names model, layers, build, types and tokens,
// and a SHA-256 covers all of it; nothing is given out before that was checked.
// engine/stage/worker is the only user. The package knows neither the library
// nor sessions.
package snapshot

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"math"
	"time"

	"neuron/engine/prefix"
	"neuron/engine/protocol"
)

// Header says what a snapshot holds.
type Header struct {
	Model  protocol.ModelID
	Layers int            // of the whole model
	Loaded protocol.Range // of the stage that wrote it
	Build  protocol.Build
	KVType string

	// Exit is the boundary up to which the layers of the range ran.
	Exit int
	// Scope is seam.Prefix's; Keys are those of the tokens, whose number they
	// tell; Private marks the state of a private session.
	Scope   protocol.Hash
	Keys    prefix.Keys
	Private bool
	// Written is in whole milliseconds.
	Written time.Time
}

// Fits reports whether o can be given to the stage that h describes.
func (h *Header) Fits(o *Header) bool {
	return h.Model == o.Model && h.Layers == o.Layers && h.Loaded == o.Loaded && h.Build == o.Build && h.KVType == o.KVType
}

// ErrDamaged marks files that are not what this package wrote.
var ErrDamaged = errors.New("damaged snapshot")

// Format, little-endian:
//
//	0 "NRNp", 4 version u8, 5 flags u8 (1 private), 6 reserved u16,
//	8 header bytes u32, 12 blob bytes u64, 20 written i64 (Unix milliseconds),
//	28 layers, first, last, exit, protocol: u32 each, 48 model (32),
//	80 scope (32), 112 llama and KV type (u8 length, bytes), keys u32 and 16
//	bytes each; then the blob, then the SHA-256 of all before.
const (
	magic     = "NRNp"
	version   = 1
	fixedSize = 112
	maxText   = 64
	maxHeader = fixedSize + 2*(1+maxText) + 4 + prefix.MaxKeys*prefix.KeySize
	// maxBlob is far beyond any bound of a shelf, and no overflow.
	maxBlob = 1 << 40
)

// encode is everything before the blob.
func (h *Header) encode(blob int) ([]byte, error) {
	model, err := hex.DecodeString(string(h.Model))
	if err != nil || len(model) != sha256.Size || len(h.Build.Llama) > maxText || len(h.KVType) > maxText || h.Keys.Blocks() == 0 {
		return nil, fmt.Errorf("snapshot of model %.80q, llama %.80q and type %.80q with %d keys", h.Model, h.Build.Llama, h.KVType, h.Keys.Blocks())
	}
	le := binary.LittleEndian
	b := append(make([]byte, 0, maxHeader), magic...)
	b = append(b, version, 0, 0, 0)
	if h.Private {
		b[5] = 1
	}
	b = le.AppendUint32(b, 0) // the header's size
	b = le.AppendUint64(b, uint64(blob))
	b = le.AppendUint64(b, uint64(h.Written.UnixMilli()))
	for _, n := range []int{h.Layers, h.Loaded.First, h.Loaded.Last, h.Exit, h.Build.Protocol} {
		b = le.AppendUint32(b, uint32(n))
	}
	b = append(b, model...)
	b = append(b, h.Scope[:]...)
	for _, s := range []string{h.Build.Llama, h.KVType} {
		b = append(append(b, byte(len(s))), s...)
	}
	b = le.AppendUint32(b, uint32(h.Keys.Blocks()))
	b = append(b, h.Keys...)
	le.PutUint32(b[8:], uint32(len(b)))
	return b, nil
}

// parseHeader reads what stands before the blob, of which b may hold more. It
// returns the sizes of both.
func parseHeader(b []byte) (h *Header, size int, blob int64, err error) {
	bad := func(format string, args ...any) (*Header, int, int64, error) {
		return nil, 0, 0, fmt.Errorf("%w: "+format, append([]any{ErrDamaged}, args...)...)
	}
	le := binary.LittleEndian
	if len(b) < fixedSize || string(b[:4]) != magic || b[4] != version || b[5] > 1 || b[6] != 0 || b[7] != 0 {
		return bad("no header of version %d", version)
	}
	whole, length := le.Uint32(b[8:]), le.Uint64(b[12:])
	if whole < fixedSize || whole > maxHeader || int(whole) > len(b) || length == 0 || length > maxBlob {
		return bad("header of %d bytes, blob of %d", whole, length)
	}
	rest := b[fixedSize:whole]
	var texts [2]string
	for i := range texts {
		if len(rest) == 0 || rest[0] > maxText || int(rest[0]) >= len(rest) {
			return bad("a text in the header is cut off")
		}
		texts[i], rest = string(rest[1:1+rest[0]]), rest[1+rest[0]:]
	}
	if len(rest) < 4 {
		return bad("the keys are missing")
	}
	n := le.Uint32(rest)
	if n == 0 || n > prefix.MaxKeys || len(rest) != 4+int(n)*prefix.KeySize {
		return bad("%d keys in %d bytes", n, len(rest))
	}
	var num [5]int
	for i := range num {
		v := le.Uint32(b[28+4*i:])
		if v > math.MaxInt32 {
			return bad("a number of %d", v)
		}
		num[i] = int(v)
	}
	h = &Header{
		Model: protocol.ModelID(hex.EncodeToString(b[48:80])), Layers: num[0], Loaded: protocol.Range{First: num[1], Last: num[2]},
		Exit: num[3], Build: protocol.Build{Protocol: num[4], Llama: texts[0]}, KVType: texts[1],
		Scope: protocol.Hash(b[80:112]), Keys: bytes.Clone(rest[4:]), Private: b[5] == 1, Written: time.UnixMilli(int64(le.Uint64(b[20:]))).UTC(),
	}
	if !h.Loaded.Valid(h.Layers) || h.Exit <= h.Loaded.First || h.Exit > h.Loaded.Last {
		return bad("layers %s of %d up to %d", h.Loaded, h.Layers, h.Exit)
	}
	return h, int(whole), int64(length), nil
}

// Parse checks a whole file. The blob is part of b.
func Parse(b []byte) (*Header, []byte, error) {
	h, size, blob, err := parseHeader(b)
	if err != nil {
		return nil, nil, err
	}
	if int64(len(b)) != int64(size)+blob+sha256.Size {
		return nil, nil, fmt.Errorf("%w: %d bytes, want %d", ErrDamaged, len(b), int64(size)+blob+sha256.Size)
	}
	end := len(b) - sha256.Size
	if sum := sha256.Sum256(b[:end]); !bytes.Equal(sum[:], b[end:]) {
		return nil, nil, fmt.Errorf("%w: its SHA-256 is another one", ErrDamaged)
	}
	return h, b[size:end], nil
}
