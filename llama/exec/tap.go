package exec

import (
	"fmt"
	"unsafe"

	"neuron/llama"
	"neuron/llama/family"
)

// tap is the evaluation callback of a pool. It overwrites the entry nodes with
// what came from the stage before, waits for the exit node, copies its rows and
// stops the graph there, so that nothing behind is computed. It runs on the
// owner's thread inside llama_decode.
type tap struct {
	work  []Work // of this call
	count int    // their rows
	width int

	// entry and choice are nodes that are overwritten, exit and chosen nodes
	// that are read; each with an empty name when there is none.
	entry, choice watched
	exit          source[float32]
	chosen        source[int32]

	given []int32 // the choice as its node wants it, reused between calls
	err   error
	done  bool
}

// watched is a node that must come by once in a call.
type watched struct {
	node string
	seen int
}

// source is a node whose rows are copied; rows is reused between calls.
type source[T any] struct {
	watched
	rows []T
}

// arm prepares for one call.
func (t *tap) arm(plan *family.Plan, exit int, work []Work, rows, width int) {
	t.work, t.count, t.width, t.err, t.done = work, rows, width, nil, false
	t.entry.set(plan.Entry)
	t.choice.set(plan.TopKIn)
	t.exit.set("")
	t.chosen.set("")
	t.chosen.rows = t.chosen.rows[:0]
	if exit == plan.Layers {
		return // to the logits
	}
	t.exit.set(plan.ExitNode(exit))
	t.exit.size(rows * width)
	if name, ok := plan.TopKOut[exit]; ok {
		t.chosen.set(name)
		t.chosen.size(rows * plan.TopKWidth)
	}
}

func (w *watched) set(node string) { w.node, w.seen = node, 0 }

func (w *watched) is(n llama.Tensor) bool { return w.node != "" && n.NameIs(w.node) }

func (s *source[T]) size(n int) {
	if cap(s.rows) < n {
		s.rows = make([]T, n)
	}
	s.rows = s.rows[:n]
}

// Ask implements llama.EvalHandler. After the exit it answers yes to every
// node: with several backends returning false ends only the current split, and
// this way each later split computes a single node.
func (t *tap) Ask(n llama.Tensor) bool {
	return t.done || t.exit.is(n) || t.entry.is(n) || t.choice.is(n) || t.chosen.is(n)
}

// Got implements llama.EvalHandler.
func (t *tap) Got(n llama.Tensor) bool {
	if t.done || t.err != nil {
		// Also when a node comes by twice: the call's second ubatch.
		if t.exit.is(n) {
			t.exit.seen++
		}
		return false
	}
	// One node may be overwritten and then read.
	if t.entry.is(n) {
		t.entry.seen++
		t.enter(n)
	}
	if t.choice.is(n) {
		t.choice.seen++
		t.choose(n)
	}
	if t.chosen.is(n) {
		t.chosen.seen++
		t.readChoice(n)
	}
	if t.exit.is(n) {
		t.exit.seen++
		t.leave(n)
		t.done = true
	}
	return !t.done && t.err == nil
}

// enter overwrites the node with the hidden rows of all parts.
func (t *tap) enter(n llama.Tensor) {
	if !t.fits(n, t.count*t.width) {
		return
	}
	at := 0
	for i := range t.work {
		b := raw(t.work[i].Hidden)
		if err := n.Set(b, at); err != nil && t.err == nil {
			t.err = err
		}
		at += len(b)
	}
}

// leave copies the rows at the exit.
func (t *tap) leave(n llama.Tensor) {
	if t.fits(n, len(t.exit.rows)) {
		t.err = n.Get(raw(t.exit.rows), 0)
	}
}

// choose overwrites the positions that an indexer has chosen. The node has
// fewer of them per row than the model's most while the sessions of the call are
// short; how many depends on the longest of them, so the sender's node may have
// had others. Places that are left name the row's own position, which it has
// chosen already.
func (t *tap) choose(n llama.Tensor) {
	k := int(n.Dims()[0])
	if !t.fits(n, t.count*k) {
		return
	}
	if cap(t.given) < t.count*k {
		t.given = make([]int32, t.count*k)
	}
	t.given = t.given[:0]
	for i := range t.work {
		w := &t.work[i]
		rows := w.Rows(t.width)
		per := len(w.TopK) / rows
		for r := range rows {
			row, own := w.TopK[r*per:(r+1)*per], w.Pos+int32(r)
			end := 0
			for end < per && row[end] >= 0 {
				end++
			}
			if end > k {
				t.err = fmt.Errorf("%w: the sender has chosen %d positions, this stage takes %d", ErrLayout, end, k)
				return
			}
			t.given = append(t.given, row[:end]...)
			for ; end < k; end++ {
				t.given = append(t.given, own)
			}
		}
	}
	t.err = n.Set(raw(t.given), 0)
}

// readChoice copies the positions, filled up with -1 to the model's most.
func (t *tap) readChoice(n llama.Tensor) {
	k, per := int(n.Dims()[0]), len(t.chosen.rows)/t.count
	if !t.fits(n, t.count*k) {
		return
	}
	if k > per {
		t.err = fmt.Errorf("%w: %d positions per row, at most %d are known", ErrLayout, k, per)
		return
	}
	if t.err = n.Get(raw(t.chosen.rows[:t.count*k]), 0); t.err != nil {
		return
	}
	for r := t.count - 1; r >= 0; r-- {
		to := t.chosen.rows[r*per : (r+1)*per]
		copy(to, t.chosen.rows[r*k:(r+1)*k])
		for i := k; i < per; i++ {
			to[i] = -1
		}
	}
}

// fits compares a node of 4-byte values with what is expected.
func (t *tap) fits(n llama.Tensor, values int) bool {
	d := n.Dims()
	if got := d[0] * d[1] * d[2] * d[3]; got != int64(values) || n.NBytes() != 4*values {
		t.err = fmt.Errorf("%w: node %s has %v values for %d rows", ErrLayout, n.Name(), d, t.count)
		return false
	}
	return true
}

// result says whether exactly one ubatch with all rows came by.
func (t *tap) result() error {
	if t.err != nil {
		return t.err
	}
	for _, w := range []*watched{&t.entry, &t.choice, &t.chosen.watched, &t.exit.watched} {
		if w.node != "" && w.seen != 1 {
			return fmt.Errorf("%w: node %s was seen %d times", ErrLayout, w.node, w.seen)
		}
	}
	return nil
}

// raw are the bytes of a slice of 4-byte numbers.
func raw[T float32 | int32](v []T) []byte {
	return unsafe.Slice((*byte)(unsafe.Pointer(unsafe.SliceData(v))), 4*len(v))
}
