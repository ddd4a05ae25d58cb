package chat

import (
	"bytes"
	"context"
	"log/slog"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"neuron/app/chat/completion"
	"neuron/app/chat/thread"
	"neuron/engine/gateway"
	"neuron/engine/gateway/gatewaytest"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
)

// script is what one answer does.
type script struct {
	pieces  []string
	endless bool
	hold    <-chan struct{} // before the first piece
	refuse  *protocol.Error
	fail    *protocol.Error // after the pieces
}

// engine is a scripted Engine.
type engine struct {
	mu      sync.Mutex
	phase   link.Phase
	since   time.Time
	scripts []script // one per question; the last one stays
	asked   []completion.Request
	api     API
	retried int
	watcher chan struct{}
}

func (e *engine) Watch() (<-chan struct{}, func()) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.watcher = make(chan struct{}, 1)
	return e.watcher, func() {}
}

func (e *engine) State() link.State {
	e.mu.Lock()
	defer e.mu.Unlock()
	return link.State{Phase: e.phase, Since: e.since}
}

func (e *engine) Retry() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.retried++
}

func (e *engine) set(p link.Phase) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.phase, e.since = p, time.Now()
	select {
	case e.watcher <- struct{}{}:
	default:
	}
}

func (e *engine) API(context.Context) (API, error) { return e, nil }

func (e *engine) Models(ctx context.Context) ([]completion.Model, error) { return e.api.Models(ctx) }

func (e *engine) Ask(ctx context.Context, r completion.Request, onTelemetry func(protocol.Telemetry), onText func(string)) (protocol.FinishReason, error) {
	e.mu.Lock()
	e.asked = append(e.asked, r)
	e.mu.Unlock()
	return e.api.Ask(ctx, r, onTelemetry, onText)
}

// next takes a script off.
func (e *engine) next() script {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.scripts[0]
	if len(e.scripts) > 1 {
		e.scripts = e.scripts[1:]
	}
	return s
}

func (e *engine) last() completion.Request {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.asked[len(e.asked)-1]
}

// fakeAPI answers in this process.
type fakeAPI struct{ e *engine }

func (f fakeAPI) Models(context.Context) ([]completion.Model, error) {
	return []completion.Model{{ID: "half", Layers: 8, Held: 3}, {ID: gatewaytest.ModelName, Ready: true, Layers: 2, Held: 2, Context: 512}}, nil
}

func (f fakeAPI) Ask(ctx context.Context, r completion.Request, onTelemetry func(protocol.Telemetry), onText func(string)) (protocol.FinishReason, error) {
	s := f.e.next()
	if s.refuse != nil {
		return "", s.refuse
	}
	t := protocol.Telemetry{Session: "s-1", Model: "m", Phase: protocol.PhaseQueued, QueuePosition: 2, PrefillTotal: 20}
	for _, p := range []protocol.Phase{protocol.PhaseQueued, protocol.PhaseRouting, protocol.PhaseOpening, protocol.PhasePrefill} {
		t.Phase, t.PrefillDone = p, 9
		onTelemetry(t)
	}
	if s.hold != nil {
		select {
		case <-s.hold:
		case <-ctx.Done():
			return "", protocol.Errorf(protocol.CodeCancelled, "stopped: %w", context.Cause(ctx))
		}
	}
	t.Route = []protocol.HopTelemetry{
		{Node: "n1", Use: protocol.Range{First: 0, Last: 1}, Health: "ok", Counters: protocol.Counters{DecodeSteps: 2, DecodeMicros: 5000}},
		{Hop: 1, Node: "n2", Use: protocol.Range{First: 1, Last: 2}, Health: "slow"},
	}
	for again := true; again; again = s.endless {
		for _, p := range s.pieces {
			if ctx.Err() != nil {
				return "", protocol.Errorf(protocol.CodeCancelled, "stopped: %w", context.Cause(ctx))
			}
			t.Phase, t.Tokens = protocol.PhaseDecode, t.Tokens+1
			t.FirstTokenMillis, t.ElapsedMillis = 300, 300+float64(t.Tokens)*50
			onTelemetry(t)
			onText(p)
		}
		if s.endless {
			time.Sleep(time.Millisecond) // no faster than a model
		}
	}
	if s.fail != nil {
		return "", s.fail
	}
	t.Phase = protocol.PhaseDone
	onTelemetry(t)
	return protocol.FinishStop, nil
}

