// Package recent remembers which sessions a gateway started lately, and how those
// ended that it ended itself. Only engine/gateway imports it.
package recent

import (
	"sync"

	"neuron/engine/protocol"
)

// maxRecent is how many sessions GET /v1/sessions lists.
const maxRecent = 256

// Sessions remembers the sessions that this gateway started, and how
// those ended that it ended itself.
type Sessions struct {
	mu     sync.Mutex
	order  []protocol.SessionID // oldest first
	reason map[protocol.SessionID]protocol.FinishReason
}

// New returns an empty list.
func New() *Sessions {
	return &Sessions{reason: map[protocol.SessionID]protocol.FinishReason{}}
}

// Add takes a session that was started; the oldest one may go for it.
func (s *Sessions) Add(id protocol.SessionID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.order) == maxRecent {
		delete(s.reason, s.order[0])
		s.order = append(s.order[:0], s.order[1:]...)
	}
	s.order = append(s.order, id)
	s.reason[id] = ""
}

// Finished says how a session ended for the client.
func (s *Sessions) Finished(id protocol.SessionID, r protocol.FinishReason) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if _, ok := s.reason[id]; ok {
		s.reason[id] = r
	}
}

// Correct applies how the client saw the session end, once it has ended.
func (s *Sessions) Correct(t protocol.Telemetry) protocol.Telemetry {
	if !t.Phase.Ended() {
		return t
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	return Corrected(t, s.reason[t.Session])
}

// Newest lists the ids, newest first.
func (s *Sessions) Newest() []protocol.SessionID {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]protocol.SessionID, 0, len(s.order))
	for i := len(s.order) - 1; i >= 0; i-- {
		out = append(out, s.order[i])
	}
	return out
}

// Corrected makes a snapshot of a session that the gateway ended on purpose
// say what the client got.
func Corrected(t protocol.Telemetry, reason protocol.FinishReason) protocol.Telemetry {
	if reason != "" {
		t.Phase, t.Finish, t.Error = protocol.PhaseDone, reason, nil
	}
	return t
}
