// Package announce is the tracker's memory of BitTorrent peers: who has
// announced which torrent from where, for how long that is believed, and whom
// a peer is told about (BEP 3, 7, 23, 31 and 48).
//
// A Table is a state machine without sockets: the clock is injected, and no
// goroutine runs. It is safe for concurrent use. Mount is its HTTP face. The
// server imports the package, and the catalog for its hashes. It knows no catalog and no node: the caller says which torrents exist
// and adds the nodes that it knows otherwise.
package announce

import (
	"math/rand/v2"
	"net/netip"
	"sync"
	"time"

	"neuron/engine/protocol"
)

// Config holds the table's limits. Zero values get the defaults.
type Config struct {
	// Interval is how soon a peer of a small swarm shall come back, MaxInterval
	// one of a large swarm: the tracker is asked about five times a second per
	// swarm at most. Defaults 1 and 30 minutes.
	Interval, MaxInterval time.Duration
	// MinInterval is the shortest time that clients are allowed; default 20 s.
	MinInterval time.Duration
	// MaxPeers bounds all entries (200,000), MaxPerAddress those of one IP
	// address (of one /64 for IPv6) in one torrent (64).
	MaxPeers, MaxPerAddress int
	// Burst and PerSecond bound the requests of one IP address (300 and 10).
	Burst     int
	PerSecond float64
	// Loopback lets clients on this computer announce another loopback address
	// than the one they come from, for a tracker that only listens there.
	Loopback bool
	Now      func() time.Time // default: time.Now
}

const (
	defaultWant = 50
	maxWant     = 200
	// perSwarm is how often a second one swarm may ask.
	perSwarm = 5
)

func (c *Config) fill() {
	duration := func(p *time.Duration, v time.Duration) {
		if *p == 0 {
			*p = v
		}
	}
	number := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	duration(&c.Interval, time.Minute)
	duration(&c.MaxInterval, 30*time.Minute)
	duration(&c.MinInterval, 20*time.Second)
	number(&c.MaxPeers, 200_000)
	number(&c.MaxPerAddress, 64)
	number(&c.Burst, 300)
	if c.PerSecond == 0 {
		c.PerSecond = 10
	}
	if c.Now == nil {
		c.Now = time.Now
	}
}

// Hash is a torrent's info hash.
type Hash [20]byte

// PeerID is what a client calls itself.
type PeerID [20]byte

// Peer is an address that a client is told.
type Peer struct {
	Addr netip.AddrPort
	ID   PeerID // zero where it is not known
	Seed bool   // has the whole torrent
}

// Reply answers an announce.
type Reply struct {
	Interval, MinInterval time.Duration
	Seeds, Leechers       int
	Peers                 []Peer
}

// Counts are the figures of one torrent.
type Counts struct {
	Seeds, Leechers int
	Completed       int // since the tracker started
}

// Table holds all swarms.
type Table struct {
	c     Config
	limit *limiter

	mu     sync.Mutex
	swarms map[Hash]*swarm
	peers  int // in all swarms
}

type swarm struct {
	list      []*entry
	at        map[netip.AddrPort]int // places in list
	perAddr   map[netip.Addr]int
	seeds     int
	completed int
	due       time.Time // no entry expires before
}

type entry struct {
	addr    netip.AddrPort
	id      PeerID
	seed    bool
	expires time.Time
}

// New makes an empty table.
func New(c Config) *Table {
	c.fill()
	return &Table{c: c, limit: newLimiter(c.Burst, c.PerSecond), swarms: make(map[Hash]*swarm)}
}

// Admit counts one request of an IP address, so that no address keeps the
// tracker busy. Error: rate_limited.
func (t *Table) Admit(from netip.Addr) error {
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.limit.take(t.c.Now(), group(from)) {
		return protocol.Errorf(protocol.CodeRateLimited, "too many requests from this address")
	}
	return nil
}

