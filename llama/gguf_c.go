package llama

import (
	"fmt"
	"os"
	"strings"
	"sync"

	"neuron/llama/gguf"
)

// GGUF is a gguf_context*: metadata and tensor list of a GGUF file, as the
// library itself reads and writes them; no tensor data. Neuron's own reader and
// writer is package gguf, which is also stricter. Entries and tensors are counted
// from 0. One goroutine at a time uses a handle.
//
// Errors of the methods: not_loaded, invalid_handle, and invalid_argument for
// everything that the library would answer with an abort. C strings end at a zero
// byte: what a file has behind one inside a key or a string is not seen.
type GGUF uintptr

var ggufs sync.Map // GGUF -> nothing: the handles that were not freed

// struct gguf_init_params
type ggufParams struct {
	NoAlloc uint8
	_       [7]uint8
	Ctx     uintptr // struct ggml_context **, or NULL for no tensors
}

const (
	ggufMaxKey   = 1<<16 - 1 // bytes, of the format
	ggufMaxLen   = 1 << 30   // bytes or elements; the library reads no longer strings and arrays
	ggufMaxAlign = 1 << 30   // bytes, of package gguf
)

// Functions of gguf.h.
var (
	// struct gguf_context * gguf_init_empty(void);
	cGGUFEmpty func() uintptr
	// struct gguf_context * gguf_init_from_file(const char * fname, struct gguf_init_params params);
	cGGUFOpen func(path string, p ggufParams) uintptr
	// void gguf_free(struct gguf_context * ctx);
	cGGUFFree func(g uintptr)
	// uint32_t gguf_get_version(const struct gguf_context * ctx);
	cGGUFVersion func(g uintptr) uint32
	// size_t gguf_get_alignment(const struct gguf_context * ctx);
	cGGUFAlignment func(g uintptr) uint64
	// size_t gguf_get_data_offset(const struct gguf_context * ctx);
	cGGUFDataOffset func(g uintptr) uint64
	// int64_t gguf_get_n_kv(const struct gguf_context * ctx);
	cGGUFNKV func(g uintptr) int64
	// int64_t gguf_find_key(const struct gguf_context * ctx, const char * key);
	cGGUFFind func(g uintptr, key string) int64
	// const char * gguf_get_key(const struct gguf_context * ctx, int64_t key_id);
	cGGUFKey func(g uintptr, i int64) string
	// enum gguf_type gguf_get_kv_type(const struct gguf_context * ctx, int64_t key_id);
	cGGUFKVType func(g uintptr, i int64) int32
	// uint8_t gguf_get_val_u8(const struct gguf_context * ctx, int64_t key_id);
	cGGUFU8 func(g uintptr, i int64) uint8
	// int8_t gguf_get_val_i8(const struct gguf_context * ctx, int64_t key_id);
	cGGUFI8 func(g uintptr, i int64) int8
	// uint16_t gguf_get_val_u16(const struct gguf_context * ctx, int64_t key_id);
	cGGUFU16 func(g uintptr, i int64) uint16
	// int16_t gguf_get_val_i16(const struct gguf_context * ctx, int64_t key_id);
	cGGUFI16 func(g uintptr, i int64) int16
	// uint32_t gguf_get_val_u32(const struct gguf_context * ctx, int64_t key_id);
	cGGUFU32 func(g uintptr, i int64) uint32
	// int32_t gguf_get_val_i32(const struct gguf_context * ctx, int64_t key_id);
	cGGUFI32 func(g uintptr, i int64) int32
	// uint64_t gguf_get_val_u64(const struct gguf_context * ctx, int64_t key_id);
	cGGUFU64 func(g uintptr, i int64) uint64
	// int64_t gguf_get_val_i64(const struct gguf_context * ctx, int64_t key_id);
	cGGUFI64 func(g uintptr, i int64) int64
	// float gguf_get_val_f32(const struct gguf_context * ctx, int64_t key_id);
	cGGUFF32 func(g uintptr, i int64) float32
	// double gguf_get_val_f64(const struct gguf_context * ctx, int64_t key_id);
	cGGUFF64 func(g uintptr, i int64) float64
	// bool gguf_get_val_bool(const struct gguf_context * ctx, int64_t key_id);
	cGGUFBool func(g uintptr, i int64) bool
	// const char * gguf_get_val_str(const struct gguf_context * ctx, int64_t key_id);
	cGGUFStr func(g uintptr, i int64) string
	// enum gguf_type gguf_get_arr_type(const struct gguf_context * ctx, int64_t key_id);
	cGGUFArrType func(g uintptr, i int64) int32
	// size_t gguf_get_arr_n(const struct gguf_context * ctx, int64_t key_id);
	cGGUFArrN func(g uintptr, i int64) uint64
	// const void * gguf_get_arr_data(const struct gguf_context * ctx, int64_t key_id);
	cGGUFArrData func(g uintptr, i int64) uintptr
	// const char * gguf_get_arr_str(const struct gguf_context * ctx, int64_t key_id, size_t i);
	aGGUFArrStr uintptr // a vocabulary has 100,000 of them
	// int64_t gguf_get_n_tensors(const struct gguf_context * ctx);
	cGGUFNTensors func(g uintptr) int64
	// int64_t gguf_find_tensor(const struct gguf_context * ctx, const char * name);
	cGGUFFindTensor func(g uintptr, name string) int64
	// const char * gguf_get_tensor_name(const struct gguf_context * ctx, int64_t tensor_id);
	cGGUFTensorName func(g uintptr, i int64) string
	// const int64_t * gguf_get_tensor_ne(const struct gguf_context * ctx, int64_t tensor_id);
	cGGUFTensorNE func(g uintptr, i int64) uintptr
	// enum ggml_type gguf_get_tensor_type(const struct gguf_context * ctx, int64_t tensor_id);
	cGGUFTensorType func(g uintptr, i int64) int32
	// size_t gguf_get_tensor_offset(const struct gguf_context * ctx, int64_t tensor_id);
	cGGUFTensorOffset func(g uintptr, i int64) uint64
	// size_t gguf_get_tensor_size(const struct gguf_context * ctx, int64_t tensor_id);
	cGGUFTensorSize func(g uintptr, i int64) uint64
)

