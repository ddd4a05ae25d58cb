package worker

import (
	"context"
	"encoding/json"
	"fmt"
	"log/slog"
	"math"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
	"neuron/llama"
	"neuron/llama/cut"
	"neuron/llama/gguf"
)

// rowsOf is one session's waiting frame in a layout.
type rowsOf struct {
	seq  int
	rows int
	kind protocol.Kind
}

// headOfGuide is a stage of the guide model's first half, loaded for tests of
// the owner without pipes.
func headOfGuide(t *testing.T, seqs int) *state {
	t.Helper()
	return headOfGuideRows(t, seqs, 64)
}

func headOfGuideRows(t *testing.T, seqs, chunkRows int) *state {
	t.Helper()
	return partOfGuide(t, 0, 4, seqs, chunkRows)
}

func partOfGuide(t *testing.T, first, last, seqs, chunkRows int) *state {
	t.Helper()
	dir, err := llama.NativeDir()
	if err != nil {
		t.Fatal(err)
	}
	src, err := gguf.OpenModel(filepath.Join("..", "..", "..", "assets", "model", "guide-q8_0.gguf"))
	if err != nil {
		t.Fatal(err)
	}
	defer src.Close()
	store, err := cut.Import(context.Background(), src, "guide", filepath.Join(t.TempDir(), "shard"), first, last, nil)
	if err != nil {
		t.Fatal(err)
	}
	p, err := store.Prepare(first, last)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Release()
	w := &Worker{log: slog.New(slog.DiscardHandler), inbox: make(chan arrival, 256), outbox: make(chan *protocol.Frame, 1024)}
	raw, err := json.Marshal(wire.Load{
		NativeDir: dir, Paths: p.Paths, First: first, Last: last, Layers: 8, ExitNode: "l_out", Threads: 1, ChunkRows: chunkRows,
		MaxContext: 2048, MaxSessions: seqs, KVBudget: 1 << 30, KVBytesPerCell: store.Model().KVBytesPerCell(first, last, 2),
	})
	if err != nil {
		t.Fatal(err)
	}
	st, err := w.load(&protocol.Frame{Header: protocol.Header{Kind: protocol.KindOpen}, Payload: raw})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.close)
	st.drainOut()
	return st
}

// drainOut takes what the owner has sent.
func (st *state) drainOut() []*protocol.Frame {
	var out []*protocol.Frame
	for {
		select {
		case f := <-st.w.outbox:
			out = append(out, f)
		default:
			return out
		}
	}
}

// openSessions opens n sessions in slots 1..n; they get sequences 0..n-1.
func (st *state) openSessions(t *testing.T, n int) {
	t.Helper()
	for i := range n {
		raw, err := json.Marshal(wire.Open{Session: protocol.NewSessionID(), Exit: 4, Context: 512})
		if err != nil {
			t.Fatal(err)
		}
		st.open(&protocol.Frame{Header: protocol.Header{Kind: protocol.KindOpen, Slot: uint32(i + 1)}, Payload: raw})
	}
	for _, f := range st.drainOut() {
		var o wire.Opened
		if f.Kind != protocol.KindOpened || json.Unmarshal(f.Payload, &o) != nil || o.Error != nil {
			t.Fatalf("open answered %s %s", f.Kind, f.Payload)
		}
	}
}

// farAhead is a time at which no row waits for others any more.
func farAhead() time.Time { return time.Now().Add(time.Hour) }

// ids are the session's own tokens: different for each session, so that rows
// of another one would show.
func ids(seq, pos, n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32((seq*131 + (pos+i)*17 + 5) % 2000)
	}
	return out
}

// runAll works until nothing waits and returns the rows per slot.
func (st *state) runAll(t *testing.T) (rows map[uint32][]float32, calls int) {
	t.Helper()
	rows = map[uint32][]float32{}
	for {
		group, _ := st.next(farAhead())
		if group == nil {
			return rows, calls
		}
		calls++
		st.step(group)
		for _, f := range st.drainOut() {
			switch {
			case f.Kind == protocol.KindError:
				t.Fatalf("slot %d: %v", f.Slot, f.Err())
			case f.Kind.Rows():
				rows[f.Slot] = append(rows[f.Slot], slices.Clone(floats(f.Hidden()))...)
			}
		}
	}
}

