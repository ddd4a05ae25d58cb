package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite/direct"
)

// AddReceipts implements store.Receipts.
func (s *Store) AddReceipts(ctx context.Context, rs []store.Receipt, ps []store.Proof) error {
	return s.inTx(ctx, "store receipts", func(ctx context.Context, tx *txn) error {
		return addReceipts(ctx, tx.Conn, rs, ps)
	})
}

// AddReceipts implements store.ReceiptTx.
func (t *ledgerTx) AddReceipts(rs []store.Receipt, ps []store.Proof) error {
	return t.s.wrap("store receipts", addReceipts(t.ctx, t.c, rs, ps))
}

func addReceipts(ctx context.Context, tx *direct.Conn, rs []store.Receipt, ps []store.Proof) error {
	for _, p := range ps {
		_, err := tx.ExecContext(ctx, `INSERT INTO proofs (num, id, kind, culprit, session, hop, text, file, found, owner, lifted, forfeited, note)
			SELECT COALESCE(MAX(num), 0) + 1, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ? FROM proofs WHERE true ON CONFLICT (id) DO NOTHING`,
			p.ID[:], p.Kind, string(p.Culprit), string(p.Session), p.Hop, p.Text, p.File, micros(p.Found), string(p.Owner),
			micros(p.Lifted), micros(p.Forfeited), p.Note)
		if err != nil {
			return err
		}
	}
	return addSigned(ctx, tx, rs)
}

func addSigned(ctx context.Context, tx *direct.Conn, rs []store.Receipt) error {
	if len(rs) == 0 {
		return nil
	}
	type of struct {
		count   int64
		expires time.Time
	}
	sessions := make(map[protocol.SessionID]*of)
	for _, r := range rs {
		if sessions[r.Session] == nil {
			sessions[r.Session] = &of{expires: r.Expires}
		}
		sessions[r.Session].count++
	}
	for id, x := range sessions {
		var total int64
		if err := tx.QueryRowContext(ctx, `INSERT INTO receipt_sessions (id, expires, receipts) VALUES (?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET receipts = receipt_sessions.receipts + excluded.receipts RETURNING receipts`,
			string(id), micros(x.expires), x.count).Scan(&total); err != nil {
			return err
		}
		x.count = total - x.count // the place of its first one
	}
	var list direct.Rows
	for _, r := range rs {
		both := 0
		if r.Both {
			both = 1
		}
		x := sessions[r.Session]
		list.Add(string(r.Session), r.Hop, int64(r.Seq), both, x.count, r.Raw)
		x.count++
	}
	_, err := list.Insert(ctx, tx, `INSERT INTO receipts (session, hop, seq, both, place, raw) VALUES `, ` ON CONFLICT (session, hop, seq, both) DO NOTHING`)
	return err
}

// Receipts implements store.Receipts.
func (s *Store) Receipts(ctx context.Context, id protocol.SessionID) ([][]byte, error) {
	return s.raws(ctx, `SELECT raw FROM receipts WHERE session = ? ORDER BY place`, string(id))
}

// SpanReceipts implements store.Receipts.
func (s *Store) SpanReceipts(ctx context.Context, id protocol.SessionID, hop int, seq uint32) ([][]byte, error) {
	return s.raws(ctx, `SELECT raw FROM receipts WHERE session = ? AND hop = ? AND seq = ? ORDER BY both`, string(id), hop, int64(seq))
}

func (s *Store) raws(ctx context.Context, query string, args ...any) ([][]byte, error) {
	var out [][]byte
	err := s.view(ctx, func(c *direct.Conn) error {
		rows, err := c.QueryContext(ctx, query, args...)
		if err != nil {
			return err
		}
		defer rows.Close()
		for rows.Next() {
			var raw []byte
			if err := rows.Scan(&raw); err != nil {
				return err
			}
			out = append(out, raw)
		}
		return rows.Err()
	})
	return out, s.wrap("list receipts", err)
}

