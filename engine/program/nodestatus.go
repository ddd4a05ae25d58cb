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
	// Asked once: the connection may begin while the rest is gathered, and its
	// state and its health must be those of one moment.
	tracker, trouble := n.trackerStatus()
	out := localapi.Status{
		Version: version.String(), Node: n.id.ID(), Role: string(protocol.RoleNode),
		PID: os.Getpid(), Started: n.began, UptimeSec: int64(time.Since(n.began).Seconds()), Seam: n.o.SeamAddr,
		Owner: n.owner.State(), Tracker: tracker, Sharing: n.sharingOff() == "", Shards: []localapi.Shard{}, Transfers: []localapi.Transfer{},
		Memory:     localapi.Memory{Total: n.host.MemoryBytes},
		Goroutines: runtime.NumGoroutine(),
	}
	r, assigned := n.shard.Report()
	if assigned {
		out.Llama = r.Capability.Build.Llama
		out.Shards = append(out.Shards, n.shardStatus(r))
	}
	out.Receipts = receiptStatus(n.book)
	n.transferStatus(&out, r)
	n.memoryStatus(&out)
	for _, e := range []*protocol.Error{r.Error, n.assignmentError()} {
		if e != nil {
			out.Health = append(out.Health, localapi.HealthOf(localapi.SeverityError, e))
		}
	}
	if e := n.missingDevices(); e != nil {
		out.Health = append(out.Health, localapi.HealthOf(localapi.SeverityWarning, e))
	}
	// A broken connection says why the owner is not known either.
	if e := out.Owner.Error; e != nil && tracker.Connected {
		out.Health = append(out.Health, localapi.HealthOf(localapi.SeverityWarning, e))
	}
	if trouble != nil {
		out.Health = append(out.Health, localapi.HealthOf(localapi.SeverityWarning, trouble))
	}
	return out
}

func (n *Node) shardStatus(r protocol.ShardReport) localapi.Shard {
	out := localapi.Shard{
		Model: r.Capability.Model, Name: r.Capability.Name, Range: r.Capability.Loaded, State: r.State,
		Bytes: r.Capability.WeightBytes, BytesDone: r.Capability.WeightBytes, Sessions: r.Sessions,
		StepMicros: r.StepMicros, ChunkMicros: r.ChunkMicros, Error: r.Error,
	}
	if r.State == protocol.ShardDownloading {
		out.BytesDone = 0
		if n.models != nil {
			if t, ok := n.models.lib.Status(out.Model); ok {
				out.Bytes, out.BytesDone = t.Bytes, t.Done
			}
		}
	}
	return out
}

// transferStatus adds what the swarm does.
func (n *Node) transferStatus(out *localapi.Status, r protocol.ShardReport) {
	if n.models == nil {
		return
	}
	out.SwarmPID = n.models.host.Pid()
	st := n.models.host.Status()
	out.Swarm = st.Addr
	if st.Error != nil {
		out.Health = append(out.Health, localapi.HealthOf(localapi.SeverityWarning, st.Error))
	}
	var sound []string
	if len(st.Models) > 0 {
		sound = n.shard.Sound()
	}
	for _, m := range st.Models {
		t := localapi.Transfer{
			Model: m.Model, Name: n.modelName(m.Model), State: string(m.State), Error: m.Error, InPlace: n.localSource(m.Model) != nil,
			Bytes: m.Bytes, Done: m.Done, Received: m.Received, Sent: m.Sent, Wasted: m.Wasted,
			DownRate: m.DownRate, UpRate: m.UpRate, Peers: m.Peers, Seeds: m.Seeds, Dropped: m.Dropped, ETASeconds: m.ETASeconds,
			Parts: []localapi.Part{},
		}
		for _, f := range m.Files {
			served := r.State == protocol.ShardReady && r.Capability.Model == m.Model &&
				(f.Layer < 0 || r.Capability.Loaded.Contains(protocol.Range{First: f.Layer, Last: f.Layer + 1}))
			t.Parts = append(t.Parts, localapi.Part{
				Name: f.Name, Layer: f.Layer, Bytes: f.Bytes, Done: f.Done,
				Verified: r.Capability.Model == m.Model && slices.Contains(sound, f.Name), Served: served,
			})
		}
		out.Transfers = append(out.Transfers, t)
		if m.Error != nil {
			out.Health = append(out.Health, localapi.HealthOf(localapi.SeverityWarning, m.Error))
		}
	}
}

