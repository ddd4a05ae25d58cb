package bench

import (
	"runtime"
	"time"

	"neuron/llama"
	"neuron/llama/exec"
)

// alone is libllama in this process with the whole model: the baseline.
type alone struct {
	stage *exec.Stage
}

func loadAlone(model string, layers, threads, chunk int) (*alone, error) {
	s, err := exec.Load(exec.Config{
		Paths: []string{model}, Last: layers, Layers: layers, ExitNode: "l_out", Threads: threads, ChunkRows: chunk,
	})
	if err != nil {
		return nil, err
	}
	return &alone{stage: s}, nil
}

func (a *alone) close() { a.stage.Close() }

// bare gives Go's scheduler one processor until the returned function is called,
// as stages have: else its monitor would hold up the computation, and the baseline
// be slower than libllama is.
func bare() (restore func()) {
	was := runtime.GOMAXPROCS(1)
	return func() { runtime.GOMAXPROCS(was) }
}

// loop is a plain loop over one context: prefill, then one row per sequence
// and step, the next token drawn by libllama's greedy sampler.
type loop struct {
	pool   *exec.Pool
	layers int
	chain  llama.Sampler
	pos    []int32
	next   []int32
	work   []exec.Work
	rows   [][1]int32
}

func (a *alone) newLoop(cells, seqs int) (*loop, error) {
	p, err := a.stage.NewPool(cells, seqs, false)
	if err != nil {
		return nil, err
	}
	l := &loop{pool: p, layers: a.stage.Config().Layers, chain: llama.NewChain(), pos: make([]int32, seqs), next: make([]int32, seqs),
		work: make([]exec.Work, seqs), rows: make([][1]int32, seqs)}
	if err := l.chain.Add(llama.Greedy()); err != nil {
		l.close()
		return nil, err
	}
	return l, nil
}

func (l *loop) close() {
	l.chain.Free()
	l.pool.Close()
}

// prefill starts sequence seq over with a prompt and says how long its chunks
// took, sampling included.
func (l *loop) prefill(seq int, ids []int32, chunk int) (time.Duration, error) {
	if err := l.pool.Clear(seq); err != nil {
		return 0, err
	}
	defer bare()()
	began := time.Now()
	for pos := 0; pos < len(ids); pos += chunk {
		end := min(pos+chunk, len(ids))
		r, err := l.pool.Run(l.layers, []exec.Work{{Seq: seq, Pos: int32(pos), IDs: ids[pos:end], Logits: end == len(ids)}})
		if err != nil {
			return 0, err
		}
		if end == len(ids) {
			if l.next[seq], err = l.chain.Sample(l.pool.Context(), r.Rows[0]+end-pos-1); err != nil {
				return 0, err
			}
		}
	}
	l.pos[seq] = int32(len(ids))
	return time.Since(began), nil
}

// decode makes steps of one row for each of the first n sequences and adds the
// time of each step to times, which may be nil.
func (l *loop) decode(n, steps int, times *[]time.Duration) (time.Duration, error) {
	defer bare()()
	began := time.Now()
	last := began
	for range steps {
		for i := range n {
			l.rows[i][0] = l.next[i]
			l.work[i] = exec.Work{Seq: i, Pos: l.pos[i], IDs: l.rows[i][:], Logits: true}
		}
		r, err := l.pool.Run(l.layers, l.work[:n])
		if err != nil {
			return 0, err
		}
		for i := range n {
			if l.next[i], err = l.chain.Sample(l.pool.Context(), r.Rows[i]); err != nil {
				return 0, err
			}
			l.pos[i]++
		}
		now := time.Now()
		if times != nil {
			*times = append(*times, now.Sub(last))
		}
		last = now
	}
	return last.Sub(began), nil
}
