package chatload

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"neuron/engine/gateway"
	"neuron/engine/gateway/gatewaytest"
	"neuron/engine/protocol"
)

// server is a real gateway before scripted sessions.
func server(t *testing.T, script func(gateway.GenerateRequest) gatewaytest.Script) (*Client, *gatewaytest.Fake) {
	t.Helper()
	f := gatewaytest.New()
	f.Context, f.Script = protocol.MaxContext, script
	g := gateway.New(gateway.Options{Backend: f, MaxConcurrent: 16})
	srv := httptest.NewServer(g)
	t.Cleanup(func() {
		srv.Close()
		f.Wait()
	})
	return &Client{URL: srv.URL + "/v1", Model: gatewaytest.ModelName}, f
}

func endless(gateway.GenerateRequest) gatewaytest.Script {
	return gatewaytest.Script{Pieces: []string{" x"}, Endless: true}
}

// Each chat makes one request, and no two prompts are the same.
func TestChatsAlone(t *testing.T) {
	t.Parallel()
	c, f := server(t, endless)
	got, err := c.Run(t.Context(), Load{Chats: 3, Prompt: 12, Answer: 5, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	if got.Rate <= 0 || got.First <= 0 || got.P50 > got.P99 || got.P99 > got.Longest || got.Asked != 0 {
		t.Errorf("%+v", got)
	}
	var prompts []string
	for _, r := range f.Requests() {
		if len(r.Prompt) != 12 || r.MaxTokens != 5 || !r.NoDraft {
			t.Errorf("%+v", r)
		}
		prompts = append(prompts, fmt.Sprint(r.Prompt))
	}
	slices.Sort(prompts)
	if len(slices.Compact(prompts)) != 3 {
		t.Errorf("prompts %q", prompts)
	}
}

// The long prompts wait for a token of every chat; chats go on beside them and
// are cut off without a failure when the last one is answered.
func TestChatsGoOnBesideLongPrompts(t *testing.T) {
	t.Parallel()
	const chats = 2
	hold := make(chan struct{})
	var short atomic.Int32
	c, f := server(t, func(r gateway.GenerateRequest) gatewaytest.Script {
		s := endless(r)
		if len(r.Prompt) == 300 {
			s.Hold = hold
		} else if short.Add(1) == chats+3 { // a chat is not at its first request
			close(hold)
		}
		return s
	})
	got, err := c.Run(t.Context(), Load{Chats: chats, Prompt: 4, Answer: 3, Longs: 1, Long: 300, Every: time.Hour, Until: time.Minute, Seed: 2})
	if err != nil {
		t.Fatal(err)
	}
	if got.Asked != 1 || len(got.Long) != 1 || got.Long[0] <= 0 {
		t.Errorf("%+v", got)
	}
	if n := len(f.Requests()); n < chats+4 {
		t.Errorf("%d requests", n)
	}
}

// Long prompts that get no answer in time are counted and do not hold the run up.
func TestLongPromptsAreGivenUp(t *testing.T) {
	t.Parallel()
	c, _ := server(t, func(r gateway.GenerateRequest) gatewaytest.Script {
		s := endless(r)
		if len(r.Prompt) == 300 {
			s.Hold = make(chan struct{})
		}
		return s
	})
	got, err := c.Run(t.Context(), Load{Chats: 1, Prompt: 4, Answer: 3, Longs: 100, Long: 300, Every: 20 * time.Millisecond, Until: 90 * time.Millisecond, Seed: 3})
	if err != nil {
		t.Fatal(err)
	}
	if got.Asked < 2 || got.Asked > 6 || len(got.Long) != 0 {
		t.Errorf("%+v", got)
	}
}

// A failed answer ends the run with its reason instead of figures.
func TestFailedAnswerIsNoFigure(t *testing.T) {
	t.Parallel()
	c, _ := server(t, func(r gateway.GenerateRequest) gatewaytest.Script {
		return gatewaytest.Script{Pieces: []string{" x"}, Fail: gatewaytest.ErrLost, FailPhase: protocol.PhaseDecode}
	})
	if got, err := c.Run(t.Context(), Load{Chats: 2, Prompt: 4, Answer: 3, Longs: 1, Long: 9, Every: time.Hour, Until: time.Minute}); err == nil || !strings.Contains(err.Error(), "hop_lost") {
		t.Errorf("%+v, %v", got, err)
	}
}

// A stream that ends early, or in another way than by length, is no answer.
func TestStreamWithoutItsEnd(t *testing.T) {
	t.Parallel()
	for name, body := range map[string]string{
		"broken off": `data: {"choices":[{"text":"x","finish_reason":null}]}` + "\n\n",
		"stopped":    `data: {"choices":[{"text":"x","finish_reason":"stop"}]}` + "\n\ndata: [DONE]\n\n",
		"no JSON":    "data: x\n\n",
	} {
		srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
		_, err := (&Client{URL: srv.URL}).Stream(context.Background(), []int32{1}, 3, nil)
		if err == nil {
			t.Errorf("%s: no error", name)
		}
		srv.Close()
	}
}
