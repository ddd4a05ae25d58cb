package audit

import (
	"bytes"
	"math/rand/v2"
	"slices"
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/protocol/spans"
)

// spanRun moves frames over the collectors of a route as seams do.
type spanRun struct {
	t      *testing.T
	w      *world
	hops   []*spans.Collector
	driver *spans.Collector
	pos    uint32
	epoch  uint32
	raws   [][]byte
}

func (r *spanRun) must(err error) {
	r.t.Helper()
	if err != nil {
		r.t.Fatal(err)
	}
}

// step executes a frame on the hops up to stop, with a token at the end.
func (r *spanRun) step(kind protocol.Kind, rows, stop int) {
	f := protocol.IDFrame(kind, r.pos, make([]int32, rows))
	f.Epoch, f.Flags = r.epoch, protocol.FlagSample
	pos, tail := f.Pos, len(r.hops)-1
	r.must(r.driver.In(f))
	for i, h := range r.hops[:min(stop+1, len(r.hops))] {
		r.must(h.In(f))
		r.must(h.Executed(r.epoch, pos))
		if i > 0 {
			r.must(r.hops[i-1].Acked(r.epoch, pos))
		}
		if i < tail {
			f = &protocol.Frame{Header: f.Header, Payload: bytes.Repeat([]byte{byte(i), byte(pos)}, rows)}
			r.must(h.Out(f))
		}
	}
	r.pos += uint32(rows)
	if stop >= tail {
		tok := protocol.ControlFrame(protocol.KindToken, 0, r.epoch, r.pos)
		r.must(r.hops[tail].Out(tok))
		r.must(r.driver.Executed(r.epoch, pos))
		r.must(r.driver.Out(tok))
	}
	r.take()
}

func (r *spanRun) truncate(pos uint32) {
	r.epoch++
	r.pos = pos
	f := protocol.ControlFrame(protocol.KindTruncate, 0, r.epoch, pos)
	for _, s := range append(slices.Clone(r.hops), r.driver) {
		r.must(s.Truncate(f))
	}
}

func (r *spanRun) take() {
	for hop, s := range r.hops {
		for _, sp := range s.Take() {
			x := r.w.receipt(hop, 0)
			x.Span = sp
			r.raws = append(r.raws, r.w.both(x))
		}
	}
}

// Whatever an honest route does, drafts, rewinds and cancels included, all its
// receipts are accepted and nobody is blamed; without cancels all are backed.
func TestSpansOfRealSessions(t *testing.T) {
	t.Parallel()
	for seed := range uint64(8) {
		rnd := rand.New(rand.NewPCG(seed, 4))
		w := newWorld(t, 3)
		r := &spanRun{t: t, w: w, driver: spans.NewDriver(w.lease.Session)}
		for i := range 3 {
			r.hops = append(r.hops, spans.New(w.lease.Session, i, 3))
		}
		cancels := seed%2 == 1
		r.step(protocol.KindPrefill, 40, 3)
		for range 60 {
			switch n := rnd.IntN(12); {
			case n < 6:
				r.step(protocol.KindDecode, 1, 3)
			case n < 10:
				rows := 1 + rnd.IntN(6)
				r.step(protocol.KindVerify, rows, 3)
				if good := 1 + rnd.IntN(rows); good < rows {
					r.truncate(r.pos - uint32(rows-good))
				}
			case n == 10:
				r.truncate(uint32(rnd.IntN(int(r.pos) + 1)))
			case cancels:
				at := r.pos
				r.step(protocol.KindVerify, 3, rnd.IntN(3)-1)
				r.truncate(at)
			}
		}
		mark := r.driver.Mark()
		for _, h := range slices.Backward(r.hops) {
			mark = h.End(mark)
		}
		r.take()
		rnd.Shuffle(len(r.raws), func(i, j int) { r.raws[i], r.raws[j] = r.raws[j], r.raws[i] })
		a := New(DefaultConfig(), w)
		backed := 0
		for _, raw := range r.raws {
			v := w.submit(a, raw)
			if v.Status != protocol.ReceiptAccepted || len(v.Proofs) != 0 {
				t.Fatalf("seed %d: %+v", seed, v)
			}
			for _, f := range v.Facts {
				if f.Backed {
					backed++
				}
			}
		}
		if backed == 0 || !cancels && backed != len(r.raws) {
			t.Errorf("seed %d: %d of %d receipts are backed", seed, backed, len(r.raws))
		}
	}
}
