// Package keys makes and checks the API keys that spend an account's credit.
//
// The server and the operator's commands import it. A key is shown once, when it
// is made; what is stored is its SHA-256. A plain hash is enough, and right, for
// 256 random bits: there is nothing to guess that a slow hash would protect, and
// a slow hash on every request would be a way to stop the tracker.
package keys

import (
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/base32"
	"strings"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/store"
)

// A key is "nk-", 8 characters that name it, "-", and 52 characters of base32:
// the secret.
const (
	prefix     = "nk-"
	nameLen    = 8
	idLen      = len(prefix) + nameLen
	secretLen  = 52
	keyLen     = idLen + 1 + secretLen
	maxKeys    = 1000 // of an account
	maxMinutes = 1_000_000
)

var alphabet = base32.NewEncoding("abcdefghijklmnopqrstuvwxyz234567").WithPadding(base32.NoPadding)

// Secret is a key in clear. It prints as its beginning only.
type Secret string

// String is the key's id.
func (s Secret) String() string { return string(s[:min(len(s), idLen)]) + "-..." }

// GoString is the same for %#v.
func (s Secret) GoString() string { return s.String() }

// Reveal is the whole key, for the one answer that shows it.
func (s Secret) Reveal() string { return string(s) }

// Limits are what a key may spend and ask; 0 is no bound.
type Limits struct {
	Budget    store.Credit `json:"budget"`
	BudgetDay store.Credit `json:"budget_day"` // per day in UTC
	PerMinute int64        `json:"per_minute"` // requests
}

func (l *Limits) check() error {
	if l.Budget < 0 || l.BudgetDay < 0 || l.PerMinute < 0 || l.PerMinute > maxMinutes {
		return protocol.Errorf(protocol.CodeInvalidRequest, "limits of a key are not negative, and at most %d requests a minute", maxMinutes)
	}
	return nil
}

// Keys is safe for concurrent use. The counters of requests are this process's
// own; budgets are the ledger's.
type Keys struct {
	l     *ledger.Ledger
	rates rates
}

// New makes a Keys; now is the clock of the request counters.
func New(l *ledger.Ledger, now func() time.Time) *Keys {
	return &Keys{l: l, rates: rates{now: now}}
}

// Create makes a key for an account. The secret is nowhere else. Errors:
// not_found, forbidden for an account that is closed or the house's,
// invalid_request, conflict when the account has too many keys.
func (k *Keys) Create(ctx context.Context, a store.AccountID, name string, limits Limits) (Secret, store.APIKey, error) {
	var out store.APIKey
	if name = strings.TrimSpace(name); name == "" || len(name) > store.MaxNote {
		return "", out, protocol.Errorf(protocol.CodeInvalidRequest, "a key needs a name of at most %d bytes", store.MaxNote)
	}
	if err := limits.check(); err != nil {
		return "", out, err
	}
	var random [5 + sha256.Size]byte
	rand.Read(random[:]) // never fails (crypto/rand)
	id := prefix + alphabet.EncodeToString(random[:5])
	secret := Secret(id + "-" + alphabet.EncodeToString(random[5:]))
	err := k.l.Update(ctx, func(tx store.LedgerTx, now time.Time) error {
		account, err := tx.Account(a)
		if err != nil {
			return err
		}
		if account.Kind == store.KindHouse || !account.Closed.IsZero() {
			return protocol.Errorf(protocol.CodeForbidden, "the account %s may not pay", string(a))
		}
		all, err := tx.Keys(a, maxKeys)
		if err != nil {
			return err
		}
		if len(all) >= maxKeys {
			return protocol.Errorf(protocol.CodeConflict, "the account has %d keys already", maxKeys)
		}
		out = store.APIKey{
			ID: id, Hash: hash(secret), Account: a, Name: name, Created: now,
			Budget: limits.Budget, BudgetDay: limits.BudgetDay, PerMinute: limits.PerMinute,
		}
		return tx.AddKey(out)
	})
	if err != nil {
		return "", store.APIKey{}, err
	}
	return secret, out, nil
}

func hash(s Secret) [sha256.Size]byte { return sha256.Sum256([]byte(s)) }

// errKey does not say what is wrong with the key.
var errKey = protocol.Errorf(protocol.CodeUnauthorized, "the API key is not valid")

// Authenticate finds the key of a request and counts the request. Errors: those
// of Find; rate_limited with the detail retry_after in seconds.
func (k *Keys) Authenticate(ctx context.Context, s Secret) (store.APIKey, error) {
	out, err := k.Find(ctx, s)
	if err != nil {
		return out, err
	}
	return out, k.rates.take(out.ID, out.PerMinute)
}

