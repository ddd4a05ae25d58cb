package manifest_test

import (
	"bytes"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
)

// key is a publisher's key of the tests.
var key = ed25519.NewKeyFromSeed(bytes.Repeat([]byte{7}, 32))

func hashOf(s string) manifest.Hash { return sha256.Sum256([]byte(s)) }

func code(err error) protocol.Code {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// model builds manifests of tests: tensors in the order of calls.
type model struct {
	m    manifest.Manifest
	file int
	at   int64
}

// newModel begins a model with a header of header bytes.
func newModel(layers int, alignment uint64, header int64) *model {
	b := &model{file: -1}
	b.m = manifest.Manifest{
		Version: manifest.Version, Name: "small", Architecture: "llama", Layers: layers, Context: 2048, Width: 64, Alignment: alignment,
		Cuts: []int{}, Ends: [][]manifest.Span{}, KVLayerBytes: make([]int64, layers), KVWindowLayers: []int{}, Tokenizer: "gpt2/x", License: "mit",
		Torrent: manifest.Torrent{PieceLength: manifest.MinPieceLength, InfoHash: strings.Repeat("0a", 20)},
	}
	for i := range b.m.KVLayerBytes {
		b.m.KVLayerBytes[i] = int64(100 + i)
	}
	for i := 1; i < layers; i++ {
		b.m.Cuts = append(b.m.Cuts, i)
	}
	return b.next(alignment, header)
}

// next begins another file.
func (b *model) next(alignment uint64, header int64) *model {
	b.file++
	b.at = header
	b.m.Files = append(b.m.Files, manifest.File{
		Name: fmt.Sprintf("small-%05d.gguf", b.file+1), Header: header, Size: header, Alignment: alignment,
		SHA256: hashOf(fmt.Sprint("file", b.file)), HeaderSHA256: hashOf(fmt.Sprint("header", b.file)),
	})
	return b
}

func (b *model) tensor(use manifest.Use, layer int, elements uint64) *model {
	f := &b.m.Files[b.file]
	name := fmt.Sprintf("t%d.weight", len(b.m.Tensors))
	switch use {
	case manifest.UseLayer:
		name = fmt.Sprintf("blk.%d.%s", layer, name)
	case manifest.UseUnused:
		name = fmt.Sprintf("blk.%d.nextn.%s", b.m.Layers, name)
	}
	t := manifest.Tensor{
		Name: name, Dims: []uint64{elements}, Type: 24, File: b.file, Offset: b.at, Bytes: int64(elements), Use: use, Layer: layer,
		SHA256: hashOf(fmt.Sprint("tensor", len(b.m.Tensors))),
	}
	b.m.Tensors = append(b.m.Tensors, t)
	b.m.Tied = b.m.Tied || use == manifest.UseEnds
	f.Size = b.at + t.Bytes
	a := int64(f.Alignment)
	b.at = (f.Size + a - 1) / a * a
	return b
}

// done settles id and pieces, with trailing bytes behind the last tensor.
func (b *model) done(trailing int64) *manifest.Manifest {
	b.m.Files[b.file].Size += trailing
	settle(&b.m)
	return &b.m
}

// settle recomputes what follows from the files.
func settle(m *manifest.Manifest) {
	var sums [][32]byte
	for _, f := range m.Files {
		sums = append(sums, f.SHA256)
	}
	m.Model = protocol.ModelIDOf(sums)
	m.Torrent.Pieces = int((m.Size() + m.Torrent.PieceLength - 1) / m.Torrent.PieceLength)
}

// small is three layers over two files, all uses but a tied embedding.
func small() *manifest.Manifest {
	return newModel(3, 32, 32000).
		tensor(manifest.UseHead, -1, 9000).tensor(manifest.UseAll, -1, 10).tensor(manifest.UseLayer, 0, 40000).tensor(manifest.UseLayer, 2, 17).
		next(64, 640).
		tensor(manifest.UseLayer, 1, 30001).tensor(manifest.UseTail, -1, 5000).tensor(manifest.UseLayer, 2, 8).done(100)
}

func clone(t testing.TB, m *manifest.Manifest) *manifest.Manifest {
	t.Helper()
	raw, err := json.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	var c manifest.Manifest
	if err := json.Unmarshal(raw, &c); err != nil {
		t.Fatal(err)
	}
	return &c
}

func sign(t testing.TB, m *manifest.Manifest) *manifest.Signed {
	t.Helper()
	s, err := manifest.Sign(m, key)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	whole := newModel(2, 32, 320).tensor(manifest.UseAll, -1, 100).done(0)
	whole.WholeOnly, whole.Cuts, whole.KVLayerBytes = `the "x" family is not certified <&>`, nil, nil
	windowed := small()
	windowed.KVWindow, windowed.KVWindowLayers = 512, []int{0, 2}
	windowed.KVWindowBytes, windowed.KVStateBytes = []int64{50, 0, 102}, []int64{0, 7, 0}
	some := small()
	some.Ends, some.Cuts = [][]manifest.Span{{{From: 1, To: 1}, {From: 3, To: 3}}, nil, {{From: 3, To: 3}}}, []int{}
	text := small()
	text.License, text.Tokenizer, text.Name = `GPL "3" \ ü 模 <b>&'`, "", "modèle 7B"
	for name, m := range map[string]*manifest.Manifest{"small": small(), "whole": whole, "windowed": windowed, "some ranges": some, "text": text} {
		s := sign(t, m)
		got, err := manifest.ParseSigned(s.Raw)
		if err != nil {
			t.Errorf("%s: %v\n%s", name, err, s.Raw)
			continue
		}
		empty := func(v []int) bool { return len(v) == 0 }
		if d := cmp.Diff(m, got.Manifest, cmp.FilterValues(func(a, b []int) bool { return empty(a) && empty(b) }, cmp.Ignore()),
			cmp.FilterValues(func(a, b []int64) bool { return len(a)+len(b) == 0 }, cmp.Ignore()),
			cmp.FilterValues(func(a, b []manifest.Span) bool { return len(a)+len(b) == 0 }, cmp.Ignore())); d != "" {
			t.Errorf("%s: %s", name, d)
		}
		if !got.Publisher.Equal(key.Public()) || !s.Publisher.Equal(key.Public()) || !bytes.Equal(got.Raw, s.Raw) {
			t.Errorf("%s: another publisher or other bytes", name)
		}
		if again := sign(t, got.Manifest); !bytes.Equal(again.Raw, s.Raw) {
			t.Errorf("%s: signed twice, two encodings", name)
		}
		if !json.Valid(s.Raw) || bytes.Contains(s.Raw, []byte("null")) {
			t.Errorf("%s: not plain JSON: %s", name, s.Raw)
		}
	}
}

// TestEncodingIsFixed holds the bytes that signatures cover. A change here
// breaks every manifest out there and needs a new version.
func TestEncodingIsFixed(t *testing.T) {
	t.Parallel()
	m := newModel(1, 32, 64).tensor(manifest.UseEnds, -1, 33).tensor(manifest.UseLayer, 0, 8).done(0)
	got, err := manifest.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	const want = `{"version":1,"model":"MODEL","name":"small",` +
		`"files":[{"name":"small-00001.gguf","size":136,"sha256":"FILE","header":64,"header_sha256":"HEADER","alignment":32}],` +
		`"architecture":"llama","layers":1,"context":2048,"width":64,"tied":true,"alignment":32,"whole_only":"","cuts":[],"ends":[],` +
		`"kv_layer_bytes":[100],"kv_window":0,"kv_window_layers":[],"tokenizer":"gpt2/x","chat_template":false,"license":"mit",` +
		`"tensors":[{"name":"t0.weight","dims":[33],"type":24,"file":0,"offset":64,"bytes":33,"sha256":"T0","use":"ends","layer":-1},` +
		`{"name":"blk.0.t1.weight","dims":[8],"type":24,"file":0,"offset":128,"bytes":8,"sha256":"T1","use":"layer","layer":0}],` +
		`"torrent":{"info_hash":"0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a0a","piece_length":16384,"pieces":1,"private":false}}`
	text := strings.NewReplacer("FILE", hashOf("file0").String(), "HEADER", hashOf("header0").String(), "T0", hashOf("tensor0").String(),
		"T1", hashOf("tensor1").String(), "MODEL", string(m.Model)).Replace(want)
	if d := cmp.Diff(text, string(got)); d != "" {
		t.Error(d)
	}
}

// TestEveryFieldIsEncoded sees a field that was added to the types and not to
// the reader.
func TestEveryFieldIsEncoded(t *testing.T) {
	t.Parallel()
	for v, want := range map[any]int{manifest.Manifest{}.Torrent: 4, manifest.File{}: 6, manifest.Span{}: 2} {
		if n := reflect.TypeOf(v).NumField(); n != want {
			t.Errorf("%T has %d fields, the reader knows %d", v, n, want)
		}
	}
	if n := reflect.TypeFor[manifest.Tensor]().NumField(); n != 9 {
		t.Errorf("a tensor has %d fields", n)
	}
	if n := reflect.TypeFor[manifest.Manifest]().NumField(); n != 23 {
		t.Errorf("a manifest has %d fields", n)
	}
}

// TestTamper flips every byte of a signed manifest, in several ways.
func TestTamper(t *testing.T) {
	t.Parallel()
	raw := sign(t, newModel(1, 32, 64).tensor(manifest.UseEnds, -1, 33).tensor(manifest.UseLayer, 0, 8).done(0)).Raw
	for i := range raw {
		for _, flip := range []byte{0x01, 0x20, 0x80} {
			b := slices.Clone(raw)
			b[i] ^= flip
			if _, err := manifest.ParseSigned(b); code(err) != protocol.CodeModelInvalid {
				t.Fatalf("byte %d ^ %#x (%.20q): %v", i, flip, b[i:], err)
			}
		}
		for _, b := range [][]byte{raw[:i], append(slices.Clone(raw[:i]), raw[i+1:]...), slices.Insert(slices.Clone(raw), i, raw[i])} {
			if _, err := manifest.ParseSigned(b); code(err) != protocol.CodeModelInvalid {
				t.Fatalf("%d bytes of %d: %v", len(b), len(raw), err)
			}
		}
	}
	if _, err := manifest.ParseSigned(append(slices.Clone(raw), '\n')); err == nil {
		t.Error("a line end is accepted")
	}
	// Another's signature over the same content is another statement.
	other := ed25519.NewKeyFromSeed(bytes.Repeat([]byte{8}, 32))
	s, err := manifest.Sign(small(), other)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := manifest.ParseSigned(s.Raw); err != nil || got.Publisher.Equal(key.Public()) {
		t.Errorf("%v, %v", got, err)
	}
	if _, err := manifest.ParseSigned(make([]byte, manifest.MaxBytes+1)); code(err) != protocol.CodeModelInvalid {
		t.Errorf("too large: %v", err)
	}
}

// envelope signs any bytes as a manifest: what a hostile publisher can do.
func envelope(body []byte) []byte {
	sig := ed25519.Sign(key, append([]byte("neuron-manifest-v1\x00"), body...))
	return fmt.Appendf(nil, `{"manifest":%s,"publisher":"%x","signature":"%x"}`, body, key.Public(), sig)
}

func TestNonCanonicalIsRefused(t *testing.T) {
	t.Parallel()
	m := small()
	m.License, m.Tied = "a/b", false
	body, err := manifest.Encode(m)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := manifest.ParseSigned(envelope(body)); err != nil {
		t.Fatal(err)
	}
	swap := func(from, to string) []byte {
		if !bytes.Contains(body, []byte(from)) {
			t.Fatalf("no %s in %s", from, body)
		}
		return bytes.Replace(body, []byte(from), []byte(to), 1)
	}
	tests := map[string][]byte{
		"blank":            swap(`"layers":3`, `"layers": 3`),
		"line end":         append(slices.Clone(body), '\n'),
		"unknown field":    swap(`"layers":3`, `"layers":3,"more":1`),
		"field twice":      swap(`"layers":3`, `"layers":3,"layers":3`),
		"missing field":    swap(`"layers":3,`, ``),
		"other order":      swap(`"context":2048,"width":64`, `"width":64,"context":2048`),
		"capital":          swap(`"layers":3`, `"Layers":3`),
		"exponent":         swap(`"context":2048`, `"context":2048e0`),
		"fraction":         swap(`"context":2048`, `"context":2048.0`),
		"leading zero":     swap(`"context":2048`, `"context":02048`),
		"plus":             swap(`"context":2048`, `"context":+2048`),
		"negative zero":    swap(`"kv_window":0`, `"kv_window":-0`),
		"as text":          swap(`"context":2048`, `"context":"2048"`),
		"too large":        swap(`"context":2048`, `"context":99999999999`),
		"beyond 64 bits":   swap(`"dims":[9000]`, `"dims":[18446744073709551616]`),
		"escaped slash":    swap(`"a/b"`, `"a\/b"`),
		"escaped letter":   swap(`"a/b"`, `"\u0061/b"`),
		"broken escape":    swap(`"a/b"`, `"a\x"`),
		"surrogate":        swap(`"a/b"`, `"\ud800"`),
		"invalid UTF-8":    swap(`"a/b"`, "\"\xff\""),
		"control":          swap(`"a/b"`, "\"\x01\""),
		"line separator":   swap(`"a/b"`, "\"\u2028\""),
		"right to left":    swap(`"a/b"`, "\"\u202e\""),
		"null":             swap(`"kv_window_layers":[]`, `"kv_window_layers":null`),
		"comma at an end":  swap(`"cuts":[1,2]`, `"cuts":[1,2,]`),
		"truth as number":  swap(`"tied":false`, `"tied":0`),
		"hash in capitals": swap(hashOf("file0").String(), strings.ToUpper(hashOf("file0").String())),
		"short hash":       swap(hashOf("file0").String(), hashOf("file0").String()[1:]),
		"two values":       append(slices.Clone(body), body...),
		"nothing":          {},
		"an empty object":  []byte("{}"),
		"endless text":     swap(`"a/b"`, `"`+strings.Repeat("a", 1<<20)+`"`),
	}
	for name, b := range tests {
		if _, err := manifest.ParseSigned(envelope(b)); code(err) != protocol.CodeModelInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, err := manifest.ParseSigned(envelope(swap(`"version":1`, `"version":2`))); code(err) != protocol.CodeProtocolVersion {
		t.Errorf("version 2: %v", err)
	}
}

// TestLongHashIsRefused: a longer one made the hex decoder panic.
func TestLongHashIsRefused(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"", "0a", strings.Repeat("0", 63), strings.Repeat("0", 65), strings.Repeat("0", 66), strings.Repeat("0A", 32), strings.Repeat("z", 64)} {
		var h manifest.Hash
		if err := h.UnmarshalText([]byte(s)); code(err) != protocol.CodeModelInvalid {
			t.Errorf("%q: %v", s, err)
		}
	}
	var h manifest.Hash
	if err := h.UnmarshalText([]byte(hashOf("x").String())); err != nil || h != hashOf("x") {
		t.Errorf("%s, %v", h, err)
	}
}

// TestHostileListsStayShort signs lists of entries that are cheap to write and
// costly to hold.
func TestHostileListsStayShort(t *testing.T) {
	t.Parallel()
	body, err := manifest.Encode(small())
	if err != nil {
		t.Fatal(err)
	}
	i := bytes.Index(body, []byte(`"tensors":[`)) + len(`"tensors":[`)
	tensor := body[i : bytes.IndexByte(body[i:], '}')+i+1]
	huge := append(slices.Clone(body[:i]), bytes.Repeat(append(slices.Clone(tensor), ','), 100_000)...)
	huge = append(huge, body[i:]...)
	if _, err := manifest.ParseSigned(envelope(huge)); code(err) != protocol.CodeModelInvalid || !strings.Contains(err.Error(), "65536") {
		t.Errorf("100000 tensors: %v", err)
	}
	huge = bytes.Replace(body, []byte(`"cuts":[`), append([]byte(`"cuts":[`), bytes.Repeat([]byte("1,"), 1<<20)...), 1)
	if _, err := manifest.ParseSigned(envelope(huge)); code(err) != protocol.CodeModelInvalid || !strings.Contains(err.Error(), "512") {
		t.Errorf("a million cuts: %v", err)
	}
}

func TestCheck(t *testing.T) {
	t.Parallel()
	if err := small().Check(); err != nil {
		t.Fatal(err)
	}
	tests := map[string]func(m *manifest.Manifest){
		"model id":              func(m *manifest.Manifest) { m.Model = protocol.ModelID(strings.Repeat("0", 64)) },
		"other file hash":       func(m *manifest.Manifest) { m.Files[0].SHA256[0]++ },
		"no name":               func(m *manifest.Manifest) { m.Name = "" },
		"path as name":          func(m *manifest.Manifest) { m.Name = "a/b" },
		"dots as name":          func(m *manifest.Manifest) { m.Name = ".." },
		"long name":             func(m *manifest.Manifest) { m.Name = strings.Repeat("a", 201) },
		"device":                func(m *manifest.Manifest) { m.Name = "com1.x" },
		"no architecture":       func(m *manifest.Manifest) { m.Architecture = "" },
		"long licence":          func(m *manifest.Manifest) { m.License = strings.Repeat("a", 257) },
		"control in text":       func(m *manifest.Manifest) { m.Tokenizer = "a\tb" },
		"no files":              func(m *manifest.Manifest) { m.Files = nil },
		"too many files":        func(m *manifest.Manifest) { m.Files = slices.Repeat(m.Files, 513) },
		"same file name":        func(m *manifest.Manifest) { m.Files[1].Name = strings.ToUpper(m.Files[0].Name) },
		"file name":             func(m *manifest.Manifest) { m.Files[1].Name = `..\x` },
		"file name with NUL":    func(m *manifest.Manifest) { m.Files[1].Name = "a\x00b" },
		"empty file":            func(m *manifest.Manifest) { m.Files[1].Size = 0 },
		"negative file":         func(m *manifest.Manifest) { m.Files[1].Size = -1 },
		"sizes overflow":        func(m *manifest.Manifest) { m.Files[0].Size, m.Files[1].Size = 1<<62, 1<<62 },
		"no header":             func(m *manifest.Manifest) { m.Files[1].Header = 0 },
		"header beyond":         func(m *manifest.Manifest) { m.Files[1].Header = m.Files[1].Size + 1 },
		"file alignment":        func(m *manifest.Manifest) { m.Files[1].Alignment = 48 },
		"zero alignment":        func(m *manifest.Manifest) { m.Files[1].Alignment = 0 },
		"two alignments":        func(m *manifest.Manifest) { m.Alignment = 64 },
		"no layers":             func(m *manifest.Manifest) { m.Layers = 0 },
		"too many layers":       func(m *manifest.Manifest) { m.Layers = 513 },
		"layer without tensors": func(m *manifest.Manifest) { m.Layers, m.Cuts = 4, []int{1, 2, 3}; m.KVLayerBytes = nil },
		"no context":            func(m *manifest.Manifest) { m.Context = 0 },
		"no width":              func(m *manifest.Manifest) { m.Width = 0 },
		"KV of other layers":    func(m *manifest.Manifest) { m.KVLayerBytes = m.KVLayerBytes[1:] },
		"negative KV":           func(m *manifest.Manifest) { m.KVLayerBytes[1] = -1 },
		"huge KV":               func(m *manifest.Manifest) { m.KVLayerBytes[1] = 1 << 40 },
		"window without layers": func(m *manifest.Manifest) { m.KVWindow = 5 },
		"layers without window": func(m *manifest.Manifest) { m.KVWindowLayers = []int{1} },
		"window of no layer":    func(m *manifest.Manifest) { m.KVWindow, m.KVWindowLayers = 5, []int{3} },
		"window unsorted":       func(m *manifest.Manifest) { m.KVWindow, m.KVWindowLayers = 5, []int{1, 0} },
		"window bytes": func(m *manifest.Manifest) {
			m.KVWindow, m.KVWindowLayers, m.KVWindowBytes = 5, []int{0}, []int64{101, 0, 0}
		},
		"window of another": func(m *manifest.Manifest) {
			m.KVWindow, m.KVWindowLayers, m.KVWindowBytes = 5, []int{0}, []int64{5, 5, 0}
		},
		"windows of few":       func(m *manifest.Manifest) { m.KVWindow, m.KVWindowLayers, m.KVWindowBytes = 5, []int{0}, []int64{5} },
		"negative state":       func(m *manifest.Manifest) { m.KVStateBytes = []int64{0, -1, 0} },
		"huge state":           func(m *manifest.Manifest) { m.KVStateBytes = []int64{0, 1 << 40, 0} },
		"states of few":        func(m *manifest.Manifest) { m.KVStateBytes = []int64{1} },
		"window without KV":    func(m *manifest.Manifest) { m.KVLayerBytes, m.KVWindow, m.KVWindowLayers = nil, 5, []int{0} },
		"no tensors":           func(m *manifest.Manifest) { m.Tensors = nil },
		"tensor name":          func(m *manifest.Manifest) { m.Tensors[1].Name = "" },
		"long tensor name":     func(m *manifest.Manifest) { m.Tensors[1].Name = strings.Repeat("a", 64) },
		"tensor twice":         func(m *manifest.Manifest) { m.Tensors[1].Name = m.Tensors[0].Name },
		"tensor in no file":    func(m *manifest.Manifest) { m.Tensors[6].File = 2 },
		"files unsorted":       func(m *manifest.Manifest) { m.Tensors[6].File = 0 },
		"negative file index":  func(m *manifest.Manifest) { m.Tensors[0].File = -1 },
		"unsorted":             func(m *manifest.Manifest) { m.Tensors[0], m.Tensors[1] = m.Tensors[1], m.Tensors[0] },
		"overlap":              func(m *manifest.Manifest) { m.Tensors[1].Offset -= 32 },
		"gap":                  func(m *manifest.Manifest) { m.Tensors[6].Offset += 64 },
		"unaligned":            func(m *manifest.Manifest) { m.Tensors[6].Offset++ },
		"header unaligned":     func(m *manifest.Manifest) { m.Files[1].Header++; m.Tensors[4].Offset++ },
		"tensor beyond":        func(m *manifest.Manifest) { m.Tensors[6].Bytes, m.Tensors[6].Dims[0] = 1000, 1000 },
		"tensor of 2^63":       func(m *manifest.Manifest) { m.Tensors[6].Bytes = 1<<63 - 1 },
		"empty tensor":         func(m *manifest.Manifest) { m.Tensors[6].Bytes = 0 },
		"no dimensions":        func(m *manifest.Manifest) { m.Tensors[0].Dims = nil },
		"five dimensions":      func(m *manifest.Manifest) { m.Tensors[0].Dims = []uint64{9000, 1, 1, 1, 1} },
		"zero dimension":       func(m *manifest.Manifest) { m.Tensors[0].Dims = []uint64{9000, 0} },
		"dimensions overflow":  func(m *manifest.Manifest) { m.Tensors[0].Dims = []uint64{1 << 32, 1 << 32} },
		"too many elements":    func(m *manifest.Manifest) { m.Tensors[0].Dims[0] = 9000*16 + 16 },
		"too few elements":     func(m *manifest.Manifest) { m.Tensors[0].Dims[0] = 9000/8 - 1 },
		"type":                 func(m *manifest.Manifest) { m.Tensors[0].Type = 1024 },
		"use":                  func(m *manifest.Manifest) { m.Tensors[0].Use = "some" },
		"layer of the head":    func(m *manifest.Manifest) { m.Tensors[0].Layer = 0 },
		"layer beyond":         func(m *manifest.Manifest) { m.Tensors[2].Layer = 3 },
		"negative layer":       func(m *manifest.Manifest) { m.Tensors[2].Layer = -1 },
		"no head":              func(m *manifest.Manifest) { m.Tensors[0].Use = manifest.UseAll },
		"no tail":              func(m *manifest.Manifest) { m.Tensors[5].Use = manifest.UseAll },
		"tied and not":         func(m *manifest.Manifest) { m.Tied = true },
		"ends of the untied":   func(m *manifest.Manifest) { m.Tensors[0].Use = manifest.UseEnds },
		"whole with layers":    func(m *manifest.Manifest) { m.WholeOnly, m.Cuts = "why", nil },
		"cuts unsorted":        func(m *manifest.Manifest) { m.Cuts = []int{2, 1} },
		"cut at 0":             func(m *manifest.Manifest) { m.Cuts = []int{0, 1, 2} },
		"cut at the end":       func(m *manifest.Manifest) { m.Cuts = []int{1, 2, 3} },
		"too few cuts":         func(m *manifest.Manifest) { m.Cuts = []int{1} },
		"ends of other layers": func(m *manifest.Manifest) { m.Ends = [][]manifest.Span{{{From: 1, To: 3}}} },
		"ends without the whole": func(m *manifest.Manifest) {
			m.Ends, m.Cuts = [][]manifest.Span{{{From: 1, To: 2}}, {{From: 2, To: 3}}, {{From: 3, To: 3}}}, []int{1, 2}
		},
		"ends before the start": func(m *manifest.Manifest) {
			m.Ends = [][]manifest.Span{{{From: 1, To: 3}}, {{From: 1, To: 3}}, {{From: 3, To: 3}}}
		},
		"ends beyond": func(m *manifest.Manifest) {
			m.Ends = [][]manifest.Span{{{From: 1, To: 4}}, {{From: 2, To: 3}}, {{From: 3, To: 3}}}
		},
		"ends backwards": func(m *manifest.Manifest) {
			m.Ends = [][]manifest.Span{{{From: 3, To: 1}}, {{From: 2, To: 3}}, {{From: 3, To: 3}}}
		},
		"ends that touch": func(m *manifest.Manifest) {
			m.Ends = [][]manifest.Span{{{From: 1, To: 1}, {From: 2, To: 3}}, {{From: 2, To: 3}}, {{From: 3, To: 3}}}
		},
		"info hash":       func(m *manifest.Manifest) { m.Torrent.InfoHash = strings.Repeat("0A", 20) },
		"short info hash": func(m *manifest.Manifest) { m.Torrent.InfoHash = "0a" },
		"piece length":    func(m *manifest.Manifest) { m.Torrent.PieceLength = 16385 },
		"small pieces":    func(m *manifest.Manifest) { m.Torrent.PieceLength = 8192; settle(m) },
		"large pieces":    func(m *manifest.Manifest) { m.Torrent.PieceLength = 32 << 20; settle(m) },
		"pieces":          func(m *manifest.Manifest) { m.Torrent.Pieces++ },
		"too many pieces": func(m *manifest.Manifest) { m.Files[1].Size = 1 << 40; settle(m) },
	}
	for name, change := range tests {
		m := clone(t, small())
		change(m)
		if err := m.Check(); code(err) != protocol.CodeModelInvalid {
			t.Errorf("%s: %v", name, err)
		}
		if _, err := manifest.Sign(m, key); code(err) != protocol.CodeModelInvalid {
			t.Errorf("%s was signed: %v", name, err)
		}
	}
	m := small()
	m.Version = 2
	if err := m.Check(); code(err) != protocol.CodeProtocolVersion {
		t.Errorf("version 2: %v", err)
	}
	if _, err := manifest.Sign(small(), key[:10]); code(err) != protocol.CodeInternal {
		t.Errorf("half a key: %v", err)
	}
}

// TestTensorNamesThatBecomeFiles: storage names files after the tensors of a
// model that is cut.
func TestTensorNamesThatBecomeFiles(t *testing.T) {
	t.Parallel()
	const head, layer = 0, 2 // of small
	try := func(i int, name string) error {
		m := clone(t, small())
		m.Tensors[i].Name = name
		return m.Check()
	}
	for _, name := range []string{"token_embd.weight", "output.bias", "rope_factors_long.weight"} {
		if err := try(head, name); err != nil {
			t.Errorf("%q: %v", name, err)
		}
	}
	for _, name := range []string{
		"meta", "shard", "blk.0000", "blk.0.x.weight", "x", "../x.weight", "a/b.weight", `a\b.weight`, "Token_embd.weight", "nul.weight", "a b.weight", "ü.weight", ".weight.",
	} {
		if err := try(head, name); code(err) != protocol.CodeModelInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
	if err := try(layer, "blk.0.any_Thing"); err != nil {
		t.Error(err)
	}
	for _, name := range []string{"blk.1.x.weight", "blk.00.x.weight", "blk.0", "x.weight", "blk.0./../x", "blk.0.x/y"} {
		if err := try(layer, name); code(err) != protocol.CodeModelInvalid {
			t.Errorf("%q: %v", name, err)
		}
	}
	// Where nothing is cut, nothing is named after a tensor.
	m := newModel(2, 32, 320).tensor(manifest.UseAll, -1, 100).done(0)
	m.WholeOnly, m.Cuts, m.Tensors[0].Name = "why", []int{}, "/model/layer:0"
	if err := m.Check(); err != nil {
		t.Error(err)
	}
}

func TestBlockOf(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]int{"blk.0.a": 0, "blk.17.attn_q.weight": 17, "blk.0.": 0} {
		if n, ok := manifest.BlockOf(name); !ok || n != want {
			t.Errorf("%q: %d, %v", name, n, ok)
		}
	}
	for _, name := range []string{"", "blk", "blk.", "blk.1", "blk..a", "blk.-1.a", "blk.+1.a", "blk.01.a", "blk.x.a", "blk.99999999999999999999.a", "xblk.1.a"} {
		if n, ok := manifest.BlockOf(name); ok {
			t.Errorf("%q: %d", name, n)
		}
	}
}

func TestSafeName(t *testing.T) {
	t.Parallel()
	for _, s := range []string{"m.gguf", "Qwen2.5-7B (Q4_K).gguf", ".hidden", "模型", "console.gguf", "com10", "a..b", strings.Repeat("a", 200)} {
		if !manifest.SafeName(s) {
			t.Errorf("%q is refused", s)
		}
	}
	for _, s := range []string{
		"", ".", "..", "/", "a/b", `a\b`, "c:x", "a*", "a?", `a"`, "a<", "a>", "a|", "a\x00", "a\n", "a\u202eb", "a\u2028", "\xff", " a", "a ", "a.", "a\u00a0b",
		"con", "CON.gguf", "nul.tar.gz", "aux", "prn.x", "COM1", "lpt9.gguf", "com¹.x", "con .x", "CONIN$", strings.Repeat("a", 201),
	} {
		if manifest.SafeName(s) {
			t.Errorf("%q is allowed", s)
		}
	}
}

// random is a legal manifest of random shape.
func random(r *rand.Rand) *manifest.Manifest {
	aligns := []uint64{8, 32, 64, 4096}
	layers := 1 + r.IntN(6)
	a := aligns[r.IntN(len(aligns))]
	b := newModel(layers, a, int64(a)*int64(1+r.IntN(40)))
	type piece struct {
		use   manifest.Use
		layer int
	}
	list := []piece{{manifest.UseTail, -1}}
	if r.IntN(2) == 0 {
		list = append(list, piece{manifest.UseEnds, -1})
	} else {
		list = append(list, piece{manifest.UseHead, -1})
	}
	for range r.IntN(3) {
		list = append(list, piece{manifest.UseAll, -1})
	}
	for range max(0, r.IntN(6)-3) {
		list = append(list, piece{manifest.UseUnused, -1})
	}
	for i := range layers {
		for range 1 + r.IntN(4) {
			list = append(list, piece{manifest.UseLayer, i})
		}
	}
	r.Shuffle(len(list), func(i, j int) { list[i], list[j] = list[j], list[i] })
	for _, p := range list {
		if r.IntN(6) == 0 {
			if r.IntN(3) == 0 {
				b.m.Files[b.file].Size += int64(r.IntN(2000)) // behind the last tensor
			}
			a := aligns[r.IntN(len(aligns))]
			b.next(a, int64(a)*int64(1+r.IntN(40)))
		}
		b.tensor(p.use, p.layer, uint64(1+r.IntN(30000)))
	}
	if r.IntN(4) == 0 {
		b.m.WholeOnly, b.m.Cuts = "why not", []int{}
		for i := range b.m.Tensors {
			b.m.Tensors[i].Use, b.m.Tensors[i].Layer = manifest.UseAll, -1
		}
	}
	return b.done(int64(r.IntN(3) * 500))
}

// TestNeedAgainstBytes compares Need with a map that has an entry for every
// byte of the torrent.
func TestNeedAgainstBytes(t *testing.T) {
	t.Parallel()
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		m := random(r)
		if err := m.Check(); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
		starts, length := m.Starts(), m.Torrent.PieceLength
		ranges := []protocol.Range{{}}
		for a := range m.Layers {
			for b := a + 1; b <= m.Layers; b++ {
				ranges = append(ranges, protocol.Range{First: a, Last: b})
			}
		}
		for _, x := range ranges {
			n, err := m.Need(x)
			if m.WholeOnly != "" && x.Len() != 0 && x.Len() != m.Layers {
				if code(err) != protocol.CodeModelUncut {
					t.Fatalf("seed %d: %s of a whole model: %v", seed, x, err)
				}
				continue
			}
			if err != nil {
				t.Fatalf("seed %d: %s: %v", seed, x, err)
			}
			checkNeed(t, m, n, []protocol.Range{x}, starts, length)
			if n.Range != x {
				t.Errorf("range %s, want %s", n.Range, x)
			}
		}
		if m.WholeOnly == "" && m.Layers > 3 {
			two := []protocol.Range{{First: 0, Last: 1}, {First: 2, Last: 3}}
			n, err := m.NeedAll(two...)
			if err != nil {
				t.Fatal(err)
			}
			checkNeed(t, m, n, two, starts, length)
		}
	}
}

