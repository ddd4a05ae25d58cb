package llama

import (
	"fmt"
	"strings"
	"unsafe"

	"github.com/ebitengine/purego"

	"neuron/llama/gguf"
)

// GGUFElement is what the elements of a numeric or boolean array can be.
type GGUFElement interface {
	uint8 | int8 | uint16 | int16 | uint32 | int32 | uint64 | int64 | float32 | float64 | bool
}

// Version is the version of the format, 2 or 3. The counts of a freed handle are 0.
func (g GGUF) Version() uint32 {
	if !g.alive() {
		return 0
	}
	return cGGUFVersion(uintptr(g))
}

// Alignment is the alignment of tensor data in bytes.
func (g GGUF) Alignment() uint64 {
	if !g.alive() {
		return 0
	}
	return cGGUFAlignment(uintptr(g))
}

// DataOffset is where the tensor data begins in the file that was opened. In a
// file without tensors it is the end of the header, not rounded up to the
// alignment; for a context made by GGUFEmpty it is 0.
func (g GGUF) DataOffset() uint64 {
	if !g.alive() {
		return 0
	}
	return cGGUFDataOffset(uintptr(g))
}

// NKV is the number of metadata entries.
func (g GGUF) NKV() int {
	if !g.alive() {
		return 0
	}
	return int(cGGUFNKV(uintptr(g)))
}

// NTensors is the number of tensors.
func (g GGUF) NTensors() int {
	if !g.alive() {
		return 0
	}
	return int(cGGUFNTensors(uintptr(g)))
}

// Find gives the index of the entry with that key. It compares all keys in turn.
func (g GGUF) Find(key string) (i int, ok bool) {
	if !g.alive() || strings.IndexByte(key, 0) >= 0 {
		return 0, false
	}
	n := cGGUFFind(uintptr(g), key)
	return int(max(n, 0)), n >= 0
}

// Key is the key of entry i.
func (g GGUF) Key(i int) (string, error) {
	if err := g.checkKV("gguf key", i); err != nil {
		return "", err
	}
	return cGGUFKey(uintptr(g), int64(i)), nil
}

// KVType is the type of entry i; the type of the elements of an array is ArrayType.
func (g GGUF) KVType(i int) (gguf.ValueType, error) {
	if err := g.checkKV("gguf type", i); err != nil {
		return 0, err
	}
	return gguf.ValueType(cGGUFKVType(uintptr(g), int64(i))), nil
}

// ggufScalar reads entry i with the accessor for its type.
func ggufScalar[T any](g GGUF, i int, want gguf.ValueType, get func(uintptr, int64) T) (T, error) {
	if err := g.checkType("gguf value", i, want); err != nil {
		var none T
		return none, err
	}
	return get(uintptr(g), int64(i)), nil
}

// U8 is entry i, which must have exactly this type. So it is with the next ones.
func (g GGUF) U8(i int) (uint8, error) { return ggufScalar(g, i, gguf.ValueU8, cGGUFU8) }

// I8 is entry i.
func (g GGUF) I8(i int) (int8, error) { return ggufScalar(g, i, gguf.ValueI8, cGGUFI8) }

// U16 is entry i.
func (g GGUF) U16(i int) (uint16, error) { return ggufScalar(g, i, gguf.ValueU16, cGGUFU16) }

// I16 is entry i.
func (g GGUF) I16(i int) (int16, error) { return ggufScalar(g, i, gguf.ValueI16, cGGUFI16) }

// U32 is entry i.
func (g GGUF) U32(i int) (uint32, error) { return ggufScalar(g, i, gguf.ValueU32, cGGUFU32) }

// I32 is entry i.
func (g GGUF) I32(i int) (int32, error) { return ggufScalar(g, i, gguf.ValueI32, cGGUFI32) }

// U64 is entry i.
func (g GGUF) U64(i int) (uint64, error) { return ggufScalar(g, i, gguf.ValueU64, cGGUFU64) }

// I64 is entry i.
func (g GGUF) I64(i int) (int64, error) { return ggufScalar(g, i, gguf.ValueI64, cGGUFI64) }

// F32 is entry i. A signalling NaN comes out quiet.
func (g GGUF) F32(i int) (float32, error) { return ggufScalar(g, i, gguf.ValueF32, cGGUFF32) }

// F64 is entry i.
func (g GGUF) F64(i int) (float64, error) { return ggufScalar(g, i, gguf.ValueF64, cGGUFF64) }

// Bool is entry i. Every byte but 0 is true.
func (g GGUF) Bool(i int) (bool, error) { return ggufScalar(g, i, gguf.ValueBool, cGGUFBool) }

// Str is entry i.
func (g GGUF) Str(i int) (string, error) { return ggufScalar(g, i, gguf.ValueString, cGGUFStr) }

// ArrayType is the type of the elements of entry i, an array.
func (g GGUF) ArrayType(i int) (gguf.ValueType, error) {
	if err := g.checkType("gguf array type", i, gguf.ValueArray); err != nil {
		return 0, err
	}
	return gguf.ValueType(cGGUFArrType(uintptr(g), int64(i))), nil
}

