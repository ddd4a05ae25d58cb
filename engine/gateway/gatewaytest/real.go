package gatewaytest

import (
	"bufio"
	"context"
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
)

// samplers are settings whose effect can be told for sure.
func samplers(t *testing.T, a API) {
	first := func(more string) (string, string) {
		got := a.ask(t, `,"max_tokens":8,"logprobs":true,"top_logprobs":2`+more, http.StatusOK)
		return got.Choices[0].Logs.Content[0].Token, got.Choices[0].Message.Content
	}
	x, y := first(`,"temperature":1.5,"top_p":1,"min_p":0,"top_k":0,"seed":5`)
	if x2, y2 := first(`,"temperature":1.5,"top_p":1,"min_p":0,"top_k":0,"seed":5`); x != x2 || y != y2 {
		t.Errorf("the same seed gives %q and %q", y, y2)
	}
	differ := false
	for _, seed := range []string{"6", "7", "8", "9"} {
		_, z := first(`,"temperature":1.5,"top_p":1,"min_p":0,"top_k":0,"seed":` + seed)
		differ = differ || z != y
	}
	if !differ {
		t.Error("five seeds give the same text")
	}
	_, greedy := first("")
	for _, more := range []string{`,"temperature":1.5,"top_k":1`, `,"temperature":1.5,"top_p":0.0001`, `,"temperature":1.5,"min_p":1,"top_p":1`} {
		if _, got := first(more); got != greedy {
			t.Errorf("%s gives %q, not %q", more, got, greedy)
		}
	}
	// Token 0's text is in the vocabulary's order; banning and forcing work by id.
	got := a.request(t, "/completions", `{"model":"`+a.Model+`","prompt":"Once","max_tokens":3,"temperature":0,"logit_bias":{"40":100}}`, http.StatusOK)
	again := a.request(t, "/completions", `{"model":"`+a.Model+`","prompt":[40],"echo":true,"max_tokens":1,"temperature":0}`, http.StatusOK)
	if one := []rune(again.Choices[0].Text)[:1]; got.Choices[0].Text != strings.Repeat(string(one), 3) {
		t.Errorf("bias 100 gives %q, want three of %q", got.Choices[0].Text, string(one))
	}
	g := a.ask(t, `,"grammar":"root ::= [0-9]{5} \"!\""`, http.StatusOK)
	if s := g.Choices[0].Message.Content; len(s) != 6 || s[5] != '!' || *g.Choices[0].Finish != "stop" {
		t.Errorf("the grammar gives %q", s)
	}
}

// specialTokens: the text of a control token in a message stays text, and none
// comes out.
func specialTokens(t *testing.T, a API) {
	body := func(s string) string {
		raw, _ := json.Marshal(s)
		return `{"model":"` + a.Model + `","messages":[{"role":"user","content":` + string(raw) + `}],"temperature":0,"max_tokens":40}`
	}
	inside := a.request(t, "/chat/completions", body("Hi<|im_end|>Hi"), http.StatusOK)
	without := a.request(t, "/chat/completions", body("HiHi"), http.StatusOK)
	if d := inside.Usage.Prompt - without.Usage.Prompt; d < 3 {
		t.Errorf("the text of a control token takes %d tokens more than nothing", d)
	}
	for _, got := range []answer{inside, without} {
		if strings.Contains(got.Choices[0].Message.Content, "<|") {
			t.Errorf("%q", got.Choices[0].Message.Content)
		}
	}
}

// clientLeaves: an abandoned stream ends its session within a second.
func clientLeaves(t *testing.T, a API) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	resp := a.Post(ctx, t, "/chat/completions", strings.Replace(a.Body(`,"stream":true,"ignore_eos":true,"neuron":{"telemetry":true}`), `"max_tokens":48`, `"max_tokens":1500`, 1))
	id := resp.Header.Get("X-Neuron-Session")
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK || id == "" {
		t.Fatalf("%d, session %q", resp.StatusCode, id)
	}
	r := bufio.NewReader(resp.Body)
	for line := ""; !strings.Contains(line, `"content":"`) || strings.Contains(line, `"content":""`); {
		var err error
		if line, err = r.ReadString('\n'); err != nil {
			t.Fatal(err)
		}
	}
	leave()
	left := time.Now()
	for {
		tm := a.Telemetry(t, id)
		if tm.Phase.Ended() {
			if d := time.Since(left); d > time.Second {
				t.Errorf("the session ended after %s", d)
			}
			if a.Real && tm.Tokens >= 1500 { // the fake is faster than the network
				t.Errorf("it ran to its end: %d tokens", tm.Tokens)
			}
			return
		}
		if time.Since(left) > 10*time.Second {
			t.Fatalf("the session goes on: %+v", tm)
		}
		time.Sleep(5 * time.Millisecond) // polling, bounded above
	}
}

// clientHangsUp: the same for an answer that is not streamed.
func clientHangsUp(t *testing.T, a API) {
	ctx, leave := context.WithCancel(t.Context())
	defer leave()
	before := a.newest(t)
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, a.URL+"/chat/completions",
			strings.NewReader(strings.Replace(a.Body(`,"ignore_eos":true`), `"max_tokens":48`, `"max_tokens":1500`, 1)))
		if err != nil {
			return
		}
		req.Header.Set("Authorization", "Bearer "+a.Key)
		if resp, err := http.DefaultClient.Do(req); err == nil {
			resp.Body.Close()
		}
	}()
	tm := a.newest(t)
	for start := time.Now(); tm.Session == before.Session || tm.Tokens == 0; tm = a.newest(t) {
		if time.Since(start) > 20*time.Second {
			t.Fatalf("no new session has tokens: %+v", tm)
		}
		time.Sleep(5 * time.Millisecond) // polling, bounded above
	}
	leave()
	left := time.Now()
	for !tm.Phase.Ended() && time.Since(left) < 10*time.Second {
		time.Sleep(5 * time.Millisecond)
		tm = a.Telemetry(t, string(tm.Session))
	}
	if d := time.Since(left); d > time.Second || tm.Tokens >= 1500 {
		t.Errorf("the session ended after %s with %d tokens", d, tm.Tokens)
	}
	<-ended
}

// newest is the snapshot of the newest session.
func (a API) newest(t testing.TB) protocol.Telemetry {
	t.Helper()
	var list struct{ Data []protocol.Telemetry }
	a.get(t, "/sessions", &list)
	if len(list.Data) == 0 {
		return protocol.Telemetry{}
	}
	return list.Data[0]
}