func checkNeed(t *testing.T, m *manifest.Manifest, n *manifest.Need, ranges []protocol.Range, starts []int64, length int64) {
	t.Helper()
	const needed, pad = 1, 2
	bytes := make([]byte, m.Size())
	set := func(from, to int64, v byte) {
		for i := from; i < to; i++ {
			bytes[i] = v
		}
	}
	set(0, m.Files[0].Header, needed)
	var tensors []int
	for i, tt := range m.Tensors {
		at := starts[tt.File] + tt.Offset
		in := false
		for _, r := range ranges {
			head, tail := r.First == 0, r.Last == m.Layers
			some := r.Last > 0
			in = in || some && (tt.Use == manifest.UseAll || tt.Use == manifest.UseHead && head || tt.Use == manifest.UseTail && tail ||
				tt.Use == manifest.UseEnds && (head || tail) || tt.Use == manifest.UseLayer && r.First <= tt.Layer && tt.Layer < r.Last)
		}
		if in {
			set(at, at+tt.Bytes, needed)
			tensors = append(tensors, i)
		}
		// What follows up to the next tensor of the file is padding.
		if i+1 < len(m.Tensors) && m.Tensors[i+1].File == tt.File {
			set(at+tt.Bytes, starts[tt.File]+m.Tensors[i+1].Offset, pad)
		}
	}
	if m.WholeOnly != "" && ranges[0].Last > 0 {
		set(0, m.Size(), needed)
	}
	// Padding between two needed bytes is needed too.
	for i := 1; i < len(bytes); i++ {
		if bytes[i] != pad || bytes[i-1] != needed {
			continue
		}
		j := i
		for j < len(bytes) && bytes[j] == pad {
			j++
		}
		if j < len(bytes) && bytes[j] == needed {
			set(int64(i), int64(j), needed)
		}
	}
	got := make([]bool, len(bytes))
	sum := int64(0)
	for k, e := range n.Extents {
		at := m.TorrentOffset(e.File, e.Offset)
		if at != starts[e.File]+e.Offset || e.Bytes <= 0 || e.Offset+e.Bytes > m.Files[e.File].Size {
			t.Fatalf("extent %+v at %d", e, at)
		}
		if k > 0 {
			if p := n.Extents[k-1]; p.File > e.File || p.File == e.File && p.Offset+p.Bytes >= e.Offset {
				t.Fatalf("extents %+v and %+v are not apart", p, e)
			}
		}
		for i := at; i < at+e.Bytes; i++ {
			got[i] = true
		}
		sum += e.Bytes
	}
	pieces := make([]bool, m.Torrent.Pieces)
	for i, b := range bytes {
		if (b == needed) != got[i] {
			t.Fatalf("%v: byte %d: needed %v, in an extent %v\n%+v\n%+v", ranges, i, b == needed, got[i], n, m)
		}
		pieces[int64(i)/length] = pieces[int64(i)/length] || got[i]
	}
	var runs []manifest.Run
	wire := int64(0)
	for i, p := range pieces {
		if !p {
			continue
		}
		wire += m.PieceBytes(i)
		if k := len(runs); k > 0 && runs[k-1].Last == i {
			runs[k-1].Last++
		} else {
			runs = append(runs, manifest.Run{First: i, Last: i + 1})
		}
	}
	if !slices.Equal(runs, n.Pieces) || wire != n.WireBytes || sum != n.Bytes || !slices.Equal(tensors, n.Tensors) {
		t.Fatalf("%v: pieces %v of %d bytes, want %v of %d; %d bytes, want %d; tensors %v, want %v", ranges, n.Pieces, n.WireBytes, runs, wire, n.Bytes, sum, n.Tensors, tensors)
	}
}

