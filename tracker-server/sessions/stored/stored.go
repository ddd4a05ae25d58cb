// Package stored translates between the two forms of a session: the one that
// lives (package sessions) and the one that survives a restart (package store).
// It is pure; the tracker's server and its billing import it.
package stored

import (
	"encoding/json"

	"neuron/engine/protocol"
	"neuron/tracker-server/sessions"
	"neuron/tracker-server/store"
)

// To makes the record of a session.
func To(s sessions.Session) (store.Session, error) {
	lease, err := json.Marshal(s.Signed)
	if err != nil {
		return store.Session{}, protocol.Errorf(protocol.CodeInternal, "encode a lease: %w", err)
	}
	out := store.Session{
		ID: s.Lease.Session, Driver: s.Lease.Driver, Model: s.Lease.Model, Name: s.Name, Lease: lease,
		CostMicros: s.CostMicros, KVBytes: s.KVBytes, Issued: s.Lease.Issued, Phase: s.Phase,
	}
	if s.Telemetry.Seq > 0 {
		if out.Telemetry, err = json.Marshal(s.Telemetry); err != nil {
			return out, protocol.Errorf(protocol.CodeInternal, "encode telemetry: %w", err)
		}
	}
	if s.End != nil {
		out.Ended, out.Finish, out.Error = s.End.At, s.End.Finish, s.End.Error
	}
	return out, nil
}

// From reads a record back; code: internal.
func From(rec store.Session) (sessions.Session, error) {
	out := sessions.Session{Name: rec.Name, CostMicros: rec.CostMicros, KVBytes: rec.KVBytes, Phase: rec.Phase, Updated: rec.Issued}
	if err := json.Unmarshal(rec.Lease, &out.Signed); err != nil {
		return out, protocol.Errorf(protocol.CodeInternal, "decode a stored lease: %w", err)
	}
	if out.Signed == nil {
		return out, protocol.Errorf(protocol.CodeInternal, "a stored session has no lease")
	}
	if err := json.Unmarshal(out.Signed.Lease, &out.Lease); err != nil {
		return out, protocol.Errorf(protocol.CodeInternal, "decode a stored lease: %w", err)
	}
	if out.Lease == nil || len(out.KVBytes) != len(out.Lease.Hops) {
		return out, protocol.Errorf(protocol.CodeInternal, "a stored session's lease and KV bytes do not agree")
	}
	if rec.Telemetry != nil {
		if err := json.Unmarshal(rec.Telemetry, &out.Telemetry); err != nil {
			return out, protocol.Errorf(protocol.CodeInternal, "decode stored telemetry: %w", err)
		}
	}
	if !rec.Ended.IsZero() {
		out.End = &sessions.End{At: rec.Ended, Finish: rec.Finish, Error: rec.Error}
	}
	return out, nil
}
