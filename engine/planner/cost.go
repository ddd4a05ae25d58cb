package planner

import (
	"fmt"
	"strconv"
	"time"

	"neuron/engine/protocol"
)

// Cost is what a range takes on this computer.
type Cost struct {
	// FetchBytes are missing on the disk. WireBytes is the most that has to be
	// received for them: pieces at the ends of each run of layers bring foreign
	// bytes along.
	FetchBytes, WireBytes int64
	// FetchTime is WireBytes at the rate of downloads; 0 with bytes to fetch:
	// the rate is not known.
	FetchTime time.Duration
	// DiskBytes is what the range takes on the disk, what is there already
	// included. GiveUpBytes of layers that nothing serves have to go for it.
	DiskBytes, GiveUpBytes int64

	Weights int64 // bytes of the tensors
	// Anonymous is main memory: repacked weights, KV state of Conversations,
	// compute buffers. Cache is main memory that holds pages of files which are
	// read at every step: weights that are not repacked.
	Anonymous, Cache int64
	// Devices is the memory on GPUs, for those that get layers.
	Devices []DeviceCost

	// KVPerCell is the memory of one position in all layers of the range.
	KVPerCell int64
	// Conversations of Context tokens were reserved.
	Conversations, Context int
	KV                     int64 // for these
	Compute                int64 // an estimate until a stage has measured it
	// KVRoom is what is left for conversations beside weights, compute buffers
	// and headroom, those of KV included.
	KVRoom int64
	// Fit4K and Fit32K are how many conversations of 4,096 and of 32,768 tokens
	// fit into KVRoom; 0 also where the model's context is shorter.
	Fit4K, Fit32K int
	// Step is the expected time of one decode step; 0: not known.
	Step time.Duration
}

// DeviceCost is a GPU's part.
type DeviceCost struct {
	Name    string
	Range   protocol.Range
	Weights int64
	KV      int64
	Compute int64
}

// Rules of memory:
//
//   - A fifth of main memory and of each GPU's memory stays free. Planners that
//     fill it all run out of memory at the first token.
//   - Repacked weights are anonymous memory, all of them: some tensors are not
//     repacked, but which ones depends on the CPU. Their file pages are
//     released after loading and do not count.
//   - Weights that are not repacked are pages of the mapped file. They have to
//     fit as well, since each step reads all of them.
//   - KV state is made in powers of two of cells, 256 at least.
//   - Compute buffers: one set for each of computePools pools of sessions.
//   - On GPUs layers are placed whole and in order; a range that does not fit
//     there goes on in main memory. The embedding stays in main memory, the
//     output matrix goes with the last layer.
const (
	headroom     = 5 // a fifth
	computePools = 2
	minCells     = 256
	// rowCopies is how many copies of a hidden row, in F32, a call's buffers
	// hold at once: residual, norm, query, key, value, attention, and the two
	// branches of a feed-forward layer four times as wide.
	rowCopies = 14
	// maskBytes is the attention mask, per row and cell: F32 and its F16 copy.
	maskBytes = 6
)

// maxSeconds bounds a time of fetching: more is "never".
const maxSeconds = 10 * 365 * 24 * 3600

// usable is a memory less its headroom.
func usable(n int64) int64 { return max(0, n) - max(0, n)/headroom }

// cellsFor is what a stage reserves for a conversation of so many tokens.
func cellsFor(tokens int) int {
	c := minCells
	for c < tokens {
		c <<= 1
	}
	return c
}

// figures are a model's sums, so that a range costs no loop.
type figures struct {
	m       *Model
	context int     // tokens of a reserved conversation
	weights []int64 // of layers [0, i)
	kv      []int64
	window  []int64 // the part of kv that slides
	state   []int64 // of a conversation, whatever its length
	rows    int     // of one call
}

func newFigures(m *Model, l *Limits) *figures {
	f := &figures{m: m, context: l.Context, weights: make([]int64, m.Layers+1), kv: make([]int64, m.Layers+1),
		window: make([]int64, m.Layers+1), state: make([]int64, m.Layers+1), rows: l.ChunkRows}
	if m.Context > 0 {
		f.context = min(f.context, m.Context)
	}
	for i, b := range m.Parts.Layers {
		f.weights[i+1] = f.weights[i] + b
		kv := int64(m.Width) * 4 // a key and a value of two bytes each
		if len(m.KV) > 0 {
			kv = m.KV[i]
		}
		f.kv[i+1], f.window[i+1], f.state[i+1] = f.kv[i]+kv, f.window[i], f.state[i]
		if len(m.KVWindow) > 0 {
			f.window[i+1] += m.KVWindow[i]
		}
		if len(m.KVState) > 0 {
			f.state[i+1] += m.KVState[i]
		}
	}
	return f
}

