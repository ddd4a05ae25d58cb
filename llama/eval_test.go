package llama

import (
	"encoding/binary"
	"errors"
	"math"
	"testing"
)

// capture copies one node and then stops the graph when stop is set.
type capture struct {
	name  string
	stop  bool
	asked int
	after int // nodes asked for after the wanted one
	buf   []byte
	dims  [4]int64
	err   error
}

func (c *capture) Ask(t Tensor) bool {
	c.asked++
	if c.buf != nil {
		c.after++
	}
	return t.NameIs(c.name)
}

func (c *capture) Got(t Tensor) bool {
	c.dims = t.Dims()
	c.buf = make([]byte, t.NBytes())
	c.err = t.Get(c.buf, 0)
	return !c.stop
}

func (c *capture) floats() []float32 {
	out := make([]float32, len(c.buf)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(c.buf[4*i:]))
	}
	return out
}

func TestEvalCapturesAndStops(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	cap := &capture{name: "l_out-3"}
	slot, err := NewEvalSlot(cap)
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Release()
	c := newContext(t, m, ContextParams{Eval: slot})
	n := prompt(t, c, m, chatPrompt, 0)
	if cap.err != nil {
		t.Fatal(cap.err)
	}
	if cap.dims != [4]int64{int64(m.NEmbd()), int64(n), 1, 1} || len(cap.buf) != 4*n*m.NEmbd() {
		t.Errorf("dims %v, %d bytes", cap.dims, len(cap.buf))
	}
	if cap.after == 0 {
		t.Error("the graph stopped although it should not")
	}
	whole := cap.floats()
	for i, v := range whole {
		if math.IsNaN(float64(v)) || math.IsInf(float64(v), 0) {
			t.Fatalf("value %d is %v", i, v)
		}
	}
	asked := cap.asked
	c.Memory().Clear(true)
	*cap = capture{name: "l_out-3", stop: true}
	prompt(t, c, m, chatPrompt, 0)
	if cap.after != 0 || cap.asked >= asked {
		t.Errorf("%d nodes were asked for after the stop, %d in all, %d before", cap.after, cap.asked, asked)
	}
	for i, v := range cap.floats() {
		if v != whole[i] {
			t.Fatalf("value %d is %v, want %v", i, v, whole[i])
		}
	}
}

// overwrite replaces the entry node, which is how a later stage gets its input.
type overwrite struct {
	name string
	data []byte
	errs []error
}

func (o *overwrite) Ask(t Tensor) bool { return t.NameIs(o.name) }

func (o *overwrite) Got(t Tensor) bool {
	o.errs = append(o.errs, t.Set(o.data, 0), t.Set(o.data, 4), t.Set(o.data[:1], -1), t.Get(make([]byte, 8), t.NBytes()-4))
	if t.Name() != o.name || t.Type() != typeF32 {
		o.errs = append(o.errs, errors.New("name or type"))
	}
	return true
}

func TestEvalOverwrites(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	cap := &capture{name: "embd"}
	slot, err := NewEvalSlot(cap)
	if err != nil {
		t.Fatal(err)
	}
	a := newContext(t, m, ContextParams{Eval: slot})
	n := prompt(t, a, m, chatPrompt, 0)
	want, err := a.Logits(n - 1)
	if err != nil {
		t.Fatal(err)
	}
	slot.Release()
	o := &overwrite{name: "embd", data: cap.buf}
	slot, err = NewEvalSlot(o)
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Release()
	b := newContext(t, m, ContextParams{Eval: slot})
	batch := newBatch(t, n, 0)
	for i := range n { // other tokens: the overwritten node decides
		if err := batch.AddToken(0, int32(i), 0, i == n-1); err != nil {
			t.Fatal(err)
		}
	}
	if err := b.Decode(batch); err != nil {
		t.Fatal(err)
	}
	if len(o.errs) != 4 || o.errs[0] != nil {
		t.Fatalf("errors %v", o.errs)
	}
	for _, err := range o.errs[1:] {
		wantCode(t, err, CodeTensor)
	}
	got, err := b.Logits(n - 1)
	if err != nil {
		t.Fatal(err)
	}
	for i := range want {
		if want[i] != got[i] {
			t.Fatalf("logit %d is %v, want %v", i, got[i], want[i])
		}
	}
}

