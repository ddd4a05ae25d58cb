package wizard

import (
	"context"
	"sync"
	"testing"
	"time"

	"fyne.io/fyne/v2/test"

	"neuron/app/enginetest"
	"neuron/app/ui/uitest"
	vm "neuron/app/viewmodel/wizard"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// loginEntry is the start at login of a test.
type loginEntry struct {
	mu sync.Mutex
	on bool // guarded by mu
}

func (l *loginEntry) On() (bool, error) { l.mu.Lock(); defer l.mu.Unlock(); return l.on, nil }
func (l *loginEntry) Set(on bool) error { l.mu.Lock(); defer l.mu.Unlock(); l.on = on; return nil }

// open shows the questions of a first start.
func open(t *testing.T, language string) (*uitest.Desk, *Page, *enginetest.Engine, *loginEntry, *int) {
	t.Helper()
	e := enginetest.Start(t)
	e.With(func(s *enginetest.State) { s.Settings = policy.Defaults() })
	d := uitest.New(t, e, language)
	d.Env.Now = func() time.Time { return enginetest.Now }
	entry := &loginEntry{}
	model := vm.New(func() vm.Engine {
		if c := d.Env.Link.Client(); c != nil {
			return c
		}
		return nil
	}, entry, func(_ context.Context, address string) (int, error) {
		if address != "https://neuron.example" {
			return 0, protocol.Errorf(protocol.CodeUnavailable, "nothing answers at this address")
		}
		return 3, nil
	})
	done := new(int)
	p := newPage(d.Env, model, func() { *done++ })
	d.Set(p.Content(), 980, 800)
	p.Show()
	t.Cleanup(p.Close)
	t.Cleanup(p.Hide)
	return d, p, e, entry, done
}

func settingsOf(e *enginetest.Engine) policy.Settings {
	return enginetest.Look(e, func(s *enginetest.State) policy.Settings { return s.Settings.Clone() })
}

// next presses the main button and waits for the step.
func next(d *uitest.Desk, p *Page, to vm.Step) {
	test.Tap(p.next)
	d.Until("the next step", func() bool { return p.steps.Shown() == int(to) })
}

func TestAnswersAreSavedOnceAtTheEnd(t *testing.T) {
	uitest.App(t, "dark")
	d, p, e, entry, done := open(t, "en")
	next(d, p, vm.Computer)
	d.Until("the computer is shown", func() bool { return p.model.View().Hardware != nil })
	next(d, p, vm.Sharing)
	p.model.Answer(func(s *policy.Settings) { s.Share, s.Rules.OnlyIdle = true, true })
	next(d, p, vm.Network)
	p.address.SetText("https://neuron.example")
	p.address.OnSubmitted("")
	d.Until("it answers", func() bool { return p.found.Word() == "It answers" })
	next(d, p, vm.Last)
	p.model.SetStartAtLogin(true)
	if e.Told("SetSettings") {
		t.Error("settings were saved before the end")
	}
	// Somebody else changes something meanwhile.
	e.With(func(s *enginetest.State) { s.Settings.Revision = 4 })
	test.Tap(p.next)
	d.Until("it is over", func() bool { return *done == 1 })
	s := settingsOf(e)
	if on, _ := entry.On(); !s.SetUp || !s.Share || !s.Rules.OnlyIdle || s.Tracker != "https://neuron.example" || s.Revision != 5 || !on {
		t.Errorf("%+v, at login: %v", s, on)
	}
}

func TestSkippingChangesNothingElse(t *testing.T) {
	uitest.App(t, "dark")
	d, p, e, entry, done := open(t, "en")
	next(d, p, vm.Computer)
	next(d, p, vm.Sharing)
	p.model.Answer(func(s *policy.Settings) { s.Share = true })
	p.model.SetStartAtLogin(true)
	test.Tap(p.skip)
	d.Until("it is over", func() bool { return *done == 1 })
	got := settingsOf(e)
	if on, _ := entry.On(); got.Share || !got.SetUp || got.Revision != 1 || on {
		t.Errorf("%+v, at login: %v", got, on)
	}
}

func TestABadAddressKeepsTheQuestionsOpen(t *testing.T) {
	uitest.App(t, "dark")
	d, p, e, _, done := open(t, "en")
	for s := vm.Computer; s <= vm.Last; s++ {
		next(d, p, s)
	}
	p.model.SetAddress("ftp://somewhere")
	test.Tap(p.next)
	d.Until("it is told", func() bool { return p.problem.Visible() })
	if *done != 0 || settingsOf(e).SetUp {
		t.Error("the questions are over")
	}
	test.Tap(p.back)
	d.Until("back at the address", func() bool { return p.steps.Shown() == int(vm.Network) })
}

func TestPictures(t *testing.T) {
	for _, mode := range uitest.Themes {
		for _, language := range []string{"en", "fr"} {
			uitest.App(t, mode)
			d, p, _, _, _ := open(t, language)
			name := func(s string) string { return "wizard-" + s + "-" + language + "-" + string(mode) }
			master := func(s string) {
				if language == "en" {
					uitest.Master(t, d.Window, mode, "wizard-"+s)
				}
			}
			d.Until("there is no way back", func() bool { return !p.back.Visible() })
			d.Picture(name("1-welcome"))
			master("1-welcome")
			shown := false // on the page, not only known
			p.copies = append(p.copies, func(v *vm.View) { shown = v.Hardware != nil })
			next(d, p, vm.Computer)
			d.Until("the computer is shown", func() bool { return shown })
			d.Picture(name("2-computer"))
			master("2-computer")
			next(d, p, vm.Sharing)
			p.model.Answer(func(s *policy.Settings) { s.Share = true })
			d.Until("the rules show", func() bool { return p.rules.Visible() })
			d.Picture(name("3-sharing"))
			master("3-sharing")
			next(d, p, vm.Network)
			p.address.SetText("https://neuron.example")
			d.Until("it can be checked", func() bool { return p.model.View().Draft.Tracker != "" })
			p.address.OnSubmitted("")
			d.Until("it answers", func() bool { return p.found.Word() == d.Env.Words.T("wizard.found") })
			d.Picture(name("4-network"))
			master("4-network")
			next(d, p, vm.Last)
			d.Picture(name("5-last"))
			master("5-last")
		}
	}
}
