package draft

import (
	"math"
	"time"
)

// Sizes are the numbers of tokens that a pass may check beside its own row:
// llama.cpp's kernels work on groups of four rows, so three cost hardly more
// than one, and seven hardly more than four.
var Sizes = [...]int{3, 7}

// Most is the largest of Sizes.
const Most = 7

// Loss bounds what guessing may cost where it does not pay: this share of the
// steps of an answer, and a start.
const (
	Loss  = 0.015
	start = 1.0 // steps
	// patience is after how many tokens a weak guess may lose as much as start.
	patience = 32.0
)

// fade is the weight of the newest measurement in a running mean.
const fade = 1.0 / 8

// Window decides how many tokens to guess. It counts in steps, the time of a
// pass with one row: a pass that checks a guess is worth the tokens it gives,
// and costs the steps that it takes.
type Window struct {
	step  float64                // time of a pass with one row, in seconds; 0 before the first
	cost  [len(Sizes)]float64    // time of a pass with a guess; 0 before the first
	right [Classes][Most]average // per strength and place: how often guesses up to there were right

	given   float64 // tokens so far
	balance float64 // tokens that passes with guesses gave, minus steps that they took
}

// average is a running mean that begins with a belief.
type average struct {
	v    float64
	seen bool
}

// believed is what is assumed of a guess's next token before anything is known,
// per strength.
var believed = [Classes]float64{0.3, 0.6, 0.85}

// unmeasured is what a pass with the smallest guess is thought to cost, in
// steps, before one was measured: a first guess is cheap enough to try, and
// tells. Of a longer one it is assumed that it costs longer times the one below,
// and the one below goes first.
const (
	unmeasured = 1.5
	longer     = 1.7
)

func (a *average) of(belief float64) float64 {
	if !a.seen {
		return belief
	}
	return a.v
}

func (a *average) add(v, belief float64) {
	a.v = a.of(belief)
	a.v += (v - a.v) * fade
	a.seen = true
}

// Next says how many of the available tokens of a match of the given strength
// to guess: 0, or one of Sizes or fewer where no more are available.
func (w *Window) Next(class, available int) int {
	if available == 0 || w.step == 0 {
		return 0
	}
	best, gain := 0, 0.0
	for i, size := range Sizes {
		n := min(size, available)
		cost := w.costOf(i)
		// A wrong guess must not take more than what may be lost.
		if w.balance-(cost-1) < -w.allowed(class) {
			continue
		}
		if g := 1 + w.expect(class, n) - cost; g > gain {
			best, gain = n, g
		}
		if available <= size {
			break
		}
	}
	return best
}

// allowed is how many steps may be lost by a guess of the given strength. All
// but the strongest have to wait a while for their first try: short answers end
// before it.
func (w *Window) allowed(class int) float64 {
	first := start
	if class < Classes-1 {
		first = min(first, w.given/patience)
	}
	return first + Loss*w.given
}

// costOf is what a pass with a guess of Sizes[i] takes, in steps.
func (w *Window) costOf(i int) float64 {
	switch {
	case w.cost[i] > 0:
		return w.cost[i] / w.step
	case i == 0:
		return unmeasured
	case w.cost[i-1] == 0:
		return math.Inf(1)
	}
	return w.costOf(i-1) * longer
}

// expect is how many of n guessed tokens will be right.
func (w *Window) expect(class, n int) (sum float64) {
	belief := 1.0
	for i := range n {
		belief *= believed[class]
		sum += w.right[class][i].of(belief)
	}
	return sum
}

// Stepped notes a pass without a guess.
func (w *Window) Stepped(took time.Duration) {
	w.given++
	w.step = mean(w.step, took)
}

// Checked notes a pass that checked a guess of n tokens of the given strength,
// of which the first right ones were right; it gave right+1 tokens.
func (w *Window) Checked(class, n, right int, took time.Duration) {
	w.given += float64(right + 1)
	belief := 1.0
	for i := range n {
		belief *= believed[class]
		hit := 0.0
		if i < right {
			hit = 1
		}
		w.right[class][i].add(hit, belief)
	}
	at := 0
	for at < len(Sizes)-1 && n > Sizes[at] {
		at++
	}
	w.cost[at] = mean(w.cost[at], took)
	if w.step > 0 {
		w.balance += float64(right+1) - took.Seconds()/w.step
	}
	// A long run of luck is no licence to lose it all again.
	w.balance = min(w.balance, start)
}

func mean(old float64, took time.Duration) float64 {
	if old == 0 {
		return took.Seconds()
	}
	return old + (took.Seconds()-old)*fade
}
