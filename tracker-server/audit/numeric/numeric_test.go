package numeric

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
)

var (
	t0    = time.Date(2026, 11, 1, 12, 0, 0, 0, time.UTC)
	model = protocol.ModelIDOf([][sha256.Size]byte{{1}})
	build = protocol.Build{Protocol: protocol.Version, Llama: "b1"}
)

func id(name string) protocol.NodeID {
	seed := sha256.Sum256([]byte(name))
	return protocol.NodeIDOf(seed[:])
}

func isCode(err error, c protocol.Code) bool { return errors.Is(err, &protocol.Error{Code: c}) }

// lease is a public one over cuts: the hops are a, b, c...
func lease(cuts ...int) *protocol.Lease {
	l := &protocol.Lease{
		Version: protocol.Version, Session: protocol.NewSessionID(), Model: model, Layers: cuts[len(cuts)-1], Driver: id("driver"), Context: 1024,
		EngineBuild: build, Policy: protocol.PolicyPublic,
	}
	for i := range cuts[:len(cuts)-1] {
		l.Hops = append(l.Hops, protocol.Hop{Node: id(string(rune('a' + i))), Use: protocol.Range{First: cuts[i], Last: cuts[i+1]}})
	}
	return l
}

func candidate(name string, first, last int, exits ...int) Candidate {
	return Candidate{
		Node: id(name), Addr: "h:1", Loaded: protocol.Range{First: first, Last: last}, Exits: exits, Head: first == 0, Build: build, Idle: true,
		Class: auditmsg.AuditClass{Threads: 1, CPU: name},
	}
}

func list(cs ...Candidate) func(protocol.ModelID) []Candidate {
	return func(m protocol.ModelID) []Candidate {
		if m != model {
			return nil
		}
		return cs
	}
}

func noOwner(protocol.NodeID) string { return "" }

// book samples everything and takes the first of each choice.
func book(change func(*Config)) *Book {
	c := Config{Share: 1, Draw: func() float64 { return 0 }}
	if change != nil {
		change(&c)
	}
	return New(c)
}

func TestSampleChoosesAHop(t *testing.T) {
	t.Parallel()
	three := lease(0, 3, 6, 8)
	for name, x := range map[string]struct {
		lease *protocol.Lease
		nodes []Candidate
		hop   int // -1: not sampled
	}{
		"nobody else":          {three, nil, -1},
		"same range":           {three, []Candidate{candidate("x", 3, 6)}, 1},
		"longer, legal exit":   {three, []Candidate{candidate("x", 3, 8, 6)}, 1},
		"longer, illegal exit": {three, []Candidate{candidate("x", 3, 8, 5)}, -1},
		"shorter":              {three, []Candidate{candidate("x", 3, 5)}, -1},
		"other entry":          {three, []Candidate{candidate("x", 2, 6)}, -1},
		"on the route":         {three, []Candidate{candidate("a", 3, 6), candidate("c", 3, 6)}, -1},
		"the driver":           {three, []Candidate{candidate("driver", 3, 6)}, -1},
		"the head":             {three, []Candidate{candidate("x", 0, 3)}, 0},
		"a head without ids":   {three, []Candidate{{Node: id("x"), Loaded: protocol.Range{First: 0, Last: 3}, Build: build}}, -1},
		"the tail":             {three, []Candidate{candidate("x", 6, 8)}, -1},
		"other build":          {three, []Candidate{{Node: id("x"), Loaded: protocol.Range{First: 3, Last: 6}}}, -1},
		"whole model, one hop": {lease(0, 8), []Candidate{candidate("x", 0, 8, 3)}, -1},
		"first of two":         {lease(0, 3, 8), []Candidate{candidate("x", 0, 8, 3)}, 0},
	} {
		p := book(nil).Sample(t0, x.lease, "m", list(x.nodes...))
		if (p == nil) != (x.hop < 0) || p != nil && (p.Hop != x.hop || p.Use != x.lease.Hops[x.hop].Use) {
			t.Errorf("%s: %+v", name, p)
			continue
		}
		if p == nil {
			continue
		}
		in, out := x.lease.Driver, x.lease.Hops[p.Hop+1].Node
		if p.Hop > 0 {
			in = x.lease.Hops[p.Hop-1].Node
		}
		if p.Input != in || p.Output != out || p.Node != x.lease.Hops[p.Hop].Node || p.Rows != 512 {
			t.Errorf("%s: %+v", name, p)
		}
	}
}

