package server

import (
	"context"
	"errors"

	"neuron/engine/protocol"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/routing"
	"neuron/tracker-server/sessions"
	"neuron/tracker-server/sessions/stored"
	"neuron/tracker-server/web"
)

var _ web.Source = (*core)(nil)

// Models implements web.Source.
func (c *core) Models() []protocol.ModelInfo {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reg.Models(c.o.Now())
}

// Nodes implements web.Source.
func (c *core) Nodes() []registry.NodeView {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.reg.Nodes(c.o.Now())
}

// Sessions implements web.Source.
func (c *core) Sessions() []web.Session {
	c.mu.Lock()
	list := c.table.List()
	routes := make([]*routing.Route, len(list))
	for i := range list {
		routes[i] = c.routes[list[i].Lease.Session]
	}
	c.mu.Unlock()
	out := make([]web.Session, 0, len(list))
	for i := range list {
		v := sessionView(&list[i], routes[i])
		if v.Private {
			v.Session = "" // who knows a private session's id was told it by its driver
		}
		out = append(out, v)
	}
	return out
}

// Session implements web.Source; what memory has forgotten comes from the
// store.
func (c *core) Session(ctx context.Context, id protocol.SessionID) (web.Session, error) {
	c.mu.Lock()
	s, ok := c.table.Get(id)
	route := c.routes[id]
	c.mu.Unlock()
	if !ok {
		rec, err := c.store.Session(ctx, id)
		if errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
			return web.Session{}, protocol.Errorf(protocol.CodeSessionUnknown, "session %s is not known", string(id))
		}
		if err != nil {
			return web.Session{}, err
		}
		if s, err = stored.From(rec); err != nil {
			return web.Session{}, err
		}
	}
	return sessionView(&s, route), nil
}

// privateView is all that the tracker tells of a private session: its phase, its
// model and its end, no node, no count and no time but those of the phases.
func privateView(s *sessions.Session) web.Session {
	v := web.Session{
		Session: s.Lease.Session, Private: true, Model: s.Lease.Model, Name: s.Name, Phase: s.Phase, Issued: s.Lease.Issued,
		Hops: []web.Hop{},
	}
	if s.End != nil {
		v.End = &sessions.End{At: s.End.At, Finish: s.End.Finish}
		if s.End.Error != nil {
			v.End.Error = protocol.Errorf(s.End.Error.Code, "the session is private: its gateway knows more")
		}
	}
	return v
}

func sessionView(s *sessions.Session, route *routing.Route) web.Session {
	if s.Lease.Policy == protocol.PolicyPrivate {
		return privateView(s)
	}
	v := web.Session{
		Session: s.Lease.Session, Driver: s.Lease.Driver, Model: s.Lease.Model, Name: s.Name, Phase: s.Phase,
		Issued: s.Lease.Issued, Expires: s.Lease.Expires, Context: s.Lease.Context, CostMicros: s.CostMicros,
		Updated: s.Updated, End: s.End, Route: route,
	}
	if s.Telemetry.Seq > 0 {
		t := s.Telemetry
		v.Telemetry = &t
	}
	for i, h := range s.Lease.Hops {
		hop := web.Hop{Hop: i, Node: h.Node, Use: h.Use, ExpectedMicros: h.StepMicros, Health: "unknown"}
		for _, t := range s.Telemetry.Route {
			if t.Hop == i && t.Health != "" {
				hop.Health = t.Health
				if t.Counters.DecodeSteps > 0 {
					hop.StepMicros = t.Counters.DecodeMicros / t.Counters.DecodeSteps
				}
			}
		}
		// A hop that takes over twice the time that its lease expects is slow,
		// whatever the driver says.
		if hop.Health == protocol.HealthOK && h.StepMicros > 0 && hop.StepMicros > 2*h.StepMicros {
			hop.Health = protocol.HealthSlow
		}
		if s.End != nil && s.End.Error != nil && s.End.Error.Hop != nil && *s.End.Error.Hop == i {
			hop.Health = "failed"
		}
		v.Hops = append(v.Hops, hop)
	}
	return v
}
