package shell

import (
	"context"
	"slices"
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/test"

	"neuron/app/enginetest"
	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	"neuron/app/ui/uitest"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/prefs"
	"neuron/internal/desktop/words"
)

// sheet is a page of a test that notes what happens to it.
type sheet struct {
	name    string
	icon    theme.Icon
	content fyne.CanvasObject
	log     []string
}

func (s *sheet) Name() string        { return s.name }
func (s *sheet) Title() string       { return "The " + s.name }
func (s *sheet) Icon() fyne.Resource { return s.icon.Resource(theme.Muted) }
func (s *sheet) Show()               { s.log = append(s.log, "show") }
func (s *sheet) Hide()               { s.log = append(s.log, "hide") }
func (s *sheet) Close()              { s.log = append(s.log, "close") }
func (s *sheet) Content() fyne.CanvasObject {
	if s.content == nil {
		s.content = kit.NewPage(s.Title(), "What is on it.", kit.Card(kit.Sentence("Something.")))
	}
	return s.content
}

type fixture struct {
	*uitest.Desk
	shell  *Shell
	sheets []*sheet
	wizard *sheet
	done   func()
	ended  []string
}

func start(t *testing.T, e *enginetest.Engine, language string) *fixture {
	t.Helper()
	f := &fixture{Desk: uitest.New(t, e, language), wizard: &sheet{name: "wizard", icon: theme.IconNeuron}}
	var pages []page.Page
	for name, icon := range map[string]theme.Icon{"share": theme.IconShare, "chat": theme.IconChat, "settings": theme.IconSettings} {
		f.sheets = append(f.sheets, &sheet{name: name, icon: icon})
	}
	slices.SortFunc(f.sheets, func(a, b *sheet) int { return len(a.name)*10 + int(b.name[0]) - len(b.name)*10 - int(a.name[0]) })
	for _, s := range f.sheets {
		pages = append(pages, s)
	}
	f.shell = New(Options{
		Env: f.Env, Pages: pages, First: f.Env.Prefs.Get().LastPage,
		Wizard: func(done func()) page.Page { f.done = done; return f.wizard },
		Leave:  func() { f.ended = append(f.ended, "leave") }, Quit: func() { f.ended = append(f.ended, "quit") },
	})
	f.Set(f.shell.Content(), 1000, 640)
	f.shell.Show()
	t.Cleanup(f.shell.Close)
	return f
}

func (f *fixture) sheet(name string) *sheet {
	return f.sheets[slices.IndexFunc(f.sheets, func(s *sheet) bool { return s.name == name })]
}

func press(c fyne.Canvas, key fyne.KeyName) {
	c.(interface{ TypedShortcut(fyne.Shortcut) }).TypedShortcut(&desktop.CustomShortcut{KeyName: key, Modifier: fyne.KeyModifierShortcutDefault})
}

func TestPagesAreShownOneAtATime(t *testing.T) {
	uitest.App(t, "dark")
	f := start(t, enginetest.Start(t), "en")
	first := f.shell.Page().(*sheet)
	other := f.sheet("settings")
	if first == other {
		other = f.sheet("chat")
	}
	f.shell.Open(other.name)
	f.shell.Open(other.name) // again
	f.shell.Open("nothing")
	if !slices.Equal(first.log, []string{"show", "hide"}) || !slices.Equal(other.log, []string{"show"}) {
		t.Errorf("%v, %v", first.log, other.log)
	}
	if first.content.Visible() || !other.content.Visible() {
		t.Error("two pages are visible, or none")
	}
	f.shell.Hide()
	f.shell.Show()
	if !slices.Equal(other.log, []string{"show", "hide", "show"}) || len(first.log) != 2 {
		t.Errorf("%v, %v", first.log, other.log)
	}
	f.Until("it is remembered", func() bool { return f.Env.Prefs.Get().LastPage == other.name })
	f.shell.Close()
	if other.log[len(other.log)-1] != "close" || first.log[len(first.log)-1] != "close" {
		t.Errorf("%v, %v", first.log, other.log)
	}
}