func (n *Node) memoryStatus(out *localapi.Status) {
	if p := n.shard.Process(); p != nil {
		s := p.Stats()
		out.StagePIDs = []int{p.Pid()}
		out.Memory.KVBudget, out.Memory.KVInUse, out.Memory.Compute = p.KVBudget(), s.KVBytes, s.ComputeBytes
	}
	// A desktop's status is looked at all the time, and reading these takes most of
	// its time.
	n.seenMu.Lock()
	defer n.seenMu.Unlock()
	if n.o.Changed == nil || time.Since(n.seenAt) >= seenFor || !slices.Equal(n.seenOf, out.StagePIDs) {
		n.seenAt, n.seenOf, n.seen = time.Now(), out.StagePIDs, readUse(n.o.Data, out.StagePIDs)
	}
	u := n.seen
	out.Memory.Free, out.Memory.DiskFree, out.OpenFiles = u.free, u.disk, u.files
	out.Memory.Anonymous, out.Memory.File = u.resident.Anonymous, u.resident.File
	out.Memory.Engine = u.resident.Anonymous + u.resident.File
}

// seenFor is how long figures of memory and disk hold.
const seenFor = 4 * time.Second

// use is what the system says of the engine and has left.
type use struct {
	free, disk int64
	files      int
	resident   probe.Resident
}

func readUse(data string, stages []int) (u use) {
	if m, err := probe.ReadMemory(); err == nil {
		u.free = m.AvailableBytes
	}
	if free, err := probe.FreeDisk(data); err == nil {
		u.disk = free
	}
	u.files = probe.OpenFiles(os.Getpid())
	u.resident = probe.ProcessMemory(append(slices.Clip(stages), os.Getpid())...)
	return u
}

func (n *Node) assignmentError() *protocol.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.health
}

// modelName is what clients call a model that is transferred.
func (n *Node) modelName(id protocol.ModelID) string {
	if src := n.localSource(id); src != nil {
		return src.Name
	}
	if want, _ := n.shard.current(); want.model != nil && want.model.Manifest.Model == id {
		return want.model.Manifest.Name
	}
	return id.Short()
}

// trackerStatus is the state of the connection and, while it does not stand,
// why.
func (n *Node) trackerStatus() (localapi.Tracker, *protocol.Error) {
	c := n.control()
	if c == nil {
		state := "works alone"
		if n.o.Tracker != "" {
			state = "waits for the native library"
		}
		return localapi.Tracker{URL: n.o.Tracker, State: state, Since: n.began}, nil
	}
	st := c.State()
	out := localapi.Tracker{URL: st.URL, Name: st.Network, Connected: st.Status == control.StatusConnected, State: string(st.Status), Since: st.Since}
	if out.Connected {
		return out, nil
	}
	return out, st.Error
}

// Models implements localapi.Source.
func (s *nodeStatus) Models() []localapi.Model {
	n := (*Node)(s)
	out := []localapi.Model{}
	report, assigned := n.shard.Report()
	for _, src := range n.files() {
		m := localapi.Model{Info: protocol.ModelInfo{
			Model: src.ID, Name: src.Name, Architecture: src.Model.Arch, Layers: src.Model.Layers, Context: src.Context(), Seen: time.Now(),
		}}
		if assigned && report.Capability.Model == src.ID {
			r := report.Capability.Loaded
			m.Local, assigned = &r, false
		}
		out = append(out, m)
	}
	if assigned {
		c := report.Capability
		r := c.Loaded
		out = append(out, localapi.Model{Local: &r, Info: protocol.ModelInfo{
			Model: c.Model, Name: c.Name, Architecture: c.Architecture, Layers: c.Layers, Context: c.MaxContext, Seen: time.Now(),
		}})
	}
	return out
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
