package gateway_test

import (
	"net/http"
	"strings"
	"testing"

	"neuron/engine/gateway"
	"neuron/engine/gateway/admit"
	"neuron/engine/gateway/gatewaytest"
)

// Requests of other keys are other clients to the backend, those of one key are
// one; "off" is handed on, and a wrong word refused.
func TestKeptPromptsAreOfOneKey(t *testing.T) {
	t.Parallel()
	f := gatewaytest.New("a")
	_, srv := serve(t, f, func(o *gateway.Options) {
		o.Keys = []admit.Key{{Name: "one", Secret: strings.Repeat("1", 20)}, {Name: "two", Secret: strings.Repeat("2", 20)}}
	})
	for _, c := range []struct{ key, more string }{{"1", ""}, {"1", `,"neuron":{"prefix":"auto"}`}, {"2", `,"neuron":{"prefix":"off"}`}} {
		req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, srv.URL+"/v1/chat/completions", strings.NewReader(chatBody(c.more)))
		if err != nil {
			t.Fatal(err)
		}
		req.Header.Set("Authorization", "Bearer "+strings.Repeat(c.key, 20))
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		if resp.Body.Close(); resp.StatusCode != http.StatusOK {
			t.Fatalf("status %d", resp.StatusCode)
		}
	}
	rs := f.Requests()
	if len(rs) != 3 || rs[0].Client == "" || rs[0].Client != rs[1].Client || rs[0].Client == rs[2].Client {
		t.Error("clients are not told apart by their keys")
	}
	if rs[0].NoPrefix || rs[1].NoPrefix || !rs[2].NoPrefix {
		t.Error("the switch does not arrive")
	}
}

func TestUsageTellsKeptTokens(t *testing.T) {
	t.Parallel()
	f := gatewaytest.New("a")
	_, srv := serve(t, f, nil)
	if _, body := post(t, srv, "/v1/chat/completions", chatBody("")); strings.Contains(body, "cached_tokens") {
		t.Errorf("%s", body)
	}
	f.Cached = 3
	for _, more := range []string{`,"n":2`, `,"stream":true,"stream_options":{"include_usage":true}`} {
		if _, body := post(t, srv, "/v1/chat/completions", chatBody(more)); !strings.Contains(body, `"prompt_tokens_details":{"cached_tokens":3}`) {
			t.Errorf("%s", body)
		}
	}
	if resp, body := post(t, srv, "/v1/chat/completions", chatBody(`,"neuron":{"prefix":"on"}`)); resp.StatusCode != 400 || !strings.Contains(body, "neuron.prefix") {
		t.Errorf("%d %s", resp.StatusCode, body)
	}
}
