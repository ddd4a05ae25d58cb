package soak

import (
	"context"
	"fmt"
	"net/http"
	"strings"

	"neuron/engine/cli/apiclient"
	"neuron/internal/chaos"
)

// reference is a greedy request with what a healthy network answers.
type reference struct {
	req    chaos.Request
	text   string
	finish string
	tokens int
	// sure is how many bytes of text every healthy run gives. From the first
	// token on whose two best candidates are nearly equal, another batch or
	// chunk layout may choose the other one.
	sure int
}

// doubt is the least difference of two log probabilities that a difference in
// the last digits cannot turn round. The largest such difference of logits that
// layouts made in the guide model is below 0.001.
const doubt = 0.02

// check says what is wrong with a complete answer, "" when nothing is.
func (r *reference) check(a *chaos.Answer) string {
	n := min(r.sure, len(r.text))
	certain := n == len(r.text)
	switch {
	case !strings.HasPrefix(a.Text, r.text[:n]):
		return "another text"
	case certain && a.Text != r.text:
		return "another text"
	case certain && (a.Finish != r.finish || a.Tokens != r.tokens):
		return fmt.Sprintf("%d tokens and finish %q, want %d and %q", a.Tokens, a.Finish, r.tokens, r.finish)
	case a.Finish == "length" && a.Tokens != r.req.MaxTokens:
		return fmt.Sprintf("%d of %d tokens, finish length", a.Tokens, r.req.MaxTokens)
	case a.Finish != "length" && (a.Finish != "stop" || r.req.IgnoreEOS):
		return fmt.Sprintf("finish %q after %d of %d tokens", a.Finish, a.Tokens, r.req.MaxTokens)
	}
	return ""
}

var questions = []string{
	"What is Neuron?", "What is a route?", "How is a layer shared?", "Why does a session end?", "What does the tracker do?",
}

const sentence = "Every node of a route holds a range of layers and keeps the state of its own layers. "

// references asks a healthy network. Prompts have 5 to some 1,000 tokens,
// answers 8 to 320.
func references(ctx context.Context, k chaos.Asker, model string) ([]*reference, error) {
	var out []*reference
	for i, q := range questions {
		long := strings.Repeat(sentence, 1+i*12)
		for j, tokens := range []int{8 + 8*i, 60, 120 + 50*i} {
			r := chaos.Request{Model: model, MaxTokens: tokens, IgnoreEOS: j > 0}
			a := r
			a.Chat = []apiclient.Message{{Role: "user", Content: q}}
			b := r
			b.Prompt = long + q
			for _, r := range []chaos.Request{a, b} {
				ref, err := ask(ctx, k, r)
				if err != nil {
					return nil, fmt.Errorf("reference answer: %w", err)
				}
				out = append(out, ref)
			}
		}
	}
	return out, nil
}

// withProbs is an answer with log probabilities, of either endpoint.
type withProbs struct {
	Choices []struct {
		Text    string `json:"text"`
		Message struct {
			Content string `json:"content"`
		} `json:"message"`
		Finish   string `json:"finish_reason"`
		Logprobs struct {
			// Of completions.
			Tokens []string             `json:"tokens"`
			Top    []map[string]float64 `json:"top_logprobs"`
			// Of chat.
			Content []struct {
				Token string `json:"token"`
				Top   []struct {
					Logprob float64 `json:"logprob"`
				} `json:"top_logprobs"`
			} `json:"content"`
		} `json:"logprobs"`
	} `json:"choices"`
	Usage struct {
		Tokens int `json:"completion_tokens"`
	} `json:"usage"`
}

// ask asks for the answer and for what was nearly chosen.
func ask(ctx context.Context, k chaos.Asker, r chaos.Request) (*reference, error) {
	body := map[string]any{"model": r.Model, "max_tokens": r.MaxTokens, "temperature": 0, "ignore_eos": r.IgnoreEOS}
	path := "/completions"
	if r.Chat != nil {
		path = "/chat/completions"
		body["messages"], body["logprobs"], body["top_logprobs"] = r.Chat, true, 2
	} else {
		body["prompt"], body["logprobs"] = r.Prompt, 2
	}
	var p withProbs
	if _, err := apiclient.New(k.URL, k.Key).JSON(ctx, http.MethodPost, path, body, &p); err != nil {
		return nil, err
	}
	if len(p.Choices) != 1 {
		return nil, fmt.Errorf("%d choices", len(p.Choices))
	}
	c := p.Choices[0]
	ref := &reference{req: r, text: c.Text + c.Message.Content, finish: c.Finish, tokens: p.Usage.Tokens}
	ref.sure = len(ref.text)
	lp := c.Logprobs
	at := 0
	for i, t := range lp.Tokens {
		var v []float64
		for _, x := range lp.Top[i] {
			v = append(v, x)
		}
		if near(v) {
			ref.sure = min(ref.sure, at)
		}
		at += len(t)
	}
	for _, c := range lp.Content {
		var v []float64
		for _, x := range c.Top {
			v = append(v, x.Logprob)
		}
		if near(v) {
			ref.sure = min(ref.sure, at)
		}
		at += len(c.Token)
	}
	return ref, nil
}

// near reports whether two candidates are nearly equal; one alone stands for
// two that share a text.
func near(v []float64) bool { return len(v) < 2 || max(v[0]-v[1], v[1]-v[0]) < doubt }
