package announce

import (
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"neuron/engine/protocol"
)

func ip(s string) netip.Addr { return netip.MustParseAddr(s) }

func ask(id string, port uint16, left int64) *Request {
	r := &Request{InfoHash: Hash{1}, Port: port, Left: left, NumWant: -1, Compact: true}
	copy(r.PeerID[:], id)
	return r
}

func announce(t *testing.T, tab *Table, from string, r *Request, known ...Peer) *Reply {
	t.Helper()
	a, err := tab.Announce(ip(from), r, known)
	if err != nil {
		t.Fatal(err)
	}
	return a
}

func addrs(a *Reply) []string {
	out := []string{}
	for _, p := range a.Peers {
		out = append(out, p.Addr.String())
	}
	slices.Sort(out)
	return out
}

func wantPeers(t *testing.T, a *Reply, want ...string) {
	t.Helper()
	want = append([]string{}, want...)
	slices.Sort(want)
	if got := addrs(a); !slices.Equal(got, want) {
		t.Errorf("peers %v, want %v", got, want)
	}
}

func wantCode(t *testing.T, err error, code protocol.Code) {
	t.Helper()
	if !errors.Is(err, &protocol.Error{Code: code}) {
		t.Errorf("got %v, want %s", err, code)
	}
}

func TestAnnounceStory(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := New(Config{})
		a := announce(t, tab, "203.0.113.1", ask("seed", 1000, 0))
		if wantPeers(t, a); a.Seeds != 1 || a.Leechers != 0 || a.Interval != time.Minute || a.MinInterval != 20*time.Second {
			t.Errorf("first answer %+v", a)
		}
		leech := ask("leech", 2000, 50)
		wantPeers(t, announce(t, tab, "203.0.113.2", leech), "203.0.113.1:1000")
		wantPeers(t, announce(t, tab, "203.0.113.1", ask("seed", 1000, 0)), "203.0.113.2:2000")
		// A second seed gets no seeds, and nobody gets himself.
		wantPeers(t, announce(t, tab, "2001:db8::1", ask("seed2", 3000, 0)), "203.0.113.2:2000")
		wantPeers(t, announce(t, tab, "203.0.113.2", leech), "203.0.113.1:1000", "[2001:db8::1]:3000")
		leech.Left, leech.Event = 0, EventCompleted
		announce(t, tab, "203.0.113.2", leech)
		announce(t, tab, "203.0.113.2", leech) // said twice, counts once
		if c := tab.Scrape(Hash{1}); c != (Counts{Seeds: 3, Completed: 1}) {
			t.Errorf("scrape %+v", c)
		}
		// Nobody else can take an entry away.
		foreign := ask("other", 2000, 0)
		foreign.Event = EventStopped
		announce(t, tab, "203.0.113.2", foreign)
		announce(t, tab, "203.0.113.9", func() *Request { r := ask("leech", 2000, 0); r.Event = EventStopped; return r }())
		if n := tab.Peers(); n != 3 {
			t.Errorf("%d peers", n)
		}
		leech.Event = EventStopped
		if a := announce(t, tab, "203.0.113.2", leech); len(a.Peers) != 0 || a.Seeds != 2 {
			t.Errorf("after stopped: %+v", a)
		}
		// Two intervals after their last word the others are gone too.
		time.Sleep(2*time.Minute + 19*time.Second)
		if c := tab.Scrape(Hash{1}); c.Seeds != 2 {
			t.Errorf("forgotten too early: %+v", c)
		}
		time.Sleep(2 * time.Second)
		if c := tab.Scrape(Hash{1}); c.Seeds != 0 || tab.Peers() != 0 {
			t.Errorf("never forgotten: %+v", c)
		}
		tab.Sweep(func(Hash) bool { return false })
		if c := tab.Scrape(Hash{1}); c != (Counts{}) {
			t.Errorf("a dropped torrent: %+v", c)
		}
	})
}

func TestRestartedClientReplacesItself(t *testing.T) {
	t.Parallel()
	tab := New(Config{})
	announce(t, tab, "203.0.113.1", ask("before", 1000, 0))
	announce(t, tab, "203.0.113.1", ask("after", 1000, 10))
	if c := tab.Scrape(Hash{1}); c.Seeds != 0 || c.Leechers != 1 {
		t.Errorf("counts %+v", c)
	}
}

