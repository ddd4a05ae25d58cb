package gguf

import (
	"encoding/binary"
	"io"
)

// Least sizes on disk, used to bound counts by the file's size.
const (
	leastKV     = 8 + 1 + 4 + 1
	leastTensor = 8 + 1 + 4 + 8 + 4 + 8
	leastString = 8
)

// ReadHeader reads and checks the header of a file of size bytes. It reads from r in
// large pieces, once, and allocates in proportion to what the file really holds. Errors
// are *Error. Tensor data is not read, but it must lie inside the file, without overlap
// and without gaps beyond the alignment.
func ReadHeader(r io.ReaderAt, size int64, l Limits) (*Header, error) {
	if size < 0 {
		return nil, errf(CodeTruncated, "negative file size %d", size)
	}
	l = l.filled()
	c := newCursor(r, size, l.HeaderBytes)
	h := &Header{Alignment: DefaultAlignment}
	nTensors, nKVs, err := h.readPreamble(c, l)
	if err != nil {
		return nil, err
	}
	if err := h.readKVs(c, l, nKVs); err != nil {
		return nil, err
	}
	if v, ok := h.Get(AlignmentKey); ok {
		if h.Alignment, err = alignmentOf(v); err != nil {
			return nil, err
		}
	}
	if err := h.readTensors(c, l, nTensors); err != nil {
		return nil, err
	}
	off, ok := alignUp(uint64(c.pos), h.Alignment)
	if !ok {
		return nil, errf(CodeTruncated, "the data section begins beyond 63 bits")
	}
	h.DataOffset = int64(off)
	return h, h.checkTensors(size)
}

func (h *Header) readPreamble(c *cursor, l Limits) (nTensors, nKVs uint64, err error) {
	// What is too short for a magic number cannot be told from a foreign file.
	magic, err := c.take("magic", 4)
	if err != nil {
		return 0, 0, err
	}
	switch string(magic) {
	case "GGUF":
	case "FUGG":
		return 0, 0, errf(CodeMagic, "magic is \"FUGG\": a draft of the format or a big-endian file, convert the model again")
	case "lmgg", "tjgg", "fmgg":
		return 0, 0, errf(CodeMagic, "magic is %q: a GGML file from before GGUF, convert the model again", magic)
	case "vers":
		return 0, 0, errf(CodeMagic, "magic is \"vers\": probably a Git LFS pointer, the model itself was not downloaded")
	default:
		return 0, 0, errf(CodeMagic, "magic is %q, want \"GGUF\"", magic)
	}
	if h.Version, err = c.u32("version"); err != nil {
		return 0, 0, err
	}
	switch v := h.Version; {
	case v == 2 || v == 3:
	case v == 1:
		return 0, 0, errf(CodeVersion, "GGUF version 1 is not supported, convert the model again")
	case v&0xffff == 0 && v != 0:
		return 0, 0, errf(CodeVersion, "version %#x: the file is big-endian, only little-endian is supported", v)
	default:
		return 0, 0, errf(CodeVersion, "GGUF version %d is not supported, want 2 or 3", v)
	}
	if nTensors, err = c.u64("tensor count"); err != nil {
		return 0, 0, err
	}
	if nKVs, err = c.u64("metadata count"); err != nil {
		return 0, 0, err
	}
	if err := c.checkCount("tensors", nTensors, l.Tensors, leastTensor); err != nil {
		return 0, 0, err
	}
	return nTensors, nKVs, c.checkCount("metadata entries", nKVs, l.KVs, leastKV)
}

func (h *Header) readKVs(c *cursor, l Limits, n uint64) error {
	h.KVs = make([]KV, 0, min(n, 256))
	h.keys = make(map[string]int, min(n, 256))
	for i := range int(n) {
		key, err := c.text("key", l.KeyLen)
		if err != nil {
			return err
		}
		if err := checkName("key", key, int(l.KeyLen)); err != nil {
			return err
		}
		if _, dup := h.keys[key]; dup {
			return errf(CodeDuplicate, "key %s occurs twice", short(key))
		}
		v, err := c.value(l)
		if err != nil {
			return within("key "+short(key), err)
		}
		h.keys[key] = i
		h.KVs = append(h.KVs, KV{key, v})
	}
	return nil
}

func (c *cursor) value(l Limits) (Value, error) {
	n, err := c.u32("value type")
	if err != nil {
		return Value{}, err
	}
	switch t := ValueType(n); {
	case !t.Known():
		return Value{}, errf(CodeType, "unknown value type %d", n)
	case t == ValueString:
		s, err := c.text("string", l.StringLen)
		return String(s), err
	case t == ValueArray:
		return c.array(l)
	default:
		b, err := c.take("value", t.size())
		if err != nil {
			return Value{}, err
		}
		if t == ValueBool && b[0] > 1 {
			return Value{}, errf(CodeValue, "boolean is %d", b[0])
		}
		return scalar(t, b), nil
	}
}

