package swarm_test

import (
	"bytes"
	"context"
	"log/slog"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/swarm"
	"neuron/internal/leaktest"
)

const someModel = protocol.ModelID("00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff")

// lockedBuffer is a log that two goroutines use.
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

type hosted struct {
	*swarm.Host
	log     *lockedBuffer
	changed chan struct{}
}

// host runs a host around a fake child.
func host(t *testing.T, kind string, silence time.Duration) *hosted {
	t.Helper()
	h := &hosted{log: &lockedBuffer{}, changed: make(chan struct{}, 1)}
	h.Host = swarm.NewHost(swarm.HostOptions{
		Spawn: swarm.Spawn{Exe: os.Args[0], Args: []string{"fake", kind}, Silence: silence, Logger: slog.New(slog.NewTextHandler(h.log, nil))},
		Changed: func() {
			select {
			case h.changed <- struct{}{}:
			default:
			}
		},
	})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		h.Run(ctx)
	}()
	t.Cleanup(func() { cancel(); <-done })
	return h
}

func (h *hosted) until(t *testing.T, what string, ok func(swarm.Status) bool) swarm.Status {
	t.Helper()
	deadline := time.After(30 * time.Second)
	for {
		if s := h.Status(); ok(s) {
			return s
		}
		select {
		case <-h.changed:
		case <-deadline:
			t.Fatalf("%s: did not come; last status %+v, log %s", what, h.Status(), h.log)
		}
	}
}

func wantedOf(t *testing.T, version int64) swarm.Wanted {
	return swarm.Wanted{Version: version, Listen: "127.0.0.1:0", Models: []swarm.Model{{Model: someModel, Dir: t.TempDir()}}}
}

func mustSet(t *testing.T, h *hosted, w swarm.Wanted) {
	t.Helper()
	if err := h.Set(w); err != nil {
		t.Fatal(err)
	}
}

func TestChildRunsOnlyWhileAModelIsWanted(t *testing.T) {
	leaktest.Check(t)
	h := host(t, "good", 0)
	mustSet(t, h, swarm.Wanted{Version: 1, Listen: "127.0.0.1:0"})
	if h.Pid() != 0 {
		t.Fatal("a child runs for nothing")
	}
	mustSet(t, h, wantedOf(t, 2))
	h.until(t, "first status", func(s swarm.Status) bool { return s.Version == 2 && len(s.Models) == 1 })
	first := h.Pid()
	if first == 0 {
		t.Fatal("no child runs")
	}
	mustSet(t, h, wantedOf(t, 3))
	h.until(t, "second status", func(s swarm.Status) bool { return s.Version == 3 })
	if h.Pid() != first {
		t.Error("a change of what is wanted started another child")
	}
	mustSet(t, h, swarm.Wanted{Version: 4, Listen: "127.0.0.1:0"})
	h.until(t, "end", func(s swarm.Status) bool { return s.Version == 0 && s.Addr == "" })
	if h.Pid() != 0 {
		t.Error("the child outlives what was wanted")
	}
	if strings.Contains(h.log.String(), "level=ERROR") {
		t.Errorf("log of an orderly life: %s", h.log)
	}
}

func TestChildIsStartedAgainAfterAPanic(t *testing.T) {
	leaktest.Check(t)
	h := host(t, "panics", 0)
	mustSet(t, h, wantedOf(t, 1))
	s := h.until(t, "the loss", func(s swarm.Status) bool { return s.Error != nil })
	if s.Error.Code != protocol.CodeSwarmLost || s.Addr != "" {
		t.Errorf("lost child: %+v", s)
	}
	if m := s.Models; len(m) != 1 || m[0].State != swarm.StateStarting || m[0].DownRate != 0 || m[0].Peers != 0 || m[0].ETASeconds != -1 || m[0].Done != 5 {
		t.Errorf("models of a lost child: %+v", m)
	}
	h.until(t, "another life", func(s swarm.Status) bool { return s.Error == nil && s.Version == 1 })
	h.until(t, "another loss", func(s swarm.Status) bool { return s.Error != nil })
	if !strings.Contains(h.log.String(), "panic: as told") {
		t.Errorf("the log does not name the fault: %s", h.log)
	}
}

