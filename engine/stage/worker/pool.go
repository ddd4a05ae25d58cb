package worker

import (
	"math/bits"
	"slices"
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
	// poolSeqs is the most sequences of a size's first pool; kernels work in groups
	// of four rows, and unused sequences cost their memory.
	poolSeqs = 4
	// mostSeqs and grownBytes bound pools that are made while sessions of their
	// size run, which shows that their sequences are wanted: sessions share calls
	// only within a pool. Making one touches its memory and holds up those sessions
	// meanwhile.
	mostSeqs   = 16
	grownBytes = 1 << 30
)

// pool is KV state for sessions of one size; its context is made when a session
// needs one. An empty pool is free memory: it may be dropped at any moment, and
// counts as if it were. The newest empty one is kept for a while, so that a lone
// client does not pay for a context with each request, and those that keep
// state of prompts for longer.
type pool struct {
	run   *exec.Pool
	seqs  []*session // by sequence id, nil when free
	kept  []*kept    // by sequence id: what free ones hold, nil for nothing
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

// seqBytes is what one session of so many cells takes.
func (st *state) seqBytes(cells int) int64 {
	if len(st.cfg.Memory) > 0 {
		return st.cfg.Memory.Bytes(cells)
	}
	return int64(cells) * st.cfg.KVBytesPerCell
}

// idle reports whether the pool has no sessions.
func (p *pool) idle() bool { return !p.empty.IsZero() }

// keeps reports whether it holds state for later sessions.
func (p *pool) keeps() bool {
	return slices.ContainsFunc(p.kept, func(k *kept) bool { return k != nil })
}

// lastUse is when the pool was wanted last.
func (p *pool) lastUse() time.Time {
	last := p.empty
	for _, k := range p.kept {
		if k != nil && k.used.After(last) {
			last = k.used
		}
	}
	return last
}

// reserve finds or makes room for a session that exits early or not: a free
// sequence of its size, else a new pool, else a free sequence of a larger
// size, the smallest of them. Where there is a choice it is where k lies; k may
// have to go all the same.
func (st *state) reserve(context int, exits bool, k *kept) (*pool, int, error) {
	if context < 1 || context > st.cfg.MaxContext {
		return nil, 0, protocol.Errorf(protocol.CodeContextExceeded, "a context of %d cells does not fit this stage's %d", context, st.cfg.MaxContext).
			With("fits", strconv.Itoa(st.cfg.MaxContext))
	}
	if len(st.sessions) >= st.cfg.MaxSessions {
		return nil, 0, protocol.Errorf(protocol.CodeStageOverloaded, "%d sessions run here already", len(st.sessions))
	}
	cells := cellsFor(context)
	perSeq := st.seqBytes(cells)
	slack := st.slack()
	var prefer *pool
	if k != nil {
		prefer = k.pool
	}
	p, id := st.freeSequence(cells, exits, prefer)
	if p != nil && (p.run.Cells() == cells || perSeq > slack) {
		return p, id, nil
	}
	if perSeq > slack {
		fits := st.fits(exits)
		return nil, 0, protocol.Errorf(protocol.CodeKVBudget, "%d cells need %d bytes of KV memory; the largest session that fits now has %d cells", cells, perSeq, fits).
			With("fits", strconv.Itoa(fits))
	}
	seqs := poolSize(cells, st.running(cells, exits), perSeq, slack)
	if p := st.idlePool(cells, seqs, exits, prefer); p != nil {
		p.empty = time.Time{}
		st.countMemory()
		return p, 0, nil
	}
	p, err := st.newPool(cells, seqs, exits, prefer)
	return p, 0, err
}

// running is how many sessions of a size there are, apart from those that have a
// sequence of a larger one.
func (st *state) running(cells int, exits bool) (n int) {
	for _, p := range st.pools {
		if p.run.Cells() == cells && p.run.Exits() == exits {
			n += p.used()
		}
	}
	return n
}

// poolSize is how many sequences a new pool gets where so many sessions of its
// size run: more than one, so that sessions of one size share calls, and room for
// all of them, so that they come together in it as they end and others begin; as
// long as half of the free memory is left for sessions of other sizes.
func poolSize(cells, running int, perSeq, slack int64) int {
	first := min(poolSeqs, max(1, poolCells/cells))
	seqs := first
	if running >= poolSeqs {
		seqs = min(1<<bits.Len(uint(running)), mostSeqs)
	}
	for seqs > first && int64(seqs)*perSeq > grownBytes {
		seqs /= 2
	}
	for seqs > 1 && int64(seqs)*perSeq > slack/2 {
		seqs /= 2
	}
	return seqs
}

func (st *state) newPool(cells, seqs int, exits bool, prefer *pool) (*pool, error) {
	perSeq := st.seqBytes(cells)
	// The memory of empty ones is wanted, and compute memory with it.
	st.dropPools(func(p *pool) bool { return p.idle() && !p.keeps() })
	for seqs > 1 && st.held()+int64(seqs)*perSeq > st.cfg.KVBudget {
		seqs /= 2 // rather than give up what is kept
	}
	for st.held()+int64(seqs)*perSeq > st.cfg.KVBudget && st.dropOldest(prefer) {
	}
	run, err := st.stage.NewPool(cells, seqs, exits)
	if err != nil {
		return nil, coded(err)
	}
	p := &pool{run: run, seqs: make([]*session, seqs), kept: make([]*kept, seqs), bytes: int64(seqs) * perSeq}
	st.pools = append(st.pools, p)
	st.countMemory()
	return p, nil
}

// held is the KV memory of all pools, idlePools that of those without sessions,
// and how many they are.
func (st *state) held() (bytes int64) {
	for _, p := range st.pools {
		bytes += p.bytes
	}
	return bytes
}

func (st *state) idlePools() (bytes int64, pools int) {
	for _, p := range st.pools {
		if p.idle() {
			bytes, pools = bytes+p.bytes, pools+1
		}
	}
	return bytes, pools
}

// dropOldest frees the pool without sessions that was not wanted for longest,
// last of all; false when there is none.
func (st *state) dropOldest(last *pool) bool {
	var oldest *pool
	for _, p := range st.pools {
		if p.idle() && (oldest == nil || oldest == last || p != last && p.lastUse().Before(oldest.lastUse())) {
			oldest = p
		}
	}
	st.dropPools(func(p *pool) bool { return p == oldest })
	return oldest != nil
}

// idlePool is an empty pool just like the one that would be made, or prefer
// where that has the size and fits.
func (st *state) idlePool(cells, seqs int, exits bool, prefer *pool) (best *pool) {
	for _, p := range st.pools {
		if !p.idle() || p.run.Cells() != cells || p.run.Exits() != exits {
			continue
		}
		if p == prefer && p.bytes <= st.slack() {
			return p
		}
		if len(p.seqs) == seqs && (best == nil || p.lastUse().Before(best.lastUse())) {
			best = p
		}
	}
	return best
}

// freeSequence finds the smallest free sequence with at least so many cells in
// a pool with sessions, of equals the one in prefer, else in the pool with most
// sequences.
func (st *state) freeSequence(cells int, exits bool, prefer *pool) (best *pool, seq int) {
	better := func(p *pool) bool {
		switch {
		case best == nil:
			return true
		case p.run.Cells() != best.run.Cells():
			return p.run.Cells() < best.run.Cells()
		case p == prefer || best == prefer:
			return p == prefer
		}
		return len(p.seqs) > len(best.seqs)
	}
	for _, p := range st.pools {
		if p.idle() || p.run.Exits() != exits || p.run.Cells() < cells || !better(p) {
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
		if !p.idle() {
			free -= p.bytes
		}
	}
	return free
}

// fits is the largest context that a session could be opened with now.
func (st *state) fits(exits bool) int {
	best := 0
	for cells := minCells; cells < 2*st.cfg.MaxContext; cells *= 2 {
		p, _ := st.freeSequence(cells, exits, nil)
		if p != nil || st.seqBytes(cells) <= st.slack() {
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
		if _, ok := p.lowestFree(); ok && !p.idle() && p.run.Exits() == exits {
			n = max(n, p.bytes/int64(len(p.seqs)))
		}
	}
	return n
}

const (
	// keepFor is how long an empty pool waits for its next session.
	keepFor = time.Minute
	// keepShare of the budget is the most that empty pools may hold: a node
	// without sessions gives the rest back at once.
	keepShare = 2
)

// emptied keeps p, which a session has left, or frees it. Of empty pools stay
// the newest one and those that keep state, within maxIdle and keepShare.
func (st *state) emptied(p *pool, now time.Time) {
	if p.used() > 0 {
		return
	}
	p.empty = now
	most := st.cfg.KVBudget / keepShare
	st.dropPools(func(o *pool) bool { return o.idle() && (o != p && !o.keeps() || o.bytes > most) })
	fits := func() bool {
		bytes, pools := st.idlePools()
		return bytes <= most && pools <= maxIdle
	}
	if !fits() && !p.keeps() { // what others keep is worth more than a context
		st.dropPools(func(o *pool) bool { return o == p })
	}
	for !fits() && st.dropOldest(p) {
	}
}

// expirePools frees empty pools after their time, and what is kept after its
// own, and says when the next one's ends, zero when there is none.
func (st *state) expirePools(now time.Time) (next time.Time) {
	next = st.expireKept(now)
	over := func(p *pool) bool { return p.idle() && !p.keeps() && !now.Before(p.empty.Add(keepFor)) }
	if slices.ContainsFunc(st.pools, over) {
		st.dropPools(over)
	}
	for _, p := range st.pools {
		if end := p.empty.Add(keepFor); p.idle() && !p.keeps() && (next.IsZero() || end.Before(next)) {
			next = end
		}
	}
	return next
}

// dropPools frees the pools that are not wanted.
func (st *state) dropPools(unwanted func(*pool) bool) {
	kept := st.pools[:0]
	for _, p := range st.pools {
		if unwanted(p) {
			for _, k := range p.kept {
				if k != nil {
					st.forget(k)
				}
			}
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
		if !p.idle() {
			m := p.run.Memory()
			kv, compute = kv+m.KV, compute+m.Compute
		}
	}
	st.w.setMemory(kv, compute)
}
