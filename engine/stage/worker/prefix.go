package worker

import (
	"crypto/sha256"
	"errors"
	"slices"
	"time"

	"neuron/engine/prefix"
	"neuron/engine/stage/kvblob"
	"neuron/engine/stage/wire"
)

// A session that ends leaves the state of its prompt in its sequence. A later
// session whose prompt begins alike takes it over and starts behind it. Kept
// state lies in sequences that are free: whoever needs the memory gets it at
// once, and reports count it as free.

const (
	// keptFor is how long state is kept in memory after its last use.
	keptFor = 10 * time.Minute
	// maxIdle is how many pools without sessions may stay for what they keep:
	// each has compute memory, too.
	maxIdle = 2
	// maxCopy bounds what is copied between sequences, in bytes; it takes the
	// owner away from calls for about a tenth of a second.
	maxCopy = 256 << 20
)

// kept is the state of a prompt's beginning.
type kept struct {
	pool *pool // nil when it has been given up
	seq  int
	beginning
	used  time.Time
	saved bool // a snapshot of it, or of more, lies on the disk
}

// beginning says what a state is of, and who may use it.
type beginning struct {
	scope   string // of seam.Prefix; "": nothing is used or kept
	keys    prefix.Keys
	exit    int
	private bool
}

// beginningOf is what an open message says of its prompt.
func (st *state) beginningOf(o *wire.Open) (beginning, error) {
	keys, err := prefix.Parse(o.Keys)
	if err != nil || len(o.Scope) != sha256.Size || keys.Blocks() == 0 || st.cfg.Prefixes.Off || !st.moves() {
		return beginning{}, err
	}
	return beginning{scope: string(o.Scope), keys: keys, exit: o.Exit, private: o.Private}, nil
}

// moves reports whether state of a prompt can be cut back to whole blocks and
// handed on. Recurrent states and windows cannot be cut back, and the blobs of
// memory with several caches have a form that package kvblob does not take apart.
func (st *state) moves() bool {
	return st.rewinds && (len(st.cfg.Memory) == 0 || st.cfg.Memory.Moves())
}

// common is the number of blocks that state of o gives a session with b.
func (b *beginning) common(o *beginning) int {
	if b.scope == "" || b.scope != o.scope || b.exit != o.exit {
		return 0
	}
	return b.keys.Common(o.keys)
}

// allKept visits all kept states.
func (st *state) allKept(visit func(*kept)) {
	for _, p := range st.pools {
		for _, k := range p.kept {
			if k != nil {
				visit(k)
			}
		}
	}
}

// match finds the state with the most blocks in common, of equals the one that
// holds the least besides.
func (st *state) match(b *beginning) (best *kept, blocks int) {
	st.allKept(func(k *kept) {
		if n := b.common(&k.beginning); n > blocks || n > 0 && n == blocks && k.keys.Blocks() < best.keys.Blocks() {
			best, blocks = k, n
		}
	})
	return best, blocks
}

// forget gives a state up; its sequence is free as before.
func (st *state) forget(k *kept) {
	if k.pool != nil {
		k.pool.kept[k.seq], k.pool = nil, nil
		st.named = false
	}
}

// keep leaves the prompt of a session that ends in its sequence, as far as it
// was computed.
func (st *state) keep(s *session, now time.Time) {
	n := min(int(s.nextPos)/prefix.Block, s.prompt.keys.Blocks())
	if n == 0 {
		return
	}
	k := &kept{pool: s.pool, seq: s.seq, beginning: s.prompt, used: now}
	k.keys = k.keys.First(n)
	covered := false
	st.allKept(func(o *kept) {
		switch k.common(&o.beginning) {
		case n: // a state that holds this one
			o.used, covered = now, true
		case o.keys.Blocks(): // one that this one holds
			st.forget(o)
		}
	})
	if covered || s.pool.run.Truncate(s.seq, int32(n*prefix.Block)) != nil {
		return
	}
	k.saved = st.onDisk(&k.beginning)
	s.pool.kept[s.seq] = k
	st.named = false
}

