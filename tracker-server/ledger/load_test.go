package ledger

import (
	"context"
	"fmt"
	"os"
	"sync"
	"testing"
	"time"

	"neuron/tracker-server/store"
)

// load runs whole sessions of 3 hops with 48 receipts each in as many callers
// as given, each submitting per receipts at a time, and returns how many
// receipts were posted.
func (w *world) load(callers, sessions, per int) int {
	w.t.Helper()
	var wg sync.WaitGroup
	errs := make(chan error, callers)
	for c := range callers {
		wg.Go(func() {
			for s := range sessions {
				if err := w.loadSession(c*1_000_000+s, per); err != nil {
					errs <- err
					return
				}
			}
		})
	}
	wg.Wait()
	close(errs)
	for err := range errs {
		w.t.Fatal(err)
	}
	return callers * sessions * 48
}

func (w *world) loadSession(i, per int) error {
	ctx := context.Background()
	r := w.reservation(i, 3)
	r.Prefill, r.Decode, r.Expires = 64, 15*32, w.clock().Add(time.Hour)
	if _, err := w.Reserve(ctx, r); err != nil {
		return err
	}
	var all []Work
	for k := range int64(16) {
		for h := range 3 {
			x := work(i, h, 32+32*k, 64+32*k, 0)
			if k == 0 {
				x = work(i, h, 0, 64, 64)
			}
			all = append(all, x)
		}
	}
	for len(all) > 0 {
		n := min(per, len(all))
		out, err := w.Submit(ctx, all[:n])
		if err != nil {
			return err
		}
		for _, o := range out {
			if o.Status != StatusPosted {
				return fmt.Errorf("%+v", o)
			}
		}
		all = all[n:]
	}
	return w.Finish(ctx, End{Session: r.Session, Prefill: 64, Decode: 480})
}

// TestReceiptsPerSecond is a figure for the log: NEURON_LEDGER_LOAD=60s runs as
// long as that.
func TestReceiptsPerSecond(t *testing.T) {
	for _, c := range []struct{ callers, per int }{{1, 48}, {32, 1}, {32, 8}} {
		w := newWorld(t, 3, Config{})
		for range 20 {
			w.must(w.Grant(t.Context(), w.client, fmt.Sprint(w.balance(w.client, store.Available)), MaxGrant, ""))
		}
		sessions := 1
		began := time.Now()
		n := w.load(c.callers, sessions, c.per)
		took := time.Since(began)
		t.Logf("%d callers, %d receipts a call: %d receipts in %s, %.0f/s", c.callers, c.per, n, took.Round(time.Millisecond), float64(n)/took.Seconds())
		w.check()
	}
	if d, err := time.ParseDuration(os.Getenv("NEURON_LEDGER_LOAD")); err == nil {
		w := newWorld(t, 3, Config{})
		for i := range 900 {
			w.must(w.Grant(t.Context(), w.client, fmt.Sprint("load", i), MaxGrant, ""))
		}
		began, n := time.Now(), 0
		var mu sync.Mutex
		var wg sync.WaitGroup
		for c := range 32 {
			wg.Go(func() {
				for s := 0; time.Since(began) < d; s++ {
					if err := w.loadSession(c*1_000_000+s, 8); err != nil {
						t.Error(err)
						return
					}
					mu.Lock()
					n += 48
					mu.Unlock()
				}
			})
		}
		wg.Wait()
		took := time.Since(began)
		size, err := os.Stat(w.path)
		w.must(err)
		t.Logf("%d receipts in %s, %.0f/s, database %d MB, %d bytes a receipt", n, took.Round(time.Second), float64(n)/took.Seconds(), size.Size()>>20, size.Size()/int64(n))
		began = time.Now()
		if _, err := Open(t.Context(), w.db, Config{}); err != nil {
			t.Error(err)
		}
		t.Logf("checked at the start in %s", time.Since(began).Round(time.Millisecond))
		began = time.Now()
		w.check()
		t.Logf("checked whole in %s", time.Since(began).Round(time.Millisecond))
	}
}
