package gguf

import (
	"fmt"
	"math"
	"math/bits"
)

// Type is a ggml tensor type as it is written to disk. Numbers, block sizes and byte
// sizes are those of ggml in llama.cpp v0.4.0 (ggml_blck_size, ggml_type_size).
type Type uint32

// The tensor types of llama.cpp v0.4.0. Numbers 4, 5, 31 to 33 and 36 to 38 belonged to
// formats that ggml has removed; they are unknown here as they are there.
const (
	TypeF32     Type = 0
	TypeF16     Type = 1
	TypeQ4_0    Type = 2
	TypeQ4_1    Type = 3
	TypeQ5_0    Type = 6
	TypeQ5_1    Type = 7
	TypeQ8_0    Type = 8
	TypeQ8_1    Type = 9
	TypeQ2_K    Type = 10
	TypeQ3_K    Type = 11
	TypeQ4_K    Type = 12
	TypeQ5_K    Type = 13
	TypeQ6_K    Type = 14
	TypeQ8_K    Type = 15
	TypeIQ2_XXS Type = 16
	TypeIQ2_XS  Type = 17
	TypeIQ3_XXS Type = 18
	TypeIQ1_S   Type = 19
	TypeIQ4_NL  Type = 20
	TypeIQ3_S   Type = 21
	TypeIQ2_S   Type = 22
	TypeIQ4_XS  Type = 23
	TypeI8      Type = 24
	TypeI16     Type = 25
	TypeI32     Type = 26
	TypeI64     Type = 27
	TypeF64     Type = 28
	TypeIQ1_M   Type = 29
	TypeBF16    Type = 30
	TypeTQ1_0   Type = 34
	TypeTQ2_0   Type = 35
	TypeMXFP4   Type = 39
	TypeNVFP4   Type = 40
	TypeQ1_0    Type = 41
	TypeQ2_0    Type = 42
)

type typeTraits struct {
	name  string
	block uint64 // elements per block
	size  uint64 // bytes per block
}

var traits = [...]typeTraits{
	TypeF32:     {"f32", 1, 4},
	TypeF16:     {"f16", 1, 2},
	TypeQ4_0:    {"q4_0", 32, 18},
	TypeQ4_1:    {"q4_1", 32, 20},
	TypeQ5_0:    {"q5_0", 32, 22},
	TypeQ5_1:    {"q5_1", 32, 24},
	TypeQ8_0:    {"q8_0", 32, 34},
	TypeQ8_1:    {"q8_1", 32, 36},
	TypeQ2_K:    {"q2_K", 256, 84},
	TypeQ3_K:    {"q3_K", 256, 110},
	TypeQ4_K:    {"q4_K", 256, 144},
	TypeQ5_K:    {"q5_K", 256, 176},
	TypeQ6_K:    {"q6_K", 256, 210},
	TypeQ8_K:    {"q8_K", 256, 292},
	TypeIQ2_XXS: {"iq2_xxs", 256, 66},
	TypeIQ2_XS:  {"iq2_xs", 256, 74},
	TypeIQ3_XXS: {"iq3_xxs", 256, 98},
	TypeIQ1_S:   {"iq1_s", 256, 50},
	TypeIQ4_NL:  {"iq4_nl", 32, 18},
	TypeIQ3_S:   {"iq3_s", 256, 110},
	TypeIQ2_S:   {"iq2_s", 256, 82},
	TypeIQ4_XS:  {"iq4_xs", 256, 136},
	TypeI8:      {"i8", 1, 1},
	TypeI16:     {"i16", 1, 2},
	TypeI32:     {"i32", 1, 4},
	TypeI64:     {"i64", 1, 8},
	TypeF64:     {"f64", 1, 8},
	TypeIQ1_M:   {"iq1_m", 256, 56},
	TypeBF16:    {"bf16", 1, 2},
	TypeTQ1_0:   {"tq1_0", 256, 54},
	TypeTQ2_0:   {"tq2_0", 256, 66},
	TypeMXFP4:   {"mxfp4", 32, 17},
	TypeNVFP4:   {"nvfp4", 64, 36},
	TypeQ1_0:    {"q1_0", 128, 18},
	TypeQ2_0:    {"q2_0", 64, 18},
}

