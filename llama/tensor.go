package llama

import (
	"unsafe"

	"github.com/ebitengine/purego"
)

// Numbers of enum ggml_type that this package itself needs.
const (
	typeF32    = 0
	typeF16    = 1
	typeQ4_0   = 2
	typeQ4_1   = 3
	typeQ5_0   = 6
	typeQ5_1   = 7
	typeQ8_0   = 8
	typeIQ4_NL = 20
	typeBF16   = 30
	typeCount  = 43 // GGML_TYPE_COUNT of v0.4.0; the layout check proves it
)

var (
	// size_t ggml_nbytes(const struct ggml_tensor * tensor);
	aNBytes uintptr
	// void ggml_backend_tensor_get(const struct ggml_tensor * tensor, void * data, size_t offset, size_t size);
	aTensorGet uintptr
	// void ggml_backend_tensor_set(struct ggml_tensor * tensor, const void * data, size_t offset, size_t size);
	aTensorSet uintptr
	// int64_t ggml_blck_size(enum ggml_type type);
	cBlockSize func(t int32) int64
	// size_t ggml_type_size(enum ggml_type type);
	cTypeSize func(t int32) uint64
	// const char * ggml_type_name(enum ggml_type type);
	cTypeName func(t int32) string
)

var tensorBinds = []bind{
	{libBase, "ggml_nbytes", &aNBytes},
	{libBase, "ggml_backend_tensor_get", &aTensorGet},
	{libBase, "ggml_backend_tensor_set", &aTensorSet},
	{libBase, "ggml_blck_size", &cBlockSize},
	{libBase, "ggml_type_size", &cTypeSize},
	{libBase, "ggml_type_name", &cTypeName},
}

// TypeInfo is what the library says about a tensor type number: values per
// block, bytes per block and name. Removed numbers have an empty block. ok is
// false for numbers that the library does not have.
func TypeInfo(t uint32) (blockSize int64, blockBytes uint64, name string, ok bool) {
	if t >= typeCount || !loaded() {
		return 0, 0, "", false
	}
	return cBlockSize(int32(t)), cTypeSize(int32(t)), cTypeName(int32(t)), true
}

// Tensor is a ggml_tensor*. It is handed to an EvalHandler and is valid only
// during that call.
type Tensor uintptr

func (t Tensor) raw() *ggmlTensor { return (*ggmlTensor)(pointer(uintptr(t))) }

// Name gives the name of the tensor, at most 63 bytes. It allocates; in Ask use NameIs.
func (t Tensor) Name() string {
	if t == 0 {
		return ""
	}
	return cName(&t.raw().Name)
}

// NameIs says whether the tensor has this name, without allocating.
func (t Tensor) NameIs(name string) bool {
	if t == 0 || len(name) >= 64 {
		return false
	}
	b := &t.raw().Name
	for i := range len(name) {
		if b[i] != name[i] {
			return false
		}
	}
	return b[len(name)] == 0
}

// Dims gives the sizes, fastest first: [width, rows, 1, 1] for hidden states.
func (t Tensor) Dims() [4]int64 {
	if t == 0 {
		return [4]int64{}
	}
	return t.raw().NE
}

// Type is the ggml_type number.
func (t Tensor) Type() uint32 {
	if t == 0 {
		return typeCount
	}
	return uint32(t.raw().Type)
}

// NBytes is the size of the data in bytes.
func (t Tensor) NBytes() int {
	if t == 0 {
		return 0
	}
	n, _, _ := purego.SyscallN(aNBytes, uintptr(t))
	return int(n)
}

// Get copies len(dst) bytes from offset bytes into the tensor, also out of the
// memory of an accelerator. Outside of the tensor, or before it has memory, it is
// an error with code tensor.
func (t Tensor) Get(dst []byte, offset int) error {
	if len(dst) == 0 {
		return nil
	}
	if err := t.checkRange("tensor get", len(dst), offset); err != nil {
		return err
	}
	purego.SyscallN(aTensorGet, uintptr(t), uintptr(unsafe.Pointer(unsafe.SliceData(dst))), uintptr(offset), uintptr(len(dst)))
	return nil
}

// Set overwrites len(src) bytes from offset bytes into the tensor.
func (t Tensor) Set(src []byte, offset int) error {
	if len(src) == 0 {
		return nil
	}
	if err := t.checkRange("tensor set", len(src), offset); err != nil {
		return err
	}
	purego.SyscallN(aTensorSet, uintptr(t), uintptr(unsafe.Pointer(unsafe.SliceData(src))), uintptr(offset), uintptr(len(src)))
	return nil
}

// checkRange repeats what ggml_backend_tensor_get and _set assert.
func (t Tensor) checkRange(op string, n, offset int) error {
	if t == 0 {
		return fail(CodeTensor, op, "null tensor")
	}
	raw := t.raw()
	buffer := raw.Buffer
	if raw.ViewSrc != 0 {
		buffer = Tensor(raw.ViewSrc).raw().Buffer
	}
	if buffer == 0 || raw.Data == 0 {
		return fail(CodeTensor, op, "no memory behind the tensor")
	}
	size := t.NBytes()
	if offset < 0 || offset > size || n > size-offset {
		return fail(CodeTensor, op, "range outside of the tensor")
	}
	return nil
}
