package spans_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/spans"

	"github.com/google/go-cmp/cmp"
)

const spansSession protocol.SessionID = "s-aaaaaaaaaaaaaaaaaaaaaaaaaa"

// spanRoute is a driver and hops that all follow the same frames, without any
// transport: each hop changes the rows a little, as a stage does.
type spanRoute struct {
	t      testing.TB
	hops   []*spans.Collector
	driver *spans.Collector
	pos    uint32
	epoch  uint32
	closed [][]protocol.Span // per hop
}

func newSpanRoute(t testing.TB, hops int) *spanRoute {
	r := &spanRoute{t: t, driver: spans.NewDriver(spansSession), closed: make([][]protocol.Span, hops)}
	for i := range hops {
		r.hops = append(r.hops, spans.New(spansSession, i, hops))
	}
	return r
}

func (r *spanRoute) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// step moves one row frame over the route. stop is the last hop that executes
// it (a cancel drops it behind), len(hops) for all.
func (r *spanRoute) step(kind protocol.Kind, rows, stop, tokens int) {
	r.t.Helper()
	ids := make([]int32, rows)
	for i := range ids {
		ids[i] = int32(r.pos) + int32(i)
	}
	f := protocol.IDFrame(kind, r.pos, ids)
	f.Epoch = r.epoch
	if tokens > 0 {
		f.Flags = protocol.FlagSample
	}
	pos := f.Pos
	r.must(r.driver.In(f))
	tail := len(r.hops) - 1
	for i, h := range r.hops {
		if i > stop {
			break
		}
		r.must(h.In(f))
		r.must(h.Executed(r.epoch, pos))
		if i > 0 {
			r.must(r.hops[i-1].Acked(r.epoch, pos))
		}
		if i < tail {
			f = &protocol.Frame{Header: f.Header, Payload: bytes.Repeat([]byte{byte(i), byte(pos)}, rows)}
			f.Parts, f.Width, f.DType = protocol.PartHidden, 1, protocol.DTypeF16
			r.must(h.Out(f))
		}
		r.take(i)
	}
	r.pos += uint32(rows)
	if stop < tail {
		return
	}
	r.must(r.driver.Executed(r.epoch, pos))
	for i := range tokens {
		tok, err := protocol.TokenFrame(0, r.epoch, r.pos-uint32(tokens)+uint32(i)+1, protocol.Token{ID: int32(i)})
		r.must(err)
		if i < tokens-1 {
			tok.Flags = protocol.FlagMore
		}
		r.must(r.hops[tail].Out(tok))
		r.must(r.driver.Out(tok))
	}
	r.take(tail)
}

func (r *spanRoute) take(hop int) {
	r.closed[hop] = append(r.closed[hop], r.hops[hop].Take()...)
}

func (r *spanRoute) truncate(pos uint32) {
	r.t.Helper()
	r.epoch++
	r.pos = pos
	f := protocol.ControlFrame(protocol.KindTruncate, 0, r.epoch, pos)
	r.must(r.driver.Truncate(f))
	for _, h := range r.hops {
		r.must(h.Truncate(f))
	}
}

// end closes the last spans as the ends of each seam agree on them.
func (r *spanRoute) end() {
	mark := r.driver.Mark()
	for i, h := range slices.Backward(r.hops) {
		mark = h.End(mark)
		r.take(i)
	}
}

func (r *spanRoute) receiver(hop int) *spans.Collector {
	if hop == len(r.hops)-1 {
		return r.driver
	}
	return r.hops[hop+1]
}

// check holds what must be true of all receipts of a session.
func (r *spanRoute) check() {
	r.t.Helper()
	for i, spans := range r.closed {
		for j, sp := range spans {
			if err := r.receiver(i).Check(sp); err != nil {
				r.t.Fatalf("hop %d span %d: %v\n%+v", i, j, err, sp)
			}
			bad := sp
			bad.Output[3] ^= 1
			if err := r.receiver(i).Check(bad); !errors.Is(err, &protocol.Error{Code: protocol.CodeReceiptConflict}) {
				r.t.Fatalf("hop %d span %d with another output: %v", i, j, err)
			}
			if j > 0 && !spans[j-1].Before(&sp) {
				r.t.Fatalf("hop %d: span %+v does not follow %+v", i, sp, spans[j-1])
			}
			if j > 0 && spans[j-1].Overlaps(&sp) {
				r.t.Fatalf("hop %d: span %+v overlaps %+v", i, sp, spans[j-1])
			}
			if i == 0 || j >= len(r.closed[i-1]) {
				continue
			}
			up := r.closed[i-1][j]
			if sp.SameShape(&up) && sp.Input != up.Output {
				r.t.Fatalf("hop %d span %d: input %s, the hop before put out %s", i, j, sp.Input, up.Output)
			}
		}
	}
}

