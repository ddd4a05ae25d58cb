// Package logprob writes token probabilities as OpenAI's API has them, for chat
// and for plain completions. Only engine/gateway imports it.
package logprob

import (
	"math"
	"unicode/utf8"

	"neuron/engine/gateway/textscan"
	"neuron/engine/protocol"
)

// leastLogprob stands for probabilities that JSON cannot hold, as OpenAI does.
const leastLogprob = -9999

// Chat is the logprobs object of chat choices.
type Chat struct {
	Content []Token `json:"content"`
	Refusal []Token `json:"refusal"`
}

// Token is one token of an answer.
type Token struct {
	Token   string  `json:"token"`
	Logprob float64 `json:"logprob"`
	Bytes   []int   `json:"bytes"`
	Top     []Top   `json:"top_logprobs"`
}

// Top is one alternative of a token.
type Top struct {
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

// Append adds tokens, with at most top alternatives each.
func (l *Chat) Append(tokens []protocol.Token, top int) {
	for _, t := range tokens {
		e := Token{Token: textscan.ValidText(t.Piece), Logprob: finite(t.Logprob), Bytes: ints(t.Piece), Top: []Top{}}
		for _, a := range t.Top[:min(top, len(t.Top))] {
			e.Top = append(e.Top, Top{textscan.ValidText(a.Piece), finite(a.Logprob), ints(a.Piece)})
		}
		l.Content = append(l.Content, e)
	}
}

// Text is the logprobs object of plain completions. Offsets count code
// points of the choice's text.
type Text struct {
	Tokens  []string             `json:"tokens"`
	Logprob []float64            `json:"token_logprobs"`
	Top     []map[string]float64 `json:"top_logprobs"`
	Offset  []int                `json:"text_offset"`
}

// Append adds tokens whose text begins at code point at; it returns the
// code point behind them.
func (l *Text) Append(tokens []protocol.Token, top, at int) int {
	for _, t := range tokens {
		s := textscan.ValidText(t.Piece)
		l.Tokens, l.Logprob, l.Offset = append(l.Tokens, s), append(l.Logprob, finite(t.Logprob)), append(l.Offset, at)
		m := map[string]float64{}
		for _, a := range t.Top[:min(top, len(t.Top))] {
			k := textscan.ValidText(a.Piece)
			if old, ok := m[k]; !ok || finite(a.Logprob) > old {
				m[k] = finite(a.Logprob)
			}
		}
		l.Top = append(l.Top, m)
		at += utf8.RuneCountInString(s)
	}
	return at
}

// Spans remembers where tokens begin in the answer's bytes, so that their
// probabilities go out with their text.
type Spans struct {
	On     bool // probabilities are asked for
	end    int
	starts []int
	tokens []protocol.Token
}

// Add takes the next token of the answer.
func (s *Spans) Add(t protocol.Token) {
	if s.On && len(t.Piece) > 0 { // control tokens have no text and do not show
		s.starts, s.tokens = append(s.starts, s.end), append(s.tokens, t)
	}
	s.end += len(t.Piece)
}

// Release returns the tokens that begin before the byte offset upTo.
func (s *Spans) Release(upTo int) []protocol.Token {
	n := 0
	for n < len(s.starts) && s.starts[n] < upTo {
		n++
	}
	out := s.tokens[:n:n]
	s.starts, s.tokens = s.starts[n:], s.tokens[n:]
	return out
}

// NewChat and NewText are empty, and show as such.
func NewChat() Chat { return Chat{Content: []Token{}} }

// NewText is NewChat for plain completions.
func NewText() Text {
	return Text{Tokens: []string{}, Logprob: []float64{}, Top: []map[string]float64{}, Offset: []int{}}
}
