package earnings_test

import (
	"testing"
	"time"

	"neuron/app/enginetest"
	"neuron/app/ui/earnings"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	"neuron/app/ui/uitest"
	"neuron/engine/accounts"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
)

// rich is an engine whose owner has earned something.
func rich(t *testing.T) *enginetest.Engine {
	t.Helper()
	e := enginetest.Start(t)
	now := enginetest.Now.UTC()
	e.With(func(s *enginetest.State) {
		s.Account = accounts.Account{Balances: map[string]accounts.Money{"available": {Micros: 132_481_000}, "pending": {Micros: 1_250_000}}}
		for i := range 120 {
			for j, name := range []string{"Qwen3 8B Instruct Q4_K_M", "Llama 3.1 8B Instruct", "guide"} {
				amount := int64((i*37+j*11)%29) * 130_000 / int64(j+1)
				s.Earnings.Earnings = append(s.Earnings.Earnings, accounts.Earning{
					Day: now.AddDate(0, 0, -i).Format(time.DateOnly), ModelName: name, Range: &protocol.Range{First: 4 * j, Last: 4*j + 12},
					Amount: accounts.Money{Micros: amount}, Decode: amount / 100, Prefill: amount / 30,
				})
			}
		}
		st := accounts.Statement{Next: "1"}
		for i, kind := range []string{"settle", "earn", "post", "void", "reserve", "grant"} {
			st.Lines = append(st.Lines, accounts.Line{Kind: kind, At: now.Add(-time.Duration(i) * 7 * time.Hour), Amount: accounts.Money{Micros: int64(3-i) * 815_000}, ModelName: "Qwen3 8B Instruct Q4_K_M", Range: &protocol.Range{First: 6, Last: 18}})
		}
		s.Statements = []accounts.Statement{st, {Lines: []accounts.Line{{Kind: "grant", At: now, Amount: accounts.Money{Micros: 5e6}, Note: "the last line"}}}}
	})
	return e
}

func open(t *testing.T, e *enginetest.Engine, mode theme.Mode, lang string, width float32) *uitest.Desk {
	t.Helper()
	return uitest.Open(t, e, mode, lang, width, 1500, func(env *page.Env) page.Page { return earnings.New(env) })
}

func TestLooks(t *testing.T) {
	uitest.Looks(t, "earnings", func(t *testing.T, mode theme.Mode, lang string, width float32) *uitest.Desk {
		return open(t, rich(t), mode, lang, width)
	}, func(d *uitest.Desk) bool { return uitest.Button(d.Window, d.Env.Words.T("earnings.more")) != nil })
}

// TestLooksWithoutEarnings has an account with lines, and an empty chart.
func TestLooksWithoutEarnings(t *testing.T) {
	uitest.Looks(t, "earnings-none", func(t *testing.T, mode theme.Mode, lang string, width float32) *uitest.Desk {
		e := rich(t)
		e.With(func(s *enginetest.State) { s.Earnings.Earnings = nil })
		return open(t, e, mode, lang, width)
	}, func(d *uitest.Desk) bool { return uitest.Says(d.Window, d.Env.Words.T("earnings.chart_empty")) })
}

func TestMoreAndFiles(t *testing.T) {
	e := rich(t)
	d := open(t, e, theme.Dark, "en", 1000)
	d.Tap("Show more")
	d.Until("the last line", func() bool { return uitest.Says(d.Window, "the last line") })
	d.Tap("Save as CSV")
	d.Until("the file is made", func() bool { return e.Told("EarningsCSV") })
	d.Until("it is asked where to", func() bool { return d.Window.Canvas().Overlays().Top() != nil })
}

func TestEmptyAndOffline(t *testing.T) {
	d := open(t, enginetest.Start(t), theme.Light, "en", 900)
	d.Tap("Share this computer")
	if len(d.Opened) != 1 || d.Opened[0] != "share" {
		t.Errorf("opened %v", d.Opened)
	}
	d.Picture("earnings-empty")
	e := enginetest.Start(t)
	e.With(func(s *enginetest.State) { s.Err = protocol.Errorf(protocol.CodeUnavailable, "away") })
	d = open(t, e, theme.Light, "en", 900)
	d.Until("a way out", func() bool { return uitest.Button(d.Window, "Try again") != nil })
	d.Picture("earnings-offline")
	// Try again asked before the engine was there, and not when it was.
	e.Down()
	d.Until("no engine", func() bool { return d.Env.Link.State().Phase == link.Absent })
	e.With(func(s *enginetest.State) { s.Err = nil })
	d.Tap("Try again")
	e.Up(t)
	d.Until("it was asked for", func() bool { return uitest.Button(d.Window, "Try again") == nil })
}
