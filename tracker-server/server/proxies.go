package server

import (
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"
)

// behindProxies makes requests that come through trusted reverse proxies look
// as if they came from the client itself: limits count by client, and a client
// announces its own address. From the end of X-Forwarded-For, where the
// proxies write, it goes back to the first address that is no proxy of ours;
// what stands before that is the client's own claim.
func behindProxies(proxies []netip.Prefix, next http.Handler) http.Handler {
	if len(proxies) == 0 {
		return next
	}
	trusted := func(ip netip.Addr) bool {
		ip = ip.Unmap().WithZone("")
		return slices.ContainsFunc(proxies, func(p netip.Prefix) bool { return p.Contains(ip) })
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		at, err := netip.ParseAddrPort(r.RemoteAddr)
		if err != nil || !trusted(at.Addr()) {
			next.ServeHTTP(w, r)
			return
		}
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		client := netip.Addr{}
		for i := len(hops) - 1; i >= 0; i-- {
			ip, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
			if err != nil {
				break
			}
			client = ip
			if !trusted(ip) {
				break
			}
		}
		if client.IsValid() {
			r = r.Clone(r.Context())
			r.RemoteAddr = net.JoinHostPort(client.Unmap().WithZone("").String(), "0")
		}
		next.ServeHTTP(w, r)
	})
}