var ggufBinds = []bind{
	{libBase, "gguf_init_empty", &cGGUFEmpty},
	{libBase, "gguf_init_from_file", &cGGUFOpen},
	{libBase, "gguf_free", &cGGUFFree},
	{libBase, "gguf_get_version", &cGGUFVersion},
	{libBase, "gguf_get_alignment", &cGGUFAlignment},
	{libBase, "gguf_get_data_offset", &cGGUFDataOffset},
	{libBase, "gguf_get_n_kv", &cGGUFNKV},
	{libBase, "gguf_find_key", &cGGUFFind},
	{libBase, "gguf_get_key", &cGGUFKey},
	{libBase, "gguf_get_kv_type", &cGGUFKVType},
	{libBase, "gguf_get_val_u8", &cGGUFU8},
	{libBase, "gguf_get_val_i8", &cGGUFI8},
	{libBase, "gguf_get_val_u16", &cGGUFU16},
	{libBase, "gguf_get_val_i16", &cGGUFI16},
	{libBase, "gguf_get_val_u32", &cGGUFU32},
	{libBase, "gguf_get_val_i32", &cGGUFI32},
	{libBase, "gguf_get_val_u64", &cGGUFU64},
	{libBase, "gguf_get_val_i64", &cGGUFI64},
	{libBase, "gguf_get_val_f32", &cGGUFF32},
	{libBase, "gguf_get_val_f64", &cGGUFF64},
	{libBase, "gguf_get_val_bool", &cGGUFBool},
	{libBase, "gguf_get_val_str", &cGGUFStr},
	{libBase, "gguf_get_arr_type", &cGGUFArrType},
	{libBase, "gguf_get_arr_n", &cGGUFArrN},
	{libBase, "gguf_get_arr_data", &cGGUFArrData},
	{libBase, "gguf_get_arr_str", &aGGUFArrStr},
	{libBase, "gguf_get_n_tensors", &cGGUFNTensors},
	{libBase, "gguf_find_tensor", &cGGUFFindTensor},
	{libBase, "gguf_get_tensor_name", &cGGUFTensorName},
	{libBase, "gguf_get_tensor_ne", &cGGUFTensorNE},
	{libBase, "gguf_get_tensor_type", &cGGUFTensorType},
	{libBase, "gguf_get_tensor_offset", &cGGUFTensorOffset},
	{libBase, "gguf_get_tensor_size", &cGGUFTensorSize},
}