func TestSpansOfAnAnswer(t *testing.T) {
	t.Parallel()
	for hops := 1; hops <= 4; hops++ {
		t.Run(fmt.Sprint(hops), func(t *testing.T) {
			t.Parallel()
			r := newSpanRoute(t, hops)
			r.step(protocol.KindPrefill, 64, hops, 0)
			r.step(protocol.KindPrefill, 20, hops, 1)
			for range 70 {
				r.step(protocol.KindDecode, 1, hops, 1)
			}
			r.end()
			r.check()
			type shape struct {
				kind              protocol.SpanKind
				first, last, rows uint32
				final             bool
			}
			want := []shape{
				{protocol.SpanPrefill, 0, 64, 64, false}, {protocol.SpanPrefill, 64, 84, 20, false},
				{protocol.SpanDecode, 84, 116, 32, false}, {protocol.SpanDecode, 116, 148, 32, false}, {protocol.SpanDecode, 148, 154, 6, true},
			}
			for i := range hops {
				var got []shape
				for j, sp := range r.closed[i] {
					if int(sp.Seq) != j {
						t.Errorf("span %d has number %d", j, sp.Seq)
					}
					got = append(got, shape{sp.Kind, sp.First, sp.Last, sp.Rows, sp.Final})
				}
				if d := cmp.Diff(want, got, cmp.AllowUnexported(shape{})); d != "" {
					t.Errorf("hop %d (-want +got):\n%s", i, d)
				}
			}
			if hops == 1 {
				for _, sp := range r.closed[0] {
					if err := r.driver.CheckInput(sp); err != nil {
						t.Error(err)
					}
					sp.Input[0] ^= 1
					if err := r.driver.CheckInput(sp); err == nil {
						t.Error("another input was taken")
					}
				}
			}
		})
	}
}

// Drafts that are not accepted are rolled back inside their span.
func TestSpansMarkRolledBackRows(t *testing.T) {
	t.Parallel()
	r := newSpanRoute(t, 3)
	r.step(protocol.KindPrefill, 10, 3, 1)
	for range 6 {
		r.step(protocol.KindVerify, 5, 3, 2) // 2 of 5 rows stand
		r.truncate(r.pos - 3)
	}
	r.step(protocol.KindDecode, 1, 3, 1)
	r.truncate(4) // into the prompt
	r.step(protocol.KindPrefill, 8, 3, 1)
	r.end()
	r.check()
	got := r.closed[0]
	if len(got) != 3 || got[1].Rows != 31 || got[1].Rolled() != 18 || got[1].First != 10 || got[1].Last != 23 || got[1].Final {
		t.Fatalf("spans %+v", got)
	}
	if got[2].First != 4 || got[2].EpochFirst != 7 || got[1].EpochLast != 6 {
		t.Errorf("the rolled back spans do not show: %+v", got)
	}
}

