package worker

import (
	"encoding/json"
	"errors"
	"runtime"
	"sync"
	"time"

	"neuron/engine/gateway/chattmpl"
	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
	"neuron/engine/stage/worker/governor"
	"neuron/internal/stopwatch"
	"neuron/llama"
	"neuron/llama/exec"
)

// state is what the owner holds after loading.
type state struct {
	w     *Worker
	cfg   wire.Load
	stage *exec.Stage // nil in a vocabulary process
	vocab llama.Vocab
	// tokens is vocab's number of ids, 0 until it was asked.
	tokens int
	model  llama.Model // of a vocabulary process
	// templates and template are of a vocabulary process, from the first
	// rendering on.
	templates *chattmpl.Cache
	template  string

	pools    []*pool
	sessions map[uint32]*session
	turn     uint32 // slot that prefilled last, for round robin

	// gov chooses the threads of each call; nil when they are fixed.
	gov     *governor.Governor
	threads int // of the newest call

	stepMicros, chunkMicros int64
	pace                    pace          // of sessions at their beginning
	sinceSlice              time.Duration // of decode calls since the last prefill call
	idle                    time.Time     // when the last call had ended
	// Compute memory of a pool: fixed, and per cell of one session.
	computeBytes, computePerCell int64
	rewinds                      bool // as in protocol.Capability

	names []string // of kept states, right while named
	named bool
	disk
	files sync.WaitGroup // what runs beside the owner
	build protocol.Build
}

// load handles the first message.
func (w *Worker) load(f *protocol.Frame) (*state, error) {
	if f.Kind != protocol.KindOpen || f.Slot != 0 {
		return nil, protocol.Errorf(protocol.CodeFrameOrder, "the first frame is %s, not open", f.Kind)
	}
	var c wire.Load
	if err := json.Unmarshal(f.Payload, &c); err != nil {
		return nil, protocol.Errorf(protocol.CodeFrameInvalid, "load message: %w", err)
	}
	llama.SetLog(func(level llama.LogLevel, text string) {
		if level >= llama.LogWarn {
			w.log.Warn("Library", "text", text)
		}
	})
	if c.NativeDir == "" {
		dir, err := llama.NativeDir()
		if err != nil {
			return nil, coded(err)
		}
		c.NativeDir = dir
	}
	if err := llama.Load(c.NativeDir); err != nil {
		return nil, coded(err)
	}
	st := &state{w: w, cfg: c, sessions: map[uint32]*session{}}
	if len(c.Paths) == 0 {
		w.sendJSON(protocol.KindOpened, 0, wire.Loaded{Llama: llama.Version(), CPUVariant: llama.CPUVariant(), Devices: wireDevices(llama.Devices()), Backends: llama.Backends()})
		return st, nil
	}
	if c.VocabOnly {
		m, err := llama.LoadModel(c.Paths, llama.ModelParams{VocabOnly: true})
		if err != nil {
			return nil, coded(err)
		}
		st.model, st.vocab = m, m.Vocab()
		w.sendJSON(protocol.KindOpened, 0, wire.Loaded{Llama: llama.Version(), Text: st.text(m)})
		return st, nil
	}
	on, err := place(&c)
	if err != nil {
		return nil, err
	}
	st.cfg.KVBudget = on.budget
	s, err := exec.Load(exec.Config{
		Paths: c.Paths, Plan: c.Plan, First: c.First, Last: c.Last, Layers: c.Layers, ExitNode: c.ExitNode,
		Threads: c.Threads, ChunkRows: c.ChunkRows, NoRepack: c.NoRepack, Devices: on.devices, GPULayers: on.layers,
	})
	if err != nil {
		return nil, coded(err)
	}
	// Before the first run, which brings back what is still needed.
	if _, err := s.ReleaseFiles(); err != nil {
		w.log.Warn("Pages of model files stay in memory", "error", err)
	}
	st.stage, st.vocab = s, s.Model().Vocab()
	st.threads = c.Threads
	if c.Adaptive {
		st.gov = governor.New(c.Threads, runtime.NumCPU())
		st.threads = 1
	}
	if err = st.measureMemory(); err == nil {
		// Less than the smallest session is of no use to anybody, where larger ones
		// take as much more.
		if unit := st.seqBytes(minCells); unit > 0 && st.seqBytes(2*minCells) == 2*unit && st.seqBytes(largeCells) == largeCells/minCells*unit {
			st.cfg.KVBudget -= st.cfg.KVBudget % unit
		}
		err = st.measure()
	}
	if err != nil {
		s.Close()
		return nil, coded(err)
	}
	st.build = protocol.Build{Protocol: protocol.Version, Llama: llama.Version()}
	st.openShelf()
	m := s.Model()
	reply := wire.Loaded{
		Llama: llama.Version(), CPUVariant: llama.CPUVariant(), Width: s.Width(), WeightBytes: int64(m.Size()),
		StepMicros: st.stepMicros, ChunkMicros: st.chunkMicros, ChunkRows: c.ChunkRows,
		KVBudget: st.cfg.KVBudget, KVBytesPerCell: st.cfg.KVBytesPerCell, ComputeBytes: st.computeBytes, ComputeBytesPerCell: st.computePerCell,
		Rewinds: st.rewinds, Memory: st.cfg.Memory, Devices: on.list, Backends: llama.Backends(), GPUs: on.names, GPULayers: on.layers, Missing: on.missing,
	}
	if s.Tail() {
		reply.Text = st.text(m)
	}
	st.publish()
	reply.Stats = w.getStats()
	w.sendJSON(protocol.KindOpened, 0, reply)
	return st, nil
}

