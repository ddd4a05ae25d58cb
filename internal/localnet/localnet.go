// Package localnet starts a whole network on this machine from the real
// programs: a tracker, engines and a gateway, each a process with a data
// folder of its own, on loopback. "make run", "make demo" and the acceptance
// run are built on it; no product code imports it.
package localnet

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"neuron/engine/artifact"
	"neuron/internal/logging"
)

// Options say where the programs and the data are.
type Options struct {
	Bin  string // folder with neuron-engine and neuron-tracker
	Data string // folder for all data and logs; kept
	// TrackerListen is the tracker's address [a free port].
	TrackerListen string
	// TrackerArgs are more flags of the tracker.
	TrackerArgs []string
	// LogLevel is NEURON_LOG of all processes [info].
	LogLevel string
}

// Net is a running network. Its methods are safe for concurrent use.
type Net struct {
	o Options

	mu    sync.Mutex
	procs []*Proc // in the order of their start; guarded by mu
	// died gets the first process that ended without being asked.
	died chan *Proc

	Tracker    *Proc
	TrackerURL string
}

// Proc is one process. Its goroutine (the reader of its first output line and
// the waiter) ends with it.
type Proc struct {
	Name string
	Data string
	Log  string // path of its log
	cmd  *exec.Cmd
	done chan struct{}
	line chan string // gets the first line, if there is one; then closed

	mu      sync.Mutex
	asked   bool  // Stop was called; guarded by mu
	exitErr error // guarded by mu
}

// startTimeout bounds the wait for a program's first line; stopTimeout the
// wait for its ordered end.
const (
	startTimeout = 60 * time.Second
	stopTimeout  = 15 * time.Second
)

// Start starts the tracker.
func Start(ctx context.Context, o Options) (*Net, error) {
	if o.TrackerListen == "" {
		o.TrackerListen = "127.0.0.1:0"
	}
	n := &Net{o: o, died: make(chan *Proc, 1)}
	if err := os.MkdirAll(filepath.Join(o.Data, "logs"), 0o755); err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	if err := n.startTracker(ctx); err != nil {
		return nil, err
	}
	return n, nil
}

func (n *Net) startTracker(ctx context.Context) error {
	args := append([]string{"--data", n.dir("tracker"), "--listen", n.o.TrackerListen}, n.o.TrackerArgs...)
	p, line, err := n.spawn(ctx, "tracker", nil, "neuron-tracker", args...)
	if err != nil {
		return err
	}
	n.Tracker = p
	for _, word := range strings.Fields(line) {
		if strings.HasPrefix(word, "http") || strings.HasPrefix(word, "ws") {
			n.TrackerURL = strings.TrimSuffix(word, "/")
		}
	}
	if n.TrackerURL == "" {
		return errors.Join(fmt.Errorf("the tracker's first line has no address: %q", line), n.Stop())
	}
	return nil
}

// RestartTracker stops the tracker in order and starts it again, on the same
// data and at the same address. It may not run beside other methods.
func (n *Net) RestartTracker(ctx context.Context) error {
	if err := n.Tracker.Stop(); err != nil {
		return err
	}
	n.drop(n.Tracker)
	at, err := url.Parse(n.TrackerURL)
	if err != nil {
		return fmt.Errorf("the tracker's address: %w", err)
	}
	n.o.TrackerListen = at.Host
	return n.startTracker(ctx)
}

func (n *Net) dir(name string) string { return filepath.Join(n.o.Data, name) }

// Node is a started engine.
type Node struct {
	*Proc
	ID     string
	Seam   string
	Layers string
}

// NodeOptions say what a node holds.
type NodeOptions struct {
	Model  string   // file or catalog name; "" leaves the choice to the tracker
	Layers string   // "" as for "neuron-engine run"
	Args   []string // more flags of "neuron-engine run"
	// Wrap is a command that runs the engine (a tracer), with its arguments.
	Wrap []string
}

// StartNode starts an engine in a data folder called name.
func (n *Net) StartNode(ctx context.Context, name string, o NodeOptions) (*Node, error) {
	args := append([]string{"run", "--data", n.dir(name), "--tracker", n.TrackerURL, "--threads", "1"}, o.Args...)
	if o.Model != "" {
		args = append(args, "--model", o.Model)
	}
	if o.Layers != "" {
		args = append(args, "--layers", o.Layers)
	}
	return n.startEngine(ctx, name, o, args)
}

