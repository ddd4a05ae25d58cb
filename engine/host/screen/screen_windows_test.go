package screen

import (
	"errors"
	"testing"

	"neuron/engine/host/source"
)

func TestNotificationStates(t *testing.T) {
	t.Parallel()
	for state, want := range map[uint32]bool{1: false, 2: true, 3: true, 4: true, 5: false, 6: false, 7: false, 99: false} {
		if got, err := fills(state); err != nil || got != want {
			t.Errorf("%d: %v, %v", state, got, err)
		}
	}
	if _, err := fills(0); !errors.Is(err, source.ErrNotTold) {
		t.Error(err)
	}
}

func TestThisComputer(t *testing.T) {
	full, err := New().Read(t.Context())
	if err != nil && !errors.Is(err, source.ErrNotTold) {
		t.Fatal(err)
	}
	t.Log(full, err)
}
