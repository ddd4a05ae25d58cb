package worker

import (
	"math/bits"
	"strconv"
	"time"

	"neuron/engine/protocol"
	"neuron/llama/exec"
)

const (
	// minCells is the smallest pool size; llama.cpp pads a sequence to 256.
	minCells = 256
	// poolCells bounds the cells that one pool makes at once: making one
	// touches all its memory, so a long context gets a pool of its own.
	poolCells = 16384
	// poolSeqs is the most sequences per pool; kernels work in groups of four
	// rows, and unused sequences cost their memory.
	poolSeqs = 4
)

// pool is KV state for sessions of one size; its context is made when a session
// needs one. An empty pool is free memory: it may be dropped at any moment, and
// counts as if it were. The newest empty one is kept for a while, so that a lone
// client does not pay for a context with each request.
type pool struct {
	run   *exec.Pool
	seqs  []*session // by sequence id, nil when free
	bytes int64
	empty time.Time // when its last session left; zero while it has one
}

func (p *pool) close() { p.run.Close() }

func (p *pool) used() int {
	n := 0
	for _, s := range p.seqs {
		if s != nil {
			n++
		}
	}
	return n
}

// lowestFree is the lowest free sequence id: dense ids batch, gaps do not.
func (p *pool) lowestFree() (int, bool) {
	for i, s := range p.seqs {
		if s == nil {
			return i, true
		}
	}
	return 0, false
}

// cellsFor rounds a context up to a pool size.
func cellsFor(context int) int {
	if context <= minCells {
		return minCells
	}
	return 1 << bits.Len(uint(context-1))
}

// reserve finds or makes room for a session that exits early or not: a free
// sequence of its size, else a new pool, else a free sequence of a larger
// size, the smallest of them.
func (st *state) reserve(context int, exits bool) (*pool, int, error) {
	if context < 1 || context > st.cfg.MaxContext {
		return nil, 0, protocol.Errorf(protocol.CodeContextExceeded, "a context of %d cells does not fit this stage's %d", context, st.cfg.MaxContext).
			With("fits", strconv.Itoa(st.cfg.MaxContext))
	}
	if len(st.sessions) >= st.cfg.MaxSessions {
		return nil, 0, protocol.Errorf(protocol.CodeStageOverloaded, "%d sessions run here already", len(st.sessions))
	}
	cells := cellsFor(context)
	perSeq := int64(cells) * st.cfg.KVBytesPerCell
	slack := st.slack()
	p, id := st.freeSequence(cells, exits)
	if p != nil && (p.run.Cells() == cells || perSeq > slack) {
		return p, id, nil
	}
	if perSeq > slack {
		fits := st.fits(exits)
		return nil, 0, protocol.Errorf(protocol.CodeKVBudget, "%d cells need %d bytes of KV memory; the largest session that fits now has %d cells", cells, perSeq, fits).
			With("fits", strconv.Itoa(fits))
	}
	seqs := poolSize(cells, perSeq, slack)
	if p := st.kept(cells, seqs, exits); p != nil {
		p.empty = time.Time{}
		st.countMemory()
		return p, 0, nil
	}
	p, err := st.newPool(cells, seqs, exits)
	return p, 0, err
}

// poolSize is how many sequences a new pool gets: more than one, so that
// sessions of one size share calls, as long as half of the free memory is left
// for sessions of other sizes.
func poolSize(cells int, perSeq, slack int64) int {
	seqs := min(poolSeqs, max(1, poolCells/cells))
	for seqs > 1 && int64(seqs)*perSeq > slack/2 {
		seqs /= 2
	}
	return seqs
}

func (st *state) newPool(cells, seqs int, exits bool) (*pool, error) {
	// The memory of kept ones is wanted, and compute memory with it.
	st.dropPools(func(p *pool) bool { return !p.empty.IsZero() })
	run, err := st.stage.NewPool(cells, seqs, exits)
	if err != nil {
		return nil, coded(err)
	}
	p := &pool{run: run, seqs: make([]*session, seqs), bytes: int64(seqs) * int64(cells) * st.cfg.KVBytesPerCell}
	st.pools = append(st.pools, p)
	st.countMemory()
	return p, nil
}

