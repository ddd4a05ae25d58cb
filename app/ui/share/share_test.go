package share_test

import (
	"fmt"
	"testing"
	"time"

	"neuron/app/enginetest"
	"neuron/app/ui/page"
	"neuron/app/ui/share"
	"neuron/app/ui/theme"
	"neuron/app/ui/uitest"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
)

// busy is an engine with much to show.
func busy(t *testing.T) *enginetest.Engine {
	t.Helper()
	parts := []localapi.Part{{Layer: -1}}
	for i := range 32 {
		parts = append(parts, localapi.Part{Layer: i})
	}
	e := enginetest.Start(t)
	e.With(func(s *enginetest.State) {
		s.Status.Work = &localapi.Work{Sessions: 2, TokensPerSecond: 37.4, TokensToday: 128_311, CreditToday: 4_180_000, CreditKnown: true, BytesToday: 2_100_000_000}
		s.Status.Shards = []localapi.Shard{
			{Model: "m", Name: "Qwen3 8B Instruct Q4_K_M", Range: protocol.Range{First: 6, Last: 18}, State: protocol.ShardReady, Bytes: 2_400_000_000, BytesDone: 2_400_000_000, Sessions: 2},
			{Model: "n", Name: "Llama 3.1 8B Instruct", Range: protocol.Range{First: 0, Last: 9}, State: protocol.ShardDownloading, Bytes: 1_900_000_000, BytesDone: 700_000_000},
		}
		s.Status.Transfers = []localapi.Transfer{{Model: "m", Parts: parts}, {Model: "n", DownRate: 4_200_000, ETASeconds: 285, Parts: parts}}
		s.Status.Health = []localapi.HealthEntry{{Code: protocol.CodeSwarmLost, Severity: localapi.SeverityWarning, Text: "The process that transfers models ended."}}
		s.Sessions = []protocol.SessionState{
			{Session: "s-kx3p2mqwertyuiop", Use: protocol.Range{First: 6, Last: 18}, Phase: protocol.PhaseDecode, Counters: protocol.Counters{DecodeSteps: 211}, Opened: enginetest.Now.Add(-40 * time.Second)},
			{Session: "s-a91bzmqwertyuiop", Use: protocol.Range{First: 6, Last: 18}, Phase: protocol.PhasePrefill, Counters: protocol.Counters{DecodeSteps: 1}, Opened: enginetest.Now.Add(-3 * time.Second)},
		}
		s.Hardware.Speed = &localapi.Speed{Model: "guide", TokensPerSecond: 812.4, PrefillPerSec: 9120}
		s.Hardware.Measured = enginetest.Now
		s.Plans = []localapi.Plan{
			{Model: "m", Name: "Qwen3 8B Instruct Q4_K_M", Ranges: []localapi.PlanRange{
				{Range: protocol.Range{First: 0, Last: 32}, Fetch: 4_800_000_000, Seconds: 1200, Memory: 5_100_000_000, Fit4K: 12},
				{Range: protocol.Range{First: 6, Last: 18}, Memory: 1_900_000_000, Fit4K: 40}}},
			{Model: "x", Name: "DeepSeek V4 Flash"},
		}
	})
	return e
}

// open shows the page of an engine (nil: none) in a window.
func open(t *testing.T, e *enginetest.Engine, mode theme.Mode, lang string, width float32) *uitest.Desk {
	t.Helper()
	return uitest.Open(t, e, mode, lang, width, 1500, func(env *page.Env) page.Page { return share.New(env) })
}

func TestLooks(t *testing.T) {
	for _, mode := range uitest.Themes {
		for _, lang := range []string{"en", "de"} {
			for _, width := range []float32{560, 1000} {
				name := fmt.Sprintf("%v-%s-%v", mode, lang, width)
				t.Run(name, func(t *testing.T) {
					d := open(t, busy(t), mode, lang, width)
					d.Until("the speed is there", func() bool { return uitest.Button(d.Window, d.Env.Words.T("share.stop")) != nil })
					d.Until("this computer is described", func() bool { return uitest.Says(d.Window, "812") })
					d.Picture("share-" + name)
					if lang == "en" && width == 1000 {
						uitest.Master(t, d.Window, mode, "share")
					}
					d.Tap(d.Env.Words.T("share.choose"))
					d.Until("there are plans", func() bool { return uitest.Button(d.Window, d.Env.Words.T("share.hold")) != nil })
					d.Picture("share-plans-" + name)
				})
			}
		}
	}
}

func TestPauseAndResume(t *testing.T) {
	e := busy(t)
	d := open(t, e, theme.Dark, "en", 1000)
	d.Tap("1 hour")
	d.Until("a pause was asked for", func() bool {
		p := enginetest.Look(e, func(s *enginetest.State) []localapi.PauseOrder { return s.Pauses })
		return len(p) == 1 && p[0].Seconds == 3600
	})
	end := enginetest.Now.Add(time.Hour)
	e.With(func(s *enginetest.State) {
		s.Status.Policy = &localapi.Sharing{State: protocol.SharingPaused, Reason: protocol.SharingUserPause, Until: &end}
	})
	d.Tap("Resume")
	d.Until("it was told to go on", func() bool { return e.Told("Resume") })
	e.With(func(s *enginetest.State) {
		s.Status.Policy = &localapi.Sharing{State: protocol.SharingOff, Reason: protocol.SharingUserOff}
	})
	d.Tap("Share this computer")
	d.Until("it shares", func() bool { return enginetest.Look(e, func(s *enginetest.State) bool { return s.Settings.Share }) })
}

// TestHoldAPlan: what is chosen is ordered, and the choice closes.
func TestHoldAPlan(t *testing.T) {
	e := busy(t)
	d := open(t, e, theme.Light, "en", 1000)
	d.Tap("Choose…")
	d.Tap("Hold this")
	d.Until("it is ordered", func() bool {
		h := enginetest.Look(e, func(s *enginetest.State) []localapi.Hold { return s.Holds })
		return len(h) == 1 && h[0].Model == "m" && h[0].Layers == "0-32"
	})
	d.Until("the choice is closed", func() bool { return uitest.Button(d.Window, "Hold this") == nil })
}

// The choice of what to hold stayed empty when the engine came back.
func TestTryAgainWaitsForTheEngine(t *testing.T) {
	e := busy(t)
	d := open(t, e, theme.Light, "en", 1000)
	e.Down()
	d.Until("no engine", func() bool { return d.Env.Link.State().Phase == link.Absent })
	e.Up(t)
	d.Until("it is back", func() bool { return uitest.Button(d.Window, "Choose…") != nil })
	e.With(func(s *enginetest.State) { s.Err = protocol.Errorf(protocol.CodeUnavailable, "away") })
	d.Tap("Choose…")
	d.Until("it cannot be asked", func() bool { return uitest.Button(d.Window, "Try again") != nil })
	e.Down()
	e.With(func(s *enginetest.State) { s.Err = nil })
	d.Until("no engine again", func() bool { return d.Env.Link.State().Phase == link.Absent })
	d.Tap("Try again")
	e.Up(t)
	d.Until("the choice is there", func() bool { return uitest.Button(d.Window, "Hold this") != nil })
}

func TestWithoutAnEngine(t *testing.T) {
	d := open(t, nil, theme.Light, "en", 900)
	d.Until("it says so", func() bool { return uitest.Button(d.Window, "Start") != nil })
	if uitest.Button(d.Window, "Stop sharing") != nil {
		t.Error("an engine that is not there can be stopped")
	}
	d.Picture("share-absent")
}
