package worker

import (
	"encoding/json"
	"log/slog"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strconv"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
	"neuron/llama"
)

// poolGame opens and closes sessions at random and compares each answer with
// the promise that stood before.
type poolGame struct {
	t    *testing.T
	st   *state
	rnd  *rand.Rand
	open []uint32
	slot uint32
	exit func() int
	// sound: the promise may be lower than what a session gets, never higher.
	sound bool

	opened, refused int
}

func (g *poolGame) free() int64 { return g.st.w.getStats().FreeKVBytes }

func (g *poolGame) try(context int) {
	g.t.Helper()
	st := g.st
	st.publish()
	need, promised := int64(cellsFor(context))*st.cfg.KVBytesPerCell, g.free()
	g.slot++
	exit := g.exit()
	raw, err := json.Marshal(wire.Open{Session: protocol.NewSessionID(), Exit: exit, Context: context, Sampler: &protocol.Sampler{}})
	if err != nil {
		g.t.Fatal(err)
	}
	st.open(&protocol.Frame{Header: protocol.Header{Kind: protocol.KindOpen, Slot: g.slot}, Payload: raw})
	var o wire.Opened
	for _, f := range st.drainOut() {
		if f.Kind != protocol.KindOpened || json.Unmarshal(f.Payload, &o) != nil {
			g.t.Fatalf("open answered %s", f.Kind)
		}
	}
	if o.Error == nil {
		g.opened++
		g.open = append(g.open, g.slot)
		if o.Cells < context || !g.sound && need > promised {
			g.t.Errorf("a session of %d has %d cells and needs %d bytes; %d were promised", context, o.Cells, need, promised)
		}
	} else {
		g.refused++
		fits, err := strconv.Atoi(o.Error.Detail["fits"])
		if o.Error.Code != protocol.CodeKVBudget || err != nil {
			g.t.Fatalf("refused with %v %v", o.Error, o.Error.Detail)
		}
		if need <= promised {
			g.t.Errorf("%d bytes were promised, a session of %d bytes was refused: %v", promised, need, o.Error)
		}
		if c := int64(fits) * st.cfg.KVBytesPerCell; fits >= cellsFor(context) || !g.sound && (c > promised || fits < st.cfg.MaxContext && 2*c <= promised && promised > 0) {
			g.t.Errorf("the refusal of %d says that %d fits; %d bytes were promised", context, fits, promised)
		}
	}
	g.check()
}

// check compares the books with the pools and with the library's own figures.
func (g *poolGame) check() {
	g.t.Helper()
	var held, used int64
	idle := 0
	for _, p := range g.st.pools {
		if held += p.bytes; p.empty.IsZero() {
			used += p.bytes
		}
		if n := p.used(); (n == 0) == p.empty.IsZero() {
			g.t.Errorf("a pool with %d sessions is empty since %v", n, p.empty)
		} else if n == 0 {
			if idle++; idle > 1 || p.bytes > g.st.cfg.KVBudget/keepShare {
				g.t.Errorf("%d empty pools are kept, this one holds %d bytes of %d", idle, p.bytes, g.st.cfg.KVBudget)
			}
		}
	}
	s := g.st.w.getStats()
	slip := int64(len(g.st.pools)+1) << 14 // the library prints hundredths of a MiB
	if held > g.st.cfg.KVBudget || s.KVBytes > used+slip || s.KVBytes < used-slip {
		g.t.Errorf("pools hold %d bytes, with sessions %d by the books and %d by the library, the budget is %d", held, used, s.KVBytes, g.st.cfg.KVBudget)
	}
}

func (g *poolGame) close(i int) {
	slot := g.open[i]
	g.open = append(g.open[:i], g.open[i+1:]...)
	g.st.handle(arrival{f: &protocol.Frame{Header: protocol.Header{Kind: protocol.KindClose, Slot: slot}}})
	g.st.drainOut()
	g.check()
}

func (g *poolGame) play(moves int) {
	for range moves {
		if len(g.open) > 0 && g.rnd.IntN(100) < 45 {
			g.close(g.rnd.IntN(len(g.open)))
			continue
		}
		// Powers of two and odd sizes.
		context := minCells << g.rnd.IntN(4)
		if g.rnd.IntN(2) == 0 {
			context = 1 + g.rnd.IntN(context)
		}
		g.try(context)
	}
	for len(g.open) > 0 {
		g.close(0)
	}
	g.st.publish()
	if free := g.st.w.getStats().FreeKVBytes; free != g.st.cfg.KVBudget {
		g.t.Errorf("%d bytes are free without sessions, the budget is %d", free, g.st.cfg.KVBudget)
	}
	g.st.expirePools(time.Now().Add(keepFor))
	g.st.publish()
	if s := g.st.w.getStats(); s.FreeKVBytes != g.st.cfg.KVBudget || s.KVBytes != 0 || s.ComputeBytes != 0 || len(g.st.pools) != 0 {
		g.t.Errorf("after the last session: %+v with %d pools, budget %d", s, len(g.st.pools), g.st.cfg.KVBudget)
	}
	if g.opened < moves/8 || g.refused < 5 {
		g.t.Errorf("%d opened, %d refused: the game says nothing", g.opened, g.refused)
	}
}

