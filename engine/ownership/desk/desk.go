// Package desk is the owner's part of the local API: it answers localapi.Owner
// over the owner key of this computer, the binding of its node, and the
// tracker's accounts.
//
// Engines (engine/program, engine/desktop) have one while they run, and commands
// make one for a folder that no engine uses. It joins engine/ownership,
// engine/wallet and engine/accounts, and knows no node and no gateway.
package desk

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

// Options say where a person's key is and who keeps the accounts.
type Options struct {
	Data    string // of the node
	Wallet  string // folder of the owner key; "" is Data
	Tracker string // URL; "" for none
	// Key is the tracker's key as it is known at the time of the call.
	Key  func() ed25519.PublicKey
	Node *identity.Identity
	// Changed is called when the state of the owner is another one.
	Changed func()
	Log     func(component string) *slog.Logger
}

// Desk implements localapi.Owner. Safe for concurrent use.
type Desk struct {
	wallet  *wallet.Wallet
	keeper  *ownership.Keeper
	client  *accounts.Client // nil without a tracker
	node    *identity.Identity
	tracker string
	notes   *wallet.Notes
}

var _ localapi.Owner = (*Desk)(nil)

// New makes the owner key at the first start. The caller must Close the desk,
// and Run it, if it is to look after the binding.
func New(o Options) (*Desk, error) {
	if o.Wallet == "" {
		o.Wallet = o.Data
	}
	w, err := wallet.Open(o.Wallet)
	if err != nil {
		return nil, err
	}
	return of(o, w)
}

func of(o Options, w *wallet.Wallet) (*Desk, error) {
	d := &Desk{wallet: w, node: o.Node, tracker: o.Tracker, notes: wallet.NotesAt(o.Data)}
	ko := ownership.Options{Wallet: w, Notes: d.notes, Node: o.Node, Tracker: noTracker{}, Changed: o.Changed, Logger: o.Log("owner")}
	if o.Tracker != "" {
		base, err := catalog.BaseURL(o.Tracker)
		if err != nil {
			return nil, err
		}
		d.client = accounts.New(accounts.Options{URL: base, TrackerKey: o.Key})
		ko.Tracker = d.client
	}
	d.keeper = ownership.New(ko)
	return d, nil
}

// Visit is the desk of a data folder that no engine uses, or of a gateway's.
// tracker is "" for the one that the folder knows; walletDir is "" for the folder
// itself. The caller must Close it. Errors: not_found where no owner key is.
func Visit(data, walletDir, tracker string) (*Desk, error) {
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
	return of(Options{Data: data, Tracker: tracker, Node: id, Key: trustedTracker(data, tracker, id), Log: discard}, w)
}

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

func discard(string) *slog.Logger { return slog.New(slog.DiscardHandler) }

// Welcomed takes what the tracker has said.
func (d *Desk) Welcomed(w protocol.Welcome) { d.keeper.Welcomed(w.Owner) }

