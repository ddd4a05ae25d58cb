package sqlite

import (
	"crypto/sha256"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite/direct"
)

const keyColumns = `k.id, k.hash, a.id, k.name, k.created, k.revoked, k.budget, k.budget_day, k.per_minute`

func (t *ledgerTx) keys(where string, args ...any) (out []store.APIKey, err error) {
	err = t.each(`SELECT `+keyColumns+` FROM api_keys k JOIN accounts a ON a.num = k.account `+where, args, func(r *direct.Answer) error {
		var k store.APIKey
		var hash []byte
		var created, revoked int64
		err := r.Scan(&k.ID, &hash, &k.Account, &k.Name, &created, &revoked, &k.Budget, &k.BudgetDay, &k.PerMinute)
		copy(k.Hash[:], hash)
		k.Created, k.Revoked = fromMicros(created), fromMicros(revoked)
		out = append(out, k)
		return err
	})
	return out, err
}

func errNoKey(id string) error {
	return protocol.Errorf(protocol.CodeNotFound, "the API key %.40q is not known", id)
}

// Key implements store.KeyView.
func (t *ledgerTx) Key(id string) (store.APIKey, error) {
	out, err := t.keys(`WHERE k.id = ?`, id)
	if err != nil {
		return store.APIKey{}, err
	}
	if len(out) != 1 {
		return store.APIKey{}, errNoKey(id)
	}
	return out[0], nil
}

// Keys implements store.KeyView.
func (t *ledgerTx) Keys(a store.AccountID, limit int) ([]store.APIKey, error) {
	return t.keys(`WHERE a.id = ? ORDER BY k.created, k.id LIMIT ?`, string(a), limit)
}

