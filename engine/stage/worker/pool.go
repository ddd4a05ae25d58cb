package worker

import (
	"math/bits"
	"strconv"

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

// pool is KV state for sessions of one size; its contexts are made when a
// session needs one and freed when it is empty.
type pool struct {
	run   *exec.Pool
	seqs  []*session // by sequence id, nil when free
	bytes int64
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

// reserve finds or makes room for a session that exits early or not.
func (st *state) reserve(context int, exits bool) (*pool, int, error) {
	if context < 1 || context > st.cfg.MaxContext {
		return nil, 0, protocol.Errorf(protocol.CodeContextExceeded, "a context of %d cells does not fit this stage's %d", context, st.cfg.MaxContext).
			With("fits", strconv.Itoa(st.cfg.MaxContext))
	}
	if len(st.sessions) >= st.cfg.MaxSessions {
		return nil, 0, protocol.Errorf(protocol.CodeStageOverloaded, "%d sessions run here already", len(st.sessions))
	}
	cells := cellsFor(context)
	for _, p := range st.pools {
		if p.run.Cells() == cells && p.run.Exits() == exits {
			if id, ok := p.lowestFree(); ok {
				return p, id, nil
			}
		}
	}
	st.dropEmpty()
	seqs := min(poolSeqs, max(1, poolCells/cells))
	var used int64
	for _, p := range st.pools {
		used += p.bytes
	}
	perSeq := int64(cells) * st.cfg.KVBytesPerCell
	for seqs > 1 && used+int64(seqs)*perSeq > st.cfg.KVBudget {
		seqs /= 2
	}
	if used+int64(seqs)*perSeq > st.cfg.KVBudget {
		return nil, 0, protocol.Errorf(protocol.CodeKVBudget, "%d cells need %d bytes of KV memory, %d are free", cells, perSeq, st.cfg.KVBudget-used).
			With("fits", strconv.FormatInt(fits(st.cfg.KVBudget-used, st.cfg.KVBytesPerCell), 10))
	}
	run, err := st.stage.NewPool(cells, seqs, exits)
	if err != nil {
		return nil, 0, coded(err)
	}
	p := &pool{run: run, seqs: make([]*session, seqs), bytes: int64(seqs) * perSeq}
	st.pools = append(st.pools, p)
	return p, 0, nil
}

// fits is the largest context that bytes of KV memory allow.
func fits(bytes, perCell int64) int64 {
	if perCell <= 0 || bytes < perCell*minCells {
		return 0
	}
	return int64(1) << (bits.Len64(uint64(bytes/perCell)) - 1)
}

// dropEmpty frees pools without sessions.
func (st *state) dropEmpty() {
	kept := st.pools[:0]
	for _, p := range st.pools {
		if p.used() == 0 {
			p.close()
		} else {
			kept = append(kept, p)
		}
	}
	clear(st.pools[len(kept):])
	st.pools = kept
}

// freeKV is what new sessions may still reserve: what no pool holds, and free
// sequences of pools.
func (st *state) freeKV() int64 {
	free := st.cfg.KVBudget
	for _, p := range st.pools {
		free -= p.bytes / int64(len(p.seqs)) * int64(p.used())
	}
	return free
}