func TestSampleRefuses(t *testing.T) {
	t.Parallel()
	nodes := list(candidate("x", 3, 6))
	private := lease(0, 3, 6, 8)
	private.Policy = protocol.PolicyPrivate
	if p := book(nil).Sample(t0, private, "m", nodes); p != nil {
		t.Error("a private session is sampled")
	}
	if p := book(func(c *Config) { c.Share = 0 }).Sample(t0, lease(0, 3, 6, 8), "m", nodes); p != nil {
		t.Error("sampled with a share of 0")
	}
	b := book(func(c *Config) { c.MaxOpen = 2 })
	l := lease(0, 3, 6, 8)
	for i, want := range []bool{true, false, true, false} { // the second is the same session
		if i > 1 {
			l = lease(0, 3, 6, 8)
		}
		if p := b.Sample(t0, l, "m", nodes); (p != nil) != want {
			t.Errorf("session %d: %+v", i, p)
		}
	}
	// The gateway is the head itself, or the node behind the sampled hop.
	l = lease(0, 3, 6, 8)
	l.Driver = l.Hops[0].Node
	if p := book(nil).Sample(t0, l, "m", list(candidate("x", 0, 3))); p != nil {
		t.Errorf("the head keeps its own input: %+v", p)
	}
	l.Driver = l.Hops[1].Node
	if p := book(nil).Sample(t0, l, "m", list(candidate("x", 0, 3))); p != nil {
		t.Errorf("one keeper for both sides: %+v", p)
	}
}

// TestShare draws many: the part that is sampled is the share, and all hops are.
func TestShare(t *testing.T) {
	t.Parallel()
	rng := rand.New(rand.NewPCG(1, 2))
	b := New(Config{Share: .02, Draw: rng.Float64, MaxOpen: 1 << 20})
	hops := map[int]int{}
	const n = 50_000
	nodes := list(candidate("x", 0, 3), candidate("y", 3, 6))
	for range n {
		if p := b.Sample(t0, lease(0, 3, 6, 8), "m", nodes); p != nil {
			hops[p.Hop]++
		}
	}
	if sum := hops[0] + hops[1]; sum < n*18/1000 || sum > n*22/1000 || hops[0] < sum/3 || hops[1] < sum/3 {
		t.Errorf("%v of %d", hops, n)
	}
}

// begin samples a session of three hops whose middle x and y can re-execute,
// and ends it.
func begin(t *testing.T, b *Book, now time.Time) *Plan {
	t.Helper()
	p := b.Sample(now, lease(0, 3, 6, 8), "m", list(candidate("b", 3, 6), candidate("x", 3, 6), candidate("y", 3, 8, 6)))
	if p == nil {
		t.Fatal("not sampled")
	}
	if q, r := b.Ended(now, p.Session, false); q != p || r != nil {
		t.Fatalf("%+v, %+v", q, r)
	}
	return p
}

func good(rows int) *auditmsg.AuditMeasures {
	return &auditmsg.AuditMeasures{Basis: auditmsg.AuditContribution, Rows: rows, Max: .02, P90: .01, Median: .001, MinCosine: 1}
}

