package llama

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func wantCode(t *testing.T, err error, code string) {
	t.Helper()
	if !errors.Is(err, &Error{Code: code}) {
		t.Fatalf("got error %v, want code %s", err, code)
	}
}

func TestModel(t *testing.T) {
	var fractions []float32
	m := loadGuide(t, ModelParams{CheckTensors: true, Progress: func(f float32) bool {
		fractions = append(fractions, f)
		return true
	}})
	got := map[string]int{"layers": m.NLayer(), "embd": m.NEmbd(), "inp": m.NEmbdInp(), "out": m.NEmbdOut(),
		"swa": m.NSWA(), "vocab": m.Vocab().N()}
	want := map[string]int{"layers": 8, "embd": 192, "inp": 192, "out": 192, "swa": 0, "vocab": 2048}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if m.NHead() < 1 || m.NHeadKV() < 1 || m.NCtxTrain() < 1 || m.NParams() == 0 || m.Size() == 0 || m.Desc() == "" {
		t.Error("an accessor gives nothing")
	}
	if arch, ok := m.Meta("general.architecture"); !ok || arch != "llama" {
		t.Errorf("architecture %q %v", arch, ok)
	}
	if _, ok := m.Meta("no.such.key"); ok {
		t.Error("a key that is not there has a value")
	}
	if tmpl := m.ChatTemplate(); !strings.Contains(tmpl, "im_start") {
		t.Errorf("chat template %q", tmpl)
	}
	if m.IsRecurrent() || m.IsHybrid() || m.HasEncoder() {
		t.Error("wrong kind of model")
	}
	if len(fractions) == 0 || fractions[len(fractions)-1] != 1 {
		t.Errorf("progress %v", fractions)
	}
	_, err := LoadModel([]string{guidePath(t)}, ModelParams{Progress: func(float32) bool { return false }})
	wantCode(t, err, CodeModelAborted)
}

func TestLoadModelRefuses(t *testing.T) {
	load(t)
	_, err := LoadModel(nil, ModelParams{})
	wantCode(t, err, CodeInvalidArg)
	_, err = LoadModel([]string{"/no/such/file"}, ModelParams{})
	wantCode(t, err, CodeModelLoad)
	bad := filepath.Join(t.TempDir(), "bad.gguf")
	if err := os.WriteFile(bad, []byte("GGUF but not really"), 0o600); err != nil {
		t.Fatal(err)
	}
	_, err = LoadModel([]string{bad}, ModelParams{})
	wantCode(t, err, CodeModelLoad)
	var e *Error
	if errors.As(err, &e) && e.Detail == "" {
		t.Error("no detail of libllama in the error")
	}
}

func TestFreedHandles(t *testing.T) {
	load(t)
	m, err := LoadModel([]string{guidePath(t)}, ModelParams{})
	if err != nil {
		t.Fatal(err)
	}
	v := m.Vocab()
	c, err := NewContext(m, ContextParams{NCtx: 64})
	if err != nil {
		t.Fatal(err)
	}
	m.Free() // waits for the context
	prompt(t, c, m, "hello", 0)
	c.Free()
	c.Free()
	m.Free()
	if m.NLayer() != 0 || v.N() != 0 || c.NCtx() != 0 || m.Desc() != "" || v.BOS() != TokenNull {
		t.Error("a freed handle answers")
	}
	_, err = NewContext(m, ContextParams{})
	wantCode(t, err, CodeInvalidHandle)
	b := newBatch(t, 1, 0)
	wantCode(t, c.Decode(b), CodeInvalidHandle)
	_, err = v.Tokenize("x", false, false)
	wantCode(t, err, CodeInvalidHandle)
	c.Memory().Clear(true)
	c.Synchronize()
}

