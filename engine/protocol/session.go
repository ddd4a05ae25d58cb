package protocol

import "time"

// Sampler holds the settings of the tail's sampler chain. Zero values switch a
// stage off, except Temperature, where 0 means greedy. Names and meaning follow
// llama.cpp's sampling parameters.
type Sampler struct {
	Seed             uint32            `json:"seed"`
	Temperature      float32           `json:"temperature"`
	TopK             int32             `json:"top_k,omitempty"`
	TopP             float32           `json:"top_p,omitempty"` // 0 or 1: off
	MinP             float32           `json:"min_p,omitempty"`
	TypicalP         float32           `json:"typical_p,omitempty"` // 0 or 1: off
	TopNSigma        float32           `json:"top_n_sigma,omitempty"`
	XTCProbability   float32           `json:"xtc_probability,omitempty"`
	XTCThreshold     float32           `json:"xtc_threshold,omitempty"`
	RepeatLastN      int32             `json:"repeat_last_n,omitempty"`
	RepeatPenalty    float32           `json:"repeat_penalty,omitempty"` // 0 or 1: off
	FrequencyPenalty float32           `json:"frequency_penalty,omitempty"`
	PresencePenalty  float32           `json:"presence_penalty,omitempty"`
	DRYMultiplier    float32           `json:"dry_multiplier,omitempty"`
	DRYBase          float32           `json:"dry_base,omitempty"`
	DRYAllowedLength int32             `json:"dry_allowed_length,omitempty"`
	DRYLastN         int32             `json:"dry_penalty_last_n,omitempty"`
	Mirostat         int32             `json:"mirostat,omitempty"` // 0, 1 or 2
	MirostatTau      float32           `json:"mirostat_tau,omitempty"`
	MirostatEta      float32           `json:"mirostat_eta,omitempty"`
	LogitBias        map[int32]float32 `json:"logit_bias,omitempty"`
	Grammar          string            `json:"grammar,omitempty"` // GBNF, root rule "root"
	// Logprobs asks for the natural log probability of each token; Top for
	// that many alternatives (0 to MaxTop).
	Logprobs bool `json:"logprobs,omitempty"`
	Top      int  `json:"top,omitempty"`
	// IgnoreEOG forbids end-of-generation tokens (measurements).
	IgnoreEOG bool `json:"ignore_eog,omitempty"`
}

// NeedsPrompt reports whether the tail has to know the prompt's ids.
func (s *Sampler) NeedsPrompt() bool {
	return s.RepeatLastN != 0 && (s.penal(s.RepeatPenalty, 1) || s.FrequencyPenalty != 0 || s.PresencePenalty != 0) || s.DRYMultiplier != 0
}

func (s *Sampler) penal(v, off float32) bool { return v != 0 && v != off }

// OpenRequest is the body of POST /seam/v1/sessions.
type OpenRequest struct {
	Lease *SignedLease `json:"lease"`
	// Hop is the receiver's index on the route.
	Hop int `json:"hop"`
	// Sampler is for the tail only; Prompt only when its settings need it.
	Sampler *Sampler `json:"sampler,omitempty"`
	Prompt  []int32  `json:"prompt,omitempty"`
	// Prefix are the keys of the prompt's blocks (package prefix): the hop may
	// have kept state of a beginning, and keeps this session's at its end.
	Prefix []byte `json:"prefix,omitempty"`
}

// OpenReply is the body of its 201.
type OpenReply struct {
	Session SessionID  `json:"session"`
	Hop     int        `json:"hop"`
	Report  Capability `json:"report"`
	Cells   int        `json:"cells"` // KV cells reserved
	// Kept is the position up to which this hop has the prompt's state already.
	// The first row frame may begin there or before.
	Kept int `json:"kept,omitempty"`
}

