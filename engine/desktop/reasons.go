package desktop

import (
	"fmt"
	"time"

	"neuron/engine/control"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// firstCall is how long a new node may take to reach the tracker before that is
// a reason.
const firstCall = 10 * time.Second

// reasons are the engine's own for not sharing, each with a detail for people.
// st is the node's state, nil while none runs.
func (e *Engine) reasons(st *localapi.Status, s policy.Settings) map[protocol.SharingReason]string {
	e.mu.Lock()
	ending, nodeErr, holdErr, young := e.ending, e.nodeErr, e.holdErr, e.o.Now().Sub(e.nodeBegan) < firstCall
	e.mu.Unlock()
	own := map[protocol.SharingReason]string{}
	if ending {
		own[protocol.SharingStopping] = ""
	}
	switch {
	case s.Tracker == "":
		own[protocol.SharingNoTracker] = "no network is set: enter the address of its tracker in the settings"
		return own
	case st == nil && nodeErr != nil && nodeErr.Code == protocol.CodeDiskFull:
		own[protocol.SharingDisk] = nodeErr.Message
		return own
	case st == nil && nodeErr != nil:
		own[protocol.SharingFailed] = nodeErr.Message
		return own
	case st == nil:
		own[protocol.SharingStarting] = ""
		return own
	}
	switch {
	case st.Tracker.Connected:
	case young && st.Tracker.State != string(control.StatusWaiting) && st.Tracker.State != string(control.StatusRefused):
		own[protocol.SharingStarting] = "connecting to the network"
		return own
	default:
		own[protocol.SharingNoTracker] = "the tracker does not answer; it is tried again"
	}
	if holdErr != nil {
		own[reasonOf(holdErr.Code)] = holdErr.Message
	}
	for _, h := range st.Health {
		switch {
		case h.Code == protocol.CodeForbidden && !st.Tracker.Connected:
			own[protocol.SharingOperator] = h.Text
		case h.Severity == localapi.SeverityError:
			own[reasonOf(h.Code)] = h.Text
		case h.Code == protocol.CodeDiskFull:
			own[protocol.SharingDisk] = h.Text
		}
	}
	if len(st.Shards) == 0 {
		if _, told := own[protocol.SharingNoModel]; !told {
			own[protocol.SharingStarting] = "asking the network what is needed"
		}
		return own
	}
	if sh := st.Shards[0]; sh.State != protocol.ShardReady {
		own[protocol.SharingStarting] = progress(sh)
	}
	return own
}

// reasonOf is the reason for an error that keeps a node from its layers.
func reasonOf(c protocol.Code) protocol.SharingReason {
	switch c {
	case protocol.CodeHostBusy:
		return protocol.SharingHostBusy
	case protocol.CodeDiskFull:
		return protocol.SharingDisk
	case protocol.CodeModelUnknown, protocol.CodeDoesNotFit, protocol.CodeNotFound, protocol.CodeUnavailable, protocol.CodeTimeout, protocol.CodeKVBudget,
		protocol.CodeRangeInvalid, protocol.CodeModelUncut, protocol.CodeNoRoute:
		return protocol.SharingNoModel
	case protocol.CodeStageLost, protocol.CodeStageFrozen, protocol.CodeSwarmLost:
		return protocol.SharingStarting // it is being started again
	}
	return protocol.SharingFailed
}

// progress says how far a shard's layers are.
func progress(s localapi.Shard) string {
	switch {
	case s.State == protocol.ShardDownloading && s.Bytes > 0:
		return fmt.Sprintf("fetching layers %s of %s: %d %%", s.Range, s.Name, 100*s.BytesDone/s.Bytes)
	case s.State == protocol.ShardVerifying:
		return fmt.Sprintf("checking layers %s of %s", s.Range, s.Name)
	case s.State == protocol.ShardLoading:
		return fmt.Sprintf("loading layers %s of %s", s.Range, s.Name)
	}
	return ""
}
