// Package ownership sees to it that a node belongs to its person's owner: it
// binds the node to the owner key of this computer, or by a pairing code to the
// owner of another one, and keeps on trying while the tracker says otherwise.
//
// engine/program runs a Keeper beside the control channel; the command line uses
// one where no engine runs. It knows the tracker's account API by the interface
// Tracker, and nothing of sessions or layers. Nothing of it may keep a node from
// sharing.
package ownership

import (
	"context"
	"crypto/ed25519"
	"errors"
	"log/slog"
	"sync"
	"time"

	"neuron/engine/accounts"
	"neuron/engine/protocol"
	"neuron/engine/wallet"
	"neuron/internal/owner"
)

// Tracker is the tracker's account API; *accounts.Client satisfies it. key is
// who asks: an owner's or a node's.
type Tracker interface {
	Bind(ctx context.Context, key ed25519.PrivateKey, b *owner.Binding) error
	Release(ctx context.Context, key ed25519.PrivateKey, r *owner.Release) error
	// OwnerOf is who owns the node that asks, "" for nobody.
	OwnerOf(ctx context.Context, node ed25519.PrivateKey) (owner.ID, error)
	// Lookup and Offer are the further computer's side of a pairing.
	Lookup(ctx context.Context, node ed25519.PrivateKey, code string) (ed25519.PublicKey, error)
	Offer(ctx context.Context, node ed25519.PrivateKey, code string, b *owner.Binding) error
	// StartPairing, Offered and Confirm are the owner's.
	StartPairing(ctx context.Context, key ed25519.PrivateKey) (*accounts.Pairing, error)
	Offered(ctx context.Context, key ed25519.PrivateKey, code string) (*accounts.Offered, error)
	Confirm(ctx context.Context, key ed25519.PrivateKey, code string, b *owner.Binding) error
	// Account is what an owner has.
	Account(ctx context.Context, key ed25519.PrivateKey) (*accounts.Account, error)
}

// Node is the node's key; internal/identity has it.
type Node interface {
	ID() protocol.NodeID
	Public() ed25519.PublicKey
	PrivateKey() ed25519.PrivateKey
}

// Options configure a Keeper; Logger, Now and Changed may be nil.
type Options struct {
	Wallet  *wallet.Wallet
	Notes   *wallet.Notes
	Node    Node
	Tracker Tracker
	// Changed is called after each change of State; it must return quickly.
	Changed func()
	Logger  *slog.Logger
	Now     func() time.Time
}

// Status is what stands between a node and its owner.
type Status string

// The statuses.
const (
	// StatusUnknown: the tracker has not said yet who owns the node.
	StatusUnknown Status = "unknown"
	// StatusBound: the tracker has the owner that this computer wants.
	StatusBound Status = "bound"
	// StatusWaiting: the owner of another computer has to confirm.
	StatusWaiting Status = "waiting"
	// StatusReleased: the node is paired with an owner of another computer, and
	// the tracker does not have it as that owner's (any more).
	StatusReleased Status = "released"
	// StatusFailed: the last try failed; Error says why, and it is tried again.
	StatusFailed Status = "failed"
)

// State is a snapshot.
type State struct {
	Status Status
	// Own is the owner whose key is on this computer, "" without one.
	Own owner.ID
	// Wanted is the owner that the node should belong to: Own, or the one that
	// it was paired with.
	Wanted owner.ID
	// Tracker is the owner that the tracker has for the node, "" for none.
	Tracker owner.ID
	// Error says why Status is failed or released, nil otherwise.
	Error *protocol.Error
}

// Keeper is safe for concurrent use. Run is its one goroutine.
type Keeper struct {
	o Options
	// nudge has room for one: look now.
	nudge chan struct{}
	// step is held through one look at the tracker, so that two never sign at a
	// time. It is taken before mu.
	step sync.Mutex

	mu sync.Mutex
	// Protected by mu.
	state State
	known bool // the tracker has said who owns the node
}

// New makes a Keeper that has asked nobody yet.
func New(o Options) *Keeper {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Changed == nil {
		o.Changed = func() {}
	}
	return &Keeper{o: o, nudge: make(chan struct{}, 1), state: State{Status: StatusUnknown}}
}

