// Package factors is acceptance criterion AC-15: with the real tracker and
// simulated nodes, each factor of the routing alone changes who carries a
// route. Package acceptance runs it; nothing else imports it.
package factors

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/url"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"time"

	"neuron/engine/control"
	"neuron/engine/protocol"
	"neuron/internal/identity"
	"neuron/internal/localnet"
)

// factorCase shows that one factor alone changes the choice. Two nodes hold the
// same model and are equal in everything, so the one with the smaller id
// carries the route; then change makes one of them differ in one thing, and the
// other one must carry it.
type factorCase struct {
	name string
	// change says what the favourite and its rival report from now on.
	change func(favourite, rival *protocol.Report)
	// ask changes the request; the node ids are those of favourite and rival.
	ask func(q *protocol.RouteRequest, favourite, rival protocol.NodeID)
	// setup replaces the two whole copies of the model by other ranges, given
	// per node; the last two are favourite and rival.
	setup []protocol.Range
	// later: the rival takes no sessions before the change.
	later bool
	// used says that the favourite's session of a moment ago is the change.
	used bool
}

func first(r *protocol.Report) *protocol.ShardReport { return &r.Shards[0] }

const (
	factorLayers  = 4
	factorContext = 1000 // 1,024 cells
	factorPrompt  = 500
)

var factorCases = []factorCase{
	{name: "stage time", change: func(f, _ *protocol.Report) { first(f).StepMicros *= 2 }},
	{name: "prefill time", change: func(f, _ *protocol.Report) { first(f).ChunkMicros *= 4 }},
	{name: "round trip to the gateway", ask: func(q *protocol.RouteRequest, f, r protocol.NodeID) {
		q.RTTMicros = map[protocol.NodeID]int64{f: 20_000, r: 10_000}
	}},
	{name: "round trip between hops", setup: []protocol.Range{{First: 0, Last: 2}, {First: 2, Last: 4}, {First: 2, Last: 4}},
		change: func(f, _ *protocol.Report) {
			slow := map[protocol.NodeID]int64{}
			for id := range f.RTTMicros { // the node before
				slow[id] = 30_000
			}
			f.RTTMicros = slow
		}},
	{name: "queue", change: func(f, _ *protocol.Report) { first(f).Queue = 2 }},
	{name: "sessions", change: func(f, _ *protocol.Report) { first(f).Sessions = 2 }},
	{name: "memory pressure", change: func(f, _ *protocol.Report) { f.MemoryPressure = 0.6 }},
	{name: "disk pressure", change: func(f, _ *protocol.Report) { f.FreeDisk = 100 << 20 }},
	{name: "cache warmth",
		change: func(_, r *protocol.Report) { first(r).Prefixes = []string{"system prompt"} },
		ask: func(q *protocol.RouteRequest, _, _ protocol.NodeID) {
			q.Prefixes = []protocol.Prefix{{ID: "system prompt", Tokens: 400}}
		}},
	{name: "hop count", later: true, setup: []protocol.Range{{First: 0, Last: 2}, {First: 2, Last: 4}, {First: 0, Last: 4}},
		change: func(_, r *protocol.Report) { r.SharingOff = "" }},
	{name: "fairness", used: true},
	{name: "KV memory with headroom", change: func(f, _ *protocol.Report) { first(f).FreeKVBytes = 1024*first(f).Capability.KVBytesPerCell + 1 }},
	{name: "private policy", ask: func(q *protocol.RouteRequest, _, r protocol.NodeID) {
		q.Policy, q.Nodes = protocol.PolicyPrivate, []protocol.NodeID{r}
	}},
	{name: "state", change: func(f, _ *protocol.Report) { f.SharingOff = "on battery" }},
}

// simulated is a node without a stage: it reports over the real channel.
type simulated struct {
	id     *identity.Identity
	client *control.Client
	mu     sync.Mutex
	report protocol.Report // guarded by mu
}

func (s *simulated) now() protocol.Report {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := s.report
	out.Shards = slices.Clone(out.Shards)
	return out
}

// change makes the node report r from now on.
func (s *simulated) change(r protocol.Report) {
	s.mu.Lock()
	s.report = r
	s.mu.Unlock()
	s.client.ReportNow()
}

// crowd runs simulated nodes and a gateway until end is called.
type crowd struct {
	url    string
	cancel context.CancelFunc
	wg     sync.WaitGroup
	mu     sync.Mutex
	errs   []error // guarded by mu
}