func (st *state) text(m llama.Model) wire.Text {
	v := m.Vocab()
	t := wire.Text{Vocab: v.N(), ContextTrain: m.NCtxTrain(), Template: m.ChatTemplate(), AddBOS: v.AddBOS()}
	piece := func(id int32) string {
		if id < 0 {
			return ""
		}
		return v.Text(id)
	}
	t.BOS, t.EOS = piece(v.BOS()), piece(v.EOS())
	return t
}

// Sizes of the two pools whose memory is compared, and what the difference of
// two printed sizes may be off by per cell (hundredths of a MiB).
const (
	smallCells = 256
	largeCells = 2048
	printedOff = (1 << 20) / 100
	roundOff   = 2 * printedOff / (largeCells - smallCells)
	// maxPrinted bounds the lines of a context: caches of keys, of indexers, and
	// states, on some devices.
	maxPrinted = 8
)

// measureMemory makes two pools and takes the cost of a cell from what the
// library says of both: all buffers grow evenly with the cells. A family whose
// KV memory is not known gets its figure here; a formula that were too low
// would be corrected.
func (st *state) measureMemory() error {
	var m [2]exec.Memory
	sizes := [2]int{smallCells, largeCells}
	for i, cells := range sizes {
		p, err := st.stage.NewPool(cells, 1, !st.stage.Tail())
		if err != nil {
			return err
		}
		m[i] = p.Memory()
		p.Close()
	}
	st.computePerCell = max(0, m[1].Compute-m[0].Compute) / (largeCells - smallCells)
	st.computeBytes = m[0].Compute - st.computePerCell*smallCells
	if st.foretold(sizes, m) {
		return nil
	}
	perCell := max(0, m[1].KV-m[0].KV) / (largeCells - smallCells)
	fixed := max(0, m[0].KV-perCell*smallCells)
	if fixed <= maxPrinted*printedOff {
		// What is left of rounding is spread over the smallest session.
		st.cfg.KVBytesPerCell, st.cfg.Memory = perCell+roundOff+(fixed+smallCells-1)/smallCells, nil
		return nil
	}
	// What does not grow with the cells is a state. Windows seem to be one, and
	// are no larger than that.
	st.cfg.KVBytesPerCell = perCell + roundOff
	st.cfg.Memory = protocol.Memory{
		{Kind: protocol.MemoryFull, Layers: st.cfg.Last - st.cfg.First, CellBytes: st.cfg.KVBytesPerCell},
		{Kind: protocol.MemoryRecurrent, Layers: st.cfg.Last - st.cfg.First, StateBytes: fixed + maxPrinted*printedOff},
	}
	return nil
}

// foretold reports whether what was predicted is enough for what was measured.
func (st *state) foretold(sizes [2]int, m [2]exec.Memory) bool {
	if len(st.cfg.Memory) == 0 && st.cfg.KVBytesPerCell == 0 {
		return false
	}
	for i, cells := range sizes {
		if want := st.seqBytes(cells); m[i].KV > want+maxPrinted*printedOff {
			st.w.log.Warn("The model's sessions take more memory than its metadata says", "cells", cells, "predicted", want, "measured", m[i].KV)
			return false
		}
	}
	return true
}

