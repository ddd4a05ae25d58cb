package gguf

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestEncodeRefuses(t *testing.T) {
	t.Parallel()
	one := func(name string) []TensorInfo { return []TensorInfo{{Name: name, Dims: []uint64{8}, Type: TypeF32}} }
	two := func(a, b uint64) []TensorInfo {
		return []TensorInfo{{"a", []uint64{8}, TypeF32, a}, {"b", []uint64{8}, TypeF32, b}}
	}
	for _, tc := range []struct {
		name string
		kvs  []KV
		ts   []TensorInfo
		o    WriteOptions
		code string
	}{
		{"duplicate key", []KV{{"a", U8(1)}, {"a", U8(1)}}, nil, WriteOptions{}, CodeDuplicate},
		{"empty key", []KV{{"", U8(1)}}, nil, WriteOptions{}, CodeValue},
		{"long key", []KV{{strings.Repeat("k", 1<<16), U8(1)}}, nil, WriteOptions{}, CodeLimit},
		{"duplicate tensor", nil, append(one("a"), one("a")...), WriteOptions{}, CodeDuplicate},
		{"long tensor name", nil, one(strings.Repeat("n", 64)), WriteOptions{}, CodeLimit},
		{"empty tensor name", nil, one(""), WriteOptions{}, CodeValue},
		{"odd alignment", nil, nil, WriteOptions{Alignment: 48}, CodeAlignment},
		{"alignment contradicts", []KV{{AlignmentKey, U32(64)}}, nil, WriteOptions{Alignment: 32}, CodeAlignment},
		{"alignment of wrong type", []KV{{AlignmentKey, U64(64)}}, nil, WriteOptions{}, CodeAlignment},
		{"overlap", nil, two(32, 32), WriteOptions{}, CodeOffset},
		{"gap", nil, two(0, 64), WriteOptions{}, CodeOffset},
		{"unaligned data offset", nil, nil, WriteOptions{DataOffset: 1000}, CodeAlignment},
		{"negative data offset", nil, nil, WriteOptions{DataOffset: -32}, CodeAlignment},
		{"header too large", []KV{{"a", String(strings.Repeat("x", 2000))}}, nil, WriteOptions{DataOffset: 1024}, CodeLimit},
		{"padding does not fit", []KV{{"a", String(strings.Repeat("x", 82))}}, nil, WriteOptions{DataOffset: 128 + 32}, CodeLimit},
		{"zero dimension", nil, []TensorInfo{{Name: "a", Dims: []uint64{0}}}, WriteOptions{}, CodeType},
	} {
		if _, err := EncodeHeader(tc.kvs, tc.ts, tc.o); CodeOf(err) != tc.code {
			t.Errorf("%s: %v, want %s", tc.name, err, tc.code)
		}
	}
	if _, err := EncodeHeader(nil, two(0, 32), WriteOptions{}); err != nil {
		t.Errorf("given offsets that are right: %v", err)
	}
}

// TestDataOffsetEverywhere moves the end of the header through two alignments and checks
// that the padded region has the asked size whenever it fits.
func TestDataOffsetEverywhere(t *testing.T) {
	t.Parallel()
	fits := 0
	for n := range 300 {
		b, err := EncodeHeader([]KV{{"k", String(strings.Repeat("x", n))}}, nil, WriteOptions{DataOffset: 256})
		if err != nil {
			if CodeOf(err) != CodeLimit {
				t.Fatal(err)
			}
			continue
		}
		fits++
		h, err := read(b)
		if err != nil || h.DataOffset != 256 || len(b) != 256 {
			t.Fatalf("n=%d: %d bytes, header %+v, %v", n, len(b), h, err)
		}
		// Rewritten for another offset, the old padding is gone.
		again, err := EncodeHeader(h.KVs, nil, WriteOptions{DataOffset: 512})
		if h2, err2 := read(again); err != nil || err2 != nil || h2.DataOffset != 512 {
			t.Fatalf("n=%d: rewrite: %v, %v", n, err, err2)
		}
	}
	if fits < 160 {
		t.Errorf("only %d headers could be padded", fits)
	}
}

func TestWriteFileIsAllOrNothing(t *testing.T) {
	t.Parallel()
	boom := errors.New("boom")
	ts := []TensorInfo{{Name: "a", Dims: []uint64{8}, Type: TypeF32}}
	for name, data := range map[string]func(int, io.Writer) error{
		"error": func(int, io.Writer) error { return boom },
		"short": func(_ int, w io.Writer) error { _, err := w.Write(make([]byte, 31)); return err },
		"long":  func(_ int, w io.Writer) error { _, err := w.Write(make([]byte, 33)); return err },
	} {
		dir := t.TempDir()
		path := filepath.Join(dir, "m.gguf")
		if err := os.WriteFile(path, []byte("old"), 0o600); err != nil {
			t.Fatal(err)
		}
		err := WriteFile(path, nil, ts, data, WriteOptions{})
		if err == nil || (name == "error" && !errors.Is(err, boom)) {
			t.Errorf("%s: %v", name, err)
		}
		old, err := os.ReadFile(path)
		if err != nil || string(old) != "old" {
			t.Errorf("%s: old file is %q, %v", name, old, err)
		}
		if left, _ := os.ReadDir(dir); len(left) != 1 {
			t.Errorf("%s: left %v", name, left)
		}
	}
}
