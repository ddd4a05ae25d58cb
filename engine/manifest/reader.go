package manifest

import (
	"bytes"
	"encoding/json"
	"math"
	"strconv"

	"neuron/engine/protocol"
)

// reader takes canonical JSON apart, in the one order in which the encoder
// writes it. Lists are bounded while they are read: a general JSON decoder
// would build a million empty tensors out of three megabytes first.
type reader struct {
	b   []byte
	err error
}

func (r *reader) fail(format string, args ...any) {
	if r.err == nil {
		r.err = bad(format, args...)
	}
	r.b = nil
}

// take wants exactly s next.
func (r *reader) take(s string) {
	if !bytes.HasPrefix(r.b, []byte(s)) {
		r.fail("expected %.40q before %.40q", s, r.b[:min(len(r.b), 40)])
		return
	}
	r.b = r.b[len(s):]
}

// number reads a whole number of at most 64 bits, signed, without plus,
// leading zeros or exponent.
func (r *reader) number() (n uint64, negative bool) {
	b := r.b
	if len(b) > 0 && b[0] == '-' {
		negative, b = true, b[1:]
	}
	k := 0
	for k < len(b) && '0' <= b[k] && b[k] <= '9' {
		k++
	}
	n, err := strconv.ParseUint(string(b[:min(k, 20)]), 10, 64)
	if err != nil || k > 20 || k > 1 && b[0] == '0' || negative && n == 0 {
		r.fail("expected a number before %.40q", r.b[:min(len(r.b), 40)])
		return 0, false
	}
	r.b = b[k:]
	return n, negative
}

func (r *reader) int64() int64 {
	n, negative := r.number()
	if n > math.MaxInt64 {
		r.fail("number %d is too large", n)
		return 0
	}
	if negative {
		return -int64(n)
	}
	return int64(n)
}

func (r *reader) int() int {
	n := r.int64()
	if n > math.MaxInt32 || n < math.MinInt32 {
		r.fail("number %d is too large", n)
		return 0
	}
	return int(n)
}

func (r *reader) uint64() uint64 {
	n, negative := r.number()
	if negative {
		r.fail("number -%d is negative", n)
	}
	return n
}

func (r *reader) bool() bool {
	if bytes.HasPrefix(r.b, []byte("true")) {
		r.take("true")
		return true
	}
	r.take("false")
	return false
}

// text reads a string of at most maxEscaped bytes as it stands.
func (r *reader) text() string {
	if len(r.b) == 0 || r.b[0] != '"' {
		r.fail("expected text before %.40q", r.b[:min(len(r.b), 40)])
		return ""
	}
	end, plain := 1, true
	for ; end < len(r.b) && end <= maxEscaped && r.b[end] != '"'; end++ {
		if r.b[end] == '\\' {
			plain = false
			end++
		}
	}
	if end >= len(r.b) || end > maxEscaped {
		r.fail("a text has no end within %d bytes", maxEscaped)
		return ""
	}
	raw := r.b[:end+1]
	r.b = r.b[end+1:]
	if plain {
		return string(raw[1:end]) // controls and invalid UTF-8 are found by Check
	}
	var s string
	if err := json.Unmarshal(raw, &s); err != nil {
		r.fail("text %.40q: %w", raw, err)
	}
	return s
}

// maxEscaped is the longest text with a backslash before each byte.
const maxEscaped = 2*maxText + 2

func (r *reader) hash() (h Hash) {
	s := r.text()
	if r.err == nil {
		if err := h.UnmarshalText([]byte(s)); err != nil {
			r.err, r.b = err, nil
		}
	}
	return h
}

// entries reads "[...]" of at most most entries.
func entries[T any](r *reader, most int, entry func() T) []T {
	out := []T{}
	r.take("[")
	for r.err == nil {
		if len(out) == 0 && bytes.HasPrefix(r.b, []byte("]")) {
			break
		}
		if len(out) == most {
			r.fail("a list has more than %d entries", most)
			break
		}
		out = append(out, entry())
		if !bytes.HasPrefix(r.b, []byte(",")) {
			break
		}
		r.take(",")
	}
	r.take("]")
	return out
}

