package registry

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/routing"
)

// bigNetwork has 10,000 nodes over 200 models; the first model is on heavy of
// them. Ranges start at eighths of the model and stop anywhere, as placement
// makes them; every node has measured its way to 64 others, most of them of its
// own model.
func bigNetwork(b *testing.B, heavy int) (*Registry, []Member, []*protocol.Report) {
	const nodes, models = 10_000, 200
	rnd := rand.New(rand.NewPCG(11, 12))
	r := newRegistry()
	members, reports := make([]Member, nodes), make([]*protocol.Report, nodes)
	of := make([][]int, models)
	for i := range nodes {
		members[i] = node(i, 1)
		m := 0
		if i >= heavy {
			m = 1 + rnd.IntN(models-1)
		}
		of[m] = append(of[m], i)
	}
	for m, holders := range of {
		layers := 16 + 8*(m%9)
		for k, i := range holders {
			eighth := layers / 8
			first := k % 8 * eighth
			last := min(layers, first+eighth*(1+rnd.IntN(3)))
			id := protocol.ModelID(fmt.Sprintf("%064x", m+1))
			s := shardReport(id, layers, first, last)
			s.Capability.Name = "model-" + fmt.Sprint(m)
			s.StepMicros, s.FreeKVBytes, s.MaxSessions = int64(last-first)*int64(700+rnd.IntN(600)), 1<<30, 64
			s.ChunkMicros = s.StepMicros * 20
			rep := report(s)
			rep.RTTMicros = make(map[protocol.NodeID]int64, 64)
			for range 64 {
				other := rnd.IntN(nodes)
				if rnd.IntN(4) > 0 {
					other = holders[rnd.IntN(len(holders))]
				}
				rep.RTTMicros[members[other].ID] = int64(1000 + rnd.IntN(120_000))
			}
			reports[i] = rep
			r.Join(t0, members[i])
			if err := r.Report(t0, members[i], rep); err != nil {
				b.Fatal(err)
			}
		}
	}
	return r, members, reports
}

func percentiles(b *testing.B, times []time.Duration, unit string) {
	slices.Sort(times)
	for _, p := range []int{50, 99} {
		b.ReportMetric(float64(times[(len(times)-1)*p/100].Nanoseconds())/1000, fmt.Sprintf("p%d-%s", p, unit))
	}
}

// BenchmarkRoute measures route requests, with the promise of their memory, as
// the tracker serves them under its lock: ten reports come in between two
// requests, which belong to random models ("mixed") or to the heavy one only.
// Besides the time on the clock it prints the time of the processor, which
// other programs on the machine do not lengthen.
func BenchmarkRoute(b *testing.B) {
	for _, heavy := range []int{1000, 1500} {
		r, members, reports := bigNetwork(b, heavy)
		for _, kind := range []string{"mixed", "heavy"} {
			b.Run(fmt.Sprintf("%s%d", kind, heavy), func(b *testing.B) {
				runtime.LockOSThread() // for the processor time
				defer runtime.UnlockOSThread()
				rnd := rand.New(rand.NewPCG(13, 14))
				now := t0
				var wall, cpu []time.Duration
				for i := 0; b.Loop(); i++ {
					b.StopTimer()
					for range 10 {
						k := rnd.IntN(len(members))
						s := &reports[k].Shards[0]
						s.StepMicros = max(1000, s.StepMicros+int64(rnd.IntN(200)-100))
						if err := r.Report(now, members[k], reports[k]); err != nil {
							b.Fatal(err)
						}
					}
					name := "model-0"
					if kind == "mixed" {
						name = fmt.Sprintf("model-%d", rnd.IntN(200))
					}
					q := &routing.Request{Now: now, Gateway: members[rnd.IntN(len(members))].ID, Context: 4096, Prompt: 800}
					session := protocol.SessionID(fmt.Sprint("s-", i))
					b.StartTimer()
					start, used := time.Now(), threadTime()
					x, err := r.Index(name)
					if err != nil {
						b.Fatal(err)
					}
					route := x.Find(q)
					if route == nil {
						b.Fatal(name, x.Refusal(q))
					}
					for _, h := range route.Hops {
						r.Promise(h.Node, session, route.Model, h.Use.First, h.KVBytes)
						r.Given(now, h.Node)
					}
					wall, cpu = append(wall, time.Since(start)), append(cpu, threadTime()-used)
					b.StopTimer()
					for _, h := range route.Hops {
						r.Release(h.Node, session)
					}
					b.StartTimer()
				}
				percentiles(b, wall, "us")
				percentiles(b, cpu, "cpu-us")
			})
		}
	}
}

// BenchmarkReport measures reports of random nodes with new figures.
func BenchmarkReport(b *testing.B) {
	r, members, reports := bigNetwork(b, 1000)
	rnd := rand.New(rand.NewPCG(15, 16))
	for b.Loop() {
		k := rnd.IntN(len(members))
		reports[k].Shards[0].StepMicros += int64(rnd.IntN(3)) - 1
		if err := r.Report(t0, members[k], reports[k]); err != nil {
			b.Fatal(err)
		}
	}
}

// TestBigNetworkNames keeps the benchmark's world honest: all models are there
// and have routes.
func TestBigNetworkNames(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED: 10,000 nodes in a short run")
	}
	r, _, _ := bigNetwork(new(testing.B), 1000)
	models := r.Models(t0)
	routable := 0
	for _, m := range models {
		if !strings.HasPrefix(m.Name, "model-") {
			t.Fatalf("a model named %q", m.Name)
		}
		if m.Routable {
			routable++
		}
	}
	if len(models) != 200 || routable != 200 {
		t.Errorf("%d models, %d routable", len(models), routable)
	}
}

// BenchmarkViews measures what pages, metrics and rounds of peer lists do under
// the tracker's lock.
func BenchmarkViews(b *testing.B) {
	r, members, _ := bigNetwork(b, 1000)
	b.Run("Models", func(b *testing.B) {
		for b.Loop() {
			r.Models(t0)
		}
	})
	b.Run("RefreshPeers", func(b *testing.B) {
		for b.Loop() {
			r.RefreshPeers(t0)
		}
	})
	b.Run("Peers", func(b *testing.B) {
		rnd := rand.New(rand.NewPCG(17, 18))
		for b.Loop() {
			r.Peers(t0, members[rnd.IntN(len(members))], 64)
		}
	})
	b.Run("Refusal", func(b *testing.B) {
		x, err := r.Index("model-0")
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			if x.Refusal(&routing.Request{Now: t0, Context: 4096, Only: map[protocol.NodeID]bool{members[0].ID: true}}) == nil {
				b.Fatal("no refusal")
			}
		}
	})
	b.Run("Clone", func(b *testing.B) {
		x, err := r.Index("model-0")
		if err != nil {
			b.Fatal(err)
		}
		for b.Loop() {
			x.Clone("gateway")
		}
	})
}
