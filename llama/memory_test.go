package llama

import (
	"bytes"
	"errors"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestMemory(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	for _, unified := range []bool{false, true} {
		c := newContext(t, m, ContextParams{NSeqMax: 3, Unified: unified})
		mem := c.Memory()
		n := int32(prompt(t, c, m, chatPrompt, 1))
		if mem.SeqPosMin(1) != 0 || mem.SeqPosMax(1) != n-1 || mem.SeqPosMax(0) != -1 {
			t.Errorf("positions %d to %d", mem.SeqPosMin(1), mem.SeqPosMax(1))
		}
		err := mem.SeqCp(1, 2, 0, 4)
		if unified && err != nil {
			t.Error(err)
		} else if !unified {
			wantCode(t, err, CodeMemory)
		}
		if err := mem.SeqCp(1, 2, -1, -1); err != nil {
			t.Error(err)
		}
		// A copied sequence goes on as the original does.
		if !mem.SeqRm(2, n-1, -1) || mem.SeqPosMax(2) != n-2 {
			t.Errorf("truncated copy ends at %d", mem.SeqPosMax(2))
		}
		if !mem.CanShift() {
			t.Error("cannot shift")
		}
		if err := mem.SeqAdd(1, 4, -1, -2); err != nil {
			t.Error(err)
		}
		if mem.SeqPosMax(1) != n-3 {
			t.Errorf("shifted sequence ends at %d", mem.SeqPosMax(1))
		}
		if err := mem.SeqKeep(1); err != nil {
			t.Error(err)
		}
		if mem.SeqPosMax(2) != -1 {
			t.Error("sequence 2 was kept")
		}
		for _, seq := range []int32{-2, 3, 1 << 30} {
			if mem.SeqRm(seq, 0, -1) || mem.SeqPosMax(seq) != -1 || mem.SeqPosMin(seq) != -1 {
				t.Errorf("sequence %d answers", seq)
			}
			wantCode(t, mem.SeqCp(0, seq, -1, -1), CodeInvalidArg)
			wantCode(t, mem.SeqCp(seq, 0, -1, -1), CodeInvalidArg)
			wantCode(t, mem.SeqKeep(seq), CodeInvalidArg)
			wantCode(t, mem.SeqAdd(seq, 0, -1, 1), CodeInvalidArg)
			wantCode(t, c.SeqStateSet(seq, []byte{1}), CodeInvalidArg)
			if c.SeqStateSize(seq) != 0 {
				t.Errorf("state of sequence %d", seq)
			}
		}
		if !mem.SeqRm(-1, -1, -1) || mem.SeqPosMax(1) != -1 {
			t.Error("not everything was removed")
		}
		mem.Clear(true)
	}
}

func TestSequenceState(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	a := newContext(t, m, ContextParams{NSeqMax: 2})
	n := prompt(t, a, m, chatPrompt, 0)
	blob := make([]byte, a.SeqStateSize(0))
	if _, err := a.SeqStateGet(0, blob[:len(blob)-1]); !errors.Is(err, &Error{Code: CodeState}) {
		t.Errorf("short buffer: %v", err)
	}
	used, err := a.SeqStateGet(0, blob)
	if err != nil || used != len(blob) {
		t.Fatalf("%d of %d bytes, %v", used, len(blob), err)
	}
	step := func(c Context, seq int32) []float32 {
		b := newBatch(t, 1, 0)
		if err := b.AddToken(7, int32(n), seq, true); err != nil {
			t.Fatal(err)
		}
		if err := c.Decode(b); err != nil {
			t.Fatal(err)
		}
		l, err := c.Logits(0)
		if err != nil {
			t.Fatal(err)
		}
		return append([]float32(nil), l...)
	}
	want := step(a, 0)
	b := newContext(t, m, ContextParams{NSeqMax: 2})
	if err := b.SeqStateSet(1, blob); err != nil {
		t.Fatal(err)
	}
	if b.Memory().SeqPosMax(1) != int32(n-1) {
		t.Fatalf("restored up to %d", b.Memory().SeqPosMax(1))
	}
	if d := cmp.Diff(want, step(b, 1)); d != "" {
		t.Error("the restored sequence gives other logits")
	}
	err = b.SeqStateSet(0, blob[:len(blob)/2])
	wantCode(t, err, CodeState)
	if b.Memory().SeqPosMax(0) != -1 {
		t.Error("a refused state left cells behind")
	}
	wantCode(t, b.SeqStateSet(0, nil), CodeState)
}

func TestThreadPool(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	want := generate(t, newContext(t, m, ContextParams{}), m, chain(t, Greedy()), chatPrompt, 0, 10)
	pool, err := NewThreadPool(1, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	c := newContext(t, m, ContextParams{})
	if err := c.AttachPool(pool, 0); err != nil {
		t.Fatal(err)
	}
	got := generate(t, c, m, chain(t, Greedy()), chatPrompt, 0, 10)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	pool.Free() // detaches
	pool.Free()
	poolsMu.Lock()
	_, held := pools[pool]
	poolsMu.Unlock()
	if !held {
		t.Error("the pool went although the context still touches it at its next graph")
	}
	c.Memory().Clear(true)
	got = generate(t, c, m, chain(t, Greedy()), chatPrompt, 0, 10)
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	wantCode(t, c.AttachPool(pool, 0), CodeInvalidHandle)
	c.DetachPool()
	poolsMu.Lock()
	if len(pools) != 0 {
		t.Errorf("%d pools are left", len(pools))
	}
	poolsMu.Unlock()
	// Two pools, exchanged between steps, and freed with the context.
	one, err := NewThreadPool(1, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	two, err := NewThreadPool(2, 0, 0)
	if err != nil {
		t.Fatal(err)
	}
	for range 3 {
		for _, p := range [][2]ThreadPool{{one, two}, {two, one}, {two, 0}} {
			if err := c.AttachPool(p[0], p[1]); err != nil {
				t.Fatal(err)
			}
			c.Memory().Clear(true)
			generate(t, c, m, chain(t, Greedy()), chatPrompt, 0, 2)
		}
	}
	two.Free()
	one.Free()
	c.Free()
	poolsMu.Lock()
	if len(pools) != 0 {
		t.Errorf("%d pools are left with the context gone", len(pools))
	}
	poolsMu.Unlock()
	for _, p := range []struct {
		threads int
		poll    uint32
		prio    int32
	}{{0, 0, 0}, {513, 0, 0}, {1, 101, 0}, {1, 0, 4}} {
		if _, err := NewThreadPool(p.threads, p.poll, p.prio); !errors.Is(err, &Error{Code: CodeInvalidArg}) {
			t.Errorf("%v: %v", p, err)
		}
	}
}

func TestLogLines(t *testing.T) {
	load(t)
	var mu sync.Mutex
	var lines []string
	SetLog(func(level LogLevel, text string) {
		mu.Lock()
		defer mu.Unlock()
		if strings.ContainsRune(text, '\n') || level < LogDebug || level > LogError {
			t.Errorf("line %q of level %v", text, level)
		}
		lines = append(lines, text)
	})
	defer SetLog(nil)
	m := loadGuide(t, ModelParams{})
	m.Free()
	logText(LogInfo, []byte("first "))
	logText(logContinue, []byte("second\nthird\n"))
	mu.Lock()
	defer mu.Unlock()
	if n := len(lines); n < 20 || lines[n-2] != "first second" || lines[n-1] != "third" {
		t.Errorf("%d lines, the last %q", n, lines[max(0, n-2):])
	}
	for file, want := range map[string]string{"libggml-cpu-haswell.so": "haswell", "ggml-cpu-zen4.dll": "zen4",
		"libggml-cpu-apple_m2_m3.so": "apple_m2_m3"} {
		if got := cpuVariantOf(file); got != want {
			t.Errorf("%s: %q", file, got)
		}
	}
}

func TestSaveAndQuantize(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	dir := t.TempDir()
	saved := filepath.Join(dir, "saved.gguf")
	if err := m.SaveToFile(saved); err != nil {
		t.Fatal(err)
	}
	wantCode(t, m.SaveToFile(filepath.Join(dir, "no", "such", "folder")), CodeModelSave)
	again, err := LoadModel([]string{saved}, ModelParams{NoMmap: true, NoRepack: true})
	if err != nil {
		t.Fatal(err)
	}
	defer again.Free()
	if again.NParams() != m.NParams() {
		t.Errorf("%d parameters, want %d", again.NParams(), m.NParams())
	}
	f16 := strings.Replace(guidePath(t), "q8_0", "f16", 1)
	out := filepath.Join(dir, "q4.gguf")
	if err := Quantize(f16, out, FtypeQ4_0, 1, true); err != nil {
		t.Fatal(err)
	}
	q, err := LoadModel([]string{out}, ModelParams{})
	if err != nil {
		t.Fatal(err)
	}
	defer q.Free()
	if q.Size() >= m.Size() || q.NParams() == 0 {
		t.Errorf("%d bytes after quantizing, %d before", q.Size(), m.Size())
	}
	wantCode(t, Quantize(out, out, FtypeQ4_0, 1, true), CodeInvalidArg)
	wantCode(t, Quantize("/no/such", out, FtypeQ4_0, 1, true), CodeQuantize)
	wantCode(t, Quantize(f16, out, Ftype(999), 1, true), CodeInvalidArg)
	if f, ok := ParseFtype("Q4_K_M"); !ok || f != FtypeQ4_K_M || f.String() != "q4_k_m" {
		t.Error("names of file types")
	}
}

func TestEmbeddingMode(t *testing.T) {
	// The rows that the token embedding gives, captured once and fed as embeddings,
	// must lead to the same logits.
	cap := &capture{name: "embd"}
	slot, err := NewEvalSlot(cap)
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Release()
	m := loadGuide(t, ModelParams{})
	c := newContext(t, m, ContextParams{Eval: slot})
	n := prompt(t, c, m, chatPrompt, 0)
	l, err := c.Logits(n - 1)
	if err != nil {
		t.Fatal(err)
	}
	want := append([]float32(nil), l...)
	rows := cap.floats()
	if len(rows) != n*m.NEmbd() {
		t.Fatalf("%d values captured", len(rows))
	}
	e := newContext(t, m, ContextParams{})
	b := newBatch(t, n, m.NEmbdInp())
	for i := range n {
		if err := b.AddEmbd(rows[i*m.NEmbd():(i+1)*m.NEmbd()], int32(i), 0, i == n-1); err != nil {
			t.Fatal(err)
		}
	}
	if err := e.Decode(b); err != nil {
		t.Fatal(err)
	}
	got, err := e.Logits(n - 1)
	if err != nil {
		t.Fatal(err)
	}
	if !cmp.Equal(want, got) {
		t.Error("embedding mode gives other logits than token mode")
	}
}

func TestAbort(t *testing.T) {
	abort, err := NewAbortSlot()
	if err != nil {
		t.Fatal(err)
	}
	defer abort.Release()
	m := loadGuide(t, ModelParams{})
	c := newContext(t, m, ContextParams{NCtx: 4096, Abort: abort})
	prompt(t, c, m, "hello", 0)
	abort.Set(true)
	b := newBatch(t, 2048, 0)
	for i := range 2048 {
		if err := b.AddToken(5, int32(10+i-10+1), 0, false); err != nil {
			t.Fatal(err)
		}
	}
	c.Memory().Clear(true)
	wantCode(t, c.Decode(b), CodeDecodeAborted)
	if !abort.IsSet() {
		t.Error("flag is down")
	}
	abort.Set(false)
	c.Memory().Clear(true)
	// From another goroutine, in the middle: the handler says when the graph runs.
	started := &onAsk{ch: make(chan struct{})}
	slot, err := NewEvalSlot(started)
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Release()
	d := newContext(t, m, ContextParams{NCtx: 4096, Abort: abort, Eval: slot})
	done := make(chan error, 1)
	go func() { done <- d.Decode(b) }()
	<-started.ch
	began := time.Now()
	abort.Set(true)
	wantCode(t, <-done, CodeDecodeAborted)
	t.Logf("aborted after %v", time.Since(began))
	abort.Set(false)
	d.Memory().Clear(true)
	if err := d.Decode(b); err != nil {
		t.Error(err)
	}
}

// onAsk closes ch at the first node and lets everything pass.
type onAsk struct {
	once sync.Once
	ch   chan struct{}
}

func (o *onAsk) Ask(Tensor) bool {
	o.once.Do(func() { close(o.ch) })
	return false
}
func (o *onAsk) Got(Tensor) bool { return true }

func TestTypeInfo(t *testing.T) {
	load(t)
	bs, bytesPer, name, ok := TypeInfo(typeQ8_0)
	if !ok || bs != 32 || bytesPer != 34 || name != "q8_0" {
		t.Errorf("%d %d %s %v", bs, bytesPer, name, ok)
	}
	if _, _, _, ok := TypeInfo(typeCount); ok {
		t.Error("a type beyond the last")
	}
	if !bytes.Contains([]byte((&Error{Code: "x", Op: "y", Detail: "z"}).Error()), []byte("llama: y: x: z")) {
		t.Error("text of an error")
	}
}
