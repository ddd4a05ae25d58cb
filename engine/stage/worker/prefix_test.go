package worker

import (
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"neuron/engine/prefix"
	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
	"neuron/llama"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// player opens sessions with prompts on a state and runs them.
type player struct {
	t    *testing.T
	st   *state
	slot uint32
}

// text is the prompt of a number: no two share a block.
func text(n, tokens int) []int32 { return ids(n+1, 0, tokens) }

// open opens a session for a prompt in so many cells and returns its slot, and
// how much of it is kept.
func (p *player) open(prompt []int32, cells int, change func(*wire.Open)) (slot uint32, kept int) {
	p.t.Helper()
	p.slot++
	scope := make([]byte, 32)
	scope[0] = 1
	o := wire.Open{
		Session: protocol.NewSessionID(), Exit: p.st.cfg.Last, Context: cells, Scope: scope, Keys: prefix.Of([]byte("s"), prompt), Sampler: &protocol.Sampler{},
	}
	if change != nil {
		change(&o)
	}
	f := jsonFrame(p.t, protocol.KindOpen, o)
	f.Slot = p.slot
	p.st.open(f)
	return p.slot, p.opened().Kept
}

// opened waits for the answer to an open message.
func (p *player) opened() (o wire.Opened) {
	p.t.Helper()
	for range 2 {
		for _, f := range p.st.drainOut() {
			if f.Kind != protocol.KindOpened || json.Unmarshal(f.Payload, &o) != nil || o.Error != nil {
				p.t.Fatalf("open answered %s %s", f.Kind, f.Payload)
			}
			return o
		}
		p.back() // a file is read
	}
	p.t.Fatal("open was not answered")
	return o
}

// run sends a prompt from a position on and returns the rows that came out.
func (p *player) run(slot uint32, prompt []int32, from int) []float32 {
	p.t.Helper()
	for pos := from; pos < len(prompt); {
		n := min(64, len(prompt)-pos)
		f := protocol.IDFrame(protocol.KindPrefill, uint32(pos), prompt[pos:pos+n])
		f.Slot = slot
		p.st.handle(arrival{f: f, at: time.Now()})
		pos += n
	}
	rows, _ := p.st.runAll(p.t)
	return rows[slot]
}

func (p *player) close(slot uint32) {
	p.t.Helper()
	p.st.handle(arrival{f: &protocol.Frame{Header: protocol.Header{Kind: protocol.KindClose, Slot: slot}}})
	p.st.drainOut()
}

// whole runs a session from open to close.
func (p *player) whole(prompt []int32, cells int) (kept int, rows []float32) {
	p.t.Helper()
	slot, kept := p.open(prompt, cells, nil)
	rows = p.run(slot, prompt, kept)
	p.close(slot)
	return kept, rows
}

func (p *player) keptStates() (n int) {
	p.st.allKept(func(*kept) { n++ })
	return n
}

// newPlayer has room for sessions of 4096 cells together.
func newPlayer(t *testing.T) *player {
	st := headOfGuide(t, 16)
	st.cfg.KVBudget = 4096 * st.cfg.KVBytesPerCell
	return &player{t: t, st: st}
}

// rowsFrom are the rows of a run from a position on.
func (p *player) rowsFrom(rows []float32, from int) []float32 { return rows[from*p.st.stage.Width():] }

// TestKeptStateGivesTheSameRows: taken over, cut back, and copied into a pool of
// another size, it stands for the rows that made it, bit by bit.
func TestKeptStateGivesTheSameRows(t *testing.T) {
	p := newPlayer(t)
	prompt := text(1, 330)
	_, want := p.whole(prompt, 512)
	for _, c := range []struct {
		what  string
		text  []int32
		cells int
		kept  int
	}{
		{"the same", prompt, 512, 320},
		{"of another size", prompt, 1024, 320},
		{"back in the first size", prompt, 512, 320},
	} {
		kept, got := p.whole(c.text, c.cells)
		if kept != c.kept {
			t.Fatalf("%s: %d positions were kept, want %d", c.what, kept, c.kept)
		}
		if ref := p.rowsFrom(want, kept)[:len(got)]; !slices.Equal(ref, got) {
			t.Errorf("%s: %d rows behind %d kept positions differ", c.what, len(got)/p.st.stage.Width(), kept)
		}
	}
	if kept, _ := p.whole(prompt[:200], 512); kept != 192 {
		t.Errorf("a shorter one: %d positions were kept", kept)
	}
	// What turns off early is copied: the longer state stays.
	turned := slices.Concat(prompt[:70], text(2, 250))
	if kept, _ := p.whole(turned, 512); kept != 64 {
		t.Errorf("%d positions were kept for a prompt that turns off at 70", kept)
	}
	if kept, _ := p.whole(prompt, 512); kept != 192 {
		t.Errorf("%d positions are left of the first prompt", kept)
	}
	if kept, _ := p.whole(turned, 512); kept != 320 {
		t.Errorf("%d positions are left of the second prompt", kept)
	}
}

// TestKeptStateIsForItsScopeAlone: another driver or route, and another exit,
// get nothing, nor does who names no tokens.
func TestKeptStateIsForItsScopeAlone(t *testing.T) {
	p := newPlayer(t)
	prompt := text(1, 200)
	p.whole(prompt, 512)
	for name, change := range map[string]func(*wire.Open){
		"scope":    func(o *wire.Open) { o.Scope[31]++ },
		"exit":     func(o *wire.Open) { o.Exit-- },
		"no keys":  func(o *wire.Open) { o.Keys = nil },
		"no scope": func(o *wire.Open) { o.Scope = nil },
	} {
		slot, kept := p.open(prompt, 512, change)
		if kept != 0 {
			t.Errorf("%s: %d positions", name, kept)
		}
		p.close(slot)
	}
	if kept, _ := p.whole(prompt, 512); kept != 192 {
		t.Errorf("%d positions are left", kept)
	}
}

// TestWhatIsKeptOfASession: only what ran of its prompt, and what was kept of
// one that never began; nothing of one that failed.
func TestWhatIsKeptOfASession(t *testing.T) {
	p := newPlayer(t)
	prompt := text(1, 330)
	slot, _ := p.open(prompt, 512, nil)
	p.run(slot, prompt[:150], 0)
	p.close(slot)
	for range 2 { // opened, not begun
		slot, kept := p.open(prompt, 512, nil)
		if kept != 128 {
			t.Errorf("%d positions were kept of 150 that ran", kept)
		}
		p.close(slot)
	}
	// Begun before what is kept, since another hop has less.
	slot, _ = p.open(prompt, 512, nil)
	rows := p.run(slot, prompt, 64)
	p.close(slot)
	if len(rows) != (330-64)*p.st.stage.Width() {
		t.Errorf("%d values", len(rows))
	}
	slot, kept := p.open(prompt, 512, nil)
	if kept != 320 {
		t.Errorf("%d positions were kept of a whole prompt", kept)
	}
	p.st.fail(p.st.sessions[slot], protocol.Errorf(protocol.CodeDecodeFailed, "scripted"))
	p.st.drainOut()
	if kept, _ := p.whole(prompt, 512); kept != 0 {
		t.Errorf("%d positions were kept of a session that failed", kept)
	}
	// Behind its beginning a session goes on where its rows end.
	slot, kept = p.open(prompt, 512, nil)
	f := protocol.IDFrame(protocol.KindPrefill, uint32(kept+1), prompt[:10])
	f.Slot = slot
	p.st.handle(arrival{f: f, at: time.Now()})
	if out := p.st.drainOut(); len(out) != 1 || out[0].Kind != protocol.KindError || out[0].Err().Code != protocol.CodeFrameOrder {
		t.Errorf("rows behind what is kept gave %v", out)
	}
}

// TestSessionsStayTogether: sessions have the lowest sequences, whatever is
// kept there, and what they displace is still found.
func TestSessionsStayTogether(t *testing.T) {
	p := newPlayer(t)
	a, b := text(1, 200), text(2, 200)
	slot, _ := p.open(a, 256, nil)
	p.run(slot, a, 0)
	other, _ := p.open(text(3, 100), 256, nil) // keeps the pool
	p.close(slot)
	slot, kept := p.open(b, 256, nil)
	if s := p.st.sessions[slot]; kept != 0 || s.seq != 0 {
		t.Errorf("sequence %d with %d kept positions", s.seq, kept)
	}
	p.close(slot)
	p.close(other)
	if kept, _ := p.whole(a, 256); kept != 192 {
		t.Errorf("%d positions are left of what was displaced", kept)
	}
}

// TestKeptStateIsNeverInTheWay: sessions get all the memory that the report
// promises, whatever is kept, and the oldest states go first.
func TestKeptStateIsNeverInTheWay(t *testing.T) {
	p := newPlayer(t)
	unit := p.st.cfg.KVBytesPerCell
	for n := range 6 {
		p.whole(text(n, 200), 256)
		p.st.publish()
		if free := p.st.w.getStats().FreeKVBytes; free != p.st.cfg.KVBudget {
			t.Fatalf("%d bytes of %d are free with kept states only", free, p.st.cfg.KVBudget)
		}
	}
	if n := p.keptStates(); n != 4 {
		t.Errorf("%d states are kept in the four sequences of a pool", n)
	}
	if kept, _ := p.whole(text(0, 200), 256); kept != 0 {
		t.Error("the oldest state is there, newer ones are not")
	}
	if kept, _ := p.whole(text(5, 200), 256); kept != 192 {
		t.Errorf("%d positions are left of the newest state", kept)
	}
	for range 2 {
		p.open(text(9, 10), 2048, nil)
	}
	if p.st.publish(); p.st.w.getStats().FreeKVBytes != 0 || p.st.held() > 4096*unit {
		t.Errorf("%d bytes are free, %d are held", p.st.w.getStats().FreeKVBytes, p.st.held())
	}
}

// TestReportIsAPromiseWithKeptState plays the game of opening and closing with
// prompts that were seen before.
func TestReportIsAPromiseWithKeptState(t *testing.T) {
	st := headOfGuide(t, 1000)
	for seed := range uint64(3) {
		st.cfg.KVBudget = int64(6+seed*6) * minCells * st.cfg.KVBytesPerCell
		p := &player{t: t, st: st, slot: uint32(10_000 * (seed + 1))}
		rnd := rand.New(rand.NewPCG(seed, 7))
		var open []uint32
		hits := 0
		for range 120 {
			if len(open) > 0 && rnd.IntN(100) < 45 {
				i := rnd.IntN(len(open))
				p.close(open[i])
				open = slices.Delete(open, i, i+1)
			} else {
				st.publish()
				promised := st.w.getStats().FreeKVBytes
				cells := minCells << rnd.IntN(3)
				if int64(cells)*st.cfg.KVBytesPerCell > promised {
					continue
				}
				prompt := text(rnd.IntN(5), 130)
				slot, kept := p.open(prompt, cells, nil) // fails the test when refused
				if open = append(open, slot); kept > 0 {
					hits++
				}
				p.run(slot, prompt, kept)
			}
			idle, pools := st.idlePools()
			if held := st.held(); held > st.cfg.KVBudget || idle > st.cfg.KVBudget/keepShare || pools > maxIdle {
				t.Fatalf("pools hold %d bytes, %d idle ones %d, the budget is %d", held, pools, idle, st.cfg.KVBudget)
			}
			for _, p := range st.pools {
				for i, k := range p.kept {
					if k != nil && (k.pool != p || k.seq != i || p.seqs[i] != nil) {
						t.Fatalf("sequence %d keeps the state of another place, or beside a session", i)
					}
				}
			}
		}
		if hits == 0 {
			t.Error("nothing was ever found again: the game says nothing")
		}
		for _, slot := range open {
			p.close(slot)
		}
		st.expirePools(time.Now().Add(keptFor + time.Minute))
		if st.publish(); st.w.getStats().FreeKVBytes != st.cfg.KVBudget || p.keptStates() != 0 {
			t.Errorf("%d states are left", p.keptStates())
		}
		st.expirePools(time.Now().Add(2 * keptFor))
		if len(st.pools) != 0 {
			t.Errorf("%d pools are left", len(st.pools))
		}
		t.Logf("%d hits", hits)
	}
}

// TestKeptStateExpires: names of what is kept go to the tracker, and away.
func TestKeptStateExpires(t *testing.T) {
	p := newPlayer(t)
	prompt := text(1, 200)
	p.whole(prompt, 512)
	p.st.publish()
	want := prefix.Of([]byte("s"), prompt).ID(3)
	if got := p.st.w.getStats().Prefixes; len(got) != 3 || got[0] != want {
		t.Errorf("%v are reported, want %s first", got, want)
	}
	now := time.Now()
	next := p.st.expirePools(now)
	if left := next.Sub(now); left < keptFor-time.Minute || left > keptFor {
		t.Errorf("the next thing ends in %s", left)
	}
	p.st.expirePools(next)
	p.st.publish()
	if got := p.st.w.getStats().Prefixes; len(got) != 0 || len(p.st.pools) != 0 {
		t.Errorf("%v are reported after their time, %d pools are left", got, len(p.st.pools))
	}
}

// TestNothingIsKeptThatCannotBeCutBack: a sliding window loses positions that
// the row at a border needs.
func TestNothingIsKeptThatCannotBeCutBack(t *testing.T) {
	dir, err := llama.NativeDir()
	if err != nil {
		t.Fatal(err)
	}
	for preset, want := range map[string]int{"tiny-gemma3": 0, "tiny-qwen3": 192} {
		shape, err := synth.Preset(preset)
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(t.TempDir(), preset+".gguf")
		if err := synth.Write(path, shape, synth.Options{Type: gguf.TypeQ8_0}); err != nil {
			t.Fatal(err)
		}
		w := &Worker{log: slog.New(slog.DiscardHandler), inbox: make(chan arrival, 16), outbox: make(chan *protocol.Frame, 1024)}
		f := jsonFrame(t, protocol.KindOpen, wire.Load{
			NativeDir: dir, Paths: []string{path}, Last: shape.Layers, Layers: shape.Layers, ExitNode: "l_out", Threads: 1, ChunkRows: 64,
			MaxContext: 1024, MaxSessions: 4, KVBudget: 1 << 28,
		})
		st, err := w.load(f)
		if err != nil {
			t.Fatal(err)
		}
		st.drainOut()
		p := &player{t: t, st: st}
		prompt := text(1, 200)
		for i := range prompt {
			prompt[i] %= int32(shape.Vocab)
		}
		p.whole(prompt, 512)
		if kept, _ := p.whole(prompt, 512); kept != want {
			t.Errorf("%s: %d positions were kept, want %d", preset, kept, want)
		}
		st.close()
	}
}