// fill makes a sequence ready for a session that has blocks in common with k,
// nil for none, and returns how many positions it then holds.
func (st *state) fill(p *pool, seq int, k *kept, blocks int) (int, error) {
	if k == nil || k.pool == nil { // its pool had to go
		st.displace(p, seq)
		return 0, p.run.Clear(seq)
	}
	// A state is handed over when most of it is wanted, else copied.
	whole := 2*blocks >= k.keys.Blocks()
	if whole && k.pool == p && k.seq == seq {
		st.forget(k)
		return st.cutBack(p, seq, blocks)
	}
	blob := st.copyOf(k, maxCopy)
	k.used = time.Now()
	if whole {
		st.forget(k)
	}
	st.displace(p, seq)
	return st.restore(p, seq, blob, blocks)
}

// restore fills a sequence with a state that was copied, and keeps blocks of it.
func (st *state) restore(p *pool, seq int, blob []byte, blocks int) (int, error) {
	if err := p.run.Clear(seq); err != nil || len(blob) == 0 {
		return 0, err
	}
	if err := p.run.Context().SeqStateSet(int32(seq), kvblob.Among(blob, len(p.seqs))); err != nil {
		st.w.log.Warn("Kept state does not fit a sequence", "error", err)
		return 0, p.run.Clear(seq)
	}
	return st.cutBack(p, seq, blocks)
}

// cutBack forgets what lies behind the blocks.
func (st *state) cutBack(p *pool, seq, blocks int) (int, error) {
	n := blocks * prefix.Block
	if p.run.Truncate(seq, int32(n)) != nil {
		return 0, p.run.Clear(seq)
	}
	return n, nil
}

// copyOf is the state's bytes for restore, none when they are more than most.
func (st *state) copyOf(k *kept, most int) []byte {
	ctx := k.pool.run.Context()
	size := ctx.SeqStateSize(int32(k.seq))
	if size <= 0 || size > most {
		return nil
	}
	blob := make([]byte, size)
	n, err := ctx.SeqStateGet(int32(k.seq), blob)
	if err == nil {
		if part := kvblob.Only(blob[:n], k.seq, len(k.pool.seqs)); part != nil {
			return part
		}
		err = errors.New("its form is another one")
	}
	st.w.log.Warn("Kept state cannot be copied", "error", err)
	return nil
}

// displace makes room for a session in a sequence that keeps state: sessions
// have the lowest ids, which lets them share calls. The state moves to a free
// sequence of the pool, where the oldest one may have to go.
func (st *state) displace(p *pool, seq int) {
	k := p.kept[seq]
	if k == nil {
		return
	}
	to, oldest := -1, k.used
	for i, o := range p.kept {
		switch {
		case i == seq || p.seqs[i] != nil:
		case o == nil:
			to, oldest = i, time.Time{}
		case o.used.Before(oldest):
			to, oldest = i, o.used
		}
	}
	blob := []byte(nil)
	if to >= 0 {
		blob = st.copyOf(k, maxCopy)
	}
	moved := *k
	st.forget(k)
	if len(blob) == 0 {
		return
	}
	if old := p.kept[to]; old != nil {
		st.forget(old)
	}
	if n, err := st.restore(p, to, blob, moved.keys.Blocks()); err != nil || n == 0 {
		return
	}
	moved.pool, moved.seq = p, to
	p.kept[to] = &moved
	st.named = false
}

// begin is the session's first row: where it lies says how much of what is kept
// the whole route has.
func (s *session) begin(pos uint32) error {
	if s.begun {
		return nil
	}
	s.begun = true
	if pos >= s.nextPos {
		return nil
	}
	s.nextPos = pos
	return s.pool.run.Truncate(s.seq, int32(pos))
}

// expireKept gives up what was not used for long and says when the next one's
// time ends, zero when there is none.
func (st *state) expireKept(now time.Time) (next time.Time) {
	st.allKept(func(k *kept) {
		if end := k.used.Add(keptFor); !now.Before(end) {
			st.forget(k)
		} else if next.IsZero() || end.Before(next) {
			next = end
		}
	})
	return next
}

// prefixNames are what the tracker is told of kept states, those in memory
// first, the newest of each before the others.
func (st *state) prefixNames() []string {
	if st.named {
		return st.names
	}
	var all []*kept
	st.allKept(func(k *kept) { all = append(all, k) })
	slices.SortStableFunc(all, func(a, b *kept) int { return b.used.Compare(a.used) })
	keys := make([]prefix.Keys, len(all))
	for i, k := range all {
		keys[i] = k.keys
	}
	if st.shelf != nil {
		keys = append(keys, st.shelf.States()...)
	}
	st.names, st.named = prefix.Names(keys), true
	return st.names
}
