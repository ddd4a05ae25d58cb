package manifest

import "neuron/engine/protocol"

// Extent is bytes [Offset, Offset+Bytes) of the publisher's file File.
type Extent struct {
	File   int
	Offset int64
	Bytes  int64
}

// Run is a run of torrent pieces [First, Last).
type Run struct{ First, Last int }

// Need is what a node has to hold for a range of layers.
type Need struct {
	Range   protocol.Range
	Tensors []int    // indices into Manifest.Tensors, ascending
	Extents []Extent // header of file 0, then the tensors' extents, coalesced where they touch (alignment padding counts as touching)
	Bytes   int64    // sum of Extents
	Pieces  []Run    // that cover Extents; ascending, apart from each other
	// WireBytes is what the pieces take: Bytes and the foreign bytes of
	// boundary pieces.
	WireBytes int64
}
