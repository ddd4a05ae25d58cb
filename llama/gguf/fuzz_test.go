package gguf

import (
	"bytes"
	"testing"
)

// FuzzReadHeader checks that any bytes give either a coded error or a header that can be
// encoded and read again unchanged. Seeds of our own making lie in testdata/fuzz.
func FuzzReadHeader(f *testing.F) {
	small, err := EncodeHeader([]KV{{ArchitectureKey, String("llama")}, {"b", Bools([]bool{true})}, {"s", Strings([]string{"a", ""})}},
		[]TensorInfo{{Name: "t", Dims: []uint64{32, 2}, Type: TypeQ4_0}}, WriteOptions{Alignment: 64})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(append(small, make([]byte, 64)...))
	f.Fuzz(func(t *testing.T, b []byte) {
		h, err := read(b)
		if err != nil {
			if CodeOf(err) == "" {
				t.Fatalf("error without a code: %v", err)
			}
			return
		}
		for _, ti := range h.Tensors {
			n, err := ti.Bytes()
			if err != nil || uint64(h.DataOffset)+ti.Offset+n > uint64(len(b)) {
				t.Fatalf("tensor %q lies outside the file: %v", ti.Name, err)
			}
		}
		enc, err := EncodeHeader(h.KVs, h.Tensors, WriteOptions{})
		if err != nil {
			t.Fatalf("encode: %v", err)
		}
		var data []byte
		if h.DataOffset < int64(len(b)) {
			data = b[h.DataOffset:]
		}
		h2, err := read(append(bytes.Clone(enc), data...))
		if err != nil {
			t.Fatalf("read again: %v", err)
		}
		again, err := EncodeHeader(h2.KVs, h2.Tensors, WriteOptions{})
		if err != nil || !bytes.Equal(enc, again) {
			t.Fatalf("encoding is not stable: %v", err)
		}
	})
}
