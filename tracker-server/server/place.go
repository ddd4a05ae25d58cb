package server

import (
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/placement"
)

// onPlace tells a node which layers to hold.
func (c *core) onPlace(p peer, e *protocol.Envelope) error {
	q, err := protocol.Unpack[protocol.PlaceRequest](e)
	if err != nil {
		return err
	}
	if err := placement.CheckRequest(q); err != nil {
		return err
	}
	if p.Hello().Role != protocol.RoleNode {
		return protocol.Errorf(protocol.CodeInvalidRequest, "a %s holds no layers", string(p.Hello().Role))
	}
	start := time.Now()
	now := c.o.Now()
	c.mu.Lock()
	if err := c.currentLocked(p); err != nil {
		c.mu.Unlock()
		return err
	}
	if err := c.placeableLocked(p.Node()); err != nil {
		c.mu.Unlock()
		return err
	}
	d, err := c.places.Place(now, p.Node(), p.Hello().Build, q)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	c.o.Logger.Info("placement", "node", p.Node().Short(), "model", d.Model.Short(), "layers", d.Range.String(), "reason", d.Reason,
		"routes_before", d.RoutesBefore, "routes_after", d.RoutesAfter, "took", time.Since(start))
	reply, err := protocol.Pack(protocol.MsgPlace, e.ID, protocol.Placement{Model: d.Model, Name: d.Name, Range: d.Range, Reason: d.Text})
	if err != nil {
		return err
	}
	p.Send(reply)
	return nil
}
