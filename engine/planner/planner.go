// Package planner decides on a node what the computer can hold: which layers
// of which model fit into its disk and memory, what fetching them costs, and
// whether an assignment of the tracker can be accepted.
//
// It is pure: figures go in, figures and sentences come out, the same for the
// same input. It reads no disk, no memory size and no network. The engine's
// composition, local API and command line import it; of our packages it
// imports engine/protocol and engine/manifest only.
//
// What counts as memory, and what stays free, is in cost.go.
package planner

import (
	"slices"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
)

// Parts are the bytes of a model by what needs them. A stage needs Header and
// All, its layers, Head when it has layer 0, Tail when it has the last one, and
// Ends when it has either.
type Parts struct {
	Header int64 // the publisher's header: on disk and on the wire only
	All    int64
	Ends   int64
	Head   int64
	Tail   int64
	Layers []int64
}

// Model is what planning needs of a manifest.
type Model struct {
	ID      protocol.ModelID
	Name    string
	Layers  int
	Context int // tokens it was trained for
	Width   int // elements of a hidden row
	Vocab   int // rows of the output matrix; 0: not known
	// WholeOnly says why the model may not be cut, or is "".
	WholeOnly string
	// Ends[a] are the legal ends of ranges that begin with layer a, as in a
	// manifest; empty: any range is legal.
	Ends  [][]manifest.Span
	Parts Parts
	// KV is the memory of one position in each layer. Layers without a known
	// figure are counted as full attention of Width elements in F16.
	KV []int64
	// Window bounds the positions of which layers keep KVWindow of KV, per layer;
	// KVState is what each layer takes of a conversation whatever its length.
	// Both lists may be empty.
	Window            int
	KVWindow, KVState []int64
	// PieceLength is the torrent's; up to two pieces are fetched for each run
	// of layers besides the layers themselves.
	PieceLength int64
	// ComputeBytes and ComputeBytesPerCell are measured figures of a stage of
	// this model (protocol.Capability); 0 takes an estimate.
	ComputeBytes        int64
	ComputeBytesPerCell int64
}

// ModelOf takes a checked manifest's figures.
func ModelOf(m *manifest.Manifest) (*Model, error) {
	if m.Layers < 1 || m.Layers > maxLayers {
		return nil, protocol.Errorf(protocol.CodeModelInvalid, "%d layers, 1 to %d are possible", m.Layers, maxLayers)
	}
	out := &Model{
		ID: m.Model, Name: m.Name, Layers: m.Layers, Context: m.Context, Width: m.Width, WholeOnly: m.WholeOnly,
		Ends: m.Ends, KV: m.KVLayerBytes, PieceLength: m.Torrent.PieceLength,
		Parts: Parts{Layers: make([]int64, m.Layers)},
	}
	if len(m.Files) > 0 {
		out.Parts.Header = m.Files[0].Header
	}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		switch t.Use {
		case manifest.UseLayer:
			if t.Layer < 0 || t.Layer >= m.Layers {
				return nil, protocol.Errorf(protocol.CodeModelInvalid, "tensor %.80q belongs to layer %d of %d", t.Name, t.Layer, m.Layers)
			}
			out.Parts.Layers[t.Layer] += t.Bytes
		case manifest.UseHead:
			out.Parts.Head += t.Bytes
		case manifest.UseTail:
			out.Parts.Tail += t.Bytes
		case manifest.UseEnds:
			out.Parts.Ends += t.Bytes
		case manifest.UseAll:
			out.Parts.All += t.Bytes
		case manifest.UseUnused: // nobody holds it
		default:
			return nil, protocol.Errorf(protocol.CodeModelInvalid, "tensor %.80q has the unknown use %.20q", t.Name, string(t.Use))
		}
		if (t.Name == "output.weight" || t.Name == "token_embd.weight") && len(t.Dims) == 2 && t.Dims[1] <= maxVocab {
			out.Vocab = max(out.Vocab, int(t.Dims[1]))
		}
	}
	if m.KVWindow > 0 {
		out.Window, out.KVWindow = m.KVWindow, make([]int64, m.Layers)
		for i := range out.KVWindow {
			out.KVWindow[i] = m.WindowBytes(i)
		}
	}
	out.KVState = m.KVStateBytes
	return out, out.check()
}

