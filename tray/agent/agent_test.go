package agent

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/assets/icons"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/instance"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/prefs"
	"neuron/tray/icon"
	"neuron/tray/menu"
	"neuron/tray/panel"
	"neuron/tray/traytest"
)

// screen is a tray that is looked at: what it shows now.
type screen struct {
	mu      sync.Mutex
	changed chan struct{} // closed and replaced by each change; guarded by mu
	icon    icons.State   // guarded by mu
	items   map[menu.ID]*menu.Item
	clicks  map[menu.ID]chan struct{}
}

func newScreen() *screen {
	return &screen{changed: make(chan struct{}), items: map[menu.ID]*menu.Item{}, clicks: map[menu.ID]chan struct{}{}}
}

func (s *screen) change(f func()) {
	s.mu.Lock()
	defer s.mu.Unlock()
	f()
	close(s.changed)
	s.changed = make(chan struct{})
}

func (s *screen) SetIcon(i icons.State) { s.change(func() { s.icon = i }) }
func (s *screen) SetTooltip(string)     {}
func (s *screen) AddLine()              {}
func (s *screen) Add(_ icon.Item, i menu.Item) (icon.Item, <-chan struct{}) {
	c := make(chan struct{})
	s.change(func() { s.items[i.ID], s.clicks[i.ID] = &i, c })
	return item{s, i.ID}, c
}

type item struct {
	s  *screen
	id menu.ID
}

func (i item) SetTitle(t string)  { i.s.change(func() { i.s.items[i.id].Title = t }) }
func (i item) SetChecked(on bool) { i.s.change(func() { i.s.items[i.id].Checked = on }) }
func (i item) SetEnabled(on bool) { i.s.change(func() { i.s.items[i.id].Enabled = on }) }
func (i item) SetVisible(on bool) { i.s.change(func() { i.s.items[i.id].Visible = on }) }

// until waits until the item looks so.
func (s *screen) until(t *testing.T, id menu.ID, what string, ok func(menu.Item) bool) {
	t.Helper()
	limit := time.After(20 * time.Second)
	for {
		s.mu.Lock()
		now, next := *s.items[id], s.changed
		s.mu.Unlock()
		if ok(now) {
			return
		}
		select {
		case <-next:
		case <-limit:
			t.Fatalf("never came: %s; %s is %+v", what, id, now)
		}
	}
}

func (s *screen) says(t *testing.T, text string) {
	t.Helper()
	s.until(t, menu.Sentence, text, func(i menu.Item) bool { return i.Title == text })
}

// world is an agent with everything around it.
type world struct {
	t      *testing.T
	data   string
	engine *traytest.Engine
	server *localapi.Server
	link   *link.Link
	screen *screen
	heard  chan string
	agent  *Agent
	done   chan struct{}

	mu    sync.Mutex
	calls []string      // of programs and notifications; guarded by mu
	told  chan struct{} // closed and replaced by each call; guarded by mu
	stop  func(ctx context.Context) error
}

func (w *world) note(s string) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.calls = append(w.calls, s)
	close(w.told)
	w.told = make(chan struct{})
}

func (w *world) until(call string) {
	w.t.Helper()
	limit := time.After(20 * time.Second)
	for {
		w.mu.Lock()
		there, next, calls := slices.Contains(w.calls, call), w.told, slices.Clone(w.calls)
		w.mu.Unlock()
		if there {
			return
		}
		select {
		case <-next:
		case <-limit:
			w.t.Fatalf("%q never came; only %q", call, calls)
		}
	}
}

func (w *world) count(call string) int {
	w.mu.Lock()
	defer w.mu.Unlock()
	n := 0
	for _, c := range w.calls {
		if c == call {
			n++
		}
	}
	return n
}

func (w *world) Window(context.Context) error    { w.note("window"); return nil }
func (w *world) EndWindow(context.Context) error { w.note("end window"); return nil }
func (w *world) StopEngine(ctx context.Context) error {
	w.note("stop engine")
	return w.stop(ctx)
}

func (w *world) Show(_ context.Context, kind, title, _ string) (bool, error) {
	w.note("notify " + kind + ": " + title)
	return true, nil
}

