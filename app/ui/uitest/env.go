package uitest

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"neuron/app/enginetest"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/prefs"
	"neuron/internal/desktop/words"
)

// Desk is a page's surroundings in a test: a window, an engine, and the UI
// goroutine, which is the test's own.
type Desk struct {
	Env    *page.Env
	Window fyne.Window
	Opened []string // pages that were asked for
	URLs   []string // addresses that were to be opened

	t     testing.TB
	mu    sync.Mutex
	queue []func() // guarded by mu
}

// New makes the surroundings; the engine may be nil. The app must exist.
func New(t testing.TB, e *enginetest.Engine, language string) *Desk {
	t.Helper()
	data := t.TempDir()
	if e != nil {
		data = e.Data
	}
	store, err := prefs.Open(data)
	if err != nil {
		t.Fatal(err)
	}
	d := &Desk{t: t, Window: test.NewTempWindow(t, nil)}
	d.Window.SetPadded(false)
	l := link.New(link.Options{Data: data})
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { l.Run(ctx) })
	t.Cleanup(func() { cancel(); wg.Wait() })
	d.Env = &page.Env{
		Link: l, Words: words.New(language), Prefs: store, Window: d.Window, Data: data,
		Do: d.do, Now: time.Now,
		Open:    func(name string) { d.Opened = append(d.Opened, name) },
		OpenURL: func(address string) { d.URLs = append(d.URLs, address) },
		Reopen:  func() { d.Opened = append(d.Opened, "window") },
	}
	if e != nil {
		d.Until("the engine is there", func() bool { return l.State().Phase == link.Connected })
	}
	return d
}

// Open shows a page of an engine (nil: none) in a window of its own app.
func Open(t testing.TB, e *enginetest.Engine, mode theme.Mode, language string, width, height float32, make func(*page.Env) page.Page) *Desk {
	t.Helper()
	App(t, mode)
	d := New(t, e, language)
	// Of the texts too: else "today" is another day tomorrow, and no master holds.
	d.Env.Now = func() time.Time { return enginetest.Now }
	d.Env.Words = d.Env.Words.WithClock(d.Env.Now)
	p := make(d.Env)
	t.Cleanup(p.Close)
	d.Set(p.Content(), width, height)
	p.Show()
	t.Cleanup(p.Hide)
	return d
}

// Looks takes pictures of a page in both themes, English and German, narrow and
// wide, once ready says that it has something to show.
func Looks(t *testing.T, name string, open func(t *testing.T, mode theme.Mode, language string, width float32) *Desk, ready func(*Desk) bool) {
	for _, mode := range Themes {
		for _, language := range []string{"en", "de"} {
			for _, width := range []float32{560, 1000} {
				look := fmt.Sprintf("%v-%s-%v", mode, language, width)
				t.Run(look, func(t *testing.T) {
					d := open(t, mode, language, width)
					d.Until(name+" has something to show", func() bool { return ready(d) })
					d.Picture(name + "-" + look)
					if language == "en" && width == 1000 {
						Master(t, d.Window, mode, name)
					}
				})
			}
		}
	}
}

// do queues for the UI goroutine.
func (d *Desk) do(f func()) {
	d.mu.Lock()
	d.queue = append(d.queue, f)
	d.mu.Unlock()
}

// Run does what is queued for the UI goroutine.
func (d *Desk) Run() {
	for {
		d.mu.Lock()
		queue := d.queue
		d.queue = nil
		d.mu.Unlock()
		if len(queue) == 0 {
			return
		}
		for _, f := range queue {
			f()
		}
	}
}

// patience is how long a test waits for what has to come.
const patience = 20 * time.Second

// Until runs the UI goroutine until something is so.
func (d *Desk) Until(what string, is func() bool) {
	d.t.Helper()
	end := time.Now().Add(patience)
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	for {
		d.Run()
		if is() {
			return
		}
		if time.Now().After(end) {
			d.t.Fatalf("never so: %s", what)
		}
		<-tick.C
	}
}

// Set shows content in the window.
func (d *Desk) Set(content fyne.CanvasObject, width, height float32) {
	d.Window.SetContent(content)
	d.Window.Resize(fyne.NewSize(width, height))
	Settle(d.Window)
}

// Picture settles the window and takes its picture.
func (d *Desk) Picture(name string) {
	d.t.Helper()
	d.Run()
	Settle(d.Window)
	Picture(d.t, d.Window, name)
}
