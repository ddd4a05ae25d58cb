package manifest

import "sort"

// Size is the bytes of all files, which is the length of the torrent.
func (m *Manifest) Size() int64 {
	n := int64(0)
	for i := range m.Files {
		n += m.Files[i].Size
	}
	return n
}

// Starts gives the torrent offset at which each file begins, and behind the
// last one the torrent's length: len(Files)+1 entries.
func (m *Manifest) Starts() []int64 {
	out := make([]int64, len(m.Files)+1)
	for i := range m.Files {
		out[i+1] = out[i] + m.Files[i].Size
	}
	return out
}

// TorrentOffset is where byte offset of a file lies in the torrent.
func (m *Manifest) TorrentOffset(file int, offset int64) int64 {
	for i := range m.Files[:file] {
		offset += m.Files[i].Size
	}
	return offset
}

// FileAt is the file and the offset in it of a byte of the torrent; ok is
// false outside of it.
func (m *Manifest) FileAt(offset int64) (file int, at int64, ok bool) {
	if offset < 0 {
		return 0, 0, false
	}
	for i := range m.Files {
		if offset < m.Files[i].Size {
			return i, offset, true
		}
		offset -= m.Files[i].Size
	}
	return 0, 0, false
}

// PiecesOf is the run of pieces that cover an extent; empty for an empty one.
func (m *Manifest) PiecesOf(e Extent) Run {
	from := m.TorrentOffset(e.File, e.Offset)
	first := int(from / m.Torrent.PieceLength)
	if e.Bytes <= 0 {
		return Run{first, first}
	}
	return Run{first, int((from+e.Bytes-1)/m.Torrent.PieceLength) + 1}
}

// ExtentsOf is where the bytes of a piece lie, in order: one extent, or several
// where the piece runs across the border of files. Nil for a piece that does
// not exist.
func (m *Manifest) ExtentsOf(piece int) []Extent {
	if piece < 0 || piece >= m.Torrent.Pieces {
		return nil
	}
	left := m.PieceBytes(piece)
	file, at, ok := m.FileAt(int64(piece) * m.Torrent.PieceLength)
	var out []Extent
	for ok && left > 0 && file < len(m.Files) {
		n := min(left, m.Files[file].Size-at)
		out = append(out, Extent{file, at, n})
		left -= n
		file, at = file+1, 0
	}
	return out
}

// PieceBytes is the length of a piece: PieceLength for all but the last one.
func (m *Manifest) PieceBytes(piece int) int64 {
	from := int64(piece) * m.Torrent.PieceLength
	return max(0, min(m.Torrent.PieceLength, m.Size()-from))
}

// TensorsAt gives the tensors that lie in an extent, wholly or in part, as
// indices [first, last) into Tensors.
func (m *Manifest) TensorsAt(e Extent) (first, last int) {
	first = sort.Search(len(m.Tensors), func(i int) bool {
		t := &m.Tensors[i]
		return t.File > e.File || t.File == e.File && t.Offset+t.Bytes > e.Offset
	})
	last = first + sort.Search(len(m.Tensors)-first, func(i int) bool {
		t := &m.Tensors[first+i]
		return t.File > e.File || t.File == e.File && t.Offset >= e.Offset+e.Bytes
	})
	return first, last
}

// TorrentName is the name inside the torrent: that of the only file, or for
// several files the model's, as the folder that holds them.
func (m *Manifest) TorrentName() string {
	if len(m.Files) == 1 {
		return m.Files[0].Name
	}
	return m.Name
}
