package sqlite

import (
	"context"
	"crypto/sha256"
	"database/sql"
	"errors"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite/direct"
)

var _ store.Ledger = (*Store)(nil)

// UpdateLedger implements store.Ledger. Transactions are immediate, so there is
// one writer at a time over all processes.
func (s *Store) UpdateLedger(ctx context.Context, fs ...func(store.LedgerTx) error) error {
	list := make([]operation, len(fs))
	for i, f := range fs {
		list[i] = func(ctx context.Context, tx *txn) error { return f(tx.ledger(ctx)) }
	}
	return s.inTx(ctx, "write the ledger", list...)
}

// ViewLedger implements store.Ledger.
func (s *Store) ViewLedger(ctx context.Context, f func(store.LedgerView) error) error {
	err := s.view(ctx, func(c *direct.Conn) error {
		if err := c.Exec(ctx, "BEGIN"); err != nil {
			return err
		}
		err := f(newLedgerTx(ctx, s, c))
		c.Rollback(context.WithoutCancel(ctx))
		return err
	})
	return s.wrap("read the ledger", err)
}

// ledgerTx is the ledger in one transaction. It belongs to one goroutine.
type ledgerTx struct {
	ctx  context.Context
	s    *Store
	c    *direct.Conn
	nums map[store.AccountID]int64
	// alone says that nobody else changes anything meanwhile: what is remembered
	// of owners is that of this transaction, too.
	alone bool

	// The head as this transaction leaves it; nil until it is needed.
	head  *ledgerHead
	moved bool // entries were appended since the head was written
	// What the appended lines change, until flush folds it in.
	deltas map[balanceKey]store.Credit
	// exact leaves nothing pending.
	exact   bool
	pending pending
}

type ledgerHead struct {
	seq, at int64
	chain   [sha256.Size]byte
}

type balanceKey struct {
	account int64
	book    store.Book
}

func newLedgerTx(ctx context.Context, s *Store, c *direct.Conn) *ledgerTx {
	return &ledgerTx{ctx: ctx, s: s, c: c, nums: make(map[store.AccountID]int64), deltas: make(map[balanceKey]store.Credit)}
}

func (t *ledgerTx) exec(query string, args ...any) (int64, error) {
	res, err := t.c.ExecContext(t.ctx, query, args...)
	if err != nil {
		return 0, t.s.wrap("write the ledger", err)
	}
	return res.RowsAffected()
}

// one scans the single row of a query; false when there is none.
func (t *ledgerTx) one(query string, args []any, dest ...any) (bool, error) {
	err := t.c.QueryRowContext(t.ctx, query, args...).Scan(dest...)
	if errors.Is(err, sql.ErrNoRows) {
		return false, nil
	}
	return err == nil, t.s.wrap("read the ledger", err)
}