func TestVocab(t *testing.T) {
	m := loadGuide(t, ModelParams{VocabOnly: true})
	v := m.Vocab()
	for _, text := range []string{"", "hello", "What is a seam?", "Ünïcode ✓ 日本語 \U0001F600", "  spaces\n\ttabs ", strings.Repeat("long ", 500)} {
		ids, err := v.Tokenize(text, false, false)
		if err != nil {
			t.Fatal(err)
		}
		got, err := v.Detokenize(ids, false, false)
		if err != nil {
			t.Fatal(err)
		}
		if got != text {
			t.Errorf("round trip of %q gives %q", text, got)
		}
		var pieces []byte
		for _, id := range ids {
			p, err := v.Piece(id, false)
			if err != nil {
				t.Fatal(err)
			}
			pieces = append(pieces, p...)
		}
		if string(pieces) != text {
			t.Errorf("pieces of %q give %q", text, pieces)
		}
	}
	ids, err := v.Tokenize("a\xff\xfeb", false, false)
	if err != nil {
		t.Fatal(err)
	}
	if got, _ := v.Detokenize(ids, false, false); got != "a\uFFFDb" {
		t.Errorf("invalid UTF-8 gives %q", got)
	}
	plain, _ := v.Tokenize("<|im_end|>", false, false)
	special, _ := v.Tokenize("<|im_end|>", false, true)
	if len(special) != 1 || len(plain) < 2 || !v.IsControl(special[0]) || !v.IsEOG(special[0]) {
		t.Errorf("special %v, plain %v", special, plain)
	}
	if p, _ := v.Piece(special[0], false); len(p) != 0 {
		t.Errorf("control token as text: %q", p)
	}
	if p, _ := v.Piece(special[0], true); string(p) != "<|im_end|>" || v.Text(special[0]) != "<|im_end|>" {
		t.Errorf("control token: %q", p)
	}
	if v.Attr(special[0])&AttrControl == 0 || v.EOS() < 0 || v.Type() != VocabBPE {
		t.Error("attributes")
	}
	for _, id := range []int32{-1, 2048, 1 << 30} {
		if _, err := v.Piece(id, true); !errors.Is(err, &Error{Code: CodeInvalidArg}) {
			t.Errorf("piece of %d: %v", id, err)
		}
		if v.IsEOG(id) || v.IsControl(id) || v.Text(id) != "" || v.Attr(id) != 0 {
			t.Errorf("token %d answers", id)
		}
	}
	_, err = v.Detokenize([]int32{1, 99999}, false, false)
	wantCode(t, err, CodeInvalidArg)
	_, err = v.Tokenize(strings.Repeat("x", maxText+1), false, false)
	wantCode(t, err, CodeInvalidArg)
}

func TestGreedyAnswer(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	c := newContext(t, m, ContextParams{NOutputsMax: 1})
	ids := generate(t, c, m, chain(t, Greedy()), chatPrompt, 0, 60)
	text, err := m.Vocab().Detokenize(ids, false, false)
	if err != nil {
		t.Fatal(err)
	}
	const want = "A seam is the boundary between two shards."
	if !strings.HasPrefix(text, want) {
		t.Errorf("answer %q, want it to begin with %q", text, want)
	}
}

func TestTwoContextsOverOneModel(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	want := generate(t, newContext(t, m, ContextParams{}), m, chain(t, Greedy()), chatPrompt, 0, 20)
	var wg sync.WaitGroup
	var got [2][]int32
	for i := range got {
		c, s := newContext(t, m, ContextParams{}), chain(t, Greedy())
		wg.Go(func() { got[i] = generate(t, c, m, s, chatPrompt, 0, 20) })
	}
	wg.Wait()
	for i := range got {
		if d := cmp.Diff(want, got[i]); d != "" {
			t.Errorf("context %d: %s", i, d)
		}
	}
}