func TestLifeOfAnAudit(t *testing.T) {
	t.Parallel()
	b := book(nil)
	p := begin(t, b, t0)
	x, y := candidate("x", 3, 6), candidate("y", 3, 8, 6)
	nodes := list(x, y)
	if p.Class.CPU != "b" {
		t.Errorf("class %+v", p.Class)
	}
	if q, _ := b.Next(t0.Add(9*time.Second), nodes, noOwner); q != nil {
		t.Error("before the receipts could come")
	}
	now := t0.Add(10 * time.Second)
	q, c := b.Next(now, nodes, noOwner)
	first := min(x.Node, y.Node)
	if q != p || c.Node != first {
		t.Fatalf("%+v, %+v", q, c)
	}
	if q, _ := b.Next(now, nodes, noOwner); q != nil {
		t.Error("asked twice")
	}
	// Only who was asked may answer, and only in turn.
	for name, from := range map[string]protocol.NodeID{"stranger": id("z"), "the audited node": p.Node, "a keeper": p.Input} {
		if _, err := b.Ready(now, from, p.Audit); !isCode(err, protocol.CodeForbidden) {
			t.Errorf("ready from %s: %v", name, err)
		}
		if _, _, err := b.Result(now, from, &auditmsg.AuditResult{Audit: p.Audit, Error: protocol.Errorf(protocol.CodeTimeout, "x")}); !isCode(err, protocol.CodeForbidden) {
			t.Errorf("result from %s: %v", name, err)
		}
	}
	if _, _, err := b.Result(now, first, &auditmsg.AuditResult{Audit: p.Audit, Measures: good(5)}); !isCode(err, protocol.CodeForbidden) {
		t.Errorf("a result before ready: %v", err)
	}
	if _, err := b.Ready(now, first, auditmsg.NewAuditID()); !isCode(err, protocol.CodeNotFound) {
		t.Errorf("unknown: %v", err)
	}
	if q, err := b.Ready(now, first, p.Audit); q != p || err != nil || q.Auditor() != first {
		t.Fatal(q, err)
	}
	if _, err := b.Ready(now, first, p.Audit); !isCode(err, protocol.CodeForbidden) {
		t.Errorf("ready twice: %v", err)
	}
	for name, r := range map[string]*auditmsg.AuditResult{"many rows": {Audit: p.Audit, Measures: good(513)}, "nothing": {Audit: p.Audit}} {
		if _, _, err := b.Result(now, first, r); !isCode(err, protocol.CodeInvalidRequest) {
			t.Errorf("%s: %v", name, err)
		}
	}
	if _, _, err := b.Result(now, p.Output, &auditmsg.AuditResult{Audit: p.Audit, Measures: good(5)}); !isCode(err, protocol.CodeForbidden) {
		t.Errorf("measures of a keeper: %v", err)
	}
	_, r, err := b.Result(now, first, &auditmsg.AuditResult{Audit: p.Audit, Measures: good(40)})
	if err != nil || r == nil || r.Measures.Rows != 40 || r.Node != p.Node || r.Auditor != first || r.Error != nil || !r.Ended.Equal(now) || !r.Begun.Equal(t0) {
		t.Fatalf("%+v, %v", r, err)
	}
	if b.Open() != 0 {
		t.Error("it is still open")
	}
	if _, _, err := b.Result(now, first, &auditmsg.AuditResult{Audit: p.Audit, Measures: good(40)}); !isCode(err, protocol.CodeNotFound) {
		t.Errorf("twice: %v", err)
	}
}

func TestFailedSessionsAreNotAudited(t *testing.T) {
	t.Parallel()
	b := book(nil)
	l := lease(0, 3, 6, 8)
	p := b.Sample(t0, l, "m", list(candidate("x", 3, 6)))
	q, r := b.Ended(t0, l.Session, true)
	if q != p || r == nil || r.Error == nil || r.Error.Code != protocol.CodeCancelled || b.Open() != 0 {
		t.Errorf("%+v, %+v", q, r)
	}
	if q, r := b.Ended(t0, protocol.NewSessionID(), true); q != nil || r != nil {
		t.Error("a session that was not sampled")
	}
}