func TestEvalSlots(t *testing.T) {
	load(t)
	if _, err := NewEvalSlot(nil); !errors.Is(err, &Error{Code: CodeInvalidArg}) {
		t.Errorf("no handler: %v", err)
	}
	m := loadGuide(t, ModelParams{})
	first, err := NewEvalSlot(&capture{name: "none"})
	if err != nil {
		t.Fatal(err)
	}
	c := newContext(t, m, ContextParams{Eval: first})
	first.Release() // stays taken while the context lives
	var slots []*EvalSlot
	for range evalSlots {
		s, err := NewEvalSlot(&capture{name: "none"})
		if err != nil {
			break
		}
		slots = append(slots, s)
	}
	if len(slots) != evalSlots-1 {
		t.Errorf("%d slots were free, want %d", len(slots), evalSlots-1)
	}
	_, err = NewContext(m, ContextParams{Eval: first})
	wantCode(t, err, CodeInvalidHandle)
	c.Free()
	s, err := NewEvalSlot(&capture{name: "none"})
	if err != nil {
		t.Fatal("the slot did not come back with the context")
	}
	s.Release()
	s.Release()
	for _, s := range slots {
		s.Release()
	}
	var none *EvalSlot
	none.Release()
	if err := Tensor(0).Get(make([]byte, 1), 0); !errors.Is(err, &Error{Code: CodeTensor}) {
		t.Errorf("null tensor: %v", err)
	}
}

// count asks for nothing: what a callback per node costs.
type count struct{ n int }

func (c *count) Ask(Tensor) bool { c.n++; return false }
func (c *count) Got(Tensor) bool { return true }

func TestEvalAllocations(t *testing.T) {
	m := loadGuide(t, ModelParams{})
	h := &count{}
	slot, err := NewEvalSlot(h)
	if err != nil {
		t.Fatal(err)
	}
	defer slot.Release()
	step := func(p ContextParams) float64 {
		c := newContext(t, m, p)
		b := newBatch(t, 1, 0)
		pos := int32(0)
		return testing.AllocsPerRun(20, func() {
			b.Reset()
			if err := b.AddToken(5, pos, 0, true); err != nil {
				t.Fatal(err)
			}
			pos++
			if err := c.Decode(b); err != nil {
				t.Fatal(err)
			}
		})
	}
	without := step(ContextParams{})
	with := step(ContextParams{Eval: slot})
	perNode := (with - without) / (float64(h.n) / 21)
	t.Logf("allocations per decode: %.0f without, %.0f with the callback; %.2f per node (%d nodes)", without, with, perNode, h.n/21)
	// Our part of the callback allocates nothing.
	own := testing.AllocsPerRun(100, func() { evalCallback(0, 1, uintptr(slot.index+1)) })
	if own != 0 {
		t.Errorf("%v allocations in the callback", own)
	}
}

func BenchmarkDecodeOneRow(b *testing.B) {
	for name, eval := range map[string]bool{"plain": false, "eval": true} {
		b.Run(name, func(b *testing.B) {
			m := loadGuide(b, ModelParams{})
			p := ContextParams{NCtx: 512}
			h := &count{}
			if eval {
				slot, err := NewEvalSlot(h)
				if err != nil {
					b.Fatal(err)
				}
				defer slot.Release()
				p.Eval = slot
			}
			c := newContext(b, m, p)
			batch := newBatch(b, 1, 0)
			pos := int32(0)
			b.ReportAllocs()
			for b.Loop() {
				if pos == 400 {
					c.Memory().Clear(false)
					pos = 0
				}
				batch.Reset()
				if err := batch.AddToken(5, pos, 0, true); err != nil {
					b.Fatal(err)
				}
				pos++
				if err := c.Decode(batch); err != nil {
					b.Fatal(err)
				}
			}
			if eval {
				b.ReportMetric(float64(h.n)/float64(b.N), "callbacks/op")
			}
		})
	}
}

func BenchmarkAbortSlot(b *testing.B) {
	m := loadGuide(b, ModelParams{})
	abort, err := NewAbortSlot()
	if err != nil {
		b.Fatal(err)
	}
	defer abort.Release()
	c := newContext(b, m, ContextParams{NCtx: 512, Abort: abort})
	batch := newBatch(b, 1, 0)
	pos := int32(0)
	for b.Loop() {
		if pos == 400 {
			c.Memory().Clear(false)
			pos = 0
		}
		batch.Reset()
		if err := batch.AddToken(5, pos, 0, true); err != nil {
			b.Fatal(err)
		}
		pos++
		if err := c.Decode(batch); err != nil {
			b.Fatal(err)
		}
	}
}
