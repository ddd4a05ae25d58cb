// Package kvblob takes the state of one sequence out of a blob that libllama
// saved, and makes one for a context with another number of sequences. The stage
// process (engine/stage/worker) imports it; it is pure and knows no library.
package kvblob

import (
	"bytes"
	"encoding/binary"
	"slices"
)

// A blob of libllama's plain cache begins with a mark, the sequence that it came
// from, and the number of the context's streams, one for each sequence. Each
// stream has the number of its cells that hold the sequence, and their contents
// where that is not 0. The library takes a blob only in a context with as many
// streams, into whatever sequence is named. State moves between pools of other
// sizes, so it is kept as the mark and the one stream that has cells.

const word = 4

// mark is how the blobs of the pinned version begin; what begins otherwise
// is not touched.
var mark = []byte{0xd8, 0x3c, 0x14, 0xaf}

// Only is the part of a blob that holds sequence seq of seqs; nil when the
// blob has another form. It uses blob's memory.
func Only(blob []byte, seq, seqs int) []byte {
	const head = 3 * word
	before, after := head+word*seq, word*(seqs-1-seq)
	if seq < 0 || after < 0 || len(blob) < before+2*word+after {
		return nil
	}
	le := binary.LittleEndian
	if !bytes.HasPrefix(blob, mark) || le.Uint32(blob[word:]) != uint32(seq) || le.Uint32(blob[2*word:]) != uint32(seqs) {
		return nil
	}
	end := len(blob) - after
	if !zero(blob[head:before]) || !zero(blob[end:]) || zero(blob[before:before+word]) {
		return nil
	}
	part := blob[before-len(mark) : end]
	copy(part, mark)
	return part
}

// Among makes a blob for a context of seqs sequences of such a part.
func Among(part []byte, seqs int) []byte {
	n := min(len(mark), len(part))
	head := binary.LittleEndian.AppendUint32(make([]byte, word), uint32(seqs)) // from sequence 0
	return slices.Concat(part[:n], head, part[n:], make([]byte, word*(seqs-1)))
}

func zero(b []byte) bool {
	for _, c := range b {
		if c != 0 {
			return false
		}
	}
	return true
}
