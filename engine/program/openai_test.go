package program_test

import (
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"testing"

	"neuron/engine/gateway/gatewaytest"
)

// TestOpenAI runs the gateway's API suite and the real clients over a route of
// two real stages; every answer is held against OpenAI's description.
func TestOpenAI(t *testing.T) {
	n := newNetwork(t, guide, "0-4", "4-8")
	e := n.gateway.Endpoint()
	target, err := url.Parse(e.URL)
	if err != nil {
		t.Fatal(err)
	}
	target.Path = ""
	proxy := &httputil.ReverseProxy{FlushInterval: -1, Rewrite: func(r *httputil.ProxyRequest) { r.SetURL(target) }}
	srv := httptest.NewServer(gatewaytest.Checked(t, proxy))
	defer srv.Close()
	a := gatewaytest.API{URL: srv.URL + "/v1", Key: e.Key, Model: guideName, Real: true}
	t.Run("suite", func(t *testing.T) { gatewaytest.APISuite(t, a) })
	t.Run("openai-go", func(t *testing.T) { gatewaytest.GoClient(t, a) })
	t.Run("npm openai", func(t *testing.T) { gatewaytest.NPMClient(t, a) })
	eventually(t, "all sessions to be gone from both nodes", func() bool {
		for _, x := range n.nodes {
			if p := x.Stage().Process(); p == nil || p.Stats().Sessions != 0 || p.Stats().FreeKVBytes != p.KVBudget() {
				return false
			}
		}
		return true
	})
}
