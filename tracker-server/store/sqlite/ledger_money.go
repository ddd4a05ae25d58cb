package sqlite

import (
	"database/sql"
	"strings"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite/direct"
)

const accountColumns = `id, kind, name, pubkey, created, closed, frozen`

func scanAccount(row interface{ Scan(...any) error }) (store.Account, error) {
	var a store.Account
	var created, closed int64
	err := row.Scan(&a.ID, &a.Kind, &a.Name, &a.Key, &created, &closed, &a.Frozen)
	a.Created, a.Closed = fromMicros(created), fromMicros(closed)
	if len(a.Key) == 0 {
		a.Key = nil
	}
	return a, err
}

// Account implements store.MoneyView.
func (t *ledgerTx) Account(id store.AccountID) (a store.Account, err error) {
	found := false
	err = t.each(`SELECT `+accountColumns+` FROM accounts WHERE id = ?`, []any{string(id)}, func(r *direct.Answer) (err error) {
		found = true
		a, err = scanAccount(r)
		return err
	})
	if err == nil && !found {
		err = errNoAccount(id)
	}
	return a, err
}

// Accounts implements store.MoneyView.
func (t *ledgerTx) Accounts(after store.AccountID, limit int) (out []store.Account, err error) {
	err = t.each(`SELECT `+accountColumns+` FROM accounts WHERE id > ? ORDER BY id LIMIT ?`, []any{string(after), limit}, func(r *direct.Answer) error {
		a, err := scanAccount(r)
		out = append(out, a)
		return err
	})
	return out, err
}

// AddAccount implements store.MoneyTx.
func (t *ledgerTx) AddAccount(a store.Account) error {
	key := a.Key
	if key == nil {
		key = []byte{}
	}
	n, err := t.exec(`INSERT INTO accounts (num, id, kind, name, pubkey, created, closed, frozen)
		SELECT MAX(num) + 1, ?, ?, ?, ?, ?, ?, ? FROM accounts WHERE true ON CONFLICT (id) DO NOTHING`,
		string(a.ID), string(a.Kind), a.Name, key, micros(a.Created), micros(a.Closed), a.Frozen)
	if err == nil && n != 1 {
		err = protocol.Errorf(protocol.CodeConflict, "the account %s exists already", string(a.ID))
	}
	return err
}

// SetAccount implements store.MoneyTx.
func (t *ledgerTx) SetAccount(a store.Account) error {
	n, err := t.exec(`UPDATE accounts SET name = ?, closed = ?, frozen = ? WHERE id = ?`, a.Name, micros(a.Closed), a.Frozen, string(a.ID))
	if err == nil && n != 1 {
		err = errNoAccount(a.ID)
	}
	return err
}

// Prices implements store.MoneyView.
func (t *ledgerTx) Prices() (out []store.Prices, err error) {
	err = t.each(`SELECT version, valid_from, decode_mib, prefill_ppm, seed_mib, fee_ppm FROM ledger_prices ORDER BY version`, nil, func(r *direct.Answer) error {
		var p store.Prices
		var from int64
		err := r.Scan(&p.Version, &from, &p.DecodeMiB, &p.PrefillPPM, &p.SeedMiB, &p.FeePPM)
		p.From = fromMicros(from)
		out = append(out, p)
		return err
	})
	return out, err
}

// AddPrices implements store.MoneyTx.
func (t *ledgerTx) AddPrices(p store.Prices) error {
	n, err := t.exec(`INSERT INTO ledger_prices (version, valid_from, decode_mib, prefill_ppm, seed_mib, fee_ppm) VALUES (?, ?, ?, ?, ?, ?)
		ON CONFLICT (version) DO NOTHING`, p.Version, micros(p.From), int64(p.DecodeMiB), p.PrefillPPM, int64(p.SeedMiB), p.FeePPM)
	if err == nil && n != 1 {
		err = protocol.Errorf(protocol.CodeConflict, "version %d of the prices exists already", p.Version)
	}
	return err
}

// Transaction implements store.MoneyView.
func (t *ledgerTx) Transaction(id string) (store.Transaction, error) {
	out, found := store.Transaction{}, false
	if t.pending.ids[id] {
		if err := t.write(); err != nil {
			return out, err
		}
	}
	err := t.transactions(`WHERE t.id = ?`, []any{id}, func(x *store.Transaction) error {
		out, found = *x, true
		return nil
	})
	if err == nil && !found {
		err = protocol.Errorf(protocol.CodeNotFound, "there is no transaction %.200q", id)
	}
	return out, err
}

