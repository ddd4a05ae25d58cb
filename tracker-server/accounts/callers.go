package accounts

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"mime"
	"net/http"
	"strings"

	"neuron/engine/protocol"
	"neuron/internal/signed"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/ledger/keys"
	"neuron/tracker-server/store"
)

// role says as whom somebody asks.
type role string

// The roles. Only an owner's own key changes anything of the account. A node's
// key reads: the window on each of a person's computers shows the one balance.
// An API key is in the hands of programs, and of people who were given it: it
// reads its own figures, and those of its account when the account is a
// client's, which has no other key.
const (
	asOwner role = "owner"
	asNode  role = "node"
	asKey   role = "key"
)

// caller is who asks, proven.
type caller struct {
	as   role
	id   store.AccountID
	node protocol.NodeID // of asNode
	key  store.APIKey    // of asKey
}

// isCode reports whether err carries the code.
func isCode(err error, c protocol.Code) bool { return errors.Is(err, &protocol.Error{Code: c}) }

// signer verifies a signed request, reads its body and counts it.
func (h *Handler) signer(w http.ResponseWriter, r *http.Request) (ed25519.PublicKey, []byte, error) {
	key, body, err := h.verifier.Read(w, r)
	if err != nil {
		return nil, nil, err
	}
	return key, body, h.signers.take(string(key))
}

// callerOf finds what a key that has signed may see. A key that is an owner's
// and a node's counts as the owner's. Error: not_found.
func (h *Handler) callerOf(ctx context.Context, key ed25519.PublicKey) (c caller, err error) {
	err = h.o.Ledger.View(ctx, func(v store.LedgerView) error {
		a, err := v.Account(ledger.OwnerAccount(key))
		if err == nil {
			c = caller{as: asOwner, id: a.ID}
			return nil
		}
		if !isCode(err, protocol.CodeNotFound) {
			return err
		}
		node := protocol.NodeIDOf(key)
		o, err := v.OwnerOf(node)
		if isCode(err, protocol.CodeNotFound) {
			return protocol.Errorf(protocol.CodeNotFound, "there is no account: the key is no owner's, and its node has no owner")
		}
		c = caller{as: asNode, id: o.Owner, node: node}
		return err
	})
	return c, err
}

// reader is who asks to see an account: by a signature or an API key.
func (h *Handler) reader(w http.ResponseWriter, r *http.Request) (caller, error) {
	header := r.Header.Get("Authorization")
	if header == "" {
		return caller{}, protocol.Errorf(protocol.CodeUnauthorized, "sign the request with the key of an owner or a node, or send a client's key: Authorization: Bearer nk-...")
	}
	secret, bearer := strings.CutPrefix(header, "Bearer ")
	if !bearer {
		key, _, err := h.signer(w, r)
		if err != nil {
			return caller{}, err
		}
		return h.callerOf(r.Context(), key)
	}
	k, err := h.o.Keys.Find(r.Context(), keys.Secret(secret))
	if err != nil {
		return caller{}, err
	}
	return caller{as: asKey, id: k.Account, key: k}, h.signers.take(k.ID)
}

// lineReader is a reader who may see the account's lines.
func (h *Handler) lineReader(w http.ResponseWriter, r *http.Request) (caller, error) {
	c, err := h.reader(w, r)
	if err != nil || c.as != asKey {
		return c, err
	}
	a, err := h.accountOf(r.Context(), c.id)
	if err == nil && a.Kind != store.KindClient {
		err = protocol.Errorf(protocol.CodeForbidden, "an API key of an owner sees its own figures only; ask with the owner's key")
	}
	return c, err
}

// owner is an owner whose key has signed; body is the request's.
func (h *Handler) owner(w http.ResponseWriter, r *http.Request) (id store.AccountID, body []byte, err error) {
	if strings.HasPrefix(r.Header.Get("Authorization"), "Bearer ") {
		return "", nil, protocol.Errorf(protocol.CodeForbidden, "this needs the signature of the owner's key; an API key cannot do it")
	}
	key, body, err := h.signer(w, r)
	if err != nil {
		return "", nil, err
	}
	c, err := h.callerOf(r.Context(), key)
	if err == nil && c.as != asOwner {
		err = protocol.Errorf(protocol.CodeForbidden, "this needs the signature of the owner's key, not of a node's")
	}
	return c.id, body, err
}

func (h *Handler) accountOf(ctx context.Context, id store.AccountID) (a store.Account, err error) {
	err = h.o.Ledger.View(ctx, func(v store.LedgerView) error {
		a, err = v.Account(id)
		return err
	})
	return a, err
}

// open reads the body of a request that nobody has to sign.
func open[T any](w http.ResponseWriter, r *http.Request) (*T, error) {
	body, err := signed.ReadBody(w, r)
	if err != nil {
		return nil, err
	}
	return decode[T](r, body)
}

// decode reads a body as JSON of the one form that T has. Error:
// invalid_request.
func decode[T any](r *http.Request, body []byte) (*T, error) {
	if t, _, err := mime.ParseMediaType(r.Header.Get("Content-Type")); err != nil || t != "application/json" {
		e := protocol.Errorf(protocol.CodeInvalidRequest, "the body has to be JSON, with Content-Type: application/json")
		e.Param = "Content-Type"
		return nil, e
	}
	return parse[T](body)
}

func parse[T any](body []byte) (*T, error) {
	d := json.NewDecoder(bytes.NewReader(body))
	d.DisallowUnknownFields()
	out := new(T)
	if err := d.Decode(out); err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the body is not what is asked for: %.200s", decodeText(err))
	}
	if _, err := d.Token(); !errors.Is(err, io.EOF) {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the body has something after its end")
	}
	return out, nil
}

// decodeText says what is wrong with a body without repeating what is in it: it
// may be a code.
func decodeText(err error) string {
	var kind *json.UnmarshalTypeError
	switch {
	case errors.As(err, &kind):
		return "the field " + kind.Field + " is of another kind"
	case strings.HasPrefix(err.Error(), "json: unknown field"):
		return "it has an unknown field"
	}
	return "it is not whole JSON"
}
