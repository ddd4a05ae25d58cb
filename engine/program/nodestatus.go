package program

import (
	"os"
	"runtime"
	"slices"
	"time"

	"neuron/engine/control"
	"neuron/engine/localapi"
	"neuron/engine/probe"
	"neuron/engine/protocol"
	"neuron/internal/version"
)

// nodeStatus is a Node as the local API shows it.
type nodeStatus Node

// Status implements localapi.Source.
func (s *nodeStatus) Status() localapi.Status {
	n := (*Node)(s)
	r := n.stage.Report()
	// Asked once: the connection may begin while the rest is gathered, and its
	// state and its health must be those of one moment.
	tracker, trouble := n.trackerStatus()
	out := localapi.Status{
		Version: version.String(), Llama: r.Capability.Build.Llama, Node: n.id.ID(), Role: string(protocol.RoleNode),
		PID: os.Getpid(), Started: n.began, UptimeSec: int64(time.Since(n.began).Seconds()), Seam: n.o.SeamAddr,
		Tracker: tracker,
		Shards: []localapi.Shard{{
			Model: r.Capability.Model, Name: r.Capability.Name, Range: r.Capability.Loaded, State: r.State,
			Bytes: r.Capability.WeightBytes, BytesDone: r.Capability.WeightBytes, Sessions: r.Sessions,
			StepMicros: r.StepMicros, ChunkMicros: r.ChunkMicros, Error: r.Error,
		}},
		Memory:     localapi.Memory{Total: n.host.MemoryBytes},
		Goroutines: runtime.NumGoroutine(), OpenFiles: probe.OpenFiles(os.Getpid()), StagePIDs: n.stage.Pids(),
	}
	if m, err := probe.ReadMemory(); err == nil {
		out.Memory.Free = m.AvailableBytes
	}
	if free, err := probe.FreeDisk(n.o.Data); err == nil {
		out.Memory.DiskFree = free
	}
	if p := n.stage.Process(); p != nil {
		s := p.Stats()
		out.Memory.KVBudget, out.Memory.KVInUse, out.Memory.Compute = p.KVBudget(), s.KVBytes, s.ComputeBytes
	}
	m := probe.ProcessMemory(append(slices.Clip(out.StagePIDs), os.Getpid())...)
	out.Memory.Anonymous, out.Memory.File = m.Anonymous, m.File
	out.Memory.Engine = m.Anonymous + m.File
	if r.Error != nil {
		out.Health = append(out.Health, localapi.HealthOf(localapi.SeverityError, r.Error))
	}
	if trouble != nil {
		out.Health = append(out.Health, localapi.HealthOf(localapi.SeverityWarning, trouble))
	}
	return out
}

// trackerStatus is the state of the connection and, while it does not stand,
// why.
func (n *Node) trackerStatus() (localapi.Tracker, *protocol.Error) {
	c := n.control()
	if c == nil {
		state := "works alone"
		if n.o.Tracker != "" {
			state = "waits for the stage"
		}
		return localapi.Tracker{URL: n.o.Tracker, State: state, Since: n.began}, nil
	}
	st := c.State()
	out := localapi.Tracker{URL: st.URL, Connected: st.Status == control.StatusConnected, State: string(st.Status), Since: st.Since}
	if out.Connected {
		return out, nil
	}
	return out, st.Error
}

// Models implements localapi.Source.
func (s *nodeStatus) Models() []localapi.Model {
	m := s.shard.Source
	r := s.shard.Range
	return []localapi.Model{{
		Info: protocol.ModelInfo{
			Model: m.ID, Name: m.Name, Architecture: m.Model.Arch, Layers: m.Model.Layers, Context: m.Context(), Seen: time.Now(),
		},
		Local: &r,
	}}
}

// Sessions implements localapi.Source.
func (s *nodeStatus) Sessions() []protocol.SessionState { return s.seam.Sessions() }

// Shutdown implements localapi.Source.
func (s *nodeStatus) Shutdown() {
	s.mu.Lock()
	stop := s.stop
	s.mu.Unlock()
	if stop != nil {
		stop(nil)
	}
}
