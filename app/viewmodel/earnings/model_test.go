package earnings_test

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"neuron/app/enginetest"
	vm "neuron/app/viewmodel/earnings"
	"neuron/engine/accounts"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/words"
)

var now = time.Date(2026, 11, 30, 15, 0, 0, 0, time.UTC)

func model(t *testing.T, e *enginetest.Engine) *vm.Model {
	t.Helper()
	c, err := localapi.Dial(e.Data)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	m := vm.New(vm.Options{Engine: func() vm.Engine { return c }, Words: words.New("en"), Now: func() time.Time { return now }})
	t.Cleanup(m.Close)
	return m
}

func until(t *testing.T, m *vm.Model, what string, ok func(vm.View) bool) vm.View {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		v := m.View()
		if ok(v) {
			return v
		}
		select {
		case <-m.Changed():
		case <-limit:
			t.Fatalf("%s: not in %+v", what, v)
		}
	}
}

func earned(day, model string, first, last int, micros int64) accounts.Earning {
	return accounts.Earning{Day: day, ModelName: model, Range: &protocol.Range{First: first, Last: last}, Amount: accounts.Money{Micros: micros}, Decode: 10, Prefill: 5}
}

func full(t *testing.T) *enginetest.Engine {
	t.Helper()
	e := enginetest.Start(t)
	e.With(func(s *enginetest.State) {
		s.Account = accounts.Account{Balances: map[string]accounts.Money{"available": {Micros: 12_500_000}, "pending": {Micros: 250_000}}}
		s.Earnings = accounts.Earnings{Earnings: []accounts.Earning{
			earned("2026-11-30", "guide", 0, 4, 2_000_000), earned("2026-11-30", "other", 0, 4, 500_000),
			earned("2026-11-29", "guide", 4, 8, 1_000_000), earned("2026-11-02", "guide", 0, 4, 4_000_000), earned("2026-03-15", "guide", 0, 4, 8_000_000),
		}}
		for p := range 3 {
			st := accounts.Statement{}
			for i := range 2 {
				st.Lines = append(st.Lines, accounts.Line{Kind: "earn", At: now, Amount: accounts.Money{Micros: int64(p*2+i) * 1e6}, ModelName: "guide", Range: &protocol.Range{First: 0, Last: 4}})
			}
			if p < 2 {
				st.Next = fmt.Sprint(p + 1)
			}
			s.Statements = append(s.Statements, st)
		}
		s.Statements[0].Lines[0] = accounts.Line{Kind: "of_later", At: now, Amount: accounts.Money{Micros: -1e6}, Note: "a note"}
	})
	return e
}

func TestSums(t *testing.T) {
	t.Parallel()
	m := model(t, full(t))
	if v := m.View(); v.Stage != vm.Loading {
		t.Errorf("before anything was asked: %+v", v)
	}
	m.Load()
	v := until(t, m, "the account", func(v vm.View) bool { return v.Stage == vm.Ready })
	if v.Available != "12.50" && v.Available != "12.5" || v.Today == "" {
		t.Errorf("%+v", v)
	}
	sum := func(v vm.View) (s float64) {
		for _, b := range v.Bars {
			s += b.Value
		}
		return s
	}
	last := func(v vm.View) float64 { return v.Bars[len(v.Bars)-1].Value }
	// Thirty days end today; the second of November is in them, March is not.
	if len(v.Bars) != 30 || sum(v) != 7.5 || last(v) != 2.5 {
		t.Errorf("days: %d bars, sum %v, last %v", len(v.Bars), sum(v), last(v))
	}
	if len(v.Models) != 2 || v.Models[0].Name != "guide" || v.Models[0].Share != 1 || v.Models[1].Share >= 0.2 {
		t.Errorf("models %+v", v.Models)
	}
	if len(v.Shards) != 3 || !strings.Contains(v.Shards[0].Name, "layers 0 to 3") {
		t.Errorf("shards %+v", v.Shards)
	}
	if !strings.Contains(v.Hint, "arrow keys") {
		t.Errorf("the hint is %q", v.Hint)
	}
	m.Group(vm.Weeks) // the week of the 30th, a Monday, has one day so far
	v = until(t, m, "weeks", func(v vm.View) bool { return len(v.Bars) == 12 && v.Grouping == vm.Weeks })
	if last(v) != 2.5 || v.Bars[10].Value != 1 || sum(v) != 7.5 {
		t.Errorf("weeks: %+v", v.Bars)
	}
	m.Group(vm.Months)
	v = until(t, m, "months", func(v vm.View) bool { return v.Grouping == vm.Months })
	if len(v.Bars) != 12 || last(v) != 7.5 || v.Bars[3].Value != 8 || sum(v) != 15.5 {
		t.Errorf("months: %+v", v.Bars)
	}
}

