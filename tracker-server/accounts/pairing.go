package accounts

import (
	"net/http"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/owner"
	"neuron/tracker-server/store"
)

// Pairing codes travel in bodies only: paths and queries end up in the logs of
// proxies.

// bind answers POST /v1/owners/bind. The binding carries both signatures, so
// the request has none of its own.
func (h *Handler) bind(w http.ResponseWriter, r *http.Request) error {
	b, err := open[owner.Binding](w, r)
	if err != nil {
		return err
	}
	if err := b.Check(); err != nil {
		return err
	}
	// A binding that holds costs nothing; keys cost nothing to make, and each
	// new owner gets the starting credit.
	if held, err := h.o.Owners.Owner(r.Context(), b.Node()); err != nil && !isCode(err, protocol.CodeNotFound) {
		return err
	} else if err != nil || held.Owner != store.AccountID(b.Owner()) {
		if err := h.binds.take(source(r)); err != nil {
			return err
		}
	}
	id, err := h.o.Owners.Bind(r.Context(), b)
	if err != nil {
		return err
	}
	h.bound(w, r, b.Node(), id)
	return nil
}

type boundAnswer struct {
	Account store.AccountID `json:"account"`
	Node    protocol.NodeID `json:"node"`
}

func (h *Handler) bound(w http.ResponseWriter, r *http.Request, node protocol.NodeID, id store.AccountID) {
	h.o.Logger.Info("a node has an owner", "node", node.Short(), "account", owner.ID(id).Short())
	h.o.Owned(r.Context(), node)
	writeJSON(w, http.StatusOK, boundAnswer{id, node})
}

// release answers POST /v1/owners/release.
func (h *Handler) release(w http.ResponseWriter, r *http.Request) error {
	rel, err := open[owner.Release](w, r)
	if err != nil {
		return err
	}
	if err := h.o.Owners.Release(r.Context(), rel); err != nil {
		return err
	}
	node := protocol.NodeIDOf(rel.NodeKey)
	h.o.Logger.Info("a node has no owner any more", "node", node.Short())
	h.o.Owned(r.Context(), node)
	writeJSON(w, http.StatusOK, boundAnswer{"", node})
	return nil
}

// startPairing answers POST /v1/pairing, of an owner. There is no body, or {}.
func (h *Handler) startPairing(w http.ResponseWriter, r *http.Request) error {
	id, body, err := h.owner(w, r)
	if err != nil {
		return err
	}
	if len(body) > 0 {
		if _, err := decode[struct{}](r, body); err != nil {
			return err
		}
	}
	code, expires, err := h.o.Owners.StartPairing(r.Context(), id)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, struct {
		Code    string    `json:"code"`
		Expires time.Time `json:"expires"`
	}{code, expires})
	return nil
}

type codeBody struct {
	Code string `json:"code"`
}

type codeBinding struct {
	Code    string         `json:"code"`
	Binding *owner.Binding `json:"binding"`
}

// lookup answers POST /v1/pairing/lookup, of a node that wants an owner. Wrong
// codes count by address, since keys cost nothing.
func (h *Handler) lookup(w http.ResponseWriter, r *http.Request) error {
	_, body, err := h.signer(w, r)
	if err != nil {
		return err
	}
	in, err := decode[codeBody](r, body)
	if err != nil {
		return err
	}
	key, err := h.o.Owners.Look(r.Context(), source(r), in.Code)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, struct {
		OwnerKey []byte   `json:"owner_key"`
		Owner    owner.ID `json:"owner"`
	}{key, owner.IDOf(key)})
	return nil
}

// offer answers POST /v1/pairing/offer, of the node that the binding names.
func (h *Handler) offer(w http.ResponseWriter, r *http.Request) error {
	key, body, err := h.signer(w, r)
	if err != nil {
		return err
	}
	in, err := decode[codeBinding](r, body)
	if err != nil {
		return err
	}
	if in.Binding == nil || string(in.Binding.NodeKey) != string(key) {
		return protocol.Errorf(protocol.CodeForbidden, "a node offers itself: the binding has to name the node that signs the request")
	}
	if err := h.o.Owners.Offer(r.Context(), source(r), in.Code, in.Binding); err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, boundAnswer{store.AccountID(in.Binding.Owner()), in.Binding.Node()})
	return nil
}

// offered answers POST /v1/pairing/offered, of the owner: which node has used
// the code.
func (h *Handler) offered(w http.ResponseWriter, r *http.Request) error {
	id, body, err := h.owner(w, r)
	if err != nil {
		return err
	}
	in, err := decode[codeBody](r, body)
	if err != nil {
		return err
	}
	b, err := h.o.Owners.Offered(r.Context(), id, in.Code)
	if err != nil {
		return err
	}
	var out struct {
		Waiting bool            `json:"waiting"` // no node has used the code yet
		Binding *owner.Binding  `json:"binding,omitempty"`
		Node    protocol.NodeID `json:"node,omitempty"`
		// What is known of the node, as it said itself, and whether it is
		// connected and belongs to somebody else now.
		Connected  bool      `json:"connected"`
		Info       *NodeInfo `json:"info,omitempty"`
		OtherOwner bool      `json:"other_owner"`
		Yours      bool      `json:"yours"` // the binding holds
	}
	if out.Waiting = b == nil; !out.Waiting {
		out.Binding, out.Node = b, b.Node()
		if info, ok := h.o.Node(out.Node); ok {
			out.Connected, out.Info = true, &info
		}
		held, err := h.o.Owners.Owner(r.Context(), out.Node)
		if err != nil && !isCode(err, protocol.CodeNotFound) {
			return err
		}
		out.Yours = err == nil && held.Owner == id
		out.OtherOwner = err == nil && held.Owner != id
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// confirm answers POST /v1/pairing/confirm, of the owner, with the binding that
// the owner has signed as well.
func (h *Handler) confirm(w http.ResponseWriter, r *http.Request) error {
	id, body, err := h.owner(w, r)
	if err != nil {
		return err
	}
	in, err := decode[codeBinding](r, body)
	if err != nil {
		return err
	}
	if in.Binding == nil || store.AccountID(in.Binding.Owner()) != id {
		return protocol.Errorf(protocol.CodeForbidden, "the binding has to name the owner that signs the request")
	}
	got, err := h.o.Owners.Accept(r.Context(), in.Code, in.Binding)
	if err != nil {
		return err
	}
	h.bound(w, r, in.Binding.Node(), got)
	return nil
}
