package stage_test

import (
	"slices"
	"testing"

	"neuron/engine/protocol"
	"neuron/engine/seam/seamtest"
	"neuron/engine/stage"
	"neuron/engine/stage/gpu"
	"neuron/engine/stage/wire"
)

// TestChosenDevices: what is chosen computes, where it is there, and what is not
// there is told. With the library for the processor alone, which CI has, the
// second half is all; NEURON_LLAMA_DIR with the Vulkan variant, and
// GGML_VK_VISIBLE_DEVICES=0 for a device in software, try the first.
func TestChosenDevices(t *testing.T) {
	t.Parallel()
	about, err := stage.About(within(t), spawn(), nativeDir(t))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Contains(about.Backends, "CPU") || len(about.Devices) == 0 {
		t.Fatalf("backends %q, devices %v", about.Backends, about.Devices)
	}
	names := slices.DeleteFunc(gpu.Names(about.Devices), func(n string) bool { return n == "" })
	t.Logf("backends %q, devices that can be chosen: %q", about.Backends, names)

	const none = "no such card"
	shard := layers(t, guidePath(), 0, 0)
	plain := start(t, shard, func(l *wire.Load) { l.GPUs = []string{none} })
	if l := plain.Loaded(); len(l.GPUs) != 0 || l.GPULayers != 0 || !slices.Equal(l.Missing, []string{none}) {
		t.Errorf("without a device: on %q with %d layers, missing %q", l.GPUs, l.GPULayers, l.Missing)
	}
	ids := chat(t, guideText(t), "What is Neuron?")
	want := answerOf(t, plain, ids)
	for i, name := range names {
		p := start(t, shard, func(l *wire.Load) { l.GPUs = []string{name} })
		l := p.Loaded()
		if !slices.Equal(l.GPUs, []string{name}) || l.GPULayers < 1 || len(l.Missing) != 0 {
			t.Errorf("%s: on %q with %d layers, missing %q", name, l.GPUs, l.GPULayers, l.Missing)
		}
		if l.KVBudget > plain.KVBudget() || l.KVBudget <= 0 {
			t.Errorf("%s: a budget of %d bytes, %d without it", name, l.KVBudget, plain.KVBudget())
		}
		if got := answerOf(t, p, ids); textOf(got) != textOf(want) {
			t.Errorf("%s answers %q, the processor %q", name, textOf(got), textOf(want))
		}
		t.Logf("%s: %d layers, step %d us (processor %d us)", names[i], l.GPULayers, l.StepMicros, plain.Loaded().StepMicros)
		// A half that ends at a seam: its rows come back from the device.
		head := start(t, layers(t, guidePath(), 0, 2), func(l *wire.Load) { l.GPUs = []string{name} })
		tail := start(t, layers(t, guidePath(), 2, 0), nil)
		first, second := mustOpen(t, head, nil), mustOpen(t, tail, nil)
		if got := answer(t, []*seamtest.Session{first, second}, ids, 8); textOf(got) != textOf(want[:min(len(want), len(got))]) {
			t.Errorf("%s and the processor answer %q, the processor alone %q", name, textOf(got), textOf(want))
		}
	}
}

// answerOf is what a stage with the whole model answers.
func answerOf(t testing.TB, p *stage.Process, ids []int32) []protocol.Token {
	t.Helper()
	s := mustOpen(t, p, nil)
	out := answer(t, []*seamtest.Session{s}, ids, 16)
	if len(out) < 2 {
		t.Fatalf("an answer of %d tokens", len(out))
	}
	return out
}
