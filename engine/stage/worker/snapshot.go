package worker

import (
	"errors"
	"time"

	"neuron/engine/prefix"
	"neuron/engine/probe"
	"neuron/engine/protocol"
	"neuron/engine/stage/snapshot"
	"neuron/engine/stage/wire"
	"neuron/internal/lowprio"
)

// State of prompts also goes to the disk, where it outlives the process. The
// owner copies it out of the library when the stage has had no session for a
// while; a goroutine of low priority writes it, and gives up as soon as a
// session opens. Reading happens beside the owner, too, before the session that
// wants it is opened.

const (
	// saveAfter is how long a stage has to be without work before it saves.
	saveAfter = 2 * time.Second
	// minSaved is the least that is saved, in blocks, maxSaved the most, in bytes.
	minSaved = 4
	maxSaved = 1 << 30
	// firstRate is what reading and checking a file takes until it was measured,
	// in bytes per microsecond, and openCost what it takes besides.
	firstRate = 200.0
	openCost  = 5 * time.Millisecond
	// sweepEvery is how often old files are looked for.
	sweepEvery = time.Hour
)

// disk is the owner's part in snapshots.
type disk struct {
	shelf   *snapshot.Shelf // nil: state is kept in memory only
	back    chan func()     // what follows work beside the owner; nil without a shelf
	gone    chan struct{}   // closed when the owner is
	opening map[uint32]bool // slots whose sessions wait for a file
	saving  bool
	rate    float64 // as firstRate
	swept   time.Time
	counts  wire.Snapshots
}

// openShelf finds what earlier processes have left.
func (st *state) openShelf() {
	c := st.cfg.Prefixes
	if c.Off || c.Dir == "" || c.DiskBytes <= 0 || !st.moves() {
		return
	}
	shelf, err := snapshot.Open(snapshot.Options{
		Dir: c.Dir, Limit: c.DiskBytes, Stage: st.header(), Logger: st.w.log,
		Free: func() (int64, error) { return probe.FreeDisk(c.Dir) },
	})
	if err != nil {
		st.w.log.Warn("State of prompts is kept in memory only", "error", err)
		return
	}
	st.disk = disk{
		shelf: shelf, back: make(chan func()), gone: make(chan struct{}), opening: map[uint32]bool{}, rate: firstRate, swept: time.Now(),
	}
	st.shelved()
}

// closeShelf ends the work beside the owner.
func (st *state) closeShelf() {
	if st.shelf != nil {
		close(st.gone)
		st.files.Wait()
	}
}

// header says what this stage's snapshots are for.
func (st *state) header() snapshot.Header {
	return snapshot.Header{
		Model: st.cfg.Model, Layers: st.cfg.Layers, Loaded: protocol.Range{First: st.cfg.First, Last: st.cfg.Last},
		Build: st.build, KVType: st.cfg.KVType,
	}
}

// aside runs work beside the owner, and then what it returns on the owner.
func (st *state) aside(work func() func()) {
	st.files.Go(func() {
		then := work()
		select {
		case st.back <- then:
		case <-st.gone:
		}
	})
}

// shelved notes that the shelf has changed.
func (st *state) shelved() {
	st.counts = wire.Snapshots(st.shelf.Counts())
	st.named = false
}

// rowTime is what a row of a prompt takes at its beginning.
func (st *state) rowTime() time.Duration {
	us := st.pace.long
	if us == 0 {
		us = st.pace.short
	}
	return time.Duration(us * float64(time.Microsecond))
}

// pays reports whether reading a file takes less time than the rows that it
// saves.
func (st *state) pays(size int64, blocks int) bool {
	read := openCost + time.Duration(float64(size)/st.rate*float64(time.Microsecond))
	return read < time.Duration(blocks*prefix.Block)*st.rowTime()
}

// loaded is a snapshot that was read for a session.
type loaded struct {
	name   string
	blob   []byte
	blocks int // in common with the session's prompt
}

