package chat

import (
	"context"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/test"

	"neuron/app/chat/completion"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
	"neuron/app/ui/uitest"
	vm "neuron/app/viewmodel/chat"
	"neuron/engine/gateway"
	"neuron/engine/gateway/gatewaytest"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
)

// now is when the pictures are taken.
var now = time.Date(2026, 11, 30, 15, 4, 0, 0, time.Local)

// engine is the real gateway with a scripted backend.
type engine struct {
	api *completion.Client
	srv *httptest.Server

	mu      sync.Mutex
	phase   link.Phase
	watcher chan struct{}
	retried int
	slow    bool // Retry asks for an engine that the test brings up
	scripts []gatewaytest.Script
	route   []protocol.HopTelemetry // told of each answer
}

func newEngine(t testing.TB, scripts ...gatewaytest.Script) *engine {
	t.Helper()
	f := gatewaytest.New()
	f.Context = 1 << 17
	e := &engine{phase: link.Connected, watcher: make(chan struct{}, 1), scripts: scripts}
	f.Script = func(gateway.GenerateRequest) gatewaytest.Script {
		e.mu.Lock()
		defer e.mu.Unlock()
		s := e.scripts[0]
		if len(e.scripts) > 1 {
			e.scripts = e.scripts[1:]
		}
		return s
	}
	e.srv = httptest.NewServer(gateway.New(gateway.Options{Backend: f, Key: "sixteen letters!"}))
	t.Cleanup(func() {
		e.srv.CloseClientConnections()
		e.srv.Close()
		f.Wait()
	})
	e.api = completion.New(e.srv.URL+"/v1", "sixteen letters!")
	return e
}

func (e *engine) State() link.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return link.State{Phase: e.phase}
}

func (e *engine) Watch() (<-chan struct{}, func()) { return e.watcher, func() {} }

func (e *engine) Retry() {
	e.mu.Lock()
	e.retried++
	slow := e.slow
	e.mu.Unlock()
	if !slow {
		e.set(link.Connected)
	}
}

func (e *engine) set(p link.Phase) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.phase = p
	select {
	case e.watcher <- struct{}{}:
	default:
	}
}

func (e *engine) API(context.Context) (vm.API, error) { return e, nil }

func (e *engine) Models(ctx context.Context) ([]completion.Model, error) { return e.api.Models(ctx) }

// Ask adds a route, which the fake backend has none of.
func (e *engine) Ask(ctx context.Context, r completion.Request, onTelemetry func(protocol.Telemetry), onText func(string)) (protocol.FinishReason, error) {
	return e.api.Ask(ctx, r, func(t protocol.Telemetry) {
		if t.Phase != protocol.PhaseQueued && t.Phase != protocol.PhaseRouting {
			t.Route = e.route
		}
		onTelemetry(t)
	}, onText)
}

// rig is a page in a window.
type rig struct {
	*Page
	t      testing.TB
	engine *engine
	w      fyne.Window
	opened []string

	mu   sync.Mutex
	jobs []func() // for the UI goroutine, which is the test's
}

// open shows the page. A data folder that was used before has its chats.
func open(t testing.TB, e *engine, data, language string, mode theme.Mode, width, height float32) *rig {
	t.Helper()
	uitest.App(t, mode)
	r := &rig{t: t, engine: e}
	clock := func() time.Time { return now.Add(time.Since(now) % time.Millisecond) }
	env := &page.Env{
		Words: words.New(language).WithClock(clock), Data: data, Now: clock,
		Do: func(f func()) {
			r.mu.Lock()
			defer r.mu.Unlock()
			r.jobs = append(r.jobs, f)
		},
		Open:    func(name string) { r.opened = append(r.opened, name) },
		OpenURL: func(address string) { r.opened = append(r.opened, address) },
	}
	env.Window = test.NewTempWindow(t, nil)
	r.w = env.Window
	r.Page = newPage(env, e)
	r.w.SetPadded(false)
	r.w.SetContent(r.Content())
	r.w.Resize(fyne.NewSize(width, height))
	r.Show()
	t.Cleanup(r.close)
	r.until("models", func() bool { return r.view.Model != "" || e.State().Phase != link.Connected })
	return r
}

func (r *rig) close() { r.Close() }

// pump does what waits for the UI goroutine.
func (r *rig) pump() {
	r.mu.Lock()
	jobs := r.jobs
	r.jobs = nil
	r.mu.Unlock()
	for _, f := range jobs {
		f()
	}
}

// until runs the UI until something is so.
func (r *rig) until(what string, ok func() bool) {
	r.t.Helper()
	for start := time.Now(); !ok(); time.Sleep(time.Millisecond) { // polling, bounded below
		r.pump()
		if time.Since(start) > 30*time.Second {
			r.t.Fatalf("%s: it did not come; %+v", what, r.view)
		}
	}
	r.update()
}

// ask types a question and waits for the answer.
func (r *rig) ask(q string) {
	r.t.Helper()
	r.typed(q)
	r.enter()
	r.settled()
}

func (r *rig) typed(text string) { test.Type(r.composer.entry, text) }

func (r *rig) enter() { r.composer.entry.TypedKey(&fyne.KeyEvent{Name: fyne.KeyReturn}) }

func (r *rig) settled() {
	r.t.Helper()
	r.update() // an answer that has just begun
	r.until("the end of the answer", func() bool { return !r.view.Answering && !r.view.Loading && len(r.view.Messages) > 0 })
}

// shown is the text of all rows, also of those that are out of sight.
func (r *rig) shown() string {
	var b strings.Builder
	for _, s := range r.talk.slots {
		if s.object == nil {
			s.object = s.build()
		}
		b.WriteString(textOf(s.object) + "\n")
	}
	return b.String()
}

// textOf collects what objects say.
func textOf(o fyne.CanvasObject) string {
	switch o := o.(type) {
	case *flow:
		return o.text()
	case interface{ Text() string }:
		return o.Text()
	case interface{ Label() string }:
		return o.Label()
	case interface{ Word() string }:
		return o.Word()
	case *fyne.Container:
		var parts []string
		for _, x := range o.Objects {
			parts = append(parts, textOf(x))
		}
		return strings.Join(parts, " ")
	case fyne.Widget:
		var parts []string
		for _, x := range test.WidgetRenderer(o).Objects() {
			parts = append(parts, textOf(x))
		}
		return strings.Join(parts, " ")
	}
	return ""
}

// tap presses the visible button with a label.
func (r *rig) tap(label string) {
	r.t.Helper()
	roots := []fyne.CanvasObject{r.w.Content()}
	if top := r.w.Canvas().Overlays().Top(); top != nil {
		roots = []fyne.CanvasObject{top}
	}
	for _, root := range roots {
		if tapIn(root, label) {
			return
		}
	}
	r.t.Fatalf("there is no button %q", label)
}

func tapIn(o fyne.CanvasObject, label string) bool {
	if !o.Visible() {
		return false
	}
	if b, ok := o.(interface {
		fyne.Tappable
		Label() string
	}); ok && b.Label() == label {
		b.Tapped(&fyne.PointEvent{})
		return true
	}
	var children []fyne.CanvasObject
	switch o := o.(type) {
	case *fyne.Container:
		children = o.Objects
	case fyne.Widget:
		children = test.WidgetRenderer(o).Objects()
	}
	for _, x := range children {
		if tapIn(x, label) {
			return true
		}
	}
	return false
}
