package program

import (
	"context"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"neuron/engine/artifact"
	"neuron/engine/probe"
	"neuron/engine/protocol"
	"neuron/engine/stage"
	"neuron/engine/stage/wire"
)

// shardsFolder holds the shard folders, one per model.
const shardsFolder = "shards"

// prefixFolder holds snapshots of prompts' beginnings.
const prefixFolder = "prefixes"

// isFile tells a GGUF file from the name of a model in the catalog.
func isFile(model string) bool {
	if strings.HasSuffix(strings.ToLower(model), ".gguf") || strings.ContainsRune(model, filepath.Separator) {
		return true
	}
	st, err := os.Stat(model)
	return err == nil && st.Mode().IsRegular()
}

// openFiles reads the files of this computer: the model, when it is one, and
// those that are only seeded.
func (n *Node) openFiles(ctx context.Context) (want assignment, err error) {
	for _, path := range n.o.Adopt {
		src, err := artifact.Inspect(ctx, path, n.o.Data, n.log)
		if err != nil {
			return want, err
		}
		n.adopt(src)
	}
	if n.o.Model == "" || !isFile(n.o.Model) {
		return want, nil
	}
	src, err := artifact.Inspect(ctx, n.o.Model, n.o.Data, n.log)
	if err != nil {
		return want, err
	}
	n.adopt(src)
	want, err = n.localAssignment(ctx, src, n.o.Layers)
	return want, err
}

// localAssignment cuts layers of a file of this computer.
func (n *Node) localAssignment(ctx context.Context, src *artifact.Source, layers string) (assignment, error) {
	r, err := src.ParseLayers(layers)
	if err != nil {
		return assignment{}, err
	}
	held, err := src.Shard(ctx, r, filepath.Join(n.o.Data, shardsFolder), nil)
	return assignment{local: held}, err
}

// localSource finds a model among the files of this computer.
func (n *Node) localSource(id protocol.ModelID) *artifact.Source {
	for _, src := range n.files() {
		if src.ID == id {
			return src
		}
	}
	return nil
}

// files are the models that lie on this computer.
func (n *Node) files() []*artifact.Source {
	n.mu.Lock()
	defer n.mu.Unlock()
	return slices.Clone(n.adopted)
}

// adopt adds one; false when it is known.
func (n *Node) adopt(src *artifact.Source) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	if slices.ContainsFunc(n.adopted, func(s *artifact.Source) bool { return s.ID == src.ID }) {
		return false
	}
	n.adopted = append(n.adopted, src)
	return true
}

func (n *Node) newShard(want assignment) *shard {
	s := newShard(want, nil, n.stageChanged, n.o.Log("shard"))
	if n.models != nil {
		s.lib = n.models.lib
	}
	s.Park(n.o.Parked)
	s.newStage = n.newStage
	return s
}

// newStage makes the keeper of a stage for a shard whose files are there.
func (n *Node) newStage(held *artifact.Shard, files prepare) (*stage.Host, error) {
	report := held.Capability(n.o.ChunkRows)
	plan, err := held.Plan()
	if err != nil {
		return nil, err
	}
	maxContext := held.Source.Context()
	if n.o.MaxContext > 0 {
		maxContext = min(maxContext, n.o.MaxContext)
	}
	budget := n.o.KVBudget
	if budget == 0 {
		m, err := probe.ReadMemory()
		if err != nil {
			return nil, err
		}
		budget = max(0, m.AvailableBytes-held.Weight()) / kvShare
	}
	threads := n.o.Threads
	if threads == 0 {
		threads = n.host.Cores
	}
	return stage.NewHost(stage.HostOptions{
		Spawn: n.spawn, Report: report, Prepare: files, Changed: n.stageChanged, Logger: n.o.Log("stage"),
		Load: wire.Load{
			NativeDir: n.o.NativeDir, First: report.Loaded.First, Last: report.Loaded.Last, Layers: report.Layers,
			Plan: plan, Memory: report.Memory,
			Threads: threads, Adaptive: n.o.Threads == 0, ChunkRows: n.o.ChunkRows, MaxContext: maxContext, MaxSessions: n.o.MaxSessions,
			KVBudget: budget, KVBytesPerCell: report.KVBytesPerCell, NoRepack: n.o.NoRepack, GPUs: n.o.GPUs,
			Prefixes: wire.Prefixes{Dir: filepath.Join(n.o.Data, prefixFolder), DiskBytes: n.o.PrefixDisk, Private: n.o.PrivatePrefixes},
		},
	}), nil
}

// seed gives files of this computer to the swarm once the catalog has them.
func (n *Node) seed(ctx context.Context) {
	if _, err := n.awaitControl(ctx); err != nil {
		return
	}
	var all sync.WaitGroup
	defer all.Wait()
	give := func(src *artifact.Source) {
		all.Go(func() {
			if err := n.models.lib.Adopt(ctx, src); err != nil {
				n.log.Warn("Model is not seeded", "model", src.Name, "error", err)
			}
		})
	}
	for _, src := range n.files() {
		give(src)
	}
	for {
		select {
		case src := <-n.newFiles:
			give(src)
		case <-ctx.Done():
			return
		}
	}
}
