package seamtest

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam"
)

// patience bounds each wait of the suite; a real stage on a busy machine takes
// seconds for a chunk.
const patience = 30 * time.Second

// suiteContext is the number of cells that the suite's sessions reserve.
const suiteContext = 256

// StageSuite checks a stage against the contract of seam.Stage. mk returns a
// running stage for each subtest; its owner ends it by t.Cleanup. It asks for
// two sessions of 256 cells at a time at most, takes widths and ranges from
// the capability report, and sends ids from 1 to 30.
func StageSuite(t *testing.T, mk func() seam.Stage) {
	t.Run("capability", func(t *testing.T) { testCapability(t, mk()) })
	t.Run("open and close", func(t *testing.T) { testOpenClose(t, mk()) })
	t.Run("open for nobody", func(t *testing.T) { testOpenForNobody(t, mk()) })
	t.Run("open refusals", func(t *testing.T) { testOpenRefusals(t, mk()) })
	t.Run("prefill in chunks and decode", func(t *testing.T) { testPrefillDecode(t, mk()) })
	t.Run("two sessions", func(t *testing.T) { testTwoSessions(t, mk()) })
	t.Run("truncate", func(t *testing.T) { testTruncate(t, mk()) })
	t.Run("verify", func(t *testing.T) { testVerify(t, mk()) })
	t.Run("cancel", func(t *testing.T) { testCancel(t, mk()) })
	t.Run("wrong position", func(t *testing.T) { testWrongPosition(t, mk()) })
	t.Run("send with an ended context", func(t *testing.T) { testSendContext(t, mk()) })
	t.Run("close under work", func(t *testing.T) { testCloseUnderWork(t, mk()) })
}

func testCapability(t *testing.T, s seam.Stage) {
	c := s.Capability()
	if _, err := protocol.ParseModelID(string(c.Model)); err != nil {
		t.Errorf("model: %v", err)
	}
	if !c.Loaded.Valid(c.Layers) {
		t.Errorf("loaded %s of %d layers", c.Loaded, c.Layers)
	}
	if c.Head != (c.Loaded.First == 0) {
		t.Errorf("head %v with layers %s", c.Head, c.Loaded)
	}
	if c.Tail && c.Loaded.Last != c.Layers {
		t.Errorf("tail with layers %s of %d", c.Loaded, c.Layers)
	}
	for _, e := range c.Exits {
		if e <= c.Loaded.First || e > c.Loaded.Last {
			t.Errorf("exit %d of %s", e, c.Loaded)
		}
	}
	if c.Width < 1 || c.ChunkRows < 1 || c.ChunkRows > protocol.MaxChunkRows || c.MaxContext < 1 || c.MaxContext > protocol.MaxContext {
		t.Errorf("width %d, chunk %d, context %d", c.Width, c.ChunkRows, c.MaxContext)
	}
	if !slices.Contains(c.DTypes, "f32") {
		t.Errorf("dtypes %v lack f32", c.DTypes)
	}
	if chunk := int64(c.ChunkRows) * int64(c.Width) * 4; c.InFlightBytes < chunk && !c.Head {
		t.Errorf("window of %d bytes is smaller than one chunk of %d", c.InFlightBytes, chunk)
	}
	if c.Build.Protocol != protocol.Version || c.Build.Llama == "" {
		t.Errorf("build %+v", c.Build)
	}
}

func testOpenClose(t *testing.T, s seam.Stage) {
	for range 3 {
		r := openRun(t, s)
		var wg sync.WaitGroup
		for range 3 {
			wg.Go(func() {
				if err := r.s.Close(); err != nil {
					t.Errorf("close: %v", err)
				}
			})
		}
		wg.Wait()
		if err := r.closed(); err != nil {
			t.Errorf("error frame after close: %v", err)
		}
		if err := r.s.Send(t.Context(), r.rows(protocol.KindPrefill, 0, 0, 1, 0)); err == nil {
			t.Error("send after close succeeded")
		}
	}
}

