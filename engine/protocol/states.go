package protocol

// Phase is what a session is doing, as telemetry shows it.
type Phase string

// The phases, in the order in which a session goes through them.
const (
	PhaseQueued  Phase = "queued"
	PhaseRouting Phase = "routing"
	PhaseOpening Phase = "opening"
	PhasePrefill Phase = "prefill"
	PhaseDecode  Phase = "decode"
	PhaseDone    Phase = "done"
	PhaseFailed  Phase = "failed"
)

// Ended reports whether no more telemetry follows.
func (p Phase) Ended() bool { return p == PhaseDone || p == PhaseFailed }

// ShardState is what a node does with a shard, as the coverage map shows it.
type ShardState string

// The shard states.
const (
	ShardDownloading ShardState = "downloading"
	ShardVerifying   ShardState = "verifying"
	ShardLoading     ShardState = "loading"
	ShardReady       ShardState = "ready"
	ShardDraining    ShardState = "draining"
	ShardFailed      ShardState = "failed"
)

// FinishReason says why an answer ended, in OpenAI's words where they exist.
type FinishReason string

// The finish reasons.
const (
	FinishStop      FinishReason = "stop"
	FinishLength    FinishReason = "length"
	FinishError     FinishReason = "error"
	FinishCancelled FinishReason = "cancelled"
)