func TestPiecesAndFiles(t *testing.T) {
	t.Parallel()
	for seed := range uint64(40) {
		m := random(rand.New(rand.NewPCG(seed, 2)))
		starts := m.Starts()
		at := int64(0)
		for p := range m.Torrent.Pieces {
			sum := int64(0)
			for _, e := range m.ExtentsOf(p) {
				if starts[e.File]+e.Offset != at+sum {
					t.Fatalf("seed %d: piece %d has %+v at %d", seed, p, e, at+sum)
				}
				if run := m.PiecesOf(e); run != (manifest.Run{First: p, Last: p + 1}) {
					t.Fatalf("seed %d: extent %+v of piece %d lies in %v", seed, e, p, run)
				}
				sum += e.Bytes
			}
			if sum != m.PieceBytes(p) {
				t.Fatalf("seed %d: piece %d has %d bytes, want %d", seed, p, sum, m.PieceBytes(p))
			}
			at += sum
		}
		if at != m.Size() || m.ExtentsOf(-1) != nil || m.ExtentsOf(m.Torrent.Pieces) != nil {
			t.Fatalf("seed %d: pieces of %d bytes in all", seed, at)
		}
		for _, off := range []int64{0, starts[1] - 1, m.Size() - 1} {
			f, in, ok := m.FileAt(off)
			if !ok || m.TorrentOffset(f, in) != off || in >= m.Files[f].Size {
				t.Errorf("byte %d is %d of file %d, %v", off, in, f, ok)
			}
		}
		for _, off := range []int64{-1, m.Size()} {
			if _, _, ok := m.FileAt(off); ok {
				t.Errorf("byte %d has a file", off)
			}
		}
		for i := range 50 {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			f := r.IntN(len(m.Files))
			e := manifest.Extent{File: f, Offset: r.Int64N(m.Files[f].Size)}
			e.Bytes = 1 + r.Int64N(m.Files[f].Size-e.Offset)
			first, last := m.TensorsAt(e)
			for k, tt := range m.Tensors {
				in := tt.File == f && tt.Offset < e.Offset+e.Bytes && e.Offset < tt.Offset+tt.Bytes
				if in != (first <= k && k < last) {
					t.Fatalf("seed %d: tensor %d in %+v: %v, got %d-%d", seed, k, e, in, first, last)
				}
			}
		}
	}
}

