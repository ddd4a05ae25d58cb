package desktop_test

import (
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"sync"
	"sync/atomic"
	"testing"

	"neuron/engine/desktop"
	"neuron/engine/policy"
	"neuron/engine/protocol"
	"neuron/internal/proxy"
)

// forward is a web proxy that leads every name to one place.
func forward(t *testing.T, to string) (address string, used *atomic.Int64) {
	t.Helper()
	u, err := url.Parse(to)
	must(t, err)
	used = &atomic.Int64{}
	p := &httputil.ReverseProxy{Rewrite: func(r *httputil.ProxyRequest) {
		r.Out.URL.Scheme, r.Out.URL.Host = u.Scheme, u.Host
		used.Add(1)
	}}
	tunnel := func(w http.ResponseWriter, r *http.Request) { // websockets ask for one
		used.Add(1)
		splice(w, r, u.Host)
	}
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Method == http.MethodConnect {
			tunnel(w, r)
			return
		}
		p.ServeHTTP(w, r)
	}))
	t.Cleanup(s.Close)
	return s.URL, used
}

// splice carries bytes both ways until one end has had enough.
func splice(w http.ResponseWriter, r *http.Request, to string) {
	there, err := new(net.Dialer).DialContext(r.Context(), "tcp", to)
	if err != nil {
		http.Error(w, err.Error(), http.StatusBadGateway)
		return
	}
	here, _, err := w.(http.Hijacker).Hijack()
	if err != nil {
		there.Close()
		return
	}
	_, _ = io.WriteString(here, "HTTP/1.1 200 OK\r\n\r\n") // who does not read it sees the end
	var both sync.WaitGroup
	for _, c := range [][2]net.Conn{{here, there}, {there, here}} {
		both.Go(func() {
			_, _ = io.Copy(c[0], c[1]) // an end is an end
			here.Close()
			there.Close()
		})
	}
	both.Wait()
}

// TestProxyTakesEffect: a network that only a proxy leads to is found as soon as
// the settings name it, through another one when they change, and lost when they
// name none.
func TestProxyTakesEffect(t *testing.T) {
	for _, name := range []string{"HTTP_PROXY", "HTTPS_PROXY", "http_proxy", "https_proxy", "NO_PROXY", "no_proxy"} {
		t.Setenv(name, "")
	}
	t.Cleanup(func() { proxy.Use("") })
	n := newNetwork(t)
	n.tracker()
	n.seed()
	one, usedOne := forward(t, n.url)
	two, usedTwo := forward(t, n.url)
	r := begin(t, desktop.Options{})
	r.change(t, func(s *policy.Settings) {
		s.SetUp, s.Share, s.Limits.KeepFree, s.Limits.Threads = true, true, 1, 1
		s.Tracker, s.Proxy = "http://tracker.invalid", one
	})
	r.wants(t, "") // layers were fetched by a torrent that the catalog gave
	if name := r.status(t).Tracker.Name; name != networkName {
		t.Errorf("the network is called %q", name)
	}
	x, err := r.Network(t.Context())
	must(t, err)
	if x.Name != networkName || len(x.Models) != 1 || usedOne.Load() < 3 {
		t.Errorf("%+v over %d requests", x, usedOne.Load())
	}
	r.change(t, func(s *policy.Settings) { s.Proxy = two })
	eventually(t, "the other proxy", func() bool { return usedTwo.Load() > 0 && r.status(t).Tracker.Connected })
	r.wants(t, "")
	was := usedOne.Load()
	r.change(t, func(s *policy.Settings) { s.Proxy = "" })
	eventually(t, "no way to the tracker", func() bool {
		s := r.status(t)
		return !s.Tracker.Connected && s.Policy.Reason == protocol.SharingNoTracker
	})
	if now := usedOne.Load(); now != was {
		t.Errorf("the first proxy was used %d times after the second one", now-was)
	}
}
