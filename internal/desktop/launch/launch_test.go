package launch

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/folders"
	"neuron/internal/desktop/instance"
)

// The test binary plays the programs: NEURON_LAUNCH_PLAY says how.
func TestMain(m *testing.M) {
	switch os.Getenv("NEURON_LAUNCH_PLAY") {
	case "":
		os.Exit(m.Run())
	case "engine":
		playEngine(dataOf(os.Args))
	case "full":
		fmt.Fprintln(os.Stderr, "neuron-engine: no room in the data folder (disk_full)")
		fmt.Fprintln(os.Stderr, "What to do: free some space or choose another data folder.")
		os.Exit(1)
	case "mute":
		os.Exit(3)
	case "find":
		fmt.Println("find is up")
		_, _ = fmt.Scanln() // the end of the input is as good a sign
		path, err := Find(TrayName)
		fmt.Println(path, err)
		os.Exit(0)
	case "window":
		i, err := instance.Take(dataOf(os.Args), instance.Window)
		if err != nil {
			os.Exit(1)
		}
		fmt.Println("window is up")
		for w := range i.Heard() {
			fmt.Println("heard", w)
			if w == instance.Quit {
				i.Close()
				os.Exit(0)
			}
		}
	}
}

func dataOf(args []string) string {
	for i, a := range args {
		if a == "--data" {
			return args[i+1]
		}
	}
	return ""
}

type source struct{ stop chan struct{} }

func (s *source) Status() localapi.Status                        { return localapi.Status{Version: "played"} }
func (s *source) Models() []localapi.Model                       { return nil }
func (s *source) Sessions() []protocol.SessionState              { return nil }
func (s *source) Shutdown()                                      { close(s.stop) }
func (s *source) Hold(context.Context, localapi.Hold) error      { return nil }
func (s *source) Share(bool) error                               { return nil }
func (s *source) Plans(context.Context) ([]localapi.Plan, error) { return nil, nil }

// playEngine is an engine that ends by the local API alone.
func playEngine(data string) {
	signal.Ignore(os.Interrupt, syscall.SIGHUP)
	src := &source{stop: make(chan struct{})}
	srv, err := localapi.Start(localapi.Options{Dir: data, Source: src})
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
	fmt.Fprintln(os.Stderr, "engine is up", strings.Join(os.Args[1:], " "))
	select {
	case <-src.stop:
	case <-time.After(time.Minute): // a test that failed leaves nothing behind
	}
	srv.Close(context.Background())
	os.Exit(0)
}