// TestReportIsAPromise: a stage that every session leaves opens one exactly
// when its report promised the memory.
func TestReportIsAPromise(t *testing.T) {
	st := headOfGuide(t, 1000)
	for seed := range uint64(4) {
		st.cfg.KVBudget = int64(6+seed*6) * minCells * st.cfg.KVBytesPerCell
		g := &poolGame{t: t, st: st, rnd: rand.New(rand.NewPCG(seed, 1)), exit: func() int { return 4 }}
		g.play(150)
	}
}

// TestTailKeepsItsPromise: a tail also has sessions that leave it early, in
// pools of their own; what it promises holds for both.
func TestTailKeepsItsPromise(t *testing.T) {
	dir, err := llama.NativeDir()
	if err != nil {
		t.Fatal(err)
	}
	raw, err := json.Marshal(wire.Load{
		NativeDir: dir, Paths: []string{filepath.Join("..", "..", "..", "assets", "model", "guide-q8_0.gguf")},
		First: 0, Last: 8, Layers: 8, ExitNode: "l_out", Threads: 1, ChunkRows: 64, MaxContext: 2048, MaxSessions: 1000, KVBudget: 1,
	})
	if err != nil {
		t.Fatal(err)
	}
	w := &Worker{log: slog.New(slog.DiscardHandler), inbox: make(chan arrival, 1), outbox: make(chan *protocol.Frame, 1024)}
	st, err := w.load(&protocol.Frame{Header: protocol.Header{Kind: protocol.KindOpen}, Payload: raw})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(st.close)
	st.drainOut()
	// No figure was given, so it was measured: 8 layers, F16, two of each.
	if m := st.stage.Model(); true {
		want := int64(8 * 2 * 2 * m.NHeadKV() * m.NEmbd() / m.NHead())
		if got := st.cfg.KVBytesPerCell; got < want || got > want+3*roundOff {
			t.Errorf("measured %d bytes per cell, want %d", got, want)
		}
		st.cfg.KVBytesPerCell = want
	}
	if st.computeBytes < 1<<18 || st.computePerCell < 64 || st.computePerCell > 1024 {
		t.Errorf("compute %d bytes and %d per cell", st.computeBytes, st.computePerCell)
	}
	rnd := rand.New(rand.NewPCG(9, 9))
	for seed := range uint64(2) {
		st.cfg.KVBudget = int64(12+seed*8) * minCells * st.cfg.KVBytesPerCell
		g := &poolGame{t: t, st: st, rnd: rnd, exit: func() int { return 5 + 3*rnd.IntN(2) }, sound: true}
		g.play(100)
	}
}

// TestEmptyPoolServesTheNextSession: a lone client's next request finds the
// context of its last one, for a minute; whoever needs the memory gets it at
// once, and reports count it as free all the time.
func TestEmptyPoolServesTheNextSession(t *testing.T) {
	st := headOfGuide(t, 1000)
	st.cfg.KVBudget = 16 * minCells * st.cfg.KVBytesPerCell
	g := &poolGame{t: t, st: st, exit: func() int { return 4 }}
	g.try(512)
	first := st.pools[0].run
	g.close(0)
	if len(st.pools) != 1 || g.free() != st.cfg.KVBudget {
		t.Fatalf("%d pools are kept, %d bytes of %d are free", len(st.pools), g.free(), st.cfg.KVBudget)
	}
	g.try(500)
	if len(st.pools) != 1 || st.pools[0].run != first {
		t.Error("the next session of the same size got another context")
	}
	g.close(0)

	emptied := st.pools[0].empty
	if next := st.expirePools(emptied.Add(keepFor - 1)); len(st.pools) != 1 || !next.Equal(emptied.Add(keepFor)) {
		t.Errorf("before its time: %d pools, next %v", len(st.pools), next)
	}
	if next := st.expirePools(emptied.Add(keepFor)); len(st.pools) != 0 || !next.IsZero() {
		t.Errorf("after its time: %d pools, next %v", len(st.pools), next)
	}
	if s := st.w.getStats(); s.KVBytes != 0 || s.ComputeBytes != 0 {
		t.Errorf("after its time: %+v", s)
	}

	// All the memory for another size.
	g.try(512)
	g.close(0)
	g.try(2048)
	g.try(2048)
	if len(g.open) != 2 || len(st.pools) > 2 || g.free() != 0 {
		t.Errorf("%d sessions in %d pools, %d bytes free: the kept pool was in the way", len(g.open), len(st.pools), g.free())
	}
	// A pool of more than half of the budget is not kept.
	g.close(1)
	g.close(0)
	g.st.cfg.KVBudget = 2048 * st.cfg.KVBytesPerCell
	st.dropPools(func(*pool) bool { return true })
	g.try(2048)
	g.close(0)
	if len(st.pools) != 0 {
		t.Error("a pool of the whole budget is kept")
	}
}

