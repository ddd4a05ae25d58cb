//go:build unix

package stage_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"neuron/engine/artifact"
	"neuron/engine/protocol"
	"neuron/engine/seam"
	"neuron/engine/seam/seamtest"
	"neuron/engine/stage"
	"neuron/engine/stage/wire"
	"neuron/internal/leaktest"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// hosted runs a shard under a Host and waits until it is ready.
func hosted(t *testing.T, s *artifact.Shard, sp stage.Spawn) *stage.Host {
	t.Helper()
	load := loadOf(t, s)
	h := stage.NewHost(stage.HostOptions{
		Spawn: sp, Load: load, Report: s.Capability(chunkRows), Prepare: s.Prepare, Logger: slog.New(slog.DiscardHandler),
	})
	run(t, h)
	until(t, patience, "the stage is ready", func() bool { return h.Process() != nil })
	return h
}

// run owns a Host's goroutine.
func run(t *testing.T, h *stage.Host) {
	ctx, cancel := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	wg.Go(func() { h.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		wg.Wait()
	})
}

// loss reads frames until the channel closes and returns the reason.
func loss(t *testing.T, s *seamtest.Session) *protocol.Error {
	t.Helper()
	var why *protocol.Error
	for {
		f := next(t, s)
		if f == nil {
			return why
		}
		if f.Kind == protocol.KindError {
			why = f.Err()
		}
	}
}

// TestKilledStage: an abort inside the library looks the same. Sessions learn
// it, in prefill as in decode, and the host has another stage within 3 s.
func TestKilledStage(t *testing.T) {
	leaktest.Check(t)
	h := hosted(t, layers(t, guidePath(), 0, 8), spawn())
	for _, phase := range []string{"prefill", "decode"} {
		p := h.Process()
		s := mustOpen(t, p, nil)
		other := mustOpen(t, p, nil)
		hops := []*seamtest.Session{s}
		switch phase {
		case "prefill":
			for pos := 0; pos < 192; pos += chunkRows {
				send(t, s, protocol.IDFrame(protocol.KindPrefill, uint32(pos), make([]int32, chunkRows)))
			}
		case "decode":
			answer(t, hops, []int32{1, 2, 3}, 2)
			send(t, s, sampled(protocol.IDFrame(protocol.KindDecode, 4, []int32{5})))
		}
		if err := syscall.Kill(p.Pid(), syscall.SIGKILL); err != nil {
			t.Fatal(err)
		}
		killed := time.Now()
		for _, x := range []*seamtest.Session{s, other} {
			if e := loss(t, x); e == nil || e.Code != protocol.CodeStageLost {
				t.Errorf("%s: reason %v", phase, e)
			}
		}
		select {
		case <-p.Done():
		case <-time.After(patience):
			t.Fatalf("%s: not done", phase)
		}
		if e := p.Err(); e == nil || e.Code != protocol.CodeStageLost {
			t.Errorf("%s: %v", phase, e)
		}
		if err := s.Send(within(t), protocol.IDFrame(protocol.KindDecode, 5, []int32{1})); err == nil {
			t.Errorf("%s: a lost stage takes rows", phase)
		}
		if err := s.Close(); err != nil {
			t.Errorf("%s: close: %v", phase, err)
		}
		if _, err := openSession(t, p, nil); code(err) != protocol.CodeStageLost {
			t.Errorf("%s: open on a lost stage: %v", phase, err)
		}
		until(t, 3*time.Second-time.Since(killed), phase+": another stage", func() bool {
			q := h.Process()
			return q != nil && q.Pid() != p.Pid()
		})
		if r := h.Report(); r.State != protocol.ShardReady {
			t.Errorf("%s: state %s", phase, r.State)
		}
	}
	// The new one works.
	if got := answer(t, []*seamtest.Session{mustOpen(t, h.Process(), nil)}, []int32{1, 2, 3}, 2); len(got) == 0 {
		t.Error("no answer")
	}
}