func TestBatchChecks(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	c := newContext(t, m, ContextParams{NCtx: 256, NBatch: 32, NUBatch: 16, NSeqMax: 2, NOutputsMax: 2})
	for _, s := range [][2]int{{0, 0}, {-1, 0}, {1, -1}, {maxBatchRows + 1, 0}, {maxBatchRows, maxBatchFloats}} {
		if _, err := NewBatch(s[0], s[1]); !errors.Is(err, &Error{Code: CodeInvalidArg}) {
			t.Errorf("batch %v: %v", s, err)
		}
	}
	b := newBatch(t, 40, 0)
	wantCode(t, c.Decode(b), CodeDecodeInvalid)
	wantCode(t, c.Decode(nil), CodeDecodeInvalid)
	wantCode(t, b.AddToken(1, -1, 0, false), CodeInvalidArg)
	wantCode(t, b.AddToken(1, 0, -1, false), CodeInvalidArg)
	wantCode(t, b.AddToken(1, 0, 256, false), CodeInvalidArg)
	wantCode(t, b.AddEmbd(make([]float32, 192), 0, 0, false), CodeInvalidArg)
	fill := func(rows int, id, seq int32, outputs int) {
		b.Reset()
		for i := range rows {
			if err := b.AddToken(id, int32(i), seq, i < outputs); err != nil {
				t.Fatal(err)
			}
		}
	}
	fill(40, 5, 0, 0)
	wantCode(t, b.AddToken(1, 41, 0, false), CodeInvalidArg) // full
	wantCode(t, c.Decode(b), CodeDecodeInvalid)              // more than n_batch
	fill(4, 5, 2, 0)
	wantCode(t, c.Decode(b), CodeDecodeInvalid) // sequence
	fill(4, 2048, 0, 0)
	wantCode(t, c.Decode(b), CodeDecodeInvalid) // token
	fill(4, -1, 0, 0)
	wantCode(t, c.Decode(b), CodeDecodeInvalid) // token
	fill(4, 5, 0, 3)
	wantCode(t, c.Decode(b), CodeDecodeInvalid) // outputs
	fill(32, 5, 0, 2)
	if err := c.Decode(b); err != nil {
		t.Fatal(err)
	}
	if l, err := c.Logits(1); err != nil || len(l) != 2048 {
		t.Errorf("%d logits, %v", len(l), err)
	}
	for _, i := range []int{-1, 2, 31, 32, 1 << 30} {
		if _, err := c.Logits(i); !errors.Is(err, &Error{Code: CodeNoOutput}) {
			t.Errorf("row %d: %v", i, err)
		}
	}
	_, err := c.Embeddings(0)
	wantCode(t, err, CodeNoOutput)
	_, err = c.EmbeddingsSeq(0)
	wantCode(t, err, CodeNoOutput)
	// A hole in the positions is refused by libllama itself.
	b.Reset()
	if err := b.AddToken(5, 200, 0, false); err != nil {
		t.Fatal(err)
	}
	wantCode(t, c.Decode(b), CodeDecodeInvalid)
	// 128 cells of a sequence: 32 are full.
	for at := 32; ; at += 32 {
		b.Reset()
		for i := range 32 {
			if err := b.AddToken(5, int32(at+i), 0, false); err != nil {
				t.Fatal(err)
			}
		}
		err := c.Decode(b)
		if at >= c.NCtxSeq() {
			wantCode(t, err, CodeDecodeNoSlot)
			break
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	e := newBatch(t, 4, 100)
	if err := e.AddEmbd(make([]float32, 100), 0, 0, false); err != nil {
		t.Fatal(err)
	}
	wantCode(t, e.AddEmbd(make([]float32, 99), 1, 0, false), CodeInvalidArg)
	wantCode(t, c.Decode(e), CodeDecodeInvalid) // width
	b.Free()
	b.Free()
	wantCode(t, c.Decode(b), CodeDecodeInvalid)
	wantCode(t, b.AddToken(1, 0, 0, false), CodeInvalidArg)
}

func TestSeveralOutputsOfOneSequence(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	one := newContext(t, m, ContextParams{})
	ids, err := m.Vocab().Tokenize(chatPrompt, true, true)
	if err != nil {
		t.Fatal(err)
	}
	b := newBatch(t, len(ids), 0)
	for i, id := range ids {
		if err := b.AddToken(id, int32(i), 0, true); err != nil {
			t.Fatal(err)
		}
	}
	if err := one.Decode(b); err != nil {
		t.Fatal(err)
	}
	last := len(ids) - 1
	all, err := one.Logits(last)
	if err != nil {
		t.Fatal(err)
	}
	all = append([]float32(nil), all...)
	for i := range ids {
		if _, err := one.Logits(i); err != nil {
			t.Fatal(err)
		}
	}
	two := newContext(t, m, ContextParams{NOutputsMax: 1})
	prompt(t, two, m, chatPrompt, 0)
	got, err := two.Logits(last)
	if err != nil {
		t.Fatal(err)
	}
	if argmax(all) != argmax(got) {
		t.Error("the best token depends on the number of outputs")
	}
}

func argmax(l []float32) int {
	best := 0
	for i, v := range l {
		if v > l[best] {
			best = i
		}
	}
	return best
}

func TestContextChecks(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	for name, p := range map[string]ContextParams{
		"sequences":        {NSeqMax: 257},
		"cells":            {NCtx: maxCells + 1},
		"threads":          {Threads: -1},
		"batch threads":    {ThreadsBatch: 513},
		"type":             {TypeK: 12},
		"flash":            {FlashAttn: 9},
		"quantized V":      {TypeV: typeQ8_0, FlashAttn: FlashOff},
		"outputs too few":  {NSeqMax: 4, NOutputsMax: 2},
		"batch < seqs":     {NSeqMax: 64, NBatch: 32},
		"type number wild": {TypeV: 1 << 31},
	} {
		if _, err := NewContext(m, p); !errors.Is(err, &Error{Code: CodeInvalidArg}) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, p := range map[string]ContextParams{
		"f32 cache":       {TypeK: KVTypeF32, TypeV: KVTypeF32},
		"q8 cache":        {TypeK: typeQ8_0, TypeV: typeQ8_0, FlashAttn: FlashOn},
		"256 sequences":   {NCtx: 256 * 32, NSeqMax: 256, NBatch: 256, NUBatch: 32},
		"unified, many":   {NSeqMax: 8, Unified: true, NOutputsMax: 8},
		"tiny":            {NCtx: 1, NBatch: 1, NUBatch: 1},
		"flash off, swa":  {FlashAttn: FlashOff, SWAFull: true, NoPerf: true},
		"embeddings":      {Embeddings: true},
		"ubatch > nbatch": {NBatch: 8, NUBatch: 512},
	} {
		if p.NCtx == 0 {
			p.NCtx = 128
		}
		c := newContext(t, m, p)
		b := newBatch(t, 1, 0)
		if err := b.AddToken(5, 0, 0, true); err != nil {
			t.Fatal(err)
		}
		if err := c.Decode(b); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if p.Embeddings {
			if e, err := c.Embeddings(0); err != nil || len(e) != m.NEmbdOut() {
				t.Errorf("%d values, %v", len(e), err)
			}
		}
		c.Free()
	}
	c := newContext(t, m, ContextParams{})
	wantCode(t, c.SetThreads(0, 1), CodeInvalidArg)
	wantCode(t, c.SetThreads(1, 513), CodeInvalidArg)
	if err := c.SetThreads(2, 2); err != nil {
		t.Error(err)
	}
}
