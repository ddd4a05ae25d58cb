package program_test

import (
	"context"
	"encoding/binary"
	"fmt"
	"math"
	"path/filepath"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"neuron/engine/program"
	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
	"neuron/engine/seam"
	"neuron/internal/leaktest"
	"neuron/tracker-server/audit/numeric"
)

// lie changes one row that a node sends on; in is what it was given.
type lie func(in, out []float32)

// lies are what a node may tell, by name.
var lies = map[string]lie{
	"returns its input": func(in, out []float32) { copy(out, in) },
	// A twentieth of the contribution's size in noise, as from weights of fewer
	// bits than were leased.
	"worse weights": func(in, out []float32) {
		var sum float64
		for i := range out {
			sum += math.Pow(float64(out[i]-in[i]), 2)
		}
		size := float32(math.Sqrt(sum/float64(len(out)))) / 20
		for i := range out {
			out[i] += size * float32(1-2*(i%2))
		}
	},
	"tells a row twice": nil, // made in liar.rows: it needs the row before
}

const guideF16, guideF16Name = "../../assets/model/guide-f16.gguf", "guide-f16"

// liar is a stage whose sessions send wrong rows.
type liar struct {
	seam.Stage
	mode *atomic.Pointer[string]
}

func (l *liar) Open(ctx context.Context, o seam.StageOpen) (seam.StageSession, error) {
	s := &lyingSession{mode: l.mode, in: map[uint32][]byte{}}
	honest := o.Deliver
	o.Deliver = func(f *protocol.Frame) {
		if f != nil {
			f = s.bend(f)
		}
		honest(f)
	}
	var err error
	s.StageSession, err = l.Stage.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	return s, nil
}

type lyingSession struct {
	seam.StageSession
	mode *atomic.Pointer[string]
	last []float32

	mu sync.Mutex
	in map[uint32][]byte // guarded by mu; by position
}

func (s *lyingSession) Send(ctx context.Context, f *protocol.Frame) error {
	if f.Kind.Rows() {
		s.mu.Lock()
		s.in[f.Pos] = append([]byte(nil), f.Hidden()...)
		s.mu.Unlock()
	}
	return s.StageSession.Send(ctx, f)
}

func (s *lyingSession) bend(f *protocol.Frame) *protocol.Frame {
	mode := s.mode.Load()
	if mode == nil || !f.Kind.Rows() {
		return f
	}
	s.mu.Lock()
	in, out := floats(s.in[f.Pos]), floats(f.Hidden())
	s.mu.Unlock()
	w := int(f.Width)
	for i := range int(f.Rows) {
		row := out[i*w : (i+1)*w]
		if tell := lies[*mode]; tell != nil {
			tell(in[i*w:(i+1)*w], row)
			continue
		}
		honest := append([]float32(nil), row...)
		if s.last != nil {
			copy(row, s.last)
		}
		s.last = honest
	}
	bent := *f
	bent.Payload = protocol.F32Bytes(out)
	return &bent
}