// TestWhoIsAsked: not the same owner, not who works, not who declined, one
// audit per node.
func TestWhoIsAsked(t *testing.T) {
	t.Parallel()
	x, y := candidate("x", 3, 6), candidate("y", 3, 6)
	now := t0.Add(time.Minute)
	ask := func(b *Book, nodes ...Candidate) (protocol.NodeID, bool) {
		p, c := b.Next(now, list(nodes...), noOwner)
		return c.Node, p != nil
	}
	b := book(nil)
	begin(t, b, t0)
	busy := x
	busy.Idle = false
	if n, ok := ask(b, busy, y); !ok || n != y.Node {
		t.Errorf("asked %v", n)
	}
	begin(t, b, t0)
	if n, ok := ask(b, y); ok {
		t.Errorf("%v has two audits", n)
	}
	if n, ok := ask(b, x, y); !ok || n != x.Node {
		t.Errorf("asked %v", n)
	}

	b = book(nil)
	p := begin(t, b, t0)
	mine, other := x, y
	mine.Owner, other.Owner = "o-1", "o-2"
	owner := func(n protocol.NodeID) string {
		if n == p.Node {
			return "o-1"
		}
		return ""
	}
	if q, c := b.Next(now, list(mine), owner); q != nil {
		t.Errorf("its owner's %v is asked", c)
	}
	if _, c := b.Next(now, list(mine, other), owner); c.Node != y.Node {
		t.Errorf("%v is asked", c)
	}

	// Who declines for good is not asked again, who is busy is, later.
	for code, again := range map[protocol.Code]bool{protocol.CodeBuildMismatch: false, protocol.CodeHostBusy: true} {
		b = book(nil)
		p = begin(t, b, t0)
		if _, ok := ask(b, x); !ok {
			t.Fatal("nobody is asked")
		}
		if _, r, err := b.Result(now, x.Node, &auditmsg.AuditResult{Audit: p.Audit, Error: protocol.Errorf(code, "no")}); r != nil || err != nil {
			t.Fatal(r, err)
		}
		if again {
			if _, ok := ask(b, x, y); ok {
				t.Errorf("%s: asked at once", code)
			}
		} else if n, ok := ask(b, x, y); !ok || n != y.Node {
			t.Errorf("%s: asked %v", code, n)
			continue
		}
		if q, _ := b.Next(now.Add(askAgain), list(x), noOwner); (q != nil) != again {
			t.Errorf("%s: asked again: %v", code, q != nil)
		}
	}
}

func TestRates(t *testing.T) {
	t.Parallel()
	b := book(func(c *Config) { c.PerMinute = 3 })
	var nodes []Candidate
	for i := range 10 {
		nodes = append(nodes, candidate(fmt.Sprint("n", i), 3, 6))
		begin(t, b, t0)
	}
	begun := func(now time.Time) (n int) {
		for {
			if p, _ := b.Next(now, list(nodes...), noOwner); p == nil {
				return n
			}
			n++
		}
	}
	now := t0.Add(10 * time.Second)
	for i, want := range []int{3, 0, 3} {
		if n := begun(now.Add(time.Duration(i) * 30 * time.Second)); n != want {
			t.Errorf("%d audits begin after %d s, want %d", n, 30*i, want)
		}
	}
}

func TestTimes(t *testing.T) {
	t.Parallel()
	x, y := candidate("x", 3, 6), candidate("y", 3, 6)
	// A session that runs on is audited all the same.
	b := book(nil)
	p := b.Sample(t0, lease(0, 3, 6, 8), "m", list(x))
	if q, _ := b.Next(t0.Add(2*time.Minute-1), list(x), noOwner); q != nil {
		t.Error("too early")
	}
	if q, _ := b.Next(t0.Add(2*time.Minute), list(x), noOwner); q != p {
		t.Error("not at its time")
	}
	if q, r := b.Ended(t0.Add(3*time.Minute), p.Session, true); q != nil || r != nil {
		t.Error("the end of the session ended its audit")
	}
	// Who was asked and says nothing makes room, and who is ready and says
	// nothing ends it.
	if out := b.Expire(t0.Add(4*time.Minute - 1)); len(out) != 0 {
		t.Errorf("%+v", out)
	}
	now := t0.Add(4 * time.Minute)
	if out := b.Expire(now); len(out) != 0 || b.Open() != 1 {
		t.Errorf("%+v", out)
	}
	if _, c := b.Next(now, list(x, y), noOwner); c.Node != y.Node {
		t.Fatalf("%v is asked", c)
	}
	if _, err := b.Ready(now, y.Node, p.Audit); err != nil {
		t.Fatal(err)
	}
	out := b.Expire(now.Add(2 * time.Minute))
	if len(out) != 1 || out[0].Error.Code != protocol.CodeTimeout || out[0].Auditor != y.Node || b.Open() != 0 {
		t.Errorf("%+v", out)
	}
	// Without anybody to ask it ends with its frames.
	b = book(nil)
	begin(t, b, t0)
	if q, _ := b.Next(t0.Add(time.Minute), list(), noOwner); q != nil {
		t.Fatal("nobody is there")
	}
	if out := b.Expire(t0.Add(10*time.Minute - 1)); len(out) != 0 {
		t.Errorf("%+v", out)
	}
	if out := b.Expire(t0.Add(10 * time.Minute)); len(out) != 1 || out[0].Error.Code != protocol.CodeUnavailable || out[0].Auditor != "" {
		t.Errorf("%+v", out)
	}
}

