// Package telemetry is what the tracker remembers of sessions and of the
// network as a whole, apart from facts that money or routes depend on: phases,
// progress, rates, times per hop, and figures per minute.
//
// All of it may be lost. Snapshots wait in a queue of their own; when it is
// full they are dropped and counted, and nobody waits. The server hands
// snapshots in, a Store (package history) keeps them on disk, a Sink (package
// feed) passes them on to whoever listens. It knows no SQL, no socket and no
// registry.
//
// A private session is public in its phases, its model and its end alone.
// Snapshot.Public makes that cut, and nothing else of such a session leaves
// this package.
package telemetry

import (
	"context"
	"time"

	"neuron/engine/protocol"
)

// Snapshot is a session at one moment. Values are shared between goroutines
// and never changed after they were handed in.
type Snapshot struct {
	Session protocol.SessionID
	Model   protocol.ModelID
	Name    string // of the model
	Private bool
	At      time.Time
	Phase   protocol.Phase
	// Context is the number of tokens that the lease allows: no count of a
	// driver is believed above it.
	Context      int
	PrefillDone  int
	PrefillTotal int
	Tokens       int
	// TokensPerSecond is the driver's rolling rate.
	TokensPerSecond float64
	FirstToken      time.Duration // from the request; 0 before it
	Hops            []Hop
	// End is set with the last snapshot of a session.
	End *End
}

// Hop is one hop's part of a snapshot. Counters count from the start of the
// session.
type Hop struct {
	Node   protocol.NodeID `json:"node"`
	Use    protocol.Range  `json:"use"`
	Health string          `json:"health,omitempty"`
	// Step is the mean time in the model per decode step so far, in
	// microseconds; 0 before the first.
	Step int64 `json:"step_us"`
	// Micros is time in the model, Queue time before it, Steps and Chunks how
	// often it ran, In and Out bytes of frames; prefill and decode together.
	Micros int64 `json:"model_us"`
	Queue  int64 `json:"queue_us"`
	Steps  int64 `json:"steps"`
	Chunks int64 `json:"chunks"`
	In     int64 `json:"bytes_in"`
	Out    int64 `json:"bytes_out"`
}

// End says how a session ended, in words from closed lists.
type End struct {
	Finish protocol.FinishReason `json:"finish_reason"`
	// Code is the error's; "" without one.
	Code protocol.Code `json:"code,omitempty"`
	// Hop is the hop at fault, where one is.
	Hop *int `json:"hop,omitempty"`
}

// Public is s as anybody may see it.
func (s *Snapshot) Public() *Snapshot {
	if !s.Private {
		return s
	}
	out := &Snapshot{Session: s.Session, Model: s.Model, Name: s.Name, Private: true, At: s.At, Phase: s.Phase}
	if s.End != nil {
		out.End = &End{Finish: s.End.Finish, Code: s.End.Code}
	}
	return out
}

// From takes what is kept of a driver's snapshot: figures, and words from
// closed lists. Free text (request ids, messages of errors) stays behind.
func (s *Snapshot) From(t *protocol.Telemetry) {
	if t.Seq == 0 {
		return
	}
	within := func(n int) int { return max(0, min(n, s.Context)) }
	s.PrefillTotal, s.Tokens = within(t.PrefillTotal), within(t.Tokens)
	s.PrefillDone, s.TokensPerSecond = min(within(t.PrefillDone), s.PrefillTotal), t.TokensPerSecond
	s.FirstToken = time.Duration(t.FirstTokenMillis * float64(time.Millisecond))
	s.Hops = make([]Hop, 0, len(t.Route))
	for i := range t.Route {
		h, c := &t.Route[i], &t.Route[i].Counters
		hop := Hop{
			Node: h.Node, Use: h.Use, Health: h.Health, Micros: c.PrefillMicros + c.DecodeMicros, Queue: c.QueueMicros, Steps: c.DecodeSteps,
			Chunks: c.PrefillChunks, In: c.PrefillBytesIn + c.DecodeBytesIn, Out: c.PrefillBytesOut + c.DecodeBytesOut,
		}
		if c.DecodeSteps > 0 {
			hop.Step = c.DecodeMicros / c.DecodeSteps
		}
		s.Hops = append(s.Hops, hop)
	}
}

