package shelf

import (
	"fmt"
	"path/filepath"
	"slices"
	"sort"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/llama/cut"
)

// kind says what a file of the folder is.
type kind int

const (
	kindHeader kind = iota // the publisher's header, byte for byte
	kindShard              // a layer or tensor file of llama/cut
	kindWhole              // a publisher's file, of a model that is not cut
)

// phase is where a file is on its way.
type phase int

const (
	absent  phase = iota
	partial       // in the folder partial/, written by Commit, read by nobody else
	placed        // under its name; its content is never written again
)

// file is one file that the folder may have.
type file struct {
	// Constant.
	name    string // relative to the folder, with slashes
	kind    kind
	layer   int
	size    int64
	bytes   int64 // of the publisher's content in it
	index   int   // publisher's file, for header and whole
	tensors []cut.Tensor
	hashed  []hashed
	cover   []cover // by piece

	// Written with Shelf.op and Shelf.layout held, the latter alone.
	phase phase

	// Guarded by Shelf.mu.
	left   int // pieces of cover that are not complete
	listed bool
	unsure bool  // a partial file from before a loss of state or of power
	served int64 // Unix seconds, see Touch

	h handle
}

// hashed is an extent with a known SHA-256.
type hashed struct {
	pos, n int64 // in the torrent
	at     int64 // in the file
	sum    manifest.Hash
}

// cover is a piece's share of a file.
type cover struct {
	piece int
	bytes int64
}

// segment is a run of the torrent's bytes that lies in one file.
type segment struct {
	pos, n int64
	at     int64 // in the file
	file   *file // nil: padding between tensors, or behind the last one
}

// plan says where every byte of the torrent lies. It never changes.
type plan struct {
	m        *manifest.Manifest
	starts   []int64
	size     int64
	segments []segment // ascending, without padding
	files    []*file   // header, tensors, layers
	byName   map[string]*file
	byTensor []*file // by index into m.Tensors
}

func headerName(i int) string { return fmt.Sprintf("header-%d.bin", i) }

// newPlan lays the manifest out. Names come from a manifest, which is not
// trusted to name files: cut.Layout and SafeName refuse what leaves the folder
// or meets another file.
func newPlan(m *manifest.Manifest) (*plan, error) {
	p := &plan{m: m, starts: m.Starts(), byName: map[string]*file{}, byTensor: make([]*file, len(m.Tensors))}
	p.size = p.starts[len(m.Files)]
	var err error
	if m.WholeOnly != "" {
		err = p.addWhole()
	} else {
		err = p.addShard()
	}
	if err != nil {
		return nil, err
	}
	slices.SortFunc(p.segments, func(a, b segment) int { return sign(a.pos - b.pos) })
	for i := 1; i < len(p.segments); i++ {
		if before := p.segments[i-1]; before.pos+before.n > p.segments[i].pos {
			return nil, invalid("extents overlap at %d", p.segments[i].pos)
		}
	}
	slices.SortStableFunc(p.files, func(a, b *file) int { return a.layer - b.layer })
	for _, s := range p.segments {
		s.file.bytes += s.n
		p.coverSegment(s)
	}
	for _, f := range p.files {
		f.left = len(f.cover)
	}
	return p, nil
}

func sign(n int64) int { return int(min(max(n, -1), 1)) }

func invalid(format string, args ...any) error {
	return protocol.Errorf(protocol.CodeModelInvalid, "lay out the model: "+format, args...)
}

// coverSegment counts the segment's bytes to its pieces.
func (p *plan) coverSegment(s segment) {
	length := p.m.Torrent.PieceLength
	for at := s.pos; at < s.pos+s.n; {
		piece := int(at / length)
		n := min(s.pos+s.n, int64(piece+1)*length) - at
		if k := len(s.file.cover); k > 0 && s.file.cover[k-1].piece == piece {
			s.file.cover[k-1].bytes += n
		} else {
			s.file.cover = append(s.file.cover, cover{piece, n})
		}
		at += n
	}
}

func (p *plan) add(f *file) {
	p.files = append(p.files, f)
	p.byName[f.name] = f
}

func (p *plan) addShard() error {
	m := p.m
	for i := range m.Files {
		f := &file{name: headerName(i), kind: kindHeader, layer: -1, size: m.Files[i].Header, index: i}
		f.hashed = []hashed{{p.starts[i], f.size, 0, m.Files[i].HeaderSHA256}}
		p.segments = append(p.segments, segment{p.starts[i], f.size, 0, f})
		p.add(f)
	}
	list := make([]cut.Tensor, len(m.Tensors))
	for i := range m.Tensors {
		t := &m.Tensors[i]
		list[i] = cut.Tensor{
			Name: t.Name, Dims: t.Dims, Type: t.Type, SHA256: t.SHA256.String(), SourceFile: t.File, SourceOffset: t.Offset,
		}
	}
	laid, err := cut.Layout(list, m.Alignment)
	if err != nil {
		return invalid("%w", err)
	}
	for name, tensors := range laid {
		layer, ok := cut.LayerOf(name)
		if !ok {
			layer = -1
		}
		p.add(&file{name: name, kind: kindShard, layer: layer, size: cut.FileSize(tensors, m.Alignment), tensors: tensors})
	}
	// In the manifest's order, so that it does not hang on that of a map.
	next := map[string]int{}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		name := cut.FileOf(t.Name)
		f := p.byName[name]
		e := f.tensors[next[name]]
		next[name]++
		if e.Name != t.Name || int64(e.Bytes) != t.Bytes {
			return invalid("tensor %.64q has %d bytes, its shape gives %d", t.Name, t.Bytes, e.Bytes)
		}
		// What no stage uses has a place here, as the layers of others have, and is
		// never made.
		var right bool
		switch t.Use {
		case manifest.UseLayer:
			right = f.layer == t.Layer
		case manifest.UseUnused:
			right = f.layer >= m.Layers
		default:
			right = f.layer == -1
		}
		if !right {
			return invalid("tensor %.64q is said to belong to layer %d", t.Name, t.Layer)
		}
		p.addTensor(i, f, cut.HeaderRegion+int64(e.Offset))
	}
	return nil
}

