package gateway

import (
	"net/http"

	"neuron/engine/protocol"
)

// embeddings serves POST /v1/embeddings: it checks the request, and says why
// there is no answer. A route's stages run a decoder up to its logits; none
// returns pooled hidden states, and no embedding family is certified.
func (g *Gateway) embeddings(w http.ResponseWriter, r *http.Request) {
	f, err := g.readFields(w, r)
	if err != nil {
		writeError(w, err, 0)
		return
	}
	name := f.str("model")
	if name == "" {
		f.fail(badParam("model", "model is missing"))
	}
	if !f.has("input") {
		f.fail(badParam("input", "input is missing"))
	}
	if f.err != nil {
		writeError(w, f.err, 0)
		return
	}
	j := g.newJob(r, "embd-", params{model: name})
	if _, err := g.textModel(r, j); err != nil {
		writeError(w, err, 0)
		return
	}
	e := protocol.Errorf(protocol.CodeUnsupported, "the model %.200s makes text, not embeddings: its stages return tokens and no pooled states", j.name)
	e.Param = "model"
	writeError(w, e, 0)
}
