package operator

import (
	"context"
	"fmt"
	"strings"

	"neuron/tracker-server/ledger/keys"
	"neuron/tracker-server/store"
)

// KeyInput makes a key, changes its limits or revokes it.
type KeyInput struct {
	ID        string `path:"id"`
	Key       string `path:"key"`
	Name      string `json:"name"`
	Budget    Amount `json:"budget"`
	BudgetDay Amount `json:"budget_day"`
	PerMinute int64  `json:"per_minute"`
	Reason    string `json:"reason"`
}

func (in *KeyInput) limits() keys.Limits {
	return keys.Limits{Budget: store.Credit(in.Budget), BudgetDay: store.Credit(in.BudgetDay), PerMinute: in.PerMinute}
}

func (in *KeyInput) words() string {
	limit := func(a Amount) string {
		if a == 0 {
			return "no bound"
		}
		return a.String()
	}
	return fmt.Sprintf("key %s, budget %s, a day %s, requests a minute %d", strings.TrimSpace(in.Key+" "+in.Name), limit(in.Budget), limit(in.BudgetDay), in.PerMinute)
}

// NewKey is a key with its secret, which is shown once.
type NewKey struct {
	ID     string `json:"id"`
	Secret string `json:"secret"`
}

// AddKey makes an API key for an account.
func (a *Area) AddKey(ctx context.Context, by string, in KeyInput) (any, string, error) {
	acc, err := a.account(ctx, in.ID)
	if err != nil {
		return nil, "", err
	}
	var out NewKey
	err = a.do(ctx, deed{by: by, action: "key add", subject: string(acc.ID), detail: in.words()}, func() error {
		secret, k, err := a.cfg.Keys.Create(ctx, acc.ID, in.Name, in.limits())
		out = NewKey{k.ID, secret.Reveal()}
		return err
	})
	return out, fmt.Sprintf("The key %s is made. It is shown this once:", out.ID), err
}

// LimitKey changes what a key may spend and ask.
func (a *Area) LimitKey(ctx context.Context, by string, in KeyInput) (any, string, error) {
	acc, err := a.account(ctx, in.ID)
	if err != nil {
		return nil, "", err
	}
	err = a.do(ctx, deed{by: by, action: "key limits", subject: string(acc.ID), detail: in.words()}, func() error {
		return a.cfg.Keys.SetLimits(ctx, acc.ID, in.Key, in.limits())
	})
	return map[string]string{"id": in.Key}, fmt.Sprintf("The limits of the key %s are changed.", in.Key), err
}

// RevokeKey ends a key for good.
func (a *Area) RevokeKey(ctx context.Context, by string, in KeyInput) (any, string, error) {
	acc, err := a.account(ctx, in.ID)
	if err != nil {
		return nil, "", err
	}
	err = a.do(ctx, deed{by: by, action: "key revoke", subject: string(acc.ID), reason: in.Reason, detail: "key " + in.Key}, func() error {
		return a.cfg.Keys.Revoke(ctx, acc.ID, in.Key)
	})
	return map[string]string{"id": in.Key}, fmt.Sprintf("The key %s is revoked.", in.Key), err
}
