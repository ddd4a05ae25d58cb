package proxy_test

import (
	"net/http"
	"os"
	"testing"

	"neuron/internal/proxy"
)

// way is where a request to address goes, "" for directly.
func way(t *testing.T, address string) string {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	u, err := proxy.For(r)
	if err != nil {
		t.Fatal(err)
	}
	if u == nil {
		return ""
	}
	return u.String()
}

func TestUseChangesAndGoesBack(t *testing.T) {
	for _, n := range []string{"http_proxy", "https_proxy", "NO_PROXY", "no_proxy"} {
		t.Setenv(n, "")
	}
	t.Setenv("HTTP_PROXY", "http://system:3128")
	t.Setenv("HTTPS_PROXY", "")
	if err := os.Unsetenv("HTTPS_PROXY"); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { proxy.Use("") })
	for _, step := range []struct{ use, http, https string }{
		{"", "http://system:3128", ""},
		{"http://one:80", "http://one:80", "http://one:80"},
		{"http://two:80", "http://two:80", "http://two:80"},
		{"", "http://system:3128", ""},
	} {
		proxy.Use(step.use)
		if got := way(t, "http://tracker.example/"); got != step.http {
			t.Errorf("after %q, http goes through %q, want %q", step.use, got, step.http)
		}
		if got := way(t, "https://tracker.example/"); got != step.https {
			t.Errorf("after %q, https goes through %q, want %q", step.use, got, step.https)
		}
		if got := way(t, "http://127.0.0.1:7700/"); got != "" {
			t.Errorf("after %q, loopback goes through %q", step.use, got)
		}
	}
	if _, set := os.LookupEnv("HTTPS_PROXY"); set {
		t.Error("HTTPS_PROXY is set, as it was not at first")
	}
}
