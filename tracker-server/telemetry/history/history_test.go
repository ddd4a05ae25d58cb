package history

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/protocol"
	"neuron/tracker-server/telemetry"
)

var t0 = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

var quiet = slog.New(slog.DiscardHandler)

func opened(t *testing.T, path string) *File {
	t.Helper()
	f, err := Open(t.Context(), path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	})
	return f
}

func sid(i int) protocol.SessionID { return protocol.SessionID(fmt.Sprintf("s-%026d", i)) }

func row(i int, at time.Time, p protocol.Phase, tokens int) telemetry.Row {
	return telemetry.Row{Snapshot: &telemetry.Snapshot{
		Session: sid(i), Model: "m", Name: "guide", At: at, Phase: p, PrefillDone: 5, PrefillTotal: 5, Tokens: tokens, TokensPerSecond: 2.5, FirstToken: 1500 * time.Microsecond,
		Hops: []telemetry.Hop{{Node: "a", Use: protocol.Range{Last: 4}, Health: "ok", Step: 1100, Micros: 2200, Steps: 2, In: 77, Out: 88}},
	}, NewPhase: true, Sampled: true}
}

func write(t *testing.T, f *File, b *telemetry.Batch) {
	t.Helper()
	if err := f.Write(t.Context(), b); err != nil {
		t.Fatal(err)
	}
}

func TestRoundTrip(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "telemetry.db")
	f := opened(t, path)
	hop := 1
	last := row(1, t0.Add(3*time.Second), protocol.PhaseFailed, 9)
	last.End = &telemetry.End{Finish: protocol.FinishError, Code: protocol.CodeHopLost, Hop: &hop}
	again := row(1, t0.Add(2*time.Second), protocol.PhaseDecode, 8)
	again.NewPhase = false
	secret := row(2, t0, protocol.PhaseRouting, 0)
	secret.Sampled, secret.Private, secret.Snapshot.Hops = false, true, nil
	write(t, f, &telemetry.Batch{
		Samples: []telemetry.Row{row(1, t0.Add(time.Second), protocol.PhaseDecode, 4), secret},
		Minutes: []telemetry.Figures{{At: t0, Tokens: 4, Nodes: 3, Credit: 7, Measured: 1}},
	})
	write(t, f, &telemetry.Batch{Samples: []telemetry.Row{again, last}, Minutes: []telemetry.Figures{{At: t0, Tokens: 5, Nodes: 2, Failed: 1, Measured: 1}, {At: t0.Add(time.Minute), Dropped: 3, Measured: 1}}})
	write(t, f, &telemetry.Batch{Samples: []telemetry.Row{last}}) // again: no-op
	got, err := f.History(t.Context(), sid(1))
	if err != nil {
		t.Fatal(err)
	}
	sample := func(r telemetry.Row) telemetry.Sample {
		return telemetry.Sample{At: r.At, Phase: r.Phase, PrefillDone: 5, PrefillTotal: 5, Tokens: r.Tokens, TokensPerSecond: 2.5, FirstTokenMs: 1.5, Hops: r.Hops}
	}
	want := &telemetry.History{
		Session: sid(1), Model: "m", Name: "guide", End: last.End,
		Phases:  []telemetry.PhaseAt{{Phase: protocol.PhaseDecode, At: t0.Add(time.Second)}, {Phase: protocol.PhaseFailed, At: t0.Add(3 * time.Second)}},
		Samples: []telemetry.Sample{sample(row(1, t0.Add(time.Second), protocol.PhaseDecode, 4)), sample(again), sample(last)},
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
	if got, err := f.History(t.Context(), sid(2)); err != nil || !got.Private || len(got.Phases) != 1 || len(got.Samples) != 0 || got.End != nil {
		t.Errorf("private: %+v, %v", got, err)
	}
	if got, err := f.History(t.Context(), sid(3)); got != nil || err != nil {
		t.Errorf("unknown: %+v, %v", got, err)
	}
	minutes, err := f.Minutes(t.Context(), t0, t0.Add(time.Hour))
	if d := cmp.Diff([]telemetry.Figures{{At: t0, Tokens: 9, Nodes: 3, Credit: 7, Failed: 1, Measured: 1}, {At: t0.Add(time.Minute), Dropped: 3, Measured: 1}}, minutes); d != "" || err != nil {
		t.Error(d, err)
	}
	info, err := os.Stat(path)
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("mode %v, %v", info.Mode(), err)
	}
}