func start(t *testing.T, hidden bool) *world {
	t.Helper()
	w := &world{t: t, data: t.TempDir(), engine: traytest.NewEngine(), screen: newScreen(), heard: make(chan string), done: make(chan struct{}), told: make(chan struct{})}
	w.stop = func(context.Context) error { return nil }
	p, err := prefs.Open(w.data)
	if err != nil {
		t.Fatal(err)
	}
	if err := p.Update(func(p *prefs.Prefs) { p.Language = "en" }); err != nil {
		t.Fatal(err)
	}
	w.serve()
	w.link = link.New(link.Options{Data: w.data})
	w.agent = New(Options{Link: w.link, Prefs: p, Programs: w, Notifier: w, Heard: w.heard, Hidden: hidden, PanelTime: 200 * time.Millisecond, Logger: slog.New(slog.DiscardHandler)})
	ctx, cancel := context.WithCancel(context.Background())
	linked := make(chan struct{})
	go func() { defer close(linked); w.link.Run(ctx) }()
	go func() { defer close(w.done); w.agent.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-w.done
		<-linked
		w.server.Close(context.Background())
	})
	return w
}

func (w *world) serve() {
	w.t.Helper()
	var err error
	if w.server, err = w.engine.Serve(w.data); err != nil {
		w.t.Fatal(err)
	}
}

// attach shows the menu.
func (w *world) attach() {
	w.agent.Attach(icon.NewBoard(w.screen, w.agent.First(), time.Now()))
	w.screen.says(w.t, "Sharing this computer.")
}

func (w *world) click(id menu.ID) {
	w.t.Helper()
	select {
	case w.screen.clicks[id] <- struct{}{}:
	case <-time.After(10 * time.Second):
		w.t.Fatalf("nobody takes the click on %s", id)
	}
}

func (w *world) order(want string) {
	w.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	if !w.engine.Await(ctx, want) {
		w.t.Fatalf("the order %q never came; only %q", want, w.engine.Orders())
	}
}

func TestClicksBecomeOrders(t *testing.T) {
	t.Parallel()
	w := start(t, true)
	w.attach()
	for id, want := range map[menu.ID]string{
		menu.Pause30: "pause {Seconds:1800 Tomorrow:false UntilResumed:false}", menu.Pause60: "pause {Seconds:3600 Tomorrow:false UntilResumed:false}",
		menu.Pause180: "pause {Seconds:10800 Tomorrow:false UntilResumed:false}", menu.PauseDay: "pause {Seconds:0 Tomorrow:true UntilResumed:false}",
		menu.PauseForever: "pause {Seconds:0 Tomorrow:false UntilResumed:true}",
	} {
		w.click(id)
		w.order(want)
		w.screen.until(t, menu.Resume, "paused", func(i menu.Item) bool { return i.Visible })
		w.click(menu.Resume)
		w.screen.says(t, "Sharing this computer.")
	}
	w.screen.until(t, menu.OnlyAway, "the setting is known", func(i menu.Item) bool { return i.Enabled && !i.Checked })
	w.click(menu.OnlyAway)
	w.order("only away true")
	w.screen.until(t, menu.OnlyAway, "checked", func(i menu.Item) bool { return i.Checked })
	w.click(menu.OnlyAway)
	w.order("only away false")
	w.click(menu.Share)
	w.order("share false")
	w.screen.says(t, "Sharing is turned off.")
	w.screen.until(t, menu.Share, "unchecked", func(i menu.Item) bool { return !i.Checked })
	w.click(menu.Share)
	w.order("share true")
	w.click(menu.Open)
	w.until("window")
}

func TestOrderThatFailsIsTold(t *testing.T) {
	t.Parallel()
	w := start(t, true)
	w.attach()
	w.engine.Fail(protocol.Errorf(protocol.CodeDiskFull, "no room"))
	w.click(menu.Pause60)
	w.until("notify orderdisk_full: That did not work")
}

// The window changes settings too: a conflict is tried once more, and both
// changes hold.
func TestSettingChangedElsewhere(t *testing.T) {
	t.Parallel()
	w := start(t, true)
	w.attach()
	w.screen.until(t, menu.OnlyAway, "the setting is known", func(i menu.Item) bool { return i.Enabled })
	w.engine.Fail(protocol.Errorf(protocol.CodeConflict, "another revision"))
	w.click(menu.OnlyAway)
	w.screen.until(t, menu.OnlyAway, "checked all the same", func(i menu.Item) bool { return i.Checked })
	if w.count("notify orderconflict: That did not work") != 0 {
		t.Error("the user hears of it")
	}
}

