package program_test

import (
	"net/http"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"neuron/engine/cli/apiclient"
	"neuron/engine/protocol"
)

// Every route must give the answer of the whole model. These came from one
// node; TestWhole checks them there.
var questions = []string{"What is Neuron?", "What is the capital of France?"}

// completion is a non-streamed answer.
type completion struct {
	Choices []struct {
		Message      apiclient.Message
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		CompletionTokens int `json:"completion_tokens"`
	}
}

func (n *network) plain(question string) (completion, http.Header) {
	n.t.Helper()
	var c completion
	h, err := n.client.JSON(n.t.Context(), http.MethodPost, "/chat/completions", ask(question), &c)
	if err != nil {
		n.t.Fatal(err)
	}
	if len(c.Choices) != 1 {
		n.t.Fatalf("%d choices", len(c.Choices))
	}
	return c, h
}

func uses(t protocol.Telemetry) []string {
	var out []string
	for _, h := range t.Route {
		out = append(out, h.Use.String())
	}
	return out
}

// whole remembers the answers of a whole model on one node.
var whole struct {
	once    sync.Once
	answers []string
}

func wholeAnswers(t *testing.T) []string {
	t.Helper()
	whole.once.Do(func() {
		n := newNetwork(t, guide, "all")
		for _, q := range questions {
			whole.answers = append(whole.answers, n.answer(ask(q)).Text)
		}
	})
	if len(whole.answers) != len(questions) {
		t.Fatal("the whole model gave no answers")
	}
	return whole.answers
}

// TestRoutes asks the same questions over routes of different shape, streamed
// and not.
func TestRoutes(t *testing.T) {
	for name, c := range map[string]struct {
		nodes []string
		want  []string
	}{
		"one hop":     {[]string{"all"}, []string{"0-8"}},
		"three hops":  {[]string{"0-3", "3-6", "6-8"}, []string{"0-3", "3-6", "6-8"}},
		"early exit":  {[]string{"0-6", "4-8"}, []string{"0-4", "4-8"}},
		"two nodes":   {[]string{"0-4", "4-8"}, []string{"0-4", "4-8"}},
		"whole and 2": {[]string{"0-4", "4-8", "all"}, []string{"0-8"}},
	} {
		t.Run(name, func(t *testing.T) {
			want := wholeAnswers(t)
			n := newNetwork(t, guide, c.nodes...)
			// Where two routes cost nearly the same, fairness may choose either.
			fixed := name != "whole and 2"
			if !fixed {
				// A node whose distance is not measured yet counts as far away.
				eventually(t, "round trips to all nodes", func() bool { return n.gateway.Measured() == len(c.nodes) })
				eventually(t, "the one-hop route", func() bool { return len(n.answer(ask("Hi")).Telemetry.Route) == 1 })
			}
			for i, q := range questions {
				a := n.answer(ask(q))
				if a.Text != want[i] || a.Text == "" || a.Finish != "stop" {
					t.Errorf("%q answered %q (%s), the whole model %q", q, a.Text, a.Finish, want[i])
				}
				if d := cmp.Diff(c.want, uses(a.Telemetry)); d != "" && fixed {
					t.Errorf("route (-want +got):\n%s", d)
				}
				checkCounters(t, a)
				p, h := n.plain(q)
				if got := p.Choices[0]; got.Message.Content != want[i] || got.FinishReason != "stop" {
					t.Errorf("%q without streaming: %+v", q, got)
				}
				if p.Usage.CompletionTokens < a.Telemetry.Tokens {
					t.Errorf("usage %d, telemetry %d", p.Usage.CompletionTokens, a.Telemetry.Tokens)
				}
				if fixed {
					n.checkFinal(h.Get("X-Neuron-Session"), a)
				}
			}
			n.idle()
		})
	}
}

// checkCounters wants every position to have run once on every hop.
func checkCounters(t *testing.T, a *apiclient.Answer) {
	t.Helper()
	tm := a.Telemetry
	if tm.Phase != protocol.PhaseDone || tm.Finish != protocol.FinishStop || tm.PrefillDone != tm.PrefillTotal || tm.Tokens == 0 {
		t.Errorf("last snapshot %+v", tm)
	}
	if a.Session == "" || a.Session != tm.Session {
		t.Errorf("session %q, telemetry of %q", a.Session, tm.Session)
	}
	for i, h := range tm.Route {
		c := h.Counters
		// The EOG token was sampled and never fed back.
		// Guesses that the end refused are not taken back.
		stand := c.DecodeRows - c.DroppedRows
		if int(c.PrefillRows) != tm.PrefillTotal || stand < int64(tm.Tokens) || stand > int64(tm.Tokens+tm.Drafted-tm.Accepted) || c.NextPos != c.PrefillRows+stand {
			t.Errorf("hop %d: %+v for %d prompt tokens and %d of answer", h.Hop, c, tm.PrefillTotal, tm.Tokens)
		}
		if c.LastDecodeIn == 0 {
			t.Errorf("hop %d counted no bytes: %+v", h.Hop, c)
		}
		if i > 0 && tm.Route[i-1].Counters.LastDecodeOut != c.LastDecodeIn {
			t.Errorf("hop %d got %d bytes per token, hop %d sent %d", i, c.LastDecodeIn, i-1, tm.Route[i-1].Counters.LastDecodeOut)
		}
	}
}

// checkFinal wants telemetry of an answer that was not streamed.
func (n *network) checkFinal(session string, like *apiclient.Answer) {
	n.t.Helper()
	var tm protocol.Telemetry
	if _, err := n.client.JSON(n.t.Context(), http.MethodGet, "/sessions/"+session, nil, &tm); err != nil {
		n.t.Fatal(err)
	}
	if tm.Phase != protocol.PhaseDone || tm.Tokens != like.Telemetry.Tokens || len(tm.Route) != len(like.Telemetry.Route) {
		n.t.Errorf("telemetry of the session without streaming: %+v", tm)
	}
}

