package shelf

import (
	"testing"

	"neuron/engine/manifest"
)

func fuzzManifest() *manifest.Manifest {
	return &manifest.Manifest{Model: "abc", Torrent: manifest.Torrent{InfoHash: "def", PieceLength: 1 << 14, Pieces: 5}}
}

func FuzzPiecesState(f *testing.F) {
	good := append(encodeStateHeader(fuzzManifest()), 0, 'C', 0, 'C', 'C')
	f.Add(good)
	f.Add(good[:len(good)-1])
	f.Add(append(good[:len(good):len(good)], 0))
	f.Fuzz(func(t *testing.T, raw []byte) {
		m := fuzzManifest()
		done, ok := parseState(raw, m)
		if !ok {
			if done != nil {
				t.Error("pieces of a damaged state")
			}
			return
		}
		if len(done) != m.Torrent.Pieces || len(raw) != stateHeader+m.Torrent.Pieces {
			t.Errorf("%d pieces of %d bytes", len(done), len(raw))
		}
	})
}

func FuzzServed(f *testing.F) {
	f.Add([]byte(`{"version":1,"files":{"blk.0001.gguf":1700000000}}`))
	f.Add([]byte(`{"version":1,"files":{"x":-5,"y":9223372036854775807}}`))
	f.Fuzz(func(t *testing.T, raw []byte) {
		for name, at := range parseServed(raw, 1000) {
			if at < 0 || at > 1000 {
				t.Errorf("%q at %d", name, at)
			}
		}
	})
}

func FuzzSideName(f *testing.F) {
	f.Add("0000012.bin")
	f.Fuzz(func(t *testing.T, name string) {
		if n, ok := sidePiece(name); ok && (n < 0 || n > 9999999) {
			t.Errorf("%q is piece %d", name, n)
		}
	})
}
