// Package sessions is the life of route sessions in the tracker: lease,
// phase, telemetry, and why a session ended.
//
// It is a pure state machine like the registry: time comes in as an argument,
// nothing is read or written, the server guards it and is the only importer.
// It knows no websocket, no store and no cost of a route.
package sessions

import (
	"cmp"
	"slices"
	"time"

	"neuron/engine/protocol"
)

// Config holds the times after which a session is given up.
type Config struct {
	// DriverGrace is how long a driver's connection may be lost.
	DriverGrace time.Duration
	// RestartGrace replaces it for sessions that were found at the start,
	// since all drivers come back at once then.
	RestartGrace time.Duration
	// StartWithin bounds the time from the lease to the first telemetry.
	StartWithin time.Duration
	// Silence bounds the time between two snapshots of telemetry.
	Silence time.Duration
	// MaxPerDriver and MaxLive bound the sessions that live at one time.
	MaxPerDriver, MaxLive int
}

// DefaultConfig holds the times of production.
func DefaultConfig() Config {
	return Config{
		DriverGrace: 30 * time.Second, RestartGrace: 60 * time.Second, StartWithin: 60 * time.Second,
		Silence: 10 * time.Minute, MaxPerDriver: 256, MaxLive: 100_000,
	}
}

// keepEnded is how many ended sessions stay in memory for the status page and
// for drivers that have not heard of the end; the store has them all.
const keepEnded = 200

// Session is one route session. Values handed out are copies; Lease, Signed,
// KVBytes and Telemetry.Route are shared and never changed.
type Session struct {
	Lease  *protocol.Lease
	Signed *protocol.SignedLease
	Name   string // the model's display name
	// CostMicros is the expected time per token when the route was chosen.
	CostMicros int64
	// KVBytes is what each hop reserves, as the route was chosen.
	KVBytes   []int64
	Phase     protocol.Phase
	Telemetry protocol.Telemetry
	Updated   time.Time
	// Given says that the lease is stored, so that the driver may have it.
	Given bool
	// End is set once the session has ended.
	End *End
}

// End says why a session is over.
type End struct {
	At     time.Time             `json:"at"`
	Finish protocol.FinishReason `json:"finish_reason"`
	Error  *protocol.Error       `json:"error,omitempty"`
}

// ByDriver is the detail of an end's error that says that the gateway fell
// silent, or let its lease run out: no hop failed.
const ByDriver = "by_driver"

// Table holds the live sessions and the newest ended ones.
type Table struct {
	cfg      Config
	live     map[protocol.SessionID]*entry
	byDriver map[protocol.NodeID]map[protocol.SessionID]*entry
	ended    []*entry // oldest first, at most keepEnded
	// lost holds, per driver without a connection, when its sessions end.
	lost map[protocol.NodeID]time.Time
}

type entry struct {
	Session
	heard bool // telemetry has come
}

// New makes an empty table.
func New(cfg Config) *Table {
	return &Table{
		cfg:      cfg,
		live:     make(map[protocol.SessionID]*entry),
		byDriver: make(map[protocol.NodeID]map[protocol.SessionID]*entry),
		lost:     make(map[protocol.NodeID]time.Time),
	}
}

// CheckNew says whether driver may start the session id: session_exists,
// rate_limited.
func (t *Table) CheckNew(id protocol.SessionID, driver protocol.NodeID) error {
	if t.find(id) != nil {
		return protocol.Errorf(protocol.CodeSessionExists, "session %s exists already", string(id))
	}
	if len(t.byDriver[driver]) >= t.cfg.MaxPerDriver || len(t.live) >= t.cfg.MaxLive {
		return protocol.Errorf(protocol.CodeRateLimited, "too many sessions run at one time")
	}
	return nil
}

// Add starts a session that CheckNew allowed.
func (t *Table) Add(s Session) {
	t.insert(&entry{Session: s})
}

// Given notes that a session's lease is stored.
func (t *Table) Given(id protocol.SessionID) {
	if e := t.find(id); e != nil {
		e.Given = true
	}
}

// Restore takes back a live session of an earlier run. Its driver counts as
// lost until it connects.
func (t *Table) Restore(now time.Time, s Session) {
	s.Updated, s.Given = now, true
	t.insert(&entry{Session: s, heard: s.Telemetry.Seq > 0})
	t.lost[s.Lease.Driver] = now.Add(t.cfg.RestartGrace)
}

