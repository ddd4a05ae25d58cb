package sqlite

import (
	"context"

	"neuron/tracker-server/standing"
	"neuron/tracker-server/store"
)

// SetStanding implements store.Operator.
func (s *Store) SetStanding(ctx context.Context, r standing.Record, e store.LogEntry) (seq int64, err error) {
	err = s.inTx(ctx, "store a standing", func(ctx context.Context, tx *txn) error {
		if _, err := tx.ExecContext(ctx, `DELETE FROM standing WHERE kind = ? AND id = ?`, string(r.Kind), r.ID); err != nil {
			return err
		}
		if r.State() != standing.StateUnknown {
			a, b, d := r.Approved, r.Banned, r.Drained
			_, err := tx.ExecContext(ctx, `INSERT INTO standing (kind, id, approved, approved_by, approved_reason,
				banned, banned_by, banned_reason, drained, drained_by, drained_reason) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)`,
				string(r.Kind), r.ID, micros(a.At), a.By, a.Reason, micros(b.At), b.By, b.Reason, micros(d.At), d.By, d.Reason)
			if err != nil {
				return err
			}
		}
		seq, err = appendLog(ctx, tx, &e)
		return err
	})
	return seq, err
}

// Standings implements store.Operator.
func (s *Store) Standings(ctx context.Context) ([]standing.Record, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT kind, id, approved, approved_by, approved_reason, banned, banned_by, banned_reason,
		drained, drained_by, drained_reason FROM standing ORDER BY kind, id`)
	if err != nil {
		return nil, s.wrap("list standings", err)
	}
	defer rows.Close()
	var out []standing.Record
	for rows.Next() {
		var r standing.Record
		var a, b, d int64
		if err := rows.Scan(&r.Kind, &r.ID, &a, &r.Approved.By, &r.Approved.Reason, &b, &r.Banned.By, &r.Banned.Reason,
			&d, &r.Drained.By, &r.Drained.Reason); err != nil {
			return nil, s.wrap("list standings", err)
		}
		r.Approved.At, r.Banned.At, r.Drained.At = fromMicros(a), fromMicros(b), fromMicros(d)
		out = append(out, r)
	}
	return out, s.wrap("list standings", rows.Err())
}

// AppendLog implements store.Operator.
func (s *Store) AppendLog(ctx context.Context, e store.LogEntry) (seq int64, err error) {
	err = s.inTx(ctx, "append to the operator's log", func(ctx context.Context, tx *txn) error {
		seq, err = appendLog(ctx, tx, &e)
		return err
	})
	return seq, err
}

// appendLog gives an entry its number. Transactions take the write lock at
// their start, so numbers follow each other.
func appendLog(ctx context.Context, tx *txn, e *store.LogEntry) (seq int64, err error) {
	if err := e.Check(); err != nil {
		return 0, err
	}
	err = tx.QueryRowContext(ctx, `INSERT INTO operator_log (seq, at, who, action, subject, reason, detail, failed)
		VALUES ((SELECT COALESCE(MAX(seq), 0) + 1 FROM operator_log), ?, ?, ?, ?, ?, ?, ?) RETURNING seq`,
		micros(e.At), e.By, e.Action, e.Subject, e.Reason, e.Detail, e.Failed).Scan(&seq)
	return seq, err
}

// OperatorLog implements store.Operator.
func (s *Store) OperatorLog(ctx context.Context, subject string, before int64, limit int) ([]store.LogEntry, error) {
	query, args := `SELECT seq, at, who, action, subject, reason, detail, failed FROM operator_log WHERE (? = 0 OR seq < ?)`, []any{before, before}
	if subject != "" {
		query, args = query+` AND subject = ?`, append(args, subject)
	}
	rows, err := s.read.QueryContext(ctx, query+` ORDER BY seq DESC LIMIT ?`, append(args, limit)...)
	if err != nil {
		return nil, s.wrap("read the operator's log", err)
	}
	defer rows.Close()
	var out []store.LogEntry
	for rows.Next() {
		var e store.LogEntry
		var at int64
		if err := rows.Scan(&e.Seq, &at, &e.By, &e.Action, &e.Subject, &e.Reason, &e.Detail, &e.Failed); err != nil {
			return nil, s.wrap("read the operator's log", err)
		}
		e.At = fromMicros(at)
		out = append(out, e)
	}
	return out, s.wrap("read the operator's log", rows.Err())
}
