package kvblob

import (
	"bytes"
	"slices"
	"testing"
)

func TestBlobForPoolsOfOtherSizes(t *testing.T) {
	t.Parallel()
	body := []byte{2, 0, 0, 0, 9, 9, 9, 9, 0, 0, 0, 0} // the last cell is zero
	blob := func(seq, seqs int) []byte {
		return slices.Concat(mark, []byte{byte(seq), 0, 0, 0, byte(seqs), 0, 0, 0}, make([]byte, 4*seq), body, make([]byte, 4*(seqs-1-seq)))
	}
	for seqs := 1; seqs <= 4; seqs++ {
		for seq := range seqs {
			part := Only(blob(seq, seqs), seq, seqs)
			for other := 1; other <= 4; other++ {
				if got := Among(part, other); !bytes.Equal(got, blob(0, other)) {
					t.Errorf("sequence %d of %d among %d: %v", seq, seqs, other, got)
				}
			}
		}
	}
	for name, c := range map[string]struct {
		blob      []byte
		seq, seqs int
	}{
		"other mark":     {append([]byte{1}, blob(0, 1)[1:]...), 0, 1},
		"other origin":   {append(slices.Concat(mark, []byte{2}), blob(0, 1)[5:]...), 0, 1},
		"other streams":  {blob(0, 2), 0, 3},
		"other sequence": {blob(1, 3), 0, 3},
		"behind":         {blob(1, 3), 2, 3},
		"no cells":       {slices.Concat(mark, []byte{0, 0, 0, 0, 1, 0, 0, 0}, make([]byte, 8)), 0, 1},
		"cut off":        {blob(0, 1)[:15], 0, 1},
		"empty":          {nil, 0, 1},
	} {
		if got := Only(c.blob, c.seq, c.seqs); got != nil {
			t.Errorf("%s: %v", name, got)
		}
	}
}
