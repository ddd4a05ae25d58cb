package stage

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/stage/wire"
	"neuron/internal/lastwords"
)

// Spawn says how to start a stage process.
type Spawn struct {
	// Exe and Args run the program whose main calls worker.Run.
	Exe  string
	Args []string
	// Silence is how long the child may give no sign of life (it pings every
	// second, also while it computes). Default 3 s; startFactor times as long
	// until it has loaded.
	Silence time.Duration
	Logger  *slog.Logger
}

const (
	defaultSilence = 3 * time.Second
	// startFactor: no session waits for a child that loads, and on a busy computer
	// a process may need seconds until it runs at all.
	startFactor = 5
	loadTimeout = 10 * time.Minute
	stderrKept  = 64 << 10
	// exitGrace is how long a child may take to end after its input has.
	exitGrace = 5 * time.Second
)

// child is one life of a stage process. Its goroutines (the reader, the owner
// of the process, and os/exec's copy of stderr) have ended when done is closed.
type child struct {
	// Constant after start.
	spawn  Spawn
	cmd    *exec.Cmd
	stderr *lastwords.Ring
	stdin  io.WriteCloser
	loaded wire.Loaded
	done   chan struct{} // closed after everything below is final

	// handle is called by the reader for each frame but pings.
	handle func(*protocol.Frame)

	writeMu sync.Mutex // guards fw
	fw      *protocol.FrameWriter

	ready     atomic.Bool  // it has loaded
	began     time.Time    // the clock of lastHeard, which wall time must not move
	lastHeard atomic.Int64 // nanoseconds since began
	stats     atomic.Pointer[wire.Stats]

	errMu sync.Mutex
	err   *protocol.Error // why it ended; guarded by errMu
}

// childEnv are the variables that a stage process gets to see.
var childEnv = []string{"PATH", "HOME", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "LD_LIBRARY_PATH", "NEURON_LOG", "NEURON_LLAMA_DIR", "GGML_VK_VISIBLE_DEVICES", "CUDA_VISIBLE_DEVICES"}

// LibraryEnv is what a process that loads libllama starts with: the library reads
// it when it is loaded, the C library before that. The caller may change it.
func LibraryEnv() []string {
	return []string{
		"GGML_NO_BACKTRACE=1", // else ggml_abort runs gdb when it is installed
		// Without a fixed threshold glibc keeps blocks of up to 32 MiB for itself
		// after their first free (mallopt(3)): an empty pool's memory would not go
		// back to the system. Other systems ignore both.
		"MALLOC_MMAP_THRESHOLD_=1048576",
		"MALLOC_TRIM_THRESHOLD_=4194304",
		// Weights and KV memory in pages of 2 MiB where the kernel gives them on
		// request (glibc 2.35 and later; others ignore it). A step reads every page of
		// its weights; in small ones it pays for each whenever the kernel or a
		// hypervisor has looked which pages are in use (docs/decisions/0016).
		"GLIBC_TUNABLES=glibc.malloc.hugetlb=1",
	}
}

// oneProcessor is for a stage. One goroutine at a time is all that it needs while
// the model computes. With more, Go's monitor looks after the call into the model
// every 0.1 ms for its first 5 ms, on a core that computes, and each hand-over
// between goroutines wakes a thread that finds nothing to do.
const oneProcessor = "GOMAXPROCS=1"

