// Package webguard keeps web pages away from a gateway that is not theirs, and
// lets those in that its operator has named.
//
// engine/gateway imports it; it knows requests and no models, keys or answers.
package webguard

import (
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"neuron/engine/protocol"
)

// Guard says by which names a gateway goes, and which pages may use it.
type Guard struct {
	// Hosts are names or host:port of the gateway; empty: any.
	Hosts []string
	// Origins are pages, as browsers send them ("https://app.example").
	Origins []string
}

// Check guards a loopback gateway against web pages: the Host must be one
// that we go by (no DNS rebinding), and an Origin, which browsers send, must be
// such a host too or be allowed by name. Error: forbidden.
func (g Guard) Check(r *http.Request) *protocol.Error {
	if len(g.Hosts) > 0 && !g.allowed(r.Host) {
		return protocol.Errorf(protocol.CodeForbidden, "this host name is not served here")
	}
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(g.Origins, origin) {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return protocol.Errorf(protocol.CodeForbidden, "this origin is not allowed")
	}
	if len(g.Hosts) > 0 && g.allowed(u.Host) || len(g.Hosts) == 0 && strings.EqualFold(u.Host, r.Host) {
		return nil
	}
	return protocol.Errorf(protocol.CodeForbidden, "this origin is not allowed")
}

// allowed matches host:port, or the host alone, against Hosts.
func (g Guard) allowed(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	return slices.ContainsFunc(g.Hosts, func(a string) bool {
		return strings.EqualFold(a, host) || strings.EqualFold(strings.Trim(a, "[]"), name)
	})
}

// CORS answers preflights and adds headers for origins in Origins; true
// means that the request is answered.
func (g Guard) CORS(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(g.Origins, origin) {
		return false
	}
	h := w.Header()
	h.Set("Access-Control-Allow-Origin", origin)
	h.Add("Vary", "Origin")
	h.Set("Access-Control-Expose-Headers", "X-Neuron-Session, X-Request-Id, Retry-After, X-Ratelimit-Limit-Requests, X-Ratelimit-Remaining-Requests, X-Ratelimit-Reset-Requests")
	if r.Method != http.MethodOptions || r.Header.Get("Access-Control-Request-Method") == "" {
		return false
	}
	h.Set("Access-Control-Allow-Methods", "GET, POST, OPTIONS")
	h.Set("Access-Control-Allow-Headers", "Authorization, Content-Type, X-Neuron-Telemetry")
	h.Set("Access-Control-Max-Age", "600")
	w.WriteHeader(http.StatusNoContent)
	return true
}