func TestEngineGoesAndComes(t *testing.T) {
	t.Parallel()
	w := start(t, true)
	w.attach()
	if err := w.server.Close(t.Context()); err != nil {
		t.Fatal(err)
	}
	w.screen.says(t, "The engine is not running.")
	w.screen.until(t, menu.Start, "the way to start it", func(i menu.Item) bool { return i.Visible })
	w.screen.until(t, menu.Share, "grey", func(i menu.Item) bool { return !i.Enabled })
	w.click(menu.Share) // some panels send clicks on what is grey
	w.serve()
	w.screen.says(t, "Sharing this computer.")
	w.screen.until(t, menu.Start, "hidden again", func(i menu.Item) bool { return !i.Visible })
	if o := w.engine.Orders(); len(o) != 0 {
		t.Errorf("orders %q", o)
	}
}

func TestQuitEndsInOrder(t *testing.T) {
	t.Parallel()
	w := start(t, false)
	w.until("window") // not hidden: it shows at once
	release := make(chan struct{})
	w.stop = func(ctx context.Context) error {
		<-release
		return nil
	}
	w.attach()
	w.click(menu.Quit)
	w.screen.says(t, "Finishing running work, then quitting.")
	w.until("stop engine")
	w.screen.until(t, menu.Quit, "grey", func(i menu.Item) bool { return !i.Enabled })
	// A second wish, and others, change nothing.
	w.heard <- instance.Quit
	w.heard <- instance.Show
	select {
	case <-w.done:
		t.Fatal("ended before the engine")
	default:
	}
	close(release)
	<-w.done
	w.mu.Lock()
	defer w.mu.Unlock()
	if got := strings.Join(w.calls, ", "); got != "window, end window, stop engine" {
		t.Error(got)
	}
}

func TestWordsOfOtherLaunches(t *testing.T) {
	t.Parallel()
	w := start(t, true)
	w.attach()
	w.heard <- instance.Show
	w.until("window")
	w.heard <- instance.Yield // it can be seen: it stays
	w.heard <- instance.Show
	w.heard <- instance.Quit
	<-w.done
}

// A tray without an icon, of a session that is over perhaps, makes room.
func TestTrayWithoutIconYields(t *testing.T) {
	t.Parallel()
	w := start(t, true)
	w.heard <- instance.Yield
	<-w.done
	if w.count("stop engine") != 0 {
		t.Error("the engine was stopped")
	}
}

func TestTroubleIsToldOnce(t *testing.T) {
	t.Parallel()
	w := start(t, true)
	w.attach()
	sick := func(s *localapi.Status) {
		s.Health = []localapi.HealthEntry{{Code: protocol.CodeDiskFull, Severity: localapi.SeverityError, Text: "x"}, {Code: protocol.CodeTimeout, Severity: localapi.SeverityWarning}}
	}
	w.engine.Set(sick)
	w.until("notify healthdisk_full: Neuron needs a look")
	for i := range 5 {
		w.engine.Set(func(s *localapi.Status) { s.Gateway = fmt.Sprint(i) })
	}
	w.engine.Set(func(s *localapi.Status) {
		s.Policy = &localapi.Sharing{State: protocol.SharingPaused, Reason: protocol.SharingBattery}
	})
	w.screen.says(t, "Paused: running on battery.")
	if n := w.count("notify healthdisk_full: Neuron needs a look"); n != 1 {
		t.Errorf("told %d times", n)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	for _, c := range w.calls {
		if strings.Contains(c, "timeout") {
			t.Errorf("a warning is told: %s", c)
		}
	}
}

func TestLanguageFollowsThePreferences(t *testing.T) {
	t.Parallel()
	w := start(t, true)
	w.attach()
	window, err := prefs.Open(w.data)
	if err != nil {
		t.Fatal(err)
	}
	if err := window.Update(func(p *prefs.Prefs) { p.Language = "de" }); err != nil {
		t.Fatal(err)
	}
	w.click(menu.Pause60)
	w.screen.until(t, menu.Quit, "German", func(i menu.Item) bool { return i.Title == "Neuron beenden" })
}

func TestDesktopWithoutPanel(t *testing.T) {
	t.Parallel()
	w := start(t, true)
	w.agent.Saw(panel.None)
	w.until("notify panel: Neuron runs without an icon")
	w.until("window")
	p, err := prefs.Open(w.data)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Get().Asked["no_panel"] {
		t.Error("it would be told again")
	}
}
