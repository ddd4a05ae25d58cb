package exec

import (
	"cmp"
	"math"
	"slices"
)

// Logprobs are natural log probabilities of a row of logits, before any
// sampler changed them.
type Logprobs struct {
	// Top are the most probable tokens, the best first; equal logits keep the
	// lower id first.
	Top []TokenLogprob

	logits []float32
	norm   float64 // log of the sum of exponentials
}

// TokenLogprob is one token with its natural log probability.
type TokenLogprob struct {
	ID      int32
	Logprob float32
}

// NewLogprobs copies the logits and finds the n most probable tokens.
func NewLogprobs(logits []float32, n int) *Logprobs {
	l := &Logprobs{logits: slices.Clone(logits)}
	most := float64(slices.Max(l.logits))
	var sum float64
	for _, x := range l.logits {
		sum += math.Exp(float64(x) - most)
	}
	l.norm = most + math.Log(sum)
	if n == 0 {
		return l
	}
	// A short sorted list beats sorting the vocabulary.
	for id, x := range l.logits {
		if len(l.Top) == n && x <= l.logits[l.Top[n-1].ID] {
			continue
		}
		at, _ := slices.BinarySearchFunc(l.Top, x, func(a TokenLogprob, x float32) int {
			if l.logits[a.ID] >= x {
				return -1
			}
			return cmp.Compare(x, l.logits[a.ID])
		})
		l.Top = slices.Insert(l.Top, at, TokenLogprob{ID: int32(id), Logprob: l.Of(int32(id))})
		l.Top = l.Top[:min(n, len(l.Top))]
	}
	return l
}

// Of is the log probability of a token.
func (l *Logprobs) Of(id int32) float32 { return float32(float64(l.logits[id]) - l.norm) }
