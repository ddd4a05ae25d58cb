package share_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"neuron/app/enginetest"
	vm "neuron/app/viewmodel/share"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
)

func model(t *testing.T, e *enginetest.Engine) (*vm.Model, *link.Link) {
	t.Helper()
	l := link.New(link.Options{Data: e.Data})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	t.Cleanup(func() { cancel(); <-done })
	m := vm.New(vm.Options{
		Engine: func() vm.Engine {
			if c := l.Client(); c != nil {
				return c
			}
			return nil
		},
		State: l.State, Words: words.New("en"), Now: time.Now,
	})
	t.Cleanup(m.Close)
	until(t, m, l, "a connection", func(v vm.View) bool { return v.Phase == link.Connected })
	return m, l
}

// settings are those that the engine has.
func settings(e *enginetest.Engine) policy.Settings {
	return enginetest.Look(e, func(s *enginetest.State) policy.Settings { return s.Settings.Clone() })
}

// until waits for a view by the changes that are told.
func until(t *testing.T, m *vm.Model, l *link.Link, what string, ok func(vm.View) bool) vm.View {
	t.Helper()
	changed, stop := l.Watch()
	defer stop()
	limit := time.After(20 * time.Second)
	for {
		v := m.View()
		if ok(v) {
			return v
		}
		select {
		case <-changed:
		case <-m.Changed():
		case <-limit:
			t.Fatalf("%s: not in %+v", what, v)
		}
	}
}

func TestStates(t *testing.T) {
	t.Parallel()
	until2 := time.Now().Add(90 * time.Minute)
	e := enginetest.Start(t)
	m, l := model(t, e)
	for name, c := range map[string]struct {
		sharing    localapi.Sharing
		on, paused bool
		sentence   string
	}{
		"shares":    {localapi.Sharing{State: protocol.SharingOn}, true, false, "Sharing this computer."},
		"off":       {localapi.Sharing{State: protocol.SharingOff, Reason: protocol.SharingUserOff}, false, false, "turned off"},
		"new":       {localapi.Sharing{State: protocol.SharingOff, Reason: protocol.SharingNotSetUp}, false, false, "not set up"},
		"paused":    {localapi.Sharing{State: protocol.SharingPaused, Reason: protocol.SharingUserPause, Until: &until2}, true, true, "until"},
		"battery":   {localapi.Sharing{State: protocol.SharingPaused, Reason: protocol.SharingBattery}, true, false, "battery"},
		"finishing": {localapi.Sharing{State: protocol.SharingLeaving, Reason: protocol.SharingUserActive}, true, false, "finished first"},
	} {
		e.With(func(told *enginetest.State) { told.Status.Policy = &c.sharing })
		v := until(t, m, l, name, func(v vm.View) bool { return v.State == c.sharing.State && v.Reason == c.sharing.Reason })
		if v.On != c.on || v.Paused != c.paused || !strings.Contains(v.Sentence, c.sentence) {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestOrders(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t)
	m, l := model(t, e)
	idle := func(v vm.View) bool { return !v.Busy }
	m.Share(true)
	until(t, m, l, "share", func(v vm.View) bool { return !v.Busy && settings(e).Share })
	m.Pause(localapi.PauseOrder{Seconds: 3600})
	until(t, m, l, "pause", func(v vm.View) bool {
		return !v.Busy && enginetest.Look(e, func(s *enginetest.State) int { return len(s.Pauses) }) == 1
	})
	m.Resume()
	until(t, m, l, "resume", func(v vm.View) bool { return !v.Busy && e.Told("Resume") })
	m.Hold("guide", "0-4")
	until(t, m, l, "hold", func(v vm.View) bool { return !v.Busy && settings(e).Layers == "0-4" })
	if h := enginetest.Look(e, func(s *enginetest.State) []localapi.Hold { return s.Holds }); len(h) != 1 || h[0] != (localapi.Hold{Model: "guide", Layers: "0-4"}) || settings(e).Model != "guide" {
		t.Errorf("held %+v, settings %+v", h, settings(e))
	}
	e.With(func(told *enginetest.State) { told.Err = protocol.Errorf(protocol.CodeDiskFull, "full") })
	m.Share(false)
	v := until(t, m, l, "a refused order", func(v vm.View) bool { return !v.Busy && v.Problem != nil })
	if v.Problem.Code != protocol.CodeDiskFull || !settings(e).Share {
		t.Errorf("%+v", v.Problem)
	}
	e.With(func(told *enginetest.State) { told.Err = nil })
	m.Share(false)
	if v := until(t, m, l, "the next order", func(v vm.View) bool { return idle(v) && !settings(e).Share }); v.Problem != nil {
		t.Errorf("the old problem stays: %v", v.Problem)
	}
}

func TestHoldsAndPlans(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t)
	e.With(func(s *enginetest.State) {
		s.Status.Shards = []localapi.Shard{{Model: "m", Name: "guide", Range: protocol.Range{First: 2, Last: 5}, State: protocol.ShardDownloading, Bytes: 4000, BytesDone: 1000}}
		s.Status.Transfers = []localapi.Transfer{{Model: "m", DownRate: 100, ETASeconds: 30,
			Parts: []localapi.Part{{Layer: -1}, {Layer: 2}, {Layer: 3}, {Layer: 4}, {Layer: 7}}}}
		s.Plans = []localapi.Plan{
			{Model: "m", Name: "guide", Ranges: []localapi.PlanRange{{Range: protocol.Range{First: 0, Last: 4}, Fetch: 2e6, Seconds: 90, Memory: 5e6, Fit4K: 1}}},
			{Model: "n", Name: "large"},
		}
		s.Hardware.Speed = &localapi.Speed{Model: "guide", TokensPerSecond: 12.5}
	})
	m, l := model(t, e)
	m.Load()
	m.Plan()
	v := until(t, m, l, "plans", func(v vm.View) bool { return len(v.Plans) == 2 && v.Hardware != "" && len(v.Shards) == 1 })
	s := v.Shards[0]
	if !s.Moving || s.Part != 0.25 || !strings.Contains(s.Progress, "left") || !strings.Contains(s.Text, "2 to 4") {
		t.Errorf("%+v", s)
	}
	if len(s.Layers) != 8 || s.Layers[1] || !s.Layers[2] || !s.Layers[4] || s.Layers[5] {
		t.Errorf("layers %v", s.Layers)
	}
	if r := v.Plans[0].Ranges[0]; r.Layers != "0-4" || !strings.Contains(r.Title, "0 to 3") || !strings.Contains(r.Text, "1 conversation of") {
		t.Errorf("%+v", r)
	}
	if v.Plans[1].Text == "" || !strings.Contains(v.Measured, "12.5") {
		t.Errorf("%+v", v)
	}
	m.Measure()
	until(t, m, l, "measured", func(v vm.View) bool { return !v.Measuring })
}

func TestWithoutAnEngine(t *testing.T) {
	t.Parallel()
	l := link.New(link.Options{Data: t.TempDir()})
	m := vm.New(vm.Options{Engine: func() vm.Engine { return nil }, State: l.State, Words: words.New("en"), Now: time.Now})
	defer m.Close()
	m.Load()
	m.Share(true)
	v := until(t, m, l, "a refusal", func(v vm.View) bool { return !v.Busy && v.Problem != nil })
	if v.Problem.Code != protocol.CodeUnavailable {
		t.Errorf("%v", v.Problem)
	}
}
