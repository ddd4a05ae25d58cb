package registry

import (
	"cmp"
	"crypto/ed25519"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
	"neuron/tracker-server/routing"
)

var (
	t0    = time.Unix(1_700_000_000, 0)
	build = protocol.Build{Protocol: 1, Llama: "b1"}
	modA  = protocol.ModelID(strings.Repeat("a", 64))
	modB  = protocol.ModelID(strings.Repeat("b", 64))
)

func at(s float64) time.Time { return t0.Add(time.Duration(s * float64(time.Second))) }

func id(i int) protocol.NodeID {
	return protocol.NodeIDOf(ed25519.PublicKey(fmt.Sprintf("%032d", i)))
}

func node(i int, epoch uint64) Member {
	return Member{ID: id(i), Role: protocol.RoleNode, Epoch: epoch, Addr: fmt.Sprintf("10.0.0.%d:1", i), Build: build}
}

func shardReport(m protocol.ModelID, layers, first, last int) protocol.ShardReport {
	c := protocol.Capability{
		Model: m, Name: "test", Architecture: "llama", Layers: layers, Loaded: protocol.Range{First: first, Last: last},
		Head: first == 0, Tail: last == layers, Width: 64, DTypes: []string{"f32"}, KVBytesPerCell: int64(last - first), MaxContext: 4096, ChunkRows: 64, Build: build,
	}
	for e := first + 1; e < last; e++ {
		c.Exits = append(c.Exits, e)
	}
	return protocol.ShardReport{State: protocol.ShardReady, Capability: c, FreeKVBytes: 100_000, MaxSessions: 4, StepMicros: 1000}
}

func report(shards ...protocol.ShardReport) *protocol.Report { return &protocol.Report{Shards: shards} }

func newRegistry() *Registry {
	return New(Config{ReportEvery: 5 * time.Second, ExpireAfter: 60 * time.Second})
}

func mustReport(t *testing.T, r *Registry, now time.Time, m Member, rep *protocol.Report) {
	t.Helper()
	if err := CheckReport(rep); err != nil {
		t.Fatal(err)
	}
	if err := r.Report(now, m, rep); err != nil {
		t.Fatal(err)
	}
}

func state(t *testing.T, r *Registry, now time.Time, n protocol.NodeID) State {
	t.Helper()
	for _, v := range r.Nodes(now) {
		if v.Node == n {
			return v.State
		}
	}
	return "gone"
}

func TestLiveness(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	m := node(1, 1)
	r.Join(t0, m)
	steps := []struct {
		name string
		at   float64
		do   func()
		want State
		reps int
	}{
		{name: "joined", at: 0, want: StateJoining},
		{name: "first report", at: 1, do: func() { mustReport(t, r, at(1), m, report(shardReport(modA, 4, 0, 4))) }, want: StateReady, reps: 1},
		{name: "one missed report", at: 9, want: StateReady, reps: 1},
		{name: "two missed reports", at: 14, want: StateDraining, reps: 0},
		{name: "reports again", at: 15, do: func() { mustReport(t, r, at(15), m, report(shardReport(modA, 4, 0, 4))) }, want: StateReady, reps: 1},
		{name: "blamed", at: 16, do: func() { r.Suspect(m.ID) }, want: StateDraining, reps: 0},
		{name: "cleared by a report", at: 17, do: func() { mustReport(t, r, at(17), m, report(shardReport(modA, 4, 0, 4))) }, want: StateReady, reps: 1},
		{name: "sharing off", at: 18, do: func() {
			mustReport(t, r, at(18), m, &protocol.Report{SharingOff: "on battery", Shards: []protocol.ShardReport{shardReport(modA, 4, 0, 4)}})
		}, want: StateOff, reps: 0},
		{name: "on again", at: 19, do: func() { mustReport(t, r, at(19), m, report(shardReport(modA, 4, 0, 4))) }, want: StateReady, reps: 1},
		{name: "connection lost", at: 20, do: func() { r.Left(m, false) }, want: StateDraining, reps: 0},
		{name: "rejoined, not reported", at: 21, do: func() { m = node(1, 2); r.Join(at(21), m) }, want: StateJoining, reps: 0},
		{name: "the old connection's end means nothing", at: 22, do: func() { r.Left(node(1, 1), false) }, want: StateJoining, reps: 0},
		{name: "reported", at: 23, do: func() { mustReport(t, r, at(23), m, report(shardReport(modA, 4, 0, 4))) }, want: StateReady, reps: 1},
	}
	for _, s := range steps {
		if s.do != nil {
			s.do()
		}
		if got := r.Expire(at(s.at)); len(got) > 0 {
			t.Fatalf("%s: expired %v", s.name, got)
		}
		if got := state(t, r, at(s.at), m.ID); got != s.want {
			t.Fatalf("%s: state %s, want %s", s.name, got, s.want)
		}
		for _, info := range r.Models(at(s.at)) {
			if !slices.Equal(info.Replicas, []int{s.reps, s.reps, s.reps, s.reps}) || info.Routable != (s.reps > 0) {
				t.Fatalf("%s: replicas %v routable %v, want %d", s.name, info.Replicas, info.Routable, s.reps)
			}
		}
	}
	if err := r.Report(at(24), node(1, 1), report()); !errors.Is(err, &protocol.Error{Code: protocol.CodeSuperseded}) {
		t.Errorf("report of an old epoch: %v", err)
	}
	if r.Join(at(24), node(1, 1)) {
		t.Error("an older epoch joined over a newer one")
	}
	if ghosts := r.Expire(at(23 + 60)); len(ghosts) != 1 || ghosts[0].ID != m.ID || state(t, r, at(84), m.ID) != "gone" {
		t.Errorf("the silent node is still there: %v", ghosts)
	}
}

