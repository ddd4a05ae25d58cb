// Package shell is the window around the pages: navigation, the line that says
// whether this computer shares, the banner when the engine is not there, the
// keyboard, and the first-run questions in their place.
//
// app/main.go puts it together with the pages; it knows them by page.Page alone.
package shell

import (
	"context"
	"log/slog"
	"sync"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/container"

	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	"neuron/internal/desktop/prefs"
)

// least is the time between two updates of what the shell shows.
const least = 200 * time.Millisecond

// Options configure a Shell.
type Options struct {
	Env   *page.Env
	Pages []page.Page
	// Wizard makes the first-run questions, which call done when they are
	// answered or skipped; nil: they are never asked.
	Wizard func(done func()) page.Page
	// Leave ends the window alone, Quit all of Neuron.
	Leave, Quit func()
	// First is the page that is shown first; "" or an unknown one is the first
	// of Pages.
	First  string
	Logger *slog.Logger
}

// Shell is the content of the window. Its methods are called on the UI
// goroutine, after New on the same. It owns two goroutines at most, between Show
// and Hide.
type Shell struct {
	env    *page.Env
	pages  []page.Page
	logger *slog.Logger

	root   *kit.One
	rail   *rail
	banner *banner
	right  *fyne.Container // banner and stack
	stack  *fyne.Container
	opened map[string]bool // pages whose content is in the stack
	now    page.Page

	makeWizard func(done func()) page.Page
	wizard     page.Page // nil while not asked
	place      *fyne.Container
	asked      bool // whether they are due is known; of the follower alone

	leave, quit func()

	visible bool
	stop    context.CancelFunc
	wg      sync.WaitGroup
}

// New makes the shell; nothing runs before Show.
func New(o Options) *Shell {
	s := &Shell{
		env: o.Env, pages: o.Pages, logger: o.Logger, makeWizard: o.Wizard, leave: o.Leave, quit: o.Quit,
		stack: container.NewStack(), opened: make(map[string]bool), place: container.NewStack(),
	}
	if s.logger == nil {
		s.logger = slog.New(slog.DiscardHandler)
	}
	help := kit.Quiet("", s.shortcuts).WithIcon(theme.IconHelp)
	s.rail = newRail(s.pages, s.Open, newFoot(s.env, func() { s.Open("share") }), help)
	s.banner = newBanner(s.env)
	s.right = container.New(&below{}, s.banner.box, s.stack)
	s.root = kit.NewOne(container.New(&sides{}, s.rail, s.right), s.place)
	s.keys(s.env.Window.Canvas())
	first := s.pages[0]
	for _, p := range s.pages {
		if p.Name() == o.First {
			first = p
		}
	}
	s.now = first
	return s
}

// Content is what the window shows.
func (s *Shell) Content() fyne.CanvasObject { return s.root }

// Page is the page that is shown, or would be without the first-run questions.
func (s *Shell) Page() page.Page { return s.now }

// Open shows the page of a name; an unknown name changes nothing.
func (s *Shell) Open(name string) {
	for _, p := range s.pages {
		if p.Name() == name && (p != s.now || !s.opened[name]) {
			start := s.env.Now()
			if s.visible && s.wizard == nil && s.opened[s.now.Name()] {
				s.now.Hide()
			}
			s.now = p
			s.enter()
			s.remember(name)
			s.time(name, start)
		}
	}
}

// time logs how long a page took until it was drawn: two turns of the UI loop
// later there has been a frame.
func (s *Shell) time(name string, start time.Time) {
	if !s.logger.Enabled(context.Background(), slog.LevelDebug) {
		return
	}
	made := s.env.Now().Sub(start)
	s.env.Do(func() {
		s.env.Do(func() { s.logger.Debug("page drawn", "page", name, "made", made, "after", s.env.Now().Sub(start)) })
	})
}

// remember keeps the page for the next start. Losing that is no harm to tell.
func (s *Shell) remember(name string) {
	s.wg.Go(func() {
		if err := s.env.Prefs.Update(func(p *prefs.Prefs) { p.LastPage = name }); err != nil {
			s.logger.Warn("the page is not remembered", "error", err)
		}
	})
}

