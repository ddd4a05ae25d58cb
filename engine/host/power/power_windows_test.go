package power

import (
	"errors"
	"testing"

	"neuron/engine/host/source"
)

func TestPowerStatus(t *testing.T) {
	t.Parallel()
	for in, want := range map[systemPowerStatus]State{
		{acLineStatus: 1, batteryFlag: 128, batteryLifePercent: 255}: {Percent: -1},
		{acLineStatus: 0, batteryFlag: 1, batteryLifePercent: 83}:    {Battery: true, OnBattery: true, Percent: 83},
		{acLineStatus: 1, batteryFlag: 9, batteryLifePercent: 100}:   {Battery: true, Charging: true, Percent: 100},
		{acLineStatus: 1, batteryFlag: 255, batteryLifePercent: 255}: {Percent: -1},
	} {
		if got, err := in.state(); err != nil || got != want {
			t.Errorf("%+v: %+v, %v; want %+v", in, got, err, want)
		}
	}
	if _, err := (systemPowerStatus{acLineStatus: 255}).state(); !errors.Is(err, source.ErrNotTold) {
		t.Error(err)
	}
}

func TestThisComputer(t *testing.T) {
	s, err := Battery().Read(t.Context())
	if err != nil && !errors.Is(err, source.ErrNotTold) {
		t.Fatal(err)
	}
	t.Logf("%+v, %v", s, err)
	a := NewAwake()
	for range 3 {
		if err := a.Set(t.Context(), true); err != nil || !a.On() {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil || a.On() {
			t.Fatal(err)
		}
	}
}