func TestBye(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	m := node(1, 1)
	r.Join(t0, m)
	mustReport(t, r, t0, m, report(shardReport(modA, 4, 0, 4)))
	r.Left(m, true)
	if got := r.Models(t0); len(got) != 0 || state(t, r, t0, m.ID) != "gone" {
		t.Errorf("after bye: %+v", got)
	}
}

// TestDisconnectedGhost: a node whose connection broke expires without help.
func TestDisconnectedGhost(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	m := node(1, 1)
	r.Join(t0, m)
	mustReport(t, r, t0, m, report(shardReport(modA, 4, 0, 4)))
	r.Left(m, false)
	if g := r.Expire(at(59)); len(g) != 0 || len(r.Models(at(59))) != 1 {
		t.Error("expired too early")
	}
	if g := r.Expire(at(60)); len(g) != 0 || len(r.Models(at(60))) != 0 {
		t.Errorf("still there: %v %v", g, r.Models(at(60)))
	}
}

func TestCoverageCountsNodesOnce(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	for i := 1; i <= 2; i++ {
		m := node(i, 1)
		for epoch := uint64(1); epoch <= 3; epoch++ {
			m.Epoch = epoch
			r.Join(t0, m)
			mustReport(t, r, t0, m, report(shardReport(modA, 6, 0, 4), shardReport(modA, 6, 0, 4), shardReport(modA, 6, 2, 5)))
		}
	}
	got := r.Models(t0)
	if len(got) != 1 || !slices.Equal(got[0].Replicas, []int{2, 2, 2, 2, 2, 0}) || got[0].Routable {
		t.Errorf("got %+v", got)
	}
}

func TestMajorityShapeWins(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	for i := 1; i <= 3; i++ {
		m, layers := node(i, 1), 4
		if i == 1 {
			layers = 1 // claims that the model is one layer long
		}
		r.Join(t0, m)
		mustReport(t, r, t0, m, report(shardReport(modA, layers, 0, layers)))
	}
	got := r.Models(t0)
	if len(got) != 1 || got[0].Layers != 4 || got[0].Replicas[0] != 2 {
		t.Errorf("got %+v", got)
	}
}

func TestNames(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	for i, m := range []protocol.ModelID{modA, modB, modB} {
		r.Join(t0, node(i, 1))
		mustReport(t, r, t0, node(i, 1), report(shardReport(m, 4, 0, 4)))
	}
	for name, want := range map[string]protocol.ModelID{"test": modB, string(modA): modA, string(modB): modB} {
		n, err := r.Index(name)
		if err != nil || n.Model != want {
			t.Errorf("%s: %v, %v", name, n, err)
		}
	}
	if _, err := r.Index("Test"); !errors.Is(err, &protocol.Error{Code: protocol.CodeModelUnknown}) {
		t.Errorf("got %v", err)
	}
}

func TestPromises(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	m := node(1, 1)
	free := func(now time.Time) (int64, int) {
		x, err := r.Index("test")
		if err != nil {
			t.Fatal(err)
		}
		s := x.Shards(now)[0]
		return s.FreeKV, s.Sessions
	}
	r.Promise(m.ID, "s1", modA, 0, 60_000) // before the node is known, as after a restart
	r.Promise(m.ID, "s2", modB, 0, 5)
	r.Join(t0, m)
	rep := report(shardReport(modA, 4, 0, 4))
	mustReport(t, r, t0, m, rep)
	check := func(name string, now time.Time, wantFree int64, wantSessions int) {
		t.Helper()
		if f, s := free(now); f != wantFree || s != wantSessions {
			t.Fatalf("%s: free %d with %d sessions, want %d and %d", name, f, s, wantFree, wantSessions)
		}
	}
	check("promised", t0, 40_000, 1)
	mustReport(t, r, at(1), m, rep)
	check("a report without the session", at(1), 40_000, 1)
	r.Confirm(m.ID, "s1", at(2))
	mustReport(t, r, at(3), m, rep)
	check("a report that may be older than the opening", at(3), 40_000, 1)
	mustReport(t, r, at(4), m, rep)
	check("a report that shows it", at(4), 100_000, 0)
	r.Promise(m.ID, "s3", modA, 0, 7)
	r.Release(m.ID, "s3")
	check("released", at(4), 100_000, 0)
}

