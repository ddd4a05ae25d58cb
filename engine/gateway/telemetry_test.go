package gateway_test

import (
	"encoding/json"
	"io"
	"net/http"
	"strings"
	"testing"

	"neuron/engine/gateway"
	"neuron/engine/gateway/gatewaytest"
	"neuron/engine/protocol"
)

// TestTelemetryWhileRunning: the header asks for it too, the session can be
// read by GET before its first token, and the list and metrics know of it.
func TestTelemetryWhileRunning(t *testing.T) {
	t.Parallel()
	f := gatewaytest.New()
	hold := make(chan struct{})
	f.Script = func(gateway.GenerateRequest) gatewaytest.Script {
		return gatewaytest.Script{Pieces: []string{"x"}, Hold: hold}
	}
	_, srv := serve(t, f, nil)
	get := func(path string) string {
		t.Helper()
		r, err := http.Get(srv.URL + path)
		if err != nil {
			t.Fatal(err)
		}
		defer r.Body.Close()
		raw, err := io.ReadAll(r.Body)
		if err != nil || r.StatusCode != 200 {
			t.Fatalf("%s: %d %v", path, r.StatusCode, err)
		}
		return string(raw)
	}
	req, err := http.NewRequest(http.MethodPost, srv.URL+"/v1/completions", strings.NewReader(`{"model":"fake/model","prompt":"p","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("X-Neuron-Telemetry", "1")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	var tm protocol.Telemetry
	if err := json.Unmarshal([]byte(get("/v1/sessions/"+resp.Header.Get("X-Neuron-Session"))), &tm); err != nil {
		t.Fatal(err)
	}
	if tm.Phase.Ended() || tm.Request != resp.Header.Get("X-Request-Id") || tm.PrefillTotal != 2 {
		t.Errorf("%+v", tm)
	}
	if list := get("/v1/sessions"); !strings.Contains(list, string(tm.Session)) {
		t.Errorf("%s", list)
	}
	if m := get("/metrics"); !strings.Contains(m, "neuron_gateway_running 1") {
		t.Errorf("%s", m)
	}
	close(hold)
	raw, err := io.ReadAll(resp.Body)
	if err != nil || !strings.Contains(string(raw), "event: neuron.telemetry\n") || !strings.Contains(string(raw), `"text":"x"`) {
		t.Errorf("%s, %v", raw, err)
	}
	if m := get("/metrics"); !strings.Contains(m, `neuron_gateway_tokens_total{kind="completion"} 1`) {
		t.Errorf("%s", m)
	}
}