// each calls f for every row; f scans it and runs no other query.
func (t *ledgerTx) each(query string, args []any, f func(*direct.Answer) error) error {
	rows, err := t.c.QueryContext(t.ctx, query, args...)
	if err != nil {
		return t.s.wrap("read the ledger", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := f(rows); err != nil {
			return t.s.wrap("read the ledger", err)
		}
	}
	return t.s.wrap("read the ledger", rows.Err())
}

func (t *ledgerTx) loadHead() (*ledgerHead, error) {
	if t.head != nil {
		return t.head, nil
	}
	var h ledgerHead
	var chain []byte
	ok, err := t.one(`SELECT seq, at, chain FROM ledger_head WHERE one = 1`, nil, &h.seq, &h.at, &chain)
	if err != nil {
		return nil, err
	}
	if !ok || len(chain) != 0 && len(chain) != len(h.chain) {
		return nil, t.s.damaged(errors.New("the head of the ledger is missing"))
	}
	copy(h.chain[:], chain)
	t.head = &h
	return t.head, nil
}

// Head implements store.MoneyView.
func (t *ledgerTx) Head() (seq int64, at time.Time, chain [sha256.Size]byte, err error) {
	h, err := t.loadHead()
	if err != nil {
		return 0, time.Time{}, chain, err
	}
	return h.seq, fromMicros(h.at), h.chain, nil
}

const hourMicros = int64(time.Hour / time.Microsecond)

// Append implements store.MoneyTx. What it appends is pending until somebody
// asks for it, or the transaction ends: many rows go into one statement.
func (t *ledgerTx) Append(x *store.Transaction) error {
	if err := x.Check(); err != nil {
		return err
	}
	nums := make([]int64, len(x.Lines))
	for i, l := range x.Lines {
		n, err := t.num(l.Account)
		if err != nil {
			return err
		}
		nums[i] = n
	}
	h, err := t.loadHead()
	if err != nil {
		return err
	}
	if err := t.unused(x.ID); err != nil {
		return err
	}
	for i, l := range x.Lines {
		k, ok := balanceKey{nums[i], l.Book}, false
		if t.deltas[k], ok = t.deltas[k].Add(l.Amount); !ok {
			return protocol.Errorf(protocol.CodeInternal, "the balance %s of %s would overflow", l.Book, string(l.Account))
		}
	}
	before := h.at
	x.Seq, x.At = h.seq+1, fromMicros(max(h.at, micros(x.At)))
	h.seq, h.at, h.chain = x.Seq, micros(x.At), x.Chain(h.chain)
	t.moved = true
	t.pending.add(x, nums, x.Seq == 1 || h.at/hourMicros > before/hourMicros)
	if t.exact {
		return t.write()
	}
	return nil
}

// flush writes what is pending. It is also the projector: it folds what was
// appended into the balances, and is the only writer of that table besides
// Rebuild.
func (t *ledgerTx) flush() error {
	if err := t.write(); err != nil {
		return err
	}
	for k, d := range t.deltas {
		if d == 0 {
			continue
		}
		var have store.Credit
		if _, err := t.one(`SELECT amount FROM ledger_balances WHERE account = ? AND book = ?`, []any{k.account, int64(k.book)}, &have); err != nil {
			return err
		}
		sum, ok := have.Add(d)
		if !ok {
			return protocol.Errorf(protocol.CodeInternal, "the balance %s of account %d would overflow", k.book, k.account)
		}
		if _, err := t.exec(`INSERT INTO ledger_balances (account, book, amount) VALUES (?, ?, ?)
			ON CONFLICT (account, book) DO UPDATE SET amount = excluded.amount`, k.account, int64(k.book), int64(sum)); err != nil {
			return err
		}
	}
	clear(t.deltas)
	if !t.moved {
		return nil
	}
	t.moved = false
	_, err := t.exec(`UPDATE ledger_head SET seq = ?, at = ?, chain = ? WHERE one = 1 AND seq < ?`, t.head.seq, t.head.at, t.head.chain[:], t.head.seq)
	return err
}

// Rebuild implements store.MoneyTx.
func (t *ledgerTx) Rebuild() error {
	if err := t.flush(); err != nil {
		return err
	}
	if _, err := t.exec(`DELETE FROM ledger_balances`); err != nil {
		return err
	}
	_, err := t.exec(`INSERT INTO ledger_balances (account, book, amount)
		SELECT account, book, SUM(amount) FROM ledger_lines GROUP BY account, book`)
	return err
}

// Fold implements store.MoneyView.
func (t *ledgerTx) Fold() (map[store.AccountID]store.Balances, error) {
	if err := t.write(); err != nil {
		return nil, err
	}
	return t.sums(`SELECT a.id, g.book, g.total FROM (SELECT account, book, SUM(amount) AS total FROM ledger_lines GROUP BY account, book) g
		JOIN accounts a ON a.num = g.account`)
}

// Cached implements store.MoneyView.
func (t *ledgerTx) Cached() (map[store.AccountID]store.Balances, error) {
	if err := t.flush(); err != nil {
		return nil, err
	}
	return t.sums(`SELECT a.id, b.book, b.amount FROM ledger_balances b JOIN accounts a ON a.num = b.account`)
}

func (t *ledgerTx) sums(query string) (map[store.AccountID]store.Balances, error) {
	out := make(map[store.AccountID]store.Balances)
	err := t.each(query, nil, func(r *direct.Answer) error {
		var id store.AccountID
		var b store.Book
		var sum store.Credit
		if err := r.Scan(&id, &b, &sum); err != nil || sum == 0 {
			return err
		}
		if out[id] == nil {
			out[id] = make(store.Balances)
		}
		out[id][b] = sum
		return nil
	})
	return out, err
}

// Balances implements store.MoneyView.
func (t *ledgerTx) Balances(id store.AccountID) (store.Balances, error) {
	num, err := t.num(id)
	if err != nil {
		return nil, err
	}
	out := make(store.Balances)
	err = t.each(`SELECT book, amount FROM ledger_balances WHERE account = ?`, []any{num}, func(r *direct.Answer) error {
		var b store.Book
		var sum store.Credit
		err := r.Scan(&b, &sum)
		out[b] = sum
		return err
	})
	if len(t.deltas) > 0 {
		for _, b := range store.Books {
			if d := t.deltas[balanceKey{num, b}]; d != 0 {
				out[b] += d
			}
		}
	}
	return out, err
}

// num is an account's number in the database.
func (t *ledgerTx) num(id store.AccountID) (int64, error) {
	if n, ok := t.nums[id]; ok {
		return n, nil
	}
	var n int64
	ok, err := t.one(`SELECT num FROM accounts WHERE id = ?`, []any{string(id)}, &n)
	if err != nil {
		return 0, err
	}
	if !ok {
		return 0, errNoAccount(id)
	}
	t.nums[id] = n
	return n, nil
}

func errNoAccount(id store.AccountID) error {
	return protocol.Errorf(protocol.CodeNotFound, "the account %.80q is not known", string(id))
}
