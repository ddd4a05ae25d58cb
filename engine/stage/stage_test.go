package stage_test

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"neuron/engine/artifact"
	"neuron/engine/protocol"
	"neuron/engine/seam"
	"neuron/engine/seam/seamtest"
	"neuron/engine/stage"
	"neuron/engine/stage/wire"
	"neuron/internal/leaktest"
	"neuron/llama"
	"neuron/llama/exec"
)

// TestStageSuite holds the contract of seam.Stage with real stages: of each
// role one process serves the whole suite.
func TestStageSuite(t *testing.T) {
	for name, r := range map[string]protocol.Range{
		"head": {First: 0, Last: 4}, "middle": {First: 3, Last: 6}, "tail": {First: 5, Last: 8}, "one hop": {First: 0, Last: 8},
	} {
		t.Run(name, func(t *testing.T) {
			leaktest.Check(t)
			p := start(t, layers(t, guidePath(), r.First, r.Last), nil)
			seamtest.StageSuite(t, func() seam.Stage { return p })
		})
	}
}

// TestRouteAnswersLikeTheWholeModel compares greedy answers of two stages, of
// one that stops early, and of a single one with the library run directly.
func TestRouteAnswersLikeTheWholeModel(t *testing.T) {
	leaktest.Check(t)
	text := guideText(t)
	ids := chat(t, text, "What is Neuron?")
	const n = 40
	want := wholeModel(t, ids, n)
	if len(want) < 4 {
		t.Fatalf("the model answers %v", want)
	}
	head := start(t, layers(t, guidePath(), 0, 6), nil)
	tail := start(t, layers(t, guidePath(), 4, 8), nil)
	one := start(t, layers(t, guidePath(), 0, 8), nil)
	early := func(o *seam.StageOpen) { o.Use.Last, o.Sampler = 4, nil }
	for name, hops := range map[string][]*seamtest.Session{
		"one hop":            {mustOpen(t, one, nil)},
		"two hops, early":    {mustOpen(t, head, early), mustOpen(t, tail, nil)},
		"a tail stops early": {mustOpen(t, one, early), mustOpen(t, tail, nil)},
	} {
		got := answer(t, hops, ids, n)
		if !slices.Equal(idsOf(got), want) {
			t.Errorf("%s: %q, want %v", name, textOf(got), want)
		}
		for _, h := range hops {
			if err := h.Close(); err != nil {
				t.Errorf("%s: close: %v", name, err)
			}
		}
	}
}

// wholeModel runs the library in this process with the pinned settings of the
// stages: one thread, chunks of 64 rows, pools of four sequences.
func wholeModel(t *testing.T, ids []int32, n int) []int32 {
	t.Helper()
	if err := llama.Load(nativeDir(t)); err != nil {
		t.Fatal(err)
	}
	s, err := exec.Load(exec.Config{Paths: []string{guidePath()}, Last: 8, Layers: 8, ExitNode: "l_out", Threads: 1, ChunkRows: chunkRows})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p, err := s.NewPool(256, 4, false)
	if err != nil {
		t.Fatal(err)
	}
	defer p.Close()
	var out []int32
	run := func(pos int, rows []int32) {
		r, err := p.Run(8, []exec.Work{{Pos: int32(pos), IDs: rows, Logits: true}})
		if err != nil {
			t.Fatal(err)
		}
		logits, err := p.Logits(r.Rows[0] + len(rows) - 1)
		if err != nil {
			t.Fatal(err)
		}
		best := 0
		for i, x := range logits {
			if x > logits[best] {
				best = i
			}
		}
		out = append(out, int32(best))
	}
	pos := 0
	for chunk := range slices.Chunk(ids, chunkRows) {
		out = nil
		run(pos, chunk)
		pos += len(chunk)
	}
	for len(out) < n && !s.Model().Vocab().IsEOG(out[len(out)-1]) {
		run(pos, out[len(out)-1:])
		pos++
	}
	return out
}

