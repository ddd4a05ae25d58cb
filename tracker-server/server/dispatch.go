package server

import (
	"bytes"
	"context"
	"errors"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/sessions"
)

// routesAtOnce bounds the route requests that are worked on beside the readers
// of their connections.
const routesAtOnce = 256

// message handles one message of a joined peer. Messages of a connection are
// handled in their order, but for route requests: each waits for the disk, and
// those of one gateway would wait for each other.
func (c *core) message(ctx context.Context, p peer, e *protocol.Envelope) {
	c.metrics.message(e.Kind)
	if e.Kind == protocol.MsgRoute {
		select {
		case c.routing <- struct{}{}:
			own := *e
			own.Body = bytes.Clone(e.Body)
			e = &own
			c.requests.Go(func() {
				defer func() { <-c.routing }()
				c.handle(ctx, p, e)
			})
			return
		default: // the gateway's connection waits meanwhile
		}
	}
	c.handle(ctx, p, e)
}

// handle does what a message asks for, and answers errors.
func (c *core) handle(ctx context.Context, p peer, e *protocol.Envelope) {
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
	case protocol.MsgReceipts:
		err = c.onReceipts(ctx, p, e)
	case auditmsg.MsgAuditReady, auditmsg.MsgAuditResult:
		err = c.onAudit(p, e)
	case protocol.MsgError:
		c.o.Logger.Info("a peer answered with an error", "node", p.Node().Short())
	case protocol.MsgChallenge, protocol.MsgHello, protocol.MsgWelcome, protocol.MsgRefused, protocol.MsgPeers,
		protocol.MsgLease, protocol.MsgEndSession, protocol.MsgBye, auditmsg.MsgAuditKeep, auditmsg.MsgAuditRun, auditmsg.MsgAuditSend:
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
	if p.Hello().Role == protocol.RoleNode && c.placeableLocked(p.Node()) == nil {
		c.places.Report(now, p.Node(), p.Hello().Build, rep)
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
	if !change.Ended {
		c.record(&s)
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
