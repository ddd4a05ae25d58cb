package sqlite

import (
	"context"
	"encoding/json"
	"math"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// AddAudits implements store.Audits.
func (s *Store) AddAudits(ctx context.Context, as []store.Audit) error {
	return s.inTx(ctx, "store audits", func(ctx context.Context, tx *txn) error {
		for _, a := range as {
			class, err := json.Marshal(a.Class)
			if err != nil {
				return protocol.Errorf(protocol.CodeInternal, "encode a class: %w", err)
			}
			measures := []byte{}
			if a.Measures != nil {
				if measures, err = json.Marshal(a.Measures); err != nil {
					return protocol.Errorf(protocol.CodeInternal, "encode measures: %w", err)
				}
			}
			errJSON, code, err := encodeError(a.Error)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO audits
				(id, session, model, name, hop, first, last, node, auditor, begun, ended, class, measures, code, error)
				VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?) ON CONFLICT (id) DO NOTHING`,
				string(a.Audit), string(a.Session), string(a.Model), a.Name, a.Hop, a.Use.First, a.Use.Last, string(a.Node), string(a.Auditor),
				micros(a.Begun), micros(a.Ended), string(class), string(measures), code, errJSON); err != nil {
				return err
			}
		}
		return nil
	})
}

// Audits implements store.Audits.
func (s *Store) Audits(ctx context.Context, before time.Time, limit int) ([]store.Audit, error) {
	end := int64(math.MaxInt64)
	if !before.IsZero() {
		end = micros(before)
	}
	rows, err := s.read.QueryContext(ctx, `SELECT id, session, model, name, hop, first, last, node, auditor, begun, ended, class, measures, error
		FROM audits WHERE ended < ? ORDER BY ended DESC, id LIMIT ?`, end, limit)
	if err != nil {
		return nil, s.wrap("list audits", err)
	}
	defer rows.Close()
	var out []store.Audit
	for rows.Next() {
		var a store.Audit
		var begun, ended int64
		var class, measures, errJSON string
		if err := rows.Scan(&a.Audit, &a.Session, &a.Model, &a.Name, &a.Hop, &a.Use.First, &a.Use.Last, &a.Node, &a.Auditor,
			&begun, &ended, &class, &measures, &errJSON); err != nil {
			return nil, s.wrap("list audits", err)
		}
		a.Begun, a.Ended = fromMicros(begun), fromMicros(ended)
		for _, f := range []struct {
			text string
			to   any
		}{{class, &a.Class}, {measures, &a.Measures}, {errJSON, &a.Error}} {
			if f.text == "" {
				continue
			}
			if err := json.Unmarshal([]byte(f.text), f.to); err != nil {
				return nil, protocol.Errorf(protocol.CodeInternal, "decode a stored audit: %w", err)
			}
		}
		out = append(out, a)
	}
	return out, s.wrap("list audits", rows.Err())
}