// Announce records what a client that speaks from an IP address says, and
// answers with peers: those of the table and the known ones, which the caller
// vouches for. The torrent must be one that the tracker serves. Errors:
// invalid_request, forbidden, rate_limited.
func (t *Table) Announce(from netip.Addr, r *Request, known []Peer) (*Reply, error) {
	addr, err := t.address(from, r)
	if err != nil {
		return nil, err
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.c.Now()
	s := t.swarms[r.InfoHash]
	if s == nil {
		s = &swarm{at: make(map[netip.AddrPort]int), perAddr: make(map[netip.Addr]int)}
		t.swarms[r.InfoHash] = s
	}
	t.expire(s, now)
	interval := t.interval(len(s.list) + len(known))
	if r.Event == EventStopped {
		// Only the client itself may take its entry away.
		if i, ok := s.at[addr]; ok && s.list[i].id == r.PeerID {
			t.remove(s, i)
		}
		return t.reply(s, interval, known, nil), nil
	}
	if err := t.put(s, r, addr, now.Add(2*interval+t.c.MinInterval)); err != nil {
		return nil, err
	}
	interval = t.interval(len(s.list) + len(known))
	return t.reply(s, interval, known, s.sample(addr, r, known)), nil
}

// address is where the client can be dialled, if that is plausible.
func (t *Table) address(from netip.Addr, r *Request) (netip.AddrPort, error) {
	from = from.Unmap().WithZone("")
	if r.IP.IsValid() && r.IP != from {
		if !t.c.Loopback || !from.IsLoopback() || !r.IP.IsLoopback() {
			return netip.AddrPort{}, protocol.Errorf(protocol.CodeForbidden, "a client may announce only the address that it comes from")
		}
		from = r.IP
	}
	addr := netip.AddrPortFrom(from, r.Port)
	if !Plausible(addr) {
		return addr, protocol.Errorf(protocol.CodeInvalidRequest, "nobody can dial %s", addr)
	}
	return addr, nil
}

// put adds or renews an entry.
func (t *Table) put(s *swarm, r *Request, addr netip.AddrPort, expires time.Time) error {
	if expires.Before(s.due) {
		s.due = expires
	}
	seed := r.Left == 0
	if i, ok := s.at[addr]; ok {
		e := s.list[i]
		if seed && !e.seed && e.id == r.PeerID && r.Event == EventCompleted {
			s.completed++
		}
		if e.seed != seed {
			s.seeds += count(seed) - count(e.seed)
		}
		e.id, e.seed, e.expires = r.PeerID, seed, expires
		return nil
	}
	of := group(addr.Addr())
	if s.perAddr[of] >= t.c.MaxPerAddress {
		return protocol.Errorf(protocol.CodeRateLimited, "too many clients of this torrent at one address")
	}
	if t.peers >= t.c.MaxPeers {
		return protocol.Errorf(protocol.CodeUnavailable, "the tracker knows too many peers already")
	}
	s.at[addr] = len(s.list)
	s.list = append(s.list, &entry{addr: addr, id: r.PeerID, seed: seed, expires: expires})
	s.perAddr[of]++
	s.seeds += count(seed)
	t.peers++
	return nil
}

func count(b bool) int {
	if b {
		return 1
	}
	return 0
}

func (t *Table) remove(s *swarm, i int) {
	e := s.list[i]
	last := len(s.list) - 1
	s.list[i] = s.list[last]
	s.at[s.list[i].addr] = i
	s.list[last] = nil
	s.list = s.list[:last]
	delete(s.at, e.addr)
	of := group(e.addr.Addr())
	if s.perAddr[of]--; s.perAddr[of] == 0 {
		delete(s.perAddr, of)
	}
	s.seeds -= count(e.seed)
	t.peers--
}

// expire drops what nobody renewed. Entries live longer than an interval after
// their last renewal, so it looks at them about once an interval.
func (t *Table) expire(s *swarm, now time.Time) {
	if now.Before(s.due) {
		return
	}
	s.due = now.Add(t.c.MaxInterval)
	for i := len(s.list) - 1; i >= 0; i-- {
		if e := s.list[i].expires; !now.Before(e) {
			t.remove(s, i)
		} else if e.Before(s.due) {
			s.due = e
		}
	}
}

// interval grows with the swarm.
func (t *Table) interval(peers int) time.Duration {
	return min(max(t.c.Interval, time.Duration(peers)*time.Second/perSwarm), t.c.MaxInterval)
}

func (t *Table) reply(s *swarm, interval time.Duration, known, peers []Peer) *Reply {
	r := &Reply{Interval: interval, MinInterval: t.c.MinInterval, Seeds: s.seeds, Leechers: len(s.list) - s.seeds, Peers: peers}
	for _, k := range known {
		if _, ok := s.at[k.Addr]; ok {
			continue
		}
		r.Seeds += count(k.Seed)
		r.Leechers += count(!k.Seed)
	}
	return r
}

// sample draws peers for the client at self: never itself, no seeds for a
// seed, and only addresses that it can reach.
func (s *swarm) sample(self netip.AddrPort, r *Request, known []Peer) []Peer {
	want := min(r.NumWant, maxWant)
	if r.NumWant < 0 {
		want = defaultWant
	}
	var out []Peer
	told := make(map[netip.AddrPort]bool)
	total := len(s.list) + len(known)
	take := func(i int) {
		var p Peer
		if i < len(s.list) {
			e := s.list[i]
			p = Peer{Addr: e.addr, ID: e.id, Seed: e.seed}
		} else if p = known[i-len(s.list)]; !Plausible(p.Addr) {
			return
		}
		if p.Addr == self || told[p.Addr] || p.Seed && r.Left == 0 || scope(p.Addr.Addr()) < scope(self.Addr()) {
			return
		}
		told[p.Addr] = true
		out = append(out, p)
	}
	if total == 0 || want == 0 {
		return nil
	}
	// A walk through all places with a step that is prime to their number, from
	// a random place on: every peer has the same chance, and nothing is copied.
	step := 1 + rand.IntN(total) //nolint:gosec // which peers a client gets is no secret
	for gcd(step, total) != 1 {
		step = 1 + rand.IntN(total) //nolint:gosec // as above
	}
	at := rand.IntN(total) //nolint:gosec // as above
	for n := 0; n < total && len(out) < want; n++ {
		take(at)
		at = (at + step) % total
	}
	return out
}

func gcd(a, b int) int {
	for b != 0 {
		a, b = b, a%b
	}
	return a
}

// Scrape tells the figures of a torrent; zero for one that nobody announced.
func (t *Table) Scrape(h Hash) Counts {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.swarms[h]
	if s == nil {
		return Counts{}
	}
	t.expire(s, t.c.Now())
	return Counts{Seeds: s.seeds, Leechers: len(s.list) - s.seeds, Completed: s.completed}
}

// ScrapeWith is Scrape with known peers beside those that have announced
// themselves.
func (t *Table) ScrapeWith(h Hash, known []Peer) Counts {
	n := t.Scrape(h)
	for _, k := range known {
		switch {
		case t.Has(h, k.Addr):
		case k.Seed:
			n.Seeds++
		default:
			n.Leechers++
		}
	}
	return n
}

// Has reports whether a live entry announces the address.
func (t *Table) Has(h Hash, addr netip.AddrPort) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.swarms[h]
	if s == nil {
		return false
	}
	i, ok := s.at[addr]
	return ok && t.c.Now().Before(s.list[i].expires)
}

// Peers is the number of live entries.
func (t *Table) Peers() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.peers
}

// Sweep drops what has expired, and all swarms that keep does not want; the
// server calls it from time to time.
func (t *Table) Sweep(keep func(Hash) bool) {
	t.mu.Lock()
	defer t.mu.Unlock()
	now := t.c.Now()
	t.limit.sweep(now)
	for h, s := range t.swarms {
		t.expire(s, now)
		if !keep(h) {
			t.peers -= len(s.list)
			delete(t.swarms, h)
		}
	}
}