func (c *cursor) array(l Limits) (Value, error) {
	b, err := c.take("array", 12)
	if err != nil {
		return Value{}, err
	}
	elem, n := ValueType(binary.LittleEndian.Uint32(b)), binary.LittleEndian.Uint64(b[4:])
	switch {
	case !elem.Known():
		return Value{}, errf(CodeType, "unknown array element type %d", uint32(elem))
	case elem == ValueArray:
		return Value{}, errf(CodeType, "arrays of arrays are not supported")
	case elem == ValueString:
		if err := c.checkCount("array elements", n, l.ArrayLen, leastString); err != nil {
			return Value{}, err
		}
		return c.stringArray(int(n), l)
	}
	if err := c.checkCount("array elements", n, l.ArrayLen, uint64(elem.size())); err != nil {
		return Value{}, err
	}
	raw, err := c.appendTo(nil, "array", n*uint64(elem.size()))
	if err != nil {
		return Value{}, err
	}
	if elem == ValueBool {
		for _, x := range raw {
			if x > 1 {
				return Value{}, errf(CodeValue, "boolean is %d", x)
			}
		}
	}
	return Value{typ: ValueArray, elem: elem, n: int(n), raw: raw}, nil
}

// stringArray puts the bytes of all strings into one block of memory: a vocabulary of
// 150,000 tokens costs a handful of allocations.
func (c *cursor) stringArray(n int, l Limits) (Value, error) {
	var all []byte
	ends := make([]int, 0, min(n, 1<<16))
	for range n {
		k, err := c.textLen("string", l.StringLen)
		if err != nil {
			return Value{}, err
		}
		if all, err = c.appendTo(all, "string", k); err != nil {
			return Value{}, err
		}
		ends = append(ends, len(all))
	}
	text := string(all)
	strs := make([]string, n)
	from := 0
	for i, end := range ends {
		strs[i] = text[from:end]
		from = end
	}
	return Value{typ: ValueArray, elem: ValueString, n: n, strs: strs}, nil
}

func (h *Header) readTensors(c *cursor, l Limits, n uint64) error {
	h.Tensors = make([]TensorInfo, 0, min(n, 4096))
	h.tensors = make(map[string]int, min(n, 4096))
	for i := range int(n) {
		name, err := c.text("tensor name", l.NameLen)
		if err != nil {
			return err
		}
		if err := checkName("tensor name", name, int(l.NameLen)); err != nil {
			return err
		}
		if _, dup := h.tensors[name]; dup {
			return errf(CodeDuplicate, "tensor %s occurs twice", short(name))
		}
		nd, err := c.u32("dimension count")
		if err != nil {
			return err
		}
		if uint64(nd) > l.Dims {
			return errf(CodeLimit, "tensor %s has %d dimensions, at most %d are allowed", short(name), nd, l.Dims)
		}
		b, err := c.take("tensor", int(nd)*8+12)
		if err != nil {
			return err
		}
		t := TensorInfo{Name: name, Dims: make([]uint64, nd)}
		for j := range t.Dims {
			t.Dims[j] = binary.LittleEndian.Uint64(b[j*8:])
		}
		t.Type = Type(binary.LittleEndian.Uint32(b[nd*8:]))
		t.Offset = binary.LittleEndian.Uint64(b[nd*8+4:])
		h.tensors[name] = i
		h.Tensors = append(h.Tensors, t)
	}
	return nil
}

// checkTensors checks sizes and places. Like ggml it wants every tensor at the first
// aligned offset after the one before it, which rules out overlap. The padding after the
// last tensor may be missing.
func (h *Header) checkTensors(size int64) error {
	laid, _, err := Layout(h.Tensors, h.Alignment)
	if err != nil {
		return err
	}
	for i, t := range h.Tensors {
		if t.Offset%h.Alignment != 0 {
			return errf(CodeAlignment, "tensor %s begins at %d, which is not a multiple of %d", short(t.Name), t.Offset, h.Alignment)
		}
		if t.Offset != laid[i].Offset {
			return errf(CodeOffset, "tensor %s begins at %d of the data section, expected %d", short(t.Name), t.Offset, laid[i].Offset)
		}
		n, err := t.Bytes()
		if err != nil {
			return err
		}
		have := max(size-h.DataOffset, 0)
		if n > uint64(have) || t.Offset > uint64(have)-n {
			return errf(CodeTruncated, "tensor %s needs %d bytes at %d of the data section, which has %d", short(t.Name), n, t.Offset, have)
		}
	}
	return nil
}