func floats(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// auditedNetwork samples every session. The nodes with the last range lie as
// bend says; what they re-execute for others they compute truly.
func auditedNetwork(t *testing.T, model string, bend func(seam.Stage) seam.Stage, ranges ...string) *network {
	t.Helper()
	needLibrary(t)
	leaktest.Check(t)
	n := &network{t: t, dir: t.TempDir(), model: model, trackerAddr: "127.0.0.1:0", log: testLog(t)}
	n.audits = numeric.Config{Share: 1, Settle: 3 * time.Second, PerMinute: 1000}
	n.startTracker()
	for i, r := range ranges {
		o := program.NodeOptions{Data: filepath.Join(n.dir, fmt.Sprintf("node-%d", i)), Layers: r}
		if r != ranges[len(ranges)-1] || bend == nil {
			n.startNode(o)
			continue
		}
		o.Model, o.Tracker, o.Log, o.Threads = n.model, n.url, n.log, 1
		x, err := program.NewNode(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		x.Bend(bend)
		m := &node{Node: x, part: run("liar "+r, x.Run), o: o}
		t.Cleanup(func() { m.end(t) })
		n.nodes = append(n.nodes, m)
	}
	n.startGateway()
	for _, x := range n.nodes {
		<-x.Ready()
	}
	n.waitRoutable()
	eventually(t, "all shards at the tracker", func() bool {
		var list protocol.Models
		if getJSON(t.Context(), n.url+"v1/models", &list) != nil || len(list.Models) != 1 {
			return false
		}
		sum := 0
		for _, r := range list.Models[0].Replicas {
			sum += r
		}
		want := 0
		for _, r := range ranges {
			x, err := protocol.ParseRange(r)
			if err != nil {
				t.Fatal(err)
			}
			want += x.Len()
		}
		return sum == want
	})
	return n
}

// audited asks once and returns the audit of that session.
func (n *network) audited(question string, tokens int) numeric.Record {
	n.t.Helper()
	r := ask(question)
	r.MaxTokens, r.IgnoreEOS = tokens, true
	r.NoDraft = true // the liars bend rows of hidden states alone
	if n.model == guideF16 {
		r.Model = guideF16Name
	}
	a := n.answer(r)
	var rec *numeric.Record
	eventually(n.t, "the session's audit", func() bool {
		page, err := n.trackerOf.NumericAudits(n.t.Context(), time.Time{}, 100)
		if err != nil {
			n.t.Fatal(err)
		}
		for i := range page.Audits {
			if page.Audits[i].Session == a.Session {
				rec = &page.Audits[i]
			}
		}
		return rec != nil
	})
	if rec.Measures == nil {
		n.t.Fatalf("the audit failed: %v", rec.Error)
	}
	m := rec.Measures
	n.t.Logf("hop %d (%s) of node %s by %s: %s, %d rows (%d proven, %d exact), median %.3g, p90 %.3g, max %.3g, cosine %.6f, max abs %.3g",
		rec.Hop, rec.Use, rec.Node.Short(), rec.Auditor.Short(), m.Basis, m.Rows, m.Proven, m.Exact, m.Median, m.P90, m.Max, m.MinCosine, m.MaxAbs)
	return *rec
}

// TestAudits: distances of honest nodes are far below those of nodes that lie,
// though another process computes them, and decode steps as one chunk.
func TestAudits(t *testing.T) {
	mode := new(atomic.Pointer[string])
	n := auditedNetwork(t, guide, func(st seam.Stage) seam.Stage { return &liar{Stage: st, mode: mode} }, "0-3", "3-6", "6-8", "3-6")
	honest := 0.0
	for _, q := range questions {
		r := n.audited(q, 120)
		m := r.Measures
		if r.Hop != 1 || m.Basis != auditmsg.AuditContribution || m.Rows < 125 || r.Auditor == r.Node || r.Class != m.Class || m.Class.Threads != 1 || m.Class.CPU == "" {
			t.Errorf("%+v, %+v", r, m)
		}
		honest = max(honest, m.Max)
	}
	// On the computers that we know they are equal bit for bit: the steps are
	// re-executed in small chunks, which run the same kernels.
	if honest > 1e-3 {
		t.Errorf("honest nodes are %g away", honest)
	}
	for name := range lies {
		t.Run(name, func(t *testing.T) {
			n.t = t
			defer func() { n.t = n.parent }()
			mode.Store(&name)
			defer mode.Store(nil)
			if r := n.audited(questions[0], 40); r.Measures.Median < 10*honest || r.Measures.Median < .04 {
				t.Errorf("median %g, honest nodes were at most %g away", r.Measures.Median, honest)
			}
		})
	}
	n.t = t
	page, err := n.trackerOf.NumericAudits(t.Context(), time.Time{}, 100)
	if err != nil || len(page.Calibration) != 1 || page.Calibration[0].Audits != len(page.Audits) || page.Share != 1 {
		t.Errorf("%+v, %v", page, err)
	}
	n.idle()
}

// TestAuditOfHeads: of a route of two hops only the head can be audited; its
// input is kept by the gateway, which nobody can dial.
func TestAuditOfHeads(t *testing.T) {
	n := auditedNetwork(t, guide, nil, "0-3", "3-8", "0-4")
	for _, q := range questions {
		r := n.audited(q, 20)
		if m := r.Measures; r.Hop != 0 || m.Basis != auditmsg.AuditWhole || m.Rows < 20 || m.Max > 1e-2 {
			t.Errorf("%+v, %+v", r, m)
		}
	}
	n.idle()
}

// otherWeights is a stage that opens its sessions on the stage of another model.
type otherWeights struct {
	seam.Stage
	other *program.Node
	on    *atomic.Bool
}

func (o *otherWeights) Open(ctx context.Context, x seam.StageOpen) (seam.StageSession, error) {
	if o.on.Load() {
		return o.other.Stage().Process().Open(ctx, x)
	}
	return o.Stage.Open(ctx, x)
}

// TestAuditOfOtherWeights: a node that runs the 8-bit weights of a model where
// the 16-bit ones are leased. The answers are as good, the distance shows it.
func TestAuditOfOtherWeights(t *testing.T) {
	needLibrary(t)
	x, err := program.NewNode(t.Context(), program.NodeOptions{Data: t.TempDir(), Model: guide, Layers: "3-6", Log: discard, Threads: 1})
	if err != nil {
		t.Fatal(err)
	}
	p := run("8-bit node", x.Run)
	t.Cleanup(func() { p.end(t) })
	<-x.Ready()
	on := new(atomic.Bool)
	n := auditedNetwork(t, guideF16, func(st seam.Stage) seam.Stage { return &otherWeights{Stage: st, other: x, on: on} }, "0-3", "3-6", "6-8", "3-6")
	honest := n.audited(questions[0], 40).Measures
	on.Store(true)
	lying := n.audited(questions[0], 40).Measures
	if honest.Max > 1e-3 || lying.Median < 10*honest.Max || lying.Median < 1e-3 {
		t.Errorf("honest at most %g, lying median %g", honest.Max, lying.Median)
	}
}
