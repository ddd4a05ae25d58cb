package admit

import (
	"net/http"
	"testing"
	"time"

	"neuron/engine/protocol"
)

// TestRetryAfter: who is turned away is told when there will be a place, as far
// as the last requests tell.
func TestRetryAfter(t *testing.T) {
	t.Parallel()
	now := time.Unix(1700000000, 0)
	q := NewQueue(2, -1, func() time.Time { return now })
	refused := func() string {
		t.Helper()
		_, err := q.Join()
		if err == nil || err.Code != protocol.CodeRateLimited {
			t.Fatalf("%v", err)
		}
		return err.Detail["retry_after"]
	}
	run := func() *Ticket {
		t.Helper()
		tk, err := q.Join()
		if err != nil {
			t.Fatal(err)
		}
		<-tk.Ready()
		return tk
	}
	a, b := run(), run()
	if got := refused(); got != "5" {
		t.Errorf("before anything is known: %s", got)
	}
	now = now.Add(30 * time.Second)
	a.Leave()
	a = run()
	if got := refused(); got != "15" { // one of two places is free every 15 s
		t.Errorf("%s", got)
	}
	a.Leave()
	b.Leave()
	b.Leave() // once counts
	for range 100 {
		a = run()
		now = now.Add(10 * time.Millisecond)
		a.Leave()
	}
	run()
	run()
	if got := refused(); got != "1" {
		t.Errorf("%s", got)
	}
}

// TestClientRefill: saved requests come back with time, a minute's worth at
// most.
func TestClientRefill(t *testing.T) {
	t.Parallel()
	now := time.Unix(1700000000, 0)
	cs := NewClients([]Key{{Secret: "x", PerMinute: 6}, {Secret: "y"}}, func() time.Time { return now })
	c := Find(cs, "x")
	if c == nil || Find(cs, "z") != nil || Find(cs, "") != nil {
		t.Fatal("the wrong client")
	}
	count := func() (n int) {
		for ; n < 100; n++ {
			if c.Begin(http.Header{}) != nil {
				return n
			}
			c.End()
		}
		return n
	}
	for _, tc := range []struct {
		wait time.Duration
		want int
	}{{0, 6}, {0, 0}, {10 * time.Second, 1}, {25 * time.Second, 2}, {5 * time.Second, 1}, {time.Hour, 6}} {
		now = now.Add(tc.wait)
		if got := count(); got != tc.want {
			t.Errorf("after %s: %d, want %d", tc.wait, got, tc.want)
		}
	}
	c = nil
	if c.Begin(http.Header{}) != nil {
		t.Error("no client is limited")
	}
	c.End()
}
