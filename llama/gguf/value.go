package gguf

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
)

// Value is one metadata value: a scalar, a string, or an array of one of them. It is
// immutable and may be shared between goroutines. The zero Value is the u8 number 0.
type Value struct {
	typ  ValueType
	elem ValueType // of an array
	n    int       // elements of an array
	bits uint64    // scalar, sign-extended for signed integers, IEEE bits for floats
	str  string
	strs []string // array of strings
	raw  []byte   // array of scalars, little-endian as on disk
}

// Scalar constructors.

func U8(v uint8) Value    { return Value{typ: ValueU8, bits: uint64(v)} }
func I8(v int8) Value     { return Value{typ: ValueI8, bits: uint64(int64(v))} }
func U16(v uint16) Value  { return Value{typ: ValueU16, bits: uint64(v)} }
func I16(v int16) Value   { return Value{typ: ValueI16, bits: uint64(int64(v))} }
func U32(v uint32) Value  { return Value{typ: ValueU32, bits: uint64(v)} }
func I32(v int32) Value   { return Value{typ: ValueI32, bits: uint64(int64(v))} }
func U64(v uint64) Value  { return Value{typ: ValueU64, bits: v} }
func I64(v int64) Value   { return Value{typ: ValueI64, bits: uint64(v)} }
func F32(v float32) Value { return Value{typ: ValueF32, bits: uint64(math.Float32bits(v))} }
func F64(v float64) Value { return Value{typ: ValueF64, bits: math.Float64bits(v)} }

// Bool makes a boolean.
func Bool(v bool) Value {
	var b uint64
	if v {
		b = 1
	}
	return Value{typ: ValueBool, bits: b}
}

// String makes a string. The format asks for UTF-8; the bytes are kept as they are.
func String(v string) Value { return Value{typ: ValueString, str: v} }

// Strings makes an array of strings and copies the slice.
func Strings(v []string) Value {
	return Value{typ: ValueArray, elem: ValueString, n: len(v), strs: slices.Clone(v)}
}

type number interface {
	~uint8 | ~int8 | ~uint16 | ~int16 | ~uint32 | ~int32 | ~uint64 | ~int64 | ~float32 | ~float64
}

func numbers[T number](elem ValueType, v []T) Value {
	raw, err := binary.Append(make([]byte, 0, len(v)*elem.size()), binary.LittleEndian, v)
	if err != nil {
		panic(err) // a slice of fixed-size numbers always encodes
	}
	return Value{typ: ValueArray, elem: elem, n: len(v), raw: raw}
}

// Array constructors; they copy the slice.

func U8s(v []uint8) Value    { return numbers(ValueU8, v) }
func I8s(v []int8) Value     { return numbers(ValueI8, v) }
func U16s(v []uint16) Value  { return numbers(ValueU16, v) }
func I16s(v []int16) Value   { return numbers(ValueI16, v) }
func U32s(v []uint32) Value  { return numbers(ValueU32, v) }
func I32s(v []int32) Value   { return numbers(ValueI32, v) }
func U64s(v []uint64) Value  { return numbers(ValueU64, v) }
func I64s(v []int64) Value   { return numbers(ValueI64, v) }
func F32s(v []float32) Value { return numbers(ValueF32, v) }
func F64s(v []float64) Value { return numbers(ValueF64, v) }

// Bools makes an array of booleans.
func Bools(v []bool) Value {
	raw := make([]byte, len(v))
	for i, b := range v {
		if b {
			raw[i] = 1
		}
	}
	return Value{typ: ValueArray, elem: ValueBool, n: len(v), raw: raw}
}

// Type is the value's type on disk.
func (v Value) Type() ValueType { return v.typ }

// ElemType is the element type of an array, and Type for everything else.
func (v Value) ElemType() ValueType {
	if v.typ == ValueArray {
		return v.elem
	}
	return v.typ
}

// Len is the number of elements of an array, and 1 for everything else.
func (v Value) Len() int {
	if v.typ == ValueArray {
		return v.n
	}
	return 1
}

// Uint returns an integer of any width that fits.
func (v Value) Uint() (uint64, bool) {
	switch v.typ {
	case ValueU8, ValueU16, ValueU32, ValueU64:
		return v.bits, true
	case ValueI8, ValueI16, ValueI32, ValueI64:
		return v.bits, int64(v.bits) >= 0
	}
	return 0, false
}

// Int returns an integer of any width that fits.
func (v Value) Int() (int64, bool) {
	switch v.typ {
	case ValueU8, ValueU16, ValueU32, ValueU64:
		return int64(v.bits), v.bits <= math.MaxInt64
	case ValueI8, ValueI16, ValueI32, ValueI64:
		return int64(v.bits), true
	}
	return 0, false
}

// Float returns an f32 or f64.
func (v Value) Float() (float64, bool) {
	switch v.typ {
	case ValueF32:
		return float64(math.Float32frombits(uint32(v.bits))), true
	case ValueF64:
		return math.Float64frombits(v.bits), true
	}
	return 0, false
}

// Bool returns a boolean.
func (v Value) Bool() (value, ok bool) { return v.bits != 0 && v.typ == ValueBool, v.typ == ValueBool }

// Str returns a string.
func (v Value) Str() (string, bool) { return v.str, v.typ == ValueString }

