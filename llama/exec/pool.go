package exec

import (
	"fmt"

	"neuron/llama"
)

// TailRows bounds the rows of one call of the tail that get logits: one per
// sequence, or their verify windows.
const TailRows = 64

// verifyRows is how many rows with logits a sequence has in one call at most:
// its newest token and the guesses behind it.
const verifyRows = 8

// minUBatch keeps small chunks on the kernel that full chunks use.
const minUBatch = 64

// Pool is KV state for a fixed number of sequences of equal size, and the
// context that runs them. Sequence ids are 0 to Seqs-1.
type Pool struct {
	stage *Stage
	ctx   llama.Context
	mem   llama.Memory
	batch *llama.Batch
	abort *llama.AbortSlot
	slot  *llama.EvalSlot
	tap   tap

	cells, seqs int
	outputs     int  // rows of one call that get logits
	threads     int  // of the next call
	exits       bool // has the callback: may stop before the model's end
}

// NewPool makes a pool; it touches all its memory. exits says whether calls
// will stop at a layer (every call of a stage that is not the tail does). The
// tail's own pool has no callback, which would cost time at every node, unless
// its rows have to go in that way.
func (s *Stage) NewPool(cells, seqs int, exits bool) (_ *Pool, err error) {
	if cells < 1 || seqs < 1 || seqs > 256 {
		return nil, fmt.Errorf("%w: pool of %d sequences with %d cells", ErrBatch, seqs, cells)
	}
	if !exits && !s.Tail() {
		return nil, fmt.Errorf("%w: only the tail runs to the end", ErrBatch)
	}
	p := &Pool{stage: s, cells: cells, seqs: seqs, exits: exits, threads: s.cfg.Threads}
	defer func() {
		if err != nil {
			p.Close()
		}
	}()
	if p.abort, err = llama.NewAbortSlot(); err != nil {
		return nil, err
	}
	rows := max(s.cfg.ChunkRows, minUBatch)
	outputs := min(TailRows, rows)
	plan := &s.cfg.Plan
	if exits || plan.Entry != "" || plan.TopKIn != "" {
		if p.slot, err = llama.NewEvalSlot(&p.tap); err != nil {
			return nil, err
		}
	}
	if exits {
		outputs = rows
	}
	p.ctx, err = llama.NewContext(s.model, llama.ContextParams{
		NCtx: uint32(cells * seqs), NBatch: uint32(rows), NUBatch: uint32(rows), NSeqMax: uint32(seqs),
		NOutputsMax: uint32(outputs), Threads: s.cfg.Threads, ThreadsBatch: s.cfg.Threads,
		Eval: p.slot, Abort: p.abort, NoPerf: true,
	})
	if err != nil {
		return nil, err
	}
	if s.threads != 0 {
		if err := p.ctx.AttachPool(s.threads, s.threads); err != nil {
			return nil, err
		}
	}
	p.mem = p.ctx.Memory()
	width := 0
	if s.embeds() {
		width = s.width
	}
	if p.batch, err = llama.NewBatch(rows, width); err != nil {
		return nil, err
	}
	p.outputs = rows // all are flagged when the stage ends at its last layer
	if !exits {
		p.outputs = min(outputs, seqs*verifyRows)
	}
	return p, nil
}

// Memory is what a pool costs, in bytes.
type Memory struct {
	KV      int64 // keys and values, all touched when the pool is made
	Compute int64 // results and logits of one call with the most rows
}

// Memory gives the pool's cost as the library states it.
func (p *Pool) Memory() Memory {
	b := p.ctx.Buffers()
	logits := int64(p.outputs) * int64(p.stage.vocab) * 4
	return Memory{KV: b.KV, Compute: b.Compute + max(b.Output, logits)}
}

// Close frees the pool's memory. Nil parts of a half-made pool are skipped.
func (p *Pool) Close() {
	if p.batch != nil {
		p.batch.Free()
	}
	if p.ctx != 0 {
		p.ctx.Free()
	}
	if p.slot != nil {
		p.slot.Release()
	}
	if p.abort != nil {
		p.abort.Release()
	}
}

// Cells is the size of one sequence, Seqs their number.
func (p *Pool) Cells() int { return p.cells }

// Seqs is the number of sequences.
func (p *Pool) Seqs() int { return p.seqs }

// Exits reports whether the pool's calls stop at a layer.
func (p *Pool) Exits() bool { return p.exits }

// Clear forgets everything of a sequence.
func (p *Pool) Clear(seq int) error {
	if seq < 0 || seq >= p.seqs {
		return fmt.Errorf("%w: sequence %d of %d", ErrBatch, seq, p.seqs)
	}
	p.mem.SeqRm(int32(seq), -1, -1)
	return nil
}

// Truncate forgets the positions from pos on. A model with sliding layers
// refuses (ErrWindow) to go back further than its window still reaches.
func (p *Pool) Truncate(seq int, pos int32) error {
	if seq < 0 || seq >= p.seqs || pos < 0 {
		return fmt.Errorf("%w: truncate sequence %d to %d", ErrBatch, seq, pos)
	}
	// The row at pos attends to window-1 positions before it; the library gives
	// no error when their cells have been used again (swa_full is false).
	if window := int32(p.stage.model.NSWA()); window > 0 && pos > 0 {
		if oldest := p.mem.SeqPosMin(int32(seq)); oldest > max(0, pos-window+1) {
			return fmt.Errorf("%w: back to %d, kept from %d", ErrWindow, pos, oldest)
		}
	}
	if !p.mem.SeqRm(int32(seq), pos, -1) {
		return fmt.Errorf("%w: this model's memory cannot forget single positions", ErrBatch)
	}
	return nil
}

// SetThreads sets the threads of the calls that follow, 1 to the stage's.
func (p *Pool) SetThreads(n int) error {
	if n < 1 || n > p.stage.cfg.Threads {
		return fmt.Errorf("%w: %d threads of %d", ErrBatch, n, p.stage.cfg.Threads)
	}
	if n == p.threads {
		return nil
	}
	p.threads = n
	return p.ctx.SetThreads(n, n)
}

// Abort interrupts the running call from another goroutine, or (false) allows
// calls again.
func (p *Pool) Abort(on bool) { p.abort.Set(on) }

// Context gives the handle for samplers on the tail.
func (p *Pool) Context() llama.Context { return p.ctx }
