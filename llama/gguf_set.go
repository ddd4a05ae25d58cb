package llama

import (
	"fmt"
	"os"
	"strings"
	"unsafe"

	"neuron/llama/gguf"
)

// Functions of gguf.h that change or write a context.
var (
	// int64_t gguf_remove_key(struct gguf_context * ctx, const char * key);
	cGGUFRemove func(g uintptr, key string) int64
	// void gguf_set_val_u32(struct gguf_context * ctx, const char * key, uint32_t val);
	cGGUFSetU32 func(g uintptr, key string, v uint32)
	// void gguf_set_val_i32(struct gguf_context * ctx, const char * key, int32_t val);
	cGGUFSetI32 func(g uintptr, key string, v int32)
	// void gguf_set_val_f32(struct gguf_context * ctx, const char * key, float val);
	cGGUFSetF32 func(g uintptr, key string, v float32)
	// void gguf_set_val_u64(struct gguf_context * ctx, const char * key, uint64_t val);
	cGGUFSetU64 func(g uintptr, key string, v uint64)
	// void gguf_set_val_bool(struct gguf_context * ctx, const char * key, bool val);
	cGGUFSetBool func(g uintptr, key string, v bool)
	// void gguf_set_val_str(struct gguf_context * ctx, const char * key, const char * val);
	cGGUFSetStr func(g uintptr, key, v string)
	// void gguf_set_arr_data(struct gguf_context * ctx, const char * key, enum gguf_type type, const void * data, size_t n);
	cGGUFSetArr func(g uintptr, key string, typ int32, data unsafe.Pointer, n uint64)
	// void gguf_set_arr_str(struct gguf_context * ctx, const char * key, const char ** data, size_t n);
	cGGUFSetStrs func(g uintptr, key string, data unsafe.Pointer, n uint64)
	// bool gguf_write_to_file(const struct gguf_context * ctx, const char * fname, bool only_meta);
	cGGUFWrite func(g uintptr, path string, onlyMeta bool) bool
)

var ggufSetBinds = []bind{
	{libBase, "gguf_remove_key", &cGGUFRemove},
	{libBase, "gguf_set_val_u32", &cGGUFSetU32},
	{libBase, "gguf_set_val_i32", &cGGUFSetI32},
	{libBase, "gguf_set_val_f32", &cGGUFSetF32},
	{libBase, "gguf_set_val_u64", &cGGUFSetU64},
	{libBase, "gguf_set_val_bool", &cGGUFSetBool},
	{libBase, "gguf_set_val_str", &cGGUFSetStr},
	{libBase, "gguf_set_arr_data", &cGGUFSetArr},
	{libBase, "gguf_set_arr_str", &cGGUFSetStrs},
	{libBase, "gguf_write_to_file", &cGGUFWrite},
}

// checkSet wants a key that can be set to a value of a type. An existing key is
// fine: the library removes its entry and puts the new one at the end.
func (g GGUF) checkSet(op, key string, typ gguf.ValueType) error {
	if err := g.check(op); err != nil {
		return err
	}
	switch {
	case key == "":
		return fail(CodeInvalidArg, op, "empty key")
	case len(key) > ggufMaxKey:
		return fail(CodeInvalidArg, op, fmt.Sprintf("key of %d bytes", len(key)))
	case strings.IndexByte(key, 0) >= 0:
		return fail(CodeInvalidArg, op, "zero byte in the key")
	case key == gguf.AlignmentKey && typ != gguf.ValueU32:
		return fail(CodeInvalidArg, op, gguf.AlignmentKey+" must be u32")
	}
	return nil
}

func checkGGUFString(op, s string) error {
	if len(s) > ggufMaxLen {
		return fail(CodeInvalidArg, op, fmt.Sprintf("string of %d bytes", len(s)))
	}
	if strings.IndexByte(s, 0) >= 0 {
		return fail(CodeInvalidArg, op, "zero byte in a string")
	}
	return nil
}

func ggufSet[T any](g GGUF, key string, typ gguf.ValueType, set func(uintptr, string, T), v T) error {
	if err := g.checkSet("gguf set", key, typ); err != nil {
		return err
	}
	set(uintptr(g), key, v)
	return nil
}

// SetString sets an entry. As with all setters the key has 1 to 65535 bytes, and
// an entry that has it already is replaced by a new one at the end, of whatever
// type. Zero bytes in key and value are refused: C would cut there.
func (g GGUF) SetString(key, v string) error {
	if err := checkGGUFString("gguf set", v); err != nil {
		return err
	}
	return ggufSet(g, key, gguf.ValueString, cGGUFSetStr, v)
}

// SetU32 sets an entry. general.alignment takes a power of two up to 2^30, and
// with tensors only the one that they are laid out for: setting it moves nothing.
func (g GGUF) SetU32(key string, v uint32) error {
	if key == gguf.AlignmentKey {
		if v == 0 || v&(v-1) != 0 || v > ggufMaxAlign {
			return fail(CodeInvalidArg, "gguf set", fmt.Sprintf("alignment %d", v))
		}
		if err := g.checkAlignment(uint64(v)); err != nil {
			return err
		}
	}
	return ggufSet(g, key, gguf.ValueU32, cGGUFSetU32, v)
}

