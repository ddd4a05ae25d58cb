// Package exec runs a loaded stage: pools of KV state over one model, and
// calls of llama_decode in the only layouts that keep rows apart.
//
// A Stage and its pools have one owner goroutine; nothing here locks. The
// stage process (engine/stage/worker), tests and measuring tools may import
// it; it knows neither frames nor sessions nor the network.
package exec

import (
	"errors"
	"fmt"

	"neuron/llama"
	"neuron/llama/family"
)

// Errors that a caller tells apart.
var (
	// ErrLayout: libllama split or reordered the rows in another way than
	// predicted. The rows must not be sent to anybody.
	ErrLayout = errors.New("rows came back in an unexpected layout")
	// ErrBatch: the call itself would have an illegal layout.
	ErrBatch = errors.New("illegal batch")
	// ErrAborted: the call was interrupted by Pool.Abort.
	ErrAborted = errors.New("aborted")
	// ErrWindow: sliding layers have forgotten what lies before a position.
	ErrWindow = errors.New("positions behind the sliding window are forgotten")
)

// Config says what to load.
type Config struct {
	// Paths are one GGUF, or the split files of a stage in order.
	Paths []string
	// Plan says where rows go in and come out (family.Model.Stage). Without one
	// (its Layers is 0) it is made of the next fields, for models that take
	// hidden rows as embeddings.
	Plan family.Plan
	// First and Last are the layers in the whole model; Layers its count.
	First, Last, Layers int
	// ExitNode is the family's name of a layer's output ("l_out").
	ExitNode string
	// Threads per call, at least 1.
	Threads int
	// ChunkRows is the most rows of one call.
	ChunkRows int
	// NoRepack keeps weights in the mapped file only: less memory, slower.
	NoRepack bool
	// Devices compute the last GPULayers layers, the output matrix with them when
	// these are all; none: the processor computes everything.
	Devices   []llama.Device
	GPULayers int
}

// Stage is a loaded shard.
type Stage struct {
	cfg   Config
	model llama.Model
	// threads has poll 0: ggml's default spins for a third of a core after
	// each step. 0 with one thread, which needs no pool.
	threads llama.ThreadPool
	width   int
	vocab   int
}

// Load loads the stage's model. llama.Load must have been called.
func Load(c Config) (*Stage, error) {
	if c.Plan.Layers == 0 {
		c.Plan = family.Plan{First: c.First, Last: c.Last, Layers: c.Layers, Exit: c.ExitNode}
	}
	c.First, c.Last, c.Layers = c.Plan.First, c.Plan.Last, c.Plan.Layers
	if c.First < 0 || c.First >= c.Last || c.Last > c.Layers || c.Threads < 1 || c.ChunkRows < 1 || len(c.Paths) == 0 {
		return nil, fmt.Errorf("%w: stage of layers %d-%d of %d with %d threads", ErrBatch, c.First, c.Last, c.Layers, c.Threads)
	}
	p := llama.ModelParams{NoRepack: c.NoRepack}
	if len(c.Devices) > 0 && c.GPULayers > 0 {
		p.Devices, p.GPULayers = c.Devices, c.GPULayers
		if c.GPULayers >= c.Last-c.First {
			p.GPULayers = -1
		}
	}
	m, err := llama.LoadModel(c.Paths, p)
	if err != nil {
		return nil, err
	}
	if n := m.NLayer(); n != c.Plan.Slots() {
		m.Free()
		return nil, fmt.Errorf("%w: the files hold %d layers, not %d", ErrBatch, n, c.Plan.Slots())
	}
	s := &Stage{cfg: c, model: m, width: c.Plan.Width, vocab: m.Vocab().N()}
	if s.width == 0 {
		s.width = m.NEmbd()
	}
	if c.Threads > 1 {
		if s.threads, err = llama.NewThreadPool(c.Threads, 0, 0); err != nil {
			m.Free()
			return nil, err
		}
	}
	return s, nil
}

// Close frees the model; all pools must be closed before.
func (s *Stage) Close() {
	if s.threads != 0 {
		s.threads.Free()
	}
	s.model.Free()
}

// Model gives the handle for text work on the tail.
func (s *Stage) Model() llama.Model { return s.model }

// Width is the number of floats per row at the seams: that of the residual
// stream, which in some families is several times the model's own width.
func (s *Stage) Width() int { return s.width }

// Head reports whether rows come in as token ids.
func (s *Stage) Head() bool { return s.cfg.First == 0 }

// Tail reports whether the stage ends with logits.
func (s *Stage) Tail() bool { return s.cfg.Last == s.cfg.Layers }

// Plan says how the stage is run.
func (s *Stage) Plan() *family.Plan { return &s.cfg.Plan }

// embeds reports whether hidden rows are given to the library as embeddings.
func (s *Stage) embeds() bool { return !s.Head() && s.cfg.Plan.Entry == "" }

// Config is what was loaded.
func (s *Stage) Config() Config { return s.cfg }
