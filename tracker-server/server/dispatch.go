package server

import (
	"context"
	"errors"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/routing"
	"neuron/tracker-server/sessions"
)

// message handles one message of a joined peer and answers errors.
func (c *core) message(ctx context.Context, p peer, e *protocol.Envelope) {
	c.metrics.message(e.Kind)
	var err error
	switch e.Kind {
	case protocol.MsgReport:
		err = c.onReport(p, e)
	case protocol.MsgRoute:
		err = c.onRoute(ctx, p, e)
	case protocol.MsgSession:
		err = c.onSession(p, e)
	case protocol.MsgHopFailed:
		err = c.onHopFailed(p, e)
	case protocol.MsgModels:
		err = c.onModels(p, e)
	case protocol.MsgPlace:
		err = c.onPlace(p, e)
	case protocol.MsgError:
		c.o.Logger.Info("a peer answered with an error", "node", p.Node().Short())
	case protocol.MsgChallenge, protocol.MsgHello, protocol.MsgWelcome, protocol.MsgRefused, protocol.MsgPeers,
		protocol.MsgLease, protocol.MsgEndSession, protocol.MsgBye:
		err = protocol.Errorf(protocol.CodeInvalidRequest, "a %s message has no place here", string(e.Kind))
	default:
		err = protocol.Errorf(protocol.CodeUnknownMessage, "unknown message kind %.64q", string(e.Kind))
	}
	if err == nil {
		return
	}
	coded := protocol.AsError(err)
	if coded.Code == protocol.CodeInternal {
		c.o.Logger.Error("handle a message", "node", p.Node().Short(), "kind", e.Kind, "err", err)
	}
	p.SendError(e.ID, coded)
}

// currentLocked refuses work for a connection that a newer one replaced.
func (c *core) currentLocked(p peer) error {
	if c.peers[keyOf(p)] != p {
		return errSuperseded
	}
	return nil
}

func (c *core) onReport(p peer, e *protocol.Envelope) error {
	rep, err := protocol.Unpack[protocol.Report](e)
	if err != nil {
		return err
	}
	if err := registry.CheckReport(rep); err != nil {
		return err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.currentLocked(p); err != nil {
		return err
	}
	now := c.o.Now()
	if err := c.reg.Report(now, memberOf(p), rep); err != nil {
		return err
	}
	if p.Hello().Role == protocol.RoleNode {
		c.places.report(now, p.Node(), p.Hello().Build, rep)
	}
	return nil
}

func (c *core) onModels(p peer, e *protocol.Envelope) error {
	reply, err := protocol.Pack(protocol.MsgModels, e.ID, protocol.Models{Models: c.Models()})
	if err != nil {
		return err
	}
	p.Send(reply)
	return nil
}

// onRoute chooses a route, promises its KV memory, stores the lease and only
// then gives it away.
func (c *core) onRoute(ctx context.Context, p peer, e *protocol.Envelope) error {
	req, err := protocol.Unpack[protocol.RouteRequest](e)
	if err != nil {
		return err
	}
	if err := checkRoute(req); err != nil {
		return err
	}
	start := time.Now()
	s, err := c.lease(p, req)
	c.metrics.routed(time.Since(start), err)
	if err != nil {
		return err
	}
	rec, err := toStore(s)
	if err == nil {
		err = c.store.AddSession(ctx, rec)
	}
	if err != nil {
		c.mu.Lock()
		defer c.mu.Unlock()
		c.table.Forget(req.Session)
		for _, h := range s.Lease.Hops {
			c.reg.Release(h.Node, req.Session)
		}
		return err
	}
	c.o.Logger.Info("lease", "session", req.Session, "model", s.Lease.Model.Short(), "driver", p.Node().Short(), "hops", len(s.Lease.Hops), "cost_us", s.CostMicros)
	reply, err := protocol.Pack(protocol.MsgLease, e.ID, protocol.RouteReply{Lease: s.Signed, CostMicros: s.CostMicros})
	if err != nil {
		return err
	}
	p.Send(reply)
	return nil
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
	case "", "public":
	case "private":
		return protocol.Errorf(protocol.CodeUnsupported, "this tracker has no private routes")
	default:
		return protocol.Errorf(protocol.CodeInvalidRequest, "unknown policy %.32q", r.Policy)
	}
	return registry.CheckRTTs(r.RTTMicros)
}

