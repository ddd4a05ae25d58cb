package wizard

import (
	"context"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"neuron/engine/policy"
	"neuron/engine/protocol"
)

func TestAddress(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"":                            "",
		"  ":                          "",
		"neuron.example":              "https://neuron.example",
		" https://neuron.example/ ":   "https://neuron.example",
		"localhost:8443":              "http://localhost:8443",
		"127.0.0.1:8443":              "http://127.0.0.1:8443",
		"wss://neuron.example":        "wss://neuron.example",
		"ftp://neuron.example":        "error",
		"https://":                    "error",
		"https://me:word@example.org": "error", // a password would be in the settings
		"://":                         "error",
	} {
		got, err := Address(text)
		if err != nil {
			got = "error"
		}
		if got != want {
			t.Errorf("%q: %q, want %q", text, got, want)
		}
	}
}

// Whatever is typed: an address that is taken can be saved.
func FuzzAddress(f *testing.F) {
	for _, s := range []string{"neuron.example", "https://a/b?c#d", "http://[::1]:5", "ws://ü", "https://a b", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, text string) {
		a, err := Address(text)
		if err != nil {
			if protocol.AsError(err).Code != protocol.CodeInvalidRequest {
				t.Errorf("%v", err)
			}
			return
		}
		if again, err := Address(a); err != nil || again != a {
			t.Errorf("%q becomes %q, then %q (%v)", text, a, again, err)
		}
		if u, err := url.Parse(a); a != "" && (err != nil || u.Host == "" || u.User != nil) {
			t.Errorf("%q is taken as %q (%v)", text, a, err)
		}
	})
}

func TestAsk(t *testing.T) {
	t.Parallel()
	answers := map[string]string{
		"/good/v1/catalog":  `{"models":[{},{}]}`,
		"/other/v1/catalog": `<html>`,
	}
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a, ok := answers[r.URL.Path]
		if !ok {
			http.NotFound(w, r)
			return
		}
		w.Write([]byte(a))
	}))
	t.Cleanup(srv.Close)
	if n, err := Ask(context.Background(), srv.URL+"/good"); n != 2 || err != nil {
		t.Errorf("%d, %v", n, err)
	}
	if n, err := Ask(context.Background(), "ws"+strings.TrimPrefix(srv.URL, "http")+"/good"); n != 2 || err != nil {
		t.Errorf("by its websocket's address: %d, %v", n, err)
	}
	for _, bad := range []string{srv.URL + "/other", srv.URL + "/nothing", "http://127.0.0.1:1"} {
		if _, err := Ask(context.Background(), bad); protocol.AsError(err) == nil || protocol.AsError(err).Code != protocol.CodeUnavailable {
			t.Errorf("%s: %v", bad, err)
		}
	}
	if _, err := Ask(context.Background(), ""); protocol.AsError(err) == nil || protocol.AsError(err).Code != protocol.CodeInvalidRequest {
		t.Errorf("no address: %v", err)
	}
}

// What the questions begin with can be saved as it is.
func TestTheDraftIsSound(t *testing.T) {
	t.Parallel()
	m := New(func() Engine { return nil }, nil, Ask)
	defer m.Close()
	if err := m.View().Draft.Check(); err != nil || m.View().Draft.Share || m.View().StartAtLogin {
		t.Errorf("%v, %+v", err, m.View())
	}
	if m.View().Draft.Form != policy.Form {
		t.Error("another form")
	}
}
