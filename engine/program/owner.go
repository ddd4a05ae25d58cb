package program

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"

	"neuron/engine/accounts"
	"neuron/engine/artifact/catalog"
	"neuron/engine/control"
	"neuron/engine/localapi"
	"neuron/engine/ownership"
	"neuron/engine/protocol"
	"neuron/engine/wallet"
	"neuron/internal/identity"
	"neuron/internal/owner"
)

// ownerOptions say where a person's key is and who keeps the accounts.
type ownerOptions struct {
	data    string // of the node
	wallet  string // folder of the owner key; "" is data
	tracker string // URL; "" for none
	key     func() ed25519.PublicKey
	node    *identity.Identity
	changed func()
	log     Log
}

// ownerDesk is the owner's part of the local API: it implements localapi.Owner
// over the owner key of this computer and the tracker's accounts.
type ownerDesk struct {
	wallet  *wallet.Wallet
	keeper  *ownership.Keeper
	client  *accounts.Client // nil without a tracker
	node    *identity.Identity
	tracker string
	notes   *wallet.Notes
}

var _ localapi.Owner = (*ownerDesk)(nil)

// newOwnerDesk makes the owner key at the first start.
func newOwnerDesk(o ownerOptions) (*ownerDesk, error) {
	if o.wallet == "" {
		o.wallet = o.data
	}
	w, err := wallet.Open(o.wallet)
	if err != nil {
		return nil, err
	}
	return ownerDeskOf(o, w)
}

func ownerDeskOf(o ownerOptions, w *wallet.Wallet) (*ownerDesk, error) {
	d := &ownerDesk{wallet: w, node: o.node, tracker: o.tracker, notes: wallet.NotesAt(o.data)}
	ko := ownership.Options{Wallet: w, Notes: d.notes, Node: o.node, Tracker: noTracker{}, Changed: o.changed, Logger: o.log("owner")}
	if o.tracker != "" {
		base, err := catalog.BaseURL(o.tracker)
		if err != nil {
			return nil, err
		}
		d.client = accounts.New(accounts.Options{URL: base, TrackerKey: o.key})
		ko.Tracker = d.client
	}
	d.keeper = ownership.New(ko)
	return d, nil
}

// OpenOwner is the owner's part of the local API for a data folder that no
// engine uses, or one of a gateway. tracker is "" for the one that the folder
// knows; walletDir is "" for the folder itself. The caller must Close it.
func OpenOwner(data, walletDir, tracker string) (*OwnerDesk, error) {
	note, err := wallet.NotesAt(data).Read()
	if err != nil {
		return nil, err
	}
	if tracker == "" {
		tracker = note.Tracker
	}
	if walletDir == "" {
		walletDir = data
	}
	w := wallet.At(walletDir)
	if _, err := w.Key(); err != nil {
		return nil, err
	}
	id, err := identity.LoadOrCreate(data)
	if err != nil {
		return nil, err
	}
	d, err := ownerDeskOf(ownerOptions{data: data, tracker: tracker, node: id, key: trustedTracker(data, tracker, id), log: discardLog}, w)
	if err != nil {
		return nil, err
	}
	return &OwnerDesk{d}, nil
}

// OwnerDesk is what OpenOwner opens.
type OwnerDesk struct{ *ownerDesk }

// Close drops idle connections.
func (d *OwnerDesk) Close() { d.close() }

// trustedTracker is the key of a tracker that an engine of this folder has met.
func trustedTracker(data, tracker string, id *identity.Identity) func() ed25519.PublicKey {
	return func() ed25519.PublicKey {
		c, err := control.New(control.Options{URL: tracker, Identity: id, Trust: control.NewFileTrust(data)})
		if err != nil {
			return nil
		}
		return c.TrackerKey()
	}
}

func discardLog(string) *slog.Logger { return slog.New(slog.DiscardHandler) }

// welcomed takes what the tracker has said.
func (d *ownerDesk) welcomed(w protocol.Welcome) { d.keeper.Welcomed(w.Owner) }

// run looks after the binding until ctx ends.
func (d *ownerDesk) run(ctx context.Context) {
	if d.client == nil {
		return
	}
	// Without the note only commands that run without an engine are worse off;
	// what is wrong with it, the keeper shows.
	_ = d.notes.Update(func(n *wallet.Note) error {
		n.Tracker = d.tracker
		return nil
	})
	d.keeper.Run(ctx)
}

func (d *ownerDesk) close() {
	if d.client != nil {
		d.client.Close()
	}
}

// status is the state that was known last; nobody is asked.
func (d *ownerDesk) status() *localapi.OwnerState { return d.stateOf(d.keeper.State()) }

