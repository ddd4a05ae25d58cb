package gguf

import (
	"math"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestIntegers(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		v       Value
		u       uint64
		uok     bool
		i       int64
		iok     bool
		typName string
	}{
		{U8(200), 200, true, 200, true, "u8"}, {I8(-3), 0, false, -3, true, "i8"}, {U16(60000), 60000, true, 60000, true, "u16"},
		{I16(-5), 0, false, -5, true, "i16"}, {U32(1 << 31), 1 << 31, true, 1 << 31, true, "u32"}, {I32(-1), 0, false, -1, true, "i32"},
		{U64(math.MaxUint64), math.MaxUint64, true, 0, false, "u64"}, {I64(-1), 0, false, -1, true, "i64"}, {I64(9), 9, true, 9, true, "i64"},
		{F32(1), 0, false, 0, false, "f32"}, {Bool(true), 0, false, 0, false, "bool"}, {String("1"), 0, false, 0, false, "str"},
		{U8s([]uint8{1}), 0, false, 0, false, "arr"},
	} {
		u, uok := tc.v.Uint()
		i, iok := tc.v.Int()
		if uok != tc.uok || iok != tc.iok || (uok && u != tc.u) || (iok && i != tc.i) || tc.v.Type().String() != tc.typName {
			t.Errorf("%v: Uint %d %v, Int %d %v", tc, u, uok, i, iok)
		}
	}
}

func TestArrays(t *testing.T) {
	t.Parallel()
	v := I32s([]int32{-1, 2, 3, 4})
	s, err := v.Slice(1, 3)
	if err != nil {
		t.Fatal(err)
	}
	got, ok := s.Ints()
	if !ok || !cmp.Equal(got, []int64{2, 3}) || s.Type() != ValueArray || s.ElemType() != ValueI32 || s.Len() != 2 {
		t.Errorf("slice is %v", got)
	}
	if !s.Equal(I32s([]int32{2, 3})) || s.Equal(U32s([]uint32{2, 3})) {
		t.Error("Equal is wrong")
	}
	for _, r := range [][2]int{{-1, 1}, {2, 1}, {0, 5}} {
		if _, err := v.Slice(r[0], r[1]); CodeOf(err) != CodeValue {
			t.Errorf("slice %v: %v", r, err)
		}
	}
	if _, err := U8(1).Slice(0, 1); CodeOf(err) != CodeValue {
		t.Error(err)
	}
	strs, _ := Strings([]string{"a", "b", "c"}).Slice(1, 3)
	if got, ok := strs.Strings(); !ok || !cmp.Equal(got, []string{"b", "c"}) {
		t.Errorf("strings %v", got)
	}
	bools, _ := Bools([]bool{true, false, true}).Slice(0, 2)
	if got, ok := bools.Bools(); !ok || !cmp.Equal(got, []bool{true, false}) {
		t.Errorf("bools %v", got)
	}
	if got, ok := F32s([]float32{0.5}).Floats(); !ok || got[0] != 0.5 {
		t.Errorf("floats %v", got)
	}
	if got, ok := F64s([]float64{0.25}).Floats(); !ok || got[0] != 0.25 {
		t.Errorf("floats %v", got)
	}
	if _, ok := U64s([]uint64{1 << 63}).Ints(); ok {
		t.Error("2^63 passed as int64")
	}
	for name, ok := range map[string]bool{
		"bools of ints": second(v.Bools()), "floats of ints": second(v.Floats()), "strings of ints": second(v.Strings()),
		"ints of bools": second(bools.Ints()), "ints of scalar": second(U8(1).Ints()),
	} {
		if ok {
			t.Errorf("%s is allowed", name)
		}
	}
}

func second[T any](_ T, ok bool) bool { return ok }

func TestTypes(t *testing.T) {
	t.Parallel()
	if n := len(Types()); n != 35 {
		t.Errorf("%d types", n)
	}
	for _, ty := range Types() {
		back, err := ParseType(ty.String())
		if err != nil || back != ty || ty.BlockSize() == 0 || ty.TypeSize() == 0 {
			t.Errorf("%d %s: %v %v", uint32(ty), ty, back, err)
		}
	}
	for v := ValueU8; v <= ValueF64; v++ {
		if back, err := ParseValueType(v.String()); err != nil || back != v {
			t.Errorf("%s: %v %v", v, back, err)
		}
	}
	for _, bad := range []Type{4, 5, 31, 32, 33, 36, 37, 38, 43, math.MaxUint32} {
		if bad.Known() || bad.BlockSize() != 0 || bad.TypeSize() != 0 {
			t.Errorf("type %d is known", uint32(bad))
		}
		if _, err := bad.RowBytes(256); CodeOf(err) != CodeType {
			t.Errorf("type %d: %v", uint32(bad), err)
		}
	}
	if n, err := TypeQ4_K.RowBytes(512); n != 288 || err != nil {
		t.Errorf("q4_K row: %d, %v", n, err)
	}
	if _, err := TypeF64.RowBytes(math.MaxUint64); CodeOf(err) != CodeType {
		t.Errorf("overflow: %v", err)
	}
	if _, err := ParseType(""); CodeOf(err) != CodeType {
		t.Errorf("empty name: %v", err)
	}
}