// Capability is a stage's report: what it is, what it costs, what it can do.
// Model and backend particulars never leave it in another form (invariant 6).
type Capability struct {
	Model        ModelID `json:"model"`
	Name         string  `json:"name"`
	Architecture string  `json:"architecture"`
	Layers       int     `json:"layers"` // of the whole model
	Loaded       Range   `json:"loaded"`
	Head         bool    `json:"head"` // takes token ids
	Tail         bool    `json:"tail"` // samples
	// Exits are the layer boundaries e at which [Loaded.First, e) may stop.
	Exits  []int    `json:"exits"`
	Width  int      `json:"width"` // elements per hidden row
	DTypes []string `json:"dtypes"`
	// WholeOnly says why the model may not be cut here, or is "".
	WholeOnly string `json:"whole_only,omitempty"`
	// Cuts are the boundaries at which the whole model may be cut in two.
	Cuts []int `json:"cuts"`
	// Sidebands name what crosses seams of this model besides hidden rows; empty
	// for nothing. Seams says at which boundaries, and how much.
	Sidebands []string `json:"sidebands"`
	// KVBytesPerCell is the cost of one position in all loaded layers,
	// KVLayerBytes the same layer by layer (empty when only the sum is known),
	// KVType the element type of keys and values.
	KVBytesPerCell int64   `json:"kv_bytes_per_cell"`
	KVLayerBytes   []int64 `json:"kv_layer_bytes,omitempty"`
	KVType         string  `json:"kv_type"`
	// KVWindowBytes is the part of KVBytesPerCell that sliding-window layers
	// take; they keep at most KVWindowCells positions of a session.
	KVWindowBytes int64 `json:"kv_window_bytes,omitempty"`
	KVWindowCells int   `json:"kv_window_cells,omitempty"`
	// KVBudget is the memory for all sessions' KV state, in bytes.
	KVBudget int64 `json:"kv_budget_bytes"`
	// ComputeBytes is what one pool of sessions takes besides KV state, plus
	// ComputeBytesPerCell for each cell of one session; measured at loading.
	ComputeBytes        int64 `json:"compute_bytes"`
	ComputeBytesPerCell int64 `json:"compute_bytes_per_cell"`
	MaxContext          int   `json:"max_context"`
	WeightBytes         int64 `json:"weight_bytes"`
	ChunkRows           int   `json:"chunk_rows"`
	// InFlightBytes is the most that one session may have unacknowledged
	// towards this stage during prefill.
	InFlightBytes int64    `json:"in_flight_bytes"`
	Build         Build    `json:"build"`
	CPUVariant    string   `json:"cpu_variant"`
	Threads       int      `json:"threads"`
	Devices       []string `json:"devices,omitempty"`
	// Rewinds says that a session can forget its newest positions exactly;
	// without it nothing is guessed (verify frames). Recurrent states and
	// sliding windows cannot.
	Rewinds bool `json:"rewinds,omitempty"`
	// Seams are the boundaries of the model at which stages need a sideband.
	Seams []SeamNeed `json:"seams,omitempty"`
	// Vocab is the number of token ids; 0: not known.
	Vocab int `json:"vocab,omitempty"`
	// Memory is what a session costs by kind of memory, pads included; empty
	// where only KVBytesPerCell is known.
	Memory Memory `json:"memory,omitempty"`
}

// KVBytes is the memory that one session of so many cells takes, exactly;
// cells are what the stage reserved, a power of two from 256 on.
func (c *Capability) KVBytes(cells int) int64 {
	if len(c.Memory) > 0 {
		return c.Memory.Bytes(cells)
	}
	return (c.KVBytesPerCell-c.KVWindowBytes)*int64(cells) + c.KVWindowBytes*int64(min(cells, c.KVWindowCells))
}

// PoolBytes is the anonymous memory that a pool of sessions with so many cells
// each takes: KV state and one set of compute buffers.
func (c *Capability) PoolBytes(cells, sessions int) int64 {
	return int64(sessions)*c.KVBytes(cells) + c.ComputeBytes + c.ComputeBytesPerCell*int64(cells)
}

// Counters are what one hop did for one session. They prove that each position
// ran once and how many bytes crossed the seam.
type Counters struct {
	PrefillRows   int64 `json:"prefill_rows"`
	PrefillChunks int64 `json:"prefill_chunks"`
	DecodeRows    int64 `json:"decode_rows"`
	DecodeSteps   int64 `json:"decode_steps"`
	// PrefillMicros and DecodeMicros are time in the model.
	PrefillMicros int64 `json:"prefill_us"`
	DecodeMicros  int64 `json:"decode_us"`
	QueueMicros   int64 `json:"queue_us"`
	// Bytes of frames received from and sent to the neighbours, headers
	// included, split by phase.
	PrefillBytesIn  int64 `json:"prefill_bytes_in"`
	PrefillBytesOut int64 `json:"prefill_bytes_out"`
	DecodeBytesIn   int64 `json:"decode_bytes_in"`
	DecodeBytesOut  int64 `json:"decode_bytes_out"`
	// LastDecodeIn and LastDecodeOut are the sizes of the newest decode frame
	// in and out: constant for a whole session (invariant 4).
	LastDecodeIn  int64 `json:"last_decode_in"`
	LastDecodeOut int64 `json:"last_decode_out"`
	// MaxInFlight is the largest number of unacknowledged payload bytes that
	// this hop ever had towards the next one.
	MaxInFlight int64 `json:"max_in_flight"`
	// NextPos is the next position that this hop expects.
	NextPos int64 `json:"next_pos"`
	// DroppedRows are those of DecodeRows that a truncate took back: guesses
	// that were wrong.
	DroppedRows int64 `json:"dropped_rows,omitempty"`
}

// SessionState is the answer of GET /seam/v1/sessions/{id}.
type SessionState struct {
	Session  SessionID `json:"session"`
	Hop      int       `json:"hop"`
	Node     NodeID    `json:"node"`
	Use      Range     `json:"use"`
	Phase    Phase     `json:"phase"`
	Cells    int       `json:"cells"`
	Counters Counters  `json:"counters"`
	Opened   time.Time `json:"opened"`
	Error    *Error    `json:"error,omitempty"`
}