// Limits of what a model may claim; they keep all sums and products inside an
// int64.
const (
	maxLayers = manifest.MaxLayers
	maxVocab  = 1 << 24
	maxWidth  = 1 << 20
	maxTotal  = 1 << 46 // bytes of all parts
	maxKV     = 1 << 30 // bytes of a position in one layer
	maxState  = 1 << 34 // bytes of a conversation in one layer
	maxTalks  = 64      // conversations to reserve
)

// check refuses figures that cannot be summed.
func (m *Model) check() error {
	p := &m.Parts
	switch {
	case m.Layers < 1 || m.Layers > maxLayers || len(p.Layers) != m.Layers:
		return protocol.Errorf(protocol.CodeModelInvalid, "%d layers with %d sizes", m.Layers, len(p.Layers))
	case len(m.KVWindow) != 0 && len(m.KVWindow) != len(m.KV) || len(m.KVState) != 0 && len(m.KVState) != m.Layers || m.Window < 0:
		return protocol.Errorf(protocol.CodeModelInvalid, "%d layers with %d windows and %d states", m.Layers, len(m.KVWindow), len(m.KVState))
	case len(m.KV) != 0 && len(m.KV) != m.Layers:
		return protocol.Errorf(protocol.CodeModelInvalid, "%d layers with %d KV sizes", m.Layers, len(m.KV))
	case m.Width < 0 || m.Width > maxWidth || m.Vocab < 0 || m.Vocab > maxVocab || m.Context < 0:
		return protocol.Errorf(protocol.CodeModelInvalid, "width %d, vocabulary %d or context %d out of range", m.Width, m.Vocab, m.Context)
	case len(m.Ends) != 0 && len(m.Ends) != m.Layers:
		return protocol.Errorf(protocol.CodeModelInvalid, "%d layers with legal ends for %d", m.Layers, len(m.Ends))
	}
	sizes := append([]int64{p.Header, p.All, p.Ends, p.Head, p.Tail, m.PieceLength, m.ComputeBytes}, p.Layers...)
	// One by one first: the sum of hostile sizes could wrap around.
	if slices.ContainsFunc(sizes, func(n int64) bool { return n < 0 || n > maxTotal }) || p.total() > maxTotal {
		return protocol.Errorf(protocol.CodeModelInvalid, "a size is negative, or all are above %d bytes", int64(maxTotal))
	}
	if slices.ContainsFunc(m.KV, func(n int64) bool { return n < 0 || n > maxKV }) || m.ComputeBytesPerCell < 0 || m.ComputeBytesPerCell > maxKV {
		return protocol.Errorf(protocol.CodeModelInvalid, "a KV size is negative or above %d bytes", int64(maxKV))
	}
	for i, n := range m.KVWindow {
		if n < 0 || n > m.KV[i] {
			return protocol.Errorf(protocol.CodeModelInvalid, "layer %d has %d bytes in its window", i, n)
		}
	}
	if slices.ContainsFunc(m.KVState, func(n int64) bool { return n < 0 || n > maxState }) {
		return protocol.Errorf(protocol.CodeModelInvalid, "a state is negative or above %d bytes", int64(maxState))
	}
	return nil
}

// Legal checks that a stage of these layers may exist. Errors: range_invalid,
// model_whole_only.
func (m *Model) Legal(r protocol.Range) error {
	switch {
	case !r.Valid(m.Layers):
		return protocol.Errorf(protocol.CodeRangeInvalid, "layers %s of %s, which has %d", r, m.Name, m.Layers)
	case r == m.whole():
		return nil
	case m.WholeOnly != "":
		return protocol.Errorf(protocol.CodeModelUncut, "%s may not be cut: %s", m.Name, m.WholeOnly)
	case !m.mayEnd(r):
		return protocol.Errorf(protocol.CodeRangeInvalid, "layers %s may not be a stage of %s", r, m.Name)
	}
	return nil
}

func (m *Model) whole() protocol.Range { return protocol.Range{Last: m.Layers} }

