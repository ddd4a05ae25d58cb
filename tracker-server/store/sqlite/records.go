package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite/direct"
)

var _ store.Store = (*Store)(nil)

// micros and fromMicros keep the zero time as 0.
func micros(t time.Time) int64 {
	if t.IsZero() {
		return 0
	}
	return t.UnixMicro()
}

func fromMicros(us int64) time.Time {
	if us == 0 {
		return time.Time{}
	}
	return time.UnixMicro(us).UTC()
}

// NodeConnected implements store.Store.
func (s *Store) NodeConnected(ctx context.Context, n store.Node) (epoch uint64, err error) {
	err = s.inTx(ctx, "record a node", func(ctx context.Context, tx *txn) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO nodes (id, role, addr, host, engine, llama, first_seen, last_seen)
			VALUES (?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (id) DO UPDATE SET role = excluded.role, addr = excluded.addr, host = excluded.host,
				engine = excluded.engine, llama = excluded.llama, last_seen = excluded.last_seen`,
			string(n.ID), string(n.Role), n.Addr, n.Host, n.Engine, n.Llama, micros(n.LastSeen), micros(n.LastSeen))
		if err != nil {
			return err
		}
		return tx.QueryRowContext(ctx, `INSERT INTO epochs (node, epoch)
			VALUES (?, (SELECT COALESCE(MAX(epoch), 0) + 1 FROM epochs WHERE node = ''))
			ON CONFLICT (node) DO UPDATE SET epoch = epochs.epoch + 1
			RETURNING epoch`, string(n.ID)).Scan(&epoch)
	})
	return epoch, err
}

// Nodes implements store.Store.
func (s *Store) Nodes(ctx context.Context, limit int) ([]store.Node, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT n.id, n.role, n.addr, n.host, n.engine, n.llama, n.first_seen, n.last_seen, e.epoch
		FROM nodes n JOIN epochs e ON e.node = n.id ORDER BY n.last_seen DESC, n.id LIMIT ?`, limit)
	if err != nil {
		return nil, s.wrap("list nodes", err)
	}
	defer rows.Close()
	var out []store.Node
	for rows.Next() {
		var n store.Node
		var first, last int64
		if err := rows.Scan(&n.ID, &n.Role, &n.Addr, &n.Host, &n.Engine, &n.Llama, &first, &last, &n.Epoch); err != nil {
			return nil, s.wrap("list nodes", err)
		}
		n.FirstSeen, n.LastSeen = fromMicros(first), fromMicros(last)
		out = append(out, n)
	}
	return out, s.wrap("list nodes", rows.Err())
}

// AddSession implements store.Store.
func (s *Store) AddSession(ctx context.Context, x store.Session) error {
	errJSON, code, err := encodeError(x.Error)
	if err != nil {
		return err
	}
	kv, err := json.Marshal(x.KVBytes)
	if err != nil {
		return protocol.Errorf(protocol.CodeInternal, "encode KV bytes: %w", err)
	}
	return s.inTx(ctx, "store a session", func(ctx context.Context, tx *txn) error {
		res, err := tx.ExecContext(ctx, `INSERT INTO sessions
		(id, driver, model, name, lease, cost_us, kv_bytes, issued, phase, telemetry, ended, finish, end_code, error)
		VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
			string(x.ID), string(x.Driver), string(x.Model), x.Name, string(x.Lease), x.CostMicros, string(kv), micros(x.Issued),
			string(x.Phase), string(x.Telemetry), micros(x.Ended), string(x.Finish), code, errJSON)
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return protocol.Errorf(protocol.CodeSessionExists, "session %s exists already", string(x.ID))
		}
		return nil
	})
}

// UpdateSessions implements store.Store.
func (s *Store) UpdateSessions(ctx context.Context, xs []store.Session) error {
	return s.inTx(ctx, "store sessions", func(ctx context.Context, tx *txn) error {
		for _, x := range xs {
			errJSON, code, err := encodeError(x.Error)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `UPDATE sessions SET phase = ?, telemetry = ?, ended = ?, finish = ?, end_code = ?, error = ?
				WHERE id = ? AND ended = 0`,
				string(x.Phase), string(x.Telemetry), micros(x.Ended), string(x.Finish), code, errJSON, string(x.ID)); err != nil {
				return err
			}
		}
		return nil
	})
}

func encodeError(e *protocol.Error) (text, code string, err error) {
	if e == nil {
		return "", "", nil
	}
	raw, err := json.Marshal(e)
	if err != nil {
		return "", "", protocol.Errorf(protocol.CodeInternal, "encode an end reason: %w", err)
	}
	return string(raw), string(e.Code), nil
}

const sessionColumns = `id, driver, model, name, lease, cost_us, kv_bytes, issued, phase, telemetry, ended, finish, error`

// LiveSessions implements store.Store.
func (s *Store) LiveSessions(ctx context.Context) ([]store.Session, error) {
	return s.sessions(ctx, `SELECT `+sessionColumns+` FROM sessions WHERE ended = 0 ORDER BY issued, id`)
}

// Sessions implements store.Store.
func (s *Store) Sessions(ctx context.Context, limit int) ([]store.Session, error) {
	return s.sessions(ctx, `SELECT `+sessionColumns+` FROM sessions ORDER BY issued DESC, id LIMIT ?`, limit)
}

func (s *Store) sessions(ctx context.Context, query string, args ...any) ([]store.Session, error) {
	rows, err := s.read.QueryContext(ctx, query, args...)
	if err != nil {
		return nil, s.wrap("list sessions", err)
	}
	defer rows.Close()
	var out []store.Session
	for rows.Next() {
		x, err := scanSession(rows)
		if err != nil {
			return nil, s.wrap("list sessions", err)
		}
		out = append(out, x)
	}
	return out, s.wrap("list sessions", rows.Err())
}

// Session implements store.Store.
func (s *Store) Session(ctx context.Context, id protocol.SessionID) (store.Session, error) {
	var x store.Session
	err := s.view(ctx, func(c *direct.Conn) (err error) {
		x, err = scanSession(c.QueryRowContext(ctx, `SELECT `+sessionColumns+` FROM sessions WHERE id = ?`, string(id)))
		return err
	})
	if errors.Is(err, sql.ErrNoRows) {
		return x, protocol.Errorf(protocol.CodeNotFound, "session %.40s is not known", string(id))
	}
	return x, s.wrap("find a session", err)
}

func scanSession(row interface{ Scan(...any) error }) (store.Session, error) {
	var x store.Session
	var lease, kv, telemetry, errJSON string
	var issued, ended int64
	if err := row.Scan(&x.ID, &x.Driver, &x.Model, &x.Name, &lease, &x.CostMicros, &kv, &issued, &x.Phase, &telemetry, &ended, &x.Finish, &errJSON); err != nil {
		return x, err
	}
	if err := json.Unmarshal([]byte(kv), &x.KVBytes); err != nil {
		return x, err
	}
	x.Lease, x.Issued, x.Ended = json.RawMessage(lease), fromMicros(issued), fromMicros(ended)
	if telemetry != "" {
		x.Telemetry = json.RawMessage(telemetry)
	}
	if errJSON != "" {
		if err := json.Unmarshal([]byte(errJSON), &x.Error); err != nil {
			return x, err
		}
	}
	return x, nil
}

// Prune implements store.Store. The epochs of forgotten nodes live on in the
// row of node "": whoever returns starts above all of them.
func (s *Store) Prune(ctx context.Context, t time.Time) error {
	return s.inTx(ctx, "prune", func(ctx context.Context, tx *txn) error {
		old := `node IN (SELECT id FROM nodes WHERE last_seen < ?)`
		for _, q := range []string{
			`INSERT INTO epochs (node, epoch) SELECT '', MAX(epoch) FROM epochs WHERE node = '' OR ` + old + ` HAVING COUNT(*) > 0
				ON CONFLICT (node) DO UPDATE SET epoch = excluded.epoch`,
			`DELETE FROM epochs WHERE ` + old,
			`DELETE FROM nodes WHERE last_seen < ?`,
			`DELETE FROM sessions WHERE ended > 0 AND ended < ?`,
			`DELETE FROM audits WHERE ended < ?`,
		} {
			if _, err := tx.ExecContext(ctx, q, micros(t)); err != nil {
				return err
			}
		}
		return nil
	})
}
