// Package sampling draws a session's tokens: libllama's chain of samplers as a
// request asks for it, with the token's text and probabilities.
//
// Only engine/stage/worker imports it; like that it loads the library.
package sampling

import (
	"errors"
	"math"
	"slices"
	"time"

	"neuron/engine/protocol"
	"neuron/llama"
	"neuron/llama/exec"
)

// A grammar that takes maxDraw or longer over each of maxSlow tokens in a row
// ends its session.
const (
	maxDraw = 2 * time.Second
	maxSlow = 3
)

// Sampler is a session's chain on the tail.
type Sampler struct {
	vocab llama.Vocab
	chain llama.Sampler
	set   protocol.Sampler
	slow  int // tokens in a row over which the grammar took too long
}

// New builds the chain in llama.cpp's default order: bias and grammar,
// penalties, DRY, the truncating samplers, temperature, the draw. prompt is
// what the penalties have to know, context the session's cells.
func New(v llama.Vocab, c *protocol.Sampler, context int, prompt []int32) (_ *Sampler, err error) {
	c = wholeWindows(c, context)
	if err := check(c, v.N()); err != nil {
		return nil, err
	}
	s := &Sampler{vocab: v, set: *c, chain: llama.NewChain()}
	defer func() {
		if err != nil {
			s.chain.Free()
		}
	}()
	if bias := biases(v, c); len(bias) > 0 {
		if err := s.add(llama.NewLogitBias(v.N(), bias)); err != nil {
			return nil, err
		}
	}
	if c.Grammar != "" {
		g, err := llama.Grammar(v, c.Grammar, "root")
		if err != nil {
			return nil, GrammarError(err)
		}
		if err := s.add(g, nil); err != nil {
			return nil, err
		}
	}
	for _, n := range penalties(v, c) {
		// The prompt is accepted by the penalties alone: a grammar must not
		// see it.
		for _, id := range prompt {
			if n.err == nil {
				n.err = n.sampler.Accept(id)
			}
		}
		if err := s.add(n.sampler, n.err); err != nil {
			return nil, err
		}
	}
	for _, n := range draws(v.N(), c) {
		if err := s.add(n, nil); err != nil {
			return nil, err
		}
	}
	return s, nil
}

// wholeWindows writes out the penalty windows of -1, which mean the session's
// whole context.
func wholeWindows(c *protocol.Sampler, context int) *protocol.Sampler {
	out := *c
	for _, n := range []*int32{&out.RepeatLastN, &out.DRYLastN} {
		if *n == -1 {
			*n = int32(min(max(context, 0), protocol.MaxContext))
		}
	}
	return &out
}

// add puts a member into the chain, which owns it from then on.
func (s *Sampler) add(n llama.Sampler, err error) error {
	if err != nil {
		return err
	}
	return s.chain.Add(n)
}

type made struct {
	sampler llama.Sampler
	err     error
}

// penalties lists the samplers that look back at what was said.
func penalties(v llama.Vocab, c *protocol.Sampler) []made {
	var out []made
	if repeat := orOne(c.RepeatPenalty); c.RepeatLastN != 0 && (repeat != 1 || c.FrequencyPenalty != 0 || c.PresencePenalty != 0) {
		out = append(out, made{llama.Penalties(v.N(), c.RepeatLastN, repeat, c.FrequencyPenalty, c.PresencePenalty), nil})
	}
	if c.DRYMultiplier != 0 {
		n, err := llama.DRY(v, c.DRYMultiplier, c.DRYBase, c.DRYAllowedLength, c.DRYLastN, []string{"\n", ":", "\"", "*"})
		out = append(out, made{n, err})
	}
	return out
}

func orOne(v float32) float32 {
	if v == 0 {
		return 1
	}
	return v
}

// biases are the asked ones, and a ban on end-of-generation tokens.
func biases(v llama.Vocab, c *protocol.Sampler) []llama.LogitBias {
	var out []llama.LogitBias
	for id, b := range c.LogitBias {
		out = append(out, llama.LogitBias{Token: id, Bias: b})
	}
	// Map order is random; the chain must be the same for the same request.
	slices.SortFunc(out, func(a, b llama.LogitBias) int { return int(a.Token) - int(b.Token) })
	if c.IgnoreEOG {
		for id := range int32(v.N()) {
			if v.IsEOG(id) {
				out = append(out, llama.LogitBias{Token: id, Bias: float32(math.Inf(-1))})
			}
		}
	}
	return out
}

