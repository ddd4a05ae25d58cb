package localnet

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"neuron/engine/cli"
	"neuron/engine/cli/apiclient"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/program"
	"neuron/engine/protocol"
	"neuron/internal/leaktest"
	"neuron/llama"
	"neuron/tracker-server/server"
)

const (
	guide     = "../../assets/model/guide-q8_0.gguf"
	guideName = "guide-q8_0"
	within    = 30 * time.Second
)

// TestMain makes the test binary both programs, by the name that it is called
// with: the tests put links to it into a folder.
func TestMain(m *testing.M) {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := 0
	switch name := filepath.Base(os.Args[0]); {
	case name == "neuron-engine", len(os.Args) > 1 && (os.Args[1] == "stage" || os.Args[1] == "swarm"):
		status = cli.Main(ctx, os.Args[1:])
	case name == "neuron-tracker":
		status = tracker(ctx)
	default:
		status = m.Run()
	}
	stop()
	os.Exit(status)
}

// tracker is neuron-tracker with "--data DIR --listen ADDR".
func tracker(ctx context.Context) int {
	s, err := server.New(server.Options{Data: os.Args[2], Listen: os.Args[4], ReportEvery: time.Second})
	if err == nil {
		fmt.Println(s.URL())
		err = s.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

// programs is a folder with both programs.
func programs(t *testing.T) string {
	t.Helper()
	if _, err := llama.NativeDir(); err != nil {
		t.Skipf("SKIPPED: no native libraries (make native): %v", err)
	}
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for _, name := range []string{"neuron-engine", "neuron-tracker"} {
		if err := os.Symlink(exe, filepath.Join(dir, name)); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

func start(t *testing.T) *Net {
	t.Helper()
	t.Setenv("GORACE", "atexit_sleep_ms=0") // its pause would only take time here
	n, err := Start(t.Context(), Options{Bin: programs(t), Data: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := n.Stop(); err != nil {
			t.Error(err)
		}
	})
	return n
}

func alive(p *Proc) bool { return !errors.Is(syscall.Kill(p.Pid(), 0), syscall.ESRCH) }

// TestDesktop: the computer of "make run" chats at once, and shares nothing; its
// window may be closed.
func TestDesktop(t *testing.T) {
	leaktest.Check(t)
	n := start(t)
	if _, err := n.StartNode(t.Context(), "node", NodeOptions{Model: guide, Layers: "all"}); err != nil {
		t.Fatal(err)
	}
	if _, err := n.WaitRoute(t.Context(), guideName, within); err != nil {
		t.Fatal(err)
	}
	set := func(s *policy.Settings) { s.SetUp, s.Tracker = true, n.TrackerURL }
	d, err := n.StartDesktop(t.Context(), "desktop", set, "--model", guide, "--listen", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	if err := WaitAccess(t.Context(), d, within); err != nil {
		t.Fatal(err)
	}
	e, err := program.ReadEndpoint(filepath.Join(d.Data, "gateway"))
	if err != nil {
		t.Fatal(err)
	}
	a, err := Client(e).Chat(t.Context(), apiclient.ChatRequest{
		Model: guideName, Messages: []apiclient.Message{{Role: "user", Content: "What is Neuron?"}},
	}, nil)
	if err != nil || a.Text == "" || len(a.Telemetry.Route) != 1 {
		t.Errorf("%+v, %v", a, err)
	}
	c, err := localapi.Dial(d.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if s, err := c.Status(t.Context()); err != nil || s.Sharing || s.Policy.Reason != protocol.SharingUserOff || len(s.StagePIDs) != 0 {
		t.Errorf("%+v, %v", s, err)
	}

	if n.HasWindow() {
		t.Fatal("there is a window that nobody has built")
	}
	if err := os.WriteFile(filepath.Join(n.o.Bin, window), []byte("#!/bin/sh\necho \"$@\"\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	w, err := n.StartWindow(d)
	if err != nil || !n.HasWindow() {
		t.Fatal(err)
	}
	<-w.done
	if line := <-w.line; line != "--data "+d.Data {
		t.Errorf("the window was started with %q", line)
	}
	select {
	case p := <-n.Died():
		t.Errorf("reported as dead: %s", p.Describe())
	default:
	}
}

// TestNetwork starts a network as "make run" does and takes it apart.
func TestNetwork(t *testing.T) {
	leaktest.Check(t)
	n := start(t)
	var nodes []*Node
	for i, layers := range []string{"0-4", "4-8"} {
		x, err := n.StartNode(t.Context(), fmt.Sprintf("node-%d", i), NodeOptions{Model: guide, Layers: layers})
		if err != nil {
			t.Fatal(err)
		}
		if x.ID == "" || !strings.HasPrefix(x.Seam, "127.0.0.1:") || x.Layers != layers {
			t.Errorf("%+v", x)
		}
		nodes = append(nodes, x)
	}
	g, err := n.StartGateway(t.Context(), "gateway", []string{guide})
	if err != nil {
		t.Fatal(err)
	}
	e, err := Endpoint(g)
	if err != nil {
		t.Fatal(err)
	}
	if err := n.WaitCovered(t.Context(), guideName, 1, within); err != nil {
		t.Fatal(err)
	}
	m, err := n.WaitRoute(t.Context(), guideName, within)
	if err != nil || m.Layers != 8 || !m.Routable {
		t.Fatalf("%+v, %v", m, err)
	}
	if _, err := n.WaitRoute(t.Context(), string(m.Model), within); err != nil {
		t.Errorf("by id: %v", err)
	}
	a, err := Client(e).Chat(t.Context(), apiclient.ChatRequest{
		Model: guideName, Messages: []apiclient.Message{{Role: "user", Content: "What is Neuron?"}},
	}, nil)
	if err != nil || a.Text == "" || len(a.Telemetry.Route) != 2 {
		t.Errorf("%+v, %v", a, err)
	}

	// A node that is taken out in order is no death.
	if err := n.Forget(nodes[1].Proc); err != nil {
		t.Error(err)
	}
	if alive(nodes[1].Proc) {
		t.Error("the node runs on")
	}
	select {
	case p := <-n.Died():
		t.Errorf("reported as dead: %s", p.Describe())
	default:
	}
	ctx, cancel := context.WithTimeout(t.Context(), within)
	defer cancel()
	if _, err := n.WaitRoute(ctx, guideName, time.Millisecond); err == nil {
		// The tracker may not have seen it yet; it must soon.
		for err == nil && ctx.Err() == nil {
			_, err = n.WaitRoute(ctx, guideName, time.Millisecond)
		}
		if ctx.Err() != nil {
			t.Error("there is still a route")
		}
	}

	// A process that dies is told of, also by those who wait for something.
	if err := syscall.Kill(nodes[0].Pid(), syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	if _, err := n.WaitRoute(t.Context(), guideName, within); err == nil || !strings.Contains(err.Error(), "node-0 ended (signal: killed)") {
		t.Errorf("waiting for a route of a dead node: %v", err)
	}
	if err := n.Stop(); err != nil {
		t.Error(err)
	}
	for _, p := range []*Proc{n.Tracker, g, nodes[0].Proc} {
		if alive(p) {
			t.Errorf("%s runs on", p.Name)
		}
	}
	if err := n.Stop(); err != nil {
		t.Errorf("the second time: %v", err)
	}
}

// TestStartFails wants the program's own words.
func TestStartFails(t *testing.T) {
	leaktest.Check(t)
	if _, err := Start(t.Context(), Options{Bin: t.TempDir(), Data: t.TempDir()}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no programs: %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Start(t.Context(), Options{Bin: t.TempDir(), Data: file}); err == nil || !strings.Contains(err.Error(), "data folder") {
		t.Errorf("data folder is a file: %v", err)
	}
	n := start(t)
	if _, err := n.StartNode(t.Context(), "node", NodeOptions{Model: "absent.gguf", Layers: "all"}); err == nil ||
		!strings.Contains(err.Error(), "node ended at once: ") || !strings.Contains(err.Error(), "there is no file absent.gguf") {
		t.Errorf("no model: %v", err)
	}
	if _, err := n.StartNode(t.Context(), "node", NodeOptions{Model: guide, Layers: "all", Wrap: []string{"/nowhere/tracer"}}); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no tracer: %v", err)
	}
	if _, err := n.StartGateway(t.Context(), "gateway", []string{guide}, "--dance"); err == nil || !strings.Contains(err.Error(), "unknown flag") {
		t.Errorf("unknown flag: %v", err)
	}
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("changed my mind")
	cancel(why)
	if _, err := n.StartNode(ctx, "node", NodeOptions{Model: guide, Layers: "all"}); err != nil && !errors.Is(err, why) {
		t.Errorf("cancelled: %v", err)
	}
	if _, err := n.WaitRoute(t.Context(), guideName+"x", 100*time.Millisecond); err == nil || !strings.Contains(err.Error(), "not known to the tracker") {
		t.Errorf("unknown model: %v", err)
	}
	select {
	case p := <-n.Died():
		t.Errorf("reported as dead: %s", p.Describe())
	default:
	}
}

// TestWrap runs an engine under another program.
func TestWrap(t *testing.T) {
	leaktest.Check(t)
	n := start(t)
	x, err := n.StartNode(t.Context(), "node", NodeOptions{Model: guide, Layers: "0-4", Wrap: []string{"/usr/bin/env", "NEURON_X=1"}})
	if err != nil {
		t.Fatal(err)
	}
	if x.ID == "" {
		t.Errorf("%+v", x)
	}
}
