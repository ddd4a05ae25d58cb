package task

import (
	"context"
	"testing"
	"testing/synctest"
	"time"
)

func TestCloseEndsAndWaits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New()
		ended := make(chan string, 2)
		g.Stay(func(ctx context.Context) { <-ctx.Done(); ended <- "stay" })
		g.Go(func(ctx context.Context) { <-ctx.Done(); ended <- "go" })
		g.Close()
		if len(ended) != 2 {
			t.Errorf("%d of 2 had ended when Close returned", len(ended))
		}
		g.Go(func(context.Context) { t.Error("something runs after Close") })
		g.Close()
	})
}

func TestGoIsBounded(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New()
		start := time.Now()
		took := make(chan time.Duration, 1)
		g.Go(func(ctx context.Context) { <-ctx.Done(); took <- time.Since(start) })
		if d := <-took; d != Patience {
			t.Errorf("ended after %v", d)
		}
		g.Close()
	})
}

func TestRepeat(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := New()
		defer g.Close()
		runs := 0
		stop := g.Repeat(time.Second, func(context.Context) { runs++ })
		time.Sleep(3*time.Second + time.Millisecond)
		synctest.Wait()
		if runs != 4 {
			t.Errorf("ran %d times in 3 seconds, and at once", runs)
		}
		stop()
		time.Sleep(time.Minute)
		if synctest.Wait(); runs != 4 {
			t.Errorf("ran %d times, the last ones after it was stopped", runs)
		}
		// Both ends reach the run that waits for an answer.
		ended := make(chan string, 2)
		wait := func(name string) func(ctx context.Context) {
			return func(ctx context.Context) { <-ctx.Done(); ended <- name }
		}
		g.Repeat(time.Second, wait("first"))()
		if name := <-ended; name != "first" {
			t.Error(name)
		}
		g.Repeat(time.Second, wait("second"))
		g.Close()
		if name := <-ended; name != "second" {
			t.Error(name)
		}
	})
}

func TestTellIsSeenOnce(t *testing.T) {
	t.Parallel()
	g := New()
	defer g.Close()
	g.Tell()
	g.Tell()
	<-g.Changed()
	select {
	case <-g.Changed():
		t.Error("two values for what was not seen in between")
	default:
	}
}