func TestCheckRange(t *testing.T) {
	t.Parallel()
	m := small()
	m.Ends, m.Cuts = [][]manifest.Span{{{From: 1, To: 1}, {From: 3, To: 3}}, {{From: 3, To: 3}}, {}}, []int{1}
	if err := m.Check(); err != nil {
		t.Fatal(err)
	}
	legal := map[protocol.Range]bool{{First: 0, Last: 1}: true, {First: 0, Last: 3}: true, {First: 1, Last: 3}: true}
	for a := -1; a <= 4; a++ {
		for b := -1; b <= 4; b++ {
			r := protocol.Range{First: a, Last: b}
			if r == (protocol.Range{}) {
				continue // the metadata alone
			}
			_, err := m.Need(r)
			if (err == nil) != legal[r] || err != nil && code(err) != protocol.CodeRangeInvalid {
				t.Errorf("%s: %v", r, err)
			}
		}
	}
	if _, err := m.NeedAll(protocol.Range{}); code(err) != protocol.CodeRangeInvalid {
		t.Errorf("an empty range among ranges: %v", err)
	}
}

// TestUnused: what no stage uses is in files and torrent, and in no need and no
// sum.
func TestUnused(t *testing.T) {
	t.Parallel()
	build := func() *manifest.Manifest {
		return newModel(2, 32, 320).tensor(manifest.UseEnds, -1, 100).tensor(manifest.UseUnused, -1, 40000).tensor(manifest.UseLayer, 0, 50).
			tensor(manifest.UseUnused, -1, 33).tensor(manifest.UseLayer, 1, 60).tensor(manifest.UseUnused, -1, 50000).done(0)
	}
	m := build()
	s, err := manifest.ParseSigned(sign(t, m).Raw)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(m, s.Manifest); d != "" {
		t.Error(d)
	}
	all := protocol.Range{Last: 2}
	n, err := m.Need(all)
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(n.Tensors, []int{0, 2, 4}) || n.Bytes != 420+50+60 || len(n.Extents) != 3 || n.WireBytes >= m.Size()-manifest.MinPieceLength {
		t.Errorf("the whole model needs %+v of %d bytes", n, m.Size())
	}
	if w, layers, u := m.WeightBytes(all), m.LayerBytes(), m.UseBytes(manifest.UseUnused); w != 210 || !slices.Equal(layers, []int64{50, 60}) || u != 90033 {
		t.Errorf("weights %d, layers %d, unused %d", w, layers, u)
	}
	for name, change := range map[string]func(x *manifest.Tensor){
		"a layer's name":       func(x *manifest.Tensor) { x.Name = "blk.1.nextn.weight" },
		"a shared name":        func(x *manifest.Tensor) { x.Name = "nextn.weight" },
		"odd digits":           func(x *manifest.Tensor) { x.Name = "blk.02.nextn.weight" },
		"a path":               func(x *manifest.Tensor) { x.Name = "blk.2./../x" },
		"a block beyond":       func(x *manifest.Tensor) { x.Name = "blk.512.x.weight" },
		"a layer":              func(x *manifest.Tensor) { x.Layer = 2 },
		"a layer of the model": func(x *manifest.Tensor) { x.Layer = 1 },
		"another use":          func(x *manifest.Tensor) { x.Use = "nextn" },
	} {
		m := build()
		change(&m.Tensors[1])
		if err := m.Check(); code(err) != protocol.CodeModelInvalid {
			t.Errorf("%s: %v", name, err)
		}
	}
	m.WholeOnly, m.Cuts = "why", []int{}
	for i := range m.Tensors {
		m.Tensors[i].Use, m.Tensors[i].Layer = manifest.UseAll, -1
	}
	if err := m.Check(); err != nil {
		t.Errorf("the form of earlier publishers: %v", err)
	}
	m.Tensors[1].Use = manifest.UseUnused
	if err := m.Check(); code(err) != protocol.CodeModelInvalid {
		t.Errorf("unused in a model that is not cut: %v", err)
	}
}

