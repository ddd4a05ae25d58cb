package sessions

import (
	"math"
	"time"

	"neuron/engine/protocol"
)

// Change is what an event did to a session.
type Change struct {
	Session Session
	// Ignored: the snapshot was older than what is known; nothing changed.
	Ignored bool
	// PhaseChanged is true for the first snapshot of a phase.
	PhaseChanged bool
	// Opened is true when this is the first snapshot from which all hops must
	// be open.
	Opened bool
	// Ended is true when the session ended by this event.
	Ended bool
}

// rank orders the phases; a session never goes back.
var rank = map[protocol.Phase]int{
	protocol.PhaseQueued: 1, protocol.PhaseRouting: 2, protocol.PhaseOpening: 3, protocol.PhasePrefill: 4,
	protocol.PhaseDecode: 5, protocol.PhaseDone: 6, protocol.PhaseFailed: 6,
}

// Update takes a snapshot from the driver; tel must have passed
// CheckTelemetry. Errors: session_unknown, forbidden (another driver's
// session), and an *EndedError when the session has ended already.
func (t *Table) Update(now time.Time, driver protocol.NodeID, tel *protocol.Telemetry) (Change, error) {
	e := t.find(tel.Session)
	if e == nil {
		return Change{}, protocol.Errorf(protocol.CodeSessionUnknown, "session %s is not known", string(tel.Session))
	}
	if e.Lease.Driver != driver {
		return Change{}, protocol.Errorf(protocol.CodeForbidden, "session %s belongs to another gateway", string(tel.Session))
	}
	if e.End != nil {
		if tel.Phase.Ended() {
			return Change{Session: e.Session, Ignored: true}, nil
		}
		return Change{}, &EndedError{End: *e.End}
	}
	if e.heard && tel.Seq <= e.Telemetry.Seq || rank[tel.Phase] < rank[e.Phase] {
		return Change{Session: e.Session, Ignored: true}, nil
	}
	if err := matchRoute(e.Lease, tel.Route); err != nil {
		return Change{}, err
	}
	c := Change{
		PhaseChanged: tel.Phase != e.Phase,
		Opened:       rank[tel.Phase] >= rank[protocol.PhasePrefill] && rank[e.Phase] < rank[protocol.PhasePrefill],
	}
	e.Telemetry, e.Phase, e.Updated, e.heard = *tel, tel.Phase, now, true
	if tel.Phase.Ended() {
		finish, err := tel.Finish, tel.Error
		if tel.Phase == protocol.PhaseFailed {
			if finish == "" {
				finish = protocol.FinishError
			}
			if err == nil && finish == protocol.FinishError {
				err = protocol.Errorf(protocol.CodeInternal, "the gateway gave no reason")
			}
		}
		c.Ended = true
		c.Session = t.end(now, e, finish, err)
		return c, nil
	}
	c.Session = e.Session
	return c, nil
}

// HopFailed ends a session because from blames a hop. Only the driver and the
// hops of the lease may do so. Errors: session_unknown, forbidden.
func (t *Table) HopFailed(now time.Time, from protocol.NodeID, h *protocol.HopFailed) (Change, error) {
	e := t.find(h.Session)
	if e == nil {
		return Change{}, protocol.Errorf(protocol.CodeSessionUnknown, "session %s is not known", string(h.Session))
	}
	_, isHop := e.Lease.HopOf(from)
	if !isHop && e.Lease.Driver != from {
		return Change{}, protocol.Errorf(protocol.CodeForbidden, "session %s does not run on this node", string(h.Session))
	}
	at, ok := e.Lease.HopOf(h.Node)
	if !ok {
		return Change{}, protocol.Errorf(protocol.CodeForbidden, "the blamed node is no hop of session %s", string(h.Session))
	}
	if e.End != nil { // both neighbours report: the first one was believed
		return Change{Session: e.Session, Ignored: true}, nil
	}
	err := h.Error
	if err == nil {
		err = protocol.Errorf(protocol.CodeHopLost, "the connection to node %s broke", h.Node.Short())
	}
	return Change{Ended: true, Session: t.end(now, e, protocol.FinishError, err.AtHop(at).InPhase(e.Phase))}, nil
}

// EndedError says that the session ended before the event.
type EndedError struct{ End End }

func (e *EndedError) Error() string { return "the session has ended" }

// matchRoute makes sure that the hops of a snapshot are those of the lease.
func matchRoute(l *protocol.Lease, route []protocol.HopTelemetry) error {
	for _, h := range route {
		if h.Hop < 0 || h.Hop >= len(l.Hops) || l.Hops[h.Hop].Node != h.Node || l.Hops[h.Hop].Use != h.Use {
			return protocol.Errorf(protocol.CodeInvalidRequest, "the snapshot names a hop that is not in the lease")
		}
	}
	return nil
}

// CheckTelemetry checks all figures of a snapshot; t is hostile.
func CheckTelemetry(t *protocol.Telemetry) error {
	bad := func(format string, args ...any) error {
		return protocol.Errorf(protocol.CodeInvalidRequest, format, args...)
	}
	if _, err := protocol.ParseSessionID(string(t.Session)); err != nil {
		return err
	}
	if rank[t.Phase] == 0 {
		return bad("unknown phase %.32q", string(t.Phase))
	}
	if t.Seq == 0 {
		return bad("snapshots count from 1")
	}
	if len(t.Request) > 128 || len(t.Name) > 256 || len(t.Finish) > 32 || len(t.Model) > 64 {
		return bad("a text of the snapshot is too long")
	}
	for _, n := range []int{t.QueuePosition, t.PrefillDone, t.PrefillTotal, t.Tokens, t.Drafted, t.Accepted} {
		if n < 0 || n > 1<<30 {
			return bad("count %d out of range", n)
		}
	}
	for _, f := range []float64{t.TokensPerSecond, t.FirstTokenMillis, t.ElapsedMillis} {
		if math.IsNaN(f) || f < 0 || f > 1e12 {
			return bad("figure %g out of range", f)
		}
	}
	if len(t.Route) > protocol.MaxHops {
		return bad("%d hops", len(t.Route))
	}
	for i := range t.Route {
		h := &t.Route[i]
		if h.Health != "" && h.Health != protocol.HealthOK && h.Health != protocol.HealthSlow && h.Health != protocol.HealthLost {
			return bad("unknown health %.32q", h.Health)
		}
		c := h.Counters
		for _, n := range []int64{
			c.PrefillRows, c.PrefillChunks, c.DecodeRows, c.DecodeSteps, c.PrefillMicros, c.DecodeMicros, c.QueueMicros,
			c.PrefillBytesIn, c.PrefillBytesOut, c.DecodeBytesIn, c.DecodeBytesOut, c.LastDecodeIn, c.LastDecodeOut, c.MaxInFlight, c.NextPos, c.DroppedRows,
		} {
			if n < 0 || n > 1<<50 {
				return bad("counter %d out of range", n)
			}
		}
	}
	return nil
}
