package gateway

import (
	"context"
	"net"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"neuron/engine/gateway/admit"
	"neuron/engine/protocol"
)

// checkKey finds the client whose key a request carries; nil when none is asked
// for.
func (g *Gateway) checkKey(r *http.Request) (*admit.Client, *protocol.Error) {
	if len(g.clients) == 0 {
		return nil, nil
	}
	scheme, key, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	found := admit.Find(g.clients, strings.TrimSpace(key))
	if !strings.EqualFold(scheme, "bearer") || found == nil {
		return nil, protocol.Errorf(protocol.CodeUnauthorized, "the key is missing or wrong")
	}
	return found, nil
}

// clientKey carries the request's *admit.Client in its context.
type clientKey struct{}

// client tells the request's client from others whose prompts it must not
// notice; "" where there is one for all.
func client(ctx context.Context) string {
	if c, ok := ctx.Value(clientKey{}).(*admit.Client); ok && c != nil {
		return c.ID()
	}
	return ""
}

// checkHost guards a loopback gateway against web pages: the Host must be one
// that we go by (no DNS rebinding), and an Origin, which browsers send, must be
// such a host too or be allowed by name.
func (g *Gateway) checkHost(r *http.Request) *protocol.Error {
	if len(g.o.AllowedHosts) > 0 && !g.hostAllowed(r.Host) {
		return protocol.Errorf(protocol.CodeForbidden, "this host name is not served here")
	}
	origin := r.Header.Get("Origin")
	if origin == "" || slices.Contains(g.o.AllowedOrigins, origin) {
		return nil
	}
	u, err := url.Parse(origin)
	if err != nil || u.Host == "" {
		return protocol.Errorf(protocol.CodeForbidden, "this origin is not allowed")
	}
	if len(g.o.AllowedHosts) > 0 && g.hostAllowed(u.Host) || len(g.o.AllowedHosts) == 0 && strings.EqualFold(u.Host, r.Host) {
		return nil
	}
	return protocol.Errorf(protocol.CodeForbidden, "this origin is not allowed")
}

// hostAllowed matches host:port, or the host alone, against AllowedHosts.
func (g *Gateway) hostAllowed(host string) bool {
	name := host
	if h, _, err := net.SplitHostPort(host); err == nil {
		name = h
	}
	name = strings.Trim(name, "[]")
	return slices.ContainsFunc(g.o.AllowedHosts, func(a string) bool {
		return strings.EqualFold(a, host) || strings.EqualFold(strings.Trim(a, "[]"), name)
	})
}

// cors answers preflights and adds headers for origins in AllowedOrigins; true
// means that the request is answered.
func (g *Gateway) cors(w http.ResponseWriter, r *http.Request) bool {
	origin := r.Header.Get("Origin")
	if origin == "" || !slices.Contains(g.o.AllowedOrigins, origin) {
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
