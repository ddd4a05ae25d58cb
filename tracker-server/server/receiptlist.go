package server

import (
	"encoding/json"
	"net/http"

	"neuron/engine/protocol"
)

// receipts answers GET /v1/sessions/{id}/receipts: what was accepted of a
// session, in the form that nodes sent, so that anybody can compute what it
// pays. It is public as proofs are, and holds no text: receipts are hashes,
// positions and signatures. They are there until they are pruned.
func (h proofsHandler) receipts(w http.ResponseWriter, r *http.Request) {
	id, err := protocol.ParseSessionID(r.PathValue("id"))
	if err == nil {
		_, err = h.Session(r.Context(), id)
	}
	var list [][]byte
	if err == nil {
		list, err = h.store.Receipts(r.Context(), id)
	}
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(protocol.Receipts{Receipts: append([][]byte{}, list...)})
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	proofHeaders(w)
	_, _ = w.Write(append(raw, '\n')) // the reader may be gone
}