// addTensor places tensor i in f at at.
func (p *plan) addTensor(i int, f *file, at int64) {
	t := &p.m.Tensors[i]
	pos := p.starts[t.File] + t.Offset
	f.hashed = append(f.hashed, hashed{pos, t.Bytes, at, t.SHA256})
	p.segments = append(p.segments, segment{pos, t.Bytes, at, f})
	p.byTensor[i] = f
}

func (p *plan) addWhole() error {
	m := p.m
	for i := range m.Files {
		if !manifest.SafeName(m.Files[i].Name) {
			return invalid("file name %.80q", m.Files[i].Name)
		}
		f := &file{name: "model/" + m.Files[i].Name, kind: kindWhole, layer: -1, size: m.Files[i].Size, index: i}
		f.hashed = []hashed{{p.starts[i], m.Files[i].Header, 0, m.Files[i].HeaderSHA256}}
		p.segments = append(p.segments, segment{p.starts[i], f.size, 0, f})
		p.add(f)
	}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		f := p.files[t.File]
		f.hashed = append(f.hashed, hashed{p.starts[t.File] + t.Offset, t.Bytes, t.Offset, t.SHA256})
		p.byTensor[i] = f
	}
	return nil
}

// pieceBounds is the piece's run of the torrent.
func (p *plan) pieceBounds(piece int) (pos, n int64) {
	pos = int64(piece) * p.m.Torrent.PieceLength
	return pos, min(p.m.Torrent.PieceLength, p.size-pos)
}

// at lists the segments of [pos, pos+n), cut to it, padding included.
func (p *plan) at(pos, n int64) []segment {
	end := pos + n
	i := sort.Search(len(p.segments), func(i int) bool { return p.segments[i].pos+p.segments[i].n > pos })
	var out []segment
	for pos < end {
		if i == len(p.segments) || p.segments[i].pos >= end {
			return append(out, segment{pos: pos, n: end - pos})
		}
		s := p.segments[i]
		if s.pos > pos {
			out = append(out, segment{pos: pos, n: s.pos - pos})
			pos = s.pos
		}
		skip := pos - s.pos
		k := min(s.n-skip, end-pos)
		out = append(out, segment{pos, k, s.at + skip, s.file})
		pos += k
		i++
	}
	return out
}

// of lists the segments of a piece.
func (p *plan) of(piece int) []segment { return p.at(p.pieceBounds(piece)) }

// filesOf are the files that a piece has a share in.
func (p *plan) filesOf(piece int) []*file {
	var out []*file
	for _, s := range p.of(piece) {
		if s.file != nil && !slices.Contains(out, s.file) {
			out = append(out, s.file)
		}
	}
	return out
}

// needed are the files to have for ranges. Of a model that is not cut none is,
// for its metadata alone: the first pieces then lie in side files.
func (p *plan) needed(need *manifest.Need) map[*file]bool {
	out := map[*file]bool{}
	if p.m.WholeOnly == "" {
		out[p.byName[headerName(0)]] = true
	}
	for _, i := range need.Tensors {
		out[p.byTensor[i]] = true
	}
	if p.m.WholeOnly != "" && len(need.Tensors) > 0 {
		for _, f := range p.files {
			out[f] = true
		}
	}
	return out
}

// piecesIn lists the pieces that have a byte in [pos, pos+n).
func (p *plan) piecesIn(pos, n int64) (first, last int) {
	length := p.m.Torrent.PieceLength
	if n <= 0 {
		return int(pos / length), int(pos / length)
	}
	return int(pos / length), int((pos+n-1)/length) + 1
}

func (s *Shelf) path(f *file) string { return filepath.Join(s.dir, filepath.FromSlash(f.name)) }

// partialPath is where a file grows. Names of publishers' files may begin with
// a dot, as temporary ones do here.
func (s *Shelf) partialPath(f *file) string {
	if f.kind == kindWhole {
		return filepath.Join(s.dir, partialDir, fmt.Sprintf("whole-%d.bin", f.index))
	}
	return filepath.Join(s.dir, partialDir, f.name)
}

// renewedPath is where the successor of a placed file is written.
func (s *Shelf) renewedPath(f *file) string {
	p := s.partialPath(f)
	return filepath.Join(filepath.Dir(p), ".renewed-"+filepath.Base(p))
}