// Freezes implements store.MoneyView. ";" is the character after ":".
func (t *ledgerTx) Freezes(id store.AccountID, limit int) (out []store.Transaction, err error) {
	if err := t.write(); err != nil {
		return nil, err
	}
	from := string(store.TxFreeze) + ":" + string(id)
	err = t.transactions(`WHERE t.seq IN (SELECT f.seq FROM ledger_tx f WHERE f.id > ? AND f.id < ? ORDER BY f.seq LIMIT ?)`,
		[]any{from + ":", from + ";", limit}, func(x *store.Transaction) error {
			out = append(out, *x)
			return nil
		})
	return out, err
}

// Each implements store.MoneyView.
func (t *ledgerTx) Each(f func(*store.Transaction) error) error {
	if err := t.write(); err != nil {
		return err
	}
	return t.transactions(``, nil, f)
}

func (t *ledgerTx) transactions(where string, args []any, f func(*store.Transaction) error) error {
	var x *store.Transaction
	err := t.each(`SELECT t.seq, t.id, t.kind, t.at, t.session, t.digest, t.note,
			a.id, l.book, l.amount, l.hop, l.prefill, l.decode
		FROM ledger_tx t LEFT JOIN ledger_lines l ON l.seq = t.seq LEFT JOIN accounts a ON a.num = l.account
		`+where+` ORDER BY t.seq, l.n`, args, func(r *direct.Answer) error {
		var y store.Transaction
		var at int64
		var digest []byte
		var account sql.NullString
		var book, amount, hop, prefill, decode sql.NullInt64
		if err := r.Scan(&y.Seq, &y.ID, &y.Kind, &at, &y.Session, &digest, &y.Note, &account, &book, &amount, &hop, &prefill, &decode); err != nil {
			return err
		}
		if x == nil || x.Seq != y.Seq {
			if x != nil {
				if err := f(x); err != nil {
					return err
				}
			}
			y.At = fromMicros(at)
			copy(y.Digest[:], digest)
			x = &y
		}
		if account.Valid {
			x.Lines = append(x.Lines, store.Line{
				Account: store.AccountID(account.String), Book: store.Book(book.Int64), Amount: store.Credit(amount.Int64),
				Hop: int(hop.Int64), Prefill: prefill.Int64, Decode: decode.Int64,
			})
		}
		return nil
	})
	if err != nil || x == nil {
		return err
	}
	return f(x)
}

// GainedAfter implements store.MoneyView.
func (t *ledgerTx) GainedAfter(id store.AccountID, b store.Book, seq int64) (sum store.Credit, err error) {
	num, err := t.num(id)
	if err == nil {
		err = t.write()
	}
	if err != nil {
		return 0, err
	}
	_, err = t.one(`SELECT COALESCE(SUM(amount), 0) FROM ledger_lines WHERE account = ? AND seq > ? AND book = ? AND amount > 0`, []any{num, seq, int64(b)}, &sum)
	return sum, err
}

// SeqBefore implements store.MoneyView.
func (t *ledgerTx) SeqBefore(at time.Time) (seq int64, err error) {
	if err := t.write(); err != nil {
		return 0, err
	}
	ok, err := t.one(`SELECT seq - 1 FROM ledger_hours WHERE hour >= ? ORDER BY hour LIMIT 1`, []any{micros(at) / hourMicros}, &seq)
	if err != nil || ok {
		return seq, err
	}
	h, err := t.loadHead()
	if err != nil {
		return 0, err
	}
	return h.seq, nil
}

// Unsettled implements store.MoneyView.
func (t *ledgerTx) Unsettled() (out []store.AccountID, err error) {
	if err := t.flush(); err != nil {
		return nil, err
	}
	err = t.each(`SELECT a.id FROM ledger_balances b JOIN accounts a ON a.num = b.account WHERE b.book = ? AND b.amount <> 0 ORDER BY a.id`,
		[]any{int64(store.Pending)}, func(r *direct.Answer) error {
			var id store.AccountID
			err := r.Scan(&id)
			out = append(out, id)
			return err
		})
	return out, err
}

// lineSource joins a line with what it is about; reservations have one row per
// hop.
const lineSource = ` FROM ledger_lines l JOIN ledger_tx t ON t.seq = l.seq
	LEFT JOIN ledger_sessions s ON s.num = t.session
	LEFT JOIN ledger_hops h ON h.session = t.session AND h.hop = l.hop WHERE `

