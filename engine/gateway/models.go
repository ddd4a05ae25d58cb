package gateway

import (
	"net/http"

	"neuron/engine/protocol"
)

type modelObject struct {
	ID      string             `json:"id"`
	Object  string             `json:"object"`
	Created int64              `json:"created"`
	OwnedBy string             `json:"owned_by"`
	Neuron  protocol.ModelInfo `json:"neuron"`
}

// modelObjects names models as clients ask for them: by their name, or by
// their id where an earlier model has the same name or there is none.
func modelObjects(infos []protocol.ModelInfo) []modelObject {
	out := make([]modelObject, 0, len(infos))
	seen := map[string]bool{}
	for _, m := range infos {
		id := m.Name
		if id == "" || seen[id] {
			id = string(m.Model)
		}
		seen[id] = true
		o := modelObject{ID: id, Object: "model", OwnedBy: "neuron", Neuron: m}
		if !m.Seen.IsZero() {
			o.Created = m.Seen.Unix()
		}
		out = append(out, o)
	}
	return out
}

// listModels serves GET /v1/models.
func (g *Gateway) listModels(w http.ResponseWriter, r *http.Request) {
	infos, err := g.o.Backend.Models(r.Context())
	if err != nil {
		writeError(w, protocol.AsError(err), 0)
		return
	}
	writeJSON(w, http.StatusOK, struct {
		Object string        `json:"object"`
		Data   []modelObject `json:"data"`
	}{"list", modelObjects(infos)})
}

// getModel serves GET /v1/models/{id}, by name or model id.
func (g *Gateway) getModel(w http.ResponseWriter, r *http.Request) {
	infos, err := g.o.Backend.Models(r.Context())
	if err != nil {
		writeError(w, protocol.AsError(err), 0)
		return
	}
	id := r.PathValue("id")
	for _, m := range modelObjects(infos) {
		if m.ID == id || string(m.Neuron.Model) == id {
			writeJSON(w, http.StatusOK, m)
			return
		}
	}
	e := protocol.Errorf(protocol.CodeModelUnknown, "the model %.200q does not exist here", id)
	e.Param = "model"
	writeError(w, e, 0)
}