func TestSums(t *testing.T) {
	t.Parallel()
	m := small()
	m.KVWindow, m.KVWindowLayers = 300, []int{0, 2}
	if got := m.LayerBytes(); !slices.Equal(got, []int64{40000, 30001, 25}) {
		t.Errorf("layers %v", got)
	}
	for use, want := range map[manifest.Use]int64{manifest.UseHead: 9000, manifest.UseTail: 5000, manifest.UseAll: 10, manifest.UseEnds: 0, manifest.UseLayer: 70026} {
		if got := m.UseBytes(use); got != want {
			t.Errorf("%s: %d bytes, want %d", use, got, want)
		}
	}
	for r, want := range map[protocol.Range]int64{{Last: 3}: 84036, {First: 1, Last: 2}: 30011, {First: 2, Last: 3}: 5035, {Last: 1}: 49010, {}: 0} {
		if got := m.WeightBytes(r); got != want {
			t.Errorf("%s: %d bytes, want %d", r, got, want)
		}
	}
	all := protocol.Range{Last: 3}
	if got := m.KVCellBytes(all); got != 303 {
		t.Errorf("%d bytes per position", got)
	}
	// Layers 0 and 2 keep 300+64 positions, in cells 512.
	if got, want := m.KVBytes(all, 4000, 64), int64(101*4096+202*512); got != want {
		t.Errorf("%d bytes of KV, want %d", got, want)
	}
	if got, want := m.KVBytes(all, 100, 64), int64(303*256); got != want {
		t.Errorf("%d bytes of KV for few positions, want %d", got, want)
	}
	if got := m.TorrentName(); got != "small" {
		t.Errorf("torrent name %q", got)
	}
	m.KVWindowBytes, m.KVStateBytes = []int64{60, 0, 102}, []int64{0, 9, 1000}
	if got, want := m.KVBytes(all, 4000, 64), int64(40*4096+60*512+101*4096+102*512+1009); got != want {
		t.Errorf("%d bytes with a part that slides and states, want %d", got, want)
	}
	m.KVWindowBytes, m.KVStateBytes = nil, nil
	m.KVLayerBytes = nil
	if got := m.KVCellBytes(all); got != 0 {
		t.Errorf("unknown KV is %d", got)
	}
}