// where turns a query into SQL and its arguments. Hours bound the scan, the
// exact times are checked per row.
func (t *ledgerTx) where(q store.LineQuery) (string, []any, error) {
	num, err := t.num(q.Account)
	if err == nil {
		err = t.write()
	}
	if err != nil {
		return "", nil, err
	}
	parts, args := []string{`l.account = ?`}, []any{num}
	add := func(part string, a ...any) { parts, args = append(parts, part), append(args, a...) }
	if len(q.Books) > 0 {
		marks := make([]any, len(q.Books))
		for i, b := range q.Books {
			marks[i] = int64(b)
		}
		add(`l.book IN (?`+strings.Repeat(`, ?`, len(q.Books)-1)+`)`, marks...)
	}
	if !q.Since.IsZero() {
		seq, err := t.SeqBefore(q.Since.Truncate(time.Hour))
		if err != nil {
			return "", nil, err
		}
		add(`l.seq > ? AND t.at >= ?`, seq, micros(q.Since))
	}
	if !q.Until.IsZero() {
		seq, err := t.SeqBefore(q.Until.Truncate(time.Hour).Add(time.Hour))
		if err != nil {
			return "", nil, err
		}
		add(`l.seq <= ? AND t.at < ?`, seq, micros(q.Until))
	}
	if q.Model != "" {
		add(`s.model = ?`, string(q.Model))
	}
	if q.Range != (protocol.Range{}) {
		add(`h.first = ? AND h.last = ?`, q.Range.First, q.Range.Last)
	}
	return strings.Join(parts, ` AND `), args, nil
}

// Lines implements store.MoneyView.
func (t *ledgerTx) Lines(q store.LineQuery, seq int64, n, limit int) (out []store.LineItem, err error) {
	where, args, err := t.where(q)
	if err != nil {
		return nil, err
	}
	if seq > 0 {
		where += ` AND (l.seq < ? OR l.seq = ? AND l.n < ?)`
		args = append(args, seq, seq, n)
	}
	err = t.each(`SELECT l.seq, l.n, l.book, l.amount, l.hop, l.prefill, l.decode, t.id, t.kind, t.at, t.note,
		COALESCE(s.id, ''), COALESCE(s.model, ''), COALESCE(h.first, 0), COALESCE(h.last, 0), COALESCE(h.node, '')`+
		lineSource+where+` ORDER BY l.seq DESC, l.n DESC LIMIT ?`, append(args, limit), func(r *direct.Answer) error {
		x := store.LineItem{Line: store.Line{Account: q.Account}}
		var at int64
		err := r.Scan(&x.Seq, &x.N, &x.Book, &x.Amount, &x.Hop, &x.Prefill, &x.Decode, &x.ID, &x.Kind, &at, &x.Note,
			&x.Sess, &x.Model, &x.Range.First, &x.Range.Last, &x.Node)
		x.At = fromMicros(at)
		out = append(out, x)
		return err
	})
	return out, err
}

const dayMicros = 24 * hourMicros

// Earnings implements store.MoneyView. Settling, freezing and thawing move what
// was earned before, and held amounts are not earned yet.
func (t *ledgerTx) Earnings(q store.LineQuery, limit int) (out []store.Earning, err error) {
	q.Books = nil
	where, args, err := t.where(q)
	if err != nil {
		return nil, err
	}
	where += ` AND (l.book IN (?, ?) AND t.kind IN (?, ?, ?) OR t.kind = ? AND l.hop >= 0 AND l.amount < 0)`
	args = append([]any{dayMicros}, args...)
	args = append(args, int64(store.Pending), int64(store.Frozen),
		string(store.TxEarn), string(store.TxPost), string(store.TxSeed), string(store.TxCorrect), limit)
	err = t.each(`SELECT g.day, g.model, g.first, g.last, SUM(g.amount), SUM(g.prefill), SUM(g.decode) FROM
		(SELECT t.at / ? AS day, COALESCE(s.model, '') AS model, COALESCE(h.first, 0) AS first, COALESCE(h.last, 0) AS last, l.amount, l.prefill, l.decode`+
		lineSource+where+`) g GROUP BY g.day, g.model, g.first, g.last ORDER BY g.day DESC, g.model, g.first, g.last LIMIT ?`,
		args, func(r *direct.Answer) error {
			var e store.Earning
			var day int64
			err := r.Scan(&day, &e.Model, &e.Range.First, &e.Range.Last, &e.Amount, &e.Prefill, &e.Decode)
			e.Day = time.UnixMicro(day * dayMicros).UTC()
			out = append(out, e)
			return err
		})
	return out, err
}