// A session that ends with frames under way: both ends agree on what came.
func TestSpansEndWithFramesUnderWay(t *testing.T) {
	t.Parallel()
	r := newSpanRoute(t, 3)
	r.step(protocol.KindPrefill, 10, 3, 1)
	r.step(protocol.KindDecode, 1, 3, 1)
	r.step(protocol.KindDecode, 1, 1, 1) // the tail never sees it
	r.end()
	r.check()
	last := func(hop int) protocol.Span { return r.closed[hop][len(r.closed[hop])-1] }
	for hop := range 3 {
		if last(hop).Rows != 1 || !last(hop).Final {
			t.Errorf("%+v", r.closed)
		}
	}
	// The last acknowledgement was not read in time.
	late := spans.New(spansSession, 0, 2)
	f := protocol.IDFrame(protocol.KindDecode, 0, []int32{1})
	r.must(late.In(f))
	r.must(late.Out(f))
	if m := late.End(protocol.ReceiptMark{Frames: 1}); m.Frames != 1 || len(late.Take()) != 1 {
		t.Errorf("ended at %+v", m)
	}
	// The driver read less than the tail sent.
	r = newSpanRoute(t, 1)
	r.step(protocol.KindPrefill, 10, 1, 1)
	r.step(protocol.KindDecode, 1, 1, 1)
	mark := r.driver.Mark()
	r.step(protocol.KindDecode, 1, 1, 1)
	r.hops[0].End(mark)
	r.take(0)
	r.check()
	if last(0).Rows != 1 {
		t.Errorf("%+v", r.closed)
	}
}

// Random sessions with drafts, deep truncates and cancelled rows: all ends cut
// alike, and the roots chain.
func TestSpansProperty(t *testing.T) {
	t.Parallel()
	for seed := range uint64(300) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		hops := 1 + rnd.IntN(4)
		r := newSpanRoute(t, hops)
		for range 120 {
			switch n := rnd.IntN(20); {
			case n < 2:
				r.step(protocol.KindPrefill, 1+rnd.IntN(100), hops, rnd.IntN(2))
			case n < 10:
				r.step(protocol.KindDecode, 1, hops, 1)
			case n < 15:
				rows := 1 + rnd.IntN(8)
				good := 1 + rnd.IntN(rows)
				r.step(protocol.KindVerify, rows, hops, good)
				if good < rows {
					r.truncate(r.pos - uint32(rows-good))
				}
			case n < 16 && r.pos > 0:
				r.truncate(uint32(rnd.IntN(int(r.pos))))
			case n < 18:
				// A cancel: hops behind stop never execute the rows, and the
				// truncate that follows takes them back.
				at := r.pos
				r.step(protocol.KindVerify, 1+rnd.IntN(4), rnd.IntN(hops+1)-1, 0)
				r.truncate(at)
			}
		}
		r.end()
		r.check()
		for hop := 1; hop < hops; hop++ {
			if len(r.closed[hop]) == 0 {
				t.Fatalf("seed %d: hop %d has no spans", seed, hop)
			}
		}
	}
}

