package gateway

import (
	"math"
	"unicode/utf8"

	"neuron/engine/protocol"
)

// leastLogprob stands for probabilities that JSON cannot hold, as OpenAI does.
const leastLogprob = -9999

// chatLogprobs is the logprobs object of chat choices.
type chatLogprobs struct {
	Content []tokenLogprob `json:"content"`
	Refusal []tokenLogprob `json:"refusal"`
}

type tokenLogprob struct {
	Token   string       `json:"token"`
	Logprob float64      `json:"logprob"`
	Bytes   []int        `json:"bytes"`
	Top     []topLogprob `json:"top_logprobs"`
}

type topLogprob struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
}

func finite(v float32) float64 {
	if f := float64(v); !math.IsNaN(f) && !math.IsInf(f, 0) {
		return f
	}
	return leastLogprob
}

// ints shows bytes as OpenAI does: a list of numbers, not base64.
func ints(b []byte) []int {
	out := make([]int, len(b))
	for i, c := range b {
		out[i] = int(c)
	}
	return out
}

// appendChat adds tokens to l.
func (l *chatLogprobs) appendChat(tokens []protocol.Token, top int) {
	for _, t := range tokens {
		e := tokenLogprob{Token: validText(t.Piece), Logprob: finite(t.Logprob), Bytes: ints(t.Piece), Top: []topLogprob{}}
		for _, a := range t.Top[:min(top, len(t.Top))] {
			e.Top = append(e.Top, topLogprob{validText(a.Piece), finite(a.Logprob), ints(a.Piece)})
		}
		l.Content = append(l.Content, e)
	}
}

// textLogprobs is the logprobs object of plain completions. Offsets count code
// points of the choice's text.
type textLogprobs struct {
	Tokens  []string             `json:"tokens"`
	Logprob []float64            `json:"token_logprobs"`
	Top     []map[string]float64 `json:"top_logprobs"`
	Offset  []int                `json:"text_offset"`
}

// appendText adds tokens whose text begins at code point at; it returns the
// code point behind them.
func (l *textLogprobs) appendText(tokens []protocol.Token, top, at int) int {
	for _, t := range tokens {
		s := validText(t.Piece)
		l.Tokens, l.Logprob, l.Offset = append(l.Tokens, s), append(l.Logprob, finite(t.Logprob)), append(l.Offset, at)
		m := map[string]float64{}
		for _, a := range t.Top[:min(top, len(t.Top))] {
			k := validText(a.Piece)
			if old, ok := m[k]; !ok || finite(a.Logprob) > old {
				m[k] = finite(a.Logprob)
			}
		}
		l.Top = append(l.Top, m)
		at += utf8.RuneCountInString(s)
	}
	return at
}

// tokenSpans remembers where tokens begin in the answer's bytes, so that their
// probabilities go out with their text.
type tokenSpans struct {
	on     bool
	end    int
	starts []int
	tokens []protocol.Token
}

func (s *tokenSpans) add(t protocol.Token) {
	if s.on && len(t.Piece) > 0 { // control tokens have no text and do not show
		s.starts, s.tokens = append(s.starts, s.end), append(s.tokens, t)
	}
	s.end += len(t.Piece)
}

// release returns the tokens that begin before the byte offset upTo.
func (s *tokenSpans) release(upTo int) []protocol.Token {
	n := 0
	for n < len(s.starts) && s.starts[n] < upTo {
		n++
	}
	out := s.tokens[:n:n]
	s.starts, s.tokens = s.starts[n:], s.tokens[n:]
	return out
}