// TestFrozenStage: a stopped child gives no error by itself.
func TestFrozenStage(t *testing.T) {
	leaktest.Check(t)
	h := hosted(t, layers(t, guidePath(), 0, 4), spawn())
	p := h.Process()
	s := mustOpen(t, p, nil)
	if err := syscall.Kill(p.Pid(), syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	stopped := time.Now()
	send(t, s, protocol.IDFrame(protocol.KindDecode, 0, []int32{1}))
	if e := loss(t, s); e == nil || e.Code != protocol.CodeStageFrozen {
		t.Errorf("reason %v", e)
	}
	if took := time.Since(stopped); took > 5*time.Second {
		t.Errorf("noticed after %s", took)
	}
	<-p.Done()
	if err := syscall.Kill(p.Pid(), 0); !errors.Is(err, syscall.ESRCH) {
		t.Errorf("the frozen child is still there: %v", err)
	}
	until(t, patience, "another stage", func() bool { return h.Process() != nil && h.Process() != p })
}

func TestHostStates(t *testing.T) {
	leaktest.Check(t)
	s := layers(t, guidePath(), 0, 4)
	broken := errors.New("broken disk")
	var mu sync.Mutex
	fail := true
	var changes int
	h := stage.NewHost(stage.HostOptions{
		Spawn: spawn(), Load: loadOf(t, s), Report: s.Capability(chunkRows), Logger: slog.New(slog.DiscardHandler),
		Prepare: func(ctx context.Context) ([]string, func(), error) {
			mu.Lock()
			defer mu.Unlock()
			if fail {
				return nil, nil, broken
			}
			return s.Prepare(ctx)
		},
		Changed: func() {
			mu.Lock()
			defer mu.Unlock()
			changes++
		},
	})
	if r := h.Report(); r.State != protocol.ShardLoading || h.Process() != nil {
		t.Errorf("before Run: %+v", r)
	}
	run(t, h)
	until(t, patience, "the failure shows", func() bool { return h.Report().State == protocol.ShardFailed })
	if e := h.Report().Error; e == nil || e.Code != protocol.CodeModelInvalid || !strings.Contains(e.Message, "broken disk") {
		t.Errorf("error %v", e)
	}
	mu.Lock()
	fail = false
	mu.Unlock()
	until(t, patience, "it starts after all", func() bool { return h.Report().State == protocol.ShardReady })
	r := h.Report()
	if r.Error != nil || r.Capability.Width == 0 || r.Capability.WeightBytes == 0 || r.StepMicros <= 0 || r.ChunkMicros <= 0 || r.MaxSessions != 8 {
		t.Errorf("report %+v", r)
	}
	h.Drain(true)
	if r := h.Report(); r.State != protocol.ShardDraining {
		t.Errorf("state %s", r.State)
	}
	h.Drain(false)
	if r := h.Report(); r.State != protocol.ShardReady {
		t.Errorf("state %s", r.State)
	}
	mu.Lock()
	defer mu.Unlock()
	if changes < 4 {
		t.Errorf("%d changes were told", changes)
	}
}

// TestReportMissedANewSession: sessions were counted by the child's pings, and a
// node that stopped unloaded the stage under one that had just begun.
func TestReportMissedANewSession(t *testing.T) {
	leaktest.Check(t)
	h := hosted(t, layers(t, guidePath(), 0, 8), spawn())
	for range 3 {
		s := mustOpen(t, h.Process(), nil)
		if n := h.Report().Sessions; n != 1 {
			t.Errorf("%d sessions right after it was opened", n)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		if n := h.Report().Sessions; n != 0 {
			t.Errorf("%d sessions right after it was closed", n)
		}
	}
}

// TestStop ends in order: sessions learn it and the child is gone.
func TestStop(t *testing.T) {
	leaktest.Check(t)
	p := start(t, layers(t, guidePath(), 0, 4), nil)
	s := mustOpen(t, p, nil)
	p.Stop()
	if e := loss(t, s); e == nil || e.Code != protocol.CodeShutdown {
		t.Errorf("reason %v", e)
	}
	if e := p.Err(); e == nil || e.Code != protocol.CodeShutdown {
		t.Errorf("%v", e)
	}
	p.Stop()
}

// TestOpenAndStartEndWithTheirContext.
func TestContextsEnd(t *testing.T) {
	leaktest.Check(t)
	s := layers(t, guidePath(), 0, 4)
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	load := loadOf(t, s)
	paths, release, err := s.Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	load.Paths = paths
	if _, err := stage.Start(ended, spawn(), load, s.Capability(chunkRows)); code(err) != protocol.CodeShutdown {
		t.Errorf("start: %v", err)
	}
	release()
	p := start(t, s, nil)
	free := p.Capability().KVBytesPerCell * 8 * 256
	_, err = seamtest.Open(ended, p, seam.StageOpen{Session: protocol.NewSessionID(), Use: p.Capability().Loaded, Context: 256})
	// The answer may have come first.
	if c := code(err); c != protocol.CodeTimeout && err != nil {
		t.Errorf("open: %v", err)
	}
	if err != nil {
		until(t, patience, "nothing is held", func() bool { return p.Stats().FreeKVBytes == free && p.Stats().Sessions == 0 })
	}
}

// TestCancelInterruptsARunningChunk: the session goes on at the position where
// the chunk began, and its next row does not wait for the rest of it.
func TestCancelInterruptsARunningChunk(t *testing.T) {
	if _, err := os.Stat("/proc/self/stat"); err != nil {
		t.Skip("NOT TESTED: needs /proc to see that the child computes")
	}
	leaktest.Check(t)
	path := filepath.Join(t.TempDir(), "slow.gguf")
	shape := synth.Shape{Family: synth.FamilyLlama, Layers: 6, Embd: 1024, FF: 2048, Heads: 16, KVHeads: 16, HeadDim: 64, Vocab: 512, Context: 2048}
	if err := synth.Write(path, shape, synth.Options{Type: gguf.TypeQ4_0}); err != nil {
		t.Fatal(err)
	}
	const rows = protocol.MaxChunkRows
	p := start(t, layers(t, path, 0, 0), func(l *wire.Load) { l.ChunkRows, l.KVBudget = rows, 1<<30 })
	s := mustOpen(t, p, func(o *seam.StageOpen) { o.Context = 1024 })
	chunk := func(epoch uint32) *protocol.Frame {
		f := sampled(protocol.IDFrame(protocol.KindPrefill, 0, make([]int32, rows)))
		f.Epoch = epoch
		return f
	}
	began := time.Now()
	send(t, s, chunk(0))
	if f := next(t, s); f == nil || f.Kind != protocol.KindToken {
		t.Fatalf("got %v", f)
	}
	whole := time.Since(began)
	send(t, s, protocol.ControlFrame(protocol.KindTruncate, 0, 1, 0))
	idle := cpuTime(t, p.Pid())
	send(t, s, chunk(1))
	until(t, patience, "the child computes", func() bool { return cpuTime(t, p.Pid())-idle >= 40*time.Millisecond })
	cancelled := time.Now()
	send(t, s, protocol.ControlFrame(protocol.KindCancel, 0, 1, 0))
	send(t, s, protocol.ControlFrame(protocol.KindTruncate, 0, 2, 0))
	one := sampled(protocol.IDFrame(protocol.KindDecode, 0, []int32{1}))
	one.Epoch = 2
	send(t, s, one)
	f := next(t, s)
	if f == nil || f.Kind != protocol.KindToken || f.Pos != 1 || f.Epoch != 2 {
		t.Fatalf("got %+v", f)
	}
	if took := time.Since(cancelled); took > whole*2/3 {
		t.Errorf("the row after the cancel came after %s, a whole chunk takes %s", took, whole)
	}
	// Closing interrupts as well.
	send(t, s, protocol.ControlFrame(protocol.KindTruncate, 0, 3, 0))
	idle = cpuTime(t, p.Pid())
	send(t, s, chunk(3))
	until(t, patience, "the child computes", func() bool { return cpuTime(t, p.Pid())-idle >= 40*time.Millisecond })
	closing := time.Now()
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if took := time.Since(closing); took > whole*2/3 {
		t.Errorf("close took %s, a whole chunk takes %s", took, whole)
	}
}

// cpuTime is what a process has computed so far: fields 14 and 15 of
// /proc/PID/stat, in ticks of 10 ms.
func cpuTime(t *testing.T, pid int) time.Duration {
	t.Helper()
	raw, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		t.Fatal(err)
	}
	fields := strings.Fields(string(raw[bytes.LastIndexByte(raw, ')')+1:]))
	var ticks int64
	for _, f := range fields[11:13] {
		n, err := strconv.ParseInt(f, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		ticks += n
	}
	return time.Duration(ticks) * 10 * time.Millisecond
}

// program is a stage process without a Process around it.
type program struct {
	t   *testing.T
	cmd *exec.Cmd
	in  io.WriteCloser
	out io.ReadCloser
	r   *protocol.FrameReader
}

func newProgram(t *testing.T) *program {
	t.Helper()
	p := &program{t: t, cmd: exec.Command(os.Args[0], "stage")}
	p.cmd.Env = append(os.Environ(), "GGML_NO_BACKTRACE=1", noLinger)
	var err error
	if p.in, err = p.cmd.StdinPipe(); err != nil {
		t.Fatal(err)
	}
	if p.out, err = p.cmd.StdoutPipe(); err != nil {
		t.Fatal(err)
	}
	if err := p.cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p.r = protocol.NewFrameReader(p.out, protocol.PipeLimits())
	return p
}

// ended drains the output and returns how the process ended by itself.
func (p *program) ended() error {
	p.t.Helper()
	kill := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
	defer kill.Stop()
	io.Copy(io.Discard, p.out)
	return p.cmd.Wait()
}

func (p *program) write(b []byte) {
	p.t.Helper()
	if _, err := p.in.Write(b); err != nil && !errors.Is(err, syscall.EPIPE) {
		p.t.Fatal(err)
	}
}

func (p *program) frame(k protocol.Kind, slot uint32, v any) {
	p.t.Helper()
	f, err := protocol.JSONFrame(k, slot, v)
	if err != nil {
		p.t.Fatal(err)
	}
	b, err := protocol.AppendFrame(nil, f, protocol.PipeLimits())
	if err != nil {
		p.t.Fatal(err)
	}
	p.write(b)
}

// reply is the next frame but pings.
func (p *program) reply() *protocol.Frame {
	p.t.Helper()
	for {
		f, err := p.r.Read()
		if err != nil {
			p.t.Fatal(err)
		}
		if f.Kind != protocol.KindPing {
			return f
		}
	}
}

func (p *program) load(s *artifact.Shard) {
	p.t.Helper()
	l := loadOf(p.t, s)
	l.Paths = s.Source.Files
	p.frame(protocol.KindOpen, 0, l)
	var got wire.Loaded
	if f := p.reply(); json.Unmarshal(f.Payload, &got) != nil || got.Error != nil {
		p.t.Fatalf("loaded %s", f.Payload)
	}
}

// TestGarbageEndsTheChildInOrder: a parent that goes mad is answered by an
// orderly end, never by a crash, before loading and after.
func TestGarbageEndsTheChildInOrder(t *testing.T) {
	leaktest.Check(t)
	header := func(change func(b []byte)) []byte {
		b, err := protocol.AppendFrame(nil, protocol.ControlFrame(protocol.KindClose, 1, 0, 0), protocol.PipeLimits())
		if err != nil {
			t.Fatal(err)
		}
		change(b)
		return b
	}
	garbage := map[string][]byte{
		"text":         []byte(strings.Repeat("GET / HTTP/1.1\r\n", 20)),
		"zeros":        make([]byte, 4096),
		"half a frame": header(func([]byte) {})[:20],
		"huge length":  header(func(b []byte) { copy(b[32:], "\xff\xff\xff\xff") }),
		"wrong sum":    header(func(b []byte) { b[40] ^= 1 }),
		"unknown kind": header(func(b []byte) { b[5] = 200 }),
	}
	for name, b := range garbage {
		t.Run(name, func(t *testing.T) {
			p := newProgram(t)
			p.write(b)
			p.in.Close()
			if err := p.ended(); err != nil {
				t.Errorf("ended with %v", err)
			}
		})
	}
	t.Run("after loading", func(t *testing.T) {
		p := newProgram(t)
		p.load(layers(t, guidePath(), 0, 8))
		// Frames of slots that are not open and kinds that make no sense here.
		for _, k := range []protocol.Kind{protocol.KindTruncate, protocol.KindCancel, protocol.KindFork, protocol.KindAck, protocol.KindToken, protocol.KindPing} {
			p.write(mustAppend(t, protocol.ControlFrame(k, 9, 0, 0)))
		}
		p.write(mustAppend(t, &protocol.Frame{Header: protocol.Header{Kind: protocol.KindOpen, Slot: 3}, Payload: []byte("{")}))
		var o wire.Opened
		if f := p.reply(); f.Slot != 3 || json.Unmarshal(f.Payload, &o) != nil || code(o.Error) != protocol.CodeFrameInvalid {
			t.Errorf("answer %s %s", f.Kind, f.Payload)
		}
		p.write(mustAppend(t, &protocol.Frame{Header: protocol.Header{Kind: protocol.KindCall, Slot: 4}, Payload: []byte("[]")}))
		var r wire.Reply
		if f := p.reply(); f.Slot != 4 || json.Unmarshal(f.Payload, &r) != nil || code(r.Error) != protocol.CodeFrameInvalid {
			t.Errorf("answer %s %s", f.Kind, f.Payload)
		}
		p.frame(protocol.KindCall, 5, wire.Call{Op: "dance"})
		if f := p.reply(); json.Unmarshal(f.Payload, &r) != nil || code(r.Error) != protocol.CodeUnknownMessage {
			t.Errorf("answer %s %s", f.Kind, f.Payload)
		}
		p.write(garbage["zeros"])
		if err := p.ended(); err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("wrong first frame", func(t *testing.T) {
		p := newProgram(t)
		p.write(mustAppend(t, protocol.ControlFrame(protocol.KindClose, 1, 0, 0)))
		var l wire.Loaded
		if f := p.reply(); json.Unmarshal(f.Payload, &l) != nil || code(l.Error) != protocol.CodeFrameOrder {
			t.Errorf("answer %s %s", f.Kind, f.Payload)
		}
		if err := p.ended(); err != nil {
			t.Errorf("ended with %v", err)
		}
	})
}

func mustAppend(t *testing.T, f *protocol.Frame) []byte {
	t.Helper()
	b, err := protocol.AppendFrame(nil, f, protocol.PipeLimits())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestParentDeathEndsTheChild: the end of its input is all that a child sees
// of its parent's death, while it waits as while it works.
func TestParentDeathEndsTheChild(t *testing.T) {
	leaktest.Check(t)
	s := layers(t, guidePath(), 0, 8)
	t.Run("waiting", func(t *testing.T) {
		p := newProgram(t)
		p.load(s)
		p.in.Close()
		if err := p.ended(); err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("working", func(t *testing.T) {
		p := newProgram(t)
		p.load(s)
		p.frame(protocol.KindOpen, 1, wire.Open{Session: protocol.NewSessionID(), Exit: 8, Context: 1024, Sampler: &protocol.Sampler{}})
		p.reply()
		for pos := 0; pos < 1024; pos += chunkRows {
			f := protocol.IDFrame(protocol.KindPrefill, uint32(pos), make([]int32, chunkRows))
			f.Slot = 1
			p.write(mustAppend(t, f))
		}
		p.in.Close()
		if err := p.ended(); err != nil {
			t.Errorf("ended with %v", err)
		}
	})
	t.Run("output gone", func(t *testing.T) {
		p := newProgram(t)
		p.load(s)
		p.out.Close()
		p.frame(protocol.KindCall, 1, wire.Call{Op: wire.OpTokenize, Text: "x"})
		kill := time.AfterFunc(patience, func() { p.cmd.Process.Kill() })
		defer kill.Stop()
		p.cmd.Wait() // an error or the signal of a broken pipe: it only must end
		if st, ok := p.cmd.ProcessState.Sys().(syscall.WaitStatus); ok && st.Signal() == syscall.SIGKILL {
			t.Error("the child had to be killed")
		}
	})
}

// TestTextSurvivesAKill: a hostile tokenizer costs one request.
func TestTextSurvivesAKill(t *testing.T) {
	leaktest.Check(t)
	text := guideText(t)
	want, err := text.Tokenize(within(t), "Hello", false, false)
	if err != nil {
		t.Fatal(err)
	}
	first := text.Pid()
	if err := syscall.Kill(first, syscall.SIGKILL); err != nil {
		t.Fatal(err)
	}
	var got []int32
	until(t, patience, "the text tools are back", func() bool {
		if got, err = text.Tokenize(within(t), "Hello", false, false); err != nil && code(err) != protocol.CodeStageLost {
			t.Fatal(err)
		}
		return err == nil
	})
	if fmt.Sprint(got) != fmt.Sprint(want) || text.Pid() == first {
		t.Errorf("ids %v, want %v", got, want)
	}
}