func (c *crowd) run(ctx context.Context, o control.Options) (*control.Client, error) {
	o.URL, o.Engine, o.Logger = c.url, "simulated", slog.New(slog.DiscardHandler)
	o.Build = protocol.Build{Protocol: protocol.Version, Llama: "simulated"}
	client, err := control.New(o)
	if err != nil {
		return nil, err
	}
	c.wg.Go(func() {
		if err := client.Run(ctx); err != nil {
			c.mu.Lock()
			c.errs = append(c.errs, err)
			c.mu.Unlock()
		}
	})
	return client, nil
}

func (c *crowd) node(ctx context.Context, id *identity.Identity, report protocol.Report) (*simulated, error) {
	s := &simulated{id: id, report: report}
	var err error
	s.client, err = c.run(ctx, control.Options{Identity: id, Role: protocol.RoleNode, Addr: "127.0.0.1:9", Host: "simulated", Report: s.now})
	return s, err
}

func (c *crowd) end() error {
	c.cancel()
	c.wg.Wait()
	return errors.Join(c.errs...)
}

// factorReport is a node that is good in everything.
func factorReport(model protocol.ModelID, name string, r protocol.Range) protocol.Report {
	n := int64(r.Len())
	return protocol.Report{
		FreeMemory: 8 << 30, FreeDisk: 100 << 30,
		Shards: []protocol.ShardReport{{
			State: protocol.ShardReady, FreeKVBytes: 1 << 24, MaxSessions: 8, StepMicros: 5000 * n, ChunkMicros: 50_000 * n,
			Capability: protocol.Capability{
				Model: model, Name: name, Architecture: "llama", Layers: factorLayers, Loaded: r, Head: r.First == 0, Tail: r.Last == factorLayers,
				Width: 64, DTypes: []string{"f32"}, KVBytesPerCell: 256 * n, MaxContext: 4096, ChunkRows: 64,
			},
		}},
	}
}

// explained is what the criterion reads of GET /v1/routes/explain.
type explained struct {
	Hops []struct {
		Node protocol.NodeID `json:"node"`
	} `json:"hops"`
	Shards int `json:"shards"`
	Out    int `json:"out"`
}

// Check runs it with the programs in bin, in a folder of its own below data,
// and returns its figure.
func Check(ctx context.Context, bin, data string) (figure string, err error) {
	net, err := localnet.Start(ctx, localnet.Options{Bin: bin, Data: filepath.Join(data, "factors")})
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, net.Stop()) }()
	runCtx, cancel := context.WithCancel(ctx)
	c := &crowd{url: net.TrackerURL, cancel: cancel}
	defer func() { err = errors.Join(err, c.end()) }()
	driver, err := identity.New()
	if err != nil {
		return "", err
	}
	gateway, err := c.run(runCtx, control.Options{Identity: driver, Role: protocol.RoleGateway})
	if err != nil {
		return "", err
	}
	if err := gateway.Await(ctx); err != nil {
		return "", err
	}
	var names []string
	for i := range factorCases {
		f := &factorCases[i]
		if err := c.check(runCtx, f, i, gateway, driver.ID()); err != nil {
			return "", fmt.Errorf("%s: %w", f.name, err)
		}
		names = append(names, f.name)
	}
	return fmt.Sprintf("factors=%d: %s (relay: priced, but no node has one yet)", len(names), strings.Join(names, ", ")), nil
}

