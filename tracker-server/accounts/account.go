package accounts

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/owner"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/ledger/keys"
	"neuron/tracker-server/store"
)

// money is an amount as the API shows it: exact, and as text for people and for
// programs whose numbers end at 2^53.
type money struct {
	Micros  store.Credit `json:"micros"`
	Credits string       `json:"credits"`
}

func moneyOf(c store.Credit) money { return money{c, c.String()} }

// accountView is the answer of GET /v1/account.
type accountView struct {
	Account store.AccountID   `json:"account"`
	Kind    store.AccountKind `json:"kind"`
	Name    string            `json:"name,omitempty"`
	As      role              `json:"as"`
	Created time.Time         `json:"created"`
	Closed  *time.Time        `json:"closed,omitempty"`
	// Balances has every book but the house's mint. An owner's API key sees
	// none.
	Balances map[string]money `json:"balances,omitempty"`
	Frozen   bool             `json:"frozen"`
	Freezes  []freezeView     `json:"freezes,omitempty"`
	Nodes    []nodeView       `json:"nodes,omitempty"`
	Key      *keyView         `json:"key,omitempty"` // of an API key
}

type nodeView struct {
	Node protocol.NodeID `json:"node"`
	// NodeKey is the node's public key, which a release names.
	NodeKey   []byte    `json:"node_key"`
	Since     time.Time `json:"since"`
	This      bool      `json:"this,omitempty"` // the node that asks
	Connected bool      `json:"connected"`
	Info      *NodeInfo `json:"info,omitempty"`
}

type freezeView struct {
	Proof string    `json:"proof"`
	At    time.Time `json:"at"`
	Note  string    `json:"note,omitempty"`
	// Ended is thaw or forfeit, or left out while the freeze holds.
	Ended store.TxKind `json:"ended,omitempty"`
}