func TestKeyboardOpensPages(t *testing.T) {
	uitest.App(t, "dark")
	f := start(t, enginetest.Start(t), "en")
	c := f.Window.Canvas()
	press(c, fyne.Key3)
	if f.shell.Page().Name() != f.sheets[2].name {
		t.Errorf("Ctrl+3 opens %s", f.shell.Page().Name())
	}
	press(c, fyne.KeyComma)
	if f.shell.Page().Name() != "settings" {
		t.Errorf("Ctrl+, opens %s", f.shell.Page().Name())
	}
	// Tab reaches the first entry, the arrow keys the others.
	c.FocusNext()
	c.Focused().TypedKey(&fyne.KeyEvent{Name: fyne.KeyReturn})
	if f.shell.Page().Name() != f.sheets[0].name {
		t.Errorf("Tab and Return open %s", f.shell.Page().Name())
	}
	c.Focused().TypedKey(&fyne.KeyEvent{Name: fyne.KeyDown})
	if f.shell.Page().Name() != f.sheets[1].name || c.Focused() != fyne.Focusable(f.shell.rail.items[1]) {
		t.Errorf("Down opens %s", f.shell.Page().Name())
	}
	c.Unfocus()
	c.OnTypedKey()(&fyne.KeyEvent{Name: fyne.KeyF1})
	if c.Overlays().Top() == nil {
		t.Fatal("F1 shows no list")
	}
	f.Picture("shell-shortcuts")
	press(c, fyne.Key1) // a question is answered first
	if f.shell.Page().Name() != f.sheets[1].name {
		t.Error("a page was opened behind the list")
	}
	c.OnTypedKey()(&fyne.KeyEvent{Name: fyne.KeyEscape})
	if c.Overlays().Top() != nil {
		t.Error("Escape does not close the list")
	}
}

func TestTheEngineGoesAndComesBack(t *testing.T) {
	uitest.App(t, "dark")
	e := enginetest.Start(t)
	f := start(t, e, "en")
	f.Until("it shares", func() bool { return f.shell.rail.foot.word.Text() == "Sharing" })
	if f.shell.banner.box.Visible() {
		t.Error("there is a banner while all is well")
	}
	e.Down()
	f.Until("the banner says so", func() bool { return f.shell.banner.box.Visible() })
	f.Picture("shell-lost")
	e.Up(t)
	f.Until("the banner has gone", func() bool { return !f.shell.banner.box.Visible() && f.shell.rail.foot.word.Text() == "Sharing" })
}

func TestFirstRun(t *testing.T) {
	uitest.App(t, "dark")
	e := enginetest.Start(t)
	e.With(func(s *enginetest.State) { s.Settings = policy.Defaults() })
	f := start(t, e, "en")
	f.Until("the questions are asked", func() bool { return slices.Equal(f.wizard.log, []string{"show"}) })
	first := f.shell.Page().(*sheet)
	if first.log[len(first.log)-1] != "hide" {
		t.Errorf("the page goes on behind the questions: %v", first.log)
	}
	f.done()
	if !slices.Equal(f.wizard.log, []string{"show", "hide", "close"}) || f.shell.Page().Name() != "share" || f.sheet("share").log[len(f.sheet("share").log)-1] != "show" {
		t.Errorf("%v, then %s", f.wizard.log, f.shell.Page().Name())
	}
}

func TestClosingAsksOnce(t *testing.T) {
	uitest.App(t, "dark")
	f := start(t, enginetest.Start(t), "en")
	f.shell.RequestClose()
	if len(f.ended) != 0 || f.Window.Canvas().Overlays().Top() == nil {
		t.Fatal("nothing is asked")
	}
	f.Picture("shell-close")
	kit.Escape(f.Window.Canvas())
	if len(f.ended) != 0 || f.Env.Prefs.Get().Asked[askedClose] {
		t.Error("Escape is an answer")
	}
	f.shell.RequestClose()
	f.Window.Canvas().Focused().TypedKey(&fyne.KeyEvent{Name: fyne.KeyReturn})
	f.shell.RequestClose()
	if !slices.Equal(f.ended, []string{"leave", "leave"}) {
		t.Errorf("%v", f.ended)
	}
	if err := f.Env.Prefs.Update(func(p *prefs.Prefs) { p.HideOnClose = false }); err != nil {
		t.Fatal(err)
	}
	press(f.Window.Canvas(), fyne.KeyW)
	if f.ended[len(f.ended)-1] != "quit" {
		t.Errorf("%v", f.ended)
	}
}

// worker is a page with work under way until it is left.
type worker struct {
	sheet
	left chan struct{}
}

func (w *worker) Finish(ctx context.Context) {
	select {
	case <-w.left:
	case <-ctx.Done():
	}
}

func TestFinishWaitsForPagesThatWork(t *testing.T) {
	t.Parallel()
	w := &worker{left: make(chan struct{})}
	s := &Shell{pages: []page.Page{&sheet{}, w}}
	ctx, cancel := context.WithCancel(t.Context())
	finished := make(chan struct{})
	go func() {
		defer close(finished)
		s.Finish(ctx)
	}()
	select {
	case <-finished:
		t.Error("it did not wait")
	case <-time.After(20 * time.Millisecond): // nothing happens
	}
	cancel()
	<-finished
	close(w.left)
	s.Finish(t.Context())
}

