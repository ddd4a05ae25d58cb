// Package agent is the tray's behaviour: it follows the engine, keeps the menu
// up to date, carries out what is clicked, and ends everything in order.
//
// tray (main) makes one from its parts. It knows the menu and what it is shown
// on (tray/icon), the engine's client through link, and the sister programs
// through interfaces of its own.
package agent

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
	"neuron/internal/desktop/instance"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/prefs"
	"neuron/internal/desktop/words"
	"neuron/tray/icon"
	"neuron/tray/menu"
	"neuron/tray/panel"
)

// Programs are the other programs; *launch.Programs is it.
type Programs interface {
	Window(ctx context.Context) error
	EndWindow(ctx context.Context) error
	StopEngine(ctx context.Context) error
}

// Notifier shows notifications; *notify.Notifier is it.
type Notifier interface {
	Show(ctx context.Context, kind, title, text string) (bool, error)
}

// Options are the parts of an Agent.
type Options struct {
	Link     *link.Link
	Prefs    *prefs.Store
	Programs Programs
	Notifier Notifier
	// Heard are the words of other launches.
	Heard  <-chan string
	Opened <-chan struct{} // the menu was opened; nil: never told
	Hidden bool            // started at login: nothing but the icon
	// PanelTime is how long a panel may take to come up after a login [15 s].
	PanelTime time.Duration
	Logger    *slog.Logger
}

// Times of an Agent.
const (
	// settingsEvery is how often settings and preferences are read anew while
	// something changes; they have no events of their own.
	settingsEvery = 10 * time.Second
	// orderTime bounds an order to the engine.
	orderTime = 10 * time.Second
	// windowTime and engineTime bound the end: the engine gives its running
	// sessions up to a minute.
	windowTime = 10 * time.Second
	engineTime = 75 * time.Second
)

// Agent is the behaviour. Run is its goroutine; it also owns those that carry
// out orders, and waits for them.
type Agent struct {
	o      Options
	boards chan *icon.Board
	sights chan panel.Sight

	// Of Run's goroutine alone.
	words    *words.Words
	language string
	board    *icon.Board
	onlyAway *bool
	read     time.Time // when the settings were asked for last
	asked    protocol.SharingReason
	ending   bool
	again    bool            // a new tray is to follow
	troubles map[string]bool // told: kinds of trouble that are there

	answers chan func()   // what orders bring back, for Run's goroutine
	ended   chan struct{} // closed when Run returns
	wg      sync.WaitGroup
}

// New makes an Agent.
func New(o Options) *Agent {
	if o.PanelTime <= 0 {
		o.PanelTime = 15 * time.Second
	}
	a := &Agent{o: o, boards: make(chan *icon.Board, 1), sights: make(chan panel.Sight, 4), answers: make(chan func(), 8), ended: make(chan struct{}), troubles: map[string]bool{}}
	a.speak()
	return a
}

// speak takes the language of the preferences.
func (a *Agent) speak() {
	if l := a.o.Prefs.Get().Language; a.words == nil || l != a.language {
		a.language, a.words = l, words.New(l)
	}
}

// First is the view to begin with, before Run.
func (a *Agent) First() menu.View { return menu.Make(a.input(), a.words) }

// Attach gives the board that shows the menu; the Agent closes it. Call it once.
func (a *Agent) Attach(b *icon.Board) { a.boards <- b }

// Saw says what there is to show an icon on.
func (a *Agent) Saw(s panel.Sight) {
	select {
	case a.sights <- s:
	case <-a.ended:
	}
}

// input is what the menu is made of now.
func (a *Agent) input() menu.Input {
	return menu.Input{State: a.o.Link.State(), OnlyAway: a.onlyAway, Ending: a.ending, CanStart: true, Now: time.Now()}
}

// Run works until ctx ends or the user quits. It returns when all is over: the
// engine, if the user has quit, and the Agent's goroutines.
func (a *Agent) Run(ctx context.Context) {
	ctx, cancel := context.WithCancel(ctx)
	defer close(a.ended)
	defer a.wg.Wait()
	defer cancel()
	changed, stop := a.o.Link.Watch()
	defer stop()
	defer func() {
		if a.board != nil {
			a.board.Close()
		}
	}()
	if !a.o.Hidden {
		a.openWindow(ctx)
	}
	again := time.NewTimer(time.Hour)
	defer again.Stop()
	grace := time.NewTimer(a.o.PanelTime)
	defer grace.Stop()
	sight := panel.Sight("")
	over := make(chan struct{})
	for {
		var clicked <-chan menu.ID
		if a.board != nil {
			clicked = a.board.Clicked()
			if wait := a.board.Show(menu.Make(a.input(), a.words), time.Now()); wait > 0 {
				again.Reset(wait)
			}
		}
		select {
		case <-ctx.Done():
			return
		case <-over:
			return
		case <-again.C:
		case <-changed:
			a.follow(ctx)
		case <-a.o.Opened:
			a.read = time.Time{}
			a.follow(ctx)
		case f := <-a.answers:
			f()
		case b := <-a.boards:
			a.board = b
		case sight = <-a.sights:
			a.o.Logger.Info("panel", "sight", string(sight))
		case <-grace.C:
			if sight == panel.None || sight == panel.NoBus {
				a.noPanel(ctx)
			}
		case id := <-clicked:
			if id == menu.Quit {
				a.quit(ctx, over)
			} else {
				a.click(ctx, id)
			}
		case w := <-a.o.Heard:
			switch w {
			case instance.Show:
				a.openWindow(ctx)
			case instance.Quit:
				a.quit(ctx, over)
			case instance.Restart:
				a.again = a.again || !a.ending
				a.quit(ctx, over)
			case instance.Yield:
				if a.board == nil {
					a.o.Logger.Info("another tray takes over")
					return
				}
			}
		}
	}
}