func (t *Table) insert(e *entry) {
	id, driver := e.Lease.Session, e.Lease.Driver
	t.live[id] = e
	if t.byDriver[driver] == nil {
		t.byDriver[driver] = make(map[protocol.SessionID]*entry)
	}
	t.byDriver[driver][id] = e
}

// Forget removes a session that never became valid (its lease could not be
// stored).
func (t *Table) Forget(id protocol.SessionID) {
	if e := t.live[id]; e != nil {
		t.remove(e)
	}
}

func (t *Table) remove(e *entry) {
	id, driver := e.Lease.Session, e.Lease.Driver
	delete(t.live, id)
	delete(t.byDriver[driver], id)
	if len(t.byDriver[driver]) == 0 {
		delete(t.byDriver, driver)
		delete(t.lost, driver)
	}
}

func (t *Table) find(id protocol.SessionID) *entry {
	if e := t.live[id]; e != nil {
		return e
	}
	for _, e := range t.ended {
		if e.Lease.Session == id {
			return e
		}
	}
	return nil
}

// Get finds a live or recently ended session.
func (t *Table) Get(id protocol.SessionID) (Session, bool) {
	if e := t.find(id); e != nil {
		return e.Session, true
	}
	return Session{}, false
}

// DriverConnected ends the grace of a driver.
func (t *Table) DriverConnected(driver protocol.NodeID) { delete(t.lost, driver) }

// DriverLost starts the grace of a driver whose last connection is gone.
func (t *Table) DriverLost(now time.Time, driver protocol.NodeID) {
	if len(t.byDriver[driver]) > 0 {
		t.lost[driver] = now.Add(t.cfg.DriverGrace)
	}
}

// Sweep ends the sessions whose driver is gone, whose lease is over, or that
// are silent, and returns them.
func (t *Table) Sweep(now time.Time) []Session {
	var out []Session
	for _, e := range t.live {
		var err *protocol.Error
		until, lost := t.lost[e.Lease.Driver]
		switch {
		case now.After(e.Lease.Expires):
			err = protocol.Errorf(protocol.CodeLeaseExpired, "the session's lease is over")
		case lost && !now.Before(until):
			err = protocol.Errorf(protocol.CodeUnavailable, "the gateway that drives the session lost its connection to the tracker")
		case !e.heard && now.Sub(e.Updated) > t.cfg.StartWithin:
			err = protocol.Errorf(protocol.CodeTimeout, "the session never started")
		case now.Sub(e.Updated) > t.cfg.Silence:
			err = protocol.Errorf(protocol.CodeTimeout, "the session gave no sign of life for %s", t.cfg.Silence)
		default:
			continue
		}
		out = append(out, t.end(now, e, protocol.FinishError, err.InPhase(e.Phase).With(ByDriver, "true")))
	}
	slices.SortFunc(out, func(a, b Session) int { return cmp.Compare(a.Lease.Session, b.Lease.Session) })
	return out
}

// end moves an entry to the ended ones.
func (t *Table) end(now time.Time, e *entry, finish protocol.FinishReason, err *protocol.Error) Session {
	t.remove(e)
	e.End = &End{At: now, Finish: finish, Error: err}
	if !e.Phase.Ended() {
		e.Phase = protocol.PhaseFailed
	}
	e.Updated = now
	t.ended = append(t.ended, e)
	if len(t.ended) > keepEnded {
		t.ended = slices.Delete(t.ended, 0, len(t.ended)-keepEnded)
	}
	return e.Session
}

// List returns all live sessions and the newest ended ones, newest lease
// first.
func (t *Table) List() []Session {
	out := make([]Session, 0, len(t.live)+len(t.ended))
	for _, e := range t.live {
		out = append(out, e.Session)
	}
	for _, e := range t.ended {
		out = append(out, e.Session)
	}
	slices.SortFunc(out, func(a, b Session) int {
		return cmp.Or(b.Lease.Issued.Compare(a.Lease.Issued), cmp.Compare(a.Lease.Session, b.Lease.Session))
	})
	return out
}

// Live is the number of live sessions per phase.
func (t *Table) Live() map[protocol.Phase]int {
	out := map[protocol.Phase]int{
		protocol.PhaseQueued: 0, protocol.PhaseRouting: 0, protocol.PhaseOpening: 0, protocol.PhasePrefill: 0, protocol.PhaseDecode: 0,
	}
	for _, e := range t.live {
		out[e.Phase]++
	}
	return out
}
