package suite

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"

	"neuron/llama"
	"neuron/llama/archs"
	"neuron/llama/cut"
	"neuron/llama/family"
	"neuron/llama/gguf"
)

// vulkanModels are of different kinds: plain, experts, sliding windows, latent rows,
// recurrent and hybrid ones, wide seams, shared indexers.
var vulkanModels = []string{
	"llama", "qwen2", "qwen3moe", "gemma2", "gemma3", "phi3", "command-r", "deepseek2", "gpt-oss", "mamba2", "deepseek4", "glm-dsa",
	"qwen35moe", "falcon-h1", "lfm2", "granitehybrid",
}

// runVulkan compares stages on an accelerator with the whole model on it, and routes
// that mix it with the processor. Without driver or libraries it says so and is no
// failure: not every machine has them.
func (r *run) runVulkan(ctx context.Context, models []archs.Model) error {
	dir, err := llama.NativeDir()
	if err != nil {
		return err
	}
	r.vulkan = filepath.Join(filepath.Dir(dir), llama.Platform()+"-vulkan")
	if _, err := os.Stat(r.vulkan); err != nil {
		return fmt.Errorf("the libraries with Vulkan are not there (sh llama/native/install.sh %s-vulkan): %w", llama.Platform(), err)
	}
	var jobs []Job
	for _, m := range models {
		if len(r.o.Only) > 0 || slices.Contains(vulkanModels, m.Name) {
			jobs = append(jobs, Job{Model: m.Name, Type: thorough, Vulkan: true})
		}
	}
	if len(jobs) == 0 {
		return nil
	}
	// The first one alone tells whether there is a device at all.
	if _, ok := r.known(jobs[0]); ok {
		return r.each(ctx, jobs)
	}
	first, err := r.spawn(ctx, jobs[0])
	if err != nil {
		return err
	}
	if first.NoDevice {
		fmt.Fprintf(r.o.Out, "SKIPPED: %s; on Debian, mesa-vulkan-drivers has one in software\n", first.Failure)
		return nil
	}
	first.Stamp = r.stamp
	if err := r.kept.add(first); err != nil {
		return err
	}
	return r.each(ctx, jobs)
}

// vulkanEnv makes a child use the libraries with Vulkan, and the driver's first device
// also when it is one in software, with one thread.
func (r *run) vulkanEnv() []string {
	return []string{llama.NativeDirEnv + "=" + r.vulkan, "GGML_VK_VISIBLE_DEVICES=0", "GGML_VK_DISABLE_FUSION=1", "LP_NUM_THREADS=1"}
}

// errNoDevice: the library finds no accelerator.
var errNoDevice = errors.New("no Vulkan device")

// Rows of the prompt, and steps behind it.
const (
	vulkanPrompt = 100
	vulkanSteps  = 16
)

// compareVulkan runs the model whole on the processor and on the accelerator, in stages
// on the accelerator, and in stages on both. All get the tokens that the whole model on
// the processor chose, so that each row is compared with the same row.
func compareVulkan(ctx context.Context, path, dir string) (*Vulkan, error) {
	var dev []llama.Device
	for _, d := range llama.Devices() {
		if d.Kind == llama.DeviceGPU || d.Kind == llama.DeviceIGPU {
			dev = append(dev, d)
		}
	}
	if len(dev) == 0 {
		return nil, errNoDevice
	}
	src, err := gguf.OpenModel(path)
	if err != nil {
		return nil, err
	}
	defer src.Close()
	m, err := family.Describe(src.Meta())
	if err != nil {
		return nil, err
	}
	if m.WholeOnly != "" {
		return nil, errors.New(m.WholeOnly)
	}
	store, err := cut.Import(ctx, src, "vulkan", filepath.Join(dir, "shard"), 0, m.Layers, nil)
	if err != nil {
		return nil, err
	}
	v := &vulkanRun{path: path, store: store, m: m, dev: dev[:1], out: &Vulkan{Device: dev[0].Description}}
	return v.out, v.run(ctx)
}

type vulkanRun struct {
	path  string
	store *cut.Store
	m     *family.Model
	dev   []llama.Device
	out   *Vulkan
}

// hop is a stage up to a boundary, on the accelerator or not.
type hop struct {
	last int
	gpu  bool
}

func (v *vulkanRun) run(ctx context.Context) error {
	n := v.m.Layers
	ids := prompt(vulkanPrompt)
	cpu, err := v.drive(ctx, []hop{{n, false}}, ids, nil)
	if err != nil {
		return fmt.Errorf("whole on the processor: %w", err)
	}
	gpu, err := v.drive(ctx, []hop{{n, true}}, ids, cpu.chosen)
	if err != nil {
		return fmt.Errorf("whole on the accelerator: %w", err)
	}
	v.out.Whole = maxDiff(cpu.logits, gpu.logits)
	v.out.Spread = spread(cpu.logits)
	third, half := n/3, n/2
	for _, bounds := range [][]int{{half, n}, {third, 2 * third, n}} {
		got, err := v.drive(ctx, on(bounds, func(int) bool { return true }), ids, cpu.chosen)
		if err != nil {
			return fmt.Errorf("stages %v on the accelerator: %w", bounds, err)
		}
		v.out.Same = max(v.out.Same, maxDiff(gpu.logits, got.logits))
		v.out.Routes++
	}
	for _, mix := range []struct {
		bounds []int
		odd    bool
	}{{[]int{half, n}, false}, {[]int{third, 2 * third, n}, true}} {
		hops := on(mix.bounds, func(i int) bool { return i%2 == 1 != mix.odd })
		got, err := v.drive(ctx, hops, ids, cpu.chosen)
		if err != nil {
			return fmt.Errorf("mixed stages %v: %w", hops, err)
		}
		v.out.Routes++
		v.out.Mixed = max(v.out.Mixed, maxDiff(cpu.logits, got.logits))
		for i, id := range got.chosen {
			v.out.Steps++
			if id == cpu.chosen[i] {
				v.out.Agree++
			}
		}
	}
	if v.out.Same != 0 {
		return fmt.Errorf("stages on the accelerator differ from the whole model on it by %g", v.out.Same)
	}
	return nil
}

func on(bounds []int, gpu func(i int) bool) []hop {
	out := make([]hop, len(bounds))
	for i, b := range bounds {
		out[i] = hop{b, gpu(i)}
	}
	return out
}

func (v *Vulkan) line() string {
	return fmt.Sprintf("stages on the device differ by %.3g, mixed routes by %.3g of %.3g, %d of %d tokens agree", v.Same, v.Mixed, v.Spread, v.Agree, v.Steps)
}