// enter puts the page's content on top and lets it run.
func (s *Shell) enter() {
	name := s.now.Name()
	if !s.opened[name] {
		s.opened[name] = true
		s.stack.Add(s.now.Content())
	}
	for _, p := range s.pages {
		if s.opened[p.Name()] {
			// Not more than that: refreshing the stack would draw every text of
			// every page anew.
			if p == s.now {
				p.Content().Show()
			} else {
				p.Content().Hide()
			}
		}
	}
	s.rail.mark(name)
	if s.visible && s.wizard == nil {
		s.now.Show()
	}
}

// Show begins to follow the engine; call it when the window becomes visible.
func (s *Shell) Show() {
	if s.visible {
		return
	}
	s.visible = true
	if s.wizard != nil {
		s.wizard.Show()
	} else {
		s.enter()
	}
	s.update()
	ctx, cancel := context.WithCancel(context.Background())
	s.stop = cancel
	s.wg.Go(func() { s.follow(ctx) })
}

// Hide ends what only feeds the screen.
func (s *Shell) Hide() {
	if !s.visible {
		return
	}
	s.visible = false
	s.stop()
	s.wg.Wait()
	if s.wizard != nil {
		s.wizard.Hide()
	} else {
		s.now.Hide()
	}
}

// Finish waits until the pages have nothing under way that is worth finishing, or
// ctx ends. It may be called on any goroutine.
func (s *Shell) Finish(ctx context.Context) {
	for _, p := range s.pages {
		if f, ok := p.(page.Finisher); ok {
			f.Finish(ctx)
		}
	}
}

// Close ends all pages and waits for them.
func (s *Shell) Close() {
	s.Hide()
	s.wg.Wait()
	if s.wizard != nil {
		s.wizard.Close()
		s.wizard = nil
	}
	for _, p := range s.pages {
		p.Close()
	}
}

// follow copies the engine's state to the screen, a few times a second at most.
func (s *Shell) follow(ctx context.Context) {
	changed, stop := s.env.Link.Watch()
	defer stop()
	tick := time.NewTicker(least)
	defer tick.Stop()
	// An engine that stays away changes nothing any more: the banner comes by time.
	late := time.NewTimer(patience)
	defer late.Stop()
	s.ask(ctx)
	for {
		select {
		case <-ctx.Done():
			return
		case <-changed:
			late.Reset(patience)
		case <-late.C:
		}
		s.env.Do(s.update)
		s.ask(ctx)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// update is called on the UI goroutine.
func (s *Shell) update() {
	if !s.visible {
		return
	}
	state := s.env.Link.State()
	if s.rail.foot.show(state) {
		s.rail.Refresh()
	}
	if s.banner.show(state) {
		s.right.Refresh()
	}
}

// sides lays the rail beside the content, without words where there is no room
// for them.
type sides struct{}

const (
	railWidth   = 216
	railNarrow  = 64
	wordsNeeded = 760
)

func (*sides) MinSize([]fyne.CanvasObject) fyne.Size { return fyne.NewSize(480, 420) }

func (*sides) Layout(objects []fyne.CanvasObject, s fyne.Size) {
	w := float32(railWidth)
	if s.Width < wordsNeeded {
		w = railNarrow
	}
	objects[0].Resize(fyne.NewSize(w, s.Height))
	objects[1].Move(fyne.NewPos(w, 0))
	objects[1].Resize(fyne.NewSize(s.Width-w, s.Height))
}

// below lays the first object over the second, as high as it needs to be.
type below struct{}

func (*below) MinSize(objects []fyne.CanvasObject) fyne.Size { return objects[1].MinSize() }

func (*below) Layout(objects []fyne.CanvasObject, s fyne.Size) {
	var y float32
	if o := objects[0]; o.Visible() {
		o.Resize(fyne.NewSize(s.Width, o.MinSize().Height))
		y = o.MinSize().Height
		o.Resize(fyne.NewSize(s.Width, y))
	}
	objects[1].Move(fyne.NewPos(0, y))
	objects[1].Resize(fyne.NewSize(s.Width, s.Height-y))
}
