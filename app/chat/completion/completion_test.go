package completion

import (
	"context"
	"errors"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"neuron/app/chat/thread"
	"neuron/engine/gateway"
	"neuron/engine/gateway/gatewaytest"
	"neuron/engine/protocol"
)

const key = "a key of sixteen characters"

// serve runs the real gateway with a scripted backend.
func serve(t *testing.T, script gatewaytest.Script) (*Client, *gatewaytest.Fake) {
	t.Helper()
	f := gatewaytest.New()
	f.Context = 4096
	f.Script = func(gateway.GenerateRequest) gatewaytest.Script { return script }
	g := gateway.New(gateway.Options{Backend: f, Key: key})
	srv := httptest.NewServer(g)
	t.Cleanup(func() {
		srv.CloseClientConnections()
		srv.Close()
		f.Wait()
	})
	return New(srv.URL+"/v1", key), f
}

func TestAsk(t *testing.T) {
	t.Parallel()
	c, f := serve(t, gatewaytest.Script{Pieces: []string{"Hello", ", ", "w\xc3", "\xb6rld"}})
	temperature, topP, seed := 0.25, 0.5, uint32(7)
	var text strings.Builder
	var last protocol.Telemetry
	finish, err := c.Ask(t.Context(), Request{
		Model: gatewaytest.ModelName, System: "Be brief.", Private: true,
		Turns:  []thread.Turn{{Role: thread.RoleUser, Text: "q1"}, {Role: thread.RoleAssistant, Text: "a1"}, {Role: thread.RoleUser, Text: "q2"}},
		Params: thread.Params{Temperature: &temperature, TopP: &topP, Seed: &seed, MaxTokens: 50},
	}, func(tm protocol.Telemetry) { last = tm }, func(s string) { text.WriteString(s) })
	if err != nil || finish != protocol.FinishStop || text.String() != "Hello, wörld" {
		t.Errorf("%q, %q, %v", text.String(), finish, err)
	}
	if last.Phase != protocol.PhaseDone || last.Tokens != 4 {
		t.Errorf("the last snapshot is %+v", last)
	}
	r := f.Requests()[0]
	if r.Policy != "private" || r.MaxTokens != 50 || r.Sampler.Seed != 7 || r.Sampler.Temperature != 0.25 || r.Sampler.TopP != 0.5 {
		t.Errorf("asked for %+v", r)
	}
	var prompt []byte
	for _, id := range r.Prompt {
		if id < 256 {
			prompt = append(prompt, byte(id))
		}
	}
	at := 0
	for _, part := range []string{"Be brief.", "q1", "a1", "q2"} {
		i := strings.Index(string(prompt[at:]), part)
		if i < 0 {
			t.Fatalf("the prompt %q lacks %q", prompt, part)
		}
		at += i
	}
}

// A field that is not set must leave the server's default.
func TestAskWithDefaults(t *testing.T) {
	t.Parallel()
	c, f := serve(t, gatewaytest.Script{Pieces: []string{"x"}})
	ask := func(p thread.Params) gateway.GenerateRequest {
		if _, err := c.Ask(t.Context(), Request{Model: gatewaytest.ModelName, Turns: []thread.Turn{{Role: thread.RoleUser, Text: "q"}}, Params: p}, nil, nil); err != nil {
			t.Fatal(err)
		}
		all := f.Requests()
		return all[len(all)-1]
	}
	zero := 0.0
	a, b := ask(thread.Params{}), ask(thread.Params{Temperature: &zero})
	if a.Policy != "public" || a.Sampler.Temperature == 0 || b.Sampler.Temperature != 0 {
		t.Errorf("default %+v, zero %+v", a.Sampler, b.Sampler)
	}
}

func TestAskFails(t *testing.T) {
	t.Parallel()
	for name, s := range map[string]gatewaytest.Script{
		"refused": {Refuse: protocol.Errorf(protocol.CodeNoRoute, "no route")},
		"early":   {Fail: protocol.Errorf(protocol.CodeNoRoute, "no route"), FailPhase: protocol.PhaseRouting},
		"late":    {Pieces: []string{"half"}, Fail: gatewaytest.ErrLost, FailPhase: protocol.PhaseDecode},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			c, _ := serve(t, s)
			text := ""
			finish, err := c.Ask(t.Context(), Request{Model: gatewaytest.ModelName, Turns: []thread.Turn{{Role: thread.RoleUser, Text: "q"}}}, nil, func(s string) { text += s })
			var e *protocol.Error
			if !errors.As(err, &e) || finish != "" {
				t.Fatalf("%q, %v", finish, err)
			}
			if name == "late" {
				if text != "half" || e.Code != protocol.CodeHopLost || e.Hop == nil || *e.Hop != 1 {
					t.Errorf("%q, %+v", text, e)
				}
			} else if e.Code != protocol.CodeNoRoute || text != "" {
				t.Errorf("%q, %+v", text, e)
			}
		})
	}
}

func TestContextExceededSaysWhatFits(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, gatewaytest.Script{})
	_, err := c.Ask(t.Context(), Request{Model: gatewaytest.ModelName, Turns: []thread.Turn{{Role: thread.RoleUser, Text: strings.Repeat("long ", 2000)}}}, nil, nil)
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != protocol.CodeContextExceeded || e.Detail["fits"] == "" {
		t.Errorf("%+v", e)
	}
}

func TestAskStops(t *testing.T) {
	t.Parallel()
	c, f := serve(t, gatewaytest.Script{Pieces: []string{"again "}, Endless: true})
	ctx, stop := context.WithCancel(t.Context())
	defer stop()
	_, err := c.Ask(ctx, Request{Model: gatewaytest.ModelName, Turns: []thread.Turn{{Role: thread.RoleUser, Text: "q"}}}, nil, func(string) { stop() })
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != protocol.CodeCancelled || !errors.Is(err, context.Canceled) {
		t.Errorf("%v", err)
	}
	f.Wait() // the session ends with the request
}

func TestModels(t *testing.T) {
	t.Parallel()
	c, _ := serve(t, gatewaytest.Script{})
	got, err := c.Models(t.Context())
	if d := cmp.Diff([]Model{{ID: gatewaytest.ModelName, Ready: true, Layers: 2, Held: 2, Context: 4096}}, got); d != "" || err != nil {
		t.Errorf("(-want +got):\n%s\n%v", d, err)
	}
	c = New("http://127.0.0.1:1/v1", key)
	var e *protocol.Error
	if _, err := c.Models(t.Context()); !errors.As(err, &e) || e.Code != protocol.CodeUnavailable {
		t.Errorf("nobody there: %v", err)
	}
}