// Run looks after the binding until ctx ends.
func (d *Desk) Run(ctx context.Context) {
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

// Close drops idle connections.
func (d *Desk) Close() {
	if d.client != nil {
		d.client.Close()
	}
}

// State is the state that was known last; nobody is asked.
func (d *Desk) State() *localapi.OwnerState { return d.stateOf(d.keeper.State()) }

func (d *Desk) stateOf(s ownership.State) *localapi.OwnerState {
	own := s.Own
	if own == "" {
		// Nothing was settled yet; without a key it stays empty.
		own, _ = d.wallet.Owner()
	}
	return &localapi.OwnerState{Node: d.node.ID(), Status: string(s.Status), Own: own, Wanted: s.Wanted, Tracker: s.Tracker, Error: s.Error}
}

var errNoTracker = protocol.Errorf(protocol.CodeUnavailable, "this computer works without a tracker, so nobody keeps accounts")

// Owner implements localapi.Owner.
func (d *Desk) Owner(ctx context.Context) (*localapi.OwnerState, error) {
	if d.client == nil {
		return d.State(), nil
	}
	return d.stateOf(d.keeper.Refresh(ctx)), nil
}

// StartPairing implements localapi.Owner.
func (d *Desk) StartPairing(ctx context.Context, fresh bool) (*localapi.Pairing, error) {
	return pairingOf(d.keeper.StartPairing(ctx, fresh))
}

// Pairing implements localapi.Owner.
func (d *Desk) Pairing(ctx context.Context) (*localapi.Pairing, error) {
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
func (d *Desk) ConfirmPairing(ctx context.Context, node protocol.NodeID) error {
	return d.keeper.Confirm(ctx, node)
}

// EndPairing implements localapi.Owner.
func (d *Desk) EndPairing(context.Context) error { return d.keeper.EndPairing() }

// LookupCode implements localapi.Owner.
func (d *Desk) LookupCode(ctx context.Context, code string) (owner.ID, error) {
	return d.keeper.Lookup(ctx, code)
}

// Join implements localapi.Owner.
func (d *Desk) Join(ctx context.Context, code string, want owner.ID) (owner.ID, error) {
	return d.keeper.Join(ctx, code, want)
}

// Leave implements localapi.Owner.
func (d *Desk) Leave(ctx context.Context) error { return d.keeper.Leave(ctx) }

// Release implements localapi.Owner.
func (d *Desk) Release(ctx context.Context, node string) (protocol.NodeID, error) {
	return d.keeper.Release(ctx, node)
}

// Export implements localapi.Owner.
func (d *Desk) Export(_ context.Context, passphrase string) ([]byte, error) {
	return d.wallet.Export([]byte(passphrase))
}

// Recover implements localapi.Owner.
func (d *Desk) Recover(_ context.Context, r localapi.Recover) (*localapi.Recovered, error) {
	got, err := d.wallet.Recover([]byte(r.File), []byte(r.Passphrase), r.Replace)
	if err != nil {
		return nil, err
	}
	d.keeper.Look()
	return &localapi.Recovered{Owner: got.Owner, Changed: got.Changed, Saved: got.Saved}, nil
}

// reading runs a question about the account of this computer's owner. The own
// key asks while the node is its owner's; else the node does, which may read.
func reading[T any](d *Desk, f func(*accounts.Client, ed25519.PrivateKey) (T, error)) (T, error) {
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
func owning[T any](d *Desk, f func(*accounts.Client, ed25519.PrivateKey) (T, error)) (T, error) {
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
func (d *Desk) Account(ctx context.Context) (*accounts.Account, error) {
	return reading(d, func(c *accounts.Client, k ed25519.PrivateKey) (*accounts.Account, error) { return c.Account(ctx, k) })
}

// Earnings implements localapi.Owner.
func (d *Desk) Earnings(ctx context.Context, q accounts.Query) (*accounts.Earnings, error) {
	return reading(d, func(c *accounts.Client, k ed25519.PrivateKey) (*accounts.Earnings, error) {
		return c.Earnings(ctx, k, q)
	})
}

// Statement implements localapi.Owner.
func (d *Desk) Statement(ctx context.Context, q accounts.Query) (*accounts.Statement, error) {
	return reading(d, func(c *accounts.Client, k ed25519.PrivateKey) (*accounts.Statement, error) {
		return c.Statement(ctx, k, q)
	})
}

// EarningsCSV implements localapi.Owner.
func (d *Desk) EarningsCSV(ctx context.Context, q accounts.Query) ([]byte, error) {
	return reading(d, func(c *accounts.Client, k ed25519.PrivateKey) ([]byte, error) { return c.EarningsCSV(ctx, k, q) })
}

// StatementCSV implements localapi.Owner.
func (d *Desk) StatementCSV(ctx context.Context, q accounts.Query) ([]byte, error) {
	return reading(d, func(c *accounts.Client, k ed25519.PrivateKey) ([]byte, error) { return c.StatementCSV(ctx, k, q) })
}

// Prices implements localapi.Owner.
func (d *Desk) Prices(ctx context.Context) (*accounts.Prices, error) {
	if d.client == nil {
		return nil, errNoTracker
	}
	return d.client.Prices(ctx, d.node.PrivateKey())
}

// Keys implements localapi.Owner.
func (d *Desk) Keys(ctx context.Context) ([]accounts.Key, error) {
	return owning(d, func(c *accounts.Client, k ed25519.PrivateKey) ([]accounts.Key, error) { return c.Keys(ctx, k) })
}

// CreateKey implements localapi.Owner.
func (d *Desk) CreateKey(ctx context.Context, name string, l accounts.Limits) (*accounts.NewKey, error) {
	return owning(d, func(c *accounts.Client, k ed25519.PrivateKey) (*accounts.NewKey, error) {
		return c.CreateKey(ctx, k, name, l)
	})
}

// LimitKey implements localapi.Owner.
func (d *Desk) LimitKey(ctx context.Context, id string, l accounts.Limits) (*accounts.Key, error) {
	return owning(d, func(c *accounts.Client, k ed25519.PrivateKey) (*accounts.Key, error) {
		return c.LimitKey(ctx, k, id, l)
	})
}

// RevokeKey implements localapi.Owner.
func (d *Desk) RevokeKey(ctx context.Context, id string) (*accounts.Key, error) {
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
