package llama

import (
	"testing"

	"neuron/llama/gguf"
)

// The GGUF reader has a table of its own, so that it works without the library.
// Both must agree on every type number, also on those that neither has.
func TestTypesAgreeWithTheReader(t *testing.T) {
	load(t)
	for n := range uint32(256) {
		typ := gguf.Type(n)
		block, size, name, ok := TypeInfo(n)
		if !ok || block == 0 || size == 0 { // removed types have no block
			if typ.Known() {
				t.Errorf("type %d: the reader knows %s, the library does not", n, typ)
			}
			continue
		}
		if !typ.Known() {
			t.Errorf("type %d: the library has %s, the reader does not", n, name)
			continue
		}
		if typ.BlockSize() != uint64(block) || typ.TypeSize() != size || typ.String() != name {
			t.Errorf("type %d: reader %s %d/%d, library %s %d/%d", n, typ, typ.BlockSize(), typ.TypeSize(), name, block, size)
		}
	}
}
