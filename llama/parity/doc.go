// Package parity compares a whole model with routes of stages cut from it, on
// the pinned library: at every legal cut and at several cuts in three and four,
// a prompt of several chunks and decode, two interleaved sessions, truncating
// and going on where the memory allows it, saving and restoring state. With the
// pinned settings (one thread, chunks of 64 rows) the largest difference of
// logits must be 0.
//
// Tests and the families runner import it; it knows no network.
package parity

import (
	"context"
	"errors"
)

// Options shape a check; the zero value checks everything.
type Options struct {
	// Dir is a folder for the shard; "" makes a temporary one. The check
	// removes what it wrote.
	Dir string
	// Prompt is the rows of the prompt, 150 by default, Steps the decode steps
	// behind it, 8 by default.
	Prompt, Steps int
	// Cuts bounds how many cuts in two are tried, spread over the model; 0: all.
	Cuts int
	// Quick leaves out sessions, truncation and state: only prompt and decode.
	Quick bool
	// Stages is a file to cut instead of the one that runs whole, for tests of
	// the check itself; "" for the same.
	Stages string
}

// Report is what a check has found.
type Report struct {
	Arch   string
	Layers int
	// Width is the floats per row at the seams.
	Width int
	// WholeOnly says why the model may not be cut; nothing was compared then.
	WholeOnly string
	// Cuts are the boundaries tried, Legal of Layers-1 could be cut.
	Cuts []int
	// Routes is how many routes were run, Pads the most pad layers of a stage.
	Routes, Pads int
	// MaxDiff is the largest difference of logits; Range their spread.
	MaxDiff float64
	// Failures are sentences; none means that the model passed.
	Failures []string
	// KVBytesPerCell is what one position costs in all layers, StateBytes what
	// a sequence costs whatever its length.
	KVBytesPerCell, StateBytes int64
	// Sidebands that some stage needs: "ids", "top_k".
	Sidebands []string
	// Rewinds: a session can forget its newest positions.
	Rewinds bool
}

// Passed reports whether the model was compared and nothing differed.
func (r *Report) Passed() bool { return r.WholeOnly == "" && len(r.Failures) == 0 && r.Routes > 0 }

// ErrModel is wrapped when the file itself cannot be used.
var ErrModel = errors.New("parity")

// Check compares the model in path with stages of it. llama.Load must have been
// called. What goes wrong with a stage is a failure in the report; an error is
// a file that cannot be read, a model that does not run whole, or ctx.
//
// A stage that the library refuses by ending the process ends this one: who
// checks families that may do so runs each in a process of its own, with
// GGML_NO_BACKTRACE=1.
func Check(ctx context.Context, path string, o Options) (*Report, error) {
	return check(ctx, path, o)
}
