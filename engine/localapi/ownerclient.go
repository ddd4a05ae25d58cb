package localapi

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"

	"neuron/engine/accounts"
	"neuron/engine/protocol"
	"neuron/internal/owner"
)

var _ Owner = (*Client)(nil)

// Owner implements Owner.
func (c *Client) Owner(ctx context.Context) (*OwnerState, error) {
	return got[OwnerState](ctx, c, pathOwner)
}

// StartPairing implements Owner.
func (c *Client) StartPairing(ctx context.Context, fresh bool) (*Pairing, error) {
	return call[Pairing](ctx, c, http.MethodPost, pathPair, pairOrder{fresh})
}

// Pairing implements Owner.
func (c *Client) Pairing(ctx context.Context) (*Pairing, error) {
	return got[Pairing](ctx, c, pathPair)
}

// ConfirmPairing implements Owner.
func (c *Client) ConfirmPairing(ctx context.Context, node protocol.NodeID) error {
	return c.post(ctx, pathConfirm, nodeOrder{string(node)})
}

// EndPairing implements Owner.
func (c *Client) EndPairing(ctx context.Context) error {
	_, err := call[done](ctx, c, http.MethodDelete, pathPair, nil)
	return err
}

// LookupCode implements Owner.
func (c *Client) LookupCode(ctx context.Context, code string) (owner.ID, error) {
	return whose(call[ownerAnswer](ctx, c, http.MethodPost, pathLookup, codeOrder{code}))
}

// Join implements Owner.
func (c *Client) Join(ctx context.Context, code string, want owner.ID) (owner.ID, error) {
	return whose(call[ownerAnswer](ctx, c, http.MethodPost, pathJoin, joinOrder{code, want}))
}

func whose(a *ownerAnswer, err error) (owner.ID, error) {
	if err != nil {
		return "", err
	}
	return a.Owner, nil
}

// Leave implements Owner.
func (c *Client) Leave(ctx context.Context) error { return c.post(ctx, pathLeave, done{}) }

// Release implements Owner.
func (c *Client) Release(ctx context.Context, node string) (protocol.NodeID, error) {
	a, err := call[nodeAnswer](ctx, c, http.MethodPost, pathRelease, nodeOrder{node})
	if err != nil {
		return "", err
	}
	return a.Node, nil
}

// Export implements Owner.
func (c *Client) Export(ctx context.Context, passphrase string) ([]byte, error) {
	a, err := call[exportAnswer](ctx, c, http.MethodPost, pathExport, exportOrder{passphrase})
	if err != nil {
		return nil, err
	}
	return []byte(a.File), nil
}

// Recover implements Owner.
func (c *Client) Recover(ctx context.Context, r Recover) (*Recovered, error) {
	return call[Recovered](ctx, c, http.MethodPost, pathRecover, r)
}

// Account implements Owner.
func (c *Client) Account(ctx context.Context) (*accounts.Account, error) {
	return got[accounts.Account](ctx, c, pathAccount)
}

// Earnings implements Owner.
func (c *Client) Earnings(ctx context.Context, q accounts.Query) (*accounts.Earnings, error) {
	return got[accounts.Earnings](ctx, c, pathEarnings+"?"+q.Encode(""))
}

// Statement implements Owner.
func (c *Client) Statement(ctx context.Context, q accounts.Query) (*accounts.Statement, error) {
	return got[accounts.Statement](ctx, c, pathStatement+"?"+q.Encode(""))
}

// EarningsCSV implements Owner.
func (c *Client) EarningsCSV(ctx context.Context, q accounts.Query) ([]byte, error) {
	return c.raw(ctx, http.MethodGet, pathEarnings+"?"+q.Encode("csv"), nil)
}

// StatementCSV implements Owner.
func (c *Client) StatementCSV(ctx context.Context, q accounts.Query) ([]byte, error) {
	return c.raw(ctx, http.MethodGet, pathStatement+"?"+q.Encode("csv"), nil)
}

// Prices implements Owner.
func (c *Client) Prices(ctx context.Context) (*accounts.Prices, error) {
	return got[accounts.Prices](ctx, c, pathPrices)
}

// Keys implements Owner.
func (c *Client) Keys(ctx context.Context) ([]accounts.Key, error) {
	a, err := got[keysAnswer](ctx, c, pathKeys)
	if err != nil {
		return nil, err
	}
	return a.Keys, nil
}

// CreateKey implements Owner.
func (c *Client) CreateKey(ctx context.Context, name string, l accounts.Limits) (*accounts.NewKey, error) {
	return call[accounts.NewKey](ctx, c, http.MethodPost, pathKeys, keyOrder{name, l})
}

// LimitKey implements Owner.
func (c *Client) LimitKey(ctx context.Context, id string, l accounts.Limits) (*accounts.Key, error) {
	return call[accounts.Key](ctx, c, http.MethodPost, pathKeys+"/"+url.PathEscape(id)+"/limits", l)
}

// RevokeKey implements Owner.
func (c *Client) RevokeKey(ctx context.Context, id string) (*accounts.Key, error) {
	return call[accounts.Key](ctx, c, http.MethodDelete, pathKeys+"/"+url.PathEscape(id), nil)
}

func got[T any](ctx context.Context, c *Client, path string) (*T, error) {
	return call[T](ctx, c, http.MethodGet, path, nil)
}

// call sends body as JSON, unless it is nil, and reads the answer.
func call[T any](ctx context.Context, c *Client, method, path string, body any) (*T, error) {
	raw, err := c.raw(ctx, method, path, body)
	if err != nil {
		return nil, err
	}
	out := new(T)
	if err := json.Unmarshal(raw, out); err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the engine's answer is malformed: %w", err)
	}
	return out, nil
}

// raw is call for an answer that is no JSON.
func (c *Client) raw(ctx context.Context, method, path string, body any) ([]byte, error) {
	var in []byte
	if body != nil {
		var err error
		if in, err = json.Marshal(body); err != nil {
			return nil, protocol.Errorf(protocol.CodeInternal, "encode the request: %w", err)
		}
	}
	resp, err := c.do(ctx, method, path, in)
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(io.LimitReader(resp.Body, maxAnswer+1))
	if err != nil {
		return nil, noEngine(err)
	}
	if len(b) > maxAnswer {
		return nil, protocol.Errorf(protocol.CodeRequestTooLarge, "the engine's answer exceeds %d bytes", maxAnswer)
	}
	return b, nil
}
