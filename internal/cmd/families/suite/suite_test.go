package suite

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"neuron/llama/archs"
	"neuron/llama/parity"
)

// TestMain makes the test program the child of its own runs.
func TestMain(m *testing.M) {
	if j, ok := JobOf(os.Args); ok {
		switch j.Model {
		case "dies":
			fmt.Fprintln(os.Stderr, "x.cpp:1: GGML_ASSERT(a == b) failed\nmore\nlast")
			os.Exit(3)
		case "hangs":
			select {}
		}
		if err := json.NewEncoder(os.Stdout).Encode(Do(context.Background(), j)); err != nil {
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// few are families of different kinds: each entry and cache that the table knows.
var few = []string{"llama/tied", "gemma2", "gpt-oss", "deepseek2/mtp", "mamba2", "qwen35moe/mtp", "deepseek4/mtp", "glm-dsa/mtp", "nemotron_h", "gemma4/experts", "rwkv7"}

// TestFewFamilies cuts ten families and lets one be whole. "make families" does all of
// them, at every boundary.
func TestFewFamilies(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	var out bytes.Buffer
	o := Options{
		Only: few, Types: []string{thorough}, Brief: true, Jobs: 2, State: filepath.Join(dir, "state.jsonl"),
		Page: filepath.Join(dir, "page.md"), Limit: 5 * time.Minute, Program: exe, Out: &out,
	}
	if err := Run(t.Context(), o); err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	text := out.String()
	if n := strings.Count(text, "certified at"); n != len(few)-1 || !strings.Contains(text, "whole: rwkv7") {
		t.Errorf("%d of %d certified:\n%s", n, len(few)-1, text)
	}
	page, err := os.ReadFile(o.Page)
	if err != nil || !strings.Contains(string(page), "| gpt-oss |") {
		t.Errorf("%v, page of %d bytes", err, len(page))
	}
	// What has been run is not run again.
	out.Reset()
	if err := Run(t.Context(), o); err != nil || !strings.Contains(out.String(), fmt.Sprintf("0 of %d run", len(few))) {
		t.Errorf("again: %v\n%s", err, out.String())
	}
}

func TestSpawn(t *testing.T) {
	t.Parallel()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	r := &run{o: Options{Program: exe, Limit: 30 * time.Second}}
	o, err := r.spawn(t.Context(), Job{Model: "dies", Type: plain})
	if err != nil || o.State() != Failed || !strings.Contains(o.Failure, "GGML_ASSERT(a == b)") || !strings.Contains(o.Failure, "exit status 3") {
		t.Errorf("%+v, %v", o, err)
	}
	if o, err = r.spawn(t.Context(), Job{Model: "no-such-family", Type: plain}); err != nil || !strings.Contains(o.Failure, "unknown model") {
		t.Errorf("%+v, %v", o, err)
	}
	r.o.Limit = 100 * time.Millisecond
	if o, err = r.spawn(t.Context(), Job{Model: "hangs", Type: plain}); err != nil || !strings.Contains(o.Failure, "took more than") {
		t.Errorf("%+v, %v", o, err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err = r.spawn(ctx, Job{Model: "hangs", Type: plain}); !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
}

func TestJobOf(t *testing.T) {
	t.Parallel()
	for _, j := range []Job{
		{Model: "a/b", Type: "f32", Dir: "d"}, {Model: "a", Type: "f32", Dir: "d", Quick: true},
		{Model: "a", Type: "f32", Dir: "d", Quick: true, Brief: true}, {Model: "a", Type: "f32", Dir: "d", Vulkan: true},
	} {
		if got, ok := JobOf(append([]string{"program"}, j.args()...)); !ok || got != j {
			t.Errorf("%+v became %+v, %v", j, got, ok)
		}
	}
	for _, args := range [][]string{{"program"}, {"program", "-only", "a", "b", "c", "d"}} {
		if _, ok := JobOf(args); ok {
			t.Errorf("%q is a job", args)
		}
	}
}

func TestResults(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "sub", "results.jsonl")
	r, err := openResults(path)
	if err != nil {
		t.Fatal(err)
	}
	for _, o := range []*Outcome{
		{Model: "a", Type: plain, Layers: 1}, {Model: "a", Type: plain, Layers: 2}, {Model: "a", Type: plain, Device: deviceVulkan, Layers: 3},
	} {
		if err := r.add(o); err != nil {
			t.Fatal(err)
		}
	}
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteString(`{"model":"a","type":"f`); err != nil { // a run that was stopped
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if r, err = openResults(path); err != nil {
		t.Fatal(err)
	}
	for device, layers := range map[string]int{"": 2, deviceVulkan: 3} {
		if o, ok := r.get("a", plain, device); !ok || o.Layers != layers {
			t.Errorf("%q: %+v", device, o)
		}
	}
}

// TestPage: totals count an architecture once, by its worst variant that may be cut.
func TestPage(t *testing.T) {
	t.Parallel()
	r := &results{by: map[resultKey]*Outcome{}}
	good := func(model, typ string) *Outcome {
		return &Outcome{Model: model, Type: typ, Layers: 8, Legal: 7, Why: "a | b", Report: &parity.Report{Routes: 3, Width: 256, KVBytesPerCell: 64}}
	}
	for _, m := range archs.List() {
		r.put(good(m.Name, thorough))
	}
	whole := good("nanbeige/loops", thorough)
	whole.Report = &parity.Report{WholeOnly: "this model is not cut: loops"}
	r.put(whole)
	bad := good("qwen2", plain)
	bad.Report.Failures = []string{"stages [1 8]: logits differ by 1"}
	r.put(bad)
	part := good("gemma2", plain)
	part.Legal = 3
	r.put(part)
	r.put(&Outcome{Model: "llama", Type: thorough, Device: deviceVulkan, Vulkan: &Vulkan{Device: "a card", Mixed: 0.25, Spread: 20, Agree: 30, Steps: 32}})
	text := string(page(r))
	arches := map[string]bool{}
	for _, m := range archs.List() {
		arches[m.Arch] = true
	}
	n, models := len(arches), len(archs.List())
	for _, want := range []string{
		fmt.Sprintf("Of %d architectures with a model here, **%d run**, and **%d are certified at every boundary**, 1 certified at some boundaries, 1 failed.", n, n-1, n-2),
		fmt.Sprintf("%d models, of which %d run and %d are certified", models, models-1, models-3),
		"| qwen2 | dense | **fails** in f32 |", "| qwen2 | f32: stages [1 8]: logits differ by 1 (1 in all) |", "| nanbeige/loops | loops |",
		"certified with a rule | 3 of 7 |", "a \\| b", "on a card", "| 0.25 | 20 | 30 of 32 |", "| bert |",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the page lacks %q", want)
		}
	}
	if t.Failed() {
		t.Log(text[:2000])
	}
}

func TestState(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		o    Outcome
		want State
	}{
		"nothing": {Outcome{}, Failed},
		"passed":  {Outcome{Layers: 4, Legal: 3, Report: &parity.Report{Routes: 1}}, Certified},
		"rule":    {Outcome{Layers: 4, Legal: 2, Report: &parity.Report{Routes: 1}}, WithRule},
		"no run":  {Outcome{Layers: 4, Legal: 3, Report: &parity.Report{}}, Failed},
		"whole":   {Outcome{Report: &parity.Report{WholeOnly: "x"}}, Whole},
		"differs": {Outcome{Layers: 4, Legal: 3, Report: &parity.Report{Routes: 1, Failures: []string{"x"}}}, Failed},
		"vulkan":  {Outcome{Vulkan: &Vulkan{}}, Certified},
		"broken":  {Outcome{Vulkan: &Vulkan{}, Failure: "x"}, Failed},
	} {
		if got := c.o.State(); got != c.want {
			t.Errorf("%s: %v, want %v", name, got, c.want)
		}
	}
}
