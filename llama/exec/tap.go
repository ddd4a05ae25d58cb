package exec

import (
	"fmt"
	"strconv"
	"unsafe"

	"neuron/llama"
)

// tap is the evaluation callback of a pool: it waits for the exit node, copies
// its rows and stops the graph there, so that nothing behind is computed. It
// runs on the owner's thread inside llama_decode.
type tap struct {
	name string // the family's exit node

	node string // the node of this call, "l_out-3"
	rows int
	out  []float32 // rows x width, reused between calls

	calls int // how many ubatches came by
	err   error
	done  bool
}

// arm prepares for one call with the given exit layer (in the stage's own
// numbering) and row count.
func (t *tap) arm(layer, rows, width int) {
	if want := t.name + "-" + strconv.Itoa(layer); want != t.node {
		t.node = want
	}
	t.rows, t.calls, t.err, t.done = rows, 0, nil, false
	if n := rows * width; cap(t.out) < n {
		t.out = make([]float32, n)
	} else {
		t.out = t.out[:n]
	}
}

// Ask implements llama.EvalHandler. After the exit it answers yes to every
// node: with several backends returning false ends only the current split, and
// this way each later split computes a single node.
func (t *tap) Ask(n llama.Tensor) bool { return t.done || n.NameIs(t.node) }

// Got implements llama.EvalHandler.
func (t *tap) Got(n llama.Tensor) bool {
	if !n.NameIs(t.node) {
		return false
	}
	t.calls++
	t.done = true
	d := n.Dims()
	if t.calls > 1 || int(d[0])*int(d[1]) != len(t.out) || int(d[1]) != t.rows || n.NBytes() != 4*len(t.out) {
		t.err = fmt.Errorf("%w: ubatch %d has %dx%d values for %d rows", ErrLayout, t.calls, d[0], d[1], t.rows)
		return false
	}
	t.err = n.Get(unsafe.Slice((*byte)(unsafe.Pointer(&t.out[0])), 4*len(t.out)), 0)
	return false
}

// result says whether exactly one ubatch with all rows came by.
func (t *tap) result() error {
	if t.err == nil && t.calls != 1 {
		return fmt.Errorf("%w: node %s was seen %d times", ErrLayout, t.node, t.calls)
	}
	return t.err
}