// kept is an empty pool just like the one that would be made.
func (st *state) kept(cells, seqs int, exits bool) *pool {
	for _, p := range st.pools {
		if !p.empty.IsZero() && p.run.Cells() == cells && len(p.seqs) == seqs && p.run.Exits() == exits {
			return p
		}
	}
	return nil
}

// freeSequence finds the smallest free sequence with at least so many cells in
// a pool with sessions.
func (st *state) freeSequence(cells int, exits bool) (best *pool, seq int) {
	for _, p := range st.pools {
		c := p.run.Cells()
		if !p.empty.IsZero() || p.run.Exits() != exits || c < cells || best != nil && c >= best.run.Cells() {
			continue
		}
		if id, ok := p.lowestFree(); ok {
			best, seq = p, id
		}
	}
	return best, seq
}

// slack is the KV memory that no pool with sessions holds.
func (st *state) slack() int64 {
	free := st.cfg.KVBudget
	for _, p := range st.pools {
		if p.empty.IsZero() {
			free -= p.bytes
		}
	}
	return free
}

// fits is the largest context that a session could be opened with now.
func (st *state) fits(exits bool) int {
	best := 0
	for cells := minCells; cells < 2*st.cfg.MaxContext; cells *= 2 {
		p, _ := st.freeSequence(cells, exits)
		if p != nil || int64(cells)*st.cfg.KVBytesPerCell <= st.slack() {
			best = cells
		}
	}
	return min(best, st.cfg.MaxContext)
}

// freeKV is what the capability report promises: the memory of the largest
// session that could be opened now, whether or not it exits early. Memory that
// pools hold in smaller pieces does not count.
func (st *state) freeKV() int64 {
	pieces := st.largestFree(true)
	if st.stage.Tail() {
		// Sessions that end in this stage and those that leave it before use
		// different pools; the promise must hold for both.
		pieces = min(pieces, st.largestFree(false))
	}
	return max(st.slack(), pieces)
}

// largestFree is the memory of the largest free sequence.
func (st *state) largestFree(exits bool) int64 {
	var n int64
	for _, p := range st.pools {
		if _, ok := p.lowestFree(); ok && p.empty.IsZero() && p.run.Exits() == exits {
			n = max(n, p.bytes/int64(len(p.seqs)))
		}
	}
	return n
}

const (
	// keepFor is how long an empty pool waits for its next session.
	keepFor = time.Minute
	// keepShare of the budget is the most that an empty pool may hold: a node
	// without sessions gives the rest back at once.
	keepShare = 2
)

// emptied keeps p, which a session has left, or frees it; only the newest
// empty pool is kept.
func (st *state) emptied(p *pool, now time.Time) {
	if p.used() > 0 {
		return
	}
	p.empty = now
	st.dropPools(func(o *pool) bool {
		return !o.empty.IsZero() && (o != p || o.bytes > st.cfg.KVBudget/keepShare)
	})
}

// expirePools frees empty pools after their time and says when the next one's
// ends, zero when there is none.
func (st *state) expirePools(now time.Time) (next time.Time) {
	over := false
	for _, p := range st.pools {
		if p.empty.IsZero() {
			continue
		}
		if end := p.empty.Add(keepFor); !now.Before(end) {
			over = true
		} else if next.IsZero() || end.Before(next) {
			next = end
		}
	}
	if over {
		st.dropPools(func(p *pool) bool { return !p.empty.IsZero() && !now.Before(p.empty.Add(keepFor)) })
	}
	return next
}

// dropPools frees the pools that are not wanted.
func (st *state) dropPools(unwanted func(*pool) bool) {
	kept := st.pools[:0]
	for _, p := range st.pools {
		if unwanted(p) {
			p.close()
		} else {
			kept = append(kept, p)
		}
	}
	clear(st.pools[len(kept):])
	st.pools = kept
	st.countMemory()
}

// countMemory updates what the pings say of the pools: empty ones are free.
func (st *state) countMemory() {
	var kv, compute int64
	for _, p := range st.pools {
		if p.empty.IsZero() {
			m := p.run.Memory()
			kv, compute = kv+m.KV, compute+m.Compute
		}
	}
	st.w.setMemory(kv, compute)
}
