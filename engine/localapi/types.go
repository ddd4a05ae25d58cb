package localapi

import (
	"time"

	"neuron/engine/protocol"
)

// Source is what the API shows. Methods are called from several goroutines and
// must return quickly with data of their own.
type Source interface {
	Status() Status
	Models() []Model
	Sessions() []protocol.SessionState
	// Shutdown asks the engine to stop; it returns at once.
	Shutdown()
}

// Status is the answer of GET /local/v1/status.
type Status struct {
	Version   string          `json:"version"`
	Llama     string          `json:"llama,omitempty"`
	Node      protocol.NodeID `json:"node"`
	Role      string          `json:"role"`
	PID       int             `json:"pid"`
	Started   time.Time       `json:"started"`
	UptimeSec int64           `json:"uptime_s"`
	// Seam is the host:port where other nodes reach this one, "" when it
	// serves no shard.
	Seam string `json:"seam,omitempty"`
	// Gateway is the base URL of the OpenAI API, "" when there is none.
	Gateway string        `json:"gateway,omitempty"`
	Tracker Tracker       `json:"tracker"`
	Shards  []Shard       `json:"shards"`
	Memory  Memory        `json:"memory"`
	Health  []HealthEntry `json:"health"`
	// StagePIDs are the running stage processes.
	StagePIDs []int `json:"stage_pids,omitempty"`
	// Goroutines and OpenFiles are the engine process's own, for those who look
	// for leaks; OpenFiles is 0 where the system does not tell.
	Goroutines int `json:"goroutines"`
	OpenFiles  int `json:"open_files"`
}

// Tracker is the state of the control channel.
type Tracker struct {
	URL       string `json:"url,omitempty"`
	Connected bool   `json:"connected"`
	// State is one word or a sentence for people.
	State string    `json:"state"`
	Since time.Time `json:"since"`
}

// Shard is one loaded or loading range.
type Shard struct {
	Model protocol.ModelID    `json:"model"`
	Name  string              `json:"name"`
	Range protocol.Range      `json:"range"`
	State protocol.ShardState `json:"state"`
	// Bytes of weights on disk and how many of them are there already.
	Bytes     int64 `json:"bytes"`
	BytesDone int64 `json:"bytes_done"`
	Sessions  int   `json:"sessions"`
	// StepMicros and ChunkMicros are measured; 0: not yet.
	StepMicros  int64           `json:"step_us"`
	ChunkMicros int64           `json:"chunk_us"`
	Error       *protocol.Error `json:"error,omitempty"`
}

// Memory is in bytes.
type Memory struct {
	Total int64 `json:"total"`
	Free  int64 `json:"free"`
	// Engine is what this engine and its stages keep in RAM: Anonymous
	// (weights that were repacked, KV state, compute buffers, the programs'
	// own) and File (mapped files, which the system can drop at any time).
	Engine    int64 `json:"engine"`
	Anonymous int64 `json:"anonymous"`
	File      int64 `json:"file"`
	// KVInUse is what pools of sessions hold of KVBudget; Compute is what they
	// take besides.
	KVInUse  int64 `json:"kv_in_use"`
	KVBudget int64 `json:"kv_budget"`
	Compute  int64 `json:"compute"`
	DiskFree int64 `json:"disk_free"`
}

// Severity says how much a health entry matters.
type Severity string

// The severities.
const (
	SeverityInfo    Severity = "info"
	SeverityWarning Severity = "warning"
	SeverityError   Severity = "error"
)

// HealthEntry is something the user should know.
type HealthEntry struct {
	Code     protocol.Code `json:"code"`
	Severity Severity      `json:"severity"`
	Text     string        `json:"text"`
	Remedy   string        `json:"remedy,omitempty"`
}

// HealthOf makes an entry of an error, with the code's remedy.
func HealthOf(s Severity, e *protocol.Error) HealthEntry {
	return HealthEntry{Code: e.Code, Severity: s, Text: e.Message, Remedy: e.Code.Remedy()}
}

// Model is one entry of GET /local/v1/models.
type Model struct {
	Info protocol.ModelInfo `json:"info"`
	// Local is the range that this node holds, nil for none.
	Local *protocol.Range `json:"local,omitempty"`
}

// Event is one message of GET /local/v1/events: the whole new state, so that a
// reader that missed some is right again with the next.
type Event struct {
	Status   Status                  `json:"status"`
	Sessions []protocol.SessionState `json:"sessions"`
}

// Address is the content of the address file. It holds the token, so the file
// is readable by its owner only.
type Address struct {
	URL     string `json:"url"` // http://127.0.0.1:port
	Token   string `json:"token"`
	PID     int    `json:"pid"`
	Version string `json:"version"`
}

// models and sessions wrap lists, so that fields can be added later.
type models struct {
	Models []Model `json:"models"`
}

type sessions struct {
	Sessions []protocol.SessionState `json:"sessions"`
}

// errorBody is the shape of every error.
type errorBody struct {
	Error *protocol.Error `json:"error"`
}

// Paths of the API.
const (
	pathStatus   = "/local/v1/status"
	pathModels   = "/local/v1/models"
	pathSessions = "/local/v1/sessions"
	pathShutdown = "/local/v1/shutdown"
	pathEvents   = "/local/v1/events"
)