func TestRTTTakesTheLongerClaim(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	for i, us := range map[int]int64{1: 5, 2: 9000} {
		r.Join(t0, node(i, 1))
		rep := report()
		rep.RTTMicros = map[protocol.NodeID]int64{id(3 - i): us}
		mustReport(t, r, t0, node(i, 1), rep)
	}
	for _, p := range [][2]int{{1, 2}, {2, 1}} {
		if us, ok := r.links.RTT(id(p[0]), id(p[1])); !ok || us != 9000 {
			t.Errorf("%v: %d %v", p, us, ok)
		}
	}
	if _, ok := r.links.RTT(id(1), id(9)); ok {
		t.Error("an unmeasured pair has a round trip")
	}
}

func TestPeers(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	for i, rg := range [][2]int{{0, 2}, {2, 4}, {4, 6}, {6, 8}} {
		r.Join(t0, node(i, 1))
		mustReport(t, r, t0, node(i, 1), report(shardReport(modA, 8, rg[0], rg[1])))
	}
	ids := func(ps []protocol.Peer) []protocol.NodeID {
		var out []protocol.NodeID
		for _, p := range ps {
			out = append(out, p.Node)
		}
		return out
	}
	sorted := func(is ...int) []protocol.NodeID {
		var out []protocol.NodeID
		for _, i := range is {
			out = append(out, id(i))
		}
		slices.Sort(out)
		return out
	}
	if d := gocmp.Diff(sorted(0, 3), ids(r.Peers(t0, Member{ID: "gateway", Role: protocol.RoleGateway}, 10))); d != "" {
		t.Errorf("gateway: %s", d)
	}
	if d := gocmp.Diff(sorted(0, 2, 3), ids(r.Peers(t0, node(1, 1), 10))); d != "" {
		t.Errorf("node 1: %s", d)
	}
	if got := r.Peers(t0, node(1, 1), 2); len(got) != 2 {
		t.Errorf("limit: %v", got)
	}
}

func TestCheckReport(t *testing.T) {
	t.Parallel()
	good := func() *protocol.Report { return report(shardReport(modA, 4, 0, 4)) }
	if err := CheckReport(good()); err != nil {
		t.Fatal(err)
	}
	hop := 99
	for name, f := range map[string]func(r *protocol.Report, s *protocol.ShardReport){
		"nan":            func(r *protocol.Report, s *protocol.ShardReport) { r.MemoryPressure = math.NaN() },
		"pressure":       func(r *protocol.Report, s *protocol.ShardReport) { r.MemoryPressure = 1.5 },
		"memory":         func(r *protocol.Report, s *protocol.ShardReport) { r.FreeMemory = -1 },
		"disk":           func(r *protocol.Report, s *protocol.ShardReport) { r.FreeDisk = math.MaxInt64 },
		"shards":         func(r *protocol.Report, s *protocol.ShardReport) { r.Shards = make([]protocol.ShardReport, 65) },
		"rtt":            func(r *protocol.Report, s *protocol.ShardReport) { r.RTTMicros = map[protocol.NodeID]int64{id(1): -1} },
		"rtt id":         func(r *protocol.Report, s *protocol.ShardReport) { r.RTTMicros = map[protocol.NodeID]int64{"x": 1} },
		"control":        func(r *protocol.Report, s *protocol.ShardReport) { r.SharingOff = "a\x1b[2J" },
		"state":          func(r *protocol.Report, s *protocol.ShardReport) { s.State = "happy" },
		"model":          func(r *protocol.Report, s *protocol.ShardReport) { s.Capability.Model = "x" },
		"layers":         func(r *protocol.Report, s *protocol.ShardReport) { s.Capability.Layers = 1 << 30 },
		"range":          func(r *protocol.Report, s *protocol.ShardReport) { s.Capability.Loaded.Last = 5 },
		"negative range": func(r *protocol.Report, s *protocol.ShardReport) { s.Capability.Loaded.First = -1 },
		"exits":          func(r *protocol.Report, s *protocol.ShardReport) { s.Capability.Exits = make([]int, 4097) },
		"exit":           func(r *protocol.Report, s *protocol.ShardReport) { s.Capability.Exits = []int{0} },
		"name":           func(r *protocol.Report, s *protocol.ShardReport) { s.Capability.Name = strings.Repeat("n", 257) },
		"no name":        func(r *protocol.Report, s *protocol.ShardReport) { s.Capability.Name = "" },
		"utf-8":          func(r *protocol.Report, s *protocol.ShardReport) { s.Capability.Name = "\xff" },
		"per cell":       func(r *protocol.Report, s *protocol.ShardReport) { s.Capability.KVBytesPerCell = math.MaxInt64 },
		"free kv":        func(r *protocol.Report, s *protocol.ShardReport) { s.FreeKVBytes = -1 },
		"step":           func(r *protocol.Report, s *protocol.ShardReport) { s.StepMicros = math.MaxInt64 },
		"sessions":       func(r *protocol.Report, s *protocol.ShardReport) { s.Sessions = -1 },
		"width":          func(r *protocol.Report, s *protocol.ShardReport) { s.Capability.Width = 0 },
		"error":          func(r *protocol.Report, s *protocol.ShardReport) { s.Error = &protocol.Error{} },
		"error hop":      func(r *protocol.Report, s *protocol.ShardReport) { s.Error = &protocol.Error{Code: "x", Hop: &hop} },
	} {
		r := good()
		f(r, &r.Shards[0])
		if err := CheckReport(r); !errors.Is(err, &protocol.Error{Code: protocol.CodeInvalidRequest}) {
			t.Errorf("%s: got %v", name, err)
		}
	}
}

