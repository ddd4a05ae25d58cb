package worker

import (
	"bytes"
	"context"
	"io"
	"log/slog"
	"testing"
	"time"

	"neuron/engine/protocol"
)

// Between pings an idle stage wakes up for nothing, and a stage that computes
// reads foreign load more often than it pings.
func TestIdleStageReadsLoadWithItsPings(t *testing.T) {
	t.Parallel()
	w := &Worker{log: slog.New(slog.DiscardHandler), loads: make(chan float64, 1)}
	l := w.newForeign()
	defer l.close()
	if l.from == nil {
		t.Skip("SKIPPED: this system does not tell its load")
	}
	// Other tests run in this process: both are right.
	if next := l.sample(); next != pingEvery && next != sampleEvery {
		t.Errorf("next reading after %s", next)
	}
	l.sample() // does not wait for the owner
	if v := <-w.loads; v < 0 {
		t.Errorf("%f cores are busy", v)
	}
	// The owner computes; on a full machine it takes a while to have its turn.
	next := pingEvery
	for range 20 {
		for began := time.Now(); time.Since(began) < 100*time.Millisecond; {
		}
		if next = l.sample(); next == sampleEvery {
			break
		}
	}
	if next != sampleEvery {
		t.Errorf("next reading after %s while the stage computes", next)
	}
}

// The owner of an idle stage was woken every second to hear the same.
func TestIdleOwnerIsNotWokenForTheSame(t *testing.T) {
	t.Parallel()
	w := &Worker{log: slog.New(slog.DiscardHandler), loads: make(chan float64, 1)}
	l := w.newForeign()
	defer l.close()
	for i, c := range []struct {
		v    float64
		idle bool
		told bool
	}{
		{0.02, true, true}, // the first
		{0.05, true, false},
		{0.05, false, true}, // threads are chosen by it now
		{0.1, true, false},
		{0.16, true, true}, // it creeps
		{1.2, true, true},
		{0, true, true},
	} {
		l.tell(c.v, c.idle)
		if told := len(w.loads) == 1; told != c.told || told && <-w.loads != c.v {
			t.Errorf("reading %d of %g cores, idle %t: told %t", i, c.v, c.idle, told)
		}
	}
}

// A stage pings every second whether it computes or not, also when its load
// cannot be read.
func TestPingsComeEverySecond(t *testing.T) {
	t.Parallel()
	w := &Worker{
		log: slog.New(slog.DiscardHandler), loads: make(chan float64, 1),
		outbox: make(chan *protocol.Frame, 1), broken: make(chan error, 1),
	}
	r, out := io.Pipe()
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.write(t.Context(), out, func(error) {})
	}()
	frames := protocol.NewFrameReader(r, protocol.PipeLimits())
	last := time.Now()
	for i := range 4 {
		f, err := frames.Read()
		if err != nil || f.Kind != protocol.KindPing || !bytes.Contains(f.Payload, []byte("{")) {
			t.Fatalf("%v, %v", f, err)
		}
		// Slow machines are late; the parent waits for three seconds.
		if gap := time.Since(last); i > 0 && (gap < 400*time.Millisecond || gap > 2500*time.Millisecond) {
			t.Errorf("ping %d came after %s", i, gap)
		}
		last = time.Now()
	}
	close(w.outbox)
	<-done
}

// A writer that cannot write says so, and keeps nobody waiting.
func TestWriterReportsABrokenPipe(t *testing.T) {
	t.Parallel()
	w := &Worker{
		log: slog.New(slog.DiscardHandler), loads: make(chan float64, 1),
		outbox: make(chan *protocol.Frame, 1), broken: make(chan error, 1),
	}
	r, out := io.Pipe()
	r.Close()
	ctx, cancel := context.WithCancelCause(t.Context())
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.write(ctx, out, cancel)
	}()
	<-ctx.Done()
	if context.Cause(ctx) == context.Canceled {
		t.Error("no cause")
	}
	close(w.outbox)
	<-done
}
