package link

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// source is an engine's state.
type source struct {
	mu     sync.Mutex
	status localapi.Status // guarded by mu
}

func (s *source) Status() localapi.Status {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.status
}

func (s *source) Models() []localapi.Model                       { return nil }
func (s *source) Sessions() []protocol.SessionState              { return nil }
func (s *source) Shutdown()                                      {}
func (s *source) Hold(context.Context, localapi.Hold) error      { return nil }
func (s *source) Share(bool) error                               { return nil }
func (s *source) Plans(context.Context) ([]localapi.Plan, error) { return nil, nil }

// serve starts an engine's API in dir.
func serve(t *testing.T, dir, version string) (*localapi.Server, *source) {
	t.Helper()
	src := &source{status: localapi.Status{Version: version}}
	srv, err := localapi.Start(localapi.Options{Dir: dir, Source: src, Version: version, EventEvery: 5 * time.Millisecond})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { end(t, srv) })
	return srv, src
}

func end(t *testing.T, srv *localapi.Server) {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	if err := srv.Close(ctx); err != nil {
		t.Error(err)
	}
}

// run runs l until the test is over.
func run(t *testing.T, l *Link) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() { defer close(done); l.Run(ctx) }()
	t.Cleanup(func() {
		cancel()
		<-done
		if l.Client() != nil {
			t.Error("a client is left after the end")
		}
	})
}

// until waits for a state by the changes that are told, and for no other.
func until(t *testing.T, l *Link, what string, ok func(State) bool) State {
	t.Helper()
	changed, stop := l.Watch()
	defer stop()
	limit := time.After(20 * time.Second)
	for {
		if s := l.State(); ok(s) {
			return s
		}
		select {
		case <-changed:
		case <-limit:
			t.Fatalf("never came: %s; now %+v", what, l.State())
		}
	}
}

func connectedTo(version string) func(State) bool {
	return func(s State) bool { return s.Phase == Connected && s.Event.Status.Version == version }
}

func TestFollowsTheEngine(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l := New(Options{Data: dir, Logger: slog.New(slog.DiscardHandler)})
	if s := l.State(); s.Phase != Starting || s.Since.IsZero() || l.Client() != nil {
		t.Errorf("at first %+v", s)
	}
	run(t, l)
	s := until(t, l, "absent", func(s State) bool { return s.Phase == Absent })
	if s.Err == nil || s.Err.Code != protocol.CodeUnavailable {
		t.Errorf("absent with %v", s.Err)
	}
	srv, src := serve(t, dir, "1")
	s = until(t, l, "connected", connectedTo("1"))
	if s.Err != nil || l.Client() == nil || l.Client().Address() != srv.Address() {
		t.Errorf("connected with %v, %v", s.Err, l.Client())
	}
	src.mu.Lock()
	src.status.Gateway = "http://127.0.0.1:1"
	src.mu.Unlock()
	if s := until(t, l, "the change", func(s State) bool { return s.Event.Status.Gateway != "" }); s.Phase != Connected {
		t.Errorf("%+v", s)
	}
	end(t, srv)
	s = until(t, l, "gone", func(s State) bool { return s.Phase == Absent })
	if s.Event.Status.Version != "1" || l.Client() != nil {
		t.Errorf("gone with %+v", s)
	}
	// Another port and another token.
	again, _ := serve(t, dir, "2")
	until(t, l, "connected again", connectedTo("2"))
	if again.Address().Token == srv.Address().Token {
		t.Error("the token is the old one: this test shows nothing")
	}
	if _, err := l.Client().Status(context.Background()); err != nil {
		t.Error(err)
	}
}

// crash ends the server and leaves the address file behind, as a crash does.
func crash(t *testing.T, dir string, srv *localapi.Server) {
	t.Helper()
	path := filepath.Join(dir, localapi.AddressFile)
	old, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	// Not the server's own any more: it leaves it.
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	end(t, srv)
	if err := os.WriteFile(path, old, 0o600); err != nil {
		t.Fatal(err)
	}
}

func TestStartsAnEngineWhenNoneRuns(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var mu sync.Mutex
	var servers []*localapi.Server
	l := New(Options{Data: dir, Start: func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		srv, _ := serve(t, dir, "started "+string(rune('1'+len(servers))))
		servers = append(servers, srv)
		return nil
	}})
	run(t, l)
	until(t, l, "the first", connectedTo("started 1"))
	mu.Lock()
	first := servers[0]
	mu.Unlock()
	crash(t, dir, first)
	until(t, l, "the second, after a crash", connectedTo("started 2"))
}

// Who stops the engine in order, for an upgrade or with the command line, does
// not want it back at once.
func TestEngineThatEndedInOrderStaysEnded(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	var mu sync.Mutex
	starts := 0
	srv, _ := serve(t, dir, "1")
	l := New(Options{Data: dir, Start: func(context.Context) error {
		mu.Lock()
		defer mu.Unlock()
		starts++
		serve(t, dir, "2")
		return nil
	}})
	run(t, l)
	until(t, l, "connected", connectedTo("1"))
	end(t, srv)
	until(t, l, "absent", func(s State) bool { return s.Phase == Absent })
	mu.Lock()
	if starts != 0 {
		t.Errorf("started %d times", starts)
	}
	mu.Unlock()
	l.Retry()
	until(t, l, "started by the user", connectedTo("2"))
}

// A page's Try again while the engine ran, for an answer of the network, started
// the engine again when somebody stopped it an hour later.
func TestRetryWithAnEngineIsNoOrderForLater(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	srv, _ := serve(t, dir, "1")
	l := New(Options{Data: dir, Start: func(context.Context) error {
		t.Error("started against the user's will")
		return nil
	}})
	run(t, l)
	until(t, l, "connected", connectedTo("1"))
	l.Retry()
	end(t, srv)
	until(t, l, "absent", func(s State) bool { return s.Phase == Absent })
	for looks := 0; looks < 3; looks++ {
		<-time.After(firstPause)
	}
	if s := l.State(); s.Phase != Absent {
		t.Errorf("%+v", s)
	}
}

func TestWatchersAreTold(t *testing.T) {
	t.Parallel()
	l := New(Options{Data: t.TempDir()})
	a, stopA := l.Watch()
	b, stopB := l.Watch()
	defer stopB()
	for range 3 { // nobody reads: nothing blocks
		l.set(func(s *State) { s.Phase = Lost })
	}
	<-a
	<-b
	stopA()
	l.move(Absent, protocol.Errorf(protocol.CodeUnavailable, "x"))
	<-b
	select {
	case <-a:
		t.Error("told after the end")
	default:
	}
	since := l.State().Since
	l.move(Absent, protocol.Errorf(protocol.CodeUnavailable, "x"))
	select {
	case <-b:
		t.Error("told without a change")
	default:
	}
	if l.State().Since != since {
		t.Error("a new beginning without a change")
	}
	if sameError(protocol.Errorf("a", "x"), nil) || sameError(nil, protocol.Errorf("a", "x")) || !sameError(nil, nil) {
		t.Error("errors are told apart wrongly")
	}
}

var errGone = errors.New("gone")