// engines are the kinds of engine that the suite runs with.
var engines = map[string]func(t *testing.T, scripts ...script) *engine{
	"fake": func(_ *testing.T, scripts ...script) *engine {
		e := &engine{phase: link.Connected, scripts: scripts}
		e.api = fakeAPI{e}
		return e
	},
	// The real gateway over HTTP; its backend is scripted.
	"gateway": func(t *testing.T, scripts ...script) *engine {
		e := &engine{phase: link.Connected, scripts: scripts}
		f := gatewaytest.New()
		f.Context = protocol.MaxContext // an endless answer is long before it is stopped on a busy machine
		f.Script = func(gateway.GenerateRequest) gatewaytest.Script {
			s := e.next()
			return gatewaytest.Script{Pieces: s.pieces, Endless: s.endless, Hold: s.hold, Refuse: s.refuse, Fail: s.fail, FailPhase: protocol.PhaseDecode}
		}
		srv := httptest.NewServer(gateway.New(gateway.Options{Backend: f, Key: "sixteen letters!"}))
		t.Cleanup(func() {
			srv.CloseClientConnections()
			srv.Close()
			f.Wait()
		})
		e.api = completion.New(srv.URL+"/v1", "sixteen letters!")
		return e
	},
}

// suite runs a test with both kinds.
func suite(t *testing.T, scripts []script, test func(t *testing.T, r *rig)) {
	for name, make := range engines {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := &rig{t: t, engine: make(t, scripts...), file: filepath.Join(t.TempDir(), "chats.db")}
			r.open()
			test(t, r)
		})
	}
}

// rig is a Model under test.
type rig struct {
	t      *testing.T
	engine *engine
	file   string
	*Model
	log lockedBuffer
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func (l *lockedBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// open starts a Model, as a start of the window does.
func (r *rig) open() {
	r.t.Helper()
	m := New(Options{File: r.file, Engine: r.engine, Words: words.New("en"), Now: time.Now,
		Logger: slog.New(slog.NewTextHandler(&r.log, &slog.HandlerOptions{Level: slog.LevelDebug}))})
	r.Model = m
	r.t.Cleanup(m.Close)
	m.Shown(true)
	r.await("models", func(v View) bool { return v.Model != "" || r.engine.State().Phase != link.Connected })
	r.flush()
	r.await("the messages", func(v View) bool { return !v.Loading })
}

// flush waits for the writer.
func (r *rig) flush() {
	done := make(chan struct{})
	r.writer.do(func() { close(done) })
	<-done
}

// again closes the Model and opens another one with the same file.
func (r *rig) again() {
	r.t.Helper()
	r.Close()
	r.open()
}

// await waits until the view is as wanted.
func (r *rig) await(what string, ok func(View) bool) View {
	r.t.Helper()
	for start := time.Now(); ; time.Sleep(time.Millisecond) { // polling, bounded below
		v := r.View()
		if ok(v) {
			return v
		}
		if time.Since(start) > 20*time.Second {
			r.t.Fatalf("%s: it did not come; the view is %+v", what, v)
		}
	}
}

// ask sends a question and waits for the end of the answer.
func (r *rig) ask(q string) View {
	r.t.Helper()
	if !r.Send(q) {
		r.t.Fatalf("%q is not taken; %+v", q, r.View())
	}
	return r.settled()
}

func (r *rig) settled() View {
	r.t.Helper()
	return r.await("end of the answer", func(v View) bool { return !v.Answering && !v.Loading && len(v.Messages) > 0 })
}

func texts(v View) (out []string) {
	for _, m := range v.Messages {
		out = append(out, m.Text)
	}
	return out
}

func entries(v View) (out []thread.ID) {
	for _, g := range v.Groups {
		for _, e := range g.Chats {
			out = append(out, e.ID)
		}
	}
	return out
}
