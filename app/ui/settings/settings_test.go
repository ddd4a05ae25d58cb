package settings

import (
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"neuron/app/enginetest"
	"neuron/app/ui/kit"
	"neuron/app/ui/uitest"
	vm "neuron/app/viewmodel/settings"
	"neuron/engine/accounts"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/internal/desktop/link"
)

// open shows the page with an engine, or without one for nil.
func open(t *testing.T, e *enginetest.Engine, language string) (*uitest.Desk, *Page) {
	t.Helper()
	t.Setenv("XDG_CONFIG_HOME", t.TempDir()) // the start at login is read there
	d := uitest.New(t, e, language)
	d.Env.Now = func() time.Time { return enginetest.Now }
	p := New(d.Env)
	d.Set(p.Content(), 980, 900)
	p.Show()
	t.Cleanup(p.Close)
	t.Cleanup(p.Hide)
	if e != nil {
		d.Until("the settings are there", func() bool { return p.state.Shown() == int(vm.Ready) })
	}
	return d, p
}

// toggles are the switches below an object, in their order.
func toggles(o fyne.CanvasObject) []*kit.Toggle {
	var found []*kit.Toggle
	var walk func(fyne.CanvasObject)
	walk = func(o fyne.CanvasObject) {
		switch o := o.(type) {
		case *kit.Toggle:
			found = append(found, o)
		case *fyne.Container:
			for _, x := range o.Objects {
				walk(x)
			}
		case fyne.Widget:
			for _, x := range test.WidgetRenderer(o).Objects() {
				walk(x)
			}
		}
	}
	walk(o)
	return found
}

func settingsOf(e *enginetest.Engine) policy.Settings {
	return enginetest.Look(e, func(s *enginetest.State) policy.Settings { return s.Settings.Clone() })
}

func TestAChangeIsSavedAndCanBeTakenBack(t *testing.T) {
	uitest.App(t, "dark")
	e := enginetest.Start(t)
	d, p := open(t, e, "en")
	away := p.rows["rules.only_idle"].Control.(*kit.Toggle)
	test.Tap(away)
	d.Until("it is saved", func() bool { return settingsOf(e).Rules.OnlyIdle && p.snack.box.Visible() })
	if got := p.snack.notice.Text(); got != "Saved: Only when I am away" {
		t.Errorf("the page says %q", got)
	}
	test.Tap(p.snack.undo)
	d.Until("it is taken back", func() bool { return !settingsOf(e).Rules.OnlyIdle && !away.On() })
}

func TestAWrongValueIsToldBesideItsField(t *testing.T) {
	uitest.App(t, "dark")
	e := enginetest.Start(t)
	d, p := open(t, e, "en")
	r := p.rows["rules.idle_minutes"]
	field := r.Control.(*kit.NumberField).Field()
	field.SetText("500")
	field.OnSubmitted("500")
	d.Until("it is refused", func() bool { return r.Problem() == "1 to 120 minutes are possible." })
	if settingsOf(e).Rules.IdleMinutes != 3 || p.snack.box.Visible() {
		t.Errorf("saved %d, feedback visible: %v", settingsOf(e).Rules.IdleMinutes, p.snack.box.Visible())
	}
	field.SetText("many")
	field.OnSubmitted("many")
	if r.Problem() != "Please type a number." {
		t.Errorf("letters are told as %q", r.Problem())
	}
	field.SetText("7")
	field.OnSubmitted("7")
	d.Until("it is taken", func() bool { return settingsOf(e).Rules.IdleMinutes == 7 && r.Problem() == "" })
}

// Somebody else (the command line, the tray) may change settings at any time.
func TestAConflictIsSolvedOnTheNewSettings(t *testing.T) {
	uitest.App(t, "dark")
	e := enginetest.Start(t)
	d, p := open(t, e, "en")
	e.With(func(s *enginetest.State) { s.Settings.Revision = 9; s.Settings.Limits.Threads = 2 })
	test.Tap(p.rows["share"].Control.(*kit.Toggle))
	d.Until("both hold", func() bool {
		s := settingsOf(e)
		return s.Share && s.Limits.Threads == 2 && s.Revision == 10
	})
	d.Until("the page says so", func() bool { return p.snack.box.Visible() && p.model.View().Reloaded })
}

// Try again asked once, before the engine was there, and never again.
func TestTryAgainWaitsForTheEngine(t *testing.T) {
	uitest.App(t, "dark")
	e := enginetest.Start(t)
	d, p := open(t, e, "en")
	e.Down()
	d.Until("no engine", func() bool { return d.Env.Link.State().Phase == link.Absent })
	p.again()
	d.Until("the page says so", func() bool { return p.state.Shown() == int(vm.Absent) })
	d.Tap("Try again")
	e.Up(t)
	d.Until("the settings are there", func() bool { return p.state.Shown() == int(vm.Ready) })

	p.show(tabAccount)
	d.Until("the owner is there", func() bool { return p.owner.View().Owner != nil })
	e.Down()
	d.Until("no engine again", func() bool { return d.Env.Link.State().Phase == link.Absent })
	p.owner.Load()
	p.keys.Load()
	d.Until("both say so", func() bool { return p.owner.View().Err != nil && p.keys.View().Err != nil })
	d.Tap("Try again")
	e.Up(t)
	d.Until("all have what they asked for", func() bool {
		return p.owner.View().Err == nil && p.keys.View().Err == nil && p.state.Shown() == int(vm.Ready)
	})
}

func TestWithoutAnEngineTheWindowsOwnSettingsWork(t *testing.T) {
	uitest.App(t, "dark")
	d, p := open(t, nil, "en")
	d.Until("the page says so", func() bool { return p.state.Shown() == int(vm.Absent) })
	p.show(tabWindow)
	var notify *kit.Toggle
	for _, x := range toggles(p.frame) {
		notify = x // the last one
	}
	test.Tap(notify)
	if d.Env.Prefs.Get().Notify {
		t.Error("notifications are on still")
	}
}

