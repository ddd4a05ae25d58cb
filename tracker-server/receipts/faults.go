package receipts

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"

	"neuron/engine/protocol"
	"neuron/tracker-server/audit"
	"neuron/tracker-server/store"
)

// Faults acts on proven faults: while a proof stands, its culprit is kept out
// of public routes, and the unsettled credit of the culprit's owner is frozen.
// It is safe for concurrent use.
type Faults struct {
	cfg *Config

	// mu orders changes and is held while the disk works: an operator and the
	// intake never change one proof at one time.
	mu sync.Mutex
	// standing holds the proofs that were not lifted, per culprit in the order in
	// which they were found.
	standing map[protocol.NodeID][]store.Proof
	// todo are stored proofs that nothing was done about yet.
	todo []store.Proof
}

// maxStanding bounds the proofs against one node. Whoever signs what it likes
// could fill the disk with proofs against itself; the first ones have all the
// consequences that there are.
const maxStanding = 32

// openFaults reads the proofs that stand and does again what follows from them:
// bars live in memory only, and a freeze may have been missed by a crash.
func openFaults(ctx context.Context, cfg *Config) (*Faults, error) {
	f := &Faults{cfg: cfg, standing: make(map[protocol.NodeID][]store.Proof)}
	list, err := cfg.Store.StandingProofs(ctx)
	if err != nil {
		return nil, err
	}
	for _, p := range list {
		f.standing[p.Culprit] = append(f.standing[p.Culprit], p)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.todo = list
	return f, f.doLocked(ctx)
}

// admit makes rows of the proofs that are new and worth keeping.
func (f *Faults) admit(ctx context.Context, proofs []*audit.Proof) (out []store.Proof, err error) {
	if len(proofs) == 0 {
		return nil, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	more := make(map[protocol.NodeID]int)
	for _, p := range proofs {
		id, who := p.ID(), p.Fault.Culprit
		same := func(x store.Proof) bool { return x.ID == id }
		if slices.ContainsFunc(f.standing[who], same) || slices.ContainsFunc(out, same) || len(f.standing[who])+more[who] >= maxStanding {
			continue
		}
		// One that an operator lifted has no consequences again.
		if _, err := f.cfg.Store.Proof(ctx, id); !isCode(err, protocol.CodeNotFound) {
			if err != nil {
				return nil, err
			}
			continue
		}
		owner, err := f.ownerOf(ctx, &p.Fault)
		if err != nil {
			return nil, err
		}
		out = append(out, store.Proof{
			ID: id, Kind: string(p.Fault.Kind), Culprit: who, Session: p.Fault.Session, Hop: p.Fault.Hop, Text: p.Fault.Text,
			File: p.File, Found: f.cfg.Now(), Owner: owner,
		})
		more[who]++
	}
	return out, nil
}

// ownerOf finds whose credit a fault freezes: of a paid session the owner who
// would be paid for the hop, else the owner of now. "" is nobody.
func (f *Faults) ownerOf(ctx context.Context, fault *audit.Fault) (owner store.AccountID, err error) {
	err = f.cfg.Ledger.View(ctx, func(v store.LedgerView) error {
		r, err := v.Reservation(fault.Session)
		if err == nil && fault.Hop < len(r.Hops) && r.Hops[fault.Hop].Node == fault.Culprit {
			owner = r.Hops[fault.Hop].Owner
		}
		if err != nil && !isCode(err, protocol.CodeNotFound) || owner != "" {
			return err
		}
		o, err := v.OwnerOf(fault.Culprit)
		if isCode(err, protocol.CodeNotFound) {
			return nil
		}
		owner = o.Owner
		return err
	})
	return owner, err
}

// act does what follows from proofs that were stored just now, and from those
// before them that it could not be done for.
func (f *Faults) act(ctx context.Context, fresh []store.Proof) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, p := range fresh {
		p.File = nil
		f.standing[p.Culprit] = append(f.standing[p.Culprit], p)
		f.todo = append(f.todo, p)
		f.cfg.Hooks.Proven(audit.FaultKind(p.Kind))
		f.cfg.Logger.Warn("a fault is proven", "node", p.Culprit.Short(), "kind", p.Kind, "did", p.Text, "proof", p.ID, "owner", p.Owner)
	}
	return f.doLocked(ctx)
}

// doLocked freezes and bars for what is to be done. What fails stays to be done.
func (f *Faults) doLocked(ctx context.Context) error {
	for len(f.todo) > 0 {
		p := f.todo[0]
		f.barLocked(p.Culprit)
		// A forfeited freeze has ended.
		if p.Owner != "" && p.Forfeited.IsZero() {
			err := f.cfg.Ledger.Freeze(ctx, p.Owner, p.ID.String(), p.Kind)
			var coded *protocol.Error
			if errors.As(err, &coded) && (coded.Code == protocol.CodeNotFound || coded.Code == protocol.CodeInvalidRequest) {
				// Trying again would not help.
				f.cfg.Logger.Error("credit cannot be frozen", "owner", p.Owner, "proof", p.ID, "err", err)
			} else if err != nil {
				return err
			}
		}
		f.todo = f.todo[1:]
	}
	f.todo = nil
	return nil
}

// barLocked brings a node's bar in line with the proofs that stand.
func (f *Faults) barLocked(id protocol.NodeID) {
	list := f.standing[id]
	if len(list) == 0 {
		f.cfg.Bar(id, "")
		return
	}
	why := fmt.Sprintf("a proven fault (%s, proof %s)", list[0].Kind, list[0].ID)
	if len(list) > 1 {
		why = fmt.Sprintf("%d proven faults (first %s, proof %s)", len(list), list[0].Kind, list[0].ID)
	}
	f.cfg.Bar(id, why)
}

// Lift ends the consequences of a proof: the owner's credit thaws and the node
// may serve public routes again, each as far as no other proof stands. Credit
// that was forfeited stays with the house. Lifting again does no harm. Errors:
// not_found; invalid_request for a note of more than store.MaxNote bytes;
// conflict when the ledger ended the freeze otherwise.
func (f *Faults) Lift(ctx context.Context, id protocol.Hash, note string) error {
	return f.change(ctx, id, note, func(p *store.Proof) error {
		if p.Owner != "" && p.Forfeited.IsZero() {
			if err := f.cfg.Ledger.Thaw(ctx, p.Owner, id.String(), note); err != nil {
				return err
			}
		}
		if p.Lifted.IsZero() {
			p.Lifted = f.cfg.Now()
		}
		return nil
	})
}

// Forfeit gives the owner's frozen credit, all of it, to the house. The node
// stays out of public routes until the proof is lifted. Errors as for Lift;
// invalid_request when nobody owned the node, conflict for a proof that was
// lifted.
func (f *Faults) Forfeit(ctx context.Context, id protocol.Hash, note string) error {
	return f.change(ctx, id, note, func(p *store.Proof) error {
		switch {
		case p.Owner == "":
			return protocol.Errorf(protocol.CodeInvalidRequest, "nobody owned the node: there is no credit to forfeit")
		case !p.Lifted.IsZero() && p.Forfeited.IsZero():
			return protocol.Errorf(protocol.CodeConflict, "the proof %s was lifted, and its owner's credit is free", id)
		}
		if err := f.cfg.Ledger.Forfeit(ctx, p.Owner, id.String(), note); err != nil {
			return err
		}
		if p.Forfeited.IsZero() {
			p.Forfeited = f.cfg.Now()
		}
		return nil
	})
}

// change applies what an operator decided. The ledger comes first: after a
// crash in between the proof stands, and the operator decides again.
func (f *Faults) change(ctx context.Context, id protocol.Hash, note string, decide func(*store.Proof) error) error {
	if len(note) > store.MaxNote {
		return protocol.Errorf(protocol.CodeInvalidRequest, "a note of %d bytes; at most %d are possible", len(note), store.MaxNote)
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if err := f.doLocked(ctx); err != nil {
		return err
	}
	p, err := f.cfg.Store.Proof(ctx, id)
	if err != nil {
		return err
	}
	before := p
	if err := decide(&p); err != nil {
		return err
	}
	if p.Lifted.Equal(before.Lifted) && p.Forfeited.Equal(before.Forfeited) {
		return nil
	}
	p.Note = note
	if err := f.cfg.Store.SetProof(ctx, p); err != nil {
		return err
	}
	p.File = nil
	list := slices.DeleteFunc(slices.Clone(f.standing[p.Culprit]), func(x store.Proof) bool { return x.ID == id })
	if p.Lifted.IsZero() {
		list = append(list, p)
		slices.SortFunc(list, func(a, b store.Proof) int { return a.Found.Compare(b.Found) })
	}
	if f.standing[p.Culprit] = list; len(list) == 0 {
		delete(f.standing, p.Culprit)
	}
	f.barLocked(p.Culprit)
	f.cfg.Logger.Warn("the operator decided on a proof", "proof", id, "node", p.Culprit.Short(), "lifted", !p.Lifted.IsZero(), "forfeited", !p.Forfeited.IsZero(), "note", note)
	return nil
}
