package gateway_test

import (
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/gateway"
	"neuron/engine/gateway/gatewaytest"
)

// TestKeepAlive: 35 s of prefill give a comment at 10, 20 and 30 s, and none
// more once tokens flow.
func TestKeepAlive(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		f := gatewaytest.New()
		hold := make(chan struct{})
		f.Script = func(gateway.GenerateRequest) gatewaytest.Script {
			return gatewaytest.Script{Pieces: []string{"x"}, Hold: hold}
		}
		g := gateway.New(gateway.Options{Backend: f})
		time.AfterFunc(35*time.Second, func() { close(hold) })
		w := httptest.NewRecorder()
		r := httptest.NewRequestWithContext(t.Context(), http.MethodPost, "/v1/chat/completions", strings.NewReader(chatBody(`,"stream":true`)))
		g.ServeHTTP(w, r)
		body := w.Body.String()
		if n := strings.Count(body, ": keep-alive\n\n"); n != 3 {
			t.Errorf("%d keep-alive comments in %s", n, body)
		}
		if !strings.HasSuffix(body, "data: [DONE]\n\n") {
			t.Errorf("%s", body)
		}
		if err := g.Close(t.Context()); err != nil {
			t.Error(err)
		}
	})
}

// panicking is a backend whose methods all panic: it embeds no backend.
type panicking struct{ gateway.Backend }

// TestPanic: a panic in a handler is a coded 500.
func TestPanic(t *testing.T) {
	t.Parallel()
	g := gateway.New(gateway.Options{Backend: panicking{}})
	w := httptest.NewRecorder()
	g.ServeHTTP(w, httptest.NewRequest(http.MethodGet, "/v1/models", nil))
	if w.Code != 500 || !strings.Contains(w.Body.String(), `"code":"internal"`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}
