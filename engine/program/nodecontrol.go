package program

import (
	"context"
	"crypto/ed25519"

	"neuron/engine/control"
	"neuron/engine/probe"
	"neuron/engine/protocol"
	"neuron/engine/seam"
	"neuron/engine/stage"
	"neuron/internal/version"
)

// readyStage is the seam's view of the stage; a nil *Process must become a nil
// interface.
func (n *Node) readyStage() seam.Stage {
	st := n.bareStage()
	if st == nil {
		return nil
	}
	if n.o.Wrap != nil {
		st = n.o.Wrap(st)
	}
	return n.audits.Guard(st)
}

func (n *Node) stageChanged() {
	if r, ok := n.shard.Report(); ok && (r.State == protocol.ShardReady || r.State == protocol.ShardFailed) {
		n.settleMu.Do(func() { close(n.settled) })
	}
	n.changed()
	if c := n.control(); c != nil {
		c.ReportNow()
	}
}

// changed tells the local API that there is something new.
func (n *Node) changed() {
	if n.o.Changed != nil {
		n.o.Changed()
	} else if n.api != nil {
		n.api.Changed()
	}
}

// watchStage ends the node when its stage cannot run for a reason that will
// not go away.
func (n *Node) watchStage(ctx context.Context) error {
	select {
	case <-n.settled:
	case <-ctx.Done():
		return nil
	}
	if r, _ := n.shard.Report(); r.Error != nil && permanent(r.Error.Code) {
		return r.Error
	}
	return nil
}

// runControl connects to the tracker. The hello names the native library,
// which a child is asked for: the shard's files may still have to be fetched.
func (n *Node) runControl(ctx context.Context) error {
	if n.o.Tracker == "" {
		return nil
	}
	about, err := stage.About(ctx, n.spawn, n.o.NativeDir)
	if err != nil {
		return err
	}
	c, err := control.New(control.Options{
		URL: n.o.Tracker, Identity: n.id, Role: protocol.RoleNode, Engine: version.String(),
		Build: protocol.Build{Protocol: protocol.Version, Llama: about.Llama},
		Addr:  n.o.SeamAddr, Host: n.host.String(), PinnedTracker: n.o.TrackerKey, Trust: control.NewFileTrust(n.o.Data),
		Report: n.report, OnPeers: n.peers.set, OnEndSession: n.endSession, OnWelcome: n.owner.Welcomed, OnState: wakeBook(n.book), OnOther: n.audits.Handle, Logger: n.o.Log("control"),
	})
	if err != nil {
		return err
	}
	n.mu.Lock()
	n.ctl = c
	n.mu.Unlock()
	close(n.ctlMade)
	n.peers.onRound(c.ReportNow)
	return c.Run(ctx)
}

// permanent codes will not get better by starting the stage again.
func permanent(c protocol.Code) bool {
	switch c {
	case protocol.CodeNativeMissing, protocol.CodeNativeLayout, protocol.CodeModelInvalid, protocol.CodeModelUnknown:
		return true
	}
	return false
}

func (n *Node) control() *control.Client {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.ctl
}

func (n *Node) trackerKey() ed25519.PublicKey {
	if c := n.control(); c != nil {
		return c.TrackerKey()
	}
	return n.o.TrackerKey
}

func (n *Node) announceToken() string {
	if c := n.control(); c != nil {
		return c.AnnounceToken()
	}
	return ""
}

func (n *Node) hopFailed(s protocol.SessionID, node protocol.NodeID, e *protocol.Error) {
	if c := n.control(); c != nil {
		c.HopFailed(s, node, e)
	}
}

func (n *Node) endSession(s protocol.SessionID, e *protocol.Error) { n.seam.EndSession(s, e) }

// sharingPaused is Report.SharingOff when the user does not share.
const sharingPaused = "paused"

// report is what the tracker learns.
func (n *Node) report() protocol.Report {
	r := protocol.Report{Shards: []protocol.ShardReport{}, RTTMicros: n.peers.snapshot()}
	if shard, ok := n.shard.Report(); ok {
		r.Shards = append(r.Shards, shard)
		if shard.Error != nil && shard.Error.Code == protocol.CodeHostBusy {
			r.SharingOff = string(protocol.CodeHostBusy)
		}
	}
	if why := n.sharingOff(); why != "" {
		r.SharingOff = why
	}
	if n.models != nil {
		r.Swarm = n.models.lib.Addr()
	}
	if m, err := probe.ReadMemory(); err == nil {
		r.MemoryPressure, r.FreeMemory = m.Pressure, m.AvailableBytes
	}
	if free, err := probe.FreeDisk(n.o.Data); err == nil {
		r.FreeDisk = free
	}
	return r
}
