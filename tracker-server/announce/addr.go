package announce

import (
	"net/netip"
	"time"
)

// Plausible reports whether somebody may be sent to the address: a port, and
// an IP address of one computer.
func Plausible(a netip.AddrPort) bool {
	ip := a.Addr()
	return a.Port() != 0 && ip.IsValid() && ip.Zone() == "" && !ip.Is4In6() &&
		(ip.IsLoopback() || ip.IsGlobalUnicast()) && ip != netip.AddrFrom4([4]byte{255, 255, 255, 255}) && !thisNetwork.Contains(ip)
}

var (
	thisNetwork = netip.MustParsePrefix("0.0.0.0/8")
	carrierNAT  = netip.MustParsePrefix("100.64.0.0/10")
)

// scope is how far an address means something: a client is told only addresses
// of at least its own scope, so that nobody is sent to a computer of its own
// network that happens to have the address of another's.
func scope(ip netip.Addr) int {
	switch {
	case ip.IsLoopback():
		return 0
	case ip.IsPrivate(), carrierNAT.Contains(ip):
		return 1
	default:
		return 2
	}
}

// group is what limits count by: an IPv4 address, or a /64 of IPv6, which one
// subscriber has for himself.
func group(ip netip.Addr) netip.Addr {
	ip = ip.Unmap().WithZone("")
	if ip.Is6() {
		p, _ := ip.Prefix(64) // 64 is valid for every IPv6 address
		return p.Addr()
	}
	return ip
}

// limiter is a token bucket per address group. The caller locks.
type limiter struct {
	burst, rate float64
	buckets     map[netip.Addr]bucket
}

type bucket struct {
	tokens float64
	filled time.Time
}

// maxBuckets bounds the addresses that are counted; beyond it old figures are
// forgotten, in the clients' favour.
const maxBuckets = 100_000

func newLimiter(burst int, rate float64) *limiter {
	return &limiter{burst: float64(burst), rate: rate, buckets: make(map[netip.Addr]bucket)}
}

func (l *limiter) take(now time.Time, of netip.Addr) bool {
	b, ok := l.buckets[of]
	if !ok {
		if len(l.buckets) >= maxBuckets {
			if l.sweep(now); len(l.buckets) >= maxBuckets {
				clear(l.buckets)
			}
		}
		b = bucket{l.burst, now}
	}
	b = bucket{min(l.burst, b.tokens+max(0, now.Sub(b.filled).Seconds())*l.rate), now}
	allowed := b.tokens >= 1
	if allowed {
		b.tokens--
	}
	l.buckets[of] = b
	return allowed
}

// sweep forgets full buckets.
func (l *limiter) sweep(now time.Time) {
	for of, b := range l.buckets {
		if b.tokens+now.Sub(b.filled).Seconds()*l.rate >= l.burst {
			delete(l.buckets, of)
		}
	}
}
