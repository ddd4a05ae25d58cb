package swarm

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"sync"
	"sync/atomic"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/lastwords"
)

const (
	stderrKept = 64 << 10
	// exitGrace is how long a child may take to end after its input has: it
	// tells trackers and closes files.
	exitGrace = 10 * time.Second
)

// childEnv are the variables that the child gets to see: Go's certificate and
// proxy settings belong to fetching. Those of the BitTorrent library do not.
var childEnv = []string{
	"PATH", "HOME", "TMPDIR", "TEMP", "TMP", "SYSTEMROOT", "NEURON_LOG",
	"SSL_CERT_FILE", "SSL_CERT_DIR", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
}

// child is one life of the BitTorrent process. Its goroutines (reader, writer,
// the owner of the process, and os/exec's copy of stderr) have ended when done
// is closed.
type child struct {
	spawn  Spawn
	cmd    *exec.Cmd
	stderr *lastwords.Ring
	stdin  io.WriteCloser
	heard  func(Status)
	next   chan Wanted   // the newest that has not been written
	over   chan struct{} // closed when the process has ended: the writer ends too
	done   chan struct{} // closed after everything is final

	began     time.Time    // the clock of lastHeard, which wall time must not move
	lastHeard atomic.Int64 // nanoseconds since began

	mu  sync.Mutex
	err *protocol.Error // why it ended; guarded by mu
}

// startChild starts the process. heard gets each status; it must not block.
func startChild(s Spawn, heard func(Status)) (*child, *protocol.Error) {
	c := &child{
		spawn: s, stderr: lastwords.New(stderrKept), heard: heard, began: time.Now(),
		next: make(chan Wanted, 1), over: make(chan struct{}), done: make(chan struct{}),
	}
	c.cmd = exec.Command(s.Exe, s.Args...)
	c.cmd.Stderr = c.stderr
	c.cmd.Env = []string{}
	for _, k := range childEnv {
		if v, ok := os.LookupEnv(k); ok {
			c.cmd.Env = append(c.cmd.Env, k+"="+v)
		}
	}
	stdin, err := c.cmd.StdinPipe()
	if err != nil {
		return nil, lostf("pipe: %w", err)
	}
	stdout, err := c.cmd.StdoutPipe()
	if err != nil {
		return nil, lostf("pipe: %w", err)
	}
	if err := c.cmd.Start(); err != nil {
		return nil, lostf("the BitTorrent process does not start: %w", err)
	}
	c.stdin = stdin
	readEnd, writeEnd := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(readEnd)
		c.read(stdout)
	}()
	go func() {
		defer close(writeEnd)
		c.write()
	}()
	go c.own(readEnd, writeEnd)
	return c, nil
}

// want replaces what the writer sends next; it never blocks. Only the host's
// goroutine calls it.
func (c *child) want(w Wanted) {
	select {
	case <-c.next: // an older one that nobody needs any more
	default:
	}
	c.next <- w
}

// write only writes, until the process is over.
func (c *child) write() {
	for {
		select {
		case <-c.over:
			return
		case w := <-c.next:
			line, err := json.Marshal(w)
			if err != nil {
				c.fail(lostf("message to the BitTorrent process: %w", err))
				c.kill()
				return
			}
			// A pipe that breaks is a process that ends; the reader sees it too.
			if _, err := c.stdin.Write(append(line, '\n')); err != nil {
				return
			}
		}
	}
}

// read only reads, until the pipe ends.
func (c *child) read(stdout io.Reader) {
	lines := NewLines(stdout)
	for {
		line, err := lines.Next()
		if err == nil {
			var s Status
			if s, err = ParseStatus(line); err == nil {
				c.noteLife()
				c.heard(s)
				continue
			}
		}
		if !errors.Is(err, io.EOF) && !errors.Is(err, os.ErrClosed) {
			c.fail(lostf("the output of the BitTorrent process broke: %w", err))
			c.kill()
		}
		return
	}
}

func (c *child) noteLife() { c.lastHeard.Store(int64(time.Since(c.began))) }

// own waits for the end of the process and watches for silence. It is the last
// goroutine of a child.
func (c *child) own(readEnd, writeEnd <-chan struct{}) {
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
				c.noteLife() // it was this process that did not run
			}
			last = now
			if quiet := now.Sub(c.began) - time.Duration(c.lastHeard.Load()); quiet > c.spawn.Silence {
				c.fail(lostf("the BitTorrent process gave no sign of life for %s", quiet.Round(time.Millisecond)))
				c.kill()
			}
		}
	}
	// A child whose output has ended has nothing to live for.
	kill := time.AfterFunc(exitGrace, c.kill)
	err := c.cmd.Wait() // closes stdin, so that a blocked writer ends
	kill.Stop()
	close(c.over)
	<-writeEnd
	c.fail(c.exitError(err))
}

func (c *child) exitError(err error) *protocol.Error {
	if err == nil {
		return lostf("the BitTorrent process ended by itself")
	}
	c.spawn.Logger.Error("BitTorrent process died", "error", err, "fault", c.stderr.Fault())
	return lostf("the BitTorrent process died: %w", err)
}

// fail keeps the first reason.
func (c *child) fail(e *protocol.Error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = e
	}
}

// cause is why the child ended; valid after done.
func (c *child) cause() *protocol.Error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.err
}

// kill ends the process at once.
func (c *child) kill() {
	if err := c.cmd.Process.Kill(); err != nil && !errors.Is(err, os.ErrProcessDone) {
		c.spawn.Logger.Warn("BitTorrent process cannot be killed", "error", err)
	}
}

// stop ends the process in order: its input ends, it closes its files and
// exits; after a grace time it is killed. Returns when it is gone.
func (c *child) stop() {
	c.fail(protocol.Errorf(protocol.CodeShutdown, "the BitTorrent process was stopped"))
	// A blocked writer sees the pipe close under it.
	if err := c.stdin.Close(); err != nil && !errors.Is(err, os.ErrClosed) {
		c.spawn.Logger.Warn("BitTorrent input does not close", "error", err)
	}
	timer := time.AfterFunc(exitGrace, c.kill)
	defer timer.Stop()
	<-c.done
}

func lostf(format string, args ...any) *protocol.Error {
	return protocol.Errorf(protocol.CodeSwarmLost, "%w", fmt.Errorf(format, args...))
}