// Types returns all known types in ascending order of their numbers.
func Types() []Type {
	var all []Type
	for t := range traits {
		if traits[t].block != 0 {
			all = append(all, Type(t))
		}
	}
	return all
}

// Known reports whether the pinned ggml can hold tensors of this type.
func (t Type) Known() bool { return uint64(t) < uint64(len(traits)) && traits[t].block != 0 }

// BlockSize is the number of elements in one block, or 0 for an unknown type.
func (t Type) BlockSize() uint64 {
	if !t.Known() {
		return 0
	}
	return traits[t].block
}

// TypeSize is the number of bytes of one block, or 0 for an unknown type.
func (t Type) TypeSize() uint64 {
	if !t.Known() {
		return 0
	}
	return traits[t].size
}

// String is ggml's name of the type, such as "f32" or "q4_K".
func (t Type) String() string {
	if !t.Known() {
		return fmt.Sprintf("type(%d)", uint32(t))
	}
	return traits[t].name
}

// ParseType is the inverse of String for known types.
func ParseType(name string) (Type, error) {
	for t := range traits {
		if traits[t].name == name && name != "" {
			return Type(t), nil
		}
	}
	return 0, errf(CodeType, "unknown tensor type %s", short(name))
}

// RowBytes is the size in bytes of a row of ne0 elements. It fails with CodeType for an
// unknown type or when ne0 is not a multiple of the block size.
func (t Type) RowBytes(ne0 uint64) (uint64, error) {
	if !t.Known() {
		return 0, errf(CodeType, "unknown tensor type %d", uint32(t))
	}
	tr := traits[t]
	if ne0%tr.block != 0 {
		return 0, errf(CodeType, "a row of %d elements is not a multiple of the %s block of %d", ne0, tr.name, tr.block)
	}
	hi, n := bits.Mul64(ne0/tr.block, tr.size)
	if hi != 0 || n > math.MaxInt64 {
		return 0, errf(CodeType, "a row of %d %s elements is too large", ne0, tr.name)
	}
	return n, nil
}

// ValueType is the type of a metadata value as it is written to disk.
type ValueType uint32

// The value types of GGUF.
const (
	ValueU8     ValueType = 0
	ValueI8     ValueType = 1
	ValueU16    ValueType = 2
	ValueI16    ValueType = 3
	ValueU32    ValueType = 4
	ValueI32    ValueType = 5
	ValueF32    ValueType = 6
	ValueBool   ValueType = 7
	ValueString ValueType = 8
	ValueArray  ValueType = 9
	ValueU64    ValueType = 10
	ValueI64    ValueType = 11
	ValueF64    ValueType = 12
)

var valueTraits = [...]struct {
	name string
	size int // bytes on disk; 0 where it varies
}{
	ValueU8:     {"u8", 1},
	ValueI8:     {"i8", 1},
	ValueU16:    {"u16", 2},
	ValueI16:    {"i16", 2},
	ValueU32:    {"u32", 4},
	ValueI32:    {"i32", 4},
	ValueF32:    {"f32", 4},
	ValueBool:   {"bool", 1},
	ValueString: {"str", 0},
	ValueArray:  {"arr", 0},
	ValueU64:    {"u64", 8},
	ValueI64:    {"i64", 8},
	ValueF64:    {"f64", 8},
}

// Known reports whether the format defines the type.
func (t ValueType) Known() bool { return uint64(t) < uint64(len(valueTraits)) }

// String is ggml's name of the type, such as "u32" or "str".
func (t ValueType) String() string {
	if !t.Known() {
		return fmt.Sprintf("valuetype(%d)", uint32(t))
	}
	return valueTraits[t].name
}

// ParseValueType is the inverse of String for known types.
func ParseValueType(name string) (ValueType, error) {
	for t := range valueTraits {
		if valueTraits[t].name == name {
			return ValueType(t), nil
		}
	}
	return 0, errf(CodeType, "unknown value type %s", short(name))
}

// size is the number of bytes of a scalar on disk, 0 for strings, arrays and unknown types.
func (t ValueType) size() int {
	if !t.Known() {
		return 0
	}
	return valueTraits[t].size
}