// Find finds a key that holds without counting a request. The key is looked up
// by its name, which is no secret, and the hashes are compared in constant time.
// Errors: unauthorized; forbidden when the account is closed.
func (k *Keys) Find(ctx context.Context, s Secret) (store.APIKey, error) {
	var out store.APIKey
	if len(s) != keyLen || !strings.HasPrefix(string(s), prefix) || s[idLen] != '-' {
		return out, errKey
	}
	closed := false
	err := k.l.View(ctx, func(tx store.LedgerView) (err error) {
		if out, err = tx.Key(string(s[:idLen])); err != nil {
			return err
		}
		a, err := tx.Account(out.Account)
		closed = !a.Closed.IsZero()
		return err
	})
	e := protocol.AsError(err)
	if e != nil && e.Code != protocol.CodeNotFound {
		return store.APIKey{}, err
	}
	sum := hash(s)
	same := subtle.ConstantTimeCompare(sum[:], out.Hash[:]) == 1
	switch {
	case e != nil || !same || !out.Revoked.IsZero():
		return store.APIKey{}, errKey
	case closed:
		return store.APIKey{}, protocol.Errorf(protocol.CodeForbidden, "the key's account is closed")
	}
	return out, nil
}

// Usage is a key with what it has spent or reserved on the current day (UTC),
// and in all.
type Usage struct {
	store.APIKey
	Today, Total store.Credit
}

// Usages lists an account's keys, the oldest first.
func (k *Keys) Usages(ctx context.Context, a store.AccountID) (out []Usage, err error) {
	err = k.l.View(ctx, func(tx store.LedgerView) error {
		if _, err := tx.Account(a); err != nil {
			return err
		}
		list, err := tx.Keys(a, maxKeys)
		if err != nil {
			return err
		}
		now := k.rates.now()
		out = make([]Usage, 0, len(list))
		for i := range list {
			today, total, err := tx.Spent(list[i].ID, now)
			if err != nil {
				return err
			}
			out = append(out, Usage{list[i], today, total})
		}
		return nil
	})
	return out, err
}

// Usage is one key of account a. Error: not_found, also for another account's.
func (k *Keys) Usage(ctx context.Context, a store.AccountID, id string) (out Usage, err error) {
	err = k.l.View(ctx, func(tx store.LedgerView) (err error) {
		if out.APIKey, err = keyOf(tx, a, id); err == nil {
			out.Today, out.Total, err = tx.Spent(id, k.rates.now())
		}
		return err
	})
	return out, err
}

// keyOf finds a key of account a. There is one answer for a key that does not
// exist and for another account's.
func keyOf(tx store.LedgerView, a store.AccountID, id string) (store.APIKey, error) {
	key, err := tx.Key(id)
	if e := protocol.AsError(err); e != nil && e.Code == protocol.CodeNotFound || err == nil && key.Account != a {
		return store.APIKey{}, protocol.Errorf(protocol.CodeNotFound, "the account has no API key %.40q", id)
	}
	return key, err
}

// List lists an account's keys, the oldest first.
func (k *Keys) List(ctx context.Context, a store.AccountID) (out []store.APIKey, err error) {
	err = k.l.View(ctx, func(tx store.LedgerView) (err error) {
		if _, err = tx.Account(a); err == nil {
			out, err = tx.Keys(a, maxKeys)
		}
		return err
	})
	return out, err
}

// Spent is what a key has spent or reserved on the current day (UTC) and in
// all. Error: not_found.
func (k *Keys) Spent(ctx context.Context, id string) (today, total store.Credit, err error) {
	err = k.l.View(ctx, func(tx store.LedgerView) (err error) {
		if _, err = tx.Key(id); err == nil {
			today, total, err = tx.Spent(id, k.rates.now())
		}
		return err
	})
	return today, total, err
}

// Revoke ends a key of account a for good. Sessions that it reserved go on.
// Revoking twice does no harm. Error: not_found, also for another account's.
func (k *Keys) Revoke(ctx context.Context, a store.AccountID, id string) error {
	return k.change(ctx, a, id, func(key *store.APIKey, now time.Time) {
		if key.Revoked.IsZero() {
			key.Revoked = now
		}
	})
}

// SetLimits changes what a key may spend and ask. Errors: not_found,
// invalid_request.
func (k *Keys) SetLimits(ctx context.Context, a store.AccountID, id string, limits Limits) error {
	if err := limits.check(); err != nil {
		return err
	}
	return k.change(ctx, a, id, func(key *store.APIKey, _ time.Time) {
		key.Budget, key.BudgetDay, key.PerMinute = limits.Budget, limits.BudgetDay, limits.PerMinute
	})
}

func (k *Keys) change(ctx context.Context, a store.AccountID, id string, f func(*store.APIKey, time.Time)) error {
	return k.l.Update(ctx, func(tx store.LedgerTx, now time.Time) error {
		key, err := keyOf(tx, a, id)
		if err != nil {
			return err
		}
		f(&key, now)
		return tx.SetKey(key)
	})
}
