package seam

import (
	"context"

	"neuron/engine/prefix"
	"neuron/engine/protocol"
)

// Stage is the running shard behind a seam server. engine/stage implements it
// with a child process; tests run a fake through the same suite.
type Stage interface {
	// Capability is the stage's report; constant while it runs.
	Capability() protocol.Capability
	// Open reserves KV cells for a session before any work, or fails with a
	// coded error (kv_budget, range_invalid, grammar_invalid, stage_lost...).
	// It returns when the reservation stands. Safe for concurrent use.
	Open(ctx context.Context, o StageOpen) (StageSession, error)
}

// StageOpen is what the stage needs to know of a session.
type StageOpen struct {
	Session protocol.SessionID
	// Use starts where the loaded range starts; it may end earlier.
	Use protocol.Range
	// Context is the number of cells to reserve.
	Context int
	// Sampler is set on the tail only; Prompt only when it needs the ids.
	Sampler *protocol.Sampler
	Prompt  []int32
	// Prefix says what state of other sessions may be used, and for whom this
	// session's may be kept.
	Prefix Prefix
	// DType is the element type of hidden states in frames; none means F32.
	DType protocol.DType
	// In is what rows bring besides hidden states, Out what they take along to
	// the next hop.
	In, Out protocol.Sideband
	// Deliver takes what the stage produces for the session; nil: nobody does. In
	// the order of execution that is, for each row frame, an ack, and then either
	// the rows for the next hop (same kind, position, epoch and flags; the ids of a
	// verify frame and the sideband Out too) or, on the tail, a token frame when
	// FlagSample was set, for a verify frame one more for each guess that was
	// right, all but the last with FlagMore. When the stage ends the session by
	// itself, one error frame comes last. A nil frame says that nothing follows; it
	// comes once, after Close before that returns.
	//
	// The stage calls it on a goroutine that may serve all of its sessions, one
	// call at a time: it does not wait for anybody, and calls nothing of the
	// session.
	Deliver func(f *protocol.Frame)
}

// Prefix names the beginning of a session's prompt. The zero value: no state is
// used or kept.
type Prefix struct {
	// Scope stands for all that must be equal besides the tokens: who drives, the
	// policy, and the hops up to this one. What another hop computed before is in
	// the state of this one, so it is never used behind other hops.
	Scope protocol.Hash
	Keys  prefix.Keys
	// Private: the state of a private session.
	Private bool
}

// StageSession is one session's work in a stage. One goroutine sends; Close may
// be called from any.
type StageSession interface {
	// Send hands over a row, truncate, fork or cancel frame. Rows must
	// continue at the next position of the current epoch. It blocks while the
	// stage's queue is full, and fails when the session has ended or ctx ends.
	// Afterwards f is the caller's again: the stage has copied what it still
	// needs. What it produces goes to StageOpen.Deliver.
	Send(ctx context.Context, f *protocol.Frame) error
	// Cells is the number of reserved KV cells.
	Cells() int
	// Kept is the position up to which the session has state from the start. Its
	// first row may lie there or before.
	Kept() int
	// Close frees the KV and returns when it is free; idempotent.
	Close() error
}
