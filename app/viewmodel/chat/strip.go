package chat

import (
	"fmt"
	"time"

	"neuron/app/chat/thread"
	"neuron/engine/protocol"
)

// Strip tells of the route of an answer: the one that is being written, or the
// last one.
type Strip struct {
	Running bool
	Failed  bool
	// Phase says what is done now, or how it ended.
	Phase string
	// Progress is 0 to 1 while the prompt is read, -1 otherwise.
	Progress float64
	Private  bool
	Kind     string // "Public route", "Private route"
	Hops     []Hop
	Layers   string // stands before the hops: "Layers"
	// Figures are the rest: tokens, tokens per second, time to the first token.
	Figures []string
}

// Hop is one computer of the route.
type Hop struct {
	Layers string // "0–5"
	Time   string // in the model for one token, "" when not known
	Health string // a word, "" when all is well
	Bad    bool
}

// strip reads what is known of an answer; mu is held.
func (m *Model) strip(t *talk, msg *thread.Message) *Strip {
	w := m.o.Words
	s := &Strip{Progress: -1, Kind: w.T("chat.route_public"), Private: msg.Private, Running: msg.State == thread.StateWriting, Failed: msg.State == thread.StateFailed}
	if msg.Private {
		s.Kind = w.T("chat.route_private")
	}
	stats := msg.Stats
	if a := t.answer; a != nil && a.id == msg.ID {
		s.Phase = w.T("chat.phase_sending")
		if a.telemetry != nil {
			stats = thread.StatsOf(a.telemetry)
			s.Phase, s.Progress = m.phase(a.telemetry)
		}
	} else {
		s.Phase = m.ended(msg)
	}
	if stats == nil {
		return s
	}
	s.Layers = w.T("chat.layers")
	for _, h := range stats.Hops {
		hop := Hop{Layers: fmt.Sprintf("%d–%d", h.Use.First, h.Use.Last-1), Bad: h.Health != protocol.HealthOK && h.Health != ""}
		if h.Use.Len() == 1 {
			hop.Layers = fmt.Sprint(h.Use.First)
		}
		if h.StepMillis > 0 {
			hop.Time = w.T("chat.millis", "Time", w.Decimal(h.StepMillis, 1))
		}
		switch h.Health {
		case protocol.HealthSlow:
			hop.Health = w.T("chat.hop_slow")
		case protocol.HealthLost:
			hop.Health = w.T("chat.hop_lost")
		}
		s.Hops = append(s.Hops, hop)
	}
	if stats.Tokens > 0 {
		s.Figures = append(s.Figures, w.T("chat.tokens", "Count", stats.Tokens))
	}
	if stats.TokensPerSecond > 0 {
		s.Figures = append(s.Figures, w.T("chat.rate", "Rate", w.Decimal(stats.TokensPerSecond, 1)))
	}
	if ms := stats.FirstTokenMillis; ms > 0 {
		s.Figures = append(s.Figures, w.T("chat.first_token", "Time", w.Duration(time.Duration(ms*float64(time.Millisecond)))))
	}
	return s
}

// phase is what is done now, in words.
func (m *Model) phase(t *protocol.Telemetry) (text string, progress float64) {
	w := m.o.Words
	switch t.Phase {
	case protocol.PhaseQueued:
		if t.QueuePosition > 0 {
			return w.T("chat.phase_queued", "Count", t.QueuePosition), -1
		}
		return w.T("chat.phase_waiting"), -1
	case protocol.PhaseRouting:
		return w.T("chat.phase_routing"), -1
	case protocol.PhaseOpening:
		return w.T("chat.phase_opening"), -1
	case protocol.PhasePrefill:
		part := 0.0
		if t.PrefillTotal > 0 {
			part = min(1, float64(t.PrefillDone)/float64(t.PrefillTotal))
		}
		return w.T("chat.phase_reading", "Part", w.Percent(part)), part
	case protocol.PhaseDecode, protocol.PhaseDone, protocol.PhaseFailed:
	}
	return w.T("chat.phase_answering"), -1
}

// ended says how an answer ended.
func (m *Model) ended(msg *thread.Message) string {
	w := m.o.Words
	switch msg.State {
	case thread.StateStopped:
		return w.T("chat.phase_stopped")
	case thread.StateFailed, thread.StateLost:
		return w.T("chat.phase_failed")
	case thread.StateComplete, thread.StateWriting:
	}
	return w.T("chat.phase_done")
}
