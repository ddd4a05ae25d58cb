// Package bench measures what a route costs over libllama alone, as ratios
// against a baseline that runs in turns with it: real engine processes, their
// stages and the seams between them on one side, a plain loop over libllama in
// this process on the other. "make bench" runs it and keeps the table in
// docs/performance.md.
//
// Only internal/cmd/bench imports it. The driver here speaks to the seams
// directly (rig), or is engine/session where the figure says so; the gateway's
// HTTP face (chatload) is part of the figures that name it.
package bench

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"neuron/engine/probe"
	"neuron/internal/bench/report"
	"neuron/internal/bench/rig"
	"neuron/internal/version"
	"neuron/llama"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// Models that can be measured.
const (
	Model1B   = "1b"   // 1.1 billion random weights in Q4_0, the shape of TinyLlama
	ModelTiny = "tiny" // 5 million: a look at the figures in seconds, mostly seam
)

// Options configure Run. Out is required.
type Options struct {
	Bin   string // folder with neuron-engine and neuron-tracker
	Dir   string // folder for models, shards and logs; kept, some 2.5 GB
	Guide string // the bundled model
	Model string // Model1B or ModelTiny [Model1B]
	Only  string // regular expression: figures to measure [all]
	Long  bool   // the mixed load with all its loads, some three minutes more
	Out   io.Writer
	// Peer is the command that runs Peer in a process of its own.
	Peer []string
}

// scale is how much is measured of a model.
type scale struct {
	shape           synth.Shape
	typ             gguf.Type
	threads         int // per stage where stages run one at a time
	prompt, chunk   int // of the comparison with one chunk in flight
	prefills        int // prompts per side
	block           int // decode steps in turn
	leastBlocks     int // turns per side, until their median is settled
	blocks          int // and at most
	pipePrompt      int
	pipeRuns        int // turns with one chunk in flight
	batchSteps      int
	batchRuns       int
	longPrompt      int
	before          time.Duration // calm decoding before the long prompt
	context         int
	guideBlocks     int
	lawSteps        int // per turn
	lawRounds       int
	prefixPrompt    int
	prefixRuns      int
	apiRuns         int
	chatPrompt      int           // tokens of a chat's request in the mixed load
	chatAnswer      int           // and of its answer
	longUntil       time.Duration // bounds the wait for one long prompt there
	oftenUntil      time.Duration // how long long prompts keep coming there
	trips, tripRuns int
}

func (o *Options) scale() (scale, error) {
	name, s := "llama-1b", scale{
		typ: gguf.TypeQ4_0, threads: 2, prompt: 256, chunk: 128, prefills: 3, block: 6, leastBlocks: 8, blocks: 20,
		pipePrompt: 1024, pipeRuns: 1, batchSteps: 24, batchRuns: 2, longPrompt: 4000, before: 3 * time.Second,
		context: 2048, guideBlocks: 16, lawSteps: 3, lawRounds: 4, trips: 200, tripRuns: 100,
		prefixPrompt: 2000, prefixRuns: 1, apiRuns: 12, chatPrompt: 128, chatAnswer: 64, longUntil: 20 * time.Second, oftenUntil: 20 * time.Second,
	}
	if o.Long {
		s.longUntil = time.Minute
	}
	switch o.Model {
	case Model1B, "":
	case ModelTiny:
		name = "tiny-llama"
		s.typ, s.prompt, s.blocks, s.prefills, s.pipePrompt, s.before = gguf.TypeQ8_0, 512, 12, 6, 1024, time.Second
		s.block, s.batchSteps, s.tripRuns, s.guideBlocks = 32, 64, 4, 6
		s.lawRounds, s.apiRuns, s.longUntil, s.oftenUntil = 2, 4, 20*time.Second, 6*time.Second
	default:
		return s, fmt.Errorf("unknown model %q, want %s or %s", o.Model, Model1B, ModelTiny)
	}
	shape, err := synth.Preset(name)
	shape.Context = 8192 // the long prompt and an answer beside it
	s.shape = shape
	return s, err
}

// run is one run of the benchmarks.
type run struct {
	o     Options
	s     scale
	model string // path
	net   *rig.Network
	nodes map[nodeKey]*rig.Node // that run, shared by parts
	rep   *report.Report
	// setup is the time spent on starting and stopping programs and on loading
	// models, which measures nothing.
	setup time.Duration
}

