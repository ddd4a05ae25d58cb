// Package launch finds the programs of Neuron that belong to this one, starts
// them so that they live on by themselves, and stops the engine in order.
//
// Window and tray import it. It knows the programs' names and command lines, the
// local API's client, and no screen.
//
// Programs are started without a terminal and without a console window; what
// they would write there goes to NAME.out in the data folder's logs, beside the
// logs that they keep themselves.
package launch

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"runtime"
	"strings"
	"sync"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/folders"
	"neuron/internal/desktop/instance"
)

// Names of the programs, without the ending that Windows wants.
const (
	EngineName = "neuron-engine"
	TrayName   = "neuron-tray"
	WindowName = "neuron"
)

// here is the folder in which this program lay when it started, "" when the
// system does not say. An upgrade moves the folder away under a running program;
// asked then, Linux names the new place, with programs of the version before.
var here = folder()

func folder() string {
	self, err := os.Executable()
	if err != nil {
		return ""
	}
	if real, err := filepath.EvalSymlinks(self); err == nil {
		self = real
	}
	return filepath.Dir(self)
}

// Find gives the path of a program: beside this one, where that lay when it
// started, else in the PATH. Error: not_found.
func Find(name string) (string, error) { return find(name, here) }

func find(name, beside string) (string, error) {
	if runtime.GOOS == "windows" {
		name += ".exe"
	}
	path := filepath.Join(beside, name)
	if info, err := os.Stat(path); err == nil && info.Mode().IsRegular() {
		return path, nil
	}
	if path, err := exec.LookPath(name); err == nil && filepath.IsAbs(path) {
		return path, nil
	}
	return "", protocol.Errorf(protocol.CodeNotFound, "the program %s is neither in %s nor in the PATH; install Neuron again", name, beside)
}

// Programs starts the programs of one data folder. It is safe for concurrent
// use. For each program that it started a goroutine waits until that one ends,
// which may be after this program.
type Programs struct {
	Data   string
	Logger *slog.Logger
	// Find is the function Find, unless a test has another one.
	Find func(name string) (string, error)

	starting sync.Mutex // one engine at a time

	mu     sync.Mutex
	engine *child // the last one that was started; guarded by mu
}

// answer is how long a new engine may take until it answers: it may check files
// first, on a slow disk.
const answer = time.Minute

// Engine starts an engine and returns when it answers. When one answers
// already, it returns at once. Errors: not_found (no such program), the engine's
// own (disk_full, data_folder, already_running, ...) when it ends at once,
// timeout, cancelled.
func (p *Programs) Engine(ctx context.Context) error {
	p.starting.Lock()
	defer p.starting.Unlock()
	if answers(p.Data) {
		return nil
	}
	child, err := p.start(EngineName, "engine.out", "desktop")
	if err != nil {
		return err
	}
	p.mu.Lock()
	p.engine = child
	p.mu.Unlock()
	limit := time.NewTimer(answer)
	defer limit.Stop()
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for {
		select {
		case <-ctx.Done():
			return protocol.Errorf(protocol.CodeCancelled, "starting the engine was given up: %w", ctx.Err())
		case <-child.done:
			if answers(p.Data) {
				return nil // another one was faster
			}
			return child.lastWords()
		case <-limit.C:
			return protocol.Errorf(protocol.CodeTimeout, "the engine runs and does not answer; what it wrote is in %s", child.log)
		case <-look.C:
			if answers(p.Data) {
				return nil
			}
		}
	}
}

func answers(data string) bool {
	// Without the file there is nothing to ask; this spares a new connection.
	if _, err := os.Stat(filepath.Join(data, localapi.AddressFile)); err != nil {
		return false
	}
	c, err := localapi.Dial(data)
	if err != nil {
		return false
	}
	c.Close()
	return true
}

// Window brings the window to the front, starting it when it does not run.
// Errors: not_found, internal.
func (p *Programs) Window(ctx context.Context) error {
	if instance.Send(ctx, p.Data, instance.Window, instance.Show) == nil {
		return nil
	}
	// A window that hangs answers to nobody; a second launch of it says so.
	_, err := p.start(WindowName, "window.out")
	return err
}

// Tray starts the tray, unless it runs; it shows nothing but its icon. Errors:
// not_found, internal.
func (p *Programs) Tray() error {
	if instance.Running(p.Data, instance.Tray) {
		return nil
	}
	_, err := p.start(TrayName, "tray.out", "--hidden")
	return err
}

// EndWindow asks the window to end; nil when none runs.
func (p *Programs) EndWindow(ctx context.Context) error {
	err := instance.Send(ctx, p.Data, instance.Window, instance.Quit)
	if errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
		return nil
	}
	return err
}