// TestBatchLayoutsEqualSessionsAlone runs every layout of the experiment that
// gave answers of other sessions ("one llama_batch with decodes first and
// prefill filling the rest"): whatever waits together, each session's rows are
// those that it gets alone.
func TestBatchLayoutsEqualSessionsAlone(t *testing.T) {
	one := func(seqs ...int) []rowsOf {
		var out []rowsOf
		for _, s := range seqs {
			out = append(out, rowsOf{s, 1, protocol.KindDecode})
		}
		return out
	}
	verify := func(widths ...int) []rowsOf {
		var out []rowsOf
		for i, n := range widths {
			out = append(out, rowsOf{i, n, protocol.KindVerify})
		}
		return out
	}
	tests := []struct {
		name    string
		waiting []rowsOf
		calls   int // how many calls the legal layouts allow
	}{
		{"ids 0,1,2 one row each", one(0, 1, 2), 1},
		{"verify rows 4,4,4", verify(4, 4, 4), 1},
		{"ids 1,0,2 one row each", one(1, 0, 2), 1},
		{"verify widths 4,2,1", verify(4, 2, 1), 3},
		{"verify widths 1,2,4", verify(1, 2, 4), 3},
		// Two pools of four: [1,2,3] and [4..7] decode, then the chunk.
		{"8 sessions, prefill 40 rows and 7 decodes", append([]rowsOf{{0, 40, protocol.KindPrefill}}, one(1, 2, 3, 4, 5, 6, 7)...), 3},
		{"ids 1,3,5,7", one(1, 3, 5, 7), 4},
	}
	const sessions, history = 8, 70
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			alone := map[int][]float32{}
			for _, r := range tt.waiting {
				st := headOfGuide(t, sessions)
				st.openSessions(t, sessions)
				s := st.sessions[uint32(r.seq+1)]
				st.prefill(t, s, r.seq, history)
				st.feedFor(s, r, history)
				rows, _ := st.runAll(t)
				alone[r.seq] = rows[s.slot]
			}
			st := headOfGuide(t, sessions)
			st.openSessions(t, sessions)
			for _, r := range tt.waiting {
				st.prefill(t, st.sessions[uint32(r.seq+1)], r.seq, history)
			}
			for _, r := range tt.waiting {
				st.feedFor(st.sessions[uint32(r.seq+1)], r, history)
			}
			got, calls := st.runAll(t)
			if calls != tt.calls {
				t.Errorf("%d calls, want %d", calls, tt.calls)
			}
			for _, r := range tt.waiting {
				rows := got[uint32(r.seq+1)]
				if len(rows) != r.rows*st.stage.Width() {
					t.Fatalf("session %d got %d values for %d rows", r.seq, len(rows), r.rows)
				}
				if d := largest(rows, alone[r.seq]); d != 0 {
					t.Errorf("session %d differs from itself alone by %g", r.seq, d)
				}
			}
		})
	}
}

// prefill gives a session its history; the ids follow the global number of the
// session, not its sequence in the pool.
func (st *state) prefill(t *testing.T, s *session, number, n int) {
	t.Helper()
	for pos := 0; pos < n; pos += 64 {
		f := protocol.IDFrame(protocol.KindPrefill, uint32(pos), ids(number, pos, min(64, n-pos)))
		f.Slot = s.slot
		st.enqueue(s, arrival{f, time.Now()})
	}
	st.runAll(t)
}

func (st *state) feedFor(s *session, r rowsOf, pos int) {
	f := protocol.IDFrame(r.kind, uint32(pos), ids(r.seq, pos, r.rows))
	f.Slot = s.slot
	st.enqueue(s, arrival{f, time.Now()})
}