// StartSeeder starts an engine that gives files away and holds no layers.
func (n *Net) StartSeeder(ctx context.Context, name string, files ...string) (*Node, error) {
	return n.startEngine(ctx, name, NodeOptions{}, append([]string{"seed", "--data", n.dir(name), "--tracker", n.TrackerURL}, files...))
}

// Publish puts a GGUF into the tracker's catalog, with the tracker's own
// command, and returns when the running tracker has seen it.
func (n *Net) Publish(ctx context.Context, path string, args ...string) error {
	src, err := artifact.Inspect(ctx, path, "", logging.Discard())
	if err != nil {
		return err
	}
	bin := filepath.Join(n.o.Bin, "neuron-tracker")
	args = append([]string{"publish", "--data", n.dir("tracker")}, append(args, path)...)
	out, err := exec.CommandContext(ctx, bin, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("publish: %w: %s", err, strings.TrimSpace(string(out)))
	}
	return n.waitCatalog(ctx, src.ID)
}

func (n *Net) startEngine(ctx context.Context, name string, o NodeOptions, args []string) (*Node, error) {
	p, line, err := n.spawn(ctx, name, o.Wrap, "neuron-engine", args...)
	if err != nil {
		return nil, err
	}
	x := &Node{Proc: p, Layers: o.Layers}
	if _, err := fmt.Sscanf(line, "node %s seam %s", &x.ID, &x.Seam); err != nil {
		return nil, fmt.Errorf("%s: unexpected first line %q", name, line)
	}
	return x, nil
}

// StartGateway starts a gateway in a process of its own.
func (n *Net) StartGateway(ctx context.Context, name string, models []string, args ...string) (*Proc, error) {
	all := []string{"gateway", "--data", n.dir(name), "--tracker", n.TrackerURL}
	for _, m := range models {
		all = append(all, "--model", m)
	}
	p, _, err := n.spawn(ctx, name, nil, "neuron-engine", append(all, args...)...)
	return p, err
}

// spawn starts a program and waits for its first line on standard output.
func (n *Net) spawn(ctx context.Context, name string, wrap []string, program string, args ...string) (*Proc, string, error) {
	p, err := n.launch(name, wrap, program, args...)
	if err != nil {
		return nil, "", err
	}
	timer := time.NewTimer(startTimeout)
	defer timer.Stop()
	select {
	case line, ok := <-p.line:
		if ok {
			n.keep(p)
			return p, line, nil
		}
		<-p.done
		return nil, "", fmt.Errorf("%s ended at once: %s", name, p.lastWords())
	case <-timer.C:
		return nil, "", errors.Join(fmt.Errorf("%s is not ready after %s", name, startTimeout), p.Stop())
	case <-ctx.Done():
		return nil, "", errors.Join(context.Cause(ctx), p.Stop())
	}
}

// keep has Stop end the process too.
func (n *Net) keep(p *Proc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.procs = append(n.procs, p)
}

// launch starts a program.
func (n *Net) launch(name string, wrap []string, program string, args ...string) (*Proc, error) {
	logPath := filepath.Join(n.o.Data, "logs", name+".log")
	// A process that was killed and started again goes on with its log.
	logFile, err := os.OpenFile(logPath, os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return nil, fmt.Errorf("log of %s: %w", name, err)
	}
	defer logFile.Close() // the child has its own descriptor
	bin, err := filepath.Abs(filepath.Join(n.o.Bin, program))
	if err != nil {
		return nil, fmt.Errorf("program folder: %w", err)
	}
	argv := append(append(append([]string{}, wrap...), bin), args...)
	p := &Proc{Name: name, Data: n.dir(name), Log: logPath, done: make(chan struct{}), line: make(chan string, 1)}
	p.cmd = exec.Command(argv[0], argv[1:]...)
	p.cmd.Stderr = logFile
	p.cmd.Env = append(os.Environ(), "NEURON_LOG="+n.level())
	// Ctrl-C at the terminal must reach the network's owner only, which stops
	// its parts in order.
	p.cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true}
	out, err := p.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	if err := p.cmd.Start(); err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	go n.own(p, out)
	return p, nil
}

