package program

import (
	"context"
	"errors"
	"time"

	"neuron/engine/library"
	"neuron/engine/planner"
	"neuron/engine/probe"
	"neuron/engine/protocol"
)

const (
	// choosePause is between attempts to get an assignment.
	choosePause = 5 * time.Second
	// maxRefusals bounds the assignments that a node turns down in a row.
	maxRefusals = 8
)

// choose gets the shard its assignment: what the user has asked for, or what
// the tracker needs and this computer can hold. It tries until there is one;
// an error says that only the user can help.
func (n *Node) choose(ctx context.Context) error {
	for n.shard.awake(ctx) {
		if want, _ := n.shard.current(); !want.empty() {
			return nil
		}
		want, why, err := n.assignment(ctx, n.o.Model, n.o.Layers)
		if err == nil {
			n.log.Info("Assigned", "why", why)
			n.setHealth(nil)
			n.shard.Assign(want)
			n.stageChanged()
			return nil
		}
		if ctx.Err() != nil {
			return nil
		}
		if !retryable(err) {
			return err
		}
		n.setHealth(protocol.AsError(err))
		n.log.Warn("No layers to hold yet", "error", err)
		timer := time.NewTimer(choosePause)
		select {
		case <-timer.C:
		case <-ctx.Done():
		}
		timer.Stop()
	}
	return nil
}

func (n *Node) setHealth(e *protocol.Error) {
	n.mu.Lock()
	n.health = e
	n.mu.Unlock()
	n.changed()
}

// assignment finds one for what the user has asked for, "" for the tracker's
// choice; why is a sentence for the log.
func (n *Node) assignment(ctx context.Context, model, layers string) (want assignment, why string, err error) {
	c, err := n.awaitControl(ctx)
	if err != nil {
		return want, "", err
	}
	if model != "" && layers != "" {
		m, err := n.models.lib.Find(ctx, model)
		if err != nil {
			return want, "", err
		}
		r := protocol.Range{Last: m.Manifest.Layers}
		if layers != "all" {
			if r, err = protocol.ParseRange(layers); err != nil {
				return want, "", err
			}
		}
		text, err := n.check(m, r)
		if err != nil {
			return want, "", err
		}
		want, err = n.hold(ctx, m, r)
		return want, text, err
	}
	plan, known, err := n.planner()
	if err != nil {
		return want, "", err
	}
	q := protocol.PlaceRequest{Offer: plan.Offer(), Model: model, Held: plan.HeldLayers(known)}
	for range maxRefusals {
		p, err := c.Place(ctx, q)
		if err != nil {
			return want, "", err
		}
		m, err := n.models.lib.Find(ctx, string(p.Model))
		if err != nil {
			return want, "", err
		}
		if m.Manifest.Model != p.Model {
			return want, "", protocol.Errorf(protocol.CodeModelInvalid, "the catalog gave another model for %s", p.Model.Short())
		}
		text, err := n.check(m, p.Range)
		if err == nil {
			want, err = n.hold(ctx, m, p.Range)
			return want, p.Reason + "; " + text, err
		}
		n.log.Info("Assignment refused", "model", m.Manifest.Name, "layers", p.Range.String(), "error", err)
		q.Refused = append(q.Refused, protocol.PlaceRefusal{Model: p.Model, Range: p.Range, Error: protocol.AsError(err)})
	}
	return want, "", protocol.Errorf(protocol.CodeDoesNotFit, "of %d ranges that the tracker needs none fits this computer", maxRefusals)
}

// hold makes the assignment: files of this computer come before fetching.
func (n *Node) hold(ctx context.Context, m *library.Model, r protocol.Range) (assignment, error) {
	if src := n.localSource(m.Manifest.Model); src != nil {
		return n.localAssignment(ctx, src, r.String())
	}
	return assignment{model: m, layers: r}, nil
}

// check asks the planner whether layers fit this computer; text says what they
// cost.
func (n *Node) check(m *library.Model, r protocol.Range) (text string, err error) {
	x, err := planner.ModelOf(m.Manifest)
	if err != nil {
		return "", err
	}
	p, _, err := n.planner()
	if err != nil {
		return "", err
	}
	a := p.Check(x, planner.Assignment{Model: m.Manifest.Model, Range: r})
	if a.Refused != nil {
		return "", a.Refused
	}
	return a.Text, nil
}

// planner answers for this computer as it is now.
func (n *Node) planner() (*planner.Planner, []*planner.Model, error) {
	n.mu.Lock()
	transfer := n.o.Swarm
	n.mu.Unlock()
	l := planner.Limits{NoRepack: n.o.NoRepack, ChunkRows: n.o.ChunkRows, Down: transfer.DownBytes, Conversations: 1, Context: n.o.MaxContext}
	m, err := probe.ReadMemory()
	if err != nil {
		return nil, nil, err
	}
	l.Memory, l.Devices = m.AvailableBytes, n.devices
	if p := n.shard.Process(); p != nil {
		// The stage that runs gives way to what is planned.
		s := p.Stats()
		l.Memory += p.Capability().WeightBytes + s.KVBytes + s.ComputeBytes
	}
	if n.o.MemoryLimit > 0 {
		l.Memory = min(l.Memory, n.o.MemoryLimit)
	}
	if l.Disk, err = probe.FreeDisk(n.o.Data); err != nil {
		return nil, nil, err
	}
	l.Disk -= transfer.KeepFree
	if transfer.DiskBytes > 0 {
		l.Disk = min(l.Disk, transfer.DiskBytes)
	}
	held, models := n.held()
	return planner.New(l, held), models, nil
}

// awaitControl waits until the tracker has accepted this node.
func (n *Node) awaitControl(ctx context.Context) (placer, error) {
	select {
	case <-n.ctlMade:
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
	c := n.control()
	if err := c.Await(ctx); err != nil {
		return nil, errors.Join(context.Cause(ctx), err)
	}
	return c, nil
}

// placer is what choose needs of the control channel.
type placer interface {
	Place(context.Context, protocol.PlaceRequest) (*protocol.Placement, error)
}
