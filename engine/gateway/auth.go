package gateway

import (
	"context"
	"net/http"
	"strings"

	"neuron/engine/gateway/admit"
	"neuron/engine/gateway/webguard"
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

// guard keeps web pages away.
func (g *Gateway) guard() webguard.Guard {
	return webguard.Guard{Hosts: g.o.AllowedHosts, Origins: g.o.AllowedOrigins}
}
