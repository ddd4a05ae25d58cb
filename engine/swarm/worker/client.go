package worker

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/anacrolix/torrent"
	"github.com/anacrolix/torrent/metainfo"
	pp "github.com/anacrolix/torrent/peer_protocol"
	"github.com/anacrolix/torrent/storage"
	"golang.org/x/time/rate"

	"neuron/engine/protocol"
	"neuron/engine/swarm"
	"neuron/internal/syserr"
	"neuron/internal/version"
)

const (
	// burst is what a limiter lets pass at once, and the largest request of a
	// peer that is served: the library panics when a request that it accepted
	// is larger than the limiter's burst, and limits change while it runs.
	burst = 256 << 10
	// unverified bounds the bytes that are fetched and not yet hashed, and so
	// what a crash can lose.
	unverified = 32 << 20
	// hashers at a time; hashing runs at the lowest priority.
	hashers = 2
	// defaultPeers is Limits.Peers where it is 0.
	defaultPeers = 40
	// announceRetry and announceRetryMost bound the pause after a failed
	// announce; the tracker may be restarting.
	announceRetry     = 5 * time.Second
	announceRetryMost = 5 * time.Minute
)

// client is the BitTorrent library with our settings, its socket and limits.
type client struct {
	*torrent.Client
	listener net.Listener
	up, down *rate.Limiter
	web      *webGuard
	log      *slog.Logger

	mu     sync.Mutex
	limits swarm.Limits                       // guarded by mu
	seen   map[*torrent.Torrent]*acquaintance // guarded by mu
	asked  map[metainfo.Hash]bool             // torrents for which a tracker has been asked; guarded by mu
}

// acquaintance is what is remembered of a torrent's peers.
type acquaintance struct {
	ips  map[netip.Addr]struct{}     // that were connected, to count bans
	dial map[netip.AddrPort]struct{} // where they can be found again
}

// mostIPs and mostDial bound an acquaintance.
const (
	mostIPs  = 4096
	mostDial = 256
)

// listen opens the socket for peers.
func listen(ctx context.Context, addr string) (net.Listener, *protocol.Error) {
	lc := net.ListenConfig{KeepAlive: -1}
	l, err := lc.Listen(ctx, "tcp", addr)
	switch {
	case syserr.AddrInUse(err):
		return nil, protocol.Errorf(protocol.CodePortInUse, "peers cannot connect: another program uses %s", addr)
	case err != nil:
		return nil, protocol.Errorf(protocol.CodePortInUse, "peers cannot connect at %s: %w", addr, err)
	}
	return l, nil
}

// newClient makes the library's client; it owns l from now on.
func newClient(l net.Listener, log *slog.Logger) (*client, error) {
	c := &client{up: rate.NewLimiter(rate.Inf, burst), down: rate.NewLimiter(rate.Inf, burst), log: log, web: newWebGuard(log), seen: map[*torrent.Torrent]*acquaintance{}, asked: map[metainfo.Hash]bool{}}
	g := &gate{}
	c.listener = &peerListener{Listener: l, gate: g}

	cfg := torrent.NewDefaultClientConfig()
	// Peers come from trackers and from the engine alone; models may be private.
	cfg.NoDHT, cfg.DisablePEX, cfg.DisableWebtorrent, cfg.NoDefaultPortForwarding = true, true, true, true
	cfg.PeriodicallyAnnounceTorrentsToDht = false
	// The socket and the dialer are ours (added below), so the built-in TCP is
	// off; uTP is not built in.
	cfg.DisableUTP, cfg.DisableTCP = true, true
	cfg.Seed = true
	cfg.UploadRateLimiter, cfg.DownloadRateLimiter = c.up, c.down
	cfg.MaxAllocPeerRequestDataPerConn = burst
	cfg.MaxUnverifiedBytes = unverified
	cfg.PieceHashersPerTorrent = hashers
	cfg.EstablishedConnsPerTorrent = defaultPeers
	cfg.FailedAnnounceMinInterval, cfg.FailedAnnounceMaxInterval = announceRetry, announceRetryMost
	cfg.DropMutuallyCompletePeers = true
	cfg.WebTransport = c.web
	cfg.HttpRequestDirector = c.noteAnnounce
	cfg.HTTPProxy = http.ProxyFromEnvironment
	cfg.HTTPUserAgent = "Neuron/" + version.String()
	cfg.ExtendedHandshakeClientVersion = "Neuron " + version.String()
	cfg.Bep20 = "-NE0001-"
	// Its lines name peers and paths, so they are shown only to those who ask.
	cfg.Slogger = slog.New(atDebug{log.Handler()})
	cfg.DefaultStorage = noStorage{} // every torrent brings its own
	cfg.Callbacks.PeerConnAdded = append(cfg.Callbacks.PeerConnAdded, onlyMetadata, c.noteConn)
	cfg.Callbacks.ReadExtendedHandshake = c.noteListen

	cl, err := torrent.NewClient(cfg)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("BitTorrent client: %w", err), l.Close())
	}
	c.Client = cl
	g.setList(cl.BadPeerIPs)
	cl.AddDialer(&peerDialer{gate: g, local: localFor(l.Addr())})
	cl.AddListener(c.listener)
	return c, nil
}

// close ends everything; the torrents are dropped before.
func (c *client) close() {
	for _, err := range c.Client.Close() {
		c.log.Warn("BitTorrent client does not close", "error", err)
	}
	if err := c.listener.Close(); err != nil {
		c.log.Warn("Socket for peers does not close", "error", err)
	}
	c.web.close()
}

