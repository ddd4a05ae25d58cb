// Package wire is the vocabulary between an engine and its stage process: what
// the JSON payloads of pipe-only frames hold. Both ends import it, nobody
// else; it has no behaviour.
//
// The two pipes carry protocol frames. Slot 0 is the process itself; sessions
// have slots from 1, chosen by the parent; calls use their own numbers, told
// apart by kind. The child speaks first with a ping.
package wire

import (
	"neuron/engine/gateway/chattmpl"
	"neuron/engine/protocol"
	"neuron/llama/family"
)

// Load is the first message (KindOpen, slot 0), answered by Loaded
// (KindOpened, slot 0).
type Load struct {
	// NativeDir holds the native libraries; "" lets the child look for them.
	NativeDir string `json:"native_dir,omitempty"`
	// Paths are the split files of the stage. Without any, the child loads the
	// library alone and says what it is.
	Paths []string `json:"paths"`
	// VocabOnly loads the tokenizer alone: the process answers text calls.
	VocabOnly bool `json:"vocab_only,omitempty"`

	First    int    `json:"first"`
	Last     int    `json:"last"`
	Layers   int    `json:"layers"`
	ExitNode string `json:"exit_node"`
	// Plan says where rows go in and come out; without one (Layers 0) they come
	// in as embeddings and go out at ExitNode.
	Plan family.Plan `json:"plan,omitzero"`
	// Threads is how many a call may use; with Adaptive at most so many, fewer
	// while other programs need the cores.
	Threads  int  `json:"threads"`
	Adaptive bool `json:"adaptive,omitempty"`

	ChunkRows      int   `json:"chunk_rows"`
	MaxContext     int   `json:"max_context"`
	MaxSessions    int   `json:"max_sessions"`
	KVBudget       int64 `json:"kv_budget"` // bytes for all pools
	KVBytesPerCell int64 `json:"kv_bytes_per_cell"`
	// Memory is what a session takes, by kind; empty when it is not known.
	Memory   protocol.Memory `json:"memory,omitempty"`
	NoRepack bool            `json:"no_repack,omitempty"`
	// GPUs are the devices that may be used, by their names of engine/stage/gpu;
	// none: the processor alone. One that is not there is passed over.
	GPUs []string `json:"gpus,omitempty"`

	// Model and KVType are what snapshots of prefixes are for.
	Model    protocol.ModelID `json:"model,omitempty"`
	KVType   string           `json:"kv_type,omitempty"`
	Prefixes Prefixes         `json:"prefixes"`
}

// Prefixes says how state of prompts is kept for later sessions.
type Prefixes struct {
	// Off keeps nothing.
	Off bool `json:"off,omitempty"`
	// Dir is the folder of snapshots; "" keeps state in memory only.
	Dir string `json:"dir,omitempty"`
	// DiskBytes bounds the folder.
	DiskBytes int64 `json:"disk_bytes,omitempty"`
	// Private lets the state of private sessions go to the disk, too.
	Private bool `json:"private,omitempty"`
}

// Device is something that the library can compute on, memory in bytes.
type Device struct {
	Name        string `json:"name"` // "CPU", "Vulkan0"
	Description string `json:"description"`
	Kind        string `json:"kind"` // cpu, gpu, igpu (with the memory of the host), accel or meta
	Free        int64  `json:"free"`
	Total       int64  `json:"total"`
}

// String is its name and description.
func (d Device) String() string { return d.Name + ": " + d.Description }

// Loaded says what was loaded, or why not.
type Loaded struct {
	Error *protocol.Error `json:"error,omitempty"`

	Llama      string   `json:"llama"` // library version
	CPUVariant string   `json:"cpu_variant"`
	Devices    []Device `json:"devices,omitempty"`
	// Backends are the parts of the library, also those without a device: "CPU",
	// "Vulkan".
	Backends []string `json:"backends,omitempty"`
	// GPUs are the devices that compute GPULayers of the layers, and Missing those
	// that Load asked for and that are not there.
	GPUs        []string `json:"gpus,omitempty"`
	GPULayers   int      `json:"gpu_layers,omitempty"`
	Missing     []string `json:"missing,omitempty"`
	Width       int      `json:"width"`
	WeightBytes int64    `json:"weight_bytes"`
	// StepMicros is the time of one decode step, ChunkMicros of a prefill
	// chunk of ChunkRows rows, both measured after loading.
	StepMicros  int64 `json:"step_us"`
	ChunkMicros int64 `json:"chunk_us"`
	ChunkRows   int   `json:"chunk_rows"`
	// KVBudget is Load's, in whole smallest sessions. KVBytesPerCell is Load's,
	// or measured for a family whose memory is not known. Compute figures as in
	// protocol.Capability.
	KVBudget            int64 `json:"kv_budget"`
	KVBytesPerCell      int64 `json:"kv_bytes_per_cell"`
	ComputeBytes        int64 `json:"compute_bytes"`
	ComputeBytesPerCell int64 `json:"compute_bytes_per_cell"`
	// Memory is Load's, or measured where that was not known or too low.
	Memory protocol.Memory `json:"memory,omitempty"`
	// Rewinds as in protocol.Capability; tried after loading.
	Rewinds bool `json:"rewinds,omitempty"`

	Text Text `json:"text"`
	// Stats are the first statistics; pings carry the later ones.
	Stats Stats `json:"stats"`
}

