package gateway

import (
	"net/http"

	"neuron/engine/gateway/chattmpl"
	"neuron/engine/protocol"
)

// chatCompletions serves POST /v1/chat/completions.
func (g *Gateway) chatCompletions(w http.ResponseWriter, r *http.Request) {
	f, err := g.readFields(w, r)
	if err != nil {
		writeError(w, err, 0)
		return
	}
	req := parseChat(f)
	if f.err != nil {
		writeError(w, f.err, 0)
		return
	}
	j := g.newJob(r, "chatcmpl-", req.p)
	tm, err := g.textModel(r, j)
	if err != nil {
		writeError(w, err, 0)
		return
	}
	ids, perr := chatPrompt(r.Context(), g.templates, tm, req.messages, req.vars, g.o.Now())
	if perr != nil {
		writeError(w, protocol.AsError(perr), 0)
		return
	}
	g.serve(w, r, j, tm, []prompt{{ids: ids}})
}

// chatRequest is a checked chat body.
type chatRequest struct {
	p        params
	messages []chattmpl.Message
	vars     map[string]any
}

// parseChat reads a chat body; mistakes are left in f.
func parseChat(f *fields) chatRequest {
	req := chatRequest{p: parseParams(f), messages: f.messages(), vars: f.templateVars()}
	s := &req.p.sampler
	s.Logprobs = f.boolean("logprobs")
	s.Top = f.integer("top_logprobs", 0, protocol.MaxTop, 0)
	if s.Top > 0 && !s.Logprobs {
		f.fail(badParam("top_logprobs", "top_logprobs needs logprobs: true"))
	}
	f.refuse("tools", "functions", "function_call", "audio", "web_search_options", "reasoning_effort", "verbosity")
	var choice string
	if f.has("tool_choice") && (!f.decode("tool_choice", &choice, "\"none\"") || choice != "none") {
		f.err = firstOf(f.err, unsupported("tool_choice"))
	}
	var modalities []string
	if f.decode("modalities", &modalities, "a list of strings") && (len(modalities) != 1 || modalities[0] != "text") {
		f.fail(unsupported("modalities"))
	}
	return req
}

// firstOf keeps an earlier mistake unless it is about the same field, where
// "not supported" says more than "wrong type".
func firstOf(old, e *protocol.Error) *protocol.Error {
	if old == nil || old.Param == e.Param {
		return e
	}
	return old
}
