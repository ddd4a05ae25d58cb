package desktop_test

import (
	"slices"
	"testing"

	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// TestChosenDevices: a choice reaches the stage, and what of it is not there is
// told while the processor serves.
func TestChosenDevices(t *testing.T) {
	n := newNetwork(t)
	n.tracker()
	n.seed()
	r := n.shares()
	hw, err := r.Hardware(t.Context())
	must(t, err)
	if !slices.Contains(hw.Library, "CPU") {
		t.Errorf("parts of the library: %q", hw.Library)
	}
	missing := func(s *localapi.Status) bool {
		return slices.ContainsFunc(s.Health, func(h localapi.HealthEntry) bool { return h.Code == protocol.CodeDeviceMissing })
	}
	before := r.status(t)
	if missing(before) {
		t.Fatal("a device is missing that nobody has chosen")
	}
	names := []string{"a card that was taken out"}
	for _, g := range hw.GPUs {
		names = append(names, g.Name)
	}
	r.change(t, func(s *policy.Settings) { s.Limits.GPUs = names })
	eventually(t, "a new stage that says what is missing", func() bool {
		s := r.status(t)
		return len(s.StagePIDs) == 1 && !slices.Equal(s.StagePIDs, before.StagePIDs) && missing(s)
	})
	r.wants(t, "") // it shares all the same
	r.change(t, func(s *policy.Settings) { s.Limits.GPUs = []string{} })
	eventually(t, "nothing missing any more", func() bool {
		s := r.status(t)
		return len(s.StagePIDs) == 1 && !missing(s)
	})
}