// Text is what the tokenizer says of itself.
type Text struct {
	Vocab        int    `json:"vocab"`
	BOS          string `json:"bos,omitempty"`
	EOS          string `json:"eos,omitempty"`
	AddBOS       bool   `json:"add_bos,omitempty"`
	ContextTrain int    `json:"context_train"`
	Template     string `json:"template,omitempty"`
}

// Open makes a session (KindOpen, slot >= 1), answered by Opened.
type Open struct {
	Session protocol.SessionID `json:"session"`
	// Exit is the layer boundary of the whole model where this session stops.
	Exit    int               `json:"exit"`
	Context int               `json:"context"`
	Sampler *protocol.Sampler `json:"sampler,omitempty"`
	Prompt  []int32           `json:"prompt,omitempty"`
	// DType, In and Out are those of seam.StageOpen.
	DType protocol.DType    `json:"dtype,omitempty"`
	In    protocol.Sideband `json:"in,omitzero"`
	Out   protocol.Sideband `json:"out,omitzero"`
	// Scope, Keys and Private are those of seam.Prefix.
	Scope   []byte `json:"scope,omitempty"`
	Keys    []byte `json:"keys,omitempty"`
	Private bool   `json:"private,omitempty"`
}

// Opened answers Open.
type Opened struct {
	Error *protocol.Error `json:"error,omitempty"`
	Cells int             `json:"cells"`
	Kept  int             `json:"kept,omitempty"` // as in protocol.OpenReply
}

// Call asks for text work (KindCall, slot = number of the call), answered by
// Reply with the same slot.
type Call struct {
	Op           string  `json:"op"` // an Op constant
	Text         string  `json:"text,omitempty"`
	IDs          []int32 `json:"ids,omitempty"`
	AddSpecial   bool    `json:"add_special,omitempty"`
	ParseSpecial bool    `json:"parse_special,omitempty"`
	Special      bool    `json:"special,omitempty"`
	// Grammar is the GBNF of OpGrammar.
	Grammar string `json:"grammar,omitempty"`
	// Render is the conversation of OpRender; Spans asks for the places of
	// contents.
	Render *chattmpl.Input `json:"render,omitempty"`
	Spans  bool            `json:"spans,omitempty"`
}

// Operations of Call.
const (
	OpTokenize   = "tokenize"
	OpDetokenize = "detokenize"
	OpGrammar    = "grammar" // answered with an error or without
	OpRender     = "render"  // runs the model's chat template
)

// Reply answers Call.
type Reply struct {
	Error *protocol.Error `json:"error,omitempty"`
	IDs   []int32         `json:"ids,omitempty"`
	Bytes []byte          `json:"bytes,omitempty"`
	// Rendered is the answer of OpRender.
	Rendered *chattmpl.Output `json:"rendered,omitempty"`
}

// Stats is the payload of the child's pings.
type Stats struct {
	FreeKVBytes int64 `json:"free_kv_bytes"` // as in protocol.ShardReport
	// KVBytes and ComputeBytes are what the pools with sessions take now, idle
	// sequences included. An empty pool that is kept for the next session is
	// free memory.
	KVBytes      int64 `json:"kv_bytes"`
	ComputeBytes int64 `json:"compute_bytes"`
	Sessions     int   `json:"sessions"`
	Queue        int   `json:"queue"` // row frames waiting
	// StepMicros and ChunkMicros are running averages of the real work, 0
	// until there was some.
	StepMicros  int64 `json:"step_us"`
	ChunkMicros int64 `json:"chunk_us"`
	// Threads is what the newest call used.
	Threads int `json:"threads"`
	// HostBusy: other programs need the CPU so much that even one thread
	// misses the step time that was measured after loading.
	HostBusy bool `json:"host_busy,omitempty"`
	// Prefixes are the newest of what is kept, as in protocol.ShardReport.
	Prefixes  []string  `json:"prefixes,omitempty"`
	Snapshots Snapshots `json:"snapshots"`
}

// Snapshots are the figures of the snapshots on the disk: what was written,
// restored, and found damaged and removed since the start, and what is there.
type Snapshots struct {
	Written  int   `json:"written,omitempty"`
	Restored int   `json:"restored,omitempty"`
	Damaged  int   `json:"damaged,omitempty"`
	Files    int   `json:"files,omitempty"`
	Bytes    int64 `json:"bytes,omitempty"`
}