// talk is what a conversation of so many tokens takes in layers r: what a stage
// reserves, of which sliding layers keep the window and one call.
func (f *figures) talk(r protocol.Range, tokens int) int64 {
	cells := int64(cellsFor(tokens))
	few := min(cells, int64(cellPad(f.m.Window+f.rows)))
	window := span(f.window, r)
	return (span(f.kv, r)-window)*cells + window*few + span(f.state, r)
}

// cellPad rounds up to what libllama does.
func cellPad(n int) int { return (n + minCells - 1) / minCells * minCells }

func span(sums []int64, r protocol.Range) int64 { return sums[r.Last] - sums[r.First] }

// weight is what the tensors of r take in memory.
func (f *figures) weight(r protocol.Range) int64 {
	p := &f.m.Parts
	n := span(f.weights, r) + p.All
	if r.First == 0 || r.Last == f.m.Layers {
		n += p.Ends
	}
	if r.First == 0 {
		n += p.Head
	}
	if r.Last == f.m.Layers {
		n += p.Tail
	}
	return n
}

// compute estimates the buffers of the layers up to last, for the reserved
// conversations.
func (f *figures) compute(l *Limits, last int) int64 {
	base, perCell := f.m.ComputeBytes, f.m.ComputeBytesPerCell
	rows := int64(l.ChunkRows)
	if base == 0 {
		base = rows * int64(f.m.Width) * 4 * rowCopies
		if last == f.m.Layers {
			base += rows * int64(f.m.Vocab) * 4
		}
	}
	if perCell == 0 {
		perCell = rows * maskBytes
	}
	return computePools * (base + perCell*int64(cellsFor(f.context)))
}

// pool is one memory with the layers that lie in it.
type pool struct {
	name    string
	room    int64 // usable
	rate    int64
	r       protocol.Range
	weights int64
	kv      int64 // of one reserved conversation
	compute int64
	f       *figures
}

// left is what remains for KV state.
func (p *pool) left() int64 { return p.room - p.weights - p.compute }

// sessions is how many conversations of so many tokens fit.
func (p *pool) sessions(tokens int) int64 {
	if p.left() < 0 {
		return 0
	}
	return p.left() / max(1, p.f.talk(p.r, tokens))
}

// place puts r into the GPUs in order and the rest into main memory, which is
// the last pool. It always places all of r; the caller looks at what is left.
func (f *figures) place(l *Limits, r protocol.Range) []pool {
	next := r.First
	var out []pool
	for _, d := range l.Devices {
		p := pool{name: d.Name, room: usable(d.Memory), rate: d.DecodeRate, f: f}
		for last := r.Last; last > next; last-- {
			q := p
			q.r = protocol.Range{First: next, Last: last}
			q.weights, q.kv, q.compute = span(f.weights, q.r), f.talk(q.r, f.context), f.compute(l, last)
			if last == f.m.Layers {
				q.weights += f.m.Parts.Ends + f.m.Parts.Tail
			}
			if q.left() >= q.kv*int64(l.Conversations) {
				out, next = append(out, q), last
				break
			}
		}
	}
	main := pool{name: "memory", room: usable(l.Memory), rate: l.DecodeRate, r: protocol.Range{First: next, Last: r.Last}, f: f}
	main.weights, main.kv = span(f.weights, main.r)+f.m.Parts.All, f.talk(main.r, f.context)
	if r.First == 0 {
		main.weights += f.m.Parts.Head
	}
	inMain := next < r.Last
	if r.First == 0 || r.Last == f.m.Layers && inMain {
		main.weights += f.m.Parts.Ends
	}
	if r.Last == f.m.Layers && inMain {
		main.weights += f.m.Parts.Tail
	}
	if inMain {
		main.compute = f.compute(l, r.Last)
	}
	return append(out, main)
}

// cost is what r costs, and why it does not fit, or nil. r is legal.
func (p *Planner) cost(f *figures, r protocol.Range) (Cost, *protocol.Error) {
	c := Cost{
		Weights: f.weight(r), KVPerCell: span(f.kv, r), Conversations: p.limits.Conversations, Context: f.context,
		DiskBytes: f.m.Parts.needed(r, f.m.Layers),
	}
	err := p.memory(f, r, &c)
	if e := p.fetch(f, r, &c); err == nil {
		err = e
	}
	return c, err
}

