package main

import (
	"context"
	"log/slog"
	"net/url"
	"os"
	"strconv"
	"sync"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/app"

	_ "neuron/app/locale" // before Fyne looks at it
	"neuron/app/ui/opening"
	"neuron/app/ui/page"
	"neuron/app/ui/shell"
	"neuron/app/ui/theme"
	"neuron/internal/desktop/instance"
	"neuron/internal/desktop/launch"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/prefs"
	"neuron/internal/desktop/words"
	"neuron/internal/logging"
)

// The size of a window that nobody has changed.
const (
	usualWidth  = 1120
	usualHeight = 780
)

// window puts the parts together.
type window struct {
	data     string
	page     string
	target   string // to open first, "" for nothing
	store    *prefs.Store
	programs *launch.Programs
	log      *logging.Log
	start    time.Time

	app    fyne.App
	win    fyne.Window
	shell  *shell.Shell
	opener *opening.Opener

	again bool // of the UI goroutine: a new window is to follow
	ended bool // of the UI goroutine
}

// run shows the window until it is closed, and says whether it is to be opened
// anew. It is called on the main goroutine.
func (w *window) run(ctx context.Context, heard <-chan string) (again bool, err error) {
	p := w.store.Get()
	// Fyne reads it once, before there is a window.
	if os.Getenv("FYNE_SCALE") == "" {
		os.Setenv("FYNE_SCALE", strconv.FormatFloat(p.Scale, 'f', 2, 64))
	}
	logger := w.log.For("window")
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	var wg sync.WaitGroup
	defer wg.Wait()
	defer stop()

	l := link.New(link.Options{Data: w.data, Start: w.programs.Engine, Logger: w.log.For("link")})
	wg.Go(func() { l.Run(ctx) })
	wg.Go(func() {
		if err := w.programs.Tray(); err != nil {
			logger.Warn("there is no tray", "error", err)
		}
	})

	w.app = app.NewWithID("network.neuron.app")
	w.app.Settings().SetTheme(theme.New(theme.Mode(p.Theme)))
	texts := words.New(p.Language)
	w.win = w.app.NewWindow(texts.T("shell.title"))
	w.app.SetIcon(theme.AppIcon())
	w.win.SetMaster()
	w.win.SetPadded(false)
	env := &page.Env{
		Link: l, Words: texts, Prefs: w.store, Window: w.win, Data: w.data,
		Do: fyne.Do, Now: time.Now,
		Open:    func(name string) { w.shell.Open(name) },
		OpenURL: func(address string) { w.openURL(logger, address) },
		Reopen:  func() { w.again = true; w.end() },
	}
	first := w.page
	if first == "" {
		first = p.LastPage
	}
	w.shell = shell.New(shell.Options{
		Env: env, Pages: pages(env), Wizard: questions(env), First: first,
		Leave: w.end, Quit: func() { w.quit(logger) }, Logger: logger,
	})
	w.opener = opening.New(env)
	defer w.opener.Close()
	w.win.SetContent(w.shell.Content())
	width, height := p.Width, p.Height
	if width == 0 || height == 0 {
		width, height = usualWidth, usualHeight
	}
	w.win.Resize(fyne.NewSize(width, height))
	w.win.SetCloseIntercept(w.shell.RequestClose)
	wg.Go(func() { w.follow(ctx, heard) })
	w.app.Lifecycle().SetOnStarted(func() {
		w.shell.Show()
		if w.target != "" {
			w.opener.Open(w.target)
		}
		// Two turns of the UI loop later a frame has been drawn.
		fyne.Do(func() {
			fyne.Do(func() { logger.Info("window shown", "after", time.Since(w.start).Round(time.Millisecond)) })
		})
	})
	w.win.ShowAndRun()
	return w.again, nil
}

// follow does what other launches and the preferences ask for.
func (w *window) follow(ctx context.Context, heard <-chan string) {
	changed, stop := w.store.Watch()
	defer stop()
	var work sync.WaitGroup
	defer work.Wait()
	var finished chan struct{} // closed when the window can end, nil while it stays
	theTheme := w.store.Get().Theme
	for {
		select {
		case <-ctx.Done():
			fyne.Do(w.end)
			return
		case word := <-heard:
			target, _ := instance.Opened(word)
			switch {
			case target != "":
				finished = nil // it is wanted again
				fyne.Do(func() { w.win.Show(); w.win.RequestFocus(); w.opener.Open(target) })
			case word == instance.Show:
				finished = nil
				fyne.Do(func() { w.win.Show(); w.win.RequestFocus() })
			case word == instance.Quit && finished == nil:
				fyne.Do(w.win.Hide)
				over := make(chan struct{})
				finished = over
				work.Go(func() {
					defer close(over)
					limited, cancel := context.WithTimeout(ctx, patience)
					defer cancel()
					w.shell.Finish(limited)
				})
			}
		case <-finished:
			finished = nil
			fyne.Do(w.end)
		case <-changed:
			if t := w.store.Get().Theme; t != theTheme {
				theTheme = t
				fyne.Do(func() { w.app.Settings().SetTheme(theme.New(theme.Mode(t))) })
			}
		}
	}
}

// end closes the window in order; engine and tray go on.
func (w *window) end() {
	if w.ended {
		return
	}
	w.ended = true
	size := w.win.Canvas().Size()
	w.shell.Close()
	if !w.win.FullScreen() {
		if err := w.store.Update(func(p *prefs.Prefs) { p.Width, p.Height = size.Width, size.Height }); err != nil {
			w.log.For("window").Warn("the size is not remembered", "error", err)
		}
	}
	w.app.Quit()
}

// patience is how long the engine may take to finish what others wait for, and
// the window to finish its own answers.
const patience = 20 * time.Second

// quit ends all of Neuron. The window goes at once; the engine finishes running
// sessions by itself.
func (w *window) quit(logger *slog.Logger) {
	w.win.Hide()
	go func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := instance.Send(ctx, w.data, instance.Tray, instance.Quit); err != nil {
			logger.Debug("the tray does not run", "error", err)
		}
		if err := w.programs.StopEngine(ctx); err != nil {
			logger.Warn("the engine has not ended yet", "error", err)
		}
		fyne.Do(w.end)
	}()
}

func (w *window) openURL(logger *slog.Logger, address string) {
	u, err := url.Parse(address)
	if err == nil {
		err = w.app.OpenURL(u)
	}
	if err != nil {
		logger.Warn("the address cannot be opened", "error", err)
	}
}
