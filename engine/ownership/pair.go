package ownership

import (
	"context"
	"crypto/ed25519"
	"errors"
	"strings"
	"time"

	"neuron/engine/accounts"
	"neuron/engine/protocol"
	"neuron/engine/wallet"
	"neuron/internal/owner"
)

// Pairing is a code that the owner of this computer has given out.
type Pairing struct {
	Code  string
	Until time.Time
	// Offer is the node that came for it, nil while none has.
	Offer *Offer
}

// Offer is a node that wants to belong to this computer's owner.
type Offer struct {
	Node protocol.NodeID
	// Host says in words what computer it is, "" when the tracker does not know.
	Host string
}

// ownKey is the owner key with its id.
func (k *Keeper) ownKey() (ed25519.PrivateKey, owner.ID, error) {
	key, err := k.o.Wallet.Key()
	if err != nil {
		return nil, "", err
	}
	return key, owner.IDOf(public(key)), nil
}

// StartPairing gets a code for a further computer. A code that is open already
// is given again, so that nothing is lost when the program that showed it ends;
// fresh asks for another one all the same. Errors: not_found without an owner
// key, those of the tracker.
func (k *Keeper) StartPairing(ctx context.Context, fresh bool) (*Pairing, error) {
	key, id, err := k.ownKey()
	if err != nil {
		return nil, err
	}
	if !fresh {
		p, err := k.Pairing(ctx)
		if err == nil || protocol.AsError(err).Code != protocol.CodeNotFound {
			return p, err
		}
	}
	// The tracker makes an account for an owner with its first node.
	if s := k.Refresh(ctx); s.Status == StatusFailed {
		return nil, s.Error
	}
	got, err := k.o.Tracker.StartPairing(ctx, key)
	if err != nil {
		return nil, err
	}
	err = k.o.Notes.Update(func(n *wallet.Note) error {
		n.Pairing = &wallet.Pairing{Owner: id, Code: got.Code, Until: got.Expires}
		return nil
	})
	if err != nil {
		return nil, err
	}
	return &Pairing{Code: got.Code, Until: got.Expires}, nil
}

// Pairing is the code that is open, with the node that came for it. Errors:
// not_found without one, those of the tracker.
func (k *Keeper) Pairing(ctx context.Context) (*Pairing, error) {
	p, _, err := k.pairing(ctx)
	return p, err
}

// codeFor is how long a code is good at the most.
const codeFor = 10 * time.Minute

var errNoPairing = protocol.Errorf(protocol.CodeNotFound, "no pairing is under way")

// pairing also has the binding that came.
func (k *Keeper) pairing(ctx context.Context) (*Pairing, *owner.Binding, error) {
	key, id, err := k.ownKey()
	if err != nil {
		return nil, nil, err
	}
	note, err := k.o.Notes.Read()
	if err != nil {
		return nil, nil, err
	}
	p := note.Pairing
	if p == nil || p.Owner != id {
		return nil, nil, errNoPairing
	}
	if k.o.Now().After(p.Until) {
		return nil, nil, errors.Join(errNoPairing, k.dropPairing(p.Code))
	}
	got, err := k.o.Tracker.Offered(ctx, key, p.Code)
	switch {
	case errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}):
		return nil, nil, errors.Join(errNoPairing, k.dropPairing(p.Code))
	case err != nil:
		return nil, nil, err
	case got.Yours:
		return nil, nil, errors.Join(errNoPairing, k.dropPairing(p.Code))
	}
	out := &Pairing{Code: p.Code, Until: p.Until}
	if b := got.Binding; b != nil {
		// The tracker is not trusted with what the owner signs.
		if err := b.CheckNode(); err != nil {
			return nil, nil, err
		}
		if b.Owner() != id {
			return nil, nil, protocol.Errorf(protocol.CodeForbidden, "the tracker shows a node that wants another owner")
		}
		out.Offer = &Offer{Node: b.Node()}
		if got.Info != nil {
			out.Offer.Host = got.Info.Host
		}
	}
	return out, got.Binding, nil
}

func (k *Keeper) dropPairing(code string) error {
	return k.o.Notes.Update(func(n *wallet.Note) error {
		if n.Pairing != nil && n.Pairing.Code == code {
			n.Pairing = nil
		}
		return nil
	})
}

// Confirm makes the node that came for the open code the owner's. node is the
// one that the person has seen. Errors: not_found without a pairing, conflict
// when another node or none has come, those of the tracker. It may be repeated
// after a failure.
func (k *Keeper) Confirm(ctx context.Context, node protocol.NodeID) error {
	p, b, err := k.pairing(ctx)
	if err != nil {
		return err
	}
	if p.Offer == nil || p.Offer.Node != node {
		return protocol.Errorf(protocol.CodeConflict, "the node %s is not the one that has come for the code", node.Short())
	}
	key, _, err := k.ownKey()
	if err != nil {
		return err
	}
	b.SignOwner(key)
	if err := k.o.Tracker.Confirm(ctx, key, p.Code, b); err != nil {
		return err
	}
	return k.dropPairing(p.Code)
}

// EndPairing forgets the open code: who comes with it is not asked about any
// more, and without the owner's signature nothing comes of it.
func (k *Keeper) EndPairing() error {
	return k.o.Notes.Update(func(n *wallet.Note) error {
		n.Pairing = nil
		return nil
	})
}

// Lookup says whose a code is. Errors: those of the tracker.
func (k *Keeper) Lookup(ctx context.Context, code string) (owner.ID, error) {
	pub, err := k.o.Tracker.Lookup(ctx, k.o.Node.PrivateKey(), code)
	if err != nil {
		return "", err
	}
	return owner.IDOf(pub), nil
}

