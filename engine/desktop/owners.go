package desktop

import (
	"context"
	"path/filepath"

	"neuron/engine/accounts"
	"neuron/engine/localapi"
	"neuron/engine/ownership/desk"
	"neuron/engine/protocol"
	"neuron/internal/owner"
)

// owners is the owner's part of the local API: the node's own desk, and one for
// the moment while no node runs, so that the key can always be saved and
// recovered.
type owners Engine

var _ localapi.Owner = (*owners)(nil)

// ask asks whoever answers now.
func ask[T any](o *owners, f func(localapi.Owner) (T, error)) (T, error) {
	e := (*Engine)(o)
	if n, _ := e.parts(); n != nil {
		return f(n.Owner())
	}
	d, err := desk.Visit(filepath.Join(e.o.Data, NodeFolder), e.o.Owner, e.settings.Get().Tracker)
	if err != nil {
		var none T
		return none, err
	}
	defer d.Close()
	return f(d)
}

// tell is ask for what has no answer.
func tell(o *owners, f func(localapi.Owner) error) error {
	_, err := ask(o, func(x localapi.Owner) (struct{}, error) { return struct{}{}, f(x) })
	return err
}

// Owner implements localapi.Owner, as all methods here.
func (o *owners) Owner(ctx context.Context) (*localapi.OwnerState, error) {
	return ask(o, func(x localapi.Owner) (*localapi.OwnerState, error) { return x.Owner(ctx) })
}

// StartPairing gives a code.
func (o *owners) StartPairing(ctx context.Context, fresh bool) (*localapi.Pairing, error) {
	return ask(o, func(x localapi.Owner) (*localapi.Pairing, error) { return x.StartPairing(ctx, fresh) })
}

// Pairing is the open code.
func (o *owners) Pairing(ctx context.Context) (*localapi.Pairing, error) {
	return ask(o, func(x localapi.Owner) (*localapi.Pairing, error) { return x.Pairing(ctx) })
}

// ConfirmPairing takes the node that came.
func (o *owners) ConfirmPairing(ctx context.Context, node protocol.NodeID) error {
	return tell(o, func(x localapi.Owner) error { return x.ConfirmPairing(ctx, node) })
}

// EndPairing forgets the code.
func (o *owners) EndPairing(ctx context.Context) error {
	return tell(o, func(x localapi.Owner) error { return x.EndPairing(ctx) })
}

// LookupCode says whose a code is.
func (o *owners) LookupCode(ctx context.Context, code string) (owner.ID, error) {
	return ask(o, func(x localapi.Owner) (owner.ID, error) { return x.LookupCode(ctx, code) })
}

// Join asks an owner to take this node.
func (o *owners) Join(ctx context.Context, code string, want owner.ID) (owner.ID, error) {
	return ask(o, func(x localapi.Owner) (owner.ID, error) { return x.Join(ctx, code, want) })
}

// Leave brings the node back.
func (o *owners) Leave(ctx context.Context) error {
	return tell(o, func(x localapi.Owner) error { return x.Leave(ctx) })
}

// Release lets a node go.
func (o *owners) Release(ctx context.Context, node string) (protocol.NodeID, error) {
	return ask(o, func(x localapi.Owner) (protocol.NodeID, error) { return x.Release(ctx, node) })
}

// Export is the key as a file.
func (o *owners) Export(ctx context.Context, passphrase string) ([]byte, error) {
	return ask(o, func(x localapi.Owner) ([]byte, error) { return x.Export(ctx, passphrase) })
}

// Recover takes such a file.
func (o *owners) Recover(ctx context.Context, r localapi.Recover) (*localapi.Recovered, error) {
	return ask(o, func(x localapi.Owner) (*localapi.Recovered, error) { return x.Recover(ctx, r) })
}

// Account is what the owner has.
func (o *owners) Account(ctx context.Context) (*accounts.Account, error) {
	return ask(o, func(x localapi.Owner) (*accounts.Account, error) { return x.Account(ctx) })
}

// Earnings are those of the owner's computers.
func (o *owners) Earnings(ctx context.Context, q accounts.Query) (*accounts.Earnings, error) {
	return ask(o, func(x localapi.Owner) (*accounts.Earnings, error) { return x.Earnings(ctx, q) })
}

// Statement has the lines of the account.
func (o *owners) Statement(ctx context.Context, q accounts.Query) (*accounts.Statement, error) {
	return ask(o, func(x localapi.Owner) (*accounts.Statement, error) { return x.Statement(ctx, q) })
}

// EarningsCSV is Earnings as a file.
func (o *owners) EarningsCSV(ctx context.Context, q accounts.Query) ([]byte, error) {
	return ask(o, func(x localapi.Owner) ([]byte, error) { return x.EarningsCSV(ctx, q) })
}

// StatementCSV is Statement as a file.
func (o *owners) StatementCSV(ctx context.Context, q accounts.Query) ([]byte, error) {
	return ask(o, func(x localapi.Owner) ([]byte, error) { return x.StatementCSV(ctx, q) })
}

// Prices are those in force.
func (o *owners) Prices(ctx context.Context) (*accounts.Prices, error) {
	return ask(o, func(x localapi.Owner) (*accounts.Prices, error) { return x.Prices(ctx) })
}

// Keys are the API keys.
func (o *owners) Keys(ctx context.Context) ([]accounts.Key, error) {
	return ask(o, func(x localapi.Owner) ([]accounts.Key, error) { return x.Keys(ctx) })
}

// CreateKey makes one.
func (o *owners) CreateKey(ctx context.Context, name string, l accounts.Limits) (*accounts.NewKey, error) {
	return ask(o, func(x localapi.Owner) (*accounts.NewKey, error) { return x.CreateKey(ctx, name, l) })
}

// LimitKey bounds one.
func (o *owners) LimitKey(ctx context.Context, id string, l accounts.Limits) (*accounts.Key, error) {
	return ask(o, func(x localapi.Owner) (*accounts.Key, error) { return x.LimitKey(ctx, id, l) })
}

// RevokeKey ends one.
func (o *owners) RevokeKey(ctx context.Context, id string) (*accounts.Key, error) {
	return ask(o, func(x localapi.Owner) (*accounts.Key, error) { return x.RevokeKey(ctx, id) })
}