// TestReopen: what was written is there after the file was closed, and after
// it was only copied away as a crash leaves it.
func TestReopen(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	path := filepath.Join(dir, "telemetry.db")
	f, err := Open(t.Context(), path, quiet)
	if err != nil {
		t.Fatal(err)
	}
	write(t, f, &telemetry.Batch{Samples: []telemetry.Row{row(1, t0, protocol.PhaseDecode, 4)}})
	crashed := filepath.Join(t.TempDir(), "telemetry.db")
	for _, suffix := range []string{"", "-wal"} {
		raw, err := os.ReadFile(path + suffix)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(crashed+suffix, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{path, crashed} {
		if h, err := opened(t, p).History(t.Context(), sid(1)); err != nil || h == nil || len(h.Samples) != 1 {
			t.Errorf("%s: %+v, %v", p, h, err)
		}
	}
}

// TestUnusable: a file that is damaged, foreign or of another version is moved
// aside, and history begins anew; it is never a reason not to start.
func TestUnusable(t *testing.T) {
	t.Parallel()
	good := func(path string) {
		f, err := Open(t.Context(), path, quiet)
		if err != nil {
			t.Fatal(err)
		}
		for i := range 200 {
			write(t, f, &telemetry.Batch{Samples: []telemetry.Row{row(i, t0, protocol.PhaseDecode, 4)}})
		}
		if err := f.Close(); err != nil {
			t.Fatal(err)
		}
	}
	for name, spoil := range map[string]func(path string) error{
		"garbage": func(path string) error { return os.WriteFile(path, []byte(strings.Repeat("garbage ", 2000)), 0o600) },
		"torn pages": func(path string) error {
			raw, err := os.ReadFile(path)
			if err != nil {
				return err
			}
			for i := 4096; i < len(raw); i += 64 {
				raw[i] ^= 0xff
			}
			return os.WriteFile(path, raw, 0o600)
		},
		"another version": func(path string) error {
			f, err := Open(context.Background(), path, quiet)
			if err != nil {
				return err
			}
			_, err = f.write.Exec("PRAGMA user_version = 99")
			return errors.Join(err, f.Close())
		},
		"other tables": func(path string) error {
			f, err := Open(context.Background(), path, quiet)
			if err != nil {
				return err
			}
			_, err = f.write.Exec("ALTER TABLE sample DROP COLUMN rate")
			return errors.Join(err, f.Close())
		},
	} {
		path := filepath.Join(t.TempDir(), "telemetry.db")
		good(path)
		if err := spoil(path); err != nil {
			t.Fatal(err)
		}
		f := opened(t, path)
		if h, err := f.History(t.Context(), sid(1)); h != nil || err != nil {
			t.Errorf("%s: %+v, %v", name, h, err)
		}
		write(t, f, &telemetry.Batch{Samples: []telemetry.Row{row(1, t0, protocol.PhaseDecode, 4)}})
		if _, err := os.Stat(path + ".old"); err != nil {
			t.Errorf("%s: the old file is gone: %v", name, err)
		}
	}
	// What a person has to see is an error.
	if _, err := Open(t.Context(), filepath.Join(t.TempDir(), "no", "folder", "t.db"), quiet); !errors.Is(err, &protocol.Error{Code: protocol.CodeDataFolder}) {
		t.Errorf("no folder: %v", err)
	}
}

func count(t *testing.T, f *File, table string) (n int) {
	t.Helper()
	if err := f.read.QueryRow("SELECT count(*) FROM " + table).Scan(&n); err != nil {
		t.Fatal(err)
	}
	return n
}

func TestPrune(t *testing.T) {
	t.Parallel()
	f := opened(t, filepath.Join(t.TempDir(), "telemetry.db"))
	var b telemetry.Batch
	for i := range 3 * pruneSessions {
		b.Samples = append(b.Samples, row(i, t0.Add(time.Duration(i)*time.Hour), protocol.PhaseDecode, 4))
		b.Minutes = append(b.Minutes, telemetry.Figures{At: t0.Add(time.Duration(i) * time.Hour), Measured: 1})
	}
	write(t, f, &b)
	before := t0.Add(time.Duration(pruneSessions+5) * time.Hour)
	more, err := f.Prune(t.Context(), before)
	if err != nil || !more || count(t, f, "session") != 2*pruneSessions {
		t.Errorf("first step: more %t, %v, %d left", more, err, count(t, f, "session"))
	}
	more, err = f.Prune(t.Context(), before)
	if left := 2*pruneSessions - 5; err != nil || more || count(t, f, "session") != left || count(t, f, "sample") != left || count(t, f, "phase") != left || count(t, f, "minute") != left {
		t.Errorf("second step: more %t, %v, %d left", more, err, count(t, f, "session"))
	}
	if h, err := f.History(t.Context(), sid(3*pruneSessions-1)); err != nil || h == nil {
		t.Errorf("the newest: %v, %v", h, err)
	}
	// Too much goes whatever its age, the oldest first; then there is room.
	used, err := f.used(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	f.max = used - 1
	if _, err := f.Prune(t.Context(), time.Time{}); err != nil || count(t, f, "session") != pruneSessions-5 {
		t.Errorf("full: %v, %d left", err, count(t, f, "session"))
	}
	if h, err := f.History(t.Context(), sid(3*pruneSessions-1)); err != nil || h == nil {
		t.Errorf("the newest when full: %v, %v", h, err)
	}
	f.max = maxBytes
	if more, err := f.Prune(t.Context(), time.Time{}); more || err != nil || count(t, f, "session") != pruneSessions-5 {
		t.Errorf("with room: %t, %v", more, err)
	}
}

// TestReadersBesideWriter: queries run while batches are written, and see whole
// batches only.
func TestReadersBesideWriter(t *testing.T) {
	t.Parallel()
	f := opened(t, filepath.Join(t.TempDir(), "telemetry.db"))
	var wg sync.WaitGroup
	stop := make(chan struct{})
	for range 3 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				var n int
				if err := f.read.QueryRow("SELECT count(*) FROM sample").Scan(&n); err != nil || n%10 != 0 {
					t.Errorf("%d samples, %v", n, err)
					return
				}
			}
		})
	}
	for i := range 50 {
		var b telemetry.Batch
		for k := range 10 {
			b.Samples = append(b.Samples, row(i, t0.Add(time.Duration(k)*time.Second), protocol.PhaseDecode, k))
		}
		write(t, f, &b)
	}
	close(stop)
	wg.Wait()
	if err := f.Write(canceled(t), &telemetry.Batch{Samples: []telemetry.Row{row(999, t0, protocol.PhaseDecode, 1)}}); err == nil {
		t.Error("written after its context ended")
	}
	if h, err := f.History(t.Context(), sid(999)); h != nil || err != nil {
		t.Errorf("a part of a failed batch: %v, %v", h, err)
	}
}

func canceled(t *testing.T) context.Context {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	return ctx
}

// BenchmarkWrite writes batches of 500 samples of three hops.
func BenchmarkWrite(b *testing.B) {
	f, err := Open(b.Context(), filepath.Join(b.TempDir(), "telemetry.db"), quiet)
	if err != nil {
		b.Fatal(err)
	}
	defer f.Close()
	for i := 0; b.Loop(); i++ {
		var batch telemetry.Batch
		for k := range 500 {
			r := row(k, t0.Add(time.Duration(i)*time.Second), protocol.PhaseDecode, k)
			r.Hops = append(r.Hops, r.Hops[0], r.Hops[0])
			batch.Samples = append(batch.Samples, r)
		}
		if err := f.Write(b.Context(), &batch); err != nil {
			b.Fatal(err)
		}
	}
}
