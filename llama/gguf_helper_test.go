package llama

import (
	"fmt"
	"testing"

	"neuron/llama/gguf"
)

func openGGUF(tb testing.TB, path string) GGUF {
	tb.Helper()
	load(tb)
	g, err := GGUFOpen(path)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(g.Free)
	return g
}

func emptyGGUF(tb testing.TB) GGUF {
	tb.Helper()
	load(tb)
	g, err := GGUFEmpty()
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(g.Free)
	return g
}

// ourHeader is what our reader says about a file.
func ourHeader(tb testing.TB, path string) *gguf.Header {
	tb.Helper()
	f, err := gguf.Open(path)
	if err != nil {
		tb.Fatal(err)
	}
	defer f.Close()
	return f.Header()
}

// value reads entry i through the typed accessors.
func (g GGUF) value(i int) (gguf.Value, error) {
	typ, err := g.KVType(i)
	if err != nil {
		return gguf.Value{}, err
	}
	if typ == gguf.ValueArray {
		return g.arrayValue(i)
	}
	switch typ {
	case gguf.ValueU8:
		return made(gguf.U8)(g.U8(i))
	case gguf.ValueI8:
		return made(gguf.I8)(g.I8(i))
	case gguf.ValueU16:
		return made(gguf.U16)(g.U16(i))
	case gguf.ValueI16:
		return made(gguf.I16)(g.I16(i))
	case gguf.ValueU32:
		return made(gguf.U32)(g.U32(i))
	case gguf.ValueI32:
		return made(gguf.I32)(g.I32(i))
	case gguf.ValueU64:
		return made(gguf.U64)(g.U64(i))
	case gguf.ValueI64:
		return made(gguf.I64)(g.I64(i))
	case gguf.ValueF32:
		return made(gguf.F32)(g.F32(i))
	case gguf.ValueF64:
		return made(gguf.F64)(g.F64(i))
	case gguf.ValueBool:
		return made(gguf.Bool)(g.Bool(i))
	case gguf.ValueString:
		return made(gguf.String)(g.Str(i))
	}
	return gguf.Value{}, fmt.Errorf("type %s", typ)
}

func (g GGUF) arrayValue(i int) (gguf.Value, error) {
	typ, err := g.ArrayType(i)
	if err != nil {
		return gguf.Value{}, err
	}
	switch typ {
	case gguf.ValueU8:
		return made(gguf.U8s)(GGUFArray[uint8](g, i))
	case gguf.ValueI8:
		return made(gguf.I8s)(GGUFArray[int8](g, i))
	case gguf.ValueU16:
		return made(gguf.U16s)(GGUFArray[uint16](g, i))
	case gguf.ValueI16:
		return made(gguf.I16s)(GGUFArray[int16](g, i))
	case gguf.ValueU32:
		return made(gguf.U32s)(GGUFArray[uint32](g, i))
	case gguf.ValueI32:
		return made(gguf.I32s)(GGUFArray[int32](g, i))
	case gguf.ValueU64:
		return made(gguf.U64s)(GGUFArray[uint64](g, i))
	case gguf.ValueI64:
		return made(gguf.I64s)(GGUFArray[int64](g, i))
	case gguf.ValueF32:
		return made(gguf.F32s)(GGUFArray[float32](g, i))
	case gguf.ValueF64:
		return made(gguf.F64s)(GGUFArray[float64](g, i))
	case gguf.ValueBool:
		return made(gguf.Bools)(GGUFArray[bool](g, i))
	case gguf.ValueString:
		return made(gguf.Strings)(g.ArrayStrs(i))
	}
	return gguf.Value{}, fmt.Errorf("array of %s", typ)
}

func made[T any](value func(T) gguf.Value) func(T, error) (gguf.Value, error) {
	return func(v T, err error) (gguf.Value, error) { return value(v), err }
}

// agree compares everything that both readers say about a header.
func agree(t *testing.T, g GGUF, h *gguf.Header) {
	t.Helper()
	if g.Version() != h.Version || g.Alignment() != h.Alignment || g.NKV() != len(h.KVs) || g.NTensors() != len(h.Tensors) {
		t.Fatalf("version %d, alignment %d, %d entries, %d tensors; our reader: %d, %d, %d, %d", g.Version(), g.Alignment(),
			g.NKV(), g.NTensors(), h.Version, h.Alignment, len(h.KVs), len(h.Tensors))
	}
	if len(h.Tensors) > 0 && g.DataOffset() != uint64(h.DataOffset) {
		t.Errorf("data at %d, our reader: %d", g.DataOffset(), h.DataOffset)
	}
	for i, kv := range h.KVs {
		if key, err := g.Key(i); err != nil || key != kv.Key {
			t.Fatalf("key %q, %v, our reader: %q", key, err, kv.Key)
		}
		if j, ok := g.Find(kv.Key); !ok || j != i {
			t.Errorf("%s is found at %d, %v, want %d", kv.Key, j, ok, i)
		}
		v, err := g.value(i)
		if err != nil {
			t.Errorf("%s: %v", kv.Key, err)
		} else if !v.Equal(kv.Value) {
			t.Errorf("%s differs", kv.Key)
		}
	}
	for i, want := range h.Tensors {
		name, err1 := g.TensorName(i)
		typ, err2 := g.TensorType(i)
		offset, err3 := g.TensorOffset(i)
		size, err4 := g.TensorSize(i)
		dims, err5 := g.TensorDims(i)
		for _, err := range []error{err1, err2, err3, err4, err5} {
			if err != nil {
				t.Fatal(err)
			}
		}
		wantSize, err := want.Bytes()
		if err != nil {
			t.Fatal(err)
		}
		wantDims := [4]int64{1, 1, 1, 1}
		for d, n := range want.Dims {
			wantDims[d] = int64(n)
		}
		if name != want.Name || typ != want.Type || offset != want.Offset || size != wantSize || dims != wantDims {
			t.Errorf("tensor %s %s at %d, %d bytes, %v; our reader: %+v", name, typ, offset, size, dims, want)
		}
		if j, ok := g.FindTensor(name); !ok || j != i {
			t.Errorf("%s is found at %d, %v, want %d", name, j, ok, i)
		}
	}
}