func TestLines(t *testing.T) {
	t.Parallel()
	m := model(t, full(t))
	m.Load()
	v := until(t, m, "lines", func(v vm.View) bool { return len(v.Lines) == 2 && v.More })
	if l := v.Lines[0]; l.What != "of_later" || !l.Out || l.About != "a note" {
		t.Errorf("a line of a later version: %+v", l)
	}
	if l := v.Lines[1]; l.What != "Earned" || l.Out || !strings.Contains(l.About, "guide, layers 0 to 3") {
		t.Errorf("%+v", l)
	}
	m.More()
	m.More() // while the first is under way
	until(t, m, "more lines", func(v vm.View) bool { return len(v.Lines) == 4 && !v.LoadingMore })
	m.More()
	v = until(t, m, "all lines", func(v vm.View) bool { return len(v.Lines) == 6 })
	if v.More {
		t.Error("there is more after the last page")
	}
	m.More()
	if v := m.View(); v.LoadingMore {
		t.Error("more is asked for where there is none")
	}
}

// An account may have lines while nothing came in during the bars' time.
func TestNothingInThisTime(t *testing.T) {
	t.Parallel()
	e := full(t)
	e.With(func(s *enginetest.State) {
		s.Earnings.Earnings = []accounts.Earning{earned("2026-03-15", "guide", 0, 4, 8_000_000)}
	})
	m := model(t, e)
	m.Load()
	v := until(t, m, "the account", func(v vm.View) bool { return v.Stage == vm.Ready })
	if v.Hint != "Nothing was earned in this time." || len(v.Bars) != 30 || len(v.Models) != 0 {
		t.Errorf("days: %q, %d bars, models %+v", v.Hint, len(v.Bars), v.Models)
	}
	m.Group(vm.Months)
	v = until(t, m, "months", func(v vm.View) bool { return v.Grouping == vm.Months })
	if !strings.Contains(v.Hint, "arrow keys") || len(v.Models) != 1 {
		t.Errorf("months: %q, models %+v", v.Hint, v.Models)
	}
}

func TestFiles(t *testing.T) {
	t.Parallel()
	e := full(t)
	m := model(t, e)
	m.ExportEarnings()
	v := until(t, m, "a file", func(v vm.View) bool { return v.File != nil })
	if v.File.Name != "neuron-earnings-2026-11-30.csv" || string(v.File.Data) != "day,amount\n" {
		t.Errorf("%+v", v.File)
	}
	m.Taken()
	e.With(func(s *enginetest.State) { s.Err = protocol.Errorf(protocol.CodeUnavailable, "away") })
	m.ExportStatement()
	until(t, m, "a failure", func(v vm.View) bool { return v.File == nil && v.FileErr != nil })
}

func TestTrouble(t *testing.T) {
	t.Parallel()
	e := enginetest.Start(t)
	m := model(t, e)
	m.Load()
	until(t, m, "nothing earned", func(v vm.View) bool { return v.Stage == vm.Empty })
	e.With(func(s *enginetest.State) { s.Err = protocol.Errorf(protocol.CodeUnavailable, "away") })
	m.Load()
	until(t, m, "what was there, and the error", func(v vm.View) bool { return v.Stage == vm.Empty && v.Err != nil })
	other := vm.New(vm.Options{Engine: func() vm.Engine { return nil }, Words: words.New("en"), Now: time.Now})
	defer other.Close()
	other.Load()
	until(t, other, "no engine", func(v vm.View) bool { return v.Stage == vm.Failed })
}