// TestEmptyPoolIsFreedInAMinute: by the owner's loop, without a message.
func TestEmptyPoolIsFreedInAMinute(t *testing.T) {
	st := headOfGuide(t, 1000)
	for _, c := range []struct {
		after time.Duration
		pools int
	}{{keepFor - time.Second, 1}, {keepFor, 0}} {
		synctest.Test(t, func(t *testing.T) {
			st.w.inbox = make(chan arrival, 4)
			done := make(chan error, 1)
			go func() { done <- st.loop(t.Context()) }()
			st.w.inbox <- arrival{f: jsonFrame(t, protocol.KindOpen, wire.Open{Session: protocol.NewSessionID(), Exit: 4, Context: 256})}
			synctest.Wait()
			if s := st.w.getStats(); s.Sessions != 1 || s.KVBytes == 0 {
				t.Errorf("%+v with a session", s)
			}
			st.w.inbox <- arrival{f: protocol.ControlFrame(protocol.KindClose, 0, 0, 0)}
			synctest.Wait()
			if s := st.w.getStats(); s.Sessions != 0 || s.KVBytes != 0 || s.ComputeBytes != 0 {
				t.Errorf("%+v after the session", s)
			}
			time.Sleep(c.after)
			synctest.Wait()
			close(st.w.inbox)
			if err := <-done; err != nil {
				t.Error(err)
			}
			if len(st.pools) != c.pools {
				t.Errorf("%d pools after %v, want %d", len(st.pools), c.after, c.pools)
			}
		})
	}
}

// TestManySessionsComeTogether: sessions share calls only within a pool, so one
// that is made while others of its size run has room for all of them, and they
// get there as they end and begin again. A lone client gets a small one.
func TestManySessionsComeTogether(t *testing.T) {
	st := headOfGuide(t, 1000)
	st.cfg.KVBudget = 256 * minCells * st.cfg.KVBytesPerCell
	g := &poolGame{t: t, st: st, exit: func() int { return 4 }}
	sizes := func() (out []int) {
		for _, p := range st.pools {
			out = append(out, len(p.seqs))
		}
		return out
	}
	g.try(512)
	if got := sizes(); !slices.Equal(got, []int{poolSeqs}) {
		t.Errorf("pools of %v sequences for one session", got)
	}
	const sessions = 8
	for len(g.open) < sessions {
		g.try(512)
	}
	if got := sizes(); !slices.Equal(got, []int{poolSeqs, 2 * poolSeqs}) {
		t.Errorf("pools of %v sequences for %d sessions", got, sessions)
	}
	for range sessions {
		g.close(0)
		g.try(512)
	}
	together := 0
	for _, s := range st.sessions {
		if len(s.pool.seqs) == 2*poolSeqs {
			together++
		}
	}
	if together != sessions {
		t.Errorf("%d of %d sessions are in one pool", together, sessions)
	}
	// More memory than half of what is left is not taken for it.
	st.cfg.KVBudget = st.held() + 8*2*minCells*st.cfg.KVBytesPerCell
	for len(g.open) < sessions+1 {
		g.try(512)
	}
	if got := sizes(); slices.Max(got) > 2*poolSeqs {
		t.Errorf("pools of %v sequences beside little memory", got)
	}
	for len(g.open) > 0 {
		g.close(0)
	}
	if free := g.free(); free != st.cfg.KVBudget {
		t.Errorf("%d bytes are free without sessions, the budget is %d", free, st.cfg.KVBudget)
	}
}

func TestPoolSizes(t *testing.T) {
	t.Parallel()
	const plenty = 64 << 30
	for _, c := range []struct {
		name           string
		cells, running int
		perSeq, slack  int64
		want           int
	}{
		{"first of its size", 1024, 0, 1 << 20, plenty, 4},
		{"first, long context", 8192, 0, 1 << 20, plenty, 2},
		{"first, longer than a pool", 32768, 0, 1 << 20, plenty, 1},
		{"a few run", 1024, 3, 1 << 20, plenty, 4},
		{"four run", 1024, 4, 1 << 20, plenty, 8},
		{"seven run", 1024, 7, 1 << 20, plenty, 8},
		{"eight run", 1024, 8, 1 << 20, plenty, 16},
		{"many run", 1024, 100, 1 << 20, plenty, 16},
		{"many run, a GiB", 4096, 100, 100 << 20, plenty, 8},
		{"many run, as large as the first", 4096, 100, 2 << 30, plenty, 4},
		{"half of the memory is left", 1024, 8, 1 << 20, 16 << 20, 8},
		{"memory for one", 1024, 8, 1 << 20, 1 << 20, 1},
	} {
		if got := poolSize(c.cells, c.running, c.perSeq, c.slack); got != c.want {
			t.Errorf("%s: %d sequences, want %d", c.name, got, c.want)
		}
	}
}
