package gguf

import (
	"math"
	"math/bits"
	"strings"
)

const (
	// DefaultAlignment is the alignment of tensor data when a file does not state one.
	DefaultAlignment = 32
	// PaddingKey is the string key with which EncodeHeader fills a header region of a
	// fixed size. It carries no meaning; llama.cpp ignores it.
	PaddingKey = "neuron.padding"
	// AlignmentKey is the u32 key that states the alignment of tensor data in bytes.
	AlignmentKey = "general.alignment"
	// ArchitectureKey is the string key that names the model family.
	ArchitectureKey = "general.architecture"

	maxDims    = 4  // GGML_MAX_DIMS
	maxNameLen = 63 // GGML_MAX_NAME less the final zero byte
)

// KV is one metadata entry.
type KV struct {
	Key   string
	Value Value
}

// TensorInfo describes one tensor.
type TensorInfo struct {
	Name   string   // 1 to 63 bytes
	Dims   []uint64 // 1 to 4 sizes, the row length (ne[0]) first
	Type   Type
	Offset uint64 // bytes from the start of the data section
}

// Elements is the number of elements. It fails with CodeType when a dimension is zero or
// the product exceeds what ggml can count (63 bits).
func (t TensorInfo) Elements() (uint64, error) {
	if len(t.Dims) == 0 || len(t.Dims) > maxDims {
		return 0, errf(CodeType, "tensor %s has %d dimensions, want 1 to %d", short(t.Name), len(t.Dims), maxDims)
	}
	n := uint64(1)
	for i, d := range t.Dims {
		if d == 0 {
			return 0, errf(CodeType, "tensor %s: dimension %d is zero", short(t.Name), i)
		}
		hi, lo := bits.Mul64(n, d)
		if hi != 0 || lo > math.MaxInt64 {
			return 0, errf(CodeType, "tensor %s: the number of elements overflows", short(t.Name))
		}
		n = lo
	}
	return n, nil
}

// Bytes is the size of the tensor's data without padding. It fails with CodeType for an
// unknown type, for rows that are not whole blocks, and when the size overflows 63 bits.
func (t TensorInfo) Bytes() (uint64, error) {
	n, err := t.Elements()
	if err != nil {
		return 0, err
	}
	row, err := t.Type.RowBytes(t.Dims[0])
	if err != nil {
		return 0, within("tensor "+short(t.Name), err)
	}
	hi, size := bits.Mul64(n/t.Dims[0], row)
	if hi != 0 || size > math.MaxInt64 {
		return 0, errf(CodeType, "tensor %s: the size in bytes overflows", short(t.Name))
	}
	return size, nil
}

// Header is everything of a file but the tensors' data. A Header that ReadHeader
// returned has passed all checks.
type Header struct {
	Version    uint32
	Alignment  uint64 // a power of two
	KVs        []KV   // in file order
	Tensors    []TensorInfo
	DataOffset int64 // where the data section begins in the file

	// Built by ReadHeader and never changed; a Header made by hand has none.
	keys    map[string]int
	tensors map[string]int
}

// Get returns the value of a key.
func (h *Header) Get(key string) (Value, bool) {
	// An entry of the index is believed only if it still fits, so that callers may edit KVs.
	if i, ok := h.keys[key]; ok && i < len(h.KVs) && h.KVs[i].Key == key {
		return h.KVs[i].Value, true
	}
	for i := range h.KVs {
		if h.KVs[i].Key == key {
			return h.KVs[i].Value, true
		}
	}
	return Value{}, false
}

// Architecture is the value of general.architecture, or "".
func (h *Header) Architecture() string {
	v, _ := h.Get(ArchitectureKey)
	s, _ := v.Str()
	return s
}

// Tensor returns the tensor with that name.
func (h *Header) Tensor(name string) (TensorInfo, bool) {
	if i, ok := h.tensors[name]; ok && i < len(h.Tensors) && h.Tensors[i].Name == name {
		return h.Tensors[i], true
	}
	for i := range h.Tensors {
		if h.Tensors[i].Name == name {
			return h.Tensors[i], true
		}
	}
	return TensorInfo{}, false
}

// checkName refuses names that C code would read differently than we do.
func checkName(what, s string, most int) error {
	switch {
	case s == "":
		return errf(CodeValue, "a %s is empty", what)
	case len(s) > most:
		return errf(CodeLimit, "%s %s has %d bytes, at most %d are allowed", what, short(s), len(s), most)
	case strings.IndexByte(s, 0) >= 0:
		return errf(CodeValue, "%s %s contains a zero byte", what, short(s))
	}
	return nil
}

// checkAlignment accepts the powers of two up to 1 GiB.
func checkAlignment(a uint64) error {
	if a == 0 || a&(a-1) != 0 || a > 1<<30 {
		return errf(CodeAlignment, "alignment %d is not a power of two up to 2^30", a)
	}
	return nil
}

// alignmentOf returns the alignment that the metadata states. The type must be u32:
// ggml's reader refuses any other.
func alignmentOf(v Value) (uint64, error) {
	if v.typ != ValueU32 {
		return 0, errf(CodeAlignment, "%s has type %s, want u32", AlignmentKey, v.typ)
	}
	return v.bits, checkAlignment(v.bits)
}

// alignUp rounds n up to a multiple of the power of two a; ok is false on overflow of 63 bits.
func alignUp(n, a uint64) (_ uint64, ok bool) {
	if n > math.MaxInt64-(a-1) {
		return 0, false
	}
	return (n + a - 1) &^ (a - 1), true
}

// Layout returns a copy of tensors in which each begins at the first aligned offset after
// the end of the one before, the only layout that ggml accepts, and the size of the data
// section with its final padding.
func Layout(tensors []TensorInfo, alignment uint64) ([]TensorInfo, uint64, error) {
	if err := checkAlignment(alignment); err != nil {
		return nil, 0, err
	}
	out := make([]TensorInfo, len(tensors))
	var off uint64
	for i, t := range tensors {
		size, err := t.Bytes()
		if err != nil {
			return nil, 0, err
		}
		t.Offset = off
		out[i] = t
		end, ok := alignUp(size, alignment)
		if !ok || end > math.MaxInt64-off {
			return nil, 0, errf(CodeOffset, "tensor %s ends beyond 63 bits", short(t.Name))
		}
		off += end
	}
	return out, off, nil
}