func TestLoadFailuresHaveCodes(t *testing.T) {
	leaktest.Check(t)
	garbage := filepath.Join(t.TempDir(), "garbage.gguf")
	if err := os.WriteFile(garbage, []byte(strings.Repeat("no model ", 1000)), 0o644); err != nil {
		t.Fatal(err)
	}
	whole, err := os.ReadFile(guidePath())
	if err != nil {
		t.Fatal(err)
	}
	cutOff := filepath.Join(t.TempDir(), "short.gguf")
	if err := os.WriteFile(cutOff, whole[:len(whole)/2], 0o644); err != nil {
		t.Fatal(err)
	}
	s := layers(t, guidePath(), 0, 8)
	for name, tt := range map[string]struct {
		change func(*wire.Load)
		want   protocol.Code
	}{
		"no libraries":  {func(l *wire.Load) { l.NativeDir = t.TempDir() }, protocol.CodeNativeMissing},
		"not a GGUF":    {func(l *wire.Load) { l.Paths = []string{garbage} }, protocol.CodeModelInvalid},
		"half a model":  {func(l *wire.Load) { l.Paths = []string{cutOff} }, protocol.CodeModelInvalid},
		"no file":       {func(l *wire.Load) { l.Paths = []string{garbage + ".gone"} }, protocol.CodeModelInvalid},
		"no vocabulary": {func(l *wire.Load) { l.Paths, l.VocabOnly = []string{garbage}, true }, protocol.CodeModelInvalid},
		"no threads":    {func(l *wire.Load) { l.Threads = 0 }, protocol.CodeFrameInvalid},
		"other layers":  {func(l *wire.Load) { l.Last, l.Layers = 9, 9 }, protocol.CodeFrameInvalid},
		"no such exit":  {func(l *wire.Load) { l.Layers, l.ExitNode = 9, "nothing" }, protocol.CodeBatchLayout},
	} {
		p, err := tryStart(t, s, tt.change)
		if code(err) != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
		if err == nil {
			p.Stop()
		}
	}
	bad := spawn()
	bad.Exe = filepath.Join(t.TempDir(), "nothing")
	if _, err := tryStartWith(t, bad, s); code(err) != protocol.CodeStageLost {
		t.Errorf("no program: %v", err)
	}
	// A program that says nothing and ends in order has not loaded.
	bad = spawn()
	bad.Exe, bad.Args = os.Args[0], []string{"-test.run=^$"}
	if _, err := tryStartWith(t, bad, s); code(err) != protocol.CodeStageLost {
		t.Errorf("another program: %v", err)
	}
}

