package gguf

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
)

func read(b []byte) (*Header, error) {
	return ReadHeader(bytes.NewReader(b), int64(len(b)), DefaultLimits())
}

var ignoreIndex = cmpopts.IgnoreUnexported(Header{})

// everyValue has one entry of each type, edge values included.
func everyValue() []KV {
	return []KV{
		{ArchitectureKey, String("test")},
		{"u8", U8(255)}, {"i8", I8(-128)}, {"u16", U16(65535)}, {"i16", I16(-32768)},
		{"u32", U32(math.MaxUint32)}, {"i32", I32(math.MinInt32)},
		{"u64", U64(math.MaxUint64)}, {"i64", I64(math.MinInt64)},
		{"f32", F32(-1.5)}, {"f64", F64(math.Pi)}, {"nan", F32(float32(math.NaN()))},
		{"true", Bool(true)}, {"false", Bool(false)}, {"empty", String("")},
		{"long", String(strings.Repeat("x", window+17))},
		{"strings", Strings([]string{"", "a", "Grüße", "\xff\x00"})}, {"no strings", Strings(nil)},
		{"u8s", U8s([]uint8{0, 255})}, {"i8s", I8s([]int8{-1, 1})}, {"u16s", U16s([]uint16{1, 65535})},
		{"i16s", I16s([]int16{-7})}, {"u32s", U32s([]uint32{1, 2, 3})}, {"i32s", I32s([]int32{-1, 0, 1})},
		{"u64s", U64s([]uint64{1 << 63})}, {"i64s", I64s([]int64{-1})},
		{"f32s", F32s(make([]float32, window/4+3))}, {"f64s", F64s([]float64{0.5})}, {"bools", Bools([]bool{true, false})},
	}
}

func someTensors() []TensorInfo {
	return []TensorInfo{
		{Name: "a", Dims: []uint64{3, 5}, Type: TypeF32},
		{Name: "b", Dims: []uint64{256, 2, 3, 1}, Type: TypeQ4_K},
		{Name: strings.Repeat("n", 63), Dims: []uint64{1}, Type: TypeI8},
		{Name: "d", Dims: []uint64{64}, Type: TypeQ8_0},
	}
}

func pattern(t TensorInfo) []byte {
	n, err := t.Bytes()
	if err != nil {
		panic(err)
	}
	b := make([]byte, n)
	for i := range b {
		b[i] = byte(i) ^ t.Name[0]
	}
	return b
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	for _, o := range []WriteOptions{{}, {Alignment: 8}, {Alignment: 4096}, {DataOffset: 1 << 20}} {
		path := filepath.Join(t.TempDir(), "m.gguf")
		ts := someTensors()
		err := WriteFile(path, everyValue(), ts, func(i int, w io.Writer) error {
			_, err := w.Write(pattern(ts[i]))
			return err
		}, o)
		if err != nil {
			t.Fatal(err)
		}
		f, err := Open(path)
		if err != nil {
			t.Fatalf("%+v: %v", o, err)
		}
		h := f.Header()
		want := everyValue()
		align := uint64(DefaultAlignment)
		if o.Alignment != 0 {
			align = o.Alignment
			want = append(want, KV{AlignmentKey, U32(uint32(align))})
		}
		if o.DataOffset != 0 {
			if h.DataOffset != o.DataOffset {
				t.Errorf("data begins at %d, want %d", h.DataOffset, o.DataOffset)
			}
			want = append(want, h.KVs[len(h.KVs)-1])
			if k := h.KVs[len(h.KVs)-1].Key; k != PaddingKey {
				t.Errorf("last key is %q", k)
			}
		}
		laid, _, err := Layout(ts, align)
		if err != nil {
			t.Fatal(err)
		}
		wantH := &Header{Version: 3, Alignment: align, KVs: want, Tensors: laid, DataOffset: h.DataOffset}
		if d := cmp.Diff(wantH, h, ignoreIndex); d != "" {
			t.Errorf("%+v: header differs (-want +got):\n%s", o, d)
		}
		for i, ti := range h.Tensors {
			if !bytes.Equal(f.TensorData(ti), pattern(ts[i])) {
				t.Errorf("data of %s differs", ti.Name)
			}
			if got, ok := h.Tensor(ti.Name); !ok || got.Offset != ti.Offset {
				t.Errorf("Tensor(%q) = %v, %v", ti.Name, got, ok)
			}
		}
		// What was read encodes to the same bytes again.
		again, err := EncodeHeader(h.KVs, h.Tensors, o)
		if err != nil {
			t.Fatal(err)
		}
		disk, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(again, disk[:h.DataOffset]) {
			t.Errorf("%+v: header encodes differently after reading", o)
		}
		if err := errors.Join(f.Close(), f.Close()); err != nil {
			t.Error(err)
		}
		if f.TensorData(h.Tensors[0]) != nil {
			t.Error("data after Close")
		}
		left, err := os.ReadDir(filepath.Dir(path))
		if err != nil || len(left) != 1 {
			t.Errorf("directory holds %v, %v", left, err)
		}
	}
}

