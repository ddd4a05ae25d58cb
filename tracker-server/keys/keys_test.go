package keys

import (
	"errors"
	"os"
	"testing"

	"neuron/engine/protocol"
	"neuron/tracker-server/datadir"
)

func TestLoadOrCreate(t *testing.T) {
	t.Parallel()
	d, err := datadir.Open(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	defer d.Close()
	a, err := LoadOrCreate(d)
	if err != nil {
		t.Fatal(err)
	}
	b, err := LoadOrCreate(d)
	if err != nil {
		t.Fatal(err)
	}
	if !a.Equal(b) {
		t.Fatal("the second start has another key")
	}
	info, err := os.Stat(d.File(fileName))
	if err != nil || info.Mode().Perm()&0o077 != 0 {
		t.Fatalf("mode %v, %v", info.Mode(), err)
	}
	whole, _ := os.ReadFile(d.File(fileName))
	for _, bad := range [][]byte{nil, []byte("x"), whole[:len(whole)/2], make([]byte, maxFile+1)} {
		if err := os.WriteFile(d.File(fileName), bad, 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadOrCreate(d); !errors.Is(err, &protocol.Error{Code: protocol.CodeDataFolder}) {
			t.Errorf("%d bytes: got %v", len(bad), err)
		}
	}
}