func TestAddresses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		from, claim string
		port        uint16
		loopback    bool
		code        protocol.Code
	}{
		"public":               {"203.0.113.1", "", 1, false, ""},
		"mapped":               {"::ffff:203.0.113.1", "203.0.113.1", 1, false, ""},
		"another":              {"203.0.113.1", "203.0.113.2", 1, true, protocol.CodeForbidden},
		"claims loopback":      {"203.0.113.1", "127.0.0.1", 1, true, protocol.CodeForbidden},
		"loopback, another":    {"127.0.0.1", "127.0.0.2", 1, true, ""},
		"loopback, but public": {"127.0.0.1", "127.0.0.2", 1, false, protocol.CodeForbidden},
		"loopback, elsewhere":  {"127.0.0.1", "203.0.113.2", 1, true, protocol.CodeForbidden},
		"multicast":            {"224.0.0.1", "", 1, false, protocol.CodeInvalidRequest},
		"multicast 6":          {"ff02::1", "", 1, false, protocol.CodeInvalidRequest},
		"link-local":           {"fe80::1", "", 1, false, protocol.CodeInvalidRequest},
		"nowhere":              {"0.0.0.0", "", 1, false, protocol.CodeInvalidRequest},
		"this network":         {"0.1.2.3", "", 1, false, protocol.CodeInvalidRequest},
		"broadcast":            {"255.255.255.255", "", 1, false, protocol.CodeInvalidRequest},
		"no port":              {"203.0.113.1", "", 0, false, protocol.CodeInvalidRequest},
	} {
		t.Run(name, func(t *testing.T) {
			tab := New(Config{Loopback: c.loopback})
			r := ask("x", c.port, 1)
			if c.claim != "" {
				r.IP = ip(c.claim)
			}
			_, err := tab.Announce(ip(c.from), r, nil)
			if c.code == "" && err != nil || c.code != "" && tab.Peers() != 0 {
				t.Errorf("got %v, %d peers", err, tab.Peers())
			}
			if c.code != "" {
				wantCode(t, err, c.code)
			}
		})
	}
}

// TestScopes: an address is told only to those for whom it means something.
func TestScopes(t *testing.T) {
	t.Parallel()
	tab := New(Config{})
	for i, from := range []string{"127.0.0.1", "192.168.0.1", "100.64.3.4", "fd00::1", "203.0.113.1", "2001:db8::1"} {
		announce(t, tab, from, ask(fmt.Sprint(i), uint16(1000+i), 1))
	}
	public := []string{"203.0.113.1:1004", "[2001:db8::1]:1005"}
	wantPeers(t, announce(t, tab, "203.0.113.99", ask("p", 9, 1)), public...)
	wantPeers(t, announce(t, tab, "192.168.0.1", ask("1", 1001, 1)), append(public, "100.64.3.4:1002", "[fd00::1]:1003", "203.0.113.99:9")...)
	if got := announce(t, tab, "127.0.0.1", ask("0", 1000, 1)); len(got.Peers) != 6 {
		t.Errorf("loopback sees %v", addrs(got))
	}
}

func TestKnownPeers(t *testing.T) {
	t.Parallel()
	tab := New(Config{})
	ap := netip.MustParseAddrPort
	known := []Peer{{Addr: ap("203.0.113.1:1000"), Seed: true}, {Addr: ap("203.0.113.7:7"), Seed: true}, {Addr: ap("203.0.113.8:8")},
		{Addr: ap("224.0.0.1:9")}, {Addr: ap("203.0.113.9:0")}, {Addr: ap("127.0.0.1:5")}}
	announce(t, tab, "203.0.113.1", ask("a", 1000, 5), known...)
	a := announce(t, tab, "203.0.113.2", ask("b", 2000, 5), known...)
	wantPeers(t, a, "203.0.113.1:1000", "203.0.113.7:7", "203.0.113.8:8")
	wantPeers(t, announce(t, tab, "203.0.113.2", ask("b", 2000, 0), known...), "203.0.113.1:1000", "203.0.113.8:8")
	if !tab.Has(Hash{1}, ap("203.0.113.1:1000")) || tab.Has(Hash{1}, ap("203.0.113.7:7")) || tab.Has(Hash{2}, ap("203.0.113.1:1000")) {
		t.Error("Has is wrong")
	}
}

