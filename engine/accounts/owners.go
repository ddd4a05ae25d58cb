package accounts

import (
	"context"
	"crypto/ed25519"
	"errors"
	"net/http"

	"neuron/engine/protocol"
	"neuron/internal/owner"
)

// Bind hands in a binding that both have signed. key is one of the two.
func (c *Client) Bind(ctx context.Context, key ed25519.PrivateKey, b *owner.Binding) error {
	return c.do(ctx, key, http.MethodPost, "/v1/owners/bind", b, nil)
}

// Release hands in a release. key is the one that signed it.
func (c *Client) Release(ctx context.Context, key ed25519.PrivateKey, r *owner.Release) error {
	return c.do(ctx, key, http.MethodPost, "/v1/owners/release", r, nil)
}

// OwnerOf is who owns the node that asks, "" for nobody.
func (c *Client) OwnerOf(ctx context.Context, node ed25519.PrivateKey) (owner.ID, error) {
	a, err := c.Account(ctx, node)
	if errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
		return "", nil
	}
	if err != nil {
		return "", err
	}
	return owner.ParseID(a.Account)
}

// StartPairing makes a code for an owner.
func (c *Client) StartPairing(ctx context.Context, key ed25519.PrivateKey) (*Pairing, error) {
	return ask[Pairing](ctx, c, key, http.MethodPost, "/v1/pairing", struct{}{})
}

type codeBody struct {
	Code string `json:"code"`
}

type codeBinding struct {
	Code    string         `json:"code"`
	Binding *owner.Binding `json:"binding"`
}

// Lookup tells a node whose a code is.
func (c *Client) Lookup(ctx context.Context, node ed25519.PrivateKey, code string) (ed25519.PublicKey, error) {
	l, err := ask[Lookup](ctx, c, node, http.MethodPost, "/v1/pairing/lookup", codeBody{code})
	if err != nil {
		return nil, err
	}
	if len(l.OwnerKey) != ed25519.PublicKeySize || owner.IDOf(l.OwnerKey) != l.Owner {
		return nil, malformed("the owner's key and id do not agree")
	}
	return l.OwnerKey, nil
}

// Offer hands in what the node has signed for a code.
func (c *Client) Offer(ctx context.Context, node ed25519.PrivateKey, code string, b *owner.Binding) error {
	return c.do(ctx, node, http.MethodPost, "/v1/pairing/offer", codeBinding{code, b}, nil)
}

// Offered tells an owner which node has come for a code.
func (c *Client) Offered(ctx context.Context, key ed25519.PrivateKey, code string) (*Offered, error) {
	o, err := ask[Offered](ctx, c, key, http.MethodPost, "/v1/pairing/offered", codeBody{code})
	if err != nil {
		return nil, err
	}
	if b := o.Binding; b != nil && b.CheckNode() != nil || b == nil && !o.Waiting {
		return nil, malformed("the offer is not what a node has signed")
	}
	o.Info.clean()
	return o, nil
}

// Confirm makes an offer valid that the owner has signed too.
func (c *Client) Confirm(ctx context.Context, key ed25519.PrivateKey, code string, b *owner.Binding) error {
	return c.do(ctx, key, http.MethodPost, "/v1/pairing/confirm", codeBinding{code, b}, nil)
}

func (i *NodeInfo) clean() {
	if i != nil {
		i.Host, i.Addr, i.Engine = Clean(i.Host, maxWord), Clean(i.Addr, maxWord), Clean(i.Engine, maxWord)
	}
}

func malformed(what string) error {
	return protocol.Errorf(protocol.CodeUnavailable, "the tracker's answer is malformed: %s", what)
}

// ask is do for an answer of one form.
func ask[T any](ctx context.Context, c *Client, key ed25519.PrivateKey, method, path string, in any) (*T, error) {
	out := new(T)
	if err := c.do(ctx, key, method, path, in, out); err != nil {
		return nil, err
	}
	return out, nil
}
