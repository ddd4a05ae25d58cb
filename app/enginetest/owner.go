package enginetest

import (
	"context"
	"slices"
	"strconv"
	"time"

	"neuron/engine/accounts"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/owner"
)

// Code is the pairing code that the engine gives out and knows, OtherOwner whose
// it is.
const (
	Code       = "KEL-742-PAM"
	OtherOwner = owner.ID("o-otherowner")
)

type desk struct{ e *Engine }

func (d desk) Owner(context.Context) (*localapi.OwnerState, error) {
	return answer(d.e, func(s *State) localapi.OwnerState { return s.Owner })
}

func (d desk) StartPairing(context.Context, bool) (*localapi.Pairing, error) {
	return answer(d.e, func(s *State) localapi.Pairing {
		if s.Pairing == nil {
			s.Pairing = &localapi.Pairing{Code: Code, Expires: time.Now().Add(10 * time.Minute)}
		}
		return *s.Pairing
	})
}

func (d desk) Pairing(context.Context) (*localapi.Pairing, error) {
	p := Look(d.e, func(s *State) *localapi.Pairing { return s.Pairing })
	if p == nil {
		return nil, protocol.Errorf(protocol.CodeNotFound, "no code is open")
	}
	return p, nil
}

func (d desk) ConfirmPairing(context.Context, protocol.NodeID) error {
	d.e.With(func(s *State) { s.Pairing = nil })
	return d.e.note("ConfirmPairing")
}

func (d desk) EndPairing(context.Context) error {
	d.e.With(func(s *State) { s.Pairing = nil })
	return d.e.note("EndPairing")
}

func (d desk) LookupCode(_ context.Context, code string) (owner.ID, error) {
	if code != Code {
		return "", protocol.Errorf(protocol.CodeNotFound, "nobody has this code")
	}
	return OtherOwner, d.e.note("LookupCode")
}

func (d desk) Join(context.Context, string, owner.ID) (owner.ID, error) {
	d.e.With(func(s *State) { s.Owner.Wanted, s.Owner.Status = OtherOwner, "waiting" })
	return OtherOwner, d.e.note("Join")
}

func (d desk) Leave(context.Context) error {
	d.e.With(func(s *State) { s.Owner.Wanted, s.Owner.Status = s.Owner.Own, "bound" })
	return d.e.note("Leave")
}

func (d desk) Release(context.Context, string) (protocol.NodeID, error) {
	return "", d.e.note("Release")
}

func (d desk) Export(context.Context, string) ([]byte, error) {
	return []byte("exported"), d.e.note("Export")
}

func (d desk) Recover(context.Context, localapi.Recover) (*localapi.Recovered, error) {
	return &localapi.Recovered{Owner: "o-recovered", Changed: true, Saved: "owner.old"}, d.e.note("Recover")
}

func (d desk) Account(context.Context) (*accounts.Account, error) {
	return answer(d.e, func(s *State) accounts.Account { return s.Account })
}

func (d desk) Earnings(context.Context, accounts.Query) (*accounts.Earnings, error) {
	return answer(d.e, func(s *State) accounts.Earnings { return s.Earnings })
}

func (d desk) Statement(_ context.Context, q accounts.Query) (*accounts.Statement, error) {
	return answer(d.e, func(s *State) accounts.Statement {
		n, _ := strconv.Atoi(q.Cursor) // "": the first
		if n >= len(s.Statements) {
			return accounts.Statement{}
		}
		return s.Statements[n]
	})
}

func (d desk) EarningsCSV(context.Context, accounts.Query) ([]byte, error) {
	return []byte("day,amount\n"), d.e.note("EarningsCSV")
}

func (d desk) StatementCSV(context.Context, accounts.Query) ([]byte, error) {
	return []byte("at,amount\n"), d.e.note("StatementCSV")
}

func (d desk) Prices(context.Context) (*accounts.Prices, error) {
	return &accounts.Prices{}, d.e.note("Prices")
}

func (d desk) Keys(context.Context) ([]accounts.Key, error) {
	k, err := answer(d.e, func(s *State) []accounts.Key { return slices.Clone(s.Keys) })
	if err != nil {
		return nil, err
	}
	return *k, nil
}

func (d desk) CreateKey(_ context.Context, name string, l accounts.Limits) (*accounts.NewKey, error) {
	k := accounts.Key{ID: "nk-" + name, Name: name, Created: time.Now(), Limits: l}
	d.e.With(func(s *State) { s.Keys = append(s.Keys, k) })
	return &accounts.NewKey{Secret: k.ID + "-secret", Key: k}, d.e.note("CreateKey")
}

func (d desk) LimitKey(_ context.Context, id string, l accounts.Limits) (*accounts.Key, error) {
	return d.change(id, func(k *accounts.Key) { k.Limits = l })
}

func (d desk) RevokeKey(_ context.Context, id string) (*accounts.Key, error) {
	now := time.Now()
	return d.change(id, func(k *accounts.Key) { k.Revoked = &now })
}

func (d desk) change(id string, f func(*accounts.Key)) (*accounts.Key, error) {
	d.e.mu.Lock()
	defer d.e.mu.Unlock()
	for i := range d.e.state.Keys {
		if k := &d.e.state.Keys[i]; k.ID == id {
			f(k)
			out := *k
			return &out, nil
		}
	}
	return nil, protocol.Errorf(protocol.CodeNotFound, "no such key")
}