// account answers GET /v1/account.
func (h *Handler) account(w http.ResponseWriter, r *http.Request) error {
	c, err := h.reader(w, r)
	if err != nil {
		return err
	}
	out, err := h.accountView(r.Context(), &c)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// accountView reads everything from one state of the ledger.
func (h *Handler) accountView(ctx context.Context, c *caller) (*accountView, error) {
	out := &accountView{As: c.as}
	err := h.o.Ledger.View(ctx, func(v store.LedgerView) error {
		a, err := v.Account(c.id)
		if err != nil {
			return err
		}
		out.Account, out.Kind, out.Created, out.Frozen = a.ID, a.Kind, a.Created, a.Frozen > 0
		if !a.Closed.IsZero() {
			out.Closed = &a.Closed
		}
		if c.as == asKey {
			today, total, err := v.Spent(c.key.ID, h.o.Now())
			if err != nil {
				return err
			}
			k := keyViewOf(&keys.Usage{APIKey: c.key, Today: today, Total: total})
			out.Key = &k
			if a.Kind != store.KindClient {
				out.Frozen = false // not the key's business
				return nil
			}
		}
		out.Name = a.Name
		have, err := v.Balances(c.id)
		if err != nil {
			return err
		}
		out.Balances = make(map[string]money, len(store.Books))
		for _, b := range store.Books {
			if b != store.Mint {
				out.Balances[b.String()] = moneyOf(have[b])
			}
		}
		freezes, err := ledger.Freezes(v, c.id)
		if err != nil {
			return err
		}
		for _, f := range freezes {
			out.Freezes = append(out.Freezes, freezeView(f))
		}
		nodes, err := v.NodesOf(c.id)
		if err != nil {
			return err
		}
		for _, n := range nodes {
			var b owner.Binding
			if err := json.Unmarshal(n.Binding, &b); err != nil {
				return fmt.Errorf("binding of node %s: %w", n.Node.Short(), err)
			}
			out.Nodes = append(out.Nodes, nodeView{Node: n.Node, NodeKey: b.NodeKey, Since: n.At, This: n.Node == c.node})
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	for i := range out.Nodes {
		if info, ok := h.o.Node(out.Nodes[i].Node); ok {
			out.Nodes[i].Connected, out.Nodes[i].Info = true, &info
		}
	}
	return out, nil
}

// keyView is an API key as lists show it.
type keyView struct {
	ID      string      `json:"id"` // the beginning of the key
	Name    string      `json:"name"`
	Created time.Time   `json:"created"`
	Revoked *time.Time  `json:"revoked,omitempty"`
	Limits  keys.Limits `json:"limits"`
	// What it has spent or reserved on the current day (UTC), and in all.
	Today money `json:"spent_today"`
	Total money `json:"spent"`
}

func keyViewOf(u *keys.Usage) keyView {
	v := keyView{
		ID: u.ID, Name: u.Name, Created: u.Created, Today: moneyOf(u.Today), Total: moneyOf(u.Total),
		Limits: keys.Limits{Budget: u.Budget, BudgetDay: u.BudgetDay, PerMinute: u.PerMinute},
	}
	if !u.Revoked.IsZero() {
		v.Revoked = &u.Revoked
	}
	return v
}

// listKeys answers GET /v1/account/keys.
func (h *Handler) listKeys(w http.ResponseWriter, r *http.Request) error {
	id, _, err := h.owner(w, r)
	if err != nil {
		return err
	}
	list, err := h.o.Keys.Usages(r.Context(), id)
	if err != nil {
		return err
	}
	out := make([]keyView, 0, len(list))
	for i := range list {
		out = append(out, keyViewOf(&list[i]))
	}
	writeJSON(w, http.StatusOK, map[string]any{"keys": out})
	return nil
}

type newKey struct {
	Name   string      `json:"name"`
	Limits keys.Limits `json:"limits"`
}

// createKey answers POST /v1/account/keys. The secret is in this answer only.
func (h *Handler) createKey(w http.ResponseWriter, r *http.Request) error {
	id, body, err := h.owner(w, r)
	if err != nil {
		return err
	}
	in, err := decode[newKey](r, body)
	if err != nil {
		return err
	}
	secret, k, err := h.o.Keys.Create(r.Context(), id, in.Name, in.Limits)
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusCreated, struct {
		Secret string  `json:"secret"`
		Key    keyView `json:"key"`
	}{secret.Reveal(), keyViewOf(&keys.Usage{APIKey: k})})
	return nil
}

// setLimits answers POST /v1/account/keys/{id}/limits.
func (h *Handler) setLimits(w http.ResponseWriter, r *http.Request) error {
	id, body, err := h.owner(w, r)
	if err != nil {
		return err
	}
	in, err := decode[newLimits](r, body)
	if err != nil {
		return err
	}
	if in.Budget == nil || in.BudgetDay == nil || in.PerMinute == nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "name all three limits: budget, budget_day, per_minute; 0 is no bound")
	}
	limits := keys.Limits{Budget: *in.Budget, BudgetDay: *in.BudgetDay, PerMinute: *in.PerMinute}
	if err := h.o.Keys.SetLimits(r.Context(), id, r.PathValue("id"), limits); err != nil {
		return err
	}
	return h.showKey(w, r, id)
}

// newLimits replaces all limits of a key. One that is left out could mean "as
// before" or "no bound", so none may be.
type newLimits struct {
	Budget    *store.Credit `json:"budget"`
	BudgetDay *store.Credit `json:"budget_day"`
	PerMinute *int64        `json:"per_minute"`
}

// revokeKey answers DELETE /v1/account/keys/{id}.
func (h *Handler) revokeKey(w http.ResponseWriter, r *http.Request) error {
	id, _, err := h.owner(w, r)
	if err != nil {
		return err
	}
	if err := h.o.Keys.Revoke(r.Context(), id, r.PathValue("id")); err != nil {
		return err
	}
	return h.showKey(w, r, id)
}

// showKey answers with the key as it is now.
func (h *Handler) showKey(w http.ResponseWriter, r *http.Request, id store.AccountID) error {
	u, err := h.o.Keys.Usage(r.Context(), id, r.PathValue("id"))
	if err != nil {
		return err
	}
	writeJSON(w, http.StatusOK, map[string]any{"key": keyViewOf(&u)})
	return nil
}
