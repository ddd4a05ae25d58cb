package seam

import (
	"context"

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
}

// StageSession is one session's work in a stage. One goroutine sends, one
// reads Frames; Close may be called from any.
type StageSession interface {
	// Send hands over a row, truncate, fork or cancel frame. Rows must
	// continue at the next position of the current epoch. It blocks while the
	// stage's queue is full, and fails when the session has ended or ctx ends.
	// The stage owns f afterwards.
	Send(ctx context.Context, f *protocol.Frame) error
	// Frames delivers, in the order of execution: for each row frame an ack,
	// and then either the rows for the next hop (same kind, position, epoch
	// and flags; the ids of a verify frame too) or, on the tail, a token frame
	// when FlagSample was set, for a verify frame one more for each guess that
	// was right, all but the last with FlagMore. When
	// the stage ends the session by itself, one error frame comes last. The
	// channel is closed when nothing follows.
	Frames() <-chan *protocol.Frame
	// Cells is the number of reserved KV cells.
	Cells() int
	// Close frees the KV and returns when it is free; idempotent.
	Close() error
}