// lease does what must happen in one step: find the route, sign it, and
// promise its memory, so that two requests never get the same bytes.
func (c *core) lease(p peer, req *protocol.RouteRequest) (sessions.Session, error) {
	now := c.o.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.currentLocked(p); err != nil {
		return sessions.Session{}, err
	}
	if err := c.table.CheckNew(req.Session, p.Node()); err != nil {
		return sessions.Session{}, err
	}
	net, err := c.reg.Network(now, req.Model)
	if err != nil {
		return sessions.Session{}, err
	}
	c.places.asked(now, net.Model)
	route, err := routing.Find(net, routing.Request{Gateway: p.Node(), Context: req.Context, Prompt: req.Prompt, RTT: req.RTTMicros})
	if err != nil {
		return sessions.Session{}, err
	}
	// Times in leases have whole microseconds, as the store keeps them.
	l := &protocol.Lease{
		Version: protocol.Version, Session: req.Session, Model: route.Model, Layers: route.Layers, Driver: p.Node(),
		Context: req.Context, DType: protocol.DTypeF32, EngineBuild: route.Build,
		Issued: now.UTC().Truncate(time.Microsecond), Expires: now.Add(c.o.LeaseFor).UTC().Truncate(time.Microsecond), Policy: "public",
	}
	kv := make([]int64, 0, len(route.Hops))
	for _, h := range route.Hops {
		l.Hops = append(l.Hops, protocol.Hop{Node: h.Node, Addr: h.Addr, Use: h.Use, StepMicros: h.Cost.Stage})
		kv = append(kv, h.KVBytes)
	}
	signed, err := protocol.SignLease(l, c.key)
	if err != nil {
		return sessions.Session{}, err
	}
	for i, h := range route.Hops {
		c.reg.Promise(h.Node, req.Session, route.Model, h.Use.First, kv[i])
	}
	s := sessions.Session{
		Lease: l, Signed: signed, Name: route.Name, CostMicros: route.StepMicros, KVBytes: kv, Phase: protocol.PhaseRouting, Updated: now,
	}
	c.table.Add(s)
	return s, nil
}

func (c *core) onSession(p peer, e *protocol.Envelope) error {
	u, err := protocol.Unpack[protocol.SessionUpdate](e)
	if err != nil {
		return err
	}
	if err := sessions.CheckTelemetry(&u.Telemetry); err != nil {
		return err
	}
	if err := registry.CheckError(u.Telemetry.Error); err != nil {
		return err
	}
	now := c.o.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.currentLocked(p); err != nil {
		return err
	}
	change, err := c.table.Update(now, p.Node(), &u.Telemetry)
	var over *sessions.EndedError
	switch {
	case errors.As(err, &over):
		c.sendLocked(p, protocol.MsgEndSession, protocol.EndSession{Session: u.Telemetry.Session, Error: over.End.Error})
		return nil
	case err != nil:
		return err
	case change.Ignored:
		return nil
	}
	s := change.Session
	if change.Opened {
		for _, h := range s.Lease.Hops {
			c.reg.Confirm(h.Node, s.Lease.Session, now)
		}
	}
	switch {
	case change.Ended:
		c.finishLocked(s, s.Phase == protocol.PhaseFailed)
	case change.PhaseChanged:
		c.writeLocked(s)
	}
	return nil
}

func (c *core) onHopFailed(p peer, e *protocol.Envelope) error {
	h, err := protocol.Unpack[protocol.HopFailed](e)
	if err != nil {
		return err
	}
	if err := registry.CheckError(h.Error); err != nil {
		return err
	}
	now := c.o.Now()
	c.mu.Lock()
	defer c.mu.Unlock()
	if err := c.currentLocked(p); err != nil {
		return err
	}
	change, err := c.table.HopFailed(now, p.Node(), h)
	if err != nil || change.Ignored {
		return err
	}
	c.reg.Suspect(h.Node)
	c.finishLocked(change.Session, true)
	return nil
}