// ArrayLen is the number of elements of entry i, an array.
func (g GGUF) ArrayLen(i int) (int, error) {
	if err := g.checkType("gguf array length", i, gguf.ValueArray); err != nil {
		return 0, err
	}
	return int(cGGUFArrN(uintptr(g), int64(i))), nil
}

// ArrayStr is element j of entry i, an array of strings.
func (g GGUF) ArrayStr(i, j int) (string, error) {
	const op = "gguf array string"
	if err := g.checkElem(op, i, gguf.ValueString); err != nil {
		return "", err
	}
	if n := int(cGGUFArrN(uintptr(g), int64(i))); j < 0 || j >= n {
		return "", fail(CodeInvalidArg, op, fmt.Sprintf("element %d of %d", j, n))
	}
	return g.arrayStr(i, j), nil
}

// arrayStr wants checked indices.
func (g GGUF) arrayStr(i, j int) string {
	p, _, _ := purego.SyscallN(aGGUFArrStr, uintptr(g), uintptr(i), uintptr(j))
	return string(cBytes(p, ggufMaxLen))
}

// ArrayStrs copies entry i, an array of strings.
func (g GGUF) ArrayStrs(i int) ([]string, error) {
	if err := g.checkElem("gguf array strings", i, gguf.ValueString); err != nil {
		return nil, err
	}
	out := make([]string, cGGUFArrN(uintptr(g), int64(i)))
	for j := range out {
		out[j] = g.arrayStr(i, j)
	}
	return out, nil
}

// GGUFArray copies entry i, an array of exactly this element type.
func GGUFArray[T GGUFElement](g GGUF, i int) ([]T, error) {
	if err := g.checkElem("gguf array", i, ggufElementType[T]()); err != nil {
		return nil, err
	}
	out := make([]T, cGGUFArrN(uintptr(g), int64(i)))
	if len(out) == 0 {
		return out, nil // there may be no memory behind it
	}
	data := pointer(cGGUFArrData(uintptr(g), int64(i)))
	if bools, ok := any(out).([]bool); ok {
		for j, b := range unsafe.Slice((*byte)(data), len(out)) {
			bools[j] = b != 0 // a Go bool must be 0 or 1
		}
		return out, nil
	}
	copy(out, unsafe.Slice((*T)(data), len(out)))
	return out, nil
}

func ggufElementType[T GGUFElement]() gguf.ValueType {
	var zero T
	switch any(zero).(type) {
	case uint8:
		return gguf.ValueU8
	case int8:
		return gguf.ValueI8
	case uint16:
		return gguf.ValueU16
	case int16:
		return gguf.ValueI16
	case uint32:
		return gguf.ValueU32
	case int32:
		return gguf.ValueI32
	case uint64:
		return gguf.ValueU64
	case int64:
		return gguf.ValueI64
	case float32:
		return gguf.ValueF32
	case float64:
		return gguf.ValueF64
	}
	return gguf.ValueBool
}

// FindTensor gives the index of the tensor with that name. It compares all names in turn.
func (g GGUF) FindTensor(name string) (i int, ok bool) {
	if !g.alive() || strings.IndexByte(name, 0) >= 0 {
		return 0, false
	}
	n := cGGUFFindTensor(uintptr(g), name)
	return int(max(n, 0)), n >= 0
}

// TensorName is the name of tensor i, at most 63 bytes.
func (g GGUF) TensorName(i int) (string, error) {
	if err := g.checkTensor("gguf tensor name", i); err != nil {
		return "", err
	}
	return cGGUFTensorName(uintptr(g), int64(i)), nil
}

// TensorDims gives the sizes of tensor i, fastest first, filled up with ones.
func (g GGUF) TensorDims(i int) ([4]int64, error) {
	if err := g.checkTensor("gguf tensor dims", i); err != nil {
		return [4]int64{}, err
	}
	return *(*[4]int64)(pointer(cGGUFTensorNE(uintptr(g), int64(i)))), nil
}

// TensorType is the type of tensor i.
func (g GGUF) TensorType(i int) (gguf.Type, error) {
	if err := g.checkTensor("gguf tensor type", i); err != nil {
		return 0, err
	}
	return gguf.Type(cGGUFTensorType(uintptr(g), int64(i))), nil
}

// TensorOffset is where tensor i begins, in bytes from DataOffset.
func (g GGUF) TensorOffset(i int) (uint64, error) {
	if err := g.checkTensor("gguf tensor offset", i); err != nil {
		return 0, err
	}
	return cGGUFTensorOffset(uintptr(g), int64(i)), nil
}

// TensorSize is the size of the data of tensor i in bytes, without padding.
func (g GGUF) TensorSize(i int) (uint64, error) {
	if err := g.checkTensor("gguf tensor size", i); err != nil {
		return 0, err
	}
	return cGGUFTensorSize(uintptr(g), int64(i)), nil
}