func TestSummary(t *testing.T) {
	t.Parallel()
	a, c := auditmsg.AuditClass{Threads: 1, CPU: "haswell"}, auditmsg.AuditClass{Threads: 1, CPU: "zen4"}
	var rs []Record
	for i := range 100 {
		m := good(10)
		m.Median, m.P90, m.Max, m.Class, m.Proven = float64(i+1)/1000, 1, float64(i+1), c, 4
		rs = append(rs, Record{Model: model, Name: "m", Class: a, Measures: m})
	}
	m := good(7)
	m.Class = a
	rs = append(rs, Record{Model: model, Name: "m", Class: a, Measures: m},
		Record{Model: model, Error: protocol.Errorf(protocol.CodeTimeout, "x")}, Record{Error: protocol.Errorf(protocol.CodeTimeout, "x")})
	want := []Line{
		{Model: model, Name: "m", Basis: auditmsg.AuditContribution, Node: a, Auditor: a, Audits: 1, Rows: 7,
			Median: Percentiles{.001, .001, .001, .001}, Max: Percentiles{.02, .02, .02, .02}},
		{Model: model, Name: "m", Basis: auditmsg.AuditContribution, Node: a, Auditor: c, Audits: 100, Rows: 1000, Proven: 400,
			Median: Percentiles{.05, .09, .099, .1}, Max: Percentiles{50, 90, 99, 100}},
	}
	if d := cmp.Diff(want, Summary(rs)); d != "" {
		t.Error(d)
	}
	if f := Failures(rs); len(f) != 1 || f[protocol.CodeTimeout] != 2 {
		t.Errorf("%v", f)
	}
	if out := Summary(nil); len(out) != 0 {
		t.Errorf("%v", out)
	}
}

// FuzzResult: whatever a node sends, a record has bounded figures, and each
// audit ends once.
func FuzzResult(f *testing.F) {
	f.Add([]byte(`{"measures":{"basis":"contribution","rows":40,"max":2,"p90":1,"median":0.5,"min_cosine":-1}}`), byte(0))
	f.Add([]byte(`{"error":{"code":"host_busy","message":"m"}}`), byte(1))
	f.Add([]byte(`{"measures":{"basis":"whole","rows":-1,"max":1e999}}`), byte(2))
	f.Fuzz(func(t *testing.T, raw []byte, who byte) {
		b := book(nil)
		p := begin(t, b, t0)
		x := candidate("x", 3, 6)
		now := t0.Add(time.Minute)
		if q, _ := b.Next(now, list(x), noOwner); q == nil {
			t.Fatal("not asked")
		}
		if who&1 == 0 {
			if _, err := b.Ready(now, x.Node, p.Audit); err != nil {
				t.Fatal(err)
			}
		}
		var r auditmsg.AuditResult
		if json.Unmarshal(raw, &r) != nil {
			return
		}
		r.Audit = p.Audit
		from := []protocol.NodeID{x.Node, p.Input, p.Node, p.Output}[who>>1&3]
		_, rec, err := b.Result(now, from, &r)
		if err != nil && rec != nil {
			t.Fatal("an error and a record")
		}
		if rec == nil {
			if b.Open() != 1 {
				t.Fatal("it ended without a record")
			}
			return
		}
		if b.Open() != 0 || rec.Measures != nil && (from != x.Node || rec.Measures.Rows > p.Rows || !(rec.Measures.Max <= auditmsg.MaxAuditDistance)) {
			t.Fatalf("%+v", rec)
		}
		if !slices.ContainsFunc([]protocol.NodeID{x.Node, p.Input, p.Output}, func(n protocol.NodeID) bool { return n == from }) {
			t.Fatal("a stranger ended it")
		}
	})
}
