package llama

import (
	"io"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"unsafe"

	"github.com/google/go-cmp/cmp"

	"neuron/llama/gguf"
)

func allValues() []gguf.KV {
	return []gguf.KV{
		{Key: "u8", Value: gguf.U8(255)}, {Key: "i8", Value: gguf.I8(-128)},
		{Key: "u16", Value: gguf.U16(65535)}, {Key: "i16", Value: gguf.I16(-32768)},
		{Key: "u32", Value: gguf.U32(1<<32 - 1)}, {Key: "i32", Value: gguf.I32(-1 << 31)},
		{Key: "u64", Value: gguf.U64(1<<64 - 1)}, {Key: "i64", Value: gguf.I64(-1 << 63)},
		{Key: "f32", Value: gguf.F32(-1.5e-40)}, {Key: "f64", Value: gguf.F64(math.Pi)},
		{Key: "inf", Value: gguf.F32(float32(math.Inf(-1)))}, {Key: "nan", Value: gguf.F64(math.NaN())},
		{Key: "true", Value: gguf.Bool(true)}, {Key: "false", Value: gguf.Bool(false)},
		{Key: "str", Value: gguf.String("Ünïcode ✓\n日本語")}, {Key: "empty", Value: gguf.String("")},
		{Key: "u8s", Value: gguf.U8s([]uint8{0, 255})}, {Key: "i8s", Value: gguf.I8s([]int8{-128, 127})},
		{Key: "u16s", Value: gguf.U16s([]uint16{0, 65535})}, {Key: "i16s", Value: gguf.I16s([]int16{-32768, 1})},
		{Key: "u32s", Value: gguf.U32s([]uint32{0, 1<<32 - 1})}, {Key: "i32s", Value: gguf.I32s([]int32{-1 << 31, 7})},
		{Key: "u64s", Value: gguf.U64s([]uint64{0, 1<<64 - 1})}, {Key: "i64s", Value: gguf.I64s([]int64{-1 << 63, 9})},
		{Key: "f32s", Value: gguf.F32s([]float32{0, -0.25, 3e38})}, {Key: "f64s", Value: gguf.F64s([]float64{1e308, -1})},
		{Key: "bools", Value: gguf.Bools([]bool{true, false, true})},
		{Key: "strs", Value: gguf.Strings([]string{"a", "", "ж"})}, {Key: "no strs", Value: gguf.Strings(nil)},
		{Key: "no f32s", Value: gguf.F32s(nil)}, {Key: "no bools", Value: gguf.Bools(nil)},
	}
}

// Our writer, the library's reader, the library's writer, our reader.
func TestGGUFRoundTrip(t *testing.T) {
	tensors := []gguf.TensorInfo{
		{Name: "a", Dims: []uint64{64, 3}, Type: gguf.TypeQ8_0},
		{Name: "b", Dims: []uint64{5}, Type: gguf.TypeF32},
		{Name: "c", Dims: []uint64{256, 2, 3, 4}, Type: gguf.TypeQ4_K},
	}
	for name, o := range map[string]gguf.WriteOptions{
		"default": {}, "aligned": {Alignment: 4096}, "padded": {DataOffset: 1 << 14},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			ours, theirs := filepath.Join(dir, "ours.gguf"), filepath.Join(dir, "theirs.gguf")
			write := func(i int, w io.Writer) error {
				n, err := tensors[i].Bytes()
				if err != nil {
					return err
				}
				_, err = w.Write(make([]byte, n))
				return err
			}
			if err := gguf.WriteFile(ours, allValues(), tensors, write, o); err != nil {
				t.Fatal(err)
			}
			h := ourHeader(t, ours)
			g := openGGUF(t, ours)
			agree(t, g, h)
			if err := g.WriteMeta(theirs); err != nil {
				t.Fatal(err)
			}
			a, err := os.ReadFile(ours)
			if err != nil {
				t.Fatal(err)
			}
			b, err := os.ReadFile(theirs)
			if err != nil {
				t.Fatal(err)
			}
			if d := cmp.Diff(a[:h.DataOffset], b); d != "" {
				t.Errorf("the headers differ: %s", d)
			}
			// Our reader wants the tensors' data, which the library did not write.
			if err := os.Truncate(theirs, int64(len(a))); err != nil {
				t.Fatal(err)
			}
			agree(t, g, ourHeader(t, theirs))
		})
	}
}