// GGUFEmpty makes a context without entries and tensors, of version 3.
func GGUFEmpty() (GGUF, error) {
	const op = "new gguf"
	if !loaded() {
		return 0, fail(CodeNotLoaded, op, "")
	}
	return keepGGUF(cGGUFEmpty()), nil
}

// GGUFOpen reads the header of a file; tensor data is neither read nor missed.
// The checks are those of the library, which has no limit on memory but the
// file's size: a stranger's file goes through package gguf first. The error for a
// file that the library refuses is model_load, with what it said.
func GGUFOpen(path string) (GGUF, error) {
	const op = "open gguf"
	if !loaded() {
		return 0, fail(CodeNotLoaded, op, "")
	}
	if strings.IndexByte(path, 0) >= 0 {
		return 0, fail(CodeInvalidArg, op, "zero byte in the path")
	}
	// fopen opens a folder, and waits for the other end of a pipe.
	if st, err := os.Stat(path); err != nil || !st.Mode().IsRegular() {
		return 0, fail(CodeModelLoad, op, "not a readable file: "+path)
	}
	loadMu.Lock() // error lines are per process
	defer loadMu.Unlock()
	mark := logMark()
	h := cGGUFOpen(path, ggufParams{NoAlloc: 1})
	if h == 0 {
		return 0, fail(CodeModelLoad, op, logSince(mark))
	}
	return keepGGUF(h), nil
}

func keepGGUF(h uintptr) GGUF {
	ggufs.Store(GGUF(h), struct{}{})
	return GGUF(h)
}

// Free frees the context. Freeing twice does nothing.
func (g GGUF) Free() {
	if _, ok := ggufs.LoadAndDelete(g); ok {
		cGGUFFree(uintptr(g))
	}
}

func (g GGUF) check(op string) error {
	if _, ok := ggufs.Load(g); ok {
		return nil
	}
	if !loaded() {
		return fail(CodeNotLoaded, op, "")
	}
	return fail(CodeInvalidHandle, op, "")
}

func (g GGUF) alive() bool { return g.check("") == nil }

// checkKV and checkTensor repeat what the accessors assert about the index.
func (g GGUF) checkKV(op string, i int) error {
	if err := g.check(op); err != nil {
		return err
	}
	if n := g.NKV(); i < 0 || i >= n {
		return fail(CodeInvalidArg, op, fmt.Sprintf("entry %d of %d", i, n))
	}
	return nil
}

func (g GGUF) checkTensor(op string, i int) error {
	if err := g.check(op); err != nil {
		return err
	}
	if n := g.NTensors(); i < 0 || i >= n {
		return fail(CodeInvalidArg, op, fmt.Sprintf("tensor %d of %d", i, n))
	}
	return nil
}

// checkType wants entry i to be of a type, checkElem to be an array of a type.
func (g GGUF) checkType(op string, i int, want gguf.ValueType) error {
	if err := g.checkKV(op, i); err != nil {
		return err
	}
	if got := gguf.ValueType(cGGUFKVType(uintptr(g), int64(i))); got != want {
		return fail(CodeInvalidArg, op, fmt.Sprintf("entry %d is %s, not %s", i, got, want))
	}
	return nil
}

func (g GGUF) checkElem(op string, i int, want gguf.ValueType) error {
	if err := g.checkType(op, i, gguf.ValueArray); err != nil {
		return err
	}
	if got := gguf.ValueType(cGGUFArrType(uintptr(g), int64(i))); got != want {
		return fail(CodeInvalidArg, op, fmt.Sprintf("entry %d is an array of %s, not %s", i, got, want))
	}
	return nil
}