// EndOf makes the end of a session out of its finish reason and error.
func EndOf(finish protocol.FinishReason, err *protocol.Error) *End {
	e := &End{Finish: finish}
	switch finish {
	case protocol.FinishStop, protocol.FinishLength, protocol.FinishError, protocol.FinishCancelled, "":
	default:
		e.Finish = "other"
	}
	if err != nil {
		if e.Code = err.Code; !e.Code.Known() {
			e.Code = "other"
		}
		e.Hop = err.Hop
	}
	return e
}

// History is all that is kept of one session, oldest first.
type History struct {
	Session protocol.SessionID `json:"session"`
	Model   protocol.ModelID   `json:"model"`
	Name    string             `json:"model_name"`
	Private bool               `json:"private,omitempty"`
	Phases  []PhaseAt          `json:"phases"`
	Samples []Sample           `json:"samples"`
	End     *End               `json:"end,omitempty"`
}

// PhaseAt is the first moment of a phase.
type PhaseAt struct {
	Phase protocol.Phase `json:"phase"`
	At    time.Time      `json:"at"`
}

// Sample is one point of a session's history.
type Sample struct {
	At              time.Time      `json:"at"`
	Phase           protocol.Phase `json:"phase"`
	PrefillDone     int            `json:"prefill_done"`
	PrefillTotal    int            `json:"prefill_total"`
	Tokens          int            `json:"tokens"`
	TokensPerSecond float64        `json:"tokens_per_second"`
	FirstTokenMs    float64        `json:"first_token_ms,omitempty"`
	Hops            []Hop          `json:"hops"`
}

// Figures are the network's sums over one step of time, a minute or longer.
// They are made of what drivers say, within what their leases allow.
type Figures struct {
	At       time.Time `json:"at"` // begin of the step
	Tokens   int64     `json:"tokens"`
	Prefill  int64     `json:"prefill_tokens"`
	Started  int64     `json:"sessions_started"`
	Ended    int64     `json:"sessions_ended"`  // failed ones too
	Failed   int64     `json:"sessions_failed"` // but not those that their client cancelled
	Nodes    int64     `json:"nodes_ready"`     // at the end of a minute; the largest of a step
	Credit   int64     `json:"credit_micro"`    // posted to accounts, in millionths of a credit
	Dropped  int64     `json:"snapshots_dropped"`
	Measured int64     `json:"minutes"` // of the step, for which there are figures
}

// add puts a minute into a longer step.
func (f *Figures) add(m *Figures) {
	f.Tokens += m.Tokens
	f.Prefill += m.Prefill
	f.Started += m.Started
	f.Ended += m.Ended
	f.Failed += m.Failed
	f.Nodes = max(f.Nodes, m.Nodes)
	f.Credit += m.Credit
	f.Dropped += m.Dropped
	f.Measured += m.Measured
}

// Batch is what a Store writes in one go.
type Batch struct {
	// Samples are snapshots in the order of their coming, private ones already
	// cut down.
	Samples []Row
	// Minutes are added to what there is of the same minute.
	Minutes []Figures
}

// Row is a snapshot on its way to the disk.
type Row struct {
	*Snapshot
	NewPhase bool // the first snapshot of its phase
	Sampled  bool // to be kept as a point of the history
}

// Store keeps history. Its methods are safe for concurrent use. An error says
// that nothing of the call was kept.
type Store interface {
	Write(ctx context.Context, b *Batch) error
	// History finds a session, or returns nil.
	History(ctx context.Context, id protocol.SessionID) (*History, error)
	// Minutes lists the minutes from (included) to (not included), oldest first.
	Minutes(ctx context.Context, from, to time.Time) ([]Figures, error)
	// Prune forgets a small part of what is older than before, or of the oldest
	// when there is too much; more says that there is more to forget.
	Prune(ctx context.Context, before time.Time) (more bool, err error)
	Close() error
}

// Sink takes snapshots that are already cut down to what is public. It never
// blocks.
type Sink interface {
	Publish(s *Snapshot, newPhase bool)
}
