package gateway

import (
	"encoding/json"
	"net/http"

	"neuron/engine/gateway/textscan"
	"neuron/engine/protocol"
)

// completions serves POST /v1/completions.
func (g *Gateway) completions(w http.ResponseWriter, r *http.Request) {
	f, err := g.readFields(w, r)
	if err != nil {
		writeError(w, err, 0)
		return
	}
	req := parseText(f)
	if f.err != nil {
		writeError(w, f.err, 0)
		return
	}
	j := g.newJob(r, "cmpl-", req.p)
	tm, err := g.textModel(r, j)
	if err != nil {
		writeError(w, err, 0)
		return
	}
	if _, perr := constrain(r.Context(), tm, &j.p, nil); perr != nil {
		writeError(w, protocol.AsError(perr), 0)
		return
	}
	prompts := make([]promptIDs, len(req.prompts))
	for i, in := range req.prompts {
		p, perr := textPrompt(r, tm, in, req.echo)
		if perr != nil {
			writeError(w, protocol.AsError(perr), 0)
			return
		}
		prompts[i] = p
	}
	g.serve(w, r, j, tm, prompts)
}

// textPrompt tokenizes one prompt. Texts of control tokens in it stay text:
// who wants control tokens sends ids.
func textPrompt(r *http.Request, tm TextModel, in textInput, echo bool) (promptIDs, error) {
	if in.ids == nil {
		ids, err := tm.Tokenize(r.Context(), in.text, true, false)
		p := promptIDs{ids: ids}
		if echo {
			p.echo = textscan.ValidText([]byte(in.text))
		}
		return p, err
	}
	// Decoding checks the ids, too: they must exist in this vocabulary.
	text, err := tm.Detokenize(r.Context(), in.ids, false)
	p := promptIDs{ids: in.ids}
	if echo {
		p.echo = textscan.ValidText(text)
	}
	return p, err
}

// textRequest is a checked completions body.
type textRequest struct {
	p       params
	prompts []textInput
	echo    bool
}

// textInput is a text, or ids when not nil.
type textInput struct {
	text string
	ids  []int32
}

// parseText reads a completions body; mistakes are left in f.
func parseText(f *fields) textRequest {
	req := textRequest{p: parseParams(f), echo: f.boolean("echo"), prompts: f.prompts()}
	f.refuse("suffix")
	if f.has("best_of") && f.integer("best_of", 1, 20, req.p.n) != req.p.n {
		f.fail(unsupported("best_of"))
	}
	if f.has("logprobs") {
		req.p.sampler.Top = f.integer("logprobs", 0, protocol.MaxTop, 0)
		req.p.sampler.Logprobs = true
		if req.echo {
			e := unsupported("logprobs")
			e.Message = "logprobs of the prompt (echo together with logprobs) are not supported here"
			f.fail(e)
		}
	}
	return req
}

// prompts reads the four forms of prompt.
func (f *fields) prompts() []textInput {
	raw, ok := f.raw["prompt"]
	if !ok {
		f.fail(badParam("prompt", "prompt is missing"))
		return nil
	}
	bad := func(format string, args ...any) []textInput {
		f.fail(badParam("prompt", format, args...))
		return nil
	}
	if in, ok := onePrompt(raw); ok {
		return []textInput{in}
	}
	var list []json.RawMessage
	if json.Unmarshal(raw, &list) != nil || len(list) == 0 {
		return bad("prompt must be a text, a list of token ids, or a list of such")
	}
	if len(list) > maxPrompts {
		return bad("at most %d prompts are allowed", maxPrompts)
	}
	out := make([]textInput, len(list))
	for i, r := range list {
		if out[i], ok = onePrompt(r); !ok {
			return bad("prompt %d is neither a text nor a list of token ids", i)
		}
	}
	return out
}

func onePrompt(raw json.RawMessage) (textInput, bool) {
	var in textInput
	if string(raw) == "null" {
		return in, false
	}
	if json.Unmarshal(raw, &in.text) == nil {
		return in, true
	}
	in.text = ""
	if json.Unmarshal(raw, &in.ids) != nil || len(in.ids) == 0 || len(in.ids) > protocol.MaxContext {
		return textInput{}, false
	}
	for _, id := range in.ids {
		if id < 0 {
			return textInput{}, false
		}
	}
	return in, true
}
