package program

import (
	"context"

	"neuron/engine/artifact"
	"neuron/engine/localapi"
	"neuron/engine/planner"
	"neuron/engine/protocol"
	"neuron/engine/swarm"
)

// Hold implements localapi.Source: what is held goes on until its sessions have
// ended and the new layers are there.
func (s *nodeStatus) Hold(ctx context.Context, h localapi.Hold) error {
	n := (*Node)(s)
	if len(h.Model) > 4096 || len(h.Layers) > 64 {
		return protocol.Errorf(protocol.CodeInvalidRequest, "a model name of %d bytes", len(h.Model))
	}
	var want assignment
	var err error
	switch {
	case h.Model != "" && isFile(h.Model):
		want, err = n.holdFile(ctx, h)
	case n.models == nil:
		err = protocol.Errorf(protocol.CodeModelUnknown, "there is no file %s, and no tracker that may know a model of this name", h.Model)
	default:
		want, _, err = n.assignment(ctx, h.Model, h.Layers)
	}
	if err != nil {
		return err
	}
	n.setHealth(nil)
	n.shard.Assign(want)
	n.stageChanged()
	return nil
}

// holdFile serves a file that the node may not know yet; it is seeded like one
// that was given at the start.
func (n *Node) holdFile(ctx context.Context, h localapi.Hold) (assignment, error) {
	src, err := artifact.Inspect(ctx, h.Model, n.o.Data, n.log)
	if err != nil {
		return assignment{}, err
	}
	want, err := n.localAssignment(ctx, src, h.Layers)
	if err != nil {
		return assignment{}, err
	}
	if n.adopt(src) && n.models != nil {
		select {
		case n.newFiles <- src:
		case <-ctx.Done():
			return assignment{}, protocol.Errorf(protocol.CodeCancelled, "the order was withdrawn")
		}
	}
	return want, nil
}

// Share implements localapi.Source.
func (s *nodeStatus) Share(on bool) error {
	if on {
		return (*Node)(s).SetSharing("", true)
	}
	return (*Node)(s).SetSharing(sharingPaused, false)
}

// SetSharing says why this node takes no sessions, "" when it does; running ones
// go on. transfer says whether models are fetched and seeded.
func (n *Node) SetSharing(reason string, transfer bool) error {
	n.mu.Lock()
	n.off = reason
	n.mu.Unlock()
	defer n.stageChanged()
	if n.models == nil {
		return nil
	}
	return n.models.lib.Pause(!transfer)
}

// SetTransfer changes what fetching and seeding may take.
func (n *Node) SetTransfer(l swarm.Limits) error {
	n.mu.Lock()
	n.o.Swarm = l
	n.mu.Unlock()
	if n.models == nil {
		return nil
	}
	return n.models.lib.SetLimits(l)
}

// Park unloads the stage once its sessions have ended, and takes no new layers,
// until it is called with false.
func (n *Node) Park(on bool) {
	n.shard.Park(on)
	if on {
		n.setHealth(nil) // why there is no assignment matters when one is wanted
	}
}

// EndSessions ends what still runs, with a reason.
func (n *Node) EndSessions(reason *protocol.Error) {
	for _, s := range n.seam.Sessions() {
		n.seam.EndSession(s.Session, reason)
	}
}

func (n *Node) sharingOff() string {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.off
}

// Plans implements localapi.Source.
func (s *nodeStatus) Plans(ctx context.Context) ([]localapi.Plan, error) {
	n := (*Node)(s)
	if n.models == nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "without a tracker there is no catalog")
	}
	list, err := n.models.catalog.List(ctx)
	if err != nil {
		return nil, err
	}
	p, _, err := n.planner()
	if err != nil {
		return nil, err
	}
	var models []*planner.Model
	for _, e := range list {
		m, err := n.models.lib.Find(ctx, string(e.Model))
		if err != nil {
			n.log.Warn("A model of the catalog cannot be planned with", "model", e.Name, "error", err)
			continue
		}
		x, err := planner.ModelOf(m.Manifest)
		if err != nil {
			return nil, err
		}
		models = append(models, x)
	}
	holdings, err := p.Holdings(models)
	if err != nil {
		return nil, err
	}
	out := []localapi.Plan{}
	for _, h := range holdings {
		x := localapi.Plan{Model: h.Model, Name: h.Name, Text: h.Text, Ranges: []localapi.PlanRange{}}
		for _, r := range h.Ranges {
			c := r.Cost
			x.Ranges = append(x.Ranges, localapi.PlanRange{
				Range: r.Range, Text: r.Text, Fetch: c.FetchBytes, Seconds: int64(c.FetchTime.Seconds()), Disk: c.DiskBytes,
				Memory: c.Anonymous, Weights: c.Weights, KVPerToken: c.KVPerCell, Fit4K: c.Fit4K, Fit32K: c.Fit32K,
			})
		}
		out = append(out, x)
	}
	return out, nil
}