func TestGGUFSet(t *testing.T) {
	g := emptyGGUF(t)
	if g.NKV() != 0 || g.NTensors() != 0 || g.Version() != 3 || g.Alignment() != 32 {
		t.Fatalf("%d entries, %d tensors, version %d, alignment %d", g.NKV(), g.NTensors(), g.Version(), g.Alignment())
	}
	for _, err := range []error{
		g.SetString("twice", "first"), g.SetString("str", "ж\n"), g.SetString("empty", ""), g.SetU32("u32", 1<<32-1),
		g.SetI32("i32", -5), g.SetU64("u64", 1<<64-1), g.SetF32("f32", -0.1), g.SetBool("yes", true), g.SetBool("no", false),
		g.SetStringArray("strs", []string{"a", "", "日本"}), g.SetStringArray("no strs", nil),
		g.SetI32Array("i32s", []int32{-1, 0, 1 << 30}), g.SetI32Array("no i32s", nil), g.SetF32Array("f32s", []float32{-0.5, 1e-40}),
		g.SetU32("gone", 1), g.SetU32("twice", 2), g.SetU32(gguf.AlignmentKey, 64),
	} {
		if err != nil {
			t.Fatal(err)
		}
	}
	for _, want := range []bool{true, false} {
		if ok, err := g.Remove("gone"); err != nil || ok != want {
			t.Fatalf("remove gives %v, %v, want %v", ok, err, want)
		}
	}
	want := []gguf.KV{
		{Key: "str", Value: gguf.String("ж\n")}, {Key: "empty", Value: gguf.String("")}, {Key: "u32", Value: gguf.U32(1<<32 - 1)},
		{Key: "i32", Value: gguf.I32(-5)}, {Key: "u64", Value: gguf.U64(1<<64 - 1)}, {Key: "f32", Value: gguf.F32(-0.1)},
		{Key: "yes", Value: gguf.Bool(true)}, {Key: "no", Value: gguf.Bool(false)},
		{Key: "strs", Value: gguf.Strings([]string{"a", "", "日本"})}, {Key: "no strs", Value: gguf.Strings(nil)},
		{Key: "i32s", Value: gguf.I32s([]int32{-1, 0, 1 << 30})}, {Key: "no i32s", Value: gguf.I32s(nil)},
		{Key: "f32s", Value: gguf.F32s([]float32{-0.5, 1e-40})}, {Key: "twice", Value: gguf.U32(2)},
		{Key: gguf.AlignmentKey, Value: gguf.U32(64)},
	}
	path := filepath.Join(t.TempDir(), "set.gguf")
	if err := g.WriteMeta(path); err != nil {
		t.Fatal(err)
	}
	h := ourHeader(t, path)
	if d := cmp.Diff(want, h.KVs, cmp.Comparer(gguf.Value.Equal)); d != "" {
		t.Error(d)
	}
	agree(t, openGGUF(t, path), h)
}

