package suite

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"time"

	"neuron/llama"
	"neuron/llama/archs"
	"neuron/llama/family"
	"neuron/llama/gguf"
	"neuron/llama/parity"
)

// jobArg marks the command line of a child.
const jobArg = "one-model"

// Job is what a child does.
type Job struct {
	Model, Type string
	Dir         string // for files, removed by the parent
	// Quick leaves out sessions, truncation and state; Brief also most cuts.
	Quick, Brief bool
	// Vulkan compares stages on Vulkan and on the processor instead.
	Vulkan bool
}

func (j Job) device() string {
	if j.Vulkan {
		return deviceVulkan
	}
	return ""
}

const deviceVulkan = "vulkan"

// kind says on a command line what kind of check it is.
func (j Job) kind() string {
	switch {
	case j.Vulkan:
		return deviceVulkan
	case j.Brief:
		return "brief"
	case j.Quick:
		return "quick"
	}
	return "thorough"
}

func (j Job) args() []string { return []string{jobArg, j.Model, j.Type, j.kind(), j.Dir} }

// JobOf reads a child's command line, program name included.
func JobOf(args []string) (Job, bool) {
	if len(args) != 6 || args[1] != jobArg {
		return Job{}, false
	}
	j := Job{Model: args[2], Type: args[3], Dir: args[5], Vulkan: args[4] == deviceVulkan}
	j.Brief = args[4] == "brief"
	j.Quick = j.Brief || args[4] == "quick"
	return j, true
}

// seed of all weights.
const seed = 1

// Do writes the model and checks it. It may end the process: a defect that libllama
// finds in itself does.
func Do(ctx context.Context, j Job) *Outcome {
	began := time.Now()
	out := &Outcome{Model: j.Model, Type: j.Type}
	if err := do(ctx, j, out); err != nil {
		out.Failure, out.NoDevice = err.Error(), errors.Is(err, errNoDevice)
	}
	out.Seconds = math.Round(time.Since(began).Seconds()*100) / 100
	return out
}

func do(ctx context.Context, j Job, out *Outcome) error {
	if err := limitMemory(); err != nil {
		return err
	}
	typ, err := gguf.ParseType(j.Type)
	if err != nil {
		return err
	}
	dir, err := llama.NativeDir()
	if err != nil {
		return err
	}
	if err := llama.Load(dir); err != nil {
		return err
	}
	family.AllowTrial()
	path := filepath.Join(j.Dir, "model.gguf")
	if err := archs.Write(path, j.Model, typ, seed); err != nil {
		return err
	}
	if err := describe(path, out); err != nil {
		return err
	}
	if j.Vulkan {
		out.Device = deviceVulkan
		out.Vulkan, err = compareVulkan(ctx, path, j.Dir)
		return err
	}
	if out.Spread, err = runWhole(path); err != nil {
		return fmt.Errorf("the whole model: %w", err)
	}
	o := parity.Options{Dir: j.Dir}
	if j.Quick {
		o.Quick, o.Prompt, o.Steps = true, 100, 4
	}
	if j.Brief {
		o.Cuts = 3
	}
	out.Report, err = parity.Check(ctx, path, o)
	return err
}

// describe notes what the family's entry says of the file.
func describe(path string, out *Outcome) error {
	f, err := gguf.OpenModel(path)
	if err != nil {
		return err
	}
	defer f.Close()
	m, err := family.Describe(f.Meta())
	if err != nil {
		return err
	}
	out.Layers, out.Legal = m.Layers, len(m.Cuts())
	out.Entry, out.Why = m.Family().Entry, m.Family().Why
	return nil
}

// runWhole runs the model by itself, two chunks and some steps, and gives the spread of
// the logits: also a family that is not cut must be able to run.
func runWhole(path string) (float64, error) {
	m, err := llama.LoadModel([]string{path}, llama.ModelParams{})
	if err != nil {
		return 0, err
	}
	defer m.Free()
	c, err := llama.NewContext(m, llama.ContextParams{NCtx: 512, NBatch: 64, Threads: 1})
	if err != nil {
		return 0, err
	}
	defer c.Free()
	b, err := llama.NewBatch(64, 0)
	if err != nil {
		return 0, err
	}
	defer b.Free()
	const rows, steps = 64, 8
	pos, next := int32(0), int32(1)
	var spread float64
	for call := range 2 + steps {
		n := rows
		if call >= 2 {
			n = 1
		}
		b.Reset()
		for i := range n {
			if err := b.AddToken((next+int32(7*i))%archs.Vocab, pos, 0, i == n-1); err != nil {
				return 0, err
			}
			pos++
		}
		if err := c.Decode(b); err != nil {
			return 0, err
		}
		logits, err := c.Logits(n - 1)
		if err != nil {
			return 0, err
		}
		low, high := slices.Min(logits), slices.Max(logits)
		if s := float64(high) - float64(low); math.IsNaN(s) || math.IsInf(s, 0) || s == 0 {
			return 0, errors.New("its logits are of no use: " + fmt.Sprint(low, " to ", high))
		}
		spread = float64(high - low)
		next = int32(slices.Index(logits, high))
	}
	return spread, nil
}

// tempDir makes the folder of one child.
func tempDir() (string, error) { return os.MkdirTemp("", "neuron-families-") }
