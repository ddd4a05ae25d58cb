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