// setLimits applies rate caps at once.
func (c *client) setLimits(l swarm.Limits) {
	c.mu.Lock()
	defer c.mu.Unlock()
	set := func(r *rate.Limiter, old, bytes int64) {
		switch {
		case old == bytes: // setting Inf twice in one nanosecond spoils a limiter for good
		case bytes == 0:
			r.SetLimit(rate.Inf)
		default:
			r.SetLimit(rate.Limit(bytes))
		}
	}
	set(c.up, c.limits.UpBytes, l.UpBytes)
	set(c.down, c.limits.DownBytes, l.DownBytes)
	c.limits = l
}

// onlyMetadata takes from a new connection all protocol extensions but the one
// that hands out the torrent's own info dictionary: with hole punching a peer
// could make us dial addresses of its choice. Its lock is the library's.
func onlyMetadata(pc *torrent.PeerConn) {
	pc.LocalLtepProtocolMap = &torrent.LocalLtepProtocolMap{Index: []pp.ExtensionName{pp.ExtensionNameMetadata}, NumBuiltin: 1}
}

// noteConn remembers a peer that has connected. It runs under the library's
// lock.
func (c *client) noteConn(pc *torrent.PeerConn) {
	ap, err := netip.ParseAddrPort(pc.RemoteAddr.String())
	if err != nil {
		return
	}
	if pc.Discovery == torrent.PeerSourceIncoming {
		ap = netip.AddrPortFrom(ap.Addr(), 0) // its port is not where it listens
	}
	c.note(pc.Torrent(), ap)
}

// noteListen remembers where a peer says that it listens. It runs under the
// library's lock.
func (c *client) noteListen(pc *torrent.PeerConn, m *pp.ExtendedHandshakeMessage) {
	ap, err := netip.ParseAddrPort(pc.RemoteAddr.String())
	if err == nil && m.Port > 0 && m.Port <= 0xffff {
		c.note(pc.Torrent(), netip.AddrPortFrom(ap.Addr(), uint16(m.Port)))
	}
}

func (c *client) note(t *torrent.Torrent, ap netip.AddrPort) {
	ap = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	c.mu.Lock()
	defer c.mu.Unlock()
	a := c.seen[t]
	if a == nil {
		a = &acquaintance{map[netip.Addr]struct{}{}, map[netip.AddrPort]struct{}{}}
		c.seen[t] = a
	}
	if len(a.ips) < mostIPs {
		a.ips[ap.Addr()] = struct{}{}
	}
	if ap.Port() > 0 && len(a.dial) < mostDial {
		a.dial[ap] = struct{}{}
	}
}

// known is where a torrent's peers can be found again.
func (c *client) known(t *torrent.Torrent) (out []netip.AddrPort) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if a := c.seen[t]; a != nil {
		for ap := range a.dial {
			out = append(out, ap)
		}
	}
	return out
}

// bannedOf counts the peers of a torrent that are banned for wrong data.
func (c *client) bannedOf(t *torrent.Torrent) int {
	list := c.BadPeerIPs()
	if len(list) == 0 {
		return 0
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	bad := map[netip.Addr]bool{} // both forms of an IPv4 address may be listed
	for _, s := range list {
		if a, err := netip.ParseAddr(s); err == nil && c.seen[t] != nil {
			if _, ok := c.seen[t].ips[a.Unmap()]; ok {
				bad[a.Unmap()] = true
			}
		}
	}
	return len(bad)
}

// noteAnnounce sees every request to a tracker.
func (c *client) noteAnnounce(r *http.Request) error {
	var h metainfo.Hash
	if q := r.URL.Query().Get("info_hash"); len(q) == len(h) {
		copy(h[:], q)
		c.mu.Lock()
		c.asked[h] = true
		c.mu.Unlock()
	}
	return nil
}

// announced reports whether a tracker has been asked since the torrent was
// added.
func (c *client) announced(t *torrent.Torrent) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.asked[t.InfoHash()]
}

// nudge makes the library look at its announces again. An update of its timer
// that comes just while the timer's function returns is lost, and a torrent
// may then never be announced; that of an empty torrent brings it back.
func (c *client) nudge() {
	var h metainfo.Hash
	_, _ = rand.Read(h[:]) // never fails
	if t, fresh := c.AddTorrentOpt(torrent.AddTorrentOpts{InfoHash: h}); fresh {
		t.Drop()
	}
}

// forget drops what is remembered of a torrent.
func (c *client) forget(t *torrent.Torrent) {
	c.mu.Lock()
	delete(c.seen, t)
	delete(c.asked, t.InfoHash())
	c.mu.Unlock()
}

// noStorage refuses torrents that bring no storage of their own.
type noStorage struct{}

// OpenTorrent implements the library's storage.
func (noStorage) OpenTorrent(context.Context, *metainfo.Info, metainfo.Hash) (storage.TorrentImpl, error) {
	return storage.TorrentImpl{}, errors.New("the torrent has no storage")
}

// atDebug lowers every line of the library to debug.
type atDebug struct{ slog.Handler }

// Enabled implements slog.Handler.
func (h atDebug) Enabled(ctx context.Context, _ slog.Level) bool {
	return h.Handler.Enabled(ctx, slog.LevelDebug)
}

// Handle implements slog.Handler.
func (h atDebug) Handle(ctx context.Context, r slog.Record) error {
	n := slog.NewRecord(r.Time, slog.LevelDebug, r.Message, r.PC)
	r.Attrs(func(a slog.Attr) bool { n.AddAttrs(a); return true })
	return h.Handler.Handle(ctx, n)
}

// WithAttrs implements slog.Handler.
func (h atDebug) WithAttrs(as []slog.Attr) slog.Handler { return atDebug{h.Handler.WithAttrs(as)} }

// WithGroup implements slog.Handler.
func (h atDebug) WithGroup(name string) slog.Handler { return atDebug{h.Handler.WithGroup(name)} }
