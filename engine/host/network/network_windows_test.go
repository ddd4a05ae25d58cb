package network

import (
	"errors"
	"testing"

	"neuron/engine/host/source"
)

func TestCosts(t *testing.T) {
	t.Parallel()
	for cost, want := range map[uint32]bool{
		costUnrestricted: false, costFixed: true, costVariable: true, costUnrestricted | costRoaming: true, costFixed | costOverLimit: true, costUnrestricted | 0x20000: false,
	} {
		if got, err := metered(cost); err != nil || got != want {
			t.Errorf("%#x: %v, %v", cost, got, err)
		}
	}
	if _, err := metered(0); !errors.Is(err, source.ErrNotTold) {
		t.Error(err)
	}
}

// TestThisComputer asks often: COM keeps count of its users.
func TestThisComputer(t *testing.T) {
	for range 20 {
		if m, err := Metered().Read(t.Context()); err != nil && !errors.Is(err, source.ErrNotTold) {
			t.Fatal(m, err)
		}
	}
	m, err := Metered().Read(t.Context())
	t.Log("metered", m, err)
	kind, err := Kind().Read(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	t.Log(kind)
}