// optional reads a list under a key that may be absent.
func (r *reader) optional(key string) []int64 {
	if r.err != nil || !bytes.HasPrefix(r.b, []byte(key)) {
		return nil
	}
	r.take(key)
	return entries(r, MaxLayers, r.int64)
}

func (r *reader) manifest() *Manifest {
	m := &Manifest{}
	r.take(`{"version":`)
	if m.Version = r.int(); r.err == nil && m.Version != Version {
		r.err = protocol.Errorf(protocol.CodeProtocolVersion, "manifest of version %d, this build reads %d", m.Version, Version)
		return nil
	}
	r.take(`,"model":`)
	m.Model = protocol.ModelID(r.text())
	r.take(`,"name":`)
	m.Name = r.text()
	r.take(`,"files":`)
	m.Files = entries(r, MaxFiles, r.file)
	r.take(`,"architecture":`)
	m.Architecture = r.text()
	r.take(`,"layers":`)
	m.Layers = r.int()
	r.take(`,"context":`)
	m.Context = r.int()
	r.take(`,"width":`)
	m.Width = r.int()
	r.take(`,"tied":`)
	m.Tied = r.bool()
	r.take(`,"alignment":`)
	m.Alignment = r.uint64()
	r.take(`,"whole_only":`)
	m.WholeOnly = r.text()
	r.take(`,"cuts":`)
	m.Cuts = entries(r, MaxLayers, r.int)
	r.take(`,"ends":`)
	m.Ends = entries(r, MaxLayers, func() []Span { return entries(r, MaxLayers, r.span) })
	r.take(`,"kv_layer_bytes":`)
	m.KVLayerBytes = entries(r, MaxLayers, r.int64)
	r.take(`,"kv_window":`)
	m.KVWindow = r.int()
	r.take(`,"kv_window_layers":`)
	m.KVWindowLayers = entries(r, MaxLayers, r.int)
	m.KVWindowBytes = r.optional(`,"kv_window_bytes":`)
	m.KVStateBytes = r.optional(`,"kv_state_bytes":`)
	r.take(`,"tokenizer":`)
	m.Tokenizer = r.text()
	r.take(`,"chat_template":`)
	m.ChatTemplate = r.bool()
	r.take(`,"license":`)
	m.License = r.text()
	r.take(`,"tensors":`)
	m.Tensors = entries(r, MaxTensors, r.tensor)
	r.take(`,"torrent":{"info_hash":`)
	m.Torrent.InfoHash = r.text()
	r.take(`,"piece_length":`)
	m.Torrent.PieceLength = r.int64()
	r.take(`,"pieces":`)
	m.Torrent.Pieces = r.int()
	r.take(`,"private":`)
	m.Torrent.Private = r.bool()
	r.take(`}}`)
	return m
}

func (r *reader) file() (f File) {
	r.take(`{"name":`)
	f.Name = r.text()
	r.take(`,"size":`)
	f.Size = r.int64()
	r.take(`,"sha256":`)
	f.SHA256 = r.hash()
	r.take(`,"header":`)
	f.Header = r.int64()
	r.take(`,"header_sha256":`)
	f.HeaderSHA256 = r.hash()
	r.take(`,"alignment":`)
	f.Alignment = r.uint64()
	r.take(`}`)
	return f
}

func (r *reader) span() (s Span) {
	r.take(`{"from":`)
	s.From = r.int()
	r.take(`,"to":`)
	s.To = r.int()
	r.take(`}`)
	return s
}

func (r *reader) tensor() (t Tensor) {
	r.take(`{"name":`)
	t.Name = r.text()
	r.take(`,"dims":`)
	t.Dims = entries(r, maxDims, r.uint64)
	r.take(`,"type":`)
	n := r.uint64()
	if n > maxType {
		r.fail("tensor type %d", n)
	}
	t.Type = uint32(n)
	r.take(`,"file":`)
	t.File = r.int()
	r.take(`,"offset":`)
	t.Offset = r.int64()
	r.take(`,"bytes":`)
	t.Bytes = r.int64()
	r.take(`,"sha256":`)
	t.SHA256 = r.hash()
	r.take(`,"use":`)
	t.Use = Use(r.text())
	r.take(`,"layer":`)
	t.Layer = r.int()
	r.take(`}`)
	return t
}