func largest(a, b []float32) float64 {
	if len(a) != len(b) {
		return math.Inf(1)
	}
	var most float64
	for i := range a {
		most = max(most, math.Abs(float64(a[i])-float64(b[i])))
	}
	return most
}

func TestPickTakesTheOldestDecodeBeforeAnyPrefill(t *testing.T) {
	t.Parallel()
	p := &pool{seqs: make([]*session, 4)}
	at := time.Unix(100, 0)
	sessions := map[uint32]*session{}
	add := func(slot uint32, seq int, k protocol.Kind, rows int, age time.Duration) {
		s := &session{slot: slot, pool: p, seq: seq, exit: 4}
		s.queue = []queued{{f: &protocol.Frame{Header: protocol.Header{Kind: k, Rows: uint32(rows)}}, at: at.Add(-age)}}
		p.seqs[seq], sessions[slot] = s, s
	}
	add(1, 0, protocol.KindPrefill, 64, time.Hour)
	add(2, 1, protocol.KindDecode, 1, time.Second)
	add(3, 2, protocol.KindDecode, 1, time.Minute)
	add(4, 3, protocol.KindVerify, 4, time.Millisecond)
	var slots []uint32
	st := &state{sessions: sessions, cfg: wire.Load{ChunkRows: 64}}
	group, _ := st.next(at)
	for _, s := range group {
		slots = append(slots, s.slot)
	}
	if fmt.Sprint(slots) != "[2 3]" {
		t.Errorf("picked %v, want the decodes of slots 2 and 3", slots)
	}
}

func TestPrefillGoesRoundBySlot(t *testing.T) {
	t.Parallel()
	sessions := map[uint32]*session{}
	for _, slot := range []uint32{3, 5, 9} {
		sessions[slot] = &session{slot: slot, queue: []queued{{f: &protocol.Frame{Header: protocol.Header{Kind: protocol.KindPrefill, Rows: 64}}}}}
	}
	st := &state{sessions: sessions, cfg: wire.Load{ChunkRows: 64}}
	var order []uint32
	for range 4 {
		group, _ := st.next(time.Unix(1000, 0))
		st.turn = group[0].slot
		order = append(order, st.turn)
	}
	if fmt.Sprint(order) != "[3 5 9 3]" {
		t.Errorf("order %v", order)
	}
}

// TestPrefillInSlicesGivesTheSameRows: while another session decodes, a frame
// runs in several calls; its rows are those of one call, bit by bit when the
// slices have 64 rows.
func TestPrefillInSlicesGivesTheSameRows(t *testing.T) {
	const n = 256
	run := func(share bool) ([]float32, int) {
		st := headOfGuideRows(t, 2, n)
		st.openSessions(t, 2)
		s, other := st.sessions[1], st.sessions[2]
		if share {
			other.decoded = time.Now().Add(time.Hour)
		}
		f := protocol.IDFrame(protocol.KindPrefill, 0, ids(0, 0, n))
		f.Slot = s.slot
		st.enqueue(s, arrival{f, time.Now()})
		calls := 0
		for {
			group, _ := st.next(farAhead())
			if group == nil {
				break
			}
			calls++
			// 70 rows fit the time; this machine's real speed is not the point.
			s.pace.long = float64(shareTime.Microseconds()) / 70
			st.step(group)
		}
		for _, f := range st.drainOut() {
			if f.Kind == protocol.KindPrefill {
				return slices.Clone(floats(f.Hidden())), calls
			}
		}
		t.Fatal("no rows came out")
		return nil, 0
	}
	whole, calls := run(false)
	if calls != 1 {
		t.Errorf("%d calls alone, want 1", calls)
	}
	sliced, calls := run(true)
	if calls != n/64 {
		t.Errorf("%d calls while another session decodes, want %d", calls, n/64)
	}
	if d := largest(whole, sliced); d != 0 {
		t.Errorf("slices change rows by %g", d)
	}
}