// TestHalfSeams: a gateway that asks for it gets rows of 16 bits from a family
// that allows them, and 32 bits otherwise.
func TestHalfSeams(t *testing.T) {
	n := newNetwork(t, guide, "0-4", "4-8")
	row := func() int64 {
		r := ask(questions[0])
		r.NoDraft = true // one row per step
		a := n.answer(r)
		if a.Text == "" || len(a.Telemetry.Route) != 2 {
			t.Fatalf("%q over %+v", a.Text, a.Telemetry.Route)
		}
		return a.Telemetry.Route[0].Counters.LastDecodeOut - protocol.HeaderSize
	}
	exact := row()
	n.gatewayRun.end(t)
	n.halves = true
	n.startGateway()
	n.waitRoutable()
	if half := row(); exact <= 0 || 2*half != exact {
		t.Errorf("a row takes %d bytes, and %d when it is halved", exact, half)
	}
}

// TestTwoHops goes through what can happen to a route of two nodes. The steps
// share one network, and each leaves it as it found it.
func TestTwoHops(t *testing.T) {
	want := wholeAnswers(t)
	n := newNetwork(t, guide, "0-4", "4-8")
	step := func(name string, f func(t *testing.T)) {
		t.Run(name, func(t *testing.T) {
			n.t = t // failures belong to the step
			defer func() { n.t = n.parent }()
			n.waitRoutable()
			f(t)
		})
	}
	n.parent = t

	step("clients at once", func(t *testing.T) {
		var wg sync.WaitGroup
		for i := range 4 {
			wg.Go(func() {
				q := i % len(questions)
				if a, err := n.client.Chat(t.Context(), ask(questions[q]), nil); err != nil || a.Text != want[q] {
					t.Errorf("client %d: %+v, %v, want %q", i, a, err, want[q])
				}
			})
		}
		wg.Wait()
		n.idle()
	})

	step("client leaves", func(t *testing.T) {
		x := n.begin(long(1900))
		for _, m := range n.nodes {
			if s := m.sessions(t); len(s) != 1 || s[0].Cells < 1900 {
				t.Errorf("node %s has sessions %+v", m.o.Layers, s)
			}
		}
		x.cancel()
		n.idle()
	})

	for hop := range 2 {
		step("stage of hop "+string(rune('0'+hop))+" killed", func(t *testing.T) {
			x := n.begin(long(1900))
			old := n.nodes[hop].Stage().Pids()
			if len(old) != 1 {
				t.Fatalf("stage processes %v", old)
			}
			began := time.Now()
			kill(t, old[0])
			e := x.failure(t)
			if took := x.ended.Sub(began); took > 2*time.Second {
				t.Errorf("the client learned it after %s", took)
			}
			if e.Code != protocol.CodeStageLost || e.Hop == nil || *e.Hop != hop || e.Phase != protocol.PhaseDecode {
				t.Errorf("error %+v", e)
			}
			eventually(t, "another stage process", func() bool {
				p := n.nodes[hop].Stage().Pids()
				return len(p) == 1 && p[0] != old[0]
			})
			n.waitRoutable()
			if a := n.answer(ask(questions[0])); a.Text != want[0] {
				t.Errorf("after the restart: %q", a.Text)
			}
			n.idle()
		})
	}

	step("tracker restarts", func(t *testing.T) {
		x := n.begin(long(400))
		n.tracker.end(t)
		select {
		case <-x.done:
			t.Error("the session was over before the tracker was gone")
		default:
		}
		n.t = n.parent // the new tracker outlives this step
		n.startTracker()
		n.t = t
		select {
		case <-x.done:
		case <-time.After(patience):
			t.Fatal("the session does not end")
		}
		if x.err != nil || x.answer.Finish != "length" || x.answer.Telemetry.Tokens != 400 {
			t.Fatalf("the running session: %+v, %v", x.answer, x.err)
		}
		n.waitRoutable()
		if a := n.answer(ask(questions[1])); a.Text != want[1] {
			t.Errorf("after the restart: %q", a.Text)
		}
	})

	step("node stops", func(t *testing.T) {
		x := n.begin(long(1900))
		last := n.nodes[1]
		pids := last.Stage().Pids()
		last.end(t)
		e := x.failure(t)
		if e.Code != protocol.CodeShutdown || e.Hop == nil || *e.Hop != 1 || e.Phase != protocol.PhaseDecode {
			t.Errorf("error %+v", e)
		}
		for _, pid := range pids {
			if alive(pid) {
				t.Errorf("stage process %d outlives its node", pid)
			}
		}
		id := last.ID()
		n.nodes = n.nodes[:1]
		n.t = n.parent // the new node outlives this step
		again := n.startNode(last.o)
		n.t = t
		if again.ID() != id {
			t.Errorf("the node is %s now, was %s", again.ID(), id)
		}
		<-again.Ready()
		n.waitRoutable()
		if a := n.answer(ask(questions[0])); a.Text != want[0] {
			t.Errorf("after the restart: %q", a.Text)
		}
		n.idle()
	})

	step("gateway stops", func(t *testing.T) {
		x := n.begin(long(1900))
		n.gatewayRun.end(t)
		if e := x.failure(t); e.Code != protocol.CodeShutdown {
			t.Errorf("error %+v", e)
		}
		n.idle()
		n.t = n.parent
		n.startGateway()
		n.t = t
		// At once: a question waits for the gateway's connection to the tracker.
		if a := n.answer(ask(questions[0])); a.Text != want[0] {
			t.Errorf("after the restart: %q", a.Text)
		}
	})
}