func FuzzParseSigned(f *testing.F) {
	for _, m := range []*manifest.Manifest{
		small(), newModel(1, 32, 64).tensor(manifest.UseEnds, -1, 33).tensor(manifest.UseLayer, 0, 8).done(0),
		newModel(1, 32, 64).tensor(manifest.UseEnds, -1, 33).tensor(manifest.UseUnused, -1, 9).tensor(manifest.UseLayer, 0, 8).done(0),
	} {
		body, err := manifest.Encode(m)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(body)
	}
	f.Fuzz(func(t *testing.T, body []byte) {
		// Unsigned: nothing but random bytes ever comes through a signature.
		if _, err := manifest.ParseSigned(body); err == nil {
			t.Fatal("accepted without a signature")
		}
		s, err := manifest.ParseSigned(envelope(body))
		if err != nil {
			if c := code(err); c != protocol.CodeModelInvalid && c != protocol.CodeProtocolVersion {
				t.Fatal(err)
			}
			return
		}
		m := s.Manifest
		if again, err := manifest.Encode(m); err != nil || !bytes.Equal(again, body) {
			t.Fatalf("encodes to %s, %v", again, err)
		}
		all := protocol.Range{Last: m.Layers}
		n, err := m.Need(all)
		if err != nil || n.Bytes > m.Size() || n.WireBytes > m.Size() || n.Bytes > n.WireBytes {
			t.Fatalf("%+v, %v", n, err)
		}
		m.KVBytes(all, protocol.MaxContext, 512)
	})
}