func (c *crowd) check(ctx context.Context, f *factorCase, i int, gateway *control.Client, driver protocol.NodeID) error {
	ranges := f.setup
	if ranges == nil {
		ranges = []protocol.Range{{Last: factorLayers}, {Last: factorLayers}}
	}
	ids := make([]*identity.Identity, len(ranges))
	for k := range ids {
		var err error
		if ids[k], err = identity.New(); err != nil {
			return err
		}
	}
	slices.SortFunc(ids, func(a, b *identity.Identity) int { return strings.Compare(string(a.ID()), string(b.ID())) })
	model := protocol.ModelID(fmt.Sprintf("%064x", i+1))
	name := "factor-" + strconv.Itoa(i+1)
	// Of three nodes the one before the others has the range that all routes
	// begin with, or, for the hop count, the first half of the long route.
	nodes, out := make([]*simulated, len(ranges)), 0
	for k, r := range ranges {
		report := factorReport(model, name, r)
		if k > 0 && len(ranges) > 2 {
			report.RTTMicros = map[protocol.NodeID]int64{ids[0].ID(): 5000}
		}
		if f.later && k == len(ranges)-1 {
			report.SharingOff = "later"
			out = 1
		}
		var err error
		if nodes[k], err = c.node(ctx, ids[k], report); err != nil {
			return err
		}
	}
	favourite, rival := nodes[len(nodes)-2], nodes[len(nodes)-1]
	if err := c.await(ctx, name, driver, len(nodes), out, favourite.id.ID()); err != nil {
		return fmt.Errorf("before the change: %w", err)
	}
	ask := func() (*protocol.Lease, error) {
		q := protocol.RouteRequest{Session: protocol.NewSessionID(), Model: name, Context: factorContext, Prompt: factorPrompt, Policy: protocol.PolicyPublic}
		if f.ask != nil {
			f.ask(&q, favourite.id.ID(), rival.id.ID())
		}
		reply, err := gateway.Route(ctx, q)
		if err != nil {
			return nil, err
		}
		return reply.Lease.Verify(gateway.TrackerKey(), time.Now())
	}
	if f.used {
		l, err := ask()
		if err != nil {
			return err
		}
		if got := l.Hops[0].Node; got != favourite.id.ID() {
			return fmt.Errorf("the first session went to %s, not to %s", got.Short(), favourite.id.ID().Short())
		}
		gateway.SendSession(protocol.Telemetry{Session: l.Session, Seq: 1, Phase: protocol.PhaseFailed, At: time.Now()})
		if err := c.awaitEnd(ctx, l.Session); err != nil {
			return err
		}
	}
	if f.change != nil {
		a, b := favourite.now(), rival.now()
		f.change(&a, &b)
		favourite.change(a)
		rival.change(b)
		if len(b.Shards[0].Prefixes) > 0 {
			if err := c.awaitPrefixes(ctx, rival.id.ID()); err != nil {
				return err
			}
		}
	}
	if f.ask == nil {
		if err := c.await(ctx, name, driver, len(nodes), -1, rival.id.ID()); err != nil {
			return fmt.Errorf("after the change: %w", err)
		}
	}
	l, err := ask()
	if err != nil {
		return err
	}
	if got := l.Hops[len(l.Hops)-1].Node; got != rival.id.ID() {
		return fmt.Errorf("the lease went to %s, not to %s", got.Short(), rival.id.ID().Short())
	}
	return nil
}

// await waits until the tracker knows all shards, out of them cannot take part
// (-1: any number), and the route ends on the wanted node.
func (c *crowd) await(ctx context.Context, model string, gateway protocol.NodeID, shards, out int, want protocol.NodeID) error {
	q := url.Values{"model": {model}, "context": {strconv.Itoa(factorContext)}, "prompt": {strconv.Itoa(factorPrompt)}, "gateway": {string(gateway)}}
	var seen explained
	err := until(ctx, func() (bool, error) {
		seen = explained{}
		err := localnet.JSON(ctx, c.url+"/v1/routes/explain?"+q.Encode(), &seen)
		return err == nil && seen.Shards == shards && (out < 0 || seen.Out == out) && len(seen.Hops) > 0 && seen.Hops[len(seen.Hops)-1].Node == want, err
	})
	if err != nil {
		return fmt.Errorf("no route over %s: %+v: %w", want.Short(), seen, err)
	}
	return nil
}

// awaitEnd waits until the tracker knows that a session is over.
func (c *crowd) awaitEnd(ctx context.Context, id protocol.SessionID) error {
	return until(ctx, func() (bool, error) {
		var s struct {
			Phase protocol.Phase `json:"phase"`
		}
		err := localnet.JSON(ctx, c.url+"/v1/sessions/"+string(id), &s)
		return err == nil && s.Phase == protocol.PhaseFailed, err
	})
}

// awaitPrefixes waits until the tracker knows that a node has cached some.
func (c *crowd) awaitPrefixes(ctx context.Context, id protocol.NodeID) error {
	return until(ctx, func() (bool, error) {
		var list struct {
			Nodes []struct {
				Node   protocol.NodeID `json:"node"`
				Shards []struct {
					Prefixes int `json:"cached_prefixes"`
				} `json:"shards"`
			} `json:"nodes"`
		}
		err := localnet.JSON(ctx, c.url+"/v1/nodes", &list)
		for _, n := range list.Nodes {
			if n.Node == id && len(n.Shards) > 0 && n.Shards[0].Prefixes > 0 {
				return true, nil
			}
		}
		return false, err
	})
}

// until asks a few times a second, for ten seconds at most.
func until(ctx context.Context, ok func() (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, 10*time.Second)
	defer cancel()
	for {
		done, err := ok()
		if done {
			return nil
		}
		select {
		case <-ctx.Done():
			return errors.Join(context.Cause(ctx), err)
		case <-time.After(20 * time.Millisecond):
		}
	}
}
