package localapi_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"net/http"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"neuron/engine/accounts"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/owner"
)

// desk answers with what it was asked, so that a lost argument shows.
type desk struct{ err error }

const someNode = protocol.NodeID("node")

func (d *desk) Owner(context.Context) (*localapi.OwnerState, error) {
	return &localapi.OwnerState{Node: someNode, Status: "failed", Own: "o-own", Error: protocol.Errorf(protocol.CodeForbidden, "no")}, d.err
}

func (d *desk) StartPairing(_ context.Context, fresh bool) (*localapi.Pairing, error) {
	p := &localapi.Pairing{Code: "old"}
	if fresh {
		p.Code = "new"
	}
	return p, d.err
}

func (d *desk) Pairing(context.Context) (*localapi.Pairing, error) {
	return &localapi.Pairing{Code: "old", Offer: &localapi.Offer{Node: someNode, Host: "4 cores"}}, d.err
}

func (d *desk) ConfirmPairing(_ context.Context, n protocol.NodeID) error {
	if n != someNode {
		return protocol.Errorf(protocol.CodeConflict, "%s", n)
	}
	return d.err
}
func (d *desk) EndPairing(context.Context) error { return d.err }
func (d *desk) LookupCode(_ context.Context, code string) (owner.ID, error) {
	return owner.ID("o-" + code), d.err
}

func (d *desk) Join(_ context.Context, code string, want owner.ID) (owner.ID, error) {
	return want + owner.ID(code), d.err
}
func (d *desk) Leave(context.Context) error { return d.err }
func (d *desk) Release(_ context.Context, n string) (protocol.NodeID, error) {
	return protocol.NodeID(n), d.err
}
func (d *desk) Export(_ context.Context, p string) ([]byte, error) {
	return []byte("sealed " + p), d.err
}
func (d *desk) Recover(_ context.Context, r localapi.Recover) (*localapi.Recovered, error) {
	return &localapi.Recovered{Owner: owner.ID(r.File), Saved: r.Passphrase, Changed: r.Replace}, d.err
}

func (d *desk) Account(context.Context) (*accounts.Account, error) {
	return &accounts.Account{Account: "o-x", Balances: map[string]accounts.Money{"available": {Micros: 5, Credits: "0.000005"}}}, d.err
}

func (d *desk) Earnings(_ context.Context, q accounts.Query) (*accounts.Earnings, error) {
	return &accounts.Earnings{Account: q.Since + q.Until + q.Model + q.Range}, d.err
}

func (d *desk) Statement(_ context.Context, q accounts.Query) (*accounts.Statement, error) {
	return &accounts.Statement{Account: q.Book + q.Cursor, Lines: make([]accounts.Line, q.Limit)}, d.err
}

func (d *desk) EarningsCSV(_ context.Context, q accounts.Query) ([]byte, error) {
	return []byte("day," + q.Since), d.err
}

func (d *desk) StatementCSV(_ context.Context, q accounts.Query) ([]byte, error) {
	return []byte("time," + q.Until), d.err
}
func (d *desk) Prices(context.Context) (*accounts.Prices, error) {
	return &accounts.Prices{Now: 3}, d.err
}

func (d *desk) Keys(context.Context) ([]accounts.Key, error) {
	return []accounts.Key{{ID: "nk-a"}}, d.err
}

func (d *desk) CreateKey(_ context.Context, name string, l accounts.Limits) (*accounts.NewKey, error) {
	return &accounts.NewKey{Secret: "s", Key: accounts.Key{Name: name, Limits: l}}, d.err
}

func (d *desk) LimitKey(_ context.Context, id string, l accounts.Limits) (*accounts.Key, error) {
	return &accounts.Key{ID: id, Limits: l}, d.err
}

func (d *desk) RevokeKey(_ context.Context, id string) (*accounts.Key, error) {
	return &accounts.Key{ID: id, Name: "revoked"}, d.err
}