// Welcomed tells what the tracker has said about this node's owner. It never
// blocks.
func (k *Keeper) Welcomed(said string) {
	id, err := owner.ParseID(said)
	if said != "" && err != nil {
		k.o.Logger.Warn("the tracker names an owner that is none", "error", err)
		return
	}
	k.mu.Lock()
	k.state.Tracker, k.known = id, true
	k.mu.Unlock()
	k.Look()
}

// Look makes Run look at once; it never blocks.
func (k *Keeper) Look() {
	select {
	case k.nudge <- struct{}{}:
	default:
	}
}

// State is what is known now.
func (k *Keeper) State() State {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.state
}

// Pauses between two tries while the connection stands.
const (
	firstRetry = 30 * time.Second
	lastRetry  = 30 * time.Minute
	// confirmPoll is how often a node asks whether its owner has confirmed.
	confirmPoll = 3 * time.Second
	// askTimeout bounds one look.
	askTimeout = 30 * time.Second
)

// Run looks at each welcome and at each Look, and tries again what failed, until
// ctx ends. It runs once.
func (k *Keeper) Run(ctx context.Context) {
	timer := time.NewTimer(0)
	if !timer.Stop() {
		<-timer.C
	}
	defer timer.Stop()
	retry := firstRetry
	for {
		select {
		case <-ctx.Done():
			return
		case <-k.nudge:
			retry = firstRetry
		case <-timer.C:
		}
		if !k.isKnown() {
			continue // the welcome comes
		}
		switch k.settle(ctx, false).Status {
		case StatusWaiting:
			timer.Reset(confirmPoll)
		case StatusFailed:
			timer.Reset(retry)
			retry = min(2*retry, lastRetry)
		default:
			timer.Stop()
			retry = firstRetry
		}
	}
}

func (k *Keeper) isKnown() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.known
}

// Refresh asks the tracker who owns the node, and settles what differs. The
// state says what came of it.
func (k *Keeper) Refresh(ctx context.Context) State { return k.settle(ctx, true) }

// settle compares what this computer wants with what the tracker has, and does
// one step. ask has the tracker asked first.
func (k *Keeper) settle(ctx context.Context, ask bool) State {
	k.step.Lock()
	defer k.step.Unlock()
	ctx, cancel := context.WithTimeout(ctx, askTimeout)
	defer cancel()
	before := k.State()
	s := State{Tracker: before.Tracker}
	err := k.settleLocked(ctx, &s, ask)
	if err != nil {
		if s.Status != StatusReleased && s.Status != StatusWaiting {
			s.Status = StatusFailed
		}
		s.Error = protocol.AsError(err)
	}
	k.mu.Lock()
	k.state = s
	k.mu.Unlock()
	if s.Status != before.Status || s.Wanted != before.Wanted {
		switch s.Status {
		case StatusFailed, StatusReleased:
			k.o.Logger.Warn("the node is not bound to its owner", "owner", s.Wanted.Short(), "status", string(s.Status), "error", s.Error)
		default:
			k.o.Logger.Info("owner of the node", "owner", s.Wanted.Short(), "status", string(s.Status))
		}
		k.o.Changed()
	}
	return s
}

// settleLocked is settle within its lock. What it learns it writes into s.
func (k *Keeper) settleLocked(ctx context.Context, s *State, ask bool) error {
	note, err := k.o.Notes.Read()
	if err != nil {
		return err
	}
	key, err := k.o.Wallet.Key()
	if err != nil && protocol.AsError(err).Code != protocol.CodeNotFound {
		return err
	}
	if key != nil {
		s.Own = owner.IDOf(public(key))
	}
	if s.Wanted = s.Own; note.Joined != "" {
		s.Wanted = note.Joined
	}
	if ask || note.Offer != nil {
		if s.Tracker, err = k.o.Tracker.OwnerOf(ctx, k.o.Node.PrivateKey()); err != nil {
			return err
		}
		k.mu.Lock()
		k.known = true
		k.mu.Unlock()
	}
	if note.Offer != nil {
		waits, err := k.settleOffer(ctx, s, note.Offer)
		if waits || err != nil {
			return err
		}
	}
	switch {
	case s.Wanted == "":
		return protocol.Errorf(protocol.CodeNotFound, "this computer has no owner key, and is not paired with one that has")
	case s.Tracker == s.Wanted:
		s.Status = StatusBound
		return nil
	case s.Wanted != s.Own:
		s.Status = StatusReleased
		return protocol.Errorf(protocol.CodeForbidden,
			"the owner %s, with whom this computer was paired, does not have it any more; pair it again, or let it leave that owner", s.Wanted.Short())
	}
	if err := k.bind(ctx, key); err != nil {
		return err
	}
	s.Tracker, s.Status = s.Own, StatusBound
	return nil
}

