package localapi

import (
	"context"
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
	// Hold changes what this node holds. It returns when the order is accepted;
	// fetching and loading show in Status. Errors: those of the catalog, of the
	// planner (does_not_fit, disk_full, kv_budget) and range_invalid.
	Hold(ctx context.Context, h Hold) error
	// Share says whether others may use this node; running sessions go on.
	Share(on bool) error
	// Plans says what this computer could hold of the tracker's catalog.
	Plans(ctx context.Context) ([]Plan, error)
}

// Hold is an order to hold layers.
type Hold struct {
	// Model is a GGUF file of this computer, or a model of the catalog; ""
	// leaves the choice to the tracker.
	Model string `json:"model"`
	// Layers is "all", "FIRST-LAST", or "" for the tracker's choice.
	Layers string `json:"layers"`
}

// Plan says what of a model this computer could hold.
type Plan struct {
	Model protocol.ModelID `json:"model"`
	Name  string           `json:"name"`
	// Text says it in a sentence; Ranges are the possibilities, best first.
	Text   string      `json:"text"`
	Ranges []PlanRange `json:"ranges"`
}

// PlanRange is a range that would fit, with what it costs. All are bytes but
// Seconds and the counts of conversations.
type PlanRange struct {
	Range protocol.Range `json:"range"`
	Text  string         `json:"text"`
	Fetch int64          `json:"fetch"`
	// Seconds is how long the fetch takes; 0: not known, or nothing to fetch.
	Seconds int64 `json:"seconds"`
	Disk    int64 `json:"disk"`
	Memory  int64 `json:"memory"` // anonymous
	// Weights are those of the range, KVPerToken is the state of one token of a
	// conversation in all its layers.
	Weights    int64 `json:"weights"`
	KVPerToken int64 `json:"kv_per_token"`
	// Fit4K and Fit32K count conversations of 4,096 and 32,768 tokens.
	Fit4K  int `json:"fit_4k"`
	Fit32K int `json:"fit_32k"`
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
	Gateway string  `json:"gateway,omitempty"`
	Tracker Tracker `json:"tracker"`
	// Owner is who owns the node, as it was known last.
	Owner *OwnerState `json:"owner,omitempty"`
	// Sharing is off when the user has said so.
	Sharing bool `json:"sharing"`
	// Policy says why this computer shares or does not, Work what it does for
	// others; nil on engines without a desktop.
	Policy *Sharing `json:"policy,omitempty"`
	Work   *Work    `json:"work,omitempty"`
	// Ending is there while a desktop engine ends in order.
	Ending *Ending `json:"ending,omitempty"`
	Shards []Shard `json:"shards"`
	// Transfers are the models that are fetched or seeded.
	Transfers []Transfer `json:"transfers"`
	// Swarm is the host:port where other nodes fetch from this one, "" when
	// nothing is transferred; SwarmPID is the process, 0 when none runs.
	Swarm    string        `json:"swarm,omitempty"`
	SwarmPID int           `json:"swarm_pid,omitempty"`
	Memory   Memory        `json:"memory"`
	Health   []HealthEntry `json:"health"`
	Receipts Receipts      `json:"receipts"`
	// StagePIDs are the running stage processes.
	StagePIDs []int `json:"stage_pids,omitempty"`
	// Goroutines and OpenFiles are the engine process's own, for those who look
	// for leaks; OpenFiles is 0 where the system does not tell.
	Goroutines int `json:"goroutines"`
	OpenFiles  int `json:"open_files"`
}

// Ending is an engine that was asked to end and finishes what runs.
type Ending struct {
	// Answers of its gateway that are under way; sessions of others are in Work.
	Answers int `json:"answers"`
	// By is when it ends what still runs; absent for the moment until it has
	// looked.
	By time.Time `json:"by,omitzero"`
}

// Receipts are figures of what this node signed, since it started; the fields
// are those of engine/receipt.Stats.
type Receipts struct {
	Waiting   int   `json:"waiting"`    // receipts for the tracker
	Bytes     int64 `json:"bytes"`      // of their file
	Signed    int64 `json:"signed"`     // halves that this node's hops made
	Finished  int64 `json:"finished"`   // of them, signed by the receiver too
	Unsigned  int64 `json:"unsigned"`   // of them, given up: the receiver did not sign
	Given     int64 `json:"given"`      // signatures for other nodes' hops
	Denied    int64 `json:"denied"`     // refused signatures
	Delivered int64 `json:"delivered"`  // accepted by the tracker, repeats included
	Refused   int64 `json:"refused"`    // by the tracker
	Dropped   int64 `json:"dropped"`    // lost for want of room or by damage
	TornBytes int64 `json:"torn_bytes"` // cut off the file when it was opened
}

// Tracker is the state of the control channel.
type Tracker struct {
	URL string `json:"url,omitempty"`
	// Name is what its operator calls the network, "" when it has no name or has
	// not told it yet.
	Name      string `json:"name,omitempty"`
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

// Transfer is a model that is fetched or seeded. Bytes count whole pieces, rates
// are bytes per second over the last seconds.
type Transfer struct {
	Model protocol.ModelID `json:"model"`
	Name  string           `json:"name"`
	// State is a swarm.State: starting, downloading, complete, paused, blocked
	// or failed.
	State string          `json:"state"`
	Error *protocol.Error `json:"error,omitempty"`
	// InPlace says that a file of this computer is seeded from where it lies.
	InPlace bool  `json:"in_place,omitempty"`
	Bytes   int64 `json:"bytes"` // what is wanted
	Done    int64 `json:"done"`  // what of it is there
	// Received and Sent count since the transferring process began; Wasted is
	// the part of Received that was of no use.
	Received   int64 `json:"received"`
	Sent       int64 `json:"sent"`
	Wasted     int64 `json:"wasted"`
	DownRate   int64 `json:"down_rate"`
	UpRate     int64 `json:"up_rate"`
	Peers      int   `json:"peers"`
	Seeds      int   `json:"seeds"`
	Dropped    int   `json:"dropped"`     // peers and web seeds that sent wrong data
	ETASeconds int64 `json:"eta_seconds"` // -1: not known
	// Parts are the layers and the tensors that belong to none.
	Parts []Part `json:"parts"`
}

// Part is one file of a shard folder.
type Part struct {
	Name  string `json:"name"`
	Layer int    `json:"layer"` // -1: belongs to no layer
	Bytes int64  `json:"bytes"`
	Done  int64  `json:"done"` // fetched, in whole pieces
	// Verified says that its hash has matched and it has not changed since,
	// Served that a stage runs it.
	Verified bool `json:"verified"`
	Served   bool `json:"served"`
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
// reader that missed some is right again with the next one.
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

type share struct {
	On bool `json:"on"`
}

type plans struct {
	Plans []Plan `json:"plans"`
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
	pathHold     = "/local/v1/hold"
	pathShare    = "/local/v1/share"
	pathPlans    = "/local/v1/plans"
	pathEvents   = "/local/v1/events"
)