// TestFindAfterAnUpgrade: a program whose folder was moved away while it runs
// finds its sisters where it lay, which are those of the newer version.
func TestFindAfterAnUpgrade(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("the folder of a program that runs cannot be moved there")
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	b, err := os.ReadFile(self)
	if err != nil {
		t.Fatal(err)
	}
	root, err := filepath.EvalSymlinks(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	app, old := filepath.Join(root, "neuron"), filepath.Join(root, "neuron.old")
	if err := os.Mkdir(app, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(app, TrayName), b, 0o755); err != nil {
		t.Fatal(err)
	}
	cmd := exec.CommandContext(t.Context(), filepath.Join(app, TrayName))
	cmd.Env = append(os.Environ(), "NEURON_LAUNCH_PLAY=find")
	in, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	out, err := cmd.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	lines := bufio.NewScanner(out)
	if !lines.Scan() || lines.Text() != "find is up" {
		t.Fatalf("it says %q, %v", lines.Text(), lines.Err())
	}
	if err := os.Rename(app, old); err != nil {
		t.Fatal(err)
	}
	if err := os.Mkdir(app, 0o755); err != nil {
		t.Fatal(err)
	}
	newer := filepath.Join(app, TrayName)
	if err := os.WriteFile(newer, b, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := in.Close(); err != nil {
		t.Fatal(err)
	}
	if !lines.Scan() || lines.Text() != newer+" <nil>" {
		t.Errorf("found %q, want %s", lines.Text(), newer)
	}
	if err := cmd.Wait(); err != nil {
		t.Error(err)
	}
}

// programs are played by this test binary.
func programs(t *testing.T, play string) *Programs {
	t.Helper()
	t.Setenv("NEURON_LAUNCH_PLAY", play)
	return &Programs{Data: t.TempDir(), Find: func(string) (string, error) { return os.Executable() }}
}

func TestEngineStartsAndStops(t *testing.T) {
	p := programs(t, "engine")
	if err := p.StopEngine(t.Context()); err != nil {
		t.Errorf("stopping no engine: %v", err)
	}
	if err := p.Engine(t.Context()); err != nil {
		t.Fatal(err)
	}
	c, err := localapi.Dial(p.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	pid := c.Address().PID
	if pid == os.Getpid() || runtime.GOOS == "linux" && sessionOf(t, pid) != pid {
		t.Errorf("the engine %d is not on its own", pid)
	}
	// A second one is not started.
	if err := p.Engine(t.Context()); err != nil {
		t.Fatal(err)
	}
	if again, err := localapi.Dial(p.Data); err != nil || again.Address().PID != pid {
		t.Errorf("another engine: %v", err)
	}
	if err := p.StopEngine(t.Context()); err != nil {
		t.Fatal(err)
	}
	if answers(p.Data) {
		t.Error("it answers after its end")
	}
	if text := tail(filepath.Join(folders.Logs(p.Data), "engine.out"), 0); !strings.Contains(text, "engine is up desktop --data "+p.Data) {
		t.Errorf("the log says %q", text)
	}
}

// TestRelativeDataFolder: a program runs in another folder than its starter, and
// took a relative data folder for one below that: a second engine and a second
// window came up.
func TestRelativeDataFolder(t *testing.T) {
	p := programs(t, "engine")
	t.Chdir(filepath.Dir(p.Data))
	p.Data = filepath.Base(p.Data)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := p.Engine(ctx); err != nil {
		t.Fatal(err)
	}
	if err := p.StopEngine(ctx); err != nil {
		t.Error(err)
	}
}

// sessionOf reads a process's session, the sixth field of its stat file.
func sessionOf(t *testing.T, pid int) int {
	t.Helper()
	b, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(b), ") ")
	var state string
	var parent, group, session int
	if _, err := fmt.Sscan(rest, &state, &parent, &group, &session); err != nil {
		t.Fatal(err)
	}
	return session
}

func TestEngineThatEndsAtOnceSaysWhy(t *testing.T) {
	p := programs(t, "full")
	// What an earlier run wrote is not what this one says.
	if err := os.MkdirAll(folders.Logs(p.Data), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(folders.Logs(p.Data), "engine.out"), []byte("neuron-engine: old (port_in_use)\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	e := protocol.AsError(p.Engine(t.Context()))
	if e == nil || e.Code != protocol.CodeDiskFull || e.Message != "no room in the data folder" {
		t.Errorf("%v", e)
	}
	t.Setenv("NEURON_LAUNCH_PLAY", "mute")
	if e := protocol.AsError(p.Engine(t.Context())); e == nil || e.Code != protocol.CodeInternal || !strings.Contains(e.Message, "exit status 3") {
		t.Errorf("%v", e)
	}
}

func TestEngineStartCanBeGivenUp(t *testing.T) {
	p := programs(t, "window") // runs, and is no engine
	ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
	defer cancel()
	if e := protocol.AsError(p.Engine(ctx)); e == nil || e.Code != protocol.CodeCancelled {
		t.Errorf("%v", e)
	}
	if err := endPlayed(p); err != nil {
		t.Error(err)
	}
}

// endPlayed ends the played window, which may be on its way still.
func endPlayed(p *Programs) error {
	asked := false
	for range 200 {
		switch running := instance.Running(p.Data, instance.Window); {
		case running && !asked:
			asked = p.EndWindow(context.Background()) == nil
		case asked && !running:
			return nil
		}
		time.Sleep(50 * time.Millisecond) // polling a process, bounded
	}
	return fmt.Errorf("the played window does not end")
}

func TestWindowIsShownAndEnded(t *testing.T) {
	p := programs(t, "window")
	if err := p.EndWindow(t.Context()); err != nil {
		t.Errorf("ending no window: %v", err)
	}
	if err := p.Window(t.Context()); err != nil {
		t.Fatal(err)
	}
	log := filepath.Join(folders.Logs(p.Data), "window.out")
	for range 100 {
		if strings.Contains(tail(log, 0), "window is up") {
			break
		}
		time.Sleep(50 * time.Millisecond) // polling a process, bounded
	}
	if err := p.Window(t.Context()); err != nil {
		t.Fatal(err)
	}
	if err := endPlayed(p); err != nil {
		t.Fatal(err)
	}
	if text := tail(log, 0); strings.Count(text, "window is up") != 1 || !strings.Contains(text, "heard show\nheard quit\n") {
		t.Errorf("the log says %q", text)
	}
}

func TestFind(t *testing.T) {
	beside, path := t.TempDir(), t.TempDir()
	ending := ""
	if runtime.GOOS == "windows" {
		ending = ".exe"
	}
	for _, f := range []string{filepath.Join(beside, "neuron-a"), filepath.Join(path, "neuron-a"), filepath.Join(path, "neuron-b")} {
		if err := os.WriteFile(f+ending, []byte("#!/bin/sh\n"), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("PATH", path)
	for name, want := range map[string]string{"neuron-a": beside, "neuron-b": path} {
		if got, err := find(name, beside); err != nil || got != filepath.Join(want, name+ending) {
			t.Errorf("%s: %s, %v", name, got, err)
		}
	}
	if _, err := find("neuron-c", beside); protocol.AsError(err).Code != protocol.CodeNotFound {
		t.Error(err)
	}
	if err := (&Programs{Data: t.TempDir(), Find: func(n string) (string, error) { return find(n+"-none", beside) }}).Tray(); protocol.AsError(err).Code != protocol.CodeNotFound {
		t.Error(err)
	}
}

func TestLargeLogBeginsAnew(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	f, err := OpenLog(data, "x.log")
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Truncate(maxLog + 1); err != nil {
		t.Fatal(err)
	}
	f.Close()
	f, err = OpenLog(data, "x.log")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	if info, err := f.Stat(); err != nil || info.Size() != 0 {
		t.Errorf("%v, %v", info, err)
	}
	if info, err := os.Stat(filepath.Join(folders.Logs(data), "x.log.1")); err != nil || info.Size() != maxLog+1 {
		t.Errorf("%v, %v", info, err)
	}
	if got := tail(filepath.Join(folders.Logs(data), "x.log.1"), 0); len(got) != maxTail {
		t.Errorf("%d bytes were read of a large log", len(got))
	}
}
