package diagnostics

import (
	"fmt"
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"neuron/app/enginetest"
	"neuron/app/ui/kit"
	"neuron/app/ui/uitest"
	vm "neuron/app/viewmodel/diagnostics"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

func open(t *testing.T, e *enginetest.Engine, language string) (*uitest.Desk, *Page) {
	t.Helper()
	d := uitest.New(t, e, language)
	d.Env.Now = func() time.Time { return enginetest.Now }
	p := New(d.Env)
	d.Set(p.Content(), 980, 900)
	p.Show()
	t.Cleanup(p.Close)
	t.Cleanup(p.Hide)
	return d, p
}

func lines(n int) []localapi.LogLine {
	levels := []string{"INFO", "INFO", "WARN", "INFO", "DEBUG", "ERROR"}
	texts := []string{"session opened", "layers verified", "a neighbour answers slowly", "receipt delivered", "frame sent", "the stage ended unexpectedly"}
	out := make([]localapi.LogLine, n)
	for i := range out {
		out[i] = localapi.LogLine{Number: int64(i + 1), Time: time.Date(2026, 11, 30, 15, 4, i%60, 0, time.UTC), Level: levels[i%6], Part: "stage", Text: fmt.Sprintf("%s number=%d", texts[i%6], i)}
	}
	return out
}

// notices are what the health tab says.
func (p *Page) notices() []string {
	var out []string
	for _, o := range p.health.entries.Objects {
		out = append(out, o.(*kit.Notice).Text())
	}
	return out
}

func TestHealthWorstFirst(t *testing.T) {
	uitest.App(t, "dark")
	e := enginetest.Start(t)
	d, p := open(t, e, "en")
	d.Until("all is well", func() bool { n := p.notices(); return len(n) == 1 && n[0] == "Everything is in order." })
	e.With(func(s *enginetest.State) {
		s.Status.Health = []localapi.HealthEntry{
			localapi.HealthOf(localapi.SeverityInfo, protocol.Errorf(protocol.CodeHostBusy, "other programs use 40 %%")),
			localapi.HealthOf(localapi.SeverityError, protocol.Errorf(protocol.CodeDiskFull, "the disk is full")),
		}
	})
	d.Until("both are told", func() bool {
		n := p.notices()
		return len(n) == 2 && n[0] == "Problem: the disk is full" && n[1] == "Note: other programs use 40 %"
	})
}

func TestWithoutAnEngine(t *testing.T) {
	uitest.App(t, "dark")
	e := enginetest.Start(t)
	d, p := open(t, e, "en")
	d.Until("its process is told", func() bool { return p.health.facts["diagnostics.engine"].Text() == "0.1.0, process 4711" })
	e.Down()
	d.Until("it is told", func() bool {
		n := p.notices()
		return len(n) == 1 && n[0] == "Problem: The engine is not running." && p.health.facts["diagnostics.engine"].Text() == "–"
	})
	e.Up(t)
	d.Until("it is back", func() bool { return p.notices()[0] == "Everything is in order." })
}

func TestLogsByLevelAndWords(t *testing.T) {
	uitest.App(t, "dark")
	e := enginetest.Start(t)
	e.With(func(s *enginetest.State) { s.Logs = lines(60) })
	d, p := open(t, e, "en")
	p.show(1)
	d.Until("all but debug lines are there", func() bool { return len(p.logs.lines) == 50 })
	p.model.Choose(vm.Warnings, "")
	d.Until("the bad ones are there", func() bool { return len(p.logs.lines) == 20 })
	p.model.Choose(vm.Errors, "NUMBER=5")
	d.Until("one pattern", func() bool { return len(p.logs.lines) == 3 }) // 5, 53 and 59
	p.model.Choose(vm.All, "")
	e.With(func(s *enginetest.State) { s.Logs = lines(90) })
	d.Until("new lines came", func() bool { return len(p.logs.lines) == 90 })
	// A new engine counts from the beginning.
	e.With(func(s *enginetest.State) { s.Logs = lines(7) })
	d.Until("the new engine's lines are there", func() bool { return len(p.logs.lines) == 7 })
}

func TestReportIsCopied(t *testing.T) {
	a := uitest.App(t, "dark")
	e := enginetest.Start(t)
	d, p := open(t, e, "en")
	p.model.Report()
	d.Until("it is on the clipboard", func() bool {
		return a.Clipboard().Content() == "Neuron 0.1.0\n" && d.Window.Canvas().Overlays().Top() != nil
	})
	d.Picture("diagnostics-report")
	if !kit.Escape(d.Window.Canvas()) || kit.Escape(d.Window.Canvas()) {
		t.Error("Escape closes the dialog, once")
	}
}

func TestRestartAsksTheEngine(t *testing.T) {
	uitest.App(t, "dark")
	e := enginetest.Start(t)
	d, p := open(t, e, "en")
	p.askRestart()
	if d.Window.Canvas().Overlays().Top() == nil {
		t.Fatal("nothing is asked")
	}
	test.FocusNext(d.Window.Canvas())
	d.Window.Canvas().Focused().TypedKey(&fyne.KeyEvent{Name: fyne.KeyReturn})
	d.Until("it was told to stop", func() bool { return e.Told("Shutdown") })
}

func TestPictures(t *testing.T) {
	for _, mode := range uitest.Themes {
		uitest.App(t, mode)
		e := enginetest.Start(t)
		e.With(func(s *enginetest.State) {
			s.Logs = lines(300)
			s.Status.Health = []localapi.HealthEntry{
				localapi.HealthOf(localapi.SeverityWarning, protocol.Errorf(protocol.CodeHostBusy, "Other programs use 53 %% of the processor.")),
				localapi.HealthOf(localapi.SeverityError, protocol.Errorf(protocol.CodeDiskFull, "No room is left for the layers of Llama 3.1.")),
			}
		})
		d, p := open(t, e, "en")
		d.Until("the entries are there", func() bool { return len(p.notices()) == 2 })
		d.Picture("diagnostics-health-" + string(mode))
		uitest.Master(t, d.Window, mode, "diagnostics")
		p.show(1)
		d.Until("the lines are there", func() bool { return len(p.logs.lines) == 250 })
		d.Picture("diagnostics-logs-" + string(mode))
	}
}
