package gateway

import (
	"net/http"

	"neuron/engine/gateway/chattmpl"
	"neuron/engine/gateway/prompt"
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
	var perr error
	if j.caller, perr = constrain(r.Context(), tm, &j.p, &req.tools); perr != nil {
		writeError(w, protocol.AsError(perr), 0)
		return
	}
	in := chattmpl.Input{Vars: req.vars, Now: g.o.Now()}
	in.Messages, in.Tools = conversation(tm.ChatTemplate(), req.messages, &req.tools)
	ids, perr := prompt.Chat(r.Context(), tm, in)
	if perr != nil {
		writeError(w, protocol.AsError(perr), 0)
		return
	}
	g.serve(w, r, j, tm, []promptIDs{{ids: ids}})
}

// chatRequest is a checked chat body.
type chatRequest struct {
	p        params
	messages []chattmpl.Message
	vars     map[string]any
	tools    toolbox
}

// parseChat reads a chat body; mistakes are left in f.
func parseChat(f *fields) chatRequest {
	req := chatRequest{p: parseParams(f), messages: f.messages(), vars: f.templateVars(), tools: f.toolbox()}
	s := &req.p.sampler
	s.Logprobs = f.boolean("logprobs")
	s.Top = f.integer("top_logprobs", 0, protocol.MaxTop, 0)
	if s.Top > 0 && !s.Logprobs {
		f.fail(badParam("top_logprobs", "top_logprobs needs logprobs: true"))
	}
	f.refuse("functions", "function_call", "audio", "web_search_options", "verbosity")
	var modalities []string
	if f.decode("modalities", &modalities, "a list of strings") && (len(modalities) != 1 || modalities[0] != "text") {
		f.fail(unsupported("modalities"))
	}
	return req
}
