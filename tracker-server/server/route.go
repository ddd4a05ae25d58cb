package server

import (
	"context"
	"slices"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/routing"
	"neuron/tracker-server/sessions"
	"neuron/tracker-server/sessions/stored"
)

// onRoute chooses a route, promises its KV memory, stores the lease and only
// then gives it away.
func (c *core) onRoute(ctx context.Context, p peer, e *protocol.Envelope) error {
	arrived := time.Now()
	req, err := protocol.Unpack[protocol.RouteRequest](e)
	if err != nil {
		return err
	}
	if err := checkRoute(req); err != nil {
		return err
	}
	if err := c.billing.NodesOf(ctx, p.Node(), req); err != nil {
		return err
	}
	chosen := time.Now()
	s, err := c.lease(p, req)
	c.metrics.routed(time.Since(chosen), err)
	if err != nil {
		return err
	}
	reserved, added, err := c.commit(ctx, &s, req)
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		if reserved {
			c.billing.Unused(req.Session)
		}
		if added {
			s.Phase, s.End = protocol.PhaseFailed, &sessions.End{At: c.o.Now(), Finish: protocol.FinishError, Error: protocol.AsError(err)}
			c.writeLocked(s)
		}
		c.table.Forget(req.Session)
		delete(c.routes, req.Session)
		for _, h := range s.Lease.Hops {
			c.reg.Release(h.Node, req.Session)
		}
		return err
	}
	c.mu.Lock()
	c.table.Given(req.Session)
	c.mu.Unlock()
	c.record(&s)
	c.o.Logger.Info("lease", "session", req.Session, "model", s.Lease.Model.Short(), "driver", p.Node().Short(), "hops", len(s.Lease.Hops), "cost_us", s.CostMicros)
	reply, err := protocol.Pack(protocol.MsgLease, e.ID, protocol.RouteReply{Lease: s.Signed, CostMicros: s.CostMicros})
	if err != nil {
		return err
	}
	c.audits.Sample(s.Lease, s.Name)
	p.Send(reply)
	c.metrics.leased(time.Since(arrived))
	return nil
}

// commit sets credit aside for a session and stores it. Both go to the disk at
// one time: each waits for what others write. It reports what was done, also
// beside an error.
func (c *core) commit(ctx context.Context, s *sessions.Session, req *protocol.RouteRequest) (reserved, added bool, err error) {
	rec, err := stored.To(*s)
	if err != nil {
		return false, false, err
	}
	var wg sync.WaitGroup
	var refused error
	wg.Go(func() { reserved, refused = c.billing.Reserve(ctx, s, req) })
	err = c.store.AddSession(ctx, rec)
	wg.Wait()
	added = err == nil
	if refused != nil {
		err = refused // the reason that the gateway can act on
	}
	return reserved, added, err
}

func checkRoute(r *protocol.RouteRequest) error {
	if _, err := protocol.ParseSessionID(string(r.Session)); err != nil {
		return err
	}
	if r.Model == "" || len(r.Model) > 256 {
		return protocol.Errorf(protocol.CodeInvalidRequest, "a model name of %d bytes", len(r.Model))
	}
	if r.Context < 1 || r.Prompt < 0 || r.Prompt > r.Context {
		return protocol.Errorf(protocol.CodeInvalidRequest, "a context of %d tokens with a prompt of %d", r.Context, r.Prompt)
	}
	switch r.Policy {
	case "", protocol.PolicyPublic:
		if len(r.Nodes) > 0 {
			return protocol.Errorf(protocol.CodeInvalidRequest, "only private routes list nodes")
		}
	case protocol.PolicyPrivate:
	default:
		return protocol.Errorf(protocol.CodeInvalidRequest, "unknown policy %.32q", r.Policy)
	}
	return registry.CheckRoute(r)
}

// only makes the filter of a private route; nil stands for a public one.
func only(r *protocol.RouteRequest) map[protocol.NodeID]bool {
	if r.Policy != protocol.PolicyPrivate {
		return nil
	}
	out := make(map[protocol.NodeID]bool, len(r.Nodes))
	for _, id := range r.Nodes {
		out[id] = true
	}
	return out
}

// lease does what must happen in one step: find the route, sign it, and
// promise its memory, so that two requests never get the same bytes.
func (c *core) lease(p peer, req *protocol.RouteRequest) (s sessions.Session, err error) {
	now := c.o.Now()
	q := &routing.Request{
		Now: now, Gateway: p.Node(), Context: req.Context, Prompt: req.Prompt, RTT: req.RTTMicros, Only: only(req), Prefixes: req.Prefixes,
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.currentLocked(p); err != nil {
		return s, err
	}
	if err := c.table.CheckNew(req.Session, p.Node()); err != nil {
		return s, err
	}
	x, err := c.reg.Index(req.Model)
	if err != nil {
		return s, err
	}
	c.places.Asked(now, x.Model)
	route := x.Find(q)
	if route == nil {
		return s, x.Refusal(q)
	}
	// Times in leases have whole microseconds, as the store keeps them.
	l := &protocol.Lease{
		Version: protocol.Version, Session: req.Session, Model: route.Model, Layers: route.Layers, Driver: p.Node(),
		Context: req.Context, DType: protocol.DTypeF32, EngineBuild: route.Build,
		Issued: now.UTC().Truncate(time.Microsecond), Expires: now.Add(c.o.LeaseFor).UTC().Truncate(time.Microsecond), Policy: protocol.PolicyPublic,
	}
	if q.Only != nil {
		l.Policy = protocol.PolicyPrivate
	}
	if req.DType == protocol.DTypeF16.String() && halves(route) {
		l.DType = protocol.DTypeF16
	}
	kv := make([]int64, 0, len(route.Hops))
	for _, h := range route.Hops {
		l.Hops = append(l.Hops, protocol.Hop{Node: h.Node, Addr: h.Addr, Use: h.Use, StepMicros: h.Cost.Stage})
		kv = append(kv, h.KVBytes)
	}
	signed, err := protocol.SignLease(l, c.key)
	if err != nil {
		return s, err
	}
	for i, h := range route.Hops {
		c.reg.Promise(h.Node, req.Session, route.Model, h.Use.First, kv[i])
		c.reg.Given(now, h.Node)
	}
	s = sessions.Session{
		Lease: l, Signed: signed, Name: route.Name, CostMicros: route.StepMicros, KVBytes: kv, Phase: protocol.PhaseRouting, Updated: now,
	}
	c.table.Add(s)
	c.routes[req.Session] = route
	return s, nil
}

// halves reports whether rows may cross all seams of a route as binary16.
func halves(r *routing.Route) bool {
	return len(r.Hops) > 1 && !slices.ContainsFunc(r.Hops, func(h routing.Hop) bool { return !h.Halves })
}

// Explanations a second, and at once: anybody may ask for one, and each takes a
// copy of the model's index, for which route requests wait, and a search per
// hop.
const (
	explainRate  = 20
	explainBurst = 40
)

// Explain implements web.Source. Its searches run on a copy.
func (c *core) Explain(model string, r routing.Request) (*routing.Explanation, error) {
	if !c.explain.Allow() {
		return nil, protocol.Errorf(protocol.CodeRateLimited, "more than %d explanations a second", explainRate)
	}
	r.Now = c.o.Now()
	c.mu.Lock()
	x, err := c.reg.Index(model)
	if err == nil {
		x = x.Clone(r.Gateway)
	}
	c.mu.Unlock()
	if err != nil {
		return nil, err
	}
	return x.Explain(&r)
}