// StopEngine asks the engine to finish its sessions and to end, and waits until
// it is gone or ctx ends; nil when none runs. One that was just started and does
// not answer yet is waited for. Errors: timeout, and those of the local API.
func (p *Programs) StopEngine(ctx context.Context) error {
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	asked := false
	for {
		there := answers(p.Data)
		if !there && (asked || !p.coming()) {
			return nil
		}
		if there && !asked {
			if err := shutDown(ctx, p.Data); err != nil && answers(p.Data) {
				return err
			}
			asked = true
		}
		select {
		case <-ctx.Done():
			return protocol.Errorf(protocol.CodeTimeout, "the engine has not ended in time: %w", ctx.Err())
		case <-look.C:
		}
	}
}

func shutDown(ctx context.Context, data string) error {
	c, err := localapi.Dial(data)
	if err != nil {
		return err
	}
	defer c.Close()
	// A second order would cut off what the engine finishes; others may have
	// given the first.
	if s, err := c.Status(ctx); err == nil && s.Ending != nil {
		return nil
	}
	return c.Shutdown(ctx)
}

// coming reports whether an engine of ours is alive.
func (p *Programs) coming() bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.engine == nil {
		return false
	}
	select {
	case <-p.engine.done:
		return false
	default:
		return true
	}
}

// child is a program that was started.
type child struct {
	log   string
	from  int64         // where in the log its own words begin
	done  chan struct{} // closed when it has ended
	state *os.ProcessState
}

// start starts a program with the data folder; it outlives this one.
func (p *Programs) start(name, output string, args ...string) (*child, error) {
	data, err := filepath.Abs(p.Data) // it runs in another folder than this one
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "the data folder: %w", err)
	}
	lookUp := p.Find
	if lookUp == nil {
		lookUp = Find
	}
	path, err := lookUp(name)
	if err != nil {
		return nil, err
	}
	out, err := OpenLog(p.Data, output)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	c := &child{log: out.Name(), done: make(chan struct{})}
	if info, err := out.Stat(); err == nil {
		c.from = info.Size()
	}
	cmd := exec.Command(path, append(args, "--data", data)...)
	cmd.Dir = filepath.Dir(path) // no folder of the user's is kept busy
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = alone()
	if err := cmd.Start(); err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "start %s: %w", path, err)
	}
	if p.Logger != nil {
		p.Logger.Info("program started", "name", name, "pid", cmd.Process.Pid)
	}
	go func() {
		defer close(c.done)
		_ = cmd.Wait() // the state tells
		c.state = cmd.ProcessState
		if p.Logger != nil {
			p.Logger.Info("program ended", "name", name, "state", c.state.String())
		}
	}()
	return c, nil
}

// said is how the engine's command line ends with an error.
var said = regexp.MustCompile(`(?m)^neuron-engine: (.*) \(([a-z_]+)\)$`)

// lastWords makes an error of what a program that has ended wrote last.
func (c *child) lastWords() *protocol.Error {
	text := tail(c.log, c.from)
	all := said.FindAllStringSubmatch(text, -1)
	if len(all) > 0 {
		if last := all[len(all)-1]; protocol.Code(last[2]).Known() {
			return protocol.Errorf(protocol.Code(last[2]), "%s", last[1])
		}
	}
	return protocol.Errorf(protocol.CodeInternal, "the engine has ended at once (%s); what it wrote is in %s", c.state, c.log)
}

// maxTail bounds what is read of a log, in bytes.
const maxTail = 16 << 10

func tail(path string, from int64) string {
	f, err := os.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	if info, err := f.Stat(); err == nil {
		from = max(from, info.Size()-maxTail)
	}
	b, err := io.ReadAll(io.NewSectionReader(f, from, maxTail))
	if err != nil {
		return ""
	}
	return strings.ReplaceAll(string(b), "\r\n", "\n")
}

// maxLog is the size from which on a log begins anew, in bytes.
const maxLog = 4 << 20

// OpenLog opens a log in the data folder for adding to it. One that has grown
// large is kept as NAME.1 and begun anew. Errors: data_folder.
func OpenLog(data, name string) (*os.File, error) {
	dir := folders.Logs(data)
	if err := folders.Make(dir); err != nil {
		return nil, err
	}
	path := filepath.Join(dir, name)
	if info, err := os.Stat(path); err == nil && info.Size() > maxLog {
		// On Windows a log that another program writes cannot be moved: it grows.
		_ = os.Rename(path, path+".1")
	}
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_APPEND|os.O_CREATE, 0o600)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "open the log: %w", err)
	}
	return f, nil
}