// draws lists the samplers that narrow the choice and make it.
func draws(nVocab int, c *protocol.Sampler) []llama.Sampler {
	if c.Temperature <= 0 {
		return []llama.Sampler{llama.Greedy()}
	}
	switch c.Mirostat {
	case 1:
		return []llama.Sampler{llama.Temp(c.Temperature), llama.Mirostat(nVocab, c.Seed, c.MirostatTau, c.MirostatEta, 100)}
	case 2:
		return []llama.Sampler{llama.Temp(c.Temperature), llama.MirostatV2(c.Seed, c.MirostatTau, c.MirostatEta)}
	}
	var out []llama.Sampler
	if c.TopNSigma > 0 {
		out = append(out, llama.TopNSigma(c.TopNSigma))
	}
	if c.TopK > 0 {
		out = append(out, llama.TopK(c.TopK))
	}
	if c.TypicalP > 0 && c.TypicalP < 1 {
		out = append(out, llama.Typical(c.TypicalP, 1))
	}
	if c.TopP > 0 && c.TopP < 1 {
		out = append(out, llama.TopP(c.TopP, 1))
	}
	if c.MinP > 0 {
		out = append(out, llama.MinP(c.MinP, 1))
	}
	if c.XTCProbability > 0 {
		out = append(out, llama.XTC(c.XTCProbability, c.XTCThreshold, 1, c.Seed))
	}
	return append(out, llama.Temp(c.Temperature), llama.Dist(c.Seed))
}

// check refuses values that libllama would assert on or misread.
func check(c *protocol.Sampler, nVocab int) error {
	for _, v := range []float32{c.Temperature, c.TopP, c.MinP, c.TypicalP, c.TopNSigma, c.XTCProbability, c.XTCThreshold,
		c.RepeatPenalty, c.FrequencyPenalty, c.PresencePenalty, c.DRYMultiplier, c.DRYBase, c.MirostatTau, c.MirostatEta} {
		if f := float64(v); math.IsNaN(f) || math.IsInf(f, 0) {
			return protocol.Errorf(protocol.CodeInvalidRequest, "a sampler setting is not a finite number")
		}
	}
	switch {
	case c.RepeatLastN < -1 || c.RepeatLastN > protocol.MaxContext || c.DRYLastN < -1 || c.DRYLastN > protocol.MaxContext:
		return protocol.Errorf(protocol.CodeInvalidRequest, "a penalty window is out of range")
	case c.Mirostat < 0 || c.Mirostat > 2:
		return protocol.Errorf(protocol.CodeInvalidRequest, "mirostat is 0, 1 or 2")
	case c.Top < 0 || c.Top > protocol.MaxTop:
		return protocol.Errorf(protocol.CodeInvalidRequest, "at most %d alternatives", protocol.MaxTop)
	case c.RepeatPenalty < 0:
		return protocol.Errorf(protocol.CodeInvalidRequest, "the repeat penalty is negative")
	}
	for id := range c.LogitBias {
		if id < 0 || int(id) >= nVocab {
			return protocol.Errorf(protocol.CodeInvalidRequest, "logit bias for token %d of %d", id, nVocab)
		}
	}
	return nil
}

// Close frees the chain.
func (s *Sampler) Close() { s.chain.Free() }

// Next draws from the logits of a batch row and tells the chain.
func (s *Sampler) Next(p *exec.Pool, row int) (protocol.Token, error) {
	t := protocol.Token{Logprob: float32(math.NaN())}
	var probs *exec.Logprobs
	if s.set.Logprobs {
		// Before sampling: the chain may change the logits in place.
		logits, err := p.Logits(row)
		if err != nil {
			return t, err
		}
		probs = exec.NewLogprobs(logits, s.set.Top)
	}
	start := time.Now()
	id, err := s.chain.Sample(p.Context(), row)
	if err != nil {
		return t, err
	}
	if s.set.Grammar == "" || time.Since(start) < maxDraw {
		s.slow = 0
	} else if s.slow++; s.slow == maxSlow {
		// All sessions of the stage wait meanwhile, and it only gets worse. A
		// single one may be the host's fault.
		return t, protocol.Errorf(protocol.CodeGrammarInvalid, "the grammar is too ambiguous: a token took longer than %s", maxDraw)
	}
	t.ID = id
	t.EOG = s.vocab.IsEOG(id)
	if !t.EOG {
		if t.Piece, err = s.vocab.Piece(id, false); err != nil {
			return t, err
		}
	}
	if probs != nil {
		t.Logprob = probs.Of(id)
		for _, a := range probs.Top {
			piece, err := s.vocab.Piece(a.ID, true)
			if err != nil {
				return t, err
			}
			t.Top = append(t.Top, protocol.TokenProb{ID: a.ID, Logprob: a.Logprob, Piece: piece})
		}
	}
	return t, nil
}

// GrammarError says in a sentence why a grammar is not taken.
func GrammarError(err error) error {
	var e *llama.Error
	if !errors.As(err, &e) || e.Code != llama.CodeGrammar {
		return err
	}
	return protocol.Errorf(protocol.CodeGrammarInvalid, "the grammar cannot be used: %s", e.Detail)
}