func (d *ownerDesk) stateOf(s ownership.State) *localapi.OwnerState {
	own := s.Own
	if own == "" {
		// Nothing was settled yet; without a key it stays empty.
		own, _ = d.wallet.Owner()
	}
	return &localapi.OwnerState{Node: d.node.ID(), Status: string(s.Status), Own: own, Wanted: s.Wanted, Tracker: s.Tracker, Error: s.Error}
}

var errNoTracker = protocol.Errorf(protocol.CodeUnavailable, "this computer works without a tracker, so nobody keeps accounts")

// Owner implements localapi.Owner.
func (d *ownerDesk) Owner(ctx context.Context) (*localapi.OwnerState, error) {
	if d.client == nil {
		return d.status(), nil
	}
	return d.stateOf(d.keeper.Refresh(ctx)), nil
}

// StartPairing implements localapi.Owner.
func (d *ownerDesk) StartPairing(ctx context.Context, fresh bool) (*localapi.Pairing, error) {
	return pairingOf(d.keeper.StartPairing(ctx, fresh))
}

// Pairing implements localapi.Owner.
func (d *ownerDesk) Pairing(ctx context.Context) (*localapi.Pairing, error) {
	return pairingOf(d.keeper.Pairing(ctx))
}

func pairingOf(p *ownership.Pairing, err error) (*localapi.Pairing, error) {
	if err != nil {
		return nil, err
	}
	out := &localapi.Pairing{Code: p.Code, Expires: p.Until}
	if p.Offer != nil {
		out.Offer = &localapi.Offer{Node: p.Offer.Node, Host: p.Offer.Host}
	}
	return out, nil
}

// ConfirmPairing implements localapi.Owner.
func (d *ownerDesk) ConfirmPairing(ctx context.Context, node protocol.NodeID) error {
	return d.keeper.Confirm(ctx, node)
}

// EndPairing implements localapi.Owner.
func (d *ownerDesk) EndPairing(context.Context) error { return d.keeper.EndPairing() }

// LookupCode implements localapi.Owner.
func (d *ownerDesk) LookupCode(ctx context.Context, code string) (owner.ID, error) {
	return d.keeper.Lookup(ctx, code)
}

// Join implements localapi.Owner.
func (d *ownerDesk) Join(ctx context.Context, code string, want owner.ID) (owner.ID, error) {
	return d.keeper.Join(ctx, code, want)
}

// Leave implements localapi.Owner.
func (d *ownerDesk) Leave(ctx context.Context) error { return d.keeper.Leave(ctx) }

// Release implements localapi.Owner.
func (d *ownerDesk) Release(ctx context.Context, node string) (protocol.NodeID, error) {
	return d.keeper.Release(ctx, node)
}

// Export implements localapi.Owner.
func (d *ownerDesk) Export(_ context.Context, passphrase string) ([]byte, error) {
	return d.wallet.Export([]byte(passphrase))
}

// Recover implements localapi.Owner.
func (d *ownerDesk) Recover(_ context.Context, r localapi.Recover) (*localapi.Recovered, error) {
	got, err := d.wallet.Recover([]byte(r.File), []byte(r.Passphrase), r.Replace)
	if err != nil {
		return nil, err
	}
	d.keeper.Look()
	return &localapi.Recovered{Owner: got.Owner, Changed: got.Changed, Saved: got.Saved}, nil
}

// reading runs a question about the account of this computer's owner. The own
// key asks while the node is its owner's; else the node does, which may read.
func reading[T any](d *ownerDesk, f func(*accounts.Client, ed25519.PrivateKey) (T, error)) (T, error) {
	var none T
	if d.client == nil {
		return none, errNoTracker
	}
	note, err := d.notes.Read()
	if err != nil {
		return none, err
	}
	key, err := d.wallet.Key()
	if note.Joined != "" || errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
		return f(d.client, d.node.PrivateKey())
	}
	if err != nil {
		return none, err
	}
	return f(d.client, key)
}

// owning runs a question that only the owner's key may ask.
func owning[T any](d *ownerDesk, f func(*accounts.Client, ed25519.PrivateKey) (T, error)) (T, error) {
	var none T
	if d.client == nil {
		return none, errNoTracker
	}
	note, err := d.notes.Read()
	if err != nil {
		return none, err
	}
	key, err := d.wallet.Key()
	if err != nil {
		return none, err
	}
	if note.Joined != "" && note.Joined != owner.IDOf(key.Public().(ed25519.PublicKey)) {
		return none, protocol.Errorf(protocol.CodeForbidden,
			"this computer belongs to the owner %s, whose key is on another one; do it there, or recover that key here", note.Joined.Short())
	}
	return f(d.client, key)
}

