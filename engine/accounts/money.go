package accounts

import (
	"context"
	"crypto/ed25519"
	"net/http"
	"net/url"
	"strconv"

	"neuron/engine/protocol"
)

// Bounds of what the tracker may send.
const (
	maxWord = 200 // bytes of a name or note
	maxRows = 20_000
)

// Account is what the owner that key belongs to has.
func (c *Client) Account(ctx context.Context, key ed25519.PrivateKey) (*Account, error) {
	a, err := ask[Account](ctx, c, key, http.MethodGet, "/v1/account", nil)
	if err != nil {
		return nil, err
	}
	a.Name = Clean(a.Name, maxWord)
	for i := range a.Freezes {
		a.Freezes[i].Note = Clean(a.Freezes[i].Note, maxWord)
	}
	for i := range a.Nodes {
		n := &a.Nodes[i]
		if _, err := protocol.ParseNodeID(string(n.Node)); err != nil {
			return nil, malformed("a node's id")
		}
		if len(n.NodeKey) != 0 && (len(n.NodeKey) != ed25519.PublicKeySize || protocol.NodeIDOf(n.NodeKey) != n.Node) {
			return nil, malformed("a node's key is of another node")
		}
		n.Info.clean()
	}
	return a, nil
}

// Query selects what a statement or earnings show. Empty fields select all.
type Query struct {
	Since  string // a day (2027-01-31, UTC) or a time (2027-01-31T12:00:00Z), included
	Until  string // the same, not included
	Model  string // a model's id
	Range  string // FIRST-LAST, LAST not included
	Book   string // of a statement: available, reserved, held, pending, frozen, with commas between
	Cursor string // of a statement: Statement.Next
	Limit  int    // of a statement: lines of a page, to 1000; 0 is the tracker's choice
}

// Encode is the query of an address; format is json or csv.
func (q Query) Encode(format string) string {
	v := url.Values{}
	for name, s := range map[string]string{
		"since": q.Since, "until": q.Until, "model": q.Model, "range": q.Range, "book": q.Book, "cursor": q.Cursor, "format": format,
	} {
		if s != "" {
			v.Set(name, s)
		}
	}
	if q.Limit > 0 {
		v.Set("limit", strconv.Itoa(q.Limit))
	}
	return v.Encode()
}

// Statement is a page of the account's lines.
func (c *Client) Statement(ctx context.Context, key ed25519.PrivateKey, q Query) (*Statement, error) {
	s, err := ask[Statement](ctx, c, key, http.MethodGet, "/v1/account/statement?"+q.Encode("json"), nil)
	if err != nil {
		return nil, err
	}
	if len(s.Lines) > maxRows {
		return nil, malformed("too many lines")
	}
	for i := range s.Lines {
		l := &s.Lines[i]
		l.Note, l.ModelName = Clean(l.Note, maxWord), Clean(l.ModelName, maxWord)
		l.Transaction, l.Kind, l.Book, l.Amount.Credits = Clean(l.Transaction, maxWord), Clean(l.Kind, maxWord), Clean(l.Book, maxWord), Clean(l.Amount.Credits, maxWord)
	}
	return s, nil
}

// Earnings are the account's earnings per day, model and range.
func (c *Client) Earnings(ctx context.Context, key ed25519.PrivateKey, q Query) (*Earnings, error) {
	e, err := ask[Earnings](ctx, c, key, http.MethodGet, "/v1/account/earnings?"+q.Encode("json"), nil)
	if err != nil {
		return nil, err
	}
	if len(e.Earnings) > maxRows {
		return nil, malformed("too many lines")
	}
	for i := range e.Earnings {
		x := &e.Earnings[i]
		x.Day, x.ModelName, x.Amount.Credits = Clean(x.Day, maxWord), Clean(x.ModelName, maxWord), Clean(x.Amount.Credits, maxWord)
	}
	return e, nil
}

// StatementCSV and EarningsCSV are the same as files for spreadsheets, which the
// tracker writes. A statement is whole, not a page.
func (c *Client) StatementCSV(ctx context.Context, key ed25519.PrivateKey, q Query) ([]byte, error) {
	return c.csv(ctx, key, "/v1/account/statement?"+q.Encode("csv"))
}

// EarningsCSV is Earnings as a file.
func (c *Client) EarningsCSV(ctx context.Context, key ed25519.PrivateKey, q Query) ([]byte, error) {
	return c.csv(ctx, key, "/v1/account/earnings?"+q.Encode("csv"))
}

func (c *Client) csv(ctx context.Context, key ed25519.PrivateKey, path string) ([]byte, error) {
	var raw []byte
	err := c.do(ctx, key, http.MethodGet, path, nil, &raw)
	return raw, err
}

// Keys lists the owner's API keys.
func (c *Client) Keys(ctx context.Context, key ed25519.PrivateKey) ([]Key, error) {
	out, err := ask[struct {
		Keys []Key `json:"keys"`
	}](ctx, c, key, http.MethodGet, "/v1/account/keys", nil)
	if err != nil {
		return nil, err
	}
	for i := range out.Keys {
		out.Keys[i].clean()
	}
	return out.Keys, nil
}

func (k *Key) clean() { k.ID, k.Name = Clean(k.ID, maxWord), Clean(k.Name, maxWord) }

// CreateKey makes an API key.
func (c *Client) CreateKey(ctx context.Context, key ed25519.PrivateKey, name string, l Limits) (*NewKey, error) {
	out, err := ask[NewKey](ctx, c, key, http.MethodPost, "/v1/account/keys", struct {
		Name   string `json:"name"`
		Limits Limits `json:"limits"`
	}{name, l})
	if err != nil {
		return nil, err
	}
	if CheckKey(out.Secret) != nil {
		return nil, malformed("the new key is not well formed")
	}
	out.Key.clean()
	return out, nil
}

type keyAnswer struct {
	Key Key `json:"key"`
}

func (c *Client) keyCall(ctx context.Context, key ed25519.PrivateKey, method, path string, in any) (*Key, error) {
	out, err := ask[keyAnswer](ctx, c, key, method, path, in)
	if err != nil {
		return nil, err
	}
	out.Key.clean()
	return &out.Key, nil
}

// LimitKey replaces all limits of a key, which id names.
func (c *Client) LimitKey(ctx context.Context, key ed25519.PrivateKey, id string, l Limits) (*Key, error) {
	return c.keyCall(ctx, key, http.MethodPost, "/v1/account/keys/"+url.PathEscape(id)+"/limits", l)
}

// RevokeKey ends a key, for good.
func (c *Client) RevokeKey(ctx context.Context, key ed25519.PrivateKey, id string) (*Key, error) {
	return c.keyCall(ctx, key, http.MethodDelete, "/v1/account/keys/"+url.PathEscape(id), nil)
}

// Prices are all versions of the price table; anybody may ask, with any key.
func (c *Client) Prices(ctx context.Context, key ed25519.PrivateKey) (*Prices, error) {
	p, err := ask[Prices](ctx, c, key, http.MethodGet, "/v1/prices", nil)
	if err == nil && len(p.Prices) > maxRows {
		return nil, malformed("too many prices")
	}
	return p, err
}
