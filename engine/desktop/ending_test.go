package desktop_test

import (
	"net/http"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/desktop"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// clock is the time of an engine, which tests put on.
type clock struct {
	mu sync.Mutex
	on time.Duration // guarded by mu
}

func (c *clock) now() time.Time {
	c.mu.Lock()
	defer c.mu.Unlock()
	return time.Now().Add(c.on)
}

func (c *clock) add(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.on += d
}

// ends waits for the engine's own end.
func (r *running) ends(t testing.TB) {
	t.Helper()
	eventually(t, "the end", func() bool {
		c, err := localapi.Dial(r.o.Data)
		if err != nil {
			return true
		}
		c.Close()
		return false
	})
	r.stop()
}

// stopsWriting starts a person's engine that has another computer answer, asks it
// to stop in the middle, and wants it to say so and to go on.
func (n *network) stopsWriting(tokens int) (*running, *answering, *clock) {
	t := n.t
	t.Helper()
	c := &clock{}
	r := begin(t, desktop.Options{Tracker: n.url, Now: c.now})
	chat := r.chat(t)
	x := ask(t, chat, question("Tell me a story.", tokens))
	must(t, r.Shutdown(t.Context()))
	s := r.status(t)
	if s.Ending == nil || s.Ending.Answers != 1 {
		t.Errorf("ending: %+v", s.Ending)
	}
	eventually(t, "the time of the end", func() bool { s = r.status(t); return s.Ending != nil && !s.Ending.By.IsZero() })
	if left := s.Ending.By.Sub(c.now()); left < 30*time.Second || left > time.Minute {
		t.Errorf("%s are left to the answer", left)
	}
	a, err := r.Access(t.Context())
	must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, a.URL+"/chat/completions",
		strings.NewReader(`{"model":"`+guideName+`","messages":[{"role":"user","content":"Hi"}]}`))
	must(t, err)
	req.Header.Set("Authorization", "Bearer "+a.Key)
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusServiceUnavailable || resp.Header.Get("Retry-After") == "" {
		t.Errorf("a new request: %s, %v", resp.Status, resp.Header)
	}
	if _, err := chat.Chat(t.Context(), question("What is Neuron?", 5), nil); code(err) != protocol.CodeShutdown {
		t.Errorf("a new request: %v", err)
	}
	select {
	case <-x.done:
		t.Fatalf("the answer was over too early: %v", x.err)
	default:
	}
	return r, x, c
}

// TestStopWhileItsOwnUserReads: asked to stop, the engine finishes the answer
// that its gateway writes, takes no other, and ends by itself after it. An answer
// that is not done in time ends with its reason, and so does one when the engine
// is asked a second time.
func TestStopWhileItsOwnUserReads(t *testing.T) {
	n := newNetwork(t)
	n.tracker()
	n.seed()
	n.shares()
	for _, c := range []struct {
		name    string
		tokens  int
		further func(*running, *clock)
		want    protocol.Code
	}{
		{name: "it is finished", tokens: 1200, further: func(*running, *clock) {}},
		{"the time is over", 1900, func(r *running, c *clock) {
			c.add(2 * time.Minute)
			r.change(t, func(s *policy.Settings) { s.Limits.Threads = 2 }) // it looks at once
		}, protocol.CodeShutdown},
		{"a second order", 1900, func(r *running, c *clock) {
			must(t, r.Shutdown(t.Context())) // the same click: one order
			c.add(2 * time.Second)
			must(t, r.Shutdown(t.Context()))
		}, protocol.CodeShutdown},
	} {
		r, x, now := n.stopsWriting(c.tokens)
		c.further(r, now)
		<-x.done
		if code(x.err) != c.want {
			t.Errorf("%s: the answer ended with %v", c.name, x.err)
		}
		if x.err == nil && x.answer.Telemetry.Tokens != c.tokens {
			t.Errorf("%s: %d tokens", c.name, x.answer.Telemetry.Tokens)
		}
		r.ends(t)
	}
}
