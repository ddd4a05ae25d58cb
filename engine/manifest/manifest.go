// Package manifest is the signed description of a model's files: every
// tensor's extent and SHA-256, which layers need it, how the files lie in
// torrent pieces, and what a range of layers costs. docs/protocol/manifest.md
// is the schema.
//
// It does no I/O. Engine, tracker and window may import it; of our packages it
// imports engine/protocol only.
package manifest

import (
	"encoding/hex"

	"neuron/engine/protocol"
)

// Version is the schema of this build.
const Version = 1

// Manifest describes one model. All sizes and offsets are bytes. A manifest
// that came out of ParseSigned or a publisher has passed Check: its figures may
// be relied on. The order of fields is that of the canonical encoding.
type Manifest struct {
	Version int              `json:"version"`
	Model   protocol.ModelID `json:"model"` // content id of Files
	Name    string           `json:"name"`  // what clients call it
	Files   []File           `json:"files"` // in split order

	Architecture string `json:"architecture"`
	Layers       int    `json:"layers"`
	Context      int    `json:"context"` // tokens it was trained for
	Width        int    `json:"width"`   // elements of a hidden row
	Tied         bool   `json:"tied"`    // has no output.weight of its own
	// Alignment is that of the first file, and of all files that are cut from
	// the model. A power of two.
	Alignment uint64 `json:"alignment"`
	// WholeOnly says why the model may not be cut, or is "". All its tensors
	// then have UseAll.
	WholeOnly string `json:"whole_only"`
	// Cuts are the boundaries at which the whole model may be cut in two.
	Cuts []int `json:"cuts"`
	// Ends says which ranges may be a stage: Ends[a] are the legal ends of
	// stages that begin at layer a. Empty when every range may be one, or when
	// none but the whole may (WholeOnly). The whole model always may.
	Ends [][]Span `json:"ends"`
	// KVLayerBytes is the KV memory of one position in each layer (F16); empty
	// when it is not known for the family.
	KVLayerBytes []int64 `json:"kv_layer_bytes"`
	// KVWindow is how many positions the layers in KVWindowLayers look back;
	// 0 without such layers.
	KVWindow       int   `json:"kv_window"`
	KVWindowLayers []int `json:"kv_window_layers"`
	// KVWindowBytes is, per layer, the part of KVLayerBytes that the window
	// bounds; empty when that is all of it in the layers of KVWindowLayers.
	// KVStateBytes is what each layer takes of a session whatever its length;
	// empty when no layer does. Both are left out of the encoding then.
	KVWindowBytes []int64 `json:"kv_window_bytes,omitempty"`
	KVStateBytes  []int64 `json:"kv_state_bytes,omitempty"`

	Tokenizer    string `json:"tokenizer"` // tokenizer.ggml.model, and "/" pre where there is one
	ChatTemplate bool   `json:"chat_template"`
	License      string `json:"license"`

	// Tensors are sorted by file and offset and do not overlap.
	Tensors []Tensor `json:"tensors"`
	Torrent Torrent  `json:"torrent"`
}

// File is one of the publisher's files.
type File struct {
	Name   string `json:"name"` // base name
	Size   int64  `json:"size"`
	SHA256 Hash   `json:"sha256"`
	// Header is the extent [0, Header) before the tensor data: metadata,
	// vocabulary, tensor infos.
	Header       int64 `json:"header"`
	HeaderSHA256 Hash  `json:"header_sha256"`
	// Alignment of the file's tensors; the files of a split set may differ.
	Alignment uint64 `json:"alignment"`
}

// Span is the boundaries From to To, both included.
type Span struct {
	From int `json:"from"`
	To   int `json:"to"`
}

// Tensor is one tensor: bytes [Offset, Offset+Bytes) of Files[File].
type Tensor struct {
	Name   string   `json:"name"`
	Dims   []uint64 `json:"dims"`
	Type   uint32   `json:"type"` // GGML type number
	File   int      `json:"file"`
	Offset int64    `json:"offset"` // from the start of the file
	Bytes  int64    `json:"bytes"`
	SHA256 Hash     `json:"sha256"`
	Use    Use      `json:"use"`
	Layer  int      `json:"layer"` // for UseLayer; else -1
}

// Use says which stages have to hold a tensor's bytes.
type Use string

// The uses.
const (
	UseLayer Use = "layer" // the stage that owns Tensor.Layer
	UseHead  Use = "head"  // the stage with layer 0
	UseTail  Use = "tail"  // the stage with the last layer
	UseEnds  Use = "ends"  // head and tail (a tied embedding)
	UseAll   Use = "all"   // every stage
	// UseUnused: none. The tensor is of a block behind the last layer, which
	// predicts further tokens; it is in the files and in the torrent, and no
	// node fetches it, counts it or is paid for it.
	UseUnused Use = "unused"
)

// Torrent says how the files lie in pieces: BEP 3 version 1, the files one
// after the other in order, without padding.
type Torrent struct {
	InfoHash    string `json:"info_hash"` // SHA-1 of the info dictionary, 40 hex digits
	PieceLength int64  `json:"piece_length"`
	Pieces      int    `json:"pieces"`
	Private     bool   `json:"private"` // BEP 27
}

// Hash is a SHA-256; hex in JSON.
type Hash [32]byte

// String is the hash as 64 hex digits.
func (h Hash) String() string { return hex.EncodeToString(h[:]) }

// MarshalText implements encoding.TextMarshaler.
func (h Hash) MarshalText() ([]byte, error) { return []byte(h.String()), nil }

// UnmarshalText implements encoding.TextUnmarshaler: exactly 64 lower-case hex
// digits.
func (h *Hash) UnmarshalText(b []byte) error {
	// The length first: hex.Decode panics where the result has no room.
	if len(b) != 2*len(h) {
		return protocol.Errorf(protocol.CodeModelInvalid, "hash %.70q is not 64 hex digits", b)
	}
	if _, err := hex.Decode(h[:], b); err != nil || h.String() != string(b) {
		return protocol.Errorf(protocol.CodeModelInvalid, "hash %.70q is not 64 hex digits", b)
	}
	return nil
}
