package load

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	"neuron/engine/protocol"
)

// Sessions of the load: two hops, a prompt of one chunk, and spans of an answer.
const (
	hops       = 2
	prompt     = 64
	leaseRows  = 1024
	inFlight   = 512 // sessions at a time; more than that, and the tracker is far behind
	spanTokens = protocol.MaxSpanPositions
)

// work asks for routes at a fixed rate and delivers the receipts of each
// session.
type work struct {
	o *Options
	c *crowd

	nonces nonces

	mu        sync.Mutex // guards below
	routes    []time.Duration
	batches   []time.Duration
	refused   map[protocol.Code]int
	sent      int // receipts
	accepted  int
	verdicts  map[protocol.Code]int
	late      int // sessions that could not start in time
	firstFail error
	leases    []lease // that were given out
}

// lease is one for a gateway, which looks at its signature when the load is over.
type lease struct {
	*protocol.SignedLease
	of  *node
	now time.Time
}

func newWork(o *Options, c *crowd) *work {
	return &work{o: o, c: c, refused: map[protocol.Code]int{}, verdicts: map[protocol.Code]int{}}
}

// prepare makes what all receipts of the load need.
func (w *work) prepare() error {
	const ends = 2
	return w.nonces.prepare(int(w.o.For.Seconds()*float64(w.o.Routes)) * hops * w.o.spansPerSession() * ends)
}

// run starts sessions at their times, whatever became of those before: a slow
// tracker does not slow the load down.
func (w *work) run(ctx context.Context) error {
	var wg sync.WaitGroup
	defer wg.Wait()
	slots := make(chan struct{}, inFlight)
	every := time.Second / time.Duration(w.o.Routes)
	start := time.Now()
	models := w.c.nodes[:min(w.o.Models, len(w.c.nodes))]
	for i := range int(w.o.For / every) {
		due := start.Add(time.Duration(i) * every)
		if err := wait(ctx, time.Until(due)); err != nil {
			return err
		}
		select {
		case slots <- struct{}{}:
		default:
			w.mu.Lock()
			w.late++
			w.mu.Unlock()
			continue
		}
		wg.Go(func() {
			defer func() { <-slots }()
			if err := w.session(ctx, w.c.gateways[i%len(w.c.gateways)], models[i%len(models)].report.Shards[0].Capability.Model, due); err != nil {
				w.mu.Lock()
				w.refused[protocol.AsError(err).Code]++
				if w.firstFail == nil {
					w.firstFail = err
				}
				w.mu.Unlock()
			}
		})
	}
	return nil
}

// session is the life of one session as the tracker sees it.
func (w *work) session(ctx context.Context, g *node, m protocol.ModelID, due time.Time) error {
	id := protocol.NewSessionID()
	reply, err := g.client.Route(ctx, protocol.RouteRequest{Session: id, Model: string(m), Context: leaseRows, Prompt: prompt, Policy: protocol.PolicyPublic})
	took := time.Since(due)
	if err != nil {
		return err
	}
	var l protocol.Lease
	if err := json.Unmarshal(reply.Lease.Lease, &l); err != nil {
		return fmt.Errorf("lease: %w", err)
	}
	spans := w.o.spansPerSession()
	tell := func(seq uint64, p protocol.Phase) {
		t := protocol.Telemetry{Session: id, Model: m, Seq: seq, At: time.Now(), Phase: p, PrefillTotal: prompt, PrefillDone: prompt, Tokens: (spans - 1) * spanTokens, TokensPerSecond: 10}
		for i, h := range l.Hops {
			t.Route = append(t.Route, protocol.HopTelemetry{Hop: i, Node: h.Node, Use: h.Use, Health: protocol.HealthOK,
				Counters: protocol.Counters{PrefillRows: prompt, DecodeRows: int64(spans-1) * spanTokens}})
		}
		if p == protocol.PhaseDone {
			t.Finish = protocol.FinishStop
		}
		g.client.SendSession(t)
	}
	tell(1, protocol.PhaseDecode)
	w.mu.Lock()
	w.routes = append(w.routes, took)
	w.leases = append(w.leases, lease{reply.Lease, g, time.Now()})
	w.mu.Unlock()
	if err := w.deliver(ctx, g, &l, reply.Lease.Hash(), spans); err != nil {
		return err
	}
	tell(2, protocol.PhaseDone)
	return nil
}

