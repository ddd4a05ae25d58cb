package program_test

import (
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"neuron/engine/cli/apiclient"
	"neuron/engine/protocol"
	"neuron/llama"
	"neuron/llama/exec"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// speed is one measurement: microseconds per prompt token and per decoded one.
type speed struct{ prefill, decode float64 }

// BenchmarkTwoHops compares a route of two engines, asked through the API,
// with libllama alone in the same run, in turns: one thread per stage on both
// sides, the same model, prompt length and answer length. Ratios are speeds of
// the route over speeds of libllama, so 1 is no loss; prefill may exceed 1,
// since two stages work at the same time. seam_us/token is what the route
// takes longer per decoded token.
//
// NEURON_BENCH_1B=1 takes a random model of 1.1 billion weights (Q4_0) instead
// of the tiny one, of which the seam is most of the time.
func BenchmarkTwoHops(b *testing.B) {
	needLibrary(b)
	preset, typ, prompt, tokens := "tiny-llama", gguf.TypeQ8_0, 1024, 256
	if os.Getenv("NEURON_BENCH_1B") == "1" {
		preset, typ, prompt, tokens = "llama-1b", gguf.TypeQ4_0, 512, 48
	}
	shape, err := synth.Preset(preset)
	if err != nil {
		b.Fatal(err)
	}
	model := filepath.Join(b.TempDir(), preset+".gguf")
	if err := synth.Write(model, shape, synth.Options{Type: typ}); err != nil {
		b.Fatal(err)
	}
	alone := newAlone(b, model, shape.Layers, prompt, tokens)
	half := strconv.Itoa(shape.Layers / 2)
	n := newNetwork(b, model, "0-"+half, half+"-"+strconv.Itoa(shape.Layers))
	n.measure(b, preset, prompt, tokens) // makes the KV pools on both hops
	alone.measure(b)

	var one, two speed
	for b.Loop() {
		add(&one, alone.measure(b))
		add(&two, n.measure(b, preset, prompt, tokens))
	}
	k := float64(b.N)
	b.ReportMetric(0, "ns/op") // no figure of interest
	b.ReportMetric(one.decode/two.decode, "decode_ratio")
	b.ReportMetric(one.prefill/two.prefill, "prefill_ratio")
	b.ReportMetric((two.decode-one.decode)/k, "seam_us/token")
	b.ReportMetric(1e6*k/two.decode, "decode_tokens/s")
	b.ReportMetric(1e6*k/two.prefill, "prefill_tokens/s")
	b.ReportMetric(1e6*k/one.decode, "alone_decode_tokens/s")
	b.ReportMetric(1e6*k/one.prefill, "alone_prefill_tokens/s")
}

func add(sum *speed, s speed) {
	sum.prefill += s.prefill
	sum.decode += s.decode
}

// measure asks for one answer over the route. Prefill is the time from the
// last snapshot before it to the first token, decode the rest.
func (n *network) measure(b *testing.B, model string, prompt, tokens int) speed {
	b.Helper()
	var opened float64
	a, err := n.client.Chat(b.Context(), apiclient.ChatRequest{
		Model: model, MaxTokens: tokens, IgnoreEOS: true,
		// A byte that no merge of the vocabulary contains is one token.
		Messages: []apiclient.Message{{Role: "user", Content: strings.Repeat("z", prompt)}},
		OnTelemetry: func(t protocol.Telemetry) {
			if t.Phase == protocol.PhasePrefill && opened == 0 {
				opened = t.ElapsedMillis
			}
		},
	}, nil)
	if err != nil {
		b.Fatal(err)
	}
	t := a.Telemetry
	if t.Tokens != tokens || len(t.Route) != 2 || opened == 0 {
		b.Fatalf("%d tokens over %d hops, prefill began at %g ms", t.Tokens, len(t.Route), opened)
	}
	return speed{
		prefill: 1e3 * (t.FirstTokenMillis - opened) / float64(t.PrefillTotal),
		decode:  1e3 * (t.ElapsedMillis - t.FirstTokenMillis) / float64(tokens-1),
	}
}

// alone is libllama in this process with the whole model.
type alone struct {
	pool           *exec.Pool
	layers, vocab  int
	prompt, tokens int
}

const chunk = 256 // the engines' default

func newAlone(b *testing.B, model string, layers, prompt, tokens int) *alone {
	b.Helper()
	dir, err := llama.NativeDir()
	if err != nil {
		b.Fatal(err)
	}
	llama.SetLog(func(llama.LogLevel, string) {})
	if err := llama.Load(dir); err != nil {
		b.Fatal(err)
	}
	stage, err := exec.Load(exec.Config{
		Paths: []string{model}, Last: layers, Layers: layers, ExitNode: "l_out", Threads: 1, ChunkRows: chunk,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(stage.Close)
	pool, err := stage.NewPool(2048, 1, false)
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(pool.Close)
	return &alone{pool: pool, layers: layers, vocab: stage.Model().Vocab().N(), prompt: prompt, tokens: tokens}
}

func (a *alone) measure(b *testing.B) speed {
	b.Helper()
	if err := a.pool.Clear(0); err != nil {
		b.Fatal(err)
	}
	ids := make([]int32, a.prompt)
	for i := range ids {
		ids[i] = 'z'
	}
	step := func(pos int, ids []int32, logits bool) int32 {
		r, err := a.pool.Run(a.layers, []exec.Work{{Pos: int32(pos), IDs: ids, Logits: logits}})
		if err != nil {
			b.Fatal(err)
		}
		if !logits {
			return 0
		}
		l, err := a.pool.Logits(r.Rows[0] + len(ids) - 1)
		if err != nil {
			b.Fatal(err)
		}
		best := 0
		for i, v := range l {
			if v > l[best] {
				best = i
			}
		}
		return int32(best)
	}
	began := time.Now()
	var next int32
	for pos := 0; pos < a.prompt; pos += chunk {
		end := min(pos+chunk, a.prompt)
		next = step(pos, ids[pos:end], end == a.prompt)
	}
	first := time.Now()
	for i := range a.tokens - 1 {
		next = step(a.prompt+i, []int32{next}, true)
	}
	end := time.Now()
	return speed{
		prefill: float64(first.Sub(began).Microseconds()) / float64(a.prompt),
		decode:  float64(end.Sub(first).Microseconds()) / float64(a.tokens-1),
	}
}