func (m *Model) mayEnd(r protocol.Range) bool {
	return len(m.Ends) == 0 || slices.ContainsFunc(m.Ends[r.First], func(s manifest.Span) bool { return s.From <= r.Last && r.Last <= s.To })
}

// ends lists the legal ends, up to last, of ranges that begin with layer
// first; ascending.
func (m *Model) ends(first, last int) []int {
	var out []int
	for e := first + 1; e <= last; e++ {
		if r := (protocol.Range{First: first, Last: e}); r == m.whole() || m.WholeOnly == "" && m.mayEnd(r) {
			out = append(out, e)
		}
	}
	return out
}

// Limits are what the computer and its owner give.
type Limits struct {
	// Disk is what files may still take, in bytes: the lesser of what the quota
	// leaves and what is free on the disk less its reserve.
	Disk int64
	// Memory is the main memory that stages may use: what is available now, or
	// the owner's limit where that is less. A stage that will be replaced is
	// not in it; the caller adds its memory back.
	Memory int64
	// Devices are GPUs, in the order in which layers are put on them.
	Devices []Device
	// Down is the rate of downloads in bytes per second; 0: not known.
	Down int64
	// DecodeRate is how many bytes of weights in main memory a decode step goes
	// through per second, measured on a real stage or estimated; 0: not known.
	DecodeRate int64
	// NoRepack keeps weights in the mapped file: slower, and they count as
	// cache.
	NoRepack bool
	// Conversations of Context tokens each have to fit beside the weights
	// [4 of 4,096, or of the model's context where that is shorter].
	Conversations int
	Context       int
	ChunkRows     int // most rows of one call [256]
}

// Device is one GPU.
type Device struct {
	Name       string
	Memory     int64 // free, in bytes
	DecodeRate int64 // like Limits.DecodeRate
}

// Held is what the disk has of a model, verified.
type Held struct {
	Model protocol.ModelID
	Parts Parts // bytes held; Layers may be nil
	// Serving is the range that a stage runs; its bytes are never given up for
	// another range. Empty: none.
	Serving protocol.Range
	// InPlace says that the bytes lie in a file of another program: they need
	// not be fetched, and giving them up frees nothing.
	InPlace bool
}

// Assignment is what the tracker asks of a node.
type Assignment struct {
	Model protocol.ModelID
	Range protocol.Range
}

// Planner answers for one computer at one moment.
type Planner struct {
	limits Limits
	held   map[protocol.ModelID]*Held
	// spare is what could be given up: held bytes that no stage runs.
	spare int64
}

// New makes a Planner; zero values of l take their defaults. Several entries
// for one model: the last one counts.
func New(l Limits, held []Held) *Planner {
	def := func(n *int, v int) {
		if *n <= 0 {
			*n = v
		}
	}
	def(&l.Conversations, 4)
	def(&l.Context, 4096)
	def(&l.ChunkRows, 256)
	l.Conversations = min(l.Conversations, maxTalks)
	l.Context = min(l.Context, protocol.MaxContext)
	l.ChunkRows = min(l.ChunkRows, protocol.MaxChunkRows)
	p := &Planner{limits: l, held: make(map[protocol.ModelID]*Held, len(held))}
	for i := range held {
		p.held[held[i].Model] = &held[i]
	}
	for _, h := range p.held {
		if !h.InPlace {
			p.spare += max(0, h.Parts.total()-h.Parts.needed(h.Serving, len(h.Parts.Layers)))
		}
	}
	return p
}

// total is the sum of all parts.
func (p *Parts) total() int64 {
	n := p.Header + p.All + p.Ends + p.Head + p.Tail
	for _, b := range p.Layers {
		n += b
	}
	return n
}

// needed is what a stage of r needs, on disk; 0 for an empty range.
func (p *Parts) needed(r protocol.Range, layers int) int64 {
	if r.Len() <= 0 {
		return 0
	}
	n := p.Header + p.All
	head, tail := r.First == 0, r.Last == layers
	if head || tail {
		n += p.Ends
	}
	if head {
		n += p.Head
	}
	if tail {
		n += p.Tail
	}
	for i := max(0, r.First); i < min(r.Last, len(p.Layers)); i++ {
		n += p.Layers[i]
	}
	return n
}
