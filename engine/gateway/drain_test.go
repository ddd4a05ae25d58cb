package gateway_test

import (
	"encoding/json"
	"net/http"
	"strings"
	"testing"
	"time"

	"neuron/engine/gateway"
	"neuron/engine/gateway/gatewaytest"
	"neuron/engine/protocol"
)

// TestDrain: what runs is finished, what waits or comes is told to come again,
// and who only looks is served.
func TestDrain(t *testing.T) {
	t.Parallel()
	f := gatewaytest.New()
	hold := make(chan struct{})
	f.Script = func(gateway.GenerateRequest) gatewaytest.Script {
		return gatewaytest.Script{Pieces: []string{"all", " of", " it"}, Hold: hold}
	}
	g, srv := serve(t, f, func(o *gateway.Options) { o.MaxConcurrent = 1 })
	type answer struct {
		resp *http.Response
		body string
	}
	ask := func() <-chan answer {
		out := make(chan answer, 1)
		go func() {
			resp, body := post(t, srv, "/v1/chat/completions", chatBody(""))
			out <- answer{resp, body}
		}()
		return out
	}
	until := func(status string, running, waiting int) {
		t.Helper()
		var h struct {
			Status           string
			Running, Waiting int
		}
		for end := time.Now().Add(20 * time.Second); ; {
			resp, err := http.Get(srv.URL + "/health")
			if err != nil {
				t.Fatal(err)
			}
			err = json.NewDecoder(resp.Body).Decode(&h)
			resp.Body.Close()
			if err != nil {
				t.Fatal(err)
			}
			if h.Status == status && h.Running == running && h.Waiting == waiting {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("health %+v, want %s, %d and %d", h, status, running, waiting)
			}
		}
	}
	refused := func(what string, a answer) {
		t.Helper()
		if a.resp.StatusCode != protocol.CodeShutdown.HTTPStatus() || a.resp.Header.Get("Retry-After") != "10" || !strings.Contains(a.body, `"code":"shutdown"`) {
			t.Errorf("%s: %d %v %s", what, a.resp.StatusCode, a.resp.Header, a.body)
		}
	}
	first := ask()
	until("ok", 1, 0)
	second := ask()
	until("ok", 1, 1)
	if g.Answers() != 2 {
		t.Errorf("%d answers", g.Answers())
	}
	drained := g.Drain()
	refused("the one that waits", <-second)
	refused("a new one", <-ask())
	until("stopping", 1, 0)
	if resp, err := http.Get(srv.URL + "/v1/models"); err != nil || resp.Body.Close() != nil || resp.StatusCode != http.StatusOK {
		t.Errorf("models: %v, %v", resp, err)
	}
	select {
	case <-drained:
		t.Error("drained with an answer under way")
	case a := <-first:
		t.Errorf("the running answer ended: %s", a.body)
	default:
	}
	close(hold)
	if a := <-first; a.resp.StatusCode != http.StatusOK || !strings.Contains(a.body, "all of it") {
		t.Errorf("%d %s", a.resp.StatusCode, a.body)
	}
	<-drained
	<-g.Drain()
}