func TestNumWant(t *testing.T) {
	t.Parallel()
	tab := New(Config{})
	for i := range 300 {
		announce(t, tab, fmt.Sprintf("203.0.%d.%d", i/200, 1+i%200), ask(fmt.Sprint(i), 1000, 1))
	}
	seen := make(map[string]bool)
	for want, got := range map[int]int{-1: 50, 0: 0, 1: 1, 120: 120, 1 << 30: 200} {
		r := ask("me", 9, 1)
		r.NumWant = want
		a := announce(t, tab, "198.51.100.1", r)
		list := addrs(a)
		if len(slices.Compact(list)) != got || len(a.Peers) != got {
			t.Errorf("numwant %d gives %d peers, want %d different ones", want, len(a.Peers), got)
		}
	}
	for range 40 {
		for _, s := range addrs(announce(t, tab, "198.51.100.1", ask("me", 9, 1))) {
			seen[s] = true
		}
	}
	if len(seen) < 250 {
		t.Errorf("40 answers of 50 name only %d of 300 peers", len(seen))
	}
}

func TestLimits(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		tab := New(Config{MaxPeers: 6, MaxPerAddress: 4, Burst: 3, PerSecond: 1})
		for port := range uint16(4) {
			announce(t, tab, fmt.Sprintf("2001:db8::%d", port+1), ask("x", 1+port, 1))
		}
		_, err := tab.Announce(ip("2001:db8::ffff"), ask("x", 99, 1), nil)
		wantCode(t, err, protocol.CodeRateLimited) // the same /64
		announce(t, tab, "2001:db8::1", ask("x", 1, 0))
		announce(t, tab, "203.0.113.1", ask("x", 1, 1))
		announce(t, tab, "203.0.113.2", ask("x", 1, 1))
		_, err = tab.Announce(ip("203.0.113.3"), ask("x", 1, 1), nil)
		wantCode(t, err, protocol.CodeUnavailable)
		stop := ask("x", 1, 1)
		stop.Event = EventStopped
		announce(t, tab, "203.0.113.2", stop)
		announce(t, tab, "203.0.113.3", ask("x", 1, 1))

		for range 3 {
			if err := tab.Admit(ip("203.0.113.1")); err != nil {
				t.Error(err)
			}
		}
		wantCode(t, tab.Admit(ip("::ffff:203.0.113.1")), protocol.CodeRateLimited)
		if err := tab.Admit(ip("203.0.113.2")); err != nil {
			t.Error(err)
		}
		time.Sleep(time.Second)
		if err := tab.Admit(ip("203.0.113.1")); err != nil {
			t.Error(err)
		}
		wantCode(t, tab.Admit(ip("203.0.113.1")), protocol.CodeRateLimited)
		time.Sleep(5 * time.Second)
		tab.Sweep(func(Hash) bool { return true })
		if n := len(tab.limit.buckets); n != 0 {
			t.Errorf("%d buckets stay", n)
		}
		if tab.Peers() != 6 {
			t.Errorf("%d peers", tab.Peers())
		}
		tab.Sweep(func(Hash) bool { return false })
		if tab.Peers() != 0 || len(tab.swarms) != 0 {
			t.Error("dropped torrents stay")
		}
	})
}

func TestIntervalGrows(t *testing.T) {
	t.Parallel()
	tab := New(Config{})
	for n, want := range map[int]time.Duration{0: time.Minute, 300: time.Minute, 3000: 10 * time.Minute, 1 << 30: 30 * time.Minute} {
		if got := tab.interval(n); got != want {
			t.Errorf("%d peers: %s, want %s", n, got, want)
		}
	}
}

// BenchmarkAnnounce is a regular announce in a swarm of 10,000, the answer
// included.
func BenchmarkAnnounce(b *testing.B) {
	tab := New(Config{})
	from := func(i int) netip.Addr { return netip.AddrFrom4([4]byte{203, byte(i >> 16), byte(i >> 8), byte(i)}) }
	for i := range 10_000 {
		if _, err := tab.Announce(from(i), ask("x", 6881, int64(i%10)), nil); err != nil {
			b.Fatal(err)
		}
	}
	raw := minimum + "&left=5&numwant=50&compact=1"
	for i := 0; b.Loop(); i++ {
		r, err := ParseAnnounce(raw)
		if err != nil {
			b.Fatal(err)
		}
		r.InfoHash = Hash{1}
		a, err := tab.Announce(from(i%10_000), r, nil)
		if err != nil || len(a.Encode(r)) < 300 {
			b.Fatal(err)
		}
	}
}