// follow looks at the engine's new state.
func (a *Agent) follow(ctx context.Context) {
	s := a.o.Link.State()
	a.trouble(ctx, s)
	c := a.o.Link.Client()
	if c == nil {
		a.onlyAway, a.read = nil, time.Time{}
		return
	}
	reason := protocol.SharingReason("")
	if p := s.Event.Status.Policy; p != nil {
		reason = p.Reason
	}
	if time.Since(a.read) < settingsEvery && reason == a.asked {
		return
	}
	a.read, a.asked = time.Now(), reason
	a.do(ctx, func(ctx context.Context) func() {
		settings, err := c.Settings(ctx)
		_ = a.o.Prefs.Reload() // what cannot be read stays as it was
		return func() {
			a.speak()
			if err == nil {
				a.onlyAway = &settings.Rules.OnlyIdle
			}
		}
	})
}

// do carries something out beside Run's goroutine, and what it returns, if
// anything, in it.
func (a *Agent) do(ctx context.Context, f func(context.Context) func()) {
	a.wg.Go(func() {
		limited, cancel := context.WithTimeout(ctx, orderTime)
		after := f(limited)
		cancel()
		if after == nil {
			return
		}
		select {
		case a.answers <- after:
		case <-ctx.Done():
		}
	})
}

// click carries out what is not quitting.
func (a *Agent) click(ctx context.Context, id menu.ID) {
	if a.ending {
		return
	}
	state := a.o.Link.State()
	switch id {
	case menu.Open:
		a.openWindow(ctx)
	case menu.Start:
		a.o.Link.Retry()
	case menu.Share:
		on := !state.Event.Status.Sharing
		a.order(ctx, func(ctx context.Context, c *localapi.Client) error { return c.Share(ctx, on) })
	case menu.Resume:
		a.order(ctx, func(ctx context.Context, c *localapi.Client) error { return c.Resume(ctx) })
	case menu.OnlyAway:
		a.order(ctx, func(ctx context.Context, c *localapi.Client) error {
			err := a.setOnlyAway(ctx, c)
			if protocol.AsError(err) != nil && protocol.AsError(err).Code == protocol.CodeConflict {
				err = a.setOnlyAway(ctx, c) // the window was faster
			}
			return err
		})
	default:
		if p, ok := pauses[id]; ok {
			a.order(ctx, func(ctx context.Context, c *localapi.Client) error { return c.Pause(ctx, p) })
		}
	}
}

var pauses = map[menu.ID]localapi.PauseOrder{
	menu.Pause30:      {Seconds: 30 * 60},
	menu.Pause60:      {Seconds: 60 * 60},
	menu.Pause180:     {Seconds: 180 * 60},
	menu.PauseDay:     {Tomorrow: true},
	menu.PauseForever: {UntilResumed: true},
}

// setOnlyAway turns the setting round.
func (a *Agent) setOnlyAway(ctx context.Context, c *localapi.Client) error {
	var s policy.Settings
	s, err := c.Settings(ctx)
	if err != nil {
		return err
	}
	s.Rules.OnlyIdle = !s.Rules.OnlyIdle
	_, err = c.SetSettings(ctx, s)
	return err
}

// order gives the engine an order, and tells when it fails.
func (a *Agent) order(ctx context.Context, f func(context.Context, *localapi.Client) error) {
	c := a.o.Link.Client()
	if c == nil {
		return // the items are grey in a moment
	}
	a.do(ctx, func(limited context.Context) func() {
		err := f(limited, c)
		return func() {
			if err != nil {
				a.failed(ctx, err)
			}
			a.read = time.Time{}
			a.follow(ctx)
		}
	})
}

// openWindow brings the window to the front.
func (a *Agent) openWindow(ctx context.Context) {
	if a.ending {
		return
	}
	a.do(ctx, func(limited context.Context) func() {
		if err := a.o.Programs.Window(limited); err != nil {
			return func() { a.failed(ctx, err) }
		}
		return nil
	})
}

// Again says, after Run, that a new tray is to take this one's place: the
// programs' files were replaced.
func (a *Agent) Again() bool { return a.again }

// quit ends window, engine and tray, in this order; a second wish changes
// nothing. The menu says what goes on meanwhile.
func (a *Agent) quit(ctx context.Context, over chan<- struct{}) {
	if a.ending {
		return
	}
	a.ending = true
	a.wg.Go(func() {
		defer close(over)
		end := func(what string, limit time.Duration, f func(context.Context) error) {
			limited, cancel := context.WithTimeout(ctx, limit)
			defer cancel()
			if err := f(limited); err != nil {
				a.o.Logger.Warn("a program did not end in order", "program", what, "error", err)
			}
		}
		end("window", windowTime, a.o.Programs.EndWindow)
		end("engine", engineTime, a.o.Programs.StopEngine)
	})
}