func (n *Net) level() string {
	if n.o.LogLevel == "" {
		return "info"
	}
	return n.o.LogLevel
}

// own reads the process's output to its end and waits for it.
func (n *Net) own(p *Proc, out io.Reader) {
	defer close(p.done)
	r := bufio.NewReader(out)
	line, err := r.ReadString('\n')
	started := err == nil
	if started {
		p.line <- strings.TrimSpace(line)
	}
	close(p.line)                 // one without a line is reported by spawn
	_, _ = io.Copy(io.Discard, r) // until the process closes it; what it prints later is of no use here
	err = p.cmd.Wait()
	p.mu.Lock()
	p.exitErr = err
	asked := p.asked
	p.mu.Unlock()
	if started && !asked {
		select {
		case n.died <- p:
		default:
		}
	}
}

// Died delivers a process that ended without being asked.
func (n *Net) Died() <-chan *Proc { return n.died }

// lastWords is the end of the process's log.
func (p *Proc) lastWords() string {
	raw, err := os.ReadFile(p.Log)
	if err != nil {
		return err.Error()
	}
	lines := strings.Split(strings.TrimSpace(string(raw)), "\n")
	return strings.Join(lines[max(0, len(lines)-3):], "; ")
}

// Describe says how a process ended.
func (p *Proc) Describe() string {
	p.mu.Lock()
	err := p.exitErr
	p.mu.Unlock()
	return fmt.Sprintf("%s ended (%v): %s", p.Name, err, p.lastWords())
}

// Pid is the process id.
func (p *Proc) Pid() int { return p.cmd.Process.Pid }

// Stop ends the process in order and waits; one that does not end is killed,
// which is an error.
func (p *Proc) Stop() error {
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
	select {
	case <-p.done: // its id may belong to others by now
		return nil
	default:
	}
	// A tracer passes no signals on: the whole group gets it. What is frozen
	// there would never see it.
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGCONT} {
		if err := syscall.Kill(-p.Pid(), sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("stop %s: %w", p.Name, err)
		}
	}
	timer := time.NewTimer(stopTimeout)
	defer timer.Stop()
	select {
	case <-p.done:
		return nil
	case <-timer.C:
		err := syscall.Kill(-p.Pid(), syscall.SIGKILL)
		<-p.done
		return errors.Join(fmt.Errorf("%s did not end within %s", p.Name, stopTimeout), err)
	}
}

// Kill ends the process at once, as a crash does, and takes it out of the
// network. Its stages end by themselves.
func (n *Net) Kill(p *Proc) error {
	n.drop(p)
	p.mu.Lock()
	p.asked = true
	p.mu.Unlock()
	if err := p.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		return fmt.Errorf("kill %s: %w", p.Name, err)
	}
	<-p.done
	return nil
}

// Freeze stops the process in its tracks; Thaw lets it go on. Its stages are
// processes of their own.
func (p *Proc) Freeze() error { return p.signal(syscall.SIGSTOP) }

// Thaw ends Freeze.
func (p *Proc) Thaw() error { return p.signal(syscall.SIGCONT) }

func (p *Proc) signal(s syscall.Signal) error {
	if err := p.cmd.Process.Signal(s); err != nil {
		return fmt.Errorf("%s of %s: %w", s, p.Name, err)
	}
	return nil
}

func (n *Net) drop(p *Proc) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for i, x := range n.procs {
		if x == p {
			n.procs = append(n.procs[:i:i], n.procs[i+1:]...)
			break
		}
	}
}

// Forget stops a process and takes it out of the network.
func (n *Net) Forget(p *Proc) error {
	n.drop(p)
	return p.Stop()
}

// Stop ends all processes, the last started first.
func (n *Net) Stop() error {
	n.mu.Lock()
	procs := n.procs
	n.procs = nil
	n.mu.Unlock()
	var err error
	for i := len(procs) - 1; i >= 0; i-- {
		err = errors.Join(err, procs[i].Stop())
	}
	return err
}