// Everything here would end the process inside the library, or be cut there.
func TestGGUFRefuses(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "in.gguf")
	kvs := append(allValues(), gguf.KV{Key: gguf.AlignmentKey, Value: gguf.U32(64)})
	b, err := gguf.EncodeHeader(kvs, []gguf.TensorInfo{{Name: "t", Dims: []uint64{8}, Type: gguf.TypeF32}}, gguf.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	g := openGGUF(t, path) // without the tensor's data: only the header matters
	index := func(key string) int {
		i, ok := g.Find(key)
		if !ok {
			t.Fatalf("no key %s", key)
		}
		return i
	}
	i, strs, n, long := index("u32"), index("strs"), g.NKV(), strings.Repeat("k", ggufMaxKey+1)
	for name, f := range map[string]func() error{
		"index -1":            func() error { _, err := g.Key(-1); return err },
		"index behind":        func() error { _, err := g.KVType(n); return err },
		"value behind":        func() error { _, err := g.U32(n); return err },
		"other width":         func() error { _, err := g.U64(i); return err },
		"other sign":          func() error { _, err := g.I32(i); return err },
		"string of a number":  func() error { _, err := g.Str(i); return err },
		"array of a number":   func() error { _, err := GGUFArray[uint32](g, i); return err },
		"type of no array":    func() error { _, err := g.ArrayType(i); return err },
		"length of no array":  func() error { _, err := g.ArrayLen(i); return err },
		"scalar of an array":  func() error { _, err := g.U32(index("u32s")); return err },
		"other element":       func() error { _, err := GGUFArray[int32](g, index("u32s")); return err },
		"numbers of strings":  func() error { _, err := GGUFArray[uint8](g, strs); return err },
		"strings of numbers":  func() error { _, err := g.ArrayStrs(index("u32s")); return err },
		"element -1":          func() error { _, err := g.ArrayStr(strs, -1); return err },
		"element behind":      func() error { _, err := g.ArrayStr(strs, 3); return err },
		"element of none":     func() error { _, err := g.ArrayStr(index("no strs"), 0); return err },
		"tensor -1":           func() error { _, err := g.TensorName(-1); return err },
		"tensor behind":       func() error { _, err := g.TensorSize(1); return err },
		"type of no tensor":   func() error { _, err := g.TensorType(1); return err },
		"offset of no tensor": func() error { _, err := g.TensorOffset(1 << 40); return err },
		"dims of no tensor":   func() error { _, err := g.TensorDims(1); return err },
		"empty key":           func() error { return g.SetString("", "x") },
		"long key":            func() error { return g.SetBool(long, true) },
		"zero in the key":     func() error { return g.SetI32("a\x00b", 1) },
		"zero in the value":   func() error { return g.SetString("a", "b\x00") },
		"zero in an element":  func() error { return g.SetStringArray("a", []string{"x", "\x00"}) },
		"alignment u64":       func() error { return g.SetU64(gguf.AlignmentKey, 64) },
		"alignment array":     func() error { return g.SetI32Array(gguf.AlignmentKey, []int32{64}) },
		"alignment strings":   func() error { return g.SetStringArray(gguf.AlignmentKey, nil) },
		"alignment 0":         func() error { return g.SetU32(gguf.AlignmentKey, 0) },
		"alignment 48":        func() error { return g.SetU32(gguf.AlignmentKey, 48) },
		"alignment of others": func() error { return g.SetU32(gguf.AlignmentKey, 32) },
		"no alignment":        func() error { _, err := g.Remove(gguf.AlignmentKey); return err },
		"zero in a path":      func() error { return g.WriteMeta("a\x00b") },
		"zero in open":        func() error { _, err := GGUFOpen("a\x00b"); return err },
	} {
		t.Run(name, func(t *testing.T) { wantCode(t, f(), CodeInvalidArg) })
	}
	if err := g.SetU32(gguf.AlignmentKey, 64); err != nil {
		t.Errorf("the alignment that is: %v", err)
	}
	if _, ok := g.Find("u\x0032"); ok {
		t.Error("a key with a zero byte is found")
	}
	if _, ok := g.Find(""); ok {
		t.Error("the empty key is found")
	}
	if _, ok := g.FindTensor("none"); ok {
		t.Error("a tensor that is not there is found")
	}
	if s, err := g.ArrayStr(strs, 2); err != nil || s != "ж" {
		t.Errorf("element %q, %v", s, err)
	}
	if l, err := g.ArrayLen(strs); err != nil || l != 3 {
		t.Errorf("length %d, %v", l, err)
	}
	for _, p := range []string{filepath.Join(dir, "none"), dir} {
		_, err = GGUFOpen(p)
		wantCode(t, err, CodeModelLoad)
	}
	wantCode(t, g.WriteMeta(filepath.Join(dir, "no", "folder")), CodeModelSave)
	wantCode(t, g.WriteMeta(dir), CodeModelSave)
	g.Free()
	g.Free()
	_, err = g.Key(0)
	wantCode(t, err, CodeInvalidHandle)
	wantCode(t, g.SetBool("x", true), CodeInvalidHandle)
	wantCode(t, g.WriteMeta(path), CodeInvalidHandle)
	if _, ok := g.Find("u32"); ok || g.NKV() != 0 || g.NTensors() != 0 || g.Version() != 0 || g.Alignment() != 0 || g.DataOffset() != 0 {
		t.Error("a freed handle answers")
	}
}

// The struct goes by value: each field must arrive where the library looks for it.
func TestGGUFParamsLayout(t *testing.T) {
	load(t)
	if n := unsafe.Sizeof(ggufParams{}); n != 16 {
		t.Fatalf("%d bytes", n)
	}
	b, err := gguf.EncodeHeader(nil, []gguf.TensorInfo{{Name: "t", Dims: []uint64{1 << 10}, Type: gguf.TypeF32}}, gguf.WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "short.gguf")
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
	var pin runtime.Pinner
	defer pin.Unpin()
	for _, noAlloc := range []bool{true, false} { // reading the missing data must fail
		ctx := new(uintptr)
		pin.Pin(ctx)
		h := cGGUFOpen(path, ggufParams{NoAlloc: cBool(noAlloc), Ctx: uintptr(unsafe.Pointer(ctx))})
		if (h != 0) != noAlloc || (*ctx != 0) != noAlloc {
			t.Errorf("no_alloc %v: context %v, tensors %v", noAlloc, h != 0, *ctx != 0)
		}
		if *ctx != 0 {
			cGGMLFree(*ctx)
		}
		cGGUFFree(h)
	}
}

func TestGGUFGuide(t *testing.T) {
	g := openGGUF(t, guidePath(t))
	h := ourHeader(t, guidePath(t))
	agree(t, g, h)
	if g.NKV() == 0 || g.NTensors() == 0 || g.DataOffset() == 0 {
		t.Errorf("%d entries, %d tensors, data at %d", g.NKV(), g.NTensors(), g.DataOffset())
	}
}