// AddKey implements store.KeyTx.
func (t *ledgerTx) AddKey(k store.APIKey) error {
	num, err := t.num(k.Account)
	if err != nil {
		return err
	}
	n, err := t.exec(`INSERT INTO api_keys (id, hash, account, name, created, revoked, budget, budget_day, per_minute)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
		k.ID, k.Hash[:], num, k.Name, micros(k.Created), micros(k.Revoked), int64(k.Budget), int64(k.BudgetDay), k.PerMinute)
	if err == nil && n != 1 {
		err = protocol.Errorf(protocol.CodeConflict, "the API key %s exists already", k.ID)
	}
	return err
}

// SetKey implements store.KeyTx.
func (t *ledgerTx) SetKey(k store.APIKey) error {
	n, err := t.exec(`UPDATE api_keys SET name = ?, revoked = ?, budget = ?, budget_day = ?, per_minute = ? WHERE id = ?`,
		k.Name, micros(k.Revoked), int64(k.Budget), int64(k.BudgetDay), k.PerMinute, k.ID)
	if err == nil && n != 1 {
		err = errNoKey(k.ID)
	}
	return err
}

// totalDay is the row of api_key_spend that holds the sum of all days.
const totalDay = -1

func day(t time.Time) int64 { return micros(t) / dayMicros }

// Spent implements store.KeyView.
func (t *ledgerTx) Spent(id string, at time.Time) (today, total store.Credit, err error) {
	err = t.each(`SELECT day, amount FROM api_key_spend WHERE api_key = ? AND day IN (?, ?)`, []any{id, day(at), int64(totalDay)}, func(r *direct.Answer) error {
		var d int64
		var amount store.Credit
		err := r.Scan(&d, &amount)
		if d == totalDay {
			total = amount
		} else {
			today = amount
		}
		return err
	})
	return today, total, err
}

// Spend implements store.KeyTx.
func (t *ledgerTx) Spend(id string, at time.Time, amount store.Credit) error {
	for _, d := range []int64{day(at), totalDay} {
		if _, err := t.exec(`INSERT INTO api_key_spend (api_key, day, amount) VALUES (?, ?, ?)
			ON CONFLICT (api_key, day) DO UPDATE SET amount = api_key_spend.amount + excluded.amount`, id, d, int64(amount)); err != nil {
			return err
		}
	}
	return nil
}

// SpentFold implements store.KeyView: what is reserved counts until it is known
// what was paid.
func (t *ledgerTx) SpentFold() (map[string]store.Credit, error) {
	out := make(map[string]store.Credit)
	err := t.each(`SELECT s.api_key, SUM(CASE WHEN s.state IN (?, ?) THEN s.amount ELSE
			(SELECT COALESCE(SUM(h.prefill * h.prefill_row + h.decode * h.decode_row), 0) FROM ledger_hops h WHERE h.session = s.num) END)
		FROM ledger_sessions s WHERE s.api_key <> '' AND s.state <> ? GROUP BY s.api_key`,
		[]any{int64(store.ReservationOpen), int64(store.ReservationDone), int64(store.ReservationFailed)}, func(r *direct.Answer) error {
			var id string
			var sum store.Credit
			err := r.Scan(&id, &sum)
			out[id] = sum
			return err
		})
	return out, err
}

func scanNodeOwner(r *direct.Answer) (store.NodeOwner, error) {
	var o store.NodeOwner
	var at, ended int64
	err := r.Scan(&o.Node, &o.Owner, &o.Binding, &at, &ended)
	o.At, o.Ended = fromMicros(at), fromMicros(ended)
	return o, err
}

func (t *ledgerTx) nodeOwners(where string, args ...any) (out []store.NodeOwner, err error) {
	err = t.each(`SELECT o.node, a.id, o.binding, o.at, o.ended FROM node_owners o JOIN accounts a ON a.num = o.owner `+where, args, func(r *direct.Answer) error {
		o, err := scanNodeOwner(r)
		out = append(out, o)
		return err
	})
	return out, err
}

// OwnerOf implements store.OwnerView.
func (t *ledgerTx) OwnerOf(n protocol.NodeID) (store.NodeOwner, error) {
	if !t.alone {
		o, err := t.readOwner(n)
		if err != nil {
			return o, err
		}
		return owned(n, o)
	}
	return t.s.owners.of(n, func() (store.NodeOwner, error) { return t.readOwner(n) })
}

// readOwner asks the database. Owner is "" for none.
func (t *ledgerTx) readOwner(n protocol.NodeID) (o store.NodeOwner, err error) {
	out, err := t.nodeOwners(`WHERE o.node = ? AND o.ended = 0`, string(n))
	if err == nil && len(out) == 1 {
		o = out[0]
	}
	return o, err
}

// OwnerHistory implements store.OwnerView.
func (t *ledgerTx) OwnerHistory(n protocol.NodeID) ([]store.NodeOwner, error) {
	return t.nodeOwners(`WHERE o.node = ? ORDER BY o.num DESC`, string(n))
}

// NodesOf implements store.OwnerView.
func (t *ledgerTx) NodesOf(a store.AccountID) ([]store.NodeOwner, error) {
	return t.nodeOwners(`WHERE a.id = ? AND o.ended = 0 ORDER BY o.node`, string(a))
}

// AddNodeOwner implements store.OwnerTx.
func (t *ledgerTx) AddNodeOwner(o store.NodeOwner) error {
	num, err := t.num(o.Owner)
	if err != nil {
		return err
	}
	t.s.owners.change()
	_, err = t.exec(`INSERT INTO node_owners (num, node, owner, binding, at, ended)
		SELECT COALESCE(MAX(num), 0) + 1, ?, ?, ?, ?, ? FROM node_owners`, string(o.Node), num, o.Binding, micros(o.At), micros(o.Ended))
	return err
}

// EndNodeOwner implements store.OwnerTx.
func (t *ledgerTx) EndNodeOwner(n protocol.NodeID, at time.Time) error {
	t.s.owners.change()
	_, err := t.exec(`UPDATE node_owners SET ended = ? WHERE node = ? AND ended = 0`, micros(at), string(n))
	return err
}

// Pairing implements store.OwnerView.
func (t *ledgerTx) Pairing(hash [sha256.Size]byte) (p store.Pairing, err error) {
	found := false
	err = t.each(`SELECT a.id, p.expires, p.node, p.offer, p.done FROM pairings p JOIN accounts a ON a.num = p.owner WHERE p.hash = ?`, []any{hash[:]},
		func(r *direct.Answer) error {
			var expires, done int64
			err := r.Scan(&p.Owner, &expires, &p.Node, &p.Offer, &done)
			p.Hash, p.Expires, p.Done, found = hash, fromMicros(expires), done != 0, true
			return err
		})
	if err == nil && !found {
		err = protocol.Errorf(protocol.CodeNotFound, "this pairing code is not known")
	}
	return p, err
}

// Pairings implements store.OwnerView.
func (t *ledgerTx) Pairings(a store.AccountID) (n int, err error) {
	_, err = t.one(`SELECT COUNT(*) FROM pairings p JOIN accounts a ON a.num = p.owner WHERE a.id = ?`, []any{string(a)}, &n)
	return n, err
}

// PutPairing implements store.OwnerTx.
func (t *ledgerTx) PutPairing(p store.Pairing) error {
	num, err := t.num(p.Owner)
	if err != nil {
		return err
	}
	offer := p.Offer
	if offer == nil {
		offer = []byte{}
	}
	done := 0
	if p.Done {
		done = 1
	}
	_, err = t.exec(`INSERT INTO pairings (hash, owner, expires, node, offer, done) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (hash) DO UPDATE SET expires = excluded.expires, node = excluded.node, offer = excluded.offer, done = excluded.done`,
		p.Hash[:], num, micros(p.Expires), string(p.Node), offer, done)
	return err
}

// ForgetPairings implements store.OwnerTx.
func (t *ledgerTx) ForgetPairings(before time.Time) error {
	_, err := t.exec(`DELETE FROM pairings WHERE expires < ?`, micros(before))
	return err
}