// Run measures and returns the table. Figures that miss their target are no
// error; a part that fails is one, and the other parts are measured all the
// same. It takes less than ten minutes with Model1B on two cores.
func Run(ctx context.Context, o Options) (*report.Report, error) {
	only, err := regexp.Compile(o.Only)
	if err != nil {
		return nil, fmt.Errorf("choice of figures: %w", err)
	}
	whole := time.Now()
	r := &run{o: o, nodes: map[nodeKey]*rig.Node{}}
	if r.s, err = o.scale(); err != nil {
		return nil, err
	}
	if r.rep, err = newReport(&o); err != nil {
		return nil, err
	}
	if err := loadLibrary(); err != nil {
		return nil, err
	}
	r.rep.Llama, r.rep.CPU = llama.Version(), llama.CPUVariant()
	if err := r.writeModel(); err != nil {
		return nil, err
	}
	var failed error
	for _, part := range r.parts() {
		if !only.MatchString(part.name) {
			continue
		}
		began := time.Now()
		r.setup = 0
		r.rep.Section(part.section, part.columns...)
		if err := part.f(ctx); err != nil {
			// The others still say something; a part leaves processes behind then.
			failed = errors.Join(failed, fmt.Errorf("%s: %w", part.name, err), r.stopNetwork())
			fmt.Fprintf(o.Out, "# %s failed: %v\n", part.name, err)
		}
		if ctx.Err() != nil {
			break
		}
		fmt.Fprintf(o.Out, "# %s: %.0f s, %.0f of them for starting\n", part.name, time.Since(began).Seconds(), r.setup.Seconds())
	}
	err = errors.Join(failed, context.Cause(ctx), r.stopNetwork())
	r.rep.Took = time.Since(whole)
	fmt.Fprintf(o.Out, "# all: %.0f s\n", r.rep.Took.Seconds())
	return r.rep, err
}

// part is what can be measured by itself.
type part struct {
	name    string
	section string   // of the report
	columns []string // of the section, where they are not the usual ones
	f       func(context.Context) error
}

// parts are all parts in the order of the report. Those that use the same nodes
// follow each other; those with a gateway, of which the tracker chooses the
// routes, end all other nodes of their model, so they come last.
func (r *run) parts() []part {
	const seams, one, many, api, files = "Seams", "One session over a route", "Several sessions on one stage", "Through the gateway", "Model files"
	return []part{
		{"round trip", seams, nil, r.roundTrips},
		{"guide", seams, nil, r.guide},
		{"speed", one, nil, r.speed},
		{"pipeline", one, nil, r.pipeline},
		{"prefix", "Prompts that come again", nil, r.prefixes},
		{"law", "One token per round trip", nil, r.law},
		{"draft", "Guessed tokens", nil, r.drafts},
		{"batch", many, nil, r.batches},
		{"delay", many, nil, r.delay},
		{"threads", "Threads", nil, r.threads},
		{"gateway", api, nil, r.gateway},
		{"mixed", "Mixed load through the gateway", mixedColumns, r.mixed},
		{"swarm", files, nil, r.swarm},
		{"verify", files, nil, r.verify},
		{"join", files, nil, r.join},
	}
}

// network starts the tracker at the first call.
func (r *run) network(ctx context.Context) (_ *rig.Network, err error) {
	if r.net == nil {
		defer r.starting()()
		r.net, err = rig.Start(ctx, r.o.Bin, filepath.Join(r.o.Dir, "data"))
	}
	return r.net, err
}

// starting counts the time until the returned function is called as set-up.
func (r *run) starting() (done func()) {
	began := time.Now()
	return func() { r.setup += time.Since(began) }
}

func (r *run) stopNetwork() error {
	if r.net == nil {
		return nil
	}
	defer r.starting()()
	err := r.net.Stop()
	r.net, r.nodes = nil, map[nodeKey]*rig.Node{}
	return err
}

func loadLibrary() error {
	dir, err := llama.NativeDir()
	if err != nil {
		return err
	}
	llama.SetLog(func(llama.LogLevel, string) {})
	return llama.Load(dir)
}

// writeModel writes the random model once.
func (r *run) writeModel() error {
	if err := os.MkdirAll(r.o.Dir, 0o755); err != nil {
		return fmt.Errorf("bench folder: %w", err)
	}
	name := ModelTiny
	if r.o.Model != ModelTiny {
		name = Model1B
	}
	r.model = filepath.Join(r.o.Dir, name+".gguf")
	if _, err := os.Stat(r.model); err == nil {
		return nil
	}
	return synth.Write(r.model, r.s.shape, synth.Options{Type: r.s.typ})
}

// machine says what the figures were measured on.
func machine() (string, error) {
	h, err := probe.Read()
	if err != nil {
		return "", err
	}
	return h.String(), nil
}

func newReport(o *Options) (*report.Report, error) {
	m, err := machine()
	if err != nil {
		return nil, err
	}
	return &report.Report{At: time.Now(), Machine: m, Load: report.LoadAverage(), Version: version.Get().String(), Model: o.Model, Out: o.Out}, nil
}