func TestBannerSays(t *testing.T) {
	t.Parallel()
	w := words.New("en")
	now := time.Now()
	failed := protocol.Errorf(protocol.CodeDiskFull, "no room")
	for name, c := range map[string]struct {
		state  link.State
		text   string
		button string
	}{
		"connected":           {link.State{Phase: link.Connected}, "", ""},
		"just starting":       {link.State{Phase: link.Starting, Since: now.Add(-time.Second)}, "", ""},
		"long starting":       {link.State{Phase: link.Starting, Since: now.Add(-time.Minute)}, "The engine is starting.", ""},
		"just lost":           {link.State{Phase: link.Lost, Since: now}, "", ""},
		"lost":                {link.State{Phase: link.Lost, Since: now.Add(-time.Minute)}, "The engine has stopped and is being started again.", "Try again"},
		"absent":              {link.State{Phase: link.Absent, Since: now}, "The engine is not running.", "Start"},
		"does not stay alive": {link.State{Phase: link.Absent, Since: now, Err: failed}, "The engine does not stay up.", "Try again"},
	} {
		if text, _, button := bannerOf(c.state, w, now, false); text != c.text || button != c.button {
			t.Errorf("%s: %q, %q", name, text, button)
		}
	}
	// After Try again the banner went away for as long as an engine needs.
	if text, _, _ := bannerOf(link.State{Phase: link.Starting, Since: now}, w, now, true); text != "The engine is starting." {
		t.Errorf("asked for: %q", text)
	}
	if text, _, _ := bannerOf(link.State{Phase: link.Connected}, w, now, true); text != "" {
		t.Errorf("there: %q", text)
	}
}

func TestFootSays(t *testing.T) {
	t.Parallel()
	w := words.New("en")
	say := func(s *localapi.Sharing) string { return w.Reason(s.Reason, s.Until, time.Now()) }
	state := func(p localapi.Sharing, sessions int) link.State {
		s := link.State{Phase: link.Connected}
		s.Event.Status.Policy = &p
		s.Event.Status.Work = &localapi.Work{Sessions: sessions}
		return s
	}
	for want, s := range map[line]link.State{
		{theme.IconShare, kit.Good, "Sharing", "Sharing this computer."}:                state(localapi.Sharing{State: protocol.SharingOn}, 0),
		{theme.IconShare, kit.Good, "Sharing", "2 conversations run through it."}:       state(localapi.Sharing{State: protocol.SharingOn}, 2),
		{theme.IconPause, kit.Plain, "Paused", "Paused: running on battery."}:           state(localapi.Sharing{State: protocol.SharingPaused, Reason: protocol.SharingBattery}, 0),
		{theme.IconWarn, kit.Warn, "Needs attention", "The network cannot be reached."}: state(localapi.Sharing{State: protocol.SharingPaused, Reason: protocol.SharingNoTracker}, 0),
		{theme.IconDot, kit.Subtle, "Not sharing", "Sharing is turned off."}:            state(localapi.Sharing{State: protocol.SharingOff, Reason: protocol.SharingUserOff}, 0),
		{theme.IconWarn, kit.Warn, "Not running", "The engine is not running."}:         {Phase: link.Absent},
		{theme.IconRefresh, kit.Subtle, "Starting", "The engine is starting."}:          {Phase: link.Starting},
	} {
		if got := lineOf(s, w, say); got != want {
			t.Errorf("%v, want %v", got, want)
		}
	}
}

func TestPictures(t *testing.T) {
	for _, mode := range uitest.Themes {
		uitest.App(t, mode)
		e := enginetest.Start(t)
		e.With(func(s *enginetest.State) { s.Status.Work.Sessions = 3 })
		f := start(t, e, "en")
		f.Until("it shares", func() bool { return f.shell.rail.foot.word.Text() == "Sharing" })
		f.Picture("shell-" + string(mode))
		uitest.Master(t, f.Window, mode, "shell")
		f.Window.Resize(fyne.NewSize(600, 640))
		f.Picture("shell-narrow-" + string(mode))
	}
}

// Opening a page is what a click on the rail costs, without drawing it.
func BenchmarkOpen(b *testing.B) {
	a := test.NewTempApp(b)
	a.Settings().SetTheme(theme.New(theme.Dark))
	d := uitest.New(b, nil, "en")
	var pages []page.Page
	for _, n := range []string{"a", "b"} {
		pages = append(pages, &sheet{name: n, icon: theme.IconShare})
	}
	s := New(Options{Env: d.Env, Pages: pages})
	d.Set(s.Content(), 1000, 640)
	s.Show()
	b.Cleanup(s.Close)
	for i := 0; b.Loop(); i++ {
		s.Open([]string{"a", "b"}[i%2])
	}
}