func TestFrozenChildIsReplaced(t *testing.T) {
	leaktest.Check(t)
	h := host(t, "frozen", 300*time.Millisecond)
	mustSet(t, h, wantedOf(t, 1))
	s := h.until(t, "the loss", func(s swarm.Status) bool { return s.Error != nil })
	if s.Error.Code != protocol.CodeSwarmLost || !strings.Contains(s.Error.Message, "no sign of life") {
		t.Errorf("frozen child: %+v", s.Error)
	}
}

func TestChildThatSpeaksNonsenseIsReplaced(t *testing.T) {
	leaktest.Check(t)
	h := host(t, "garbage", 0)
	mustSet(t, h, wantedOf(t, 1))
	s := h.until(t, "the loss", func(s swarm.Status) bool { return s.Error != nil })
	if s.Error.Code != protocol.CodeSwarmLost || !strings.Contains(s.Error.Message, "output") {
		t.Errorf("babbling child: %+v", s.Error)
	}
}

func TestProgramThatDoesNotExist(t *testing.T) {
	leaktest.Check(t)
	h := &hosted{log: &lockedBuffer{}, changed: make(chan struct{}, 1)}
	h.Host = swarm.NewHost(swarm.HostOptions{Spawn: swarm.Spawn{Exe: t.TempDir() + "/nothing"}, Changed: func() {
		select {
		case h.changed <- struct{}{}:
		default:
		}
	}})
	ctx, cancel := context.WithCancel(t.Context())
	done := make(chan struct{})
	go func() { defer close(done); h.Run(ctx) }()
	defer func() { cancel(); <-done }()
	mustSet(t, h, wantedOf(t, 1))
	if s := h.until(t, "the loss", func(s swarm.Status) bool { return s.Error != nil }); s.Error.Code != protocol.CodeSwarmLost {
		t.Errorf("status %+v", s)
	}
}

func TestMalformedWantedChangesNothing(t *testing.T) {
	h := swarm.NewHost(swarm.HostOptions{})
	for name, change := range map[string]func(*swarm.Wanted){
		"relative folder":       func(w *swarm.Wanted) { w.Models[0].Dir = "shards" },
		"no listen address":     func(w *swarm.Wanted) { w.Listen = "" },
		"a name as peer":        func(w *swarm.Wanted) { w.Models[0].Peers = []string{"localhost:1"} },
		"a zone as peer":        func(w *swarm.Wanted) { w.Models[0].Peers = []string{"[fe80::1%eth0]:1"} },
		"peer without a port":   func(w *swarm.Wanted) { w.Models[0].Peers = []string{"127.0.0.1:0"} },
		"udp tracker":           func(w *swarm.Wanted) { w.Models[0].Announce = []string{"udp://127.0.0.1:1/announce"} },
		"tracker with a user":   func(w *swarm.Wanted) { w.Models[0].Announce = []string{"http://a:b@127.0.0.1:1/announce"} },
		"tracker not plain":     func(w *swarm.Wanted) { w.Models[0].Announce = []string{"HTTP://127.0.0.1:1/announce"} },
		"negative limit":        func(w *swarm.Wanted) { w.Limits.UpBytes = -1 },
		"negative version":      func(w *swarm.Wanted) { w.Version = -1 },
		"empty range":           func(w *swarm.Wanted) { w.Models[0].Ranges = []protocol.Range{{First: 3, Last: 3}} },
		"model twice":           func(w *swarm.Wanted) { w.Models = append(w.Models, w.Models[0]) },
		"no model id":           func(w *swarm.Wanted) { w.Models[0].Model = "x" },
		"damaged file outside":  func(w *swarm.Wanted) { w.Models[0].Damaged = []swarm.Damaged{{File: "../x"}} },
		"adopted relative path": func(w *swarm.Wanted) { w.Models[0].Adopted = []string{"x"} },
	} {
		w := wantedOf(t, 1)
		change(&w)
		if err := h.Set(w); err == nil {
			t.Errorf("%s: taken", name)
		}
	}
	w := wantedOf(t, 1)
	w.Listen = ":0"
	w.Models[0].Peers = []string{"127.0.0.1:1", "[::1]:1"}
	w.Models[0].Announce = []string{"http://127.0.0.1:1/announce", "https://tracker.example/announce?key=a"}
	if err := h.Set(w); err != nil {
		t.Error(err)
	}
}
