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
	"neuron/engine/seam"
	"neuron/internal/leaktest"
	"neuron/tracker-server/audit/numeric"
)

// lie changes one row that a node sends on; in is what it was given.
type lie func(in, out []float32)

// lies are what the last node of a network may tell, by name.
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

// liar is a stage whose sessions send wrong rows.
type liar struct {
	seam.Stage
	mode *atomic.Pointer[string]
}

func (l *liar) Open(ctx context.Context, o seam.StageOpen) (seam.StageSession, error) {
	st, err := l.Stage.Open(ctx, o)
	if err != nil {
		return nil, err
	}
	s := &lyingSession{StageSession: st, mode: l.mode, in: map[uint32][]byte{}, out: make(chan *protocol.Frame, 1024)}
	go func() { // ends when the stage closes its channel
		defer close(s.out)
		for f := range st.Frames() {
			s.out <- s.bend(f)
		}
	}()
	return s, nil
}

type lyingSession struct {
	seam.StageSession
	mode *atomic.Pointer[string]
	out  chan *protocol.Frame
	last []float32

	mu sync.Mutex
	in map[uint32][]byte // guarded by mu; by position
}

func (s *lyingSession) Frames() <-chan *protocol.Frame { return s.out }

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

// auditedNetwork samples every session. The last node lies as mode says. Node
// plain computes with other kernels and in other chunks, so that honest nodes
// are not equal bit for bit; -1 for none.
func auditedNetwork(t *testing.T, mode *atomic.Pointer[string], plain int, ranges ...string) *network {
	t.Helper()
	needLibrary(t)
	leaktest.Check(t)
	n := &network{t: t, dir: t.TempDir(), model: guide, trackerAddr: "127.0.0.1:0", log: testLog(t)}
	n.audits = numeric.Config{Share: 1, Settle: 3 * time.Second, PerMinute: 1000}
	n.startTracker()
	for i, r := range ranges {
		o := program.NodeOptions{Data: filepath.Join(n.dir, fmt.Sprintf("node-%d", i)), Layers: r}
		if i == plain {
			o.NoRepack, o.ChunkRows = true, 64
		}
		if i < len(ranges)-1 || mode == nil {
			n.startNode(o)
			continue
		}
		o.Model, o.Tracker, o.Log, o.Threads = n.model, n.url, n.log, 1
		x, err := program.NewNode(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		x.Bend(func(st seam.Stage) seam.Stage { return &liar{Stage: st, mode: mode} })
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
	n := auditedNetwork(t, mode, 1, "0-3", "3-6", "6-8", "3-6")
	last := n.nodes[3].ID()
	honest := 0.0
	for _, q := range questions {
		r := n.audited(q, 40)
		m := r.Measures
		if r.Hop != 1 || m.Basis != protocol.AuditContribution || m.Rows < 45 || r.Auditor == r.Node || r.Class != m.Class || m.Class.Threads != 1 || m.Class.CPU == "" {
			t.Errorf("%+v, %+v", r, m)
		}
		honest = max(honest, m.Max)
	}
	if honest == 0 || honest > 1e-2 {
		t.Errorf("honest nodes are %g away", honest)
	}
	for name := range lies {
		t.Run(name, func(t *testing.T) {
			n.t = t
			defer func() { n.t = n.parent }()
			mode.Store(&name)
			defer mode.Store(nil)
			for try := 0; ; try++ {
				if try == 8 {
					t.Fatal("the node that lies was never on a route")
				}
				r := n.audited(questions[try%2], 40)
				if r.Node != last {
					continue // the honest one served, and was audited by the other's true stage
				}
				if r.Measures.Median < 10*honest || r.Measures.Median < 1e-2 {
					t.Errorf("median %g, honest nodes were at most %g away", r.Measures.Median, honest)
				}
				return
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
	n := auditedNetwork(t, nil, -1, "0-3", "3-8", "0-4")
	for _, q := range questions {
		r := n.audited(q, 20)
		if m := r.Measures; r.Hop != 0 || m.Basis != protocol.AuditWhole || m.Rows < 20 || m.Max > 1e-2 {
			t.Errorf("%+v, %+v", r, m)
		}
	}
	n.idle()
}