// startChild starts the process and loads. handle gets the frames that follow;
// it must not block. ended, if set, runs before done is closed.
func startChild(ctx context.Context, s Spawn, load wire.Load, handle func(*protocol.Frame), ended func(*protocol.Error)) (*child, error) {
	if s.Silence == 0 {
		s.Silence = defaultSilence
	}
	c := &child{spawn: s, began: time.Now(), handle: handle, done: make(chan struct{}), stderr: lastwords.New(stderrKept)}
	c.cmd = exec.Command(s.Exe, s.Args...)
	c.cmd.Stderr = c.stderr
	c.cmd.Env = append(LibraryEnv(), oneProcessor)
	for _, k := range childEnv {
		if v, ok := os.LookupEnv(k); ok {
			c.cmd.Env = append(c.cmd.Env, k+"="+v)
		}
	}
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, fmt.Errorf("stage pipe: %w", err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, fmt.Errorf("stage pipe: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, protocol.Errorf(protocol.CodeStageLost, "the stage process does not start: %w", err)
	}
	c.stdin = stdin
	c.fw = protocol.NewFrameWriter(stdin, protocol.PipeLimits())
	c.heard()

	loaded := make(chan wire.Loaded, 1)
	readEnd := make(chan struct{})
	go func() {
		defer close(readEnd)
		c.read(stdout, loaded)
	}()
	go c.own(readEnd, ended)

	if err := c.sendJSON(protocol.KindOpen, 0, load); err != nil {
		return nil, c.giveUp(nil)
	}
	timer := time.NewTimer(loadTimeout)
	defer timer.Stop()
	took := func(l wire.Loaded) (*child, error) {
		if l.Error != nil {
			c.stop()
			return nil, l.Error
		}
		c.loaded = l
		c.ready.Store(true)
		return c, nil
	}
	select {
	case l := <-loaded:
		return took(l)
	case <-c.done:
		select { // it may have said why and ended since
		case l := <-loaded:
			return took(l)
		default:
			return nil, c.cause()
		}
	case <-timer.C:
		return nil, c.giveUp(protocol.Errorf(protocol.CodeStageFrozen, "the stage did not load within %s", loadTimeout))
	case <-ctx.Done():
		return nil, c.giveUp(protocol.Errorf(protocol.CodeShutdown, "loading was stopped: %w", context.Cause(ctx)))
	}
}

// giveUp kills the process, waits for its end and returns why: err, or what
// the process says.
func (c *child) giveUp(err *protocol.Error) error {
	if err != nil {
		c.fail(err)
	}
	c.kill()
	<-c.done
	return c.cause()
}

// own waits for the end of the process and watches for silence. It is the last
// goroutine of a child.
func (c *child) own(readEnd <-chan struct{}, ended func(*protocol.Error)) {
	defer close(c.done)
	every := c.spawn.Silence / 4
	tick := time.NewTicker(every)
	defer tick.Stop()
	last := time.Now()
	for reading := true; reading; {
		select {
		case <-readEnd: // the pipe must be read to its end before Wait closes it
			reading = false
		case now := <-tick.C:
			if now.Sub(last) > 2*every {
				// It was this process that did not run: what the child said
				// meanwhile has not been read yet.
				c.heard()
			}
			last = now
			most := c.spawn.Silence
			if !c.ready.Load() {
				most *= startFactor
			}
			if quiet := now.Sub(c.began) - time.Duration(c.lastHeard.Load()); quiet > most {
				c.fail(protocol.Errorf(protocol.CodeStageFrozen, "the stage gave no sign of life for %s", quiet.Round(time.Millisecond)))
				c.kill()
			}
		}
	}
	// A child whose output has ended has nothing to live for.
	kill := time.AfterFunc(exitGrace, c.kill)
	err := c.cmd.Wait()
	kill.Stop()
	c.fail(c.exitError(err))
	if ended != nil {
		ended(c.cause())
	}
}

// heard notes a sign of life.
func (c *child) heard() { c.lastHeard.Store(int64(time.Since(c.began))) }

// read only reads, until the pipe ends.
func (c *child) read(stdout io.Reader, loaded chan<- wire.Loaded) {
	r := protocol.NewFrameReader(stdout, protocol.PipeLimits())
	for {
		f, err := r.Read()
		if err != nil {
			if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
				c.fail(protocol.Errorf(protocol.CodeStageLost, "the stage's output broke: %w", err))
				c.kill()
			}
			return
		}
		c.heard()
		switch {
		case f.Kind == protocol.KindPing:
			var s wire.Stats
			if json.Unmarshal(f.Payload, &s) == nil {
				c.stats.Store(&s)
			}
		case f.Kind == protocol.KindOpened && f.Slot == 0:
			var l wire.Loaded
			if err := json.Unmarshal(f.Payload, &l); err != nil {
				l.Error = protocol.Errorf(protocol.CodeStageLost, "the stage's report is malformed: %w", err)
			}
			c.stats.Store(&l.Stats)
			select {
			case loaded <- l:
			default: // a second report changes nothing
			}
		default:
			c.handle(f)
		}
	}
}

// send writes one frame; it blocks while the child's inbox is full.
func (c *child) send(f *protocol.Frame) error {
	c.writeMu.Lock()
	defer c.writeMu.Unlock()
	if err := c.fw.Write(f); err != nil {
		var pe *protocol.Error
		if errors.As(err, &pe) { // our own frame breaks the format
			return pe
		}
		return c.gone()
	}
	return nil
}

func (c *child) sendJSON(k protocol.Kind, slot uint32, v any) error {
	f, err := protocol.JSONFrame(k, slot, v)
	if err != nil {
		return err
	}
	return c.send(f)
}

// gone is the error of using a child that ends.
func (c *child) gone() *protocol.Error {
	if e := c.cause(); e != nil { // known before its end when we end it
		return e
	}
	return protocol.Errorf(protocol.CodeStageLost, "the stage process has ended")
}

// fail keeps the first reason.
func (c *child) fail(e *protocol.Error) {
	c.errMu.Lock()
	defer c.errMu.Unlock()
	if c.err == nil {
		c.err = e
	}
}

func (c *child) cause() *protocol.Error {
	c.errMu.Lock()
	defer c.errMu.Unlock()
	return c.err
}

func (c *child) exitError(err error) *protocol.Error {
	if err == nil {
		return protocol.Errorf(protocol.CodeShutdown, "the stage process ended in order")
	}
	last := c.stderr.Fault()
	c.spawn.Logger.Error("Stage process died", "error", err, "fault", last)
	return protocol.Errorf(protocol.CodeStageLost, "the stage process died: %w", err)
}

// kill ends the process at once.
func (c *child) kill() {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.spawn.Logger.Warn("Stage process cannot be killed", "error", err)
	}
}

// stop ends the process in order: its input ends, it frees its memory and
// exits; after a grace time it is killed. Returns when it is gone.
func (c *child) stop() {
	c.fail(protocol.Errorf(protocol.CodeShutdown, "the stage was stopped"))
	// A blocked writer holds writeMu until the pipe closes under it.
	if err := c.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		c.spawn.Logger.Warn("Stage input does not close", "error", err)
	}
	timer := time.AfterFunc(exitGrace, c.kill)
	defer timer.Stop()
	<-c.done
}