// Strings returns an array of strings. The slice is shared: do not change it.
func (v Value) Strings() ([]string, bool) {
	if v.typ != ValueArray || v.elem != ValueString {
		return nil, false
	}
	return v.strs, true
}

// Ints returns an array of integers of any width if all of them fit.
func (v Value) Ints() ([]int64, bool) {
	if v.typ != ValueArray {
		return nil, false
	}
	switch v.elem {
	case ValueU8, ValueI8, ValueU16, ValueI16, ValueU32, ValueI32, ValueU64, ValueI64:
	default:
		return nil, false
	}
	out := make([]int64, v.n)
	for i := range out {
		n, ok := v.at(i).Int()
		if !ok {
			return nil, false
		}
		out[i] = n
	}
	return out, true
}

// Floats returns an array of f32 or f64.
func (v Value) Floats() ([]float64, bool) {
	if v.typ != ValueArray || (v.elem != ValueF32 && v.elem != ValueF64) {
		return nil, false
	}
	out := make([]float64, v.n)
	for i := range out {
		out[i], _ = v.at(i).Float()
	}
	return out, true
}

// Bools returns an array of booleans.
func (v Value) Bools() ([]bool, bool) {
	if v.typ != ValueArray || v.elem != ValueBool {
		return nil, false
	}
	out := make([]bool, v.n)
	for i := range out {
		out[i] = v.raw[i] != 0
	}
	return out, true
}

// Slice returns the elements [a, b) of an array as an array of the same type.
func (v Value) Slice(a, b int) (Value, error) {
	if v.typ != ValueArray {
		return Value{}, errf(CodeValue, "a %s value cannot be sliced", v.typ)
	}
	if a < 0 || b < a || b > v.n {
		return Value{}, errf(CodeValue, "slice [%d, %d) of an array of %d elements", a, b, v.n)
	}
	out := Value{typ: ValueArray, elem: v.elem, n: b - a}
	if v.elem == ValueString {
		out.strs = slices.Clip(v.strs[a:b])
	} else {
		s := v.elem.size()
		out.raw = slices.Clip(v.raw[a*s : b*s])
	}
	return out, nil
}

// Equal reports whether both values have the same type and the same bytes on disk. NaN
// equals the same NaN.
func (v Value) Equal(w Value) bool {
	if v.typ != w.typ {
		return false
	}
	switch v.typ {
	case ValueString:
		return v.str == w.str
	case ValueArray:
		return v.elem == w.elem && v.n == w.n && slices.Equal(v.strs, w.strs) && bytes.Equal(v.raw, w.raw)
	}
	return v.bits == w.bits
}

// at returns element i of an array of scalars.
func (v Value) at(i int) Value {
	s := v.elem.size()
	return scalar(v.elem, v.raw[i*s:])
}

// scalar decodes the little-endian scalar at the start of b.
func scalar(t ValueType, b []byte) Value {
	out := Value{typ: t}
	switch t {
	case ValueU8, ValueBool:
		out.bits = uint64(b[0])
	case ValueI8:
		out.bits = uint64(int64(int8(b[0])))
	case ValueU16:
		out.bits = uint64(binary.LittleEndian.Uint16(b))
	case ValueI16:
		out.bits = uint64(int64(int16(binary.LittleEndian.Uint16(b))))
	case ValueU32, ValueF32:
		out.bits = uint64(binary.LittleEndian.Uint32(b))
	case ValueI32:
		out.bits = uint64(int64(int32(binary.LittleEndian.Uint32(b))))
	default:
		out.bits = binary.LittleEndian.Uint64(b)
	}
	return out
}

// appendValue appends the value as it stands on disk, without its type.
func appendValue(b []byte, v Value) []byte {
	switch v.typ {
	case ValueString:
		return appendString(b, v.str)
	case ValueArray:
		b = binary.LittleEndian.AppendUint32(b, uint32(v.elem))
		b = binary.LittleEndian.AppendUint64(b, uint64(v.n))
		for _, s := range v.strs {
			b = appendString(b, s)
		}
		return append(b, v.raw...)
	case ValueU8, ValueI8, ValueBool:
		return append(b, byte(v.bits))
	case ValueU16, ValueI16:
		return binary.LittleEndian.AppendUint16(b, uint16(v.bits))
	case ValueU32, ValueI32, ValueF32:
		return binary.LittleEndian.AppendUint32(b, uint32(v.bits))
	}
	return binary.LittleEndian.AppendUint64(b, v.bits)
}

func appendString(b []byte, s string) []byte {
	b = binary.LittleEndian.AppendUint64(b, uint64(len(s)))
	return append(b, s...)
}

// Concat joins arrays with elements of one type.
func Concat(parts ...Value) (Value, error) {
	if len(parts) == 0 || parts[0].typ != ValueArray {
		return Value{}, errf(CodeValue, "nothing to join")
	}
	out := Value{typ: ValueArray, elem: parts[0].elem}
	for _, v := range parts {
		if v.typ != ValueArray || v.elem != out.elem {
			return Value{}, errf(CodeValue, "an array of %s and %s", out.elem, v.ElemType())
		}
		out.n += v.n
		out.strs = append(out.strs, v.strs...)
		out.raw = append(out.raw, v.raw...)
	}
	return out, nil
}
