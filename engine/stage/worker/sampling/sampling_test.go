package sampling

import (
	"math"
	"testing"

	"neuron/engine/protocol"
)

// What libllama would assert on never gets there: the process and all its
// sessions would end.
func TestCheck(t *testing.T) {
	t.Parallel()
	const vocab = 100
	for name, c := range map[string]protocol.Sampler{
		"nan":             {Temperature: float32(math.NaN())},
		"infinite":        {MirostatTau: float32(math.Inf(1))},
		"penalty window":  {RepeatLastN: -2},
		"DRY window":      {DRYLastN: protocol.MaxContext + 1},
		"mirostat":        {Mirostat: 3},
		"alternatives":    {Top: protocol.MaxTop + 1},
		"repeat penalty":  {RepeatPenalty: -1},
		"bias below":      {LogitBias: map[int32]float32{-1: 1}},
		"bias behind all": {LogitBias: map[int32]float32{vocab: 1}},
	} {
		if code := protocol.AsError(check(&c, vocab)).Code; code != protocol.CodeInvalidRequest {
			t.Errorf("%s: %q", name, code)
		}
	}
	good := protocol.Sampler{Temperature: 1, TopP: 0.9, RepeatLastN: -1, DRYLastN: protocol.MaxContext, Mirostat: 2, Top: protocol.MaxTop, LogitBias: map[int32]float32{vocab - 1: -1}}
	if err := check(&good, vocab); err != nil {
		t.Error(err)
	}
}

func TestWholeWindows(t *testing.T) {
	t.Parallel()
	c := protocol.Sampler{RepeatLastN: -1, DRYLastN: 64}
	if got := wholeWindows(&c, 2048); got.RepeatLastN != 2048 || got.DRYLastN != 64 || c.RepeatLastN != -1 {
		t.Errorf("windows of %d and %d, asked %d", got.RepeatLastN, got.DRYLastN, c.RepeatLastN)
	}
	if got := wholeWindows(&c, protocol.MaxContext+1); got.RepeatLastN != protocol.MaxContext {
		t.Errorf("a window of %d", got.RepeatLastN)
	}
	if got := wholeWindows(&c, -5); got.RepeatLastN != 0 {
		t.Errorf("a window of %d of nothing", got.RepeatLastN)
	}
}