func (p *Planner) memory(f *figures, r protocol.Range, c *Cost) (err *protocol.Error) {
	l := &p.limits
	fit4, fit32 := int64(1<<20), int64(1<<20)
	known := true
	var micros int64
	pools := f.place(l, r)
	for i := range pools {
		q := &pools[i]
		kv := q.kv * int64(l.Conversations)
		c.Compute += q.compute
		c.KV += kv
		if q.r.Len() > 0 {
			c.KVRoom += max(0, q.left())
			fit4, fit32 = min(fit4, q.sessions(4096)), min(fit32, q.sessions(32768))
		}
		switch {
		case q.left() < 0 && err == nil:
			err = refuse(protocol.CodeDoesNotFit, f.m, r, "needs "+size(q.weights+q.compute)+" of memory, "+size(q.room)+" may be used", q.weights+q.compute, q.room)
		case q.left() < kv && err == nil:
			err = refuse(protocol.CodeKVBudget, f.m, r, fmt.Sprintf("leaves %s for conversations, %d of %d tokens need %s",
				size(q.left()), l.Conversations, f.context, size(kv)), kv, q.left())
		}
		if q.rate > 0 {
			micros += q.weights * 1000 / max(1, q.rate/1000)
		} else if q.r.Len() > 0 {
			known = false
		}
		if i < len(pools)-1 {
			c.Devices = append(c.Devices, DeviceCost{Name: q.name, Range: q.r, Weights: q.weights, KV: kv, Compute: q.compute})
			continue
		}
		c.Anonymous = kv + q.compute
		if l.NoRepack {
			c.Cache = q.weights
		} else {
			c.Anonymous += q.weights
		}
	}
	if known {
		c.Step = time.Duration(micros) * time.Microsecond
	}
	if f.m.Context == 0 || f.m.Context >= 4096 {
		c.Fit4K = int(fit4)
	}
	if f.m.Context == 0 || f.m.Context >= 32768 {
		c.Fit32K = int(fit32)
	}
	return err
}

// fetch counts what is missing, part by part: what the disk has of one layer
// does not replace another one.
func (p *Planner) fetch(f *figures, r protocol.Range, c *Cost) *protocol.Error {
	need := &f.m.Parts
	spare := p.spare
	have := &Parts{}
	if h := p.held[f.m.ID]; h != nil {
		have = &h.Parts
		if !h.InPlace {
			// What is held of this range is not given up for it.
			spare -= max(0, h.Parts.needed(r, f.m.Layers)-h.Parts.needed(overlap(h.Serving, r), f.m.Layers))
		}
	}
	missing := func(need, have int64) int64 { return max(0, need-have) }
	head, tail := r.First == 0, r.Last == f.m.Layers
	ends := missing(need.Header, have.Header) + missing(need.All, have.All)
	if head || tail {
		ends += missing(need.Ends, have.Ends)
	}
	if head {
		ends += missing(need.Head, have.Head)
	}
	if tail {
		ends += missing(need.Tail, have.Tail)
	}
	runs, open := int64(0), false
	for i := r.First; i < r.Last; i++ {
		var h int64
		if i < len(have.Layers) {
			h = have.Layers[i]
		}
		n := missing(need.Layers[i], h)
		if n > 0 && !open {
			runs++
		}
		open = n > 0
		c.FetchBytes += n
	}
	if ends > 0 {
		c.FetchBytes += ends
		runs++
	}
	c.WireBytes = min(c.FetchBytes+2*f.m.PieceLength*runs, max(c.FetchBytes, need.total()))
	if p.limits.Down > 0 {
		seconds := float64(c.WireBytes) / float64(p.limits.Down)
		c.FetchTime = time.Duration(min(seconds, maxSeconds) * float64(time.Second))
	}
	room := max(0, p.limits.Disk)
	if c.WireBytes <= room {
		return nil
	}
	c.GiveUpBytes = c.WireBytes - room
	if c.GiveUpBytes > max(0, spare) {
		room += max(0, spare)
		return refuse(protocol.CodeDiskFull, f.m, r, "needs "+size(c.WireBytes)+" more on the disk, "+size(room)+" may be used", c.WireBytes, room)
	}
	return nil
}

func overlap(a, b protocol.Range) protocol.Range {
	return protocol.Range{First: max(a.First, b.First), Last: min(a.Last, b.Last)}
}

func refuse(code protocol.Code, m *Model, r protocol.Range, why string, needs, has int64) *protocol.Error {
	return protocol.Errorf(code, "%s %s", layersOf(m, r), why).
		With("needs", strconv.FormatInt(needs, 10)).With("has", strconv.FormatInt(max(0, has), 10))
}