func (g GGUF) checkAlignment(v uint64) error {
	if g.NTensors() > 0 && v != g.Alignment() {
		return fail(CodeInvalidArg, "gguf set", fmt.Sprintf("alignment %d, but tensors lie aligned to %d", v, g.Alignment()))
	}
	return nil
}

// SetI32 sets an entry.
func (g GGUF) SetI32(key string, v int32) error {
	return ggufSet(g, key, gguf.ValueI32, cGGUFSetI32, v)
}

// SetU64 sets an entry.
func (g GGUF) SetU64(key string, v uint64) error {
	return ggufSet(g, key, gguf.ValueU64, cGGUFSetU64, v)
}

// SetF32 sets an entry.
func (g GGUF) SetF32(key string, v float32) error {
	return ggufSet(g, key, gguf.ValueF32, cGGUFSetF32, v)
}

// SetBool sets an entry.
func (g GGUF) SetBool(key string, v bool) error {
	return ggufSet(g, key, gguf.ValueBool, cGGUFSetBool, v)
}

// SetStringArray sets an entry to a copy of v, which may be empty.
func (g GGUF) SetStringArray(key string, v []string) error {
	const op = "gguf set"
	if err := g.checkSet(op, key, gguf.ValueArray); err != nil {
		return err
	}
	if len(v) > ggufMaxLen {
		return fail(CodeInvalidArg, op, fmt.Sprintf("array of %d strings", len(v)))
	}
	for _, s := range v {
		if err := checkGGUFString(op, s); err != nil {
			return err
		}
	}
	withStrings(v, func(p unsafe.Pointer) { cGGUFSetStrs(uintptr(g), key, p, uint64(len(v))) })
	return nil
}

// SetI32Array sets an entry to a copy of v, which may be empty.
func (g GGUF) SetI32Array(key string, v []int32) error { return ggufSetArray(g, key, v) }

// SetF32Array sets an entry to a copy of v, which may be empty.
func (g GGUF) SetF32Array(key string, v []float32) error { return ggufSetArray(g, key, v) }

func ggufSetArray[T int32 | float32](g GGUF, key string, v []T) error {
	const op = "gguf set"
	if err := g.checkSet(op, key, gguf.ValueArray); err != nil {
		return err
	}
	if len(v) > ggufMaxLen {
		return fail(CodeInvalidArg, op, fmt.Sprintf("array of %d numbers", len(v)))
	}
	cGGUFSetArr(uintptr(g), key, int32(ggufElementType[T]()), unsafe.Pointer(unsafe.SliceData(v)), uint64(len(v)))
	return nil
}

// Remove takes the entry with that key away; later entries move up by one. It
// says whether there was one. The alignment that tensors lie by cannot be
// removed, unless it is the default.
func (g GGUF) Remove(key string) (bool, error) {
	const op = "gguf remove"
	if err := g.check(op); err != nil {
		return false, err
	}
	if _, ok := g.Find(key); !ok {
		return false, nil
	}
	if key == gguf.AlignmentKey {
		if err := g.checkAlignment(gguf.DefaultAlignment); err != nil {
			return false, err
		}
	}
	return cGGUFRemove(uintptr(g), key) >= 0, nil
}

// WriteMeta writes the header, up to where tensor data begins. A file that is
// there is overwritten in place. The library does not notice a disk that gets
// full when it closes the file, so the file is read back; what is incomplete is
// model_save, and stays.
func (g GGUF) WriteMeta(path string) error {
	const op = "write gguf"
	if err := g.check(op); err != nil {
		return err
	}
	if strings.IndexByte(path, 0) >= 0 {
		return fail(CodeInvalidArg, op, "zero byte in the path")
	}
	align := g.Alignment()
	if align > ggufMaxAlign { // up to that many zero bytes are written, one by one
		return fail(CodeInvalidArg, op, fmt.Sprintf("alignment %d", align))
	}
	if st, err := os.Stat(path); err == nil && !st.Mode().IsRegular() {
		return fail(CodeModelSave, op, "not a regular file: "+path)
	}
	loadMu.Lock() // error lines are per process
	mark := logMark()
	ok := cGGUFWrite(uintptr(g), path, true)
	detail := logSince(mark)
	loadMu.Unlock()
	if !ok {
		return fail(CodeModelSave, op, detail)
	}
	st, err := os.Stat(path)
	if err != nil {
		return fail(CodeModelSave, op, err.Error())
	}
	back, err := GGUFOpen(path)
	if err != nil {
		return fail(CodeModelSave, op, "incomplete: "+err.Error())
	}
	defer back.Free()
	if uint64(st.Size())%align != 0 || back.NKV() != g.NKV() || back.NTensors() != g.NTensors() {
		return fail(CodeModelSave, op, "incomplete")
	}
	return nil
}
