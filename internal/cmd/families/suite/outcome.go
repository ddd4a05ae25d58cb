package suite

import (
	"neuron/llama/parity"
)

// Types are those that a run checks, by ggml's names: full precision, two that the
// processor's kernels repack, and one that they do not.
var Types = []string{thorough, plain, "q4_K", "q5_0"}

const (
	// thorough is the type in which sessions, truncation and state are tried too: they
	// do not depend on the type, and this one is the fastest.
	thorough = "q4_0"
	plain    = "f32"
)

// Outcome is what was found out about one model in one type.
type Outcome struct {
	// Model and Type say what was checked; Stamp by which build of the program.
	Model  string `json:"model"`
	Type   string `json:"type"`
	Stamp  string `json:"stamp,omitempty"`
	Device string `json:"device,omitempty"` // "vulkan", or "" for the processor

	Layers int `json:"layers"`
	// Legal is how many of Layers-1 boundaries the model may be cut at.
	Legal int `json:"legal"`
	// Entry is the node that hidden rows overwrite, "" when they go in as embeddings.
	Entry string `json:"entry,omitempty"`
	// Why is the reason for what is special about the family.
	Why string `json:"why,omitempty"`
	// Report is of the parity check, nil when it did not come to an end.
	Report *parity.Report `json:"report,omitempty"`
	// Spread of the logits of the whole model, and the least distance of the two best.
	Spread float64 `json:"spread"`
	// Vulkan is the comparison with the processor.
	Vulkan *Vulkan `json:"vulkan,omitempty"`
	// Failure says what went wrong beside what Report says, "" for nothing.
	Failure string `json:"failure,omitempty"`
	// NoDevice: there is no accelerator to compare with.
	NoDevice bool    `json:"no_device,omitempty"`
	Seconds  float64 `json:"seconds"`
}

// Vulkan is what stages on an accelerator were compared with.
type Vulkan struct {
	// Device is the name of the accelerator.
	Device string `json:"device"`
	// Same is the largest difference of logits between stages on the accelerator and
	// the whole model on it, over all routes tried.
	Same float64 `json:"same"`
	// Whole is the largest difference between the whole model on the accelerator and
	// on the processor, Mixed that of routes with hops on both; Spread is the largest
	// distance of two logits of a row.
	Whole  float64 `json:"whole"`
	Mixed  float64 `json:"mixed"`
	Spread float64 `json:"spread"`
	// Agree of Steps greedy tokens of the mixed routes were the processor's.
	Agree  int `json:"agree"`
	Steps  int `json:"steps"`
	Routes int `json:"routes"`
}

// State is how a model did.
type State int

// The states, from best to worst.
const (
	NotRun State = iota
	Certified
	WithRule // some boundaries are not legal
	Whole    // not cut, with a reason
	Failed
)

// State judges one outcome.
func (o *Outcome) State() State {
	switch {
	case o.Failure != "":
		return Failed
	case o.Vulkan != nil:
		return Certified
	case o.Report == nil:
		return Failed
	case o.Report.WholeOnly != "":
		return Whole
	case !o.Report.Passed():
		return Failed
	case o.Legal < o.Layers-1:
		return WithRule
	}
	return Certified
}
