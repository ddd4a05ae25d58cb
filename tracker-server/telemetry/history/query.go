package history

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/telemetry"
)

// History implements telemetry.Store.
func (f *File) History(ctx context.Context, id protocol.SessionID) (*telemetry.History, error) {
	h := &telemetry.History{Session: id, Phases: []telemetry.PhaseAt{}, Samples: []telemetry.Sample{}}
	var n int64
	var finish, code sql.NullString
	var hop sql.NullInt64
	err := f.read.QueryRowContext(ctx, "SELECT n, model, name, private, finish, code, hop FROM session WHERE id = ?", id).
		Scan(&n, &h.Model, &h.Name, &h.Private, &finish, &code, &hop)
	if errors.Is(err, sql.ErrNoRows) {
		return nil, nil
	}
	if err != nil {
		return nil, f.wrap("read a session", err)
	}
	if finish.Valid {
		h.End = &telemetry.End{Finish: protocol.FinishReason(finish.String), Code: protocol.Code(code.String)}
		if hop.Valid {
			at := int(hop.Int64)
			h.End.Hop = &at
		}
	}
	err = f.each(ctx, "SELECT at, phase FROM phase WHERE session = ? ORDER BY at", []any{n}, func(rows *sql.Rows) error {
		var p telemetry.PhaseAt
		var at int64
		if err := rows.Scan(&at, &p.Phase); err != nil {
			return err
		}
		p.At = when(at)
		h.Phases = append(h.Phases, p)
		return nil
	})
	if err != nil {
		return nil, err
	}
	err = f.each(ctx, `SELECT at, phase, prefill_done, prefill_total, tokens, rate, first_us, hops FROM sample WHERE session = ? ORDER BY at LIMIT ?`,
		[]any{n, maxSamples}, func(rows *sql.Rows) error {
			var s telemetry.Sample
			var at, first int64
			var hops []byte
			if err := rows.Scan(&at, &s.Phase, &s.PrefillDone, &s.PrefillTotal, &s.Tokens, &s.TokensPerSecond, &first, &hops); err != nil {
				return err
			}
			s.At, s.FirstTokenMs, s.Hops = when(at), float64(first)/1000, []telemetry.Hop{}
			if err := json.Unmarshal(hops, &s.Hops); err != nil {
				return err
			}
			h.Samples = append(h.Samples, s)
			return nil
		})
	if err != nil {
		return nil, err
	}
	return h, nil
}

// Minutes implements telemetry.Store.
func (f *File) Minutes(ctx context.Context, from, to time.Time) ([]telemetry.Figures, error) {
	var out []telemetry.Figures
	err := f.each(ctx, "SELECT at, tokens, prefill, started, ended, failed, nodes, credit, dropped FROM minute WHERE at >= ? AND at < ? ORDER BY at",
		[]any{from.UnixMicro(), to.UnixMicro()}, func(rows *sql.Rows) error {
			m := telemetry.Figures{Measured: 1}
			var at int64
			if err := rows.Scan(&at, &m.Tokens, &m.Prefill, &m.Started, &m.Ended, &m.Failed, &m.Nodes, &m.Credit, &m.Dropped); err != nil {
				return err
			}
			m.At = when(at)
			out = append(out, m)
			return nil
		})
	return out, err
}

func when(us int64) time.Time { return time.UnixMicro(us).UTC() }

func (f *File) each(ctx context.Context, text string, args []any, row func(*sql.Rows) error) error {
	rows, err := f.read.QueryContext(ctx, text, args...)
	if err != nil {
		return f.wrap("read", err)
	}
	defer rows.Close()
	for rows.Next() {
		if err := row(rows); err != nil {
			return f.wrap("read", err)
		}
	}
	if err := rows.Err(); err != nil {
		return f.wrap("read", err)
	}
	return nil
}