// slowShards is what the index of a model must hold, made from nothing.
func (r *Registry) slowShards(now time.Time, id protocol.ModelID) []routing.Shard {
	out := []routing.Shard{}
	for _, n := range r.members {
		if n.report == nil || n.Role != protocol.RoleNode {
			continue
		}
		for i := range n.report.Shards {
			if s := &n.report.Shards[i]; s.Capability.Model == id {
				x := r.shard(n, s)
				if st, _ := r.stateOf(now, n); st == StateDraining {
					x.Blocked = string(st)
				}
				x.Recent = r.recentOf(n.ID)
				out = append(out, x)
			}
		}
	}
	slices.SortFunc(out, func(a, b routing.Shard) int {
		return cmp.Or(cmp.Compare(a.Loaded.First, b.Loaded.First), cmp.Compare(a.Node, b.Node))
	})
	return out
}

// TestChurn drives the registry with random events and checks after each that
// no node counts twice and that a model is routable exactly when the routing
// package finds a chain.
func TestChurn(t *testing.T) {
	t.Parallel()
	rnd := rand.New(rand.NewPCG(7, 8))
	r := newRegistry()
	epochs := make(map[int]uint64)
	now := t0
	for range 3000 {
		now = now.Add(time.Duration(rnd.IntN(3000)) * time.Millisecond)
		i := rnd.IntN(6)
		m := node(i, epochs[i])
		switch rnd.IntN(9) {
		case 6:
			r.Promise(m.ID, protocol.SessionID(fmt.Sprint("s-", rnd.IntN(3))), modA, rnd.IntN(6), int64(rnd.IntN(1000)))
		case 7:
			r.Release(m.ID, protocol.SessionID(fmt.Sprint("s-", rnd.IntN(3))))
		case 8:
			r.Bar(m.ID, []string{"", "a proven fault"}[rnd.IntN(2)])
		case 0:
			epochs[i]++
			r.Join(now, node(i, epochs[i]))
		case 1:
			r.Left(m, rnd.IntN(2) == 0)
		case 2:
			r.Suspect(m.ID)
		default:
			first := rnd.IntN(6)
			_ = r.Report(now, m, report(shardReport(modA, 6, first, first+1+rnd.IntN(6-first))))
		}
		r.Expire(now)
		ready := r.Counts(now)[StateReady]
		for _, info := range r.Models(now) {
			if top := slices.Max(info.Replicas); top > ready {
				t.Fatalf("%d replicas with %d ready nodes", top, ready)
			}
			x, err := r.Index(string(info.Model))
			if err != nil {
				t.Fatal(err)
			}
			if all := slices.Min(info.Replicas) > 0; all != info.Routable {
				t.Fatalf("replicas %v, routable %v", info.Replicas, info.Routable)
			}
			if d := gocmp.Diff(r.slowShards(now, info.Model), x.Shards(now)); d != "" {
				t.Fatalf("the index is not what the reports say: %s", d)
			}
			if route := x.Find(&routing.Request{Now: now, Gateway: "g", Context: 16}); (route != nil) != info.Routable {
				t.Fatalf("routable %v, but %+v", info.Routable, route)
			}
		}
	}
}