// settleOffer sees whether the owner has confirmed, or the code is over. While
// it waits the node is not bound to anybody else.
func (k *Keeper) settleOffer(ctx context.Context, s *State, offer *wallet.Offer) (waits bool, err error) {
	by := offer.Binding.Owner()
	switch {
	case s.Tracker == by:
		s.Wanted = by
		return false, k.o.Notes.Update(func(n *wallet.Note) error {
			n.Joined, n.Offer = by, nil
			return nil
		})
	case k.o.Now().After(offer.Until):
		return false, k.dropOffer(offer)
	}
	s.Status, s.Wanted = StatusWaiting, by
	if offer.Given {
		return true, nil
	}
	// A kill may have come between the note and the offer, or between the offer
	// and its answer. In the second case the code is used, by us.
	switch err := k.o.Tracker.Offer(ctx, k.o.Node.PrivateKey(), offer.Code, offer.Binding); {
	case err == nil, errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}):
		return true, k.offerGiven(offer)
	default:
		return true, err
	}
}

func (k *Keeper) offerGiven(offer *wallet.Offer) error {
	return k.o.Notes.Update(func(n *wallet.Note) error {
		if n.Offer != nil && n.Offer.Code == offer.Code {
			n.Offer.Given = true
		}
		return nil
	})
}

func (k *Keeper) dropOffer(offer *wallet.Offer) error {
	return k.o.Notes.Update(func(n *wallet.Note) error {
		if n.Offer != nil && n.Offer.Code == offer.Code {
			n.Offer = nil
		}
		return nil
	})
}

// bind binds the node to this computer's own owner. What the tracker knows of
// the node may be of a clock that is ahead of this one (a release of its last
// owner): then a later time is signed.
func (k *Keeper) bind(ctx context.Context, key ed25519.PrivateKey) error {
	var err error
	for _, ahead := range []time.Duration{0, margin, time.Hour} {
		var at time.Time
		if at, err = k.nextTime(ahead); err != nil {
			return err
		}
		b := owner.NewBinding(k.o.Node.Public(), public(key), at)
		b.SignNode(k.o.Node.PrivateKey())
		b.SignOwner(key)
		if err = k.o.Tracker.Bind(ctx, key, b); !errors.Is(err, &protocol.Error{Code: protocol.CodeConflict}) {
			return err
		}
	}
	return err
}

// margin is how far the clocks of two computers may be apart without notice.
const margin = time.Minute

// nextTime is the time of the next thing that this node signs: later than all
// before, in whole seconds, also when the clock was set back a little, and at
// least ahead from now. What was signed with a clock far ahead does not count: no
// tracker takes it.
func (k *Keeper) nextTime(ahead time.Duration) (at time.Time, err error) {
	err = k.o.Notes.Update(func(n *wallet.Note) error {
		now := k.o.Now().Add(ahead).Unix()
		if n.Signed > now+maxAhead {
			n.Signed = now
		} else {
			n.Signed = max(now, n.Signed+2) // an owner's release may have taken the second after
		}
		at = time.Unix(n.Signed, 0)
		return nil
	})
	return at, err
}

// maxAhead is how far a time may be ahead of the clock, in seconds; trackers
// take two hours.
const maxAhead = 3600

func public(key ed25519.PrivateKey) ed25519.PublicKey { return key.Public().(ed25519.PublicKey) }