// fetch begins to read a snapshot for a session, if there is one that pays; it
// is opened when the file is there.
func (st *state) fetch(slot uint32, o *wire.Open, b beginning) bool {
	if st.shelf == nil || b.scope == "" {
		return false
	}
	found := st.shelf.Find(protocol.Hash([]byte(b.scope)), b.exit, b.keys)
	_, have := st.match(&b)
	if found.Blocks <= have || !st.pays(found.Size, found.Blocks-have) {
		return false
	}
	st.opening[slot] = true
	st.aside(func() func() {
		began := time.Now()
		h, blob, err := st.shelf.Load(found.Name)
		took := time.Since(began)
		return func() {
			st.shelved()
			if !st.opening[slot] {
				return // closed since
			}
			delete(st.opening, slot)
			var l *loaded
			if err == nil {
				st.rate += (float64(found.Size)/float64(max(1, took.Microseconds())) - st.rate) / 4
				l = &loaded{found.Name, blob, h.Keys.Common(b.keys)}
			}
			st.opened(slot, o, b, l)
		}
	})
	return true
}

// fillFrom makes a sequence ready for a session with what was read for it, or
// with k where that holds more.
func (st *state) fillFrom(l *loaded, p *pool, seq int, k *kept, blocks int) (int, error) {
	if l == nil || l.blocks <= blocks {
		return st.fill(p, seq, k, blocks)
	}
	st.displace(p, seq)
	n, err := st.restore(p, seq, l.blob, l.blocks)
	if n == 0 && err == nil {
		st.shelf.Damaged(l.name, errors.New("the library refused it"))
		st.shelved()
	}
	return n, err
}

// save writes a kept state to the disk, if the stage has had nothing to do for
// a while, and says when it is time to look again, zero for not before
// something happens.
func (st *state) save(now time.Time) (next time.Time) {
	if st.shelf == nil || st.saving || len(st.sessions) > 0 || len(st.opening) > 0 {
		return next
	}
	if st.counts.Files > 0 {
		if next = st.swept.Add(sweepEvery); !now.Before(next) {
			st.shelf.Sweep(now)
			st.swept, next = now, now.Add(sweepEvery)
			st.shelved()
		}
	}
	var k *kept
	st.allKept(func(o *kept) {
		if !o.saved && o.keys.Blocks() >= minSaved && (!o.private || st.cfg.Prefixes.Private) && (k == nil || o.used.After(k.used)) {
			k = o
		}
	})
	if k == nil {
		return next
	}
	due := k.used
	if st.idle.After(due) {
		due = st.idle
	}
	if due = due.Add(saveAfter); now.Before(due) {
		return due
	}
	size := k.pool.run.Context().SeqStateSize(int32(k.seq))
	var blob []byte
	if st.pays(int64(size), k.keys.Blocks()) {
		blob = st.copyOf(k, maxSaved)
	}
	if len(blob) == 0 {
		k.saved = true // not worth a file
		return now
	}
	h := st.header()
	h.Exit, h.Scope, h.Keys, h.Private, h.Written = k.exit, protocol.Hash([]byte(k.scope)), k.keys, k.private, now.UTC().Truncate(time.Millisecond)
	st.saving = true
	st.aside(func() func() {
		err := lowprio.Do(func() error { return st.shelf.Save(&h, blob, st.busy) })
		return func() {
			st.saving = false
			st.shelved()
			if errors.Is(err, snapshot.ErrBusy) {
				return // it has its turn in the next quiet moment
			}
			k.saved = true
			if err != nil {
				st.w.log.Warn("A snapshot is not written", "error", err)
			}
		}
	})
	return next
}

// busy reports, beside the owner, whether a session is here or the process ends.
func (st *state) busy() bool {
	select {
	case <-st.gone:
		return true
	default:
		return st.w.getStats().Sessions > 0
	}
}

// onDisk reports whether a snapshot holds all of b.
func (st *state) onDisk(b *beginning) bool {
	return st.shelf != nil && st.shelf.Find(protocol.Hash([]byte(b.scope)), b.exit, b.keys).Blocks == b.keys.Blocks()
}