// asks are all calls of an Owner with arguments of their own.
var asks = map[string]func(context.Context, localapi.Owner) (any, error){
	"owner":    func(c context.Context, o localapi.Owner) (any, error) { return o.Owner(c) },
	"pair":     func(c context.Context, o localapi.Owner) (any, error) { return o.StartPairing(c, false) },
	"pair new": func(c context.Context, o localapi.Owner) (any, error) { return o.StartPairing(c, true) },
	"pairing":  func(c context.Context, o localapi.Owner) (any, error) { return o.Pairing(c) },
	"confirm":  func(c context.Context, o localapi.Owner) (any, error) { return nil, o.ConfirmPairing(c, someNode) },
	"end":      func(c context.Context, o localapi.Owner) (any, error) { return nil, o.EndPairing(c) },
	"lookup":   func(c context.Context, o localapi.Owner) (any, error) { return o.LookupCode(c, "ABCD") },
	"join":     func(c context.Context, o localapi.Owner) (any, error) { return o.Join(c, "ABCD", "o-x") },
	"leave":    func(c context.Context, o localapi.Owner) (any, error) { return nil, o.Leave(c) },
	"release":  func(c context.Context, o localapi.Owner) (any, error) { return o.Release(c, "abc") },
	"export":   func(c context.Context, o localapi.Owner) (any, error) { return o.Export(c, "words") },
	"account":  func(c context.Context, o localapi.Owner) (any, error) { return o.Account(c) },
	"prices":   func(c context.Context, o localapi.Owner) (any, error) { return o.Prices(c) },
	"keys":     func(c context.Context, o localapi.Owner) (any, error) { return o.Keys(c) },
	"revoke":   func(c context.Context, o localapi.Owner) (any, error) { return o.RevokeKey(c, "nk-a") },
	"limit": func(c context.Context, o localapi.Owner) (any, error) {
		return o.LimitKey(c, "nk-a", accounts.Limits{Budget: 7})
	},
	"create": func(c context.Context, o localapi.Owner) (any, error) {
		return o.CreateKey(c, "n", accounts.Limits{PerMinute: 7})
	},
	"earnings": func(c context.Context, o localapi.Owner) (any, error) {
		return o.Earnings(c, accounts.Query{Since: "a", Until: "b", Model: "c", Range: "d"})
	},
	"statement": func(c context.Context, o localapi.Owner) (any, error) {
		return o.Statement(c, accounts.Query{Book: "a", Cursor: "b", Limit: 3})
	},
	"earnings file": func(c context.Context, o localapi.Owner) (any, error) {
		return o.EarningsCSV(c, accounts.Query{Since: "a"})
	},
	"statement file": func(c context.Context, o localapi.Owner) (any, error) {
		return o.StatementCSV(c, accounts.Query{Until: "a"})
	},
	"recover": func(c context.Context, o localapi.Owner) (any, error) {
		return o.Recover(c, localapi.Recover{File: "o-f", Passphrase: "p", Replace: true})
	},
}

// TestOwnerOverHTTP: what a call gives over the API is what it gives without.
func TestOwnerOverHTTP(t *testing.T) {
	t.Parallel()
	d := new(desk)
	dir := t.TempDir()
	srv, err := localapi.Start(localapi.Options{Dir: dir, Source: new(source), Owner: d})
	if err != nil {
		t.Fatal(err)
	}
	defer srv.Close(context.Background())
	c, err := localapi.Dial(dir)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for name, ask := range asks {
		want, err := ask(t.Context(), d)
		if err != nil {
			t.Fatal(err)
		}
		if got, err := ask(t.Context(), c); err != nil || !same(got, want) {
			t.Errorf("%s: %+v, %v; want %+v", name, got, err, want)
		}
	}
	if err := c.ConfirmPairing(t.Context(), "another"); code(err) != protocol.CodeConflict {
		t.Errorf("confirm another: %v", err)
	}
	d.err = protocol.Errorf(protocol.CodeBudget, "nothing left")
	for name, ask := range asks {
		if _, err := ask(t.Context(), c); !errors.Is(err, &protocol.Error{Code: protocol.CodeBudget}) {
			t.Errorf("%s: error %v", name, err)
		}
	}
	d.err = nil

	// A body that is malformed is refused without being repeated.
	for _, body := range []string{`{"passphrase":"open sesame","more":1}`, `{"passphrase":open sesame`, `["open sesame"]`} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.Address().URL+"/local/v1/owner/export", bytes.NewReader([]byte(body)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+srv.Address().Token)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		raw, _ := io.ReadAll(resp.Body)
		resp.Body.Close()
		if resp.StatusCode != 400 || strings.Contains(string(raw), "sesame") {
			t.Errorf("%s: %d %s", body, resp.StatusCode, raw)
		}
	}
	if _, err := localapi.Dial(filepath.Join(dir, "none")); code(err) != protocol.CodeUnavailable {
		t.Errorf("%v", err)
	}
}

// same compares what an error holds by its text.
func same(a, b any) bool {
	x, ok := a.(*localapi.OwnerState)
	if y, yes := b.(*localapi.OwnerState); ok && yes {
		return x.Node == y.Node && x.Status == y.Status && x.Own == y.Own && x.Error.Error() == y.Error.Error()
	}
	return reflect.DeepEqual(a, b)
}
