package stage_test

import (
	"context"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"neuron/engine/artifact"
	"neuron/engine/protocol"
	"neuron/engine/seam"
	"neuron/engine/seam/seamtest"
	"neuron/engine/stage"
	"neuron/engine/stage/wire"
	"neuron/engine/stage/worker"
	"neuron/llama"
)

// TestMain makes the test binary its own stage program, so that every test
// here talks to a real child process with the real library.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "stage" {
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		if err := worker.Run(context.Background(), os.Stdin, os.Stdout, log); err != nil {
			log.Error("Stage failed", "error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// patience bounds every wait; a loaded machine takes seconds for what usually
// takes milliseconds.
const patience = 30 * time.Second

const chunkRows = 64

func spawn() stage.Spawn {
	s := stage.Spawn{Exe: os.Args[0], Args: []string{"stage"}, Logger: slog.New(slog.DiscardHandler)}
	// The race detector lets a process linger for a second at its end; a stage
	// gets to see few variables, so env sets this one.
	if env, err := exec.LookPath("env"); err == nil {
		s.Exe, s.Args = env, []string{noLinger, os.Args[0], "stage"}
	}
	return s
}

const noLinger = "GORACE=atexit_sleep_ms=0"

func guidePath() string { return filepath.Join("..", "..", "assets", "model", "guide-q8_0.gguf") }

func nativeDir(t testing.TB) string {
	t.Helper()
	dir, err := llama.NativeDir()
	if err != nil {
		t.Fatal(err)
	}
	if dir, err = filepath.Abs(dir); err != nil {
		t.Fatal(err)
	}
	return dir
}

// within is a context for one step of a test.
func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	t.Cleanup(cancel)
	return ctx
}

// layers gets a shard of a model ready.
func layers(t testing.TB, path string, first, last int) *artifact.Shard {
	t.Helper()
	src, err := artifact.Inspect(within(t), path, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	if last == 0 {
		last = src.Model.Layers
	}
	s, err := src.Shard(within(t), protocol.Range{First: first, Last: last}, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// loadOf is the load message for a shard: room for 8 sessions of 256 cells.
func loadOf(t testing.TB, s *artifact.Shard) wire.Load {
	c := s.Capability(chunkRows)
	return wire.Load{
		NativeDir: nativeDir(t), First: c.Loaded.First, Last: c.Loaded.Last, Layers: c.Layers, ExitNode: "l_out",
		Threads: 1, ChunkRows: chunkRows, MaxContext: 1024, MaxSessions: 8,
		KVBytesPerCell: c.KVBytesPerCell, KVBudget: 8 * 256 * c.KVBytesPerCell,
	}
}

// start runs a stage that is stopped with the test.
func start(t testing.TB, s *artifact.Shard, change func(*wire.Load)) *stage.Process {
	t.Helper()
	p, err := tryStart(t, s, change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func tryStart(t testing.TB, s *artifact.Shard, change func(*wire.Load)) (*stage.Process, error) {
	t.Helper()
	load := loadOf(t, s)
	paths, release, err := s.Prepare(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	load.Paths = paths
	if change != nil {
		change(&load)
	}
	return stage.Start(within(t), spawn(), load, s.Capability(load.ChunkRows))
}

func openSession(t testing.TB, p seam.Stage, change func(*seam.StageOpen)) (*seamtest.Session, error) {
	t.Helper()
	c := p.Capability()
	o := seam.StageOpen{Session: protocol.NewSessionID(), Use: c.Loaded, Context: 256}
	if c.Tail {
		o.Sampler = &protocol.Sampler{}
	}
	if change != nil {
		change(&o)
	}
	return seamtest.Open(within(t), p, o)
}

func mustOpen(t testing.TB, p seam.Stage, change func(*seam.StageOpen)) *seamtest.Session {
	t.Helper()
	s, err := openSession(t, p, change)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.Close() })
	return s
}

func code(err error) protocol.Code {
	if err == nil {
		return ""
	}
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return "uncoded"
}

func send(t testing.TB, s *seamtest.Session, f *protocol.Frame) {
	t.Helper()
	if err := s.Send(within(t), f); err != nil {
		t.Fatalf("send %s: %v", f.Kind, err)
	}
}

// next is the next frame but acks; nil when the channel is closed.
func next(t testing.TB, s *seamtest.Session) *protocol.Frame {
	t.Helper()
	for {
		select {
		case f, ok := <-s.Frames():
			if !ok {
				return nil
			}
			if f.Kind != protocol.KindAck {
				return f
			}
		case <-time.After(patience):
			t.Fatal("the stage produced nothing")
		}
	}
}

// sampled makes a frame ask for a token.
func sampled(f *protocol.Frame) *protocol.Frame {
	f.Flags |= protocol.FlagSample
	return f
}

// route sends rows through stages in a row and returns the token.
func route(t testing.TB, hops []*seamtest.Session, f *protocol.Frame) protocol.Token {
	t.Helper()
	for _, h := range hops {
		send(t, h, f)
		f = next(t, h)
		if f == nil {
			t.Fatal("the session ended")
		}
		if f.Kind == protocol.KindError {
			t.Fatal(f.Err())
		}
	}
	tok, err := f.Token()
	if err != nil {
		t.Fatal(err)
	}
	return tok
}

// answer prefills a prompt in chunks and decodes up to n tokens.
func answer(t testing.TB, hops []*seamtest.Session, ids []int32, n int) []protocol.Token {
	t.Helper()
	var out []protocol.Token
	pos := 0
	for chunk := range slices.Chunk(ids, chunkRows) {
		f := protocol.IDFrame(protocol.KindPrefill, uint32(pos), chunk)
		pos += len(chunk)
		if pos == len(ids) {
			out = append(out, route(t, hops, sampled(f)))
			break
		}
		for i, h := range hops {
			send(t, h, f)
			if i < len(hops)-1 {
				f = next(t, h)
			}
		}
	}
	for len(out) < n && !out[len(out)-1].EOG {
		f := protocol.IDFrame(protocol.KindDecode, uint32(pos), []int32{out[len(out)-1].ID})
		out = append(out, route(t, hops, sampled(f)))
		pos++
	}
	return out
}

func idsOf(tokens []protocol.Token) []int32 {
	out := make([]int32, len(tokens))
	for i, t := range tokens {
		out[i] = t.ID
	}
	return out
}

func textOf(tokens []protocol.Token) string {
	var b []byte
	for _, t := range tokens {
		b = append(b, t.Piece...)
	}
	return string(b)
}

// until polls a condition that another process or goroutine makes true.
func until(t testing.TB, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(5 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(limit)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within %s", what, limit)
		}
	}
}

// chat is ids of a ChatML turn of the guide model.
func chat(t testing.TB, text *stage.Text, question string) []int32 {
	t.Helper()
	ids, err := text.Tokenize(within(t), "<|im_start|>user\n"+question+"<|im_end|>\n<|im_start|>assistant\n", true, true)
	if err != nil {
		t.Fatal(err)
	}
	return ids
}

func guideText(t testing.TB) *stage.Text {
	t.Helper()
	text := stage.NewText(spawn(), nativeDir(t), guidePath())
	t.Cleanup(text.Close)
	return text
}