// pruneSessions is how many sessions lose their receipts in one transaction:
// other writers wait for it.
const pruneSessions = 32

// PruneReceipts implements store.Receipts.
func (s *Store) PruneReceipts(ctx context.Context, t time.Time) (sessions int, err error) {
	for {
		n := 0
		err := s.inTx(ctx, "prune receipts", func(ctx context.Context, tx *txn) error {
			const old = `SELECT id FROM receipt_sessions WHERE expires < ? ORDER BY expires, id LIMIT ?`
			if _, err := tx.ExecContext(ctx, `DELETE FROM receipts WHERE session IN (`+old+`)`, micros(t), pruneSessions); err != nil {
				return err
			}
			res, err := tx.ExecContext(ctx, `DELETE FROM receipt_sessions WHERE id IN (`+old+`)`, micros(t), pruneSessions)
			if err != nil {
				return err
			}
			gone, err := res.RowsAffected()
			n = int(gone)
			return err
		})
		if sessions += n; err != nil || n < pruneSessions {
			return sessions, err
		}
	}
}

const proofColumns = `num, id, kind, culprit, session, hop, text, found, owner, lifted, forfeited, note`

// scanProof reads proofColumns and what follows them.
func scanProof(row interface{ Scan(...any) error }, more ...any) (store.Proof, error) {
	var p store.Proof
	var id []byte
	var found, lifted, forfeited int64
	err := row.Scan(append([]any{&p.Num, &id, &p.Kind, &p.Culprit, &p.Session, &p.Hop, &p.Text, &found, &p.Owner, &lifted, &forfeited, &p.Note}, more...)...)
	copy(p.ID[:], id)
	p.Found, p.Lifted, p.Forfeited = fromMicros(found), fromMicros(lifted), fromMicros(forfeited)
	return p, err
}

// Proof implements store.Receipts.
func (s *Store) Proof(ctx context.Context, id protocol.Hash) (store.Proof, error) {
	var file []byte
	p, err := scanProof(s.read.QueryRowContext(ctx, `SELECT `+proofColumns+`, file FROM proofs WHERE id = ?`, id[:]), &file)
	if errors.Is(err, sql.ErrNoRows) {
		return p, noProof(id)
	}
	p.File = file
	return p, s.wrap("find a proof", err)
}

func noProof(id protocol.Hash) error {
	return protocol.Errorf(protocol.CodeNotFound, "there is no proof %s", id)
}

// Proofs implements store.Receipts.
func (s *Store) Proofs(ctx context.Context, before int64, limit int) ([]store.Proof, error) {
	return s.proofs(ctx, `WHERE (num < ? OR ? <= 0) ORDER BY num DESC LIMIT ?`, before, before, limit)
}

// StandingProofs implements store.Receipts.
func (s *Store) StandingProofs(ctx context.Context) ([]store.Proof, error) {
	return s.proofs(ctx, `WHERE lifted = 0 ORDER BY num`)
}

func (s *Store) proofs(ctx context.Context, where string, args ...any) ([]store.Proof, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT `+proofColumns+` FROM proofs `+where, args...)
	if err != nil {
		return nil, s.wrap("list proofs", err)
	}
	defer rows.Close()
	var out []store.Proof
	for rows.Next() {
		p, err := scanProof(rows)
		if err != nil {
			return nil, s.wrap("list proofs", err)
		}
		out = append(out, p)
	}
	return out, s.wrap("list proofs", rows.Err())
}

// SetProof implements store.Receipts.
func (s *Store) SetProof(ctx context.Context, p store.Proof) error {
	return s.inTx(ctx, "change a proof", func(ctx context.Context, tx *txn) error {
		res, err := tx.ExecContext(ctx, `UPDATE proofs SET lifted = ?, forfeited = ?, note = ? WHERE id = ?`,
			micros(p.Lifted), micros(p.Forfeited), p.Note, p.ID[:])
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return noProof(p.ID)
		}
		return nil
	})
}
