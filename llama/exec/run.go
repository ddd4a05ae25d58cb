package exec

import (
	"errors"
	"fmt"

	"neuron/llama"
)

// Work is one sequence's part of a call.
type Work struct {
	Seq int
	Pos int32 // position of the first row
	// IDs are the rows on the head, Hidden (rows x width) elsewhere; a stage
	// whose plan asks for them takes IDs beside Hidden.
	IDs    []int32
	Hidden []float32
	// TopK is the sender's choice of positions, Plan.In.TopK per row.
	TopK []int32
	// Logits asks the tail for logits of the last row.
	Logits bool
	// AllLogits asks for every row (verification and tests).
	AllLogits bool
}

// Rows is the number of rows, width the stage's.
func (w *Work) Rows(width int) int {
	if w.Hidden == nil {
		return len(w.IDs)
	}
	return len(w.Hidden) / width
}

// Result is what a call gave.
type Result struct {
	// Hidden are the rows at the exit, in the order of the work, valid until
	// the pool's next call; nil when the call ran to the end.
	Hidden []float32
	// TopK is what goes with Hidden when the next stage needs it at this exit
	// (Plan.TopKWidth per row, -1 behind what was chosen); valid as Hidden.
	TopK []int32
	// Rows has, per work, the batch index of its first row; logits of row i of
	// work w are Logits(Rows[w]+i).
	Rows []int
}

// Legal says why a call with these parts would be reordered by libllama, nil
// if it would not. A call holds one part with any number of rows, or parts of
// equally many rows whose sequence ids follow each other without a gap:
// split_equal (llama-batch.cpp) then makes exactly one ubatch in batch order.
func Legal(work []Work, width, most int) error {
	if len(work) == 0 {
		return fmt.Errorf("%w: empty", ErrBatch)
	}
	total := 0
	for i := range work {
		n := work[i].Rows(width)
		if n == 0 {
			return fmt.Errorf("%w: part %d has no rows", ErrBatch, i)
		}
		if i > 0 && (n != work[0].Rows(width) || work[i].Seq != work[i-1].Seq+1) {
			return fmt.Errorf("%w: parts must have equal rows and consecutive sequences", ErrBatch)
		}
		total += n
	}
	if total > most {
		return fmt.Errorf("%w: %d rows, at most %d", ErrBatch, total, most)
	}
	return nil
}

// Run executes work up to exit (a layer boundary of the whole model; Layers
// runs the tail to its logits). The KV of all parts has grown when it returns
// nil; after an error their sequences are not usable any more.
func (p *Pool) Run(exit int, work []Work) (*Result, error) {
	c := p.stage.cfg
	if exit <= c.First || exit > c.Last || (exit == c.Layers) == p.exits {
		return nil, fmt.Errorf("%w: exit %d of layers %d-%d", ErrBatch, exit, c.First, c.Last)
	}
	if err := Legal(work, p.stage.width, c.ChunkRows); err != nil {
		return nil, err
	}
	// In the last layer llama.cpp keeps only the rows that are flagged for
	// output; a stage that ends there must flag all of them.
	flagAll := p.exits && c.Plan.LastLayer(exit)
	rows := 0
	p.batch.Reset()
	r := &Result{Rows: make([]int, len(work))}
	for i := range work {
		r.Rows[i] = rows
		n, err := p.add(&work[i], flagAll)
		if err != nil {
			return nil, err
		}
		rows += n
	}
	if p.slot != nil {
		p.tap.arm(&c.Plan, exit, work, rows, p.stage.width)
	}
	if err := p.ctx.Decode(p.batch); err != nil {
		var le *llama.Error
		if errors.As(err, &le) && le.Code == llama.CodeDecodeAborted {
			return nil, ErrAborted
		}
		return nil, err
	}
	if p.slot == nil {
		return r, nil
	}
	if err := p.tap.result(); err != nil {
		return nil, err
	}
	if p.exits {
		r.Hidden, r.TopK = p.tap.exit.rows, p.tap.chosen.rows
	}
	return r, nil
}

func (p *Pool) add(w *Work, flagAll bool) (int, error) {
	width := p.stage.width
	n := w.Rows(width)
	if w.Seq < 0 || w.Seq >= p.seqs || w.Pos < 0 || int(w.Pos)+n > p.cells {
		return 0, fmt.Errorf("%w: positions %d+%d of sequence %d in %d cells", ErrBatch, w.Pos, n, w.Seq, p.cells)
	}
	plan := &p.stage.cfg.Plan
	if p.stage.Head() != (w.Hidden == nil) {
		return 0, fmt.Errorf("%w: the head takes token ids, other stages hidden states", ErrBatch)
	}
	ids := w.IDs
	if !p.stage.Head() && !plan.In.IDs {
		ids = nil
	}
	if len(w.TopK) != n*plan.In.TopK || plan.In.IDs && len(ids) != n {
		return 0, fmt.Errorf("%w: %d ids and %d positions beside %d rows", ErrBatch, len(ids), len(w.TopK), n)
	}
	for i := range n {
		out := flagAll || !p.exits && (w.AllLogits || w.Logits && i == n-1)
		pos := w.Pos + int32(i)
		var err error
		if p.stage.embeds() {
			err = p.batch.AddEmbd(w.Hidden[i*width:(i+1)*width], pos, int32(w.Seq), out)
		} else {
			id := int32(0) // any: its embedding is overwritten
			if ids != nil {
				id = ids[i]
			}
			if id < 0 || int(id) >= p.stage.vocab {
				return 0, fmt.Errorf("%w: token id %d of %d", ErrBatch, id, p.stage.vocab)
			}
			err = p.batch.AddToken(id, pos, int32(w.Seq), out)
		}
		if err != nil {
			return 0, err
		}
	}
	return n, nil
}

// Logits are those of batch row i of the last call, n_vocab floats in memory
// of the library, valid until the next call.
func (p *Pool) Logits(i int) ([]float32, error) { return p.ctx.Logits(i) }