func TestHoursByMouseAndKeyboard(t *testing.T) {
	uitest.App(t, "dark")
	var got [7]uint32
	told := 0
	g := newGrid([7]string{"a", "b", "c", "d", "e", "f", "g"}, func(h [7]uint32) { got, told = h, told+1 })
	w := uitest.Window(t, g, gridLeft+24*20, gridTop+7*gridRow)
	at := func(day, hour int) fyne.Position {
		return fyne.NewPos(gridLeft+float32(hour)*20+5, gridTop+float32(day)*gridRow+5)
	}
	test.TapCanvas(w.Canvas(), at(2, 5))
	if got != [7]uint32{2: 1 << 5} || told != 1 {
		t.Errorf("a click: %v, told %d times", got, told)
	}
	test.TapCanvas(w.Canvas(), at(2, 5))
	if got != [7]uint32{} {
		t.Errorf("another click: %v", got)
	}
	test.Drag(w.Canvas(), at(0, 1), 0, 2*gridRow)
	if told != 3 {
		t.Errorf("told %d times, want once for all that was drawn", told)
	}
	g.set([7]uint32{})
	w.Canvas().Focus(g)
	g.day, g.hour = 6, 22
	for _, k := range []fyne.KeyName{fyne.KeyRight, fyne.KeyRight, fyne.KeyDown, fyne.KeySpace} {
		g.TypedKey(&fyne.KeyEvent{Name: k})
	}
	if got != [7]uint32{6: 1 << 23} {
		t.Errorf("the keyboard: %v", got)
	}
	test.TapCanvas(w.Canvas(), fyne.NewPos(3, 3)) // the labels are no hours
	if told != 4 {
		t.Errorf("told %d times", told)
	}
}

func TestKeysAreShownOnce(t *testing.T) {
	uitest.App(t, "dark")
	e := enginetest.Start(t)
	d, p := open(t, e, "en")
	p.show(tabAccount)
	p.keys.Create("laptop", accounts.Limits{BudgetDay: 5e6})
	d.Until("the secret is shown", func() bool { return p.apiKeys.secret != nil })
	d.Picture("settings-key")
	p.apiKeys.secret.Close()
	d.Until("it is forgotten", func() bool { return p.keys.View().New == nil && len(p.keys.View().Keys) == 1 })
	p.keys.Revoke("nk-laptop")
	d.Until("it is gone", func() bool { return len(p.keys.View().Keys) == 0 })
}

func TestPairingGoesBothWays(t *testing.T) {
	uitest.App(t, "dark")
	e := enginetest.Start(t)
	d, p := open(t, e, "en")
	p.show(tabAccount)
	p.account.pair()
	d.Until("the code is shown", func() bool { return p.account.pairing.code.Text() == "KEL-742-PAM" })
	e.With(func(s *enginetest.State) { s.Pairing.Offer = &localapi.Offer{Node: "abcdefgh", Host: "my laptop"} })
	d.Until("the computer came", func() bool { return !p.account.pairing.confirm.Disabled() })
	d.Picture("settings-pair")
	test.Tap(p.account.pairing.confirm)
	d.Until("it is confirmed", func() bool { return e.Told("ConfirmPairing") && p.owner.View().Paired })
	p.account.pairing.dialog.Close()

	p.account.join()
	j := p.account.joining
	j.entry.SetText("wrong")
	j.press()
	d.Until("the code is refused", func() bool { return p.owner.View().Err != nil && !p.owner.View().Busy })
	j.entry.SetText("KEL-742-PAM")
	j.press()
	d.Until("the owner is shown", func() bool { return p.owner.View().Found == "o-otherowner" && j.act.Label() == "Join" })
	j.press()
	d.Until("it has joined", func() bool { return e.Told("Join") })
	d.Until("leaving is offered", func() bool { return p.account.leave.Visible() || p.owner.View().Owner.Own == "" })
}

func TestPictures(t *testing.T) {
	for _, mode := range uitest.Themes {
		for _, language := range []string{"en", "de"} {
			uitest.App(t, mode)
			e := enginetest.Start(t)
			e.With(func(s *enginetest.State) {
				s.Settings.Share, s.Settings.Schedule.On = true, true
				for i := range s.Settings.Schedule.Hours {
					s.Settings.Schedule.Hours[i] = 0xc0007f
				}
				s.Owner = localapi.OwnerState{Status: "bound", Own: "o-q7xk2mbeuv4zq1htr5pw", Wanted: "o-q7xk2mbeuv4zq1htr5pw"}
				s.Keys = []accounts.Key{{ID: "nk-4f2a", Name: "Editor", Created: enginetest.Now, Today: accounts.Money{Micros: 120000}, Total: accounts.Money{Micros: 5120000}, Limits: accounts.Limits{BudgetDay: 1e6}}}
			})
			d, p := open(t, e, language)
			for i, name := range []string{"sharing", "limits", "network", "account", "window"} {
				p.show(i)
				d.Until("the keys are there", func() bool {
					return i != tabAccount || uitest.Says(d.Window, "Editor") && p.owner.View().Owner != nil && !p.owner.View().Busy
				})
				d.Window.Resize(fyne.NewSize(980, 1180))
				d.Picture("settings-" + name + "-" + language + "-" + string(mode))
				if language == "en" {
					uitest.Master(t, d.Window, mode, "settings-"+name)
				}
			}
			if len(toggles(p.frame)) == 0 {
				t.Error("the last tab has no switches")
			}
		}
	}
}
