package accounts

import (
	"net/http"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"neuron/engine/protocol"
)

// limiter bounds how often something is done per name: burst at once, then one
// per every.
type limiter struct {
	now   func() time.Time
	every time.Duration
	burst int

	mu sync.Mutex
	// full is when a name's bucket has drained; names whose time is over are
	// forgotten when there are too many.
	full  map[string]time.Time
	swept time.Time
}

// maxNames bounds the names that are told apart. When all of them are in use,
// the rest shares one bucket: memory stays bounded, and those that were there
// before notice nothing.
const maxNames = 50_000

// take counts one. Error: rate_limited with the detail retry_after in seconds.
func (l *limiter) take(name string) error {
	now := l.now()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.full == nil {
		l.full = make(map[string]time.Time)
	}
	if _, ok := l.full[name]; !ok && len(l.full) >= maxNames {
		if since := now.Sub(l.swept); since >= time.Second || since < 0 {
			l.swept = now
			for k, t := range l.full {
				if t.Before(now) {
					delete(l.full, k)
				}
			}
		}
		if len(l.full) >= maxNames {
			name = ""
		}
	}
	full := l.full[name]
	if full.Before(now) {
		full = now
	}
	full = full.Add(l.every)
	if over := full.Sub(now) - time.Duration(l.burst)*l.every; over > 0 {
		seconds := int64((over + time.Second - 1) / time.Second)
		return protocol.Errorf(protocol.CodeRateLimited, "too many requests; try again in %d s", seconds).
			With("retry_after", strconv.FormatInt(seconds, 10))
	}
	l.full[name] = full
	return nil
}

// source names who sends r: an IPv4 address, or the /64 of an IPv6 address, in
// which one computer may choose as it likes.
func source(r *http.Request) string {
	at, err := netip.ParseAddrPort(r.RemoteAddr)
	if err != nil {
		return "unknown"
	}
	ip := at.Addr().Unmap().WithZone("")
	if ip.Is6() {
		p, err := ip.Prefix(64)
		if err != nil {
			return "unknown"
		}
		return p.String()
	}
	return ip.String()
}
