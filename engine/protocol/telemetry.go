package protocol

import "time"

// Telemetry is one snapshot of a session, the same on the SSE stream, on
// GET /v1/sessions/{id}, on the websocket and in the tracker. It is never
// absent: the first one precedes the first token.
type Telemetry struct {
	Session SessionID `json:"session"`
	Request string    `json:"request,omitempty"` // the API's request id
	Model   ModelID   `json:"model,omitempty"`
	Name    string    `json:"model_name,omitempty"`
	Phase   Phase     `json:"phase"`
	// Seq grows by one with each snapshot of a session.
	Seq uint64    `json:"seq"`
	At  time.Time `json:"at"`
	// QueuePosition is 1 for the next to start, 0 when not queued.
	QueuePosition int `json:"queue_position,omitempty"`
	// PrefillDone counts the prompt's tokens that need no work any more, of
	// PrefillTotal; PrefillCached are those of them that all hops had kept.
	PrefillDone   int `json:"prefill_done"`
	PrefillTotal  int `json:"prefill_total"`
	PrefillCached int `json:"prefill_cached,omitempty"`
	Tokens        int `json:"tokens"`
	// TokensPerSecond is rolling over the last two seconds of decode.
	TokensPerSecond float64 `json:"tokens_per_second"`
	// FirstTokenMillis is the time from the request to its first token.
	FirstTokenMillis float64        `json:"first_token_ms,omitempty"`
	ElapsedMillis    float64        `json:"elapsed_ms"`
	Route            []HopTelemetry `json:"route,omitempty"`
	Finish           FinishReason   `json:"finish_reason,omitempty"`
	Error            *Error         `json:"error,omitempty"`
	// Drafted counts the tokens that were guessed and checked over the route,
	// Accepted those of them that became part of the answer.
	Drafted  int `json:"drafted,omitempty"`
	Accepted int `json:"accepted,omitempty"`
}

// HopTelemetry is one hop's part of a snapshot.
type HopTelemetry struct {
	Hop      int      `json:"hop"`
	Node     NodeID   `json:"node"`
	Use      Range    `json:"use"`
	Health   string   `json:"health"` // "ok", "slow", "lost"
	Counters Counters `json:"counters"`
}

// Hop health words.
const (
	HealthOK   = "ok"
	HealthSlow = "slow"
	HealthLost = "lost"
)