// Account implements localapi.Owner.
func (d *ownerDesk) Account(ctx context.Context) (*accounts.Account, error) {
	return reading(d, func(c *accounts.Client, k ed25519.PrivateKey) (*accounts.Account, error) { return c.Account(ctx, k) })
}

// Earnings implements localapi.Owner.
func (d *ownerDesk) Earnings(ctx context.Context, q accounts.Query) (*accounts.Earnings, error) {
	return reading(d, func(c *accounts.Client, k ed25519.PrivateKey) (*accounts.Earnings, error) {
		return c.Earnings(ctx, k, q)
	})
}

// Statement implements localapi.Owner.
func (d *ownerDesk) Statement(ctx context.Context, q accounts.Query) (*accounts.Statement, error) {
	return reading(d, func(c *accounts.Client, k ed25519.PrivateKey) (*accounts.Statement, error) {
		return c.Statement(ctx, k, q)
	})
}

// EarningsCSV implements localapi.Owner.
func (d *ownerDesk) EarningsCSV(ctx context.Context, q accounts.Query) ([]byte, error) {
	return reading(d, func(c *accounts.Client, k ed25519.PrivateKey) ([]byte, error) { return c.EarningsCSV(ctx, k, q) })
}

// StatementCSV implements localapi.Owner.
func (d *ownerDesk) StatementCSV(ctx context.Context, q accounts.Query) ([]byte, error) {
	return reading(d, func(c *accounts.Client, k ed25519.PrivateKey) ([]byte, error) { return c.StatementCSV(ctx, k, q) })
}

// Prices implements localapi.Owner.
func (d *ownerDesk) Prices(ctx context.Context) (*accounts.Prices, error) {
	if d.client == nil {
		return nil, errNoTracker
	}
	return d.client.Prices(ctx, d.node.PrivateKey())
}

// Keys implements localapi.Owner.
func (d *ownerDesk) Keys(ctx context.Context) ([]accounts.Key, error) {
	return owning(d, func(c *accounts.Client, k ed25519.PrivateKey) ([]accounts.Key, error) { return c.Keys(ctx, k) })
}

// CreateKey implements localapi.Owner.
func (d *ownerDesk) CreateKey(ctx context.Context, name string, l accounts.Limits) (*accounts.NewKey, error) {
	return owning(d, func(c *accounts.Client, k ed25519.PrivateKey) (*accounts.NewKey, error) {
		return c.CreateKey(ctx, k, name, l)
	})
}

// LimitKey implements localapi.Owner.
func (d *ownerDesk) LimitKey(ctx context.Context, id string, l accounts.Limits) (*accounts.Key, error) {
	return owning(d, func(c *accounts.Client, k ed25519.PrivateKey) (*accounts.Key, error) {
		return c.LimitKey(ctx, k, id, l)
	})
}

// RevokeKey implements localapi.Owner.
func (d *ownerDesk) RevokeKey(ctx context.Context, id string) (*accounts.Key, error) {
	return owning(d, func(c *accounts.Client, k ed25519.PrivateKey) (*accounts.Key, error) { return c.RevokeKey(ctx, k, id) })
}

// noTracker answers for a node that works alone.
type noTracker struct{}

func (noTracker) Bind(context.Context, ed25519.PrivateKey, *owner.Binding) error { return errNoTracker }

func (noTracker) Release(context.Context, ed25519.PrivateKey, *owner.Release) error {
	return errNoTracker
}

func (noTracker) OwnerOf(context.Context, ed25519.PrivateKey) (owner.ID, error) {
	return "", errNoTracker
}

func (noTracker) Lookup(context.Context, ed25519.PrivateKey, string) (ed25519.PublicKey, error) {
	return nil, errNoTracker
}

func (noTracker) Offer(context.Context, ed25519.PrivateKey, string, *owner.Binding) error {
	return errNoTracker
}

func (noTracker) StartPairing(context.Context, ed25519.PrivateKey) (*accounts.Pairing, error) {
	return nil, errNoTracker
}

func (noTracker) Offered(context.Context, ed25519.PrivateKey, string) (*accounts.Offered, error) {
	return nil, errNoTracker
}

func (noTracker) Confirm(context.Context, ed25519.PrivateKey, string, *owner.Binding) error {
	return errNoTracker
}

func (noTracker) Account(context.Context, ed25519.PrivateKey) (*accounts.Account, error) {
	return nil, errNoTracker
}