// measureRows is the chunk that is timed: as fast per row as longer ones, and
// over in seconds also for a large stage.
const measureRows = 64

// measure times the real stage: one warm-up, then the best of a few steps and
// one chunk. The best is what the machine can do; a busy machine shows in the
// running averages later.
func (st *state) measure() error {
	exits := !st.stage.Tail()
	exit := st.cfg.Last
	const steps = 4
	rows := min(measureRows, st.cfg.ChunkRows)
	p, err := st.stage.NewPool(rows+steps+minCells, 1, exits)
	if err != nil {
		return err
	}
	defer p.Close()
	if err := p.SetThreads(st.threads); err != nil {
		return err
	}
	run := func(pos, rows int) (int64, error) {
		work := exec.Work{Pos: int32(pos), Logits: true}
		in := st.stage.Plan().In
		if st.stage.Head() || in.IDs {
			work.IDs = make([]int32, rows)
		}
		if !st.stage.Head() {
			work.Hidden = make([]float32, rows*st.stage.Width())
			work.TopK = own(in.TopK, pos, rows)
		}
		watch := stopwatch.Start()
		_, err := p.Run(exit, []exec.Work{work})
		return max(1, watch.Elapsed().Microseconds()), err
	}
	if _, err := run(0, rows); err != nil { // warm-up: pages, thread pool
		return err
	}
	if err := p.Clear(0); err != nil {
		return err
	}
	us, err := run(0, rows)
	if err != nil {
		return err
	}
	st.chunkMicros = us * int64(st.cfg.ChunkRows) / int64(rows)
	st.pace.took(time.Duration(us)*time.Microsecond, rows)
	for i := range steps {
		us, err := run(rows+i, 1)
		if err != nil {
			return err
		}
		if st.stepMicros == 0 || us < st.stepMicros {
			st.stepMicros = us
		}
	}
	// A window may have let go of what the position before needs, without a
	// word; see exec.Pool.Truncate. A state has no earlier positions. Memory that
	// is known to be otherwise is not asked.
	st.rewinds = st.stage.Model().NSWA() == 0 && (len(st.cfg.Memory) == 0 || st.cfg.Memory.Rewinds()) && p.Truncate(0, int32(rows+1)) == nil
	return nil
}

// own is a choice of cells for rows from pos on: each its own.
func own(top, pos, rows int) []int32 {
	out := make([]int32, top*rows)
	for i := range out {
		out[i] = -1
	}
	for r := range rows {
		if top > 0 {
			out[r*top] = int32(pos + r)
		}
	}
	return out
}

func (st *state) close() {
	st.closeShelf()
	for _, p := range st.pools {
		p.close()
	}
	if st.stage != nil {
		st.stage.Close()
	}
	if st.model != 0 {
		st.model.Free()
	}
}

// coded turns errors of the binding and the runner into codes of the network.
func coded(err error) error {
	var pe *protocol.Error
	if err == nil || errors.As(err, &pe) {
		return err
	}
	var le *llama.Error
	if errors.As(err, &le) {
		switch le.Code {
		case llama.CodeNativeMissing:
			return protocol.Errorf(protocol.CodeNativeMissing, "%w", err)
		case llama.CodeNativeLayout, llama.CodeNativeVersion:
			return protocol.Errorf(protocol.CodeNativeLayout, "%w", err)
		case llama.CodeModelLoad:
			return protocol.Errorf(protocol.CodeModelInvalid, "%w", err)
		case llama.CodeSamplerInvalid:
			return protocol.Errorf(protocol.CodeInvalidRequest, "%w", err)
		case llama.CodeContextCreate:
			return protocol.Errorf(protocol.CodeKVBudget, "%w", err)
		}
		return protocol.Errorf(protocol.CodeDecodeFailed, "%w", err)
	}
	switch {
	case errors.Is(err, exec.ErrLayout):
		return protocol.Errorf(protocol.CodeBatchLayout, "%w", err)
	case errors.Is(err, exec.ErrAborted):
		return protocol.Errorf(protocol.CodeCancelled, "%w", err)
	case errors.Is(err, exec.ErrWindow):
		return protocol.Errorf(protocol.CodeUnsupported, "%w", err)
	case errors.Is(err, exec.ErrBatch):
		return protocol.Errorf(protocol.CodeFrameInvalid, "%w", err)
	}
	return protocol.AsError(err)
}