// deliver makes the receipts of a session as its hops would, and sends them by
// each hop's own connection.
func (w *work) deliver(ctx context.Context, g *node, l *protocol.Lease, hash protocol.Hash, spans int) error {
	roots := make([]protocol.Hash, spans*(len(l.Hops)+1))
	for i := range roots {
		if _, err := rand.Read(roots[i][:]); err != nil {
			return err
		}
	}
	for hop, h := range l.Hops {
		sender, receiver := w.c.byID[h.Node], g
		if hop+1 < len(l.Hops) {
			receiver = w.c.byID[l.Hops[hop+1].Node]
		}
		var batch [][]byte
		for seq := range spans {
			s := protocol.Span{Kind: protocol.SpanPrefill, Last: prompt, Rows: prompt, Input: roots[hop*spans+seq], Output: roots[(hop+1)*spans+seq]}
			if seq > 0 {
				s.Kind, s.Seq, s.First, s.Rows = protocol.SpanDecode, uint32(seq), uint32(prompt+(seq-1)*spanTokens), spanTokens
				s.Last = s.First + spanTokens
			}
			r := &protocol.Receipt{
				Session: l.Session, Lease: hash, Model: l.Model, Node: h.Node, Receiver: receiver.id.ID(), Hop: hop, Layers: h.Use, DType: l.DType,
				Span: s, Class: protocol.Class{Threads: 1, CPU: "simulated", Llama: build.Llama, Engine: "simulated"}, Time: time.Now().Truncate(time.Millisecond),
			}
			full, err := w.nonces.receipt(r, sender.signer, receiver.signer)
			if err != nil {
				return err
			}
			batch = append(batch, full)
		}
		from := time.Now()
		answer, err := sender.client.Deliver(ctx, batch)
		if err != nil {
			return fmt.Errorf("deliver: %w", err)
		}
		w.mu.Lock()
		w.batches = append(w.batches, time.Since(from))
		w.sent += len(batch)
		for _, v := range answer {
			switch {
			case v.Status == protocol.ReceiptAccepted:
				w.accepted++
			case v.Error != nil:
				w.verdicts[v.Error.Code]++
			default:
				w.verdicts[protocol.Code(v.Status)]++
			}
		}
		w.mu.Unlock()
	}
	return nil
}

// checkLeases verifies what was given out.
func (w *work) checkLeases() error {
	for _, l := range w.leases {
		if _, err := l.Verify(l.of.client.TrackerKey(), l.now); err != nil {
			return err
		}
	}
	return nil
}

// sessions is how many got a route.
func (w *work) sessions() int {
	w.mu.Lock()
	defer w.mu.Unlock()
	return len(w.routes)
}

func (w *work) report(r *report) {
	w.mu.Lock()
	defer w.mu.Unlock()
	want := w.o.Routes * int(w.o.For/time.Second)
	p50, p99, most := percentiles(w.routes)
	r.judge("route requests", p99 <= routeP99 && len(w.routes) >= want*99/100,
		"%d of %d in %s (%d refused %v, %d not started): p50 %s, p99 %s, longest %s; target p99 %s",
		len(w.routes), want, w.o.For, sum(w.refused), w.refused, w.late, p50, p99, most, routeP99)
	if w.firstFail != nil {
		r.line("first failure", "%v", w.firstFail)
	}
	p50, p99, most = percentiles(w.batches)
	r.judge("receipts", w.accepted == w.sent && w.sent >= w.o.Receipts*int(w.o.For/time.Second)*99/100,
		"%d sent, %d a second, %d accepted, others %v; a batch of %d: p50 %s, p99 %s, longest %s",
		w.sent, w.sent/int(w.o.For/time.Second), w.accepted, w.verdicts, w.o.spansPerSession(), p50, p99, most)
}

func sum(m map[protocol.Code]int) (n int) {
	for _, v := range m {
		n += v
	}
	return n
}

func percentiles(d []time.Duration) (p50, p99, most time.Duration) {
	if len(d) == 0 {
		return 0, 0, 0
	}
	slices.Sort(d)
	at := func(p int) time.Duration { return d[min(len(d)*p/100, len(d)-1)].Round(10 * time.Microsecond) }
	return at(50), at(99), at(100)
}