func TestSpansRefuse(t *testing.T) {
	t.Parallel()
	code := func(err error, want protocol.Code) {
		t.Helper()
		if !errors.Is(err, &protocol.Error{Code: want}) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
	s := spans.New(spansSession, 0, 2)
	code(s.In(protocol.IDFrame(protocol.KindVerify, 0, make([]int32, 33))), protocol.CodeFrameInvalid)
	code(s.Out(protocol.IDFrame(protocol.KindDecode, 0, []int32{1})), protocol.CodeBatchLayout)
	code(s.Acked(0, 0), protocol.CodeBatchLayout)
	code(s.Check(protocol.Span{}), protocol.CodeReceiptConflict)
	tail := spans.New(spansSession, 1, 2)
	code(tail.Executed(0, 5), protocol.CodeBatchLayout)
	code(tail.Out(protocol.ControlFrame(protocol.KindToken, 0, 0, 1)), protocol.CodeBatchLayout)
	code(tail.Check(protocol.Span{}), protocol.CodeUnavailable)
	var err error
	for i := 0; err == nil && i < 10_000; i++ {
		err = s.In(protocol.IDFrame(protocol.KindDecode, uint32(i), []int32{1}))
	}
	code(err, protocol.CodeStageOverloaded)
}

// One decode step on a middle hop: in, executed, out, acknowledged.
func BenchmarkSpansStep16K(b *testing.B) {
	s := spans.New(spansSession, 1, 3)
	f := &protocol.Frame{Header: protocol.Header{Kind: protocol.KindDecode, DType: protocol.DTypeF32, Parts: protocol.PartHidden, Rows: 1, Width: 4096}, Payload: make([]byte, 16<<10)}
	b.ReportAllocs()
	for b.Loop() {
		if s.In(f) != nil || s.Executed(0, f.Pos) != nil || s.Out(f) != nil || s.Acked(0, f.Pos) != nil {
			b.Fatal("refused")
		}
		s.Take()
		f.Pos++
	}
}

// FuzzSpans: whatever is fed in whatever order ends in an error or in spans
// that a receipt can hold.
func FuzzSpans(f *testing.F) {
	f.Add([]byte{0, 0, 1, 2, 3, 0, 1, 2, 3}, uint8(1))
	f.Add([]byte{4, 0, 1, 2, 5, 3, 6, 7}, uint8(3))
	f.Fuzz(func(t *testing.T, ops []byte, role uint8) {
		s := spans.New(spansSession, int(role%3), 3)
		if role%4 == 3 {
			s = spans.NewDriver(spansSession)
		}
		var epoch, pos, acked uint32
		var got []protocol.Span
		for _, op := range ops[:min(len(ops), 500)] {
			rows := uint32(op>>4) + 1
			fr := protocol.IDFrame(protocol.KindVerify, pos, make([]int32, rows))
			fr.Epoch = epoch
			var err error
			switch op & 7 {
			case 0, 4:
				fr.Flags = protocol.Flags(op>>3) & protocol.FlagSample
				if err = s.In(fr); err == nil {
					acked, pos = pos, pos+rows
				}
			case 1:
				err = s.Executed(epoch, acked)
			case 2:
				fr.Pos = acked
				err = s.Out(fr)
			case 3:
				if role%4 != 3 {
					err = s.Acked(epoch, acked)
				}
			case 5:
				epoch++
				pos = min(pos, rows*8)
				err = s.Truncate(protocol.ControlFrame(protocol.KindTruncate, 0, epoch, pos))
			case 6:
				tok := protocol.ControlFrame(protocol.KindToken, 0, epoch, pos)
				tok.Flags = protocol.Flags(op>>4) & protocol.FlagMore
				err = s.Out(tok)
			case 7:
				got = append(got, s.Take()...)
			}
			if err != nil && protocol.AsError(err).Code == protocol.CodeInternal {
				t.Fatal(err)
			}
		}
		s.End(s.Mark())
		got = append(got, s.Take()...)
		for i, sp := range got {
			r := &protocol.Receipt{
				Session: spansSession, Model: protocol.ModelIDOf([][32]byte{{}}), Node: protocol.NodeIDOf(make([]byte, 32)),
				Receiver: protocol.NodeIDOf(make([]byte, 32)), Layers: protocol.Range{First: 0, Last: 1}, DType: protocol.DTypeF32, Span: sp,
				Class: protocol.Class{Threads: 1, CPU: "c", Llama: "l", Engine: "e"}, Time: time.Unix(1_800_000_000, 0),
			}
			if _, err := r.Encode(); err != nil {
				t.Fatalf("%+v: %v", sp, err)
			}
			if i > 0 && !got[i-1].Before(&sp) {
				t.Fatalf("%+v does not follow %+v", sp, got[i-1])
			}
		}
	})
}

// A session may begin behind kept state: nothing before it is in a span.
func TestSpansBehindKeptState(t *testing.T) {
	for _, hops := range []int{1, 2, 3} {
		r := newSpanRoute(t, hops)
		r.pos = 640
		r.step(protocol.KindPrefill, 60, hops, 1)
		for range 40 {
			r.step(protocol.KindDecode, 1, hops, 1)
		}
		for i, closed := range r.closed {
			if len(closed) != 2 || closed[0].First != 640 || closed[0].Rows != 60 || closed[1].First != 700 || closed[1].Last != 732 {
				t.Errorf("%d hops, hop %d: %+v", hops, i, closed)
			}
			if i > 0 && closed[0].Input != r.closed[i-1][0].Output {
				t.Errorf("hop %d does not continue the one before", i)
			}
		}
		// Only the first rows say where it begins.
		ids := make([]int32, 1)
		r.must(r.hops[0].In(protocol.IDFrame(protocol.KindDecode, 800, ids)))
		if hops == 1 {
			continue
		}
		if err := r.hops[0].Acked(0, 800); err == nil {
			t.Error("rows behind a gap are counted")
		}
	}
}