// TestRoundTripRandom encodes random headers and reads them back.
func TestRoundTripRandom(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	all := Types()
	for range 200 {
		var kvs []KV
		pool := everyValue()
		for i := range rng.IntN(20) {
			v := pool[rng.IntN(len(pool))].Value
			if v.Len() < 100 && v.Type() == ValueArray {
				a := rng.IntN(v.Len() + 1)
				var err error
				if v, err = v.Slice(a, a+rng.IntN(v.Len()-a+1)); err != nil {
					t.Fatal(err)
				}
			}
			kvs = append(kvs, KV{fmt.Sprintf("key.%d", i), v})
		}
		var ts []TensorInfo
		for i := range rng.IntN(10) {
			ty := all[rng.IntN(len(all))]
			dims := []uint64{ty.BlockSize() * (1 + rng.Uint64N(4))}
			for range rng.IntN(4) {
				dims = append(dims, 1+rng.Uint64N(5))
			}
			ts = append(ts, TensorInfo{Name: fmt.Sprintf("t%d", i), Dims: dims, Type: ty})
		}
		align := uint64(1) << rng.IntN(10)
		b, err := EncodeHeader(kvs, ts, WriteOptions{Alignment: align})
		if err != nil {
			t.Fatal(err)
		}
		laid, size, err := Layout(ts, align)
		if err != nil {
			t.Fatal(err)
		}
		h, err := read(append(b, make([]byte, size)...))
		if err != nil {
			t.Fatal(err)
		}
		if align != DefaultAlignment {
			kvs = append(kvs, KV{AlignmentKey, U32(uint32(align))})
		}
		if d := cmp.Diff(kvs, h.KVs, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
		if d := cmp.Diff(laid, h.Tensors, cmpopts.EquateEmpty()); d != "" {
			t.Fatal(d)
		}
	}
}

func TestTruncatedEverywhere(t *testing.T) {
	t.Parallel()
	kvs := everyValue()
	for i := range kvs { // short values, so that every byte can be tried
		if kvs[i].Key == "long" || kvs[i].Key == "f32s" {
			kvs[i].Value = U8(0)
		}
	}
	ts := someTensors()
	b, err := EncodeHeader(kvs, ts, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	laid, _, _ := Layout(ts, DefaultAlignment)
	last := laid[len(laid)-1]
	n, _ := last.Bytes()
	whole := append(b, make([]byte, last.Offset+n)...)
	if _, err := read(whole); err != nil {
		t.Fatal(err)
	}
	for i := range whole {
		if _, err := read(whole[:i]); CodeOf(err) != CodeTruncated {
			t.Fatalf("cut at %d: %v", i, err)
		}
	}
	// A file that is shorter than its stated size is truncated as well.
	if _, err := ReadHeader(bytes.NewReader(whole[:20]), 1000, Limits{}); CodeOf(err) != CodeTruncated {
		t.Errorf("short file: %v", err)
	}
}

// raw builds files that EncodeHeader would refuse.
type raw struct{ b []byte }

func newRaw(version uint32, tensors, kvs uint64) *raw {
	r := &raw{[]byte("GGUF")}
	return r.u32(version).u64(tensors).u64(kvs)
}
func (r *raw) u32(v uint32) *raw { r.b = binary.LittleEndian.AppendUint32(r.b, v); return r }
func (r *raw) u64(v uint64) *raw { r.b = binary.LittleEndian.AppendUint64(r.b, v); return r }
func (r *raw) str(s string) *raw { r.b = appendString(r.b, s); return r }
func (r *raw) kv(k string, v Value) *raw {
	r.b = appendKV(r.b, KV{k, v})
	return r
}
func (r *raw) tensor(name string, t Type, off uint64, dims ...uint64) *raw {
	r.b = appendTensor(r.b, TensorInfo{name, dims, t, off})
	return r
}
func (r *raw) fill(n int) []byte {
	for len(r.b)%DefaultAlignment != 0 {
		r.b = append(r.b, 0)
	}
	return append(r.b, make([]byte, n)...)
}

func TestBadFiles(t *testing.T) {
	t.Parallel()
	name64 := strings.Repeat("n", 64)
	for _, tc := range []struct {
		name string
		file []byte
		code string
	}{
		{"empty", nil, CodeTruncated},
		{"magic FUGG", []byte("FUGG\x03\x00\x00\x00"), CodeMagic},
		{"magic ggml", []byte("lmgg\x03\x00\x00\x00"), CodeMagic},
		{"magic lfs", []byte("version https://git-lfs"), CodeMagic},
		{"magic zero", make([]byte, 64), CodeMagic},
		{"version 0", newRaw(0, 0, 0).fill(0), CodeVersion},
		{"version 1", newRaw(1, 0, 0).fill(0), CodeVersion},
		{"version 4", newRaw(4, 0, 0).fill(0), CodeVersion},
		{"big endian", newRaw(3<<24, 0, 0).fill(0), CodeVersion},
		{"tensor count -1", newRaw(3, math.MaxUint64, 0).fill(0), CodeLimit},
		{"kv count -1", newRaw(3, 0, math.MaxUint64).fill(0), CodeLimit},
		{"tensor count too large for the file", newRaw(3, 1000, 0).fill(0), CodeTruncated},
		{"kv count too large for the file", newRaw(3, 0, 1000).fill(0), CodeTruncated},
		{"key length -1", newRaw(3, 0, 1).u64(math.MaxUint64).fill(64), CodeLimit},
		{"key length beyond file", newRaw(3, 0, 1).u64(5000).fill(64), CodeTruncated},
		{"empty key", newRaw(3, 0, 1).kv("", U8(1)).fill(64), CodeValue},
		{"zero byte in key", newRaw(3, 0, 1).kv("a\x00b", U8(1)).fill(64), CodeValue},
		{"duplicate key", newRaw(3, 0, 2).kv("a", U8(1)).kv("a", U8(2)).fill(64), CodeDuplicate},
		{"value type 13", newRaw(3, 0, 1).str("a").u32(13).fill(64), CodeType},
		{"boolean 2", append(newRaw(3, 0, 1).str("a").u32(7).b, 2), CodeValue},
		{"boolean 2 in array", append(newRaw(3, 0, 1).str("a").u32(9).u32(7).u64(1).b, 2), CodeValue},
		{"string length -1", newRaw(3, 0, 1).str("a").u32(8).u64(math.MaxUint64).fill(64), CodeLimit},
		{"string beyond file", newRaw(3, 0, 1).str("a").u32(8).u64(1 << 20).fill(64), CodeTruncated},
		{"array of arrays", newRaw(3, 0, 1).str("a").u32(9).u32(9).u64(1).fill(64), CodeType},
		{"array of type 99", newRaw(3, 0, 1).str("a").u32(9).u32(99).u64(1).fill(64), CodeType},
		{"array bomb u64", newRaw(3, 0, 1).str("a").u32(9).u32(10).u64(1 << 61).fill(64), CodeLimit},
		{"array bomb u8", newRaw(3, 0, 1).str("a").u32(9).u32(0).u64(16 << 20).fill(64), CodeTruncated},
		{"array bomb strings", newRaw(3, 0, 1).str("a").u32(9).u32(8).u64(16 << 20).fill(64), CodeTruncated},
		{"array of long strings", newRaw(3, 0, 1).str("a").u32(9).u32(8).u64(1).u64(1 << 30).fill(64), CodeLimit},
		{"alignment 0", newRaw(3, 0, 1).kv(AlignmentKey, U32(0)).fill(64), CodeAlignment},
		{"alignment 24", newRaw(3, 0, 1).kv(AlignmentKey, U32(24)).fill(64), CodeAlignment},
		{"alignment 2^31", newRaw(3, 0, 1).kv(AlignmentKey, U32(1<<31)).fill(64), CodeAlignment},
		{"alignment u64", newRaw(3, 0, 1).kv(AlignmentKey, U64(32)).fill(64), CodeAlignment},
		{"alignment array", newRaw(3, 0, 1).kv(AlignmentKey, U32s([]uint32{32})).fill(64), CodeAlignment},
		{"empty tensor name", newRaw(3, 1, 0).tensor("", TypeF32, 0, 1).fill(64), CodeValue},
		{"zero byte in tensor name", newRaw(3, 1, 0).tensor("a\x00", TypeF32, 0, 1).fill(64), CodeValue},
		{"tensor name of 64", newRaw(3, 1, 0).tensor(name64, TypeF32, 0, 1).fill(64), CodeLimit},
		{"duplicate tensor", newRaw(3, 2, 0).tensor("a", TypeF32, 0, 1).tensor("a", TypeF32, 32, 1).fill(64), CodeDuplicate},
		{"no dimensions", newRaw(3, 1, 0).tensor("a", TypeF32, 0).fill(64), CodeType},
		{"five dimensions", newRaw(3, 1, 0).tensor("a", TypeF32, 0, 1, 1, 1, 1, 1).fill(64), CodeLimit},
		{"2^32-1 dimensions", newRaw(3, 1, 0).str("a").u32(math.MaxUint32).fill(64), CodeLimit},
		{"dimension 0", newRaw(3, 1, 0).tensor("a", TypeF32, 0, 4, 0).fill(64), CodeType},
		{"dimension -1", newRaw(3, 1, 0).tensor("a", TypeF32, 0, math.MaxUint64).fill(64), CodeType},
		{"elements overflow", newRaw(3, 1, 0).tensor("a", TypeI8, 0, 1<<32, 1<<32).fill(64), CodeType},
		{"elements overflow to small", newRaw(3, 1, 0).tensor("a", TypeI8, 0, 1<<33, 1<<31, 2).fill(64), CodeType},
		{"bytes overflow", newRaw(3, 1, 0).tensor("a", TypeF64, 0, 1<<31, 1<<30).fill(64), CodeType},
		{"padded size overflows", newRaw(3, 1, 0).tensor("a", TypeI8, 0, math.MaxInt64).fill(64), CodeOffset},
		{"sum of sizes overflows", newRaw(3, 2, 0).tensor("a", TypeI8, 0, 1<<62).tensor("b", TypeI8, 1<<62, 1<<62).fill(64), CodeOffset},
		{"type 4 (removed)", newRaw(3, 1, 0).tensor("a", 4, 0, 32).fill(64), CodeType},
		{"type 31 (removed)", newRaw(3, 1, 0).tensor("a", 31, 0, 32).fill(64), CodeType},
		{"type 43", newRaw(3, 1, 0).tensor("a", 43, 0, 32).fill(64), CodeType},
		{"row not whole blocks", newRaw(3, 1, 0).tensor("a", TypeQ4_0, 0, 33).fill(64), CodeType},
		{"unaligned", newRaw(3, 2, 0).tensor("a", TypeF32, 0, 1).tensor("b", TypeF32, 4, 1).fill(64), CodeAlignment},
		{"overlap", newRaw(3, 2, 0).tensor("a", TypeF32, 0, 16).tensor("b", TypeF32, 32, 8).fill(128), CodeOffset},
		{"same place", newRaw(3, 2, 0).tensor("a", TypeF32, 0, 1).tensor("b", TypeF32, 0, 1).fill(64), CodeOffset},
		{"gap", newRaw(3, 2, 0).tensor("a", TypeF32, 0, 1).tensor("b", TypeF32, 64, 1).fill(128), CodeOffset},
		{"first not at 0", newRaw(3, 1, 0).tensor("a", TypeF32, 32, 1).fill(64), CodeOffset},
		{"offset huge", newRaw(3, 1, 0).tensor("a", TypeF32, math.MaxUint64-31, 1).fill(64), CodeOffset},
		{"data beyond file", newRaw(3, 1, 0).tensor("a", TypeF32, 0, 17).fill(64), CodeTruncated},
		{"data section beyond file", newRaw(3, 1, 1).kv(AlignmentKey, U32(1<<20)).tensor("a", TypeF32, 0, 1).fill(64), CodeTruncated},
	} {
		h, err := read(tc.file)
		if CodeOf(err) != tc.code {
			t.Errorf("%s: header %v, error %v, want code %s", tc.name, h != nil, err, tc.code)
		}
		if err != nil && len(err.Error()) > 400 {
			t.Errorf("%s: message of %d bytes", tc.name, len(err.Error()))
		}
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	b, err := EncodeHeader([]KV{{"key", String("value")}, {"arr", U8s(make([]uint8, 100))}},
		[]TensorInfo{{Name: "tensor", Dims: []uint64{1, 1}, Type: TypeF32}}, WriteOptions{})
	if err != nil {
		t.Fatal(err)
	}
	b = append(b, make([]byte, 32)...)
	for _, l := range []Limits{{KVs: 1}, {KeyLen: 2}, {StringLen: 4}, {ArrayLen: 99}, {HeaderBytes: 100}, {Dims: 1}, {NameLen: 5}} {
		if _, err := ReadHeader(bytes.NewReader(b), int64(len(b)), l); CodeOf(err) != CodeLimit {
			t.Errorf("%+v: %v", l, err)
		}
	}
	if _, err := ReadHeader(bytes.NewReader(b), int64(len(b)), Limits{KVs: 2, Tensors: 1, KeyLen: 3, StringLen: 5, ArrayLen: 100, HeaderBytes: uint64(len(b)), Dims: 2, NameLen: 6}); err != nil {
		t.Error(err)
	}
}

type brokenDisk struct{}

var errDisk = errors.New("disk error")

func (brokenDisk) ReadAt([]byte, int64) (int, error) { return 0, errDisk }

func TestReadErrorIsNotAFormatError(t *testing.T) {
	t.Parallel()
	_, err := ReadHeader(brokenDisk{}, 1000, Limits{})
	if !errors.Is(err, errDisk) || CodeOf(err) != "" {
		t.Errorf("got %v with code %q", err, CodeOf(err))
	}
}

// countingReader shows that a header costs few reads.
type countingReader struct {
	r     *bytes.Reader
	calls int
	bytes int64
}

func (c *countingReader) ReadAt(p []byte, off int64) (int, error) {
	c.calls++
	c.bytes += int64(len(p))
	return c.r.ReadAt(p, off)
}

func vocabularyFile(tb testing.TB, n int) []byte {
	tokens, types := make([]string, n), make([]int32, n)
	for i := range tokens {
		tokens[i] = fmt.Sprintf("token%d", i)
	}
	b, err := EncodeHeader([]KV{{"tokenizer.ggml.tokens", Strings(tokens)}, {"tokenizer.ggml.token_type", I32s(types)}}, nil, WriteOptions{})
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

func TestLargeVocabulary(t *testing.T) {
	b := vocabularyFile(t, 150_000)
	r := &countingReader{r: bytes.NewReader(b)}
	h, err := ReadHeader(r, int64(len(b)), Limits{})
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := h.KVs[0].Value.Strings(); len(got) != 150_000 || got[149_999] != "token149999" {
		t.Error("vocabulary differs")
	}
	if limit := 3 + 2*len(b)/window; r.calls > limit || r.bytes > 2*int64(len(b)) {
		t.Errorf("%d reads of %d bytes together for a header of %d", r.calls, r.bytes, len(b))
	}
	if n := testing.AllocsPerRun(3, func() {
		if _, err := read(b); err != nil {
			t.Error(err)
		}
	}); n > 100 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkReadHeader150k(b *testing.B) {
	file := vocabularyFile(b, 150_000)
	b.SetBytes(int64(len(file)))
	for b.Loop() {
		if _, err := read(file); err != nil {
			b.Fatal(err)
		}
	}
}