func TestRefusals(t *testing.T) {
	leaktest.Check(t)
	p := start(t, layers(t, guidePath(), 0, 8), func(l *wire.Load) {
		l.KVBudget, l.MaxSessions = 1024*l.KVBytesPerCell, 3
	})
	nan := float32(math.NaN())
	with := func(s protocol.Sampler) func(*seam.StageOpen) { return func(o *seam.StageOpen) { o.Sampler = &s } }
	for name, tt := range map[string]struct {
		change func(*seam.StageOpen)
		want   protocol.Code
	}{
		"no sampler":         {func(o *seam.StageOpen) { o.Sampler = nil }, protocol.CodeInvalidRequest},
		"range":              {func(o *seam.StageOpen) { o.Use.Last = 9 }, protocol.CodeRangeInvalid},
		"other start":        {func(o *seam.StageOpen) { o.Use.First = 1 }, protocol.CodeRangeInvalid},
		"grammar":            {with(protocol.Sampler{Grammar: "root ::= ("}), protocol.CodeGrammarInvalid},
		"grammar of nothing": {with(protocol.Sampler{Grammar: "other ::= \"x\""}), protocol.CodeGrammarInvalid},
		"mirostat":           {with(protocol.Sampler{Mirostat: 3}), protocol.CodeInvalidRequest},
		"alternatives":       {with(protocol.Sampler{Logprobs: true, Top: 21}), protocol.CodeInvalidRequest},
		"repeat penalty":     {with(protocol.Sampler{RepeatPenalty: -1}), protocol.CodeInvalidRequest},
		"window":             {with(protocol.Sampler{RepeatLastN: -2}), protocol.CodeInvalidRequest},
		"bias":               {with(protocol.Sampler{LogitBias: map[int32]float32{1 << 30: 1}}), protocol.CodeInvalidRequest},
		"negative bias id":   {with(protocol.Sampler{LogitBias: map[int32]float32{-1: 1}}), protocol.CodeInvalidRequest},
		"DRY base":           {with(protocol.Sampler{DRYMultiplier: 1, DRYBase: -3, DRYAllowedLength: -7, DRYLastN: 64}), protocol.CodeInvalidRequest},
		"not a number":       {with(protocol.Sampler{Temperature: nan}), protocol.CodeInternal}, // JSON cannot carry it
	} {
		s, err := openSession(t, p, tt.change)
		if code(err) != tt.want {
			t.Errorf("%s: %v, want %s", name, err, tt.want)
		}
		if err == nil {
			s.Close()
		}
	}

	_, err := openSession(t, p, func(o *seam.StageOpen) { o.Context = 1025 })
	if e := protocol.AsError(err); e == nil || e.Code != protocol.CodeContextExceeded || e.Detail["fits"] != "1024" {
		t.Errorf("long context: %v %v", err, e)
	}
	a := mustOpen(t, p, func(o *seam.StageOpen) { o.Context = 512 })
	if a.Cells() != 512 {
		t.Errorf("%d cells", a.Cells())
	}
	_, err = openSession(t, p, func(o *seam.StageOpen) { o.Context = 700 })
	if e := protocol.AsError(err); e == nil || e.Code != protocol.CodeKVBudget || e.Detail["fits"] == "" {
		t.Errorf("more than the budget: %v %v", err, e)
	}
	mustOpen(t, p, func(o *seam.StageOpen) { o.Context = 512 })
	if _, err = openSession(t, p, nil); code(err) != protocol.CodeKVBudget {
		t.Errorf("a full budget: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	// A session that refused nothing still answers.
	b := mustOpen(t, p, func(o *seam.StageOpen) { o.Context = 300 })
	if got := answer(t, []*seamtest.Session{b}, []int32{1, 2, 3}, 2); len(got) == 0 {
		t.Error("no answer")
	}
}

func TestMostSessions(t *testing.T) {
	leaktest.Check(t)
	p := start(t, layers(t, guidePath(), 0, 8), func(l *wire.Load) { l.MaxSessions = 2 })
	a := mustOpen(t, p, nil)
	mustOpen(t, p, nil)
	if _, err := openSession(t, p, nil); code(err) != protocol.CodeStageOverloaded {
		t.Errorf("a third session: %v", err)
	}
	if err := a.Close(); err != nil {
		t.Fatal(err)
	}
	mustOpen(t, p, nil)
}

// TestCloseFreesKV follows the figures that the child reports.
func TestCloseFreesKV(t *testing.T) {
	leaktest.Check(t)
	p := start(t, layers(t, guidePath(), 0, 4), nil)
	budget := p.Capability().KVBytesPerCell * 8 * 256
	until(t, patience, "the whole budget is free", func() bool { return p.Stats().FreeKVBytes == budget })
	s := mustOpen(t, p, nil)
	mustOpen(t, p, func(o *seam.StageOpen) { o.Context = 512 }).Close()
	// The first session's pool has four sequences, half of the memory. The
	// other's may wait for another session, and is free all the same.
	until(t, patience, "one session's pool is taken", func() bool {
		return p.Stats().FreeKVBytes == budget/2 && p.Stats().KVBytes == budget/2 && p.Stats().ComputeBytes > 0 && p.Stats().Sessions == 1
	})
	for range 2 {
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
	until(t, patience, "all is free again", func() bool {
		return p.Stats().FreeKVBytes == budget && p.Stats().Sessions == 0 && p.Stats().KVBytes == 0 && p.Stats().ComputeBytes == 0
	})
}

func TestSampling(t *testing.T) {
	leaktest.Check(t)
	text := guideText(t)
	ids := chat(t, text, "What is a seam?")
	p := start(t, layers(t, guidePath(), 0, 8), nil)
	say := func(t *testing.T, n int, s protocol.Sampler) []protocol.Token {
		t.Helper()
		session := mustOpen(t, p, func(o *seam.StageOpen) {
			o.Sampler = &s
			if s.NeedsPrompt() {
				o.Prompt = ids
			}
		})
		defer session.Close()
		return answer(t, []*seamtest.Session{session}, ids, n)
	}
	random := func(seed uint32) protocol.Sampler {
		return protocol.Sampler{Seed: seed, Temperature: 5, RepeatLastN: 64, RepeatPenalty: 1.1, IgnoreEOG: true}
	}
	t.Run("a seed repeats", func(t *testing.T) {
		a, b := textOf(say(t, 24, random(7))), textOf(say(t, 24, random(7)))
		if a != b || a == "" {
			t.Errorf("seed 7 said %q and %q", a, b)
		}
		if c, d := textOf(say(t, 24, random(8))), textOf(say(t, 24, random(9))); a == c && a == d {
			t.Errorf("seeds 7, 8 and 9 all said %q", a)
		}
	})
	t.Run("grammar", func(t *testing.T) {
		got := say(t, 8, protocol.Sampler{Grammar: `root ::= "seven" | "eight"`})
		if s := textOf(got); s != "seven" && s != "eight" {
			t.Errorf("said %q", s)
		}
		if last := got[len(got)-1]; !last.EOG || len(last.Piece) != 0 {
			t.Errorf("the last token is %+v", last)
		}
	})
	t.Run("bias", func(t *testing.T) {
		first := say(t, 1, protocol.Sampler{})[0].ID
		if got := say(t, 1, protocol.Sampler{LogitBias: map[int32]float32{first: -100}})[0].ID; got == first {
			t.Errorf("token %d in spite of its bias", got)
		}
		if got := say(t, 1, protocol.Sampler{LogitBias: map[int32]float32{42: 100}})[0].ID; got != 42 {
			t.Errorf("token %d, want 42", got)
		}
	})
	t.Run("logprobs", func(t *testing.T) {
		for _, tok := range say(t, 6, protocol.Sampler{Logprobs: true, Top: 5}) {
			if len(tok.Top) != 5 || tok.Top[0].ID != tok.ID || tok.Top[0].Logprob != tok.Logprob {
				t.Fatalf("greedy token %+v", tok)
			}
			sum := 0.0
			for i, a := range tok.Top {
				sum += math.Exp(float64(a.Logprob))
				if a.Logprob > 0 || i > 0 && a.Logprob > tok.Top[i-1].Logprob {
					t.Errorf("alternatives %+v", tok.Top)
				}
			}
			if sum > 1.00001 {
				t.Errorf("probabilities sum to %g", sum)
			}
		}
		if tok := say(t, 1, protocol.Sampler{})[0]; !math.IsNaN(float64(tok.Logprob)) || len(tok.Top) != 0 {
			t.Errorf("not asked for: %+v", tok)
		}
	})
	// What a client may send within the checks never ends the child.
	t.Run("odd settings", func(t *testing.T) {
		for i, s := range []protocol.Sampler{
			{Temperature: -1}, {Temperature: 1e30}, {Temperature: 1e-30}, {Temperature: 1, TopK: -5}, {Temperature: 1, TopK: 1 << 30},
			{Temperature: 1, TopP: -1}, {Temperature: 1, TopP: 7, MinP: 7}, {Temperature: 1, TypicalP: 1e-9}, {Temperature: 1, TopNSigma: 1e-9},
			{Temperature: 1, XTCProbability: 1, XTCThreshold: 0}, {Temperature: 1, Mirostat: 1}, {Temperature: 1, Mirostat: 2, MirostatTau: -5, MirostatEta: 1e9},
			{RepeatLastN: -1, RepeatPenalty: 1e30}, {RepeatLastN: protocol.MaxContext, PresencePenalty: -1e30, FrequencyPenalty: 1e30},
			{DRYMultiplier: 1e9, DRYBase: 1.75, DRYAllowedLength: 1, DRYLastN: -1},
			{Temperature: 1, LogitBias: map[int32]float32{1: -math.MaxFloat32, 2: math.MaxFloat32}},
		} {
			t.Run(fmt.Sprint(i), func(t *testing.T) {
				if got := say(t, 3, s); len(got) == 0 {
					t.Error("no answer")
				}
			})
		}
	})
}

// TestTwoSessionsAtOnce: what a session answers does not depend on another one
// that runs in the same process at the same time.
func TestTwoSessionsAtOnce(t *testing.T) {
	leaktest.Check(t)
	text := guideText(t)
	p := start(t, layers(t, guidePath(), 0, 8), nil)
	questions := []string{"What is Neuron?", "What is a seam?"}
	alone := make([][]int32, len(questions))
	ids := make([][]int32, len(questions))
	for i, q := range questions {
		ids[i] = chat(t, text, q)
		s := mustOpen(t, p, nil)
		alone[i] = idsOf(answer(t, []*seamtest.Session{s}, ids[i], 24))
		s.Close()
	}
	sessions := []*seamtest.Session{mustOpen(t, p, nil), mustOpen(t, p, nil)}
	got := make([][]int32, len(questions))
	last := make([]protocol.Token, len(questions))
	for i, s := range sessions {
		last[i] = answer(t, []*seamtest.Session{s}, ids[i], 1)[0]
		got[i] = append(got[i], last[i].ID)
	}
	for step := range 23 {
		for i, s := range sessions { // both wait: they may share a call
			if !last[i].EOG {
				send(t, s, sampled(protocol.IDFrame(protocol.KindDecode, uint32(len(ids[i])+step), []int32{last[i].ID})))
			}
		}
		for i, s := range sessions {
			if last[i].EOG {
				continue
			}
			f := next(t, s)
			if f == nil || f.Kind == protocol.KindError {
				t.Fatalf("session %d ended", i)
			}
			tok, err := f.Token()
			if err != nil {
				t.Fatal(err)
			}
			last[i] = tok
			got[i] = append(got[i], tok.ID)
		}
	}
	for i := range questions {
		if !slices.Equal(got[i], alone[i]) {
			t.Errorf("session %d: %v, alone %v", i, got[i], alone[i])
		}
	}
}

// tryStartWith starts another program with a shard's load.
func tryStartWith(t testing.TB, program stage.Spawn, s *artifact.Shard) (*stage.Process, error) {
	t.Helper()
	load := loadOf(t, s)
	load.Paths = s.Source.Files
	return stage.Start(within(t), program, load, s.Capability(load.ChunkRows))
}