// Join asks the owner of another computer to take this one's node. want is the
// owner that the person has seen, "" for whoever the code is of. The owner's
// person has to confirm; State shows when. Repeating it with the code of a join
// under way goes on with that one. Errors: those of the tracker; conflict when
// the code is another owner's than want.
func (k *Keeper) Join(ctx context.Context, code string, want owner.ID) (owner.ID, error) {
	note, err := k.o.Notes.Read()
	if err != nil {
		return "", err
	}
	if o := note.Offer; o != nil && sameCode(o.Code, code) && !k.o.Now().After(o.Until) {
		k.Refresh(ctx)
		return o.Binding.Owner(), nil
	}
	pub, err := k.o.Tracker.Lookup(ctx, k.o.Node.PrivateKey(), code)
	if err != nil {
		return "", err
	}
	by := owner.IDOf(pub)
	if want != "" && by != want {
		return "", protocol.Errorf(protocol.CodeConflict, "the code is of the owner %s, not of %s", by.Short(), want.Short())
	}
	s := k.Refresh(ctx)
	if s.Tracker == by {
		// Nothing to sign: the node is this owner's already.
		return by, k.remember(by)
	}
	// With a margin: another binding cannot be tried here when the owner has
	// confirmed this one in vain.
	at, err := k.nextTime(margin)
	if err != nil {
		return "", err
	}
	b := owner.NewBinding(k.o.Node.Public(), pub, at)
	b.SignNode(k.o.Node.PrivateKey())
	offer := &wallet.Offer{Code: code, Binding: b, Until: k.o.Now().Add(codeFor)}
	// On the disk first: what the tracker has, this computer knows of.
	err = k.o.Notes.Update(func(n *wallet.Note) error {
		n.Offer = offer
		return nil
	})
	if err != nil {
		return "", err
	}
	err = k.o.Tracker.Offer(ctx, k.o.Node.PrivateKey(), code, b)
	switch e := protocol.AsError(err); {
	case err == nil:
		err = k.offerGiven(offer)
	case e.Code == protocol.CodeUnavailable || e.Code == protocol.CodeTimeout || e.Code == protocol.CodeCancelled:
		// It may have arrived; Run finds out.
	default:
		return "", errors.Join(err, k.dropOffer(offer))
	}
	k.Look()
	k.Refresh(ctx)
	return by, err
}

// sameCode compares codes as people type them.
func sameCode(a, b string) bool {
	plain := func(s string) string { return strings.ToUpper(strings.NewReplacer(" ", "", "-", "").Replace(s)) }
	return plain(a) == plain(b)
}

// remember says that this node belongs to an owner by pairing, or to this
// computer's own.
func (k *Keeper) remember(by owner.ID) error {
	err := k.o.Notes.Update(func(n *wallet.Note) error {
		n.Joined, n.Offer = by, nil
		return nil
	})
	k.Look()
	return err
}

// Leave ends what binds this node to the owner of another computer, and binds it
// to this computer's own. Errors: not_found when it is with no other owner or
// there is no own key; those of the tracker, and then Run goes on trying.
func (k *Keeper) Leave(ctx context.Context) error {
	note, err := k.o.Notes.Read()
	if err != nil {
		return err
	}
	if note.Joined == "" && note.Offer == nil {
		return protocol.Errorf(protocol.CodeNotFound, "this computer is not paired with another one's owner")
	}
	if _, err := k.o.Wallet.Key(); err != nil {
		return err
	}
	// The binding to the own key replaces the other one; that owner need not agree.
	if err := k.remember(""); err != nil {
		return err
	}
	if s := k.Refresh(ctx); s.Error != nil {
		return s.Error
	}
	return nil
}

// Release ends the ownership of a node of this computer's owner, given by its id
// or the beginning of it. Errors: not_found, conflict when several nodes begin
// so, invalid_request for this computer's own node, those of the tracker.
func (k *Keeper) Release(ctx context.Context, node string) (protocol.NodeID, error) {
	key, _, err := k.ownKey()
	if err != nil {
		return "", err
	}
	if node == "" {
		return "", protocol.Errorf(protocol.CodeInvalidRequest, "say which node")
	}
	acc, err := k.o.Tracker.Account(ctx, key)
	if err != nil {
		return "", err
	}
	var found *accounts.Node
	for i := range acc.Nodes {
		n := &acc.Nodes[i]
		switch {
		case !strings.HasPrefix(string(n.Node), strings.ToLower(node)):
		case found != nil:
			return "", protocol.Errorf(protocol.CodeConflict, "several nodes begin with %.20q; give more of the id", node)
		default:
			found = n
		}
	}
	switch {
	case found == nil:
		return "", protocol.Errorf(protocol.CodeNotFound, "this owner has no node %.60q", node)
	case found.Node == k.o.Node.ID():
		return "", protocol.Errorf(protocol.CodeInvalidRequest, "this computer has the owner key, and would bind its node again at once")
	case protocol.NodeIDOf(found.NodeKey) != found.Node:
		return "", protocol.Errorf(protocol.CodeUnavailable, "the tracker's answer has a wrong key for the node %s", found.Node.Short())
	}
	// The binding may have been signed by a clock that is ahead of this one.
	at := k.o.Now()
	if bound := found.Since.Add(time.Second); at.Before(bound) {
		at = bound
	}
	return found.Node, k.o.Tracker.Release(ctx, key, owner.SignRelease(found.NodeKey, public(key), at, key))
}