// A session whose frames nobody takes, opened to see whether it could be.
func testOpenForNobody(t *testing.T, s seam.Stage) {
	c := s.Capability()
	o := seam.StageOpen{Session: protocol.NewSessionID(), Use: c.Loaded, Context: min(suiteContext, c.MaxContext)}
	if c.Tail {
		o.Sampler = &protocol.Sampler{}
	}
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	got, err := s.Open(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	if err := got.Close(); err != nil {
		t.Error(err)
	}
}

func testOpenRefusals(t *testing.T, s seam.Stage) {
	c := s.Capability()
	good := seam.StageOpen{Session: protocol.NewSessionID(), Use: c.Loaded, Context: min(suiteContext, c.MaxContext)}
	if c.Tail {
		good.Sampler = &protocol.Sampler{}
	}
	with := func(change func(*seam.StageOpen)) seam.StageOpen {
		o := good
		change(&o)
		return o
	}
	for name, o := range map[string]seam.StageOpen{
		"range starts elsewhere": with(func(o *seam.StageOpen) { o.Use.First++; o.Use.Last++ }),
		"range ends behind":      with(func(o *seam.StageOpen) { o.Use.Last++ }),
		"range is empty":         with(func(o *seam.StageOpen) { o.Use.Last = o.Use.First }),
		"no context":             with(func(o *seam.StageOpen) { o.Context = 0 }),
		"context above the cap":  with(func(o *seam.StageOpen) { o.Context = c.MaxContext + 1 }),
	} {
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		got, err := s.Open(ctx, o)
		cancel()
		var e *protocol.Error
		if !errors.As(err, &e) {
			t.Errorf("%s: error %v, want a coded one", name, err)
		}
		if err == nil {
			got.Close()
		}
	}
}

func testPrefillDecode(t *testing.T, s seam.Stage) {
	r := openRun(t, s)
	chunk := min(64, r.capab.ChunkRows, r.s.Cells()/4)
	sizes := []int{chunk, chunk, max(1, chunk/2)}
	// All chunks are handed over while nothing is read: Send may block, so it
	// has a goroutine of its own, as in the seam.
	var headers []protocol.Header
	var frames []*protocol.Frame
	pos := uint32(0)
	for i, n := range sizes {
		var flags protocol.Flags
		if i == len(sizes)-1 {
			flags = protocol.FlagSample
		}
		f := r.rows(protocol.KindPrefill, 0, pos, n, flags)
		frames, headers = append(frames, f), append(headers, f.Header)
		pos += uint32(n)
	}
	sent := make(chan error, 1)
	go func() {
		for _, f := range frames {
			if err := r.s.Send(t.Context(), f); err != nil {
				sent <- err
				return
			}
		}
		sent <- nil
	}()
	for _, h := range headers {
		r.answer(h)
	}
	if err := <-sent; err != nil {
		t.Fatal(err)
	}
	for range 8 {
		r.step(protocol.KindDecode, 0, pos, 1, protocol.FlagSample)
		pos++
	}
}

func testTwoSessions(t *testing.T, s seam.Stage) {
	a, b := openRun(t, s), openRun(t, s)
	n := min(16, a.capab.ChunkRows)
	a.step(protocol.KindPrefill, 0, 0, n, 0)
	b.step(protocol.KindPrefill, 0, 0, n/2, protocol.FlagSample)
	for i := range uint32(4) {
		a.step(protocol.KindDecode, 0, uint32(n)+i, 1, protocol.FlagSample)
		b.step(protocol.KindDecode, 0, uint32(n/2)+i, 1, protocol.FlagSample)
	}
	if err := a.s.Close(); err != nil {
		t.Fatal(err)
	}
	b.step(protocol.KindDecode, 0, uint32(n/2)+4, 1, protocol.FlagSample)
}

func testTruncate(t *testing.T, s seam.Stage) {
	r := openRun(t, s)
	n := min(16, r.capab.ChunkRows)
	r.step(protocol.KindPrefill, 0, 0, n, protocol.FlagSample)
	r.step(protocol.KindDecode, 0, uint32(n), 1, protocol.FlagSample)
	to := uint32(n / 2)
	r.send(protocol.ControlFrame(protocol.KindTruncate, 0, 1, to))
	r.step(protocol.KindPrefill, 1, to, 2, protocol.FlagSample)
	r.step(protocol.KindDecode, 1, to+2, 1, protocol.FlagSample)
	r.send(protocol.ControlFrame(protocol.KindTruncate, 0, 2, 0))
	r.step(protocol.KindPrefill, 2, 0, n, protocol.FlagSample)
}

// testVerify checks guesses, takes them back, and goes on.
func testVerify(t *testing.T, s seam.Stage) {
	r := openRun(t, s)
	n := uint32(min(16, r.capab.ChunkRows))
	r.step(protocol.KindPrefill, 0, 0, int(n), protocol.FlagSample)
	guess := []int32{7, 11, 13, 17}
	f := r.rows(protocol.KindVerify, 0, n, len(guess), protocol.FlagSample)
	ids := protocol.IDFrame(protocol.KindVerify, n, guess).Payload
	if r.capab.Head {
		f.Payload = ids
	} else {
		f.Parts |= protocol.PartIDs
		f.Payload = append(ids[:len(ids):len(ids)], f.Payload...)
		f.Length = uint32(len(f.Payload))
	}
	h := f.Header
	r.send(f)
	if !r.tail {
		r.answer(h)
	} else {
		r.verified(h, guess)
	}
	r.send(protocol.ControlFrame(protocol.KindTruncate, 0, 1, n+1))
	r.step(protocol.KindDecode, 1, n+1, 1, protocol.FlagSample)
}

// testCancel cancels queued chunks: some of them may have run, the rest never
// answers, and after a truncate to what was acknowledged the session goes on.
func testCancel(t *testing.T, s seam.Stage) {
	r := openRun(t, s)
	n := min(16, r.capab.ChunkRows)
	r.step(protocol.KindPrefill, 0, 0, n, 0)
	r.send(r.rows(protocol.KindPrefill, 0, uint32(n), n, 0))
	r.send(protocol.ControlFrame(protocol.KindCancel, 0, 0, 0))
	r.send(protocol.ControlFrame(protocol.KindTruncate, 0, 1, uint32(n)))
	f := r.rows(protocol.KindPrefill, 1, uint32(n), 2, protocol.FlagSample)
	h := f.Header
	r.send(f)
	// The cancelled chunk's answer may come first, whole or not at all.
	first := r.next()
	for first.Epoch == 0 && first.Kind != protocol.KindError {
		first = r.next()
	}
	if first.Kind != protocol.KindAck || first.Pos != h.Pos {
		t.Fatalf("got %+v after the cancel", first.Header)
	}
	if !r.tail {
		if f := r.next(); f.Kind != h.Kind || f.Pos != h.Pos {
			t.Fatalf("got %+v, want rows", f.Header)
		}
	} else if f := r.next(); f.Kind != protocol.KindToken {
		t.Fatalf("got %+v, want a token", f.Header)
	}
}

func testWrongPosition(t *testing.T, s seam.Stage) {
	for name, change := range map[string]func(*protocol.Frame){
		"gap":       func(f *protocol.Frame) { f.Pos++ },
		"repeat":    func(f *protocol.Frame) { f.Pos-- },
		"new epoch": func(f *protocol.Frame) { f.Epoch = 3 },
	} {
		r := openRun(t, s)
		n := min(8, r.capab.ChunkRows)
		r.step(protocol.KindPrefill, 0, 0, n, 0)
		f := r.rows(protocol.KindDecode, 0, uint32(n), 1, 0)
		change(f)
		ctx, cancel := context.WithTimeout(t.Context(), patience)
		err := r.s.Send(ctx, f)
		cancel()
		if err == nil { // refused later, as the session's end
			if e := r.closed(); e != nil {
				err = e
			}
		}
		if !errors.Is(err, &protocol.Error{Code: protocol.CodeFrameOrder}) {
			t.Errorf("%s: error %v, want frame_order", name, err)
		}
		r.s.Close()
	}
}

func testSendContext(t *testing.T, s seam.Stage) {
	r := openRun(t, s)
	n := min(64, r.capab.ChunkRows)
	ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
	defer cancel()
	// Nobody reads: the queue fills within the cells, or everything fits.
	for pos := 0; pos+n <= r.s.Cells(); pos += n {
		if err := r.s.Send(ctx, r.rows(protocol.KindPrefill, 0, uint32(pos), n, 0)); err != nil {
			if ctx.Err() == nil {
				t.Fatalf("send: %v", err)
			}
			return
		}
	}
}

func testCloseUnderWork(t *testing.T, s seam.Stage) {
	r := openRun(t, s)
	n := min(64, r.capab.ChunkRows)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	for pos := 0; pos+n <= r.s.Cells(); pos += n {
		if r.s.Send(ctx, r.rows(protocol.KindPrefill, 0, uint32(pos), n, 0)) != nil {
			break
		}
	}
	closed := make(chan struct{})
	go func() {
		r.s.Close()
		close(closed)
	}()
	select {
	case <-closed:
	case <-time.After(patience):
		t.Fatal("close hangs while nobody reads")
	}
	r.closed()
	// The cells are free again: as many sessions as before fit.
	openRun(t, s).step(protocol.KindPrefill, 0, 0, 1, 0)
}
