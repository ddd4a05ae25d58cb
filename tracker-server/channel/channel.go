// Package channel is the tracker's end of the control channel: websockets at
// /v1/nodes, the handshake that proves a node's key, and one bounded queue per
// connection.
//
// Only the server imports it. It knows nothing of shards, routes and sessions:
// messages go to a Handler.
package channel

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"sync"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
)

// Handler gets what comes in. Calls for one connection come from one
// goroutine, in order: Admit, Joined, Message..., Left.
type Handler interface {
	// Admit decides on a peer whose key is proven, and gives its epoch.
	Admit(ctx context.Context, h *protocol.Hello, id protocol.NodeID) (*protocol.Welcome, error)
	// Joined follows the welcome; the connection may be sent to from now on.
	Joined(c *Conn)
	// Message gets a message, whose body is gone when it returns.
	Message(ctx context.Context, c *Conn, e *protocol.Envelope)
	// Left is called once per joined connection; bye says that the peer said so.
	Left(c *Conn, bye bool)
}

// Options configures a Hub. Zero numbers get the defaults.
type Options struct {
	Key     ed25519.PublicKey // the tracker's
	Handler Handler
	Logger  *slog.Logger
	// MaxConns bounds all connections, MaxPerAddress those of one IP address
	// (of one /64 for IPv6).
	MaxConns, MaxPerAddress int
	// PingEvery is the time between pings; a peer that misses two is dead.
	PingEvery time.Duration
	// MessagesPerSecond and Burst bound what one connection may send.
	MessagesPerSecond, Burst int
	// HandshakeTimeout bounds the time from the dial to a valid hello.
	HandshakeTimeout time.Duration
}

const (
	queueLength  = 64 // messages to a peer that wait; more end the connection
	writeTimeout = 10 * time.Second
	// retryAfter is what a refused peer is told to wait, in seconds.
	retryAfter = 10
	// returnsPerSecond and maxReturn (in seconds) spread the return of all peers
	// after a restart. The sessions of a driver that is back within a minute go on.
	returnsPerSecond = 250
	maxReturn        = 40
	// maxStrikes is how many messages above the rate end a connection.
	maxStrikes = 200
)

// Hub owns all connections and their goroutines. Close waits for them.
type Hub struct {
	o        Options
	upgrader websocket.Upgrader
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	mu     sync.Mutex
	closed bool
	conns  map[*Conn]struct{}
	perIP  map[netip.Addr]int
}

// New makes a hub.
func New(o Options) *Hub {
	def := func(p *int, v int) {
		if *p == 0 {
			*p = v
		}
	}
	def(&o.MaxConns, 20_000)
	def(&o.MaxPerAddress, 512)
	def(&o.MessagesPerSecond, 200)
	def(&o.Burst, 400)
	if o.PingEvery == 0 {
		o.PingEvery = 20 * time.Second
	}
	if o.HandshakeTimeout == 0 {
		o.HandshakeTimeout = 10 * time.Second
	}
	ctx, cancel := context.WithCancel(context.Background())
	return &Hub{
		o: o, ctx: ctx, cancel: cancel, conns: make(map[*Conn]struct{}), perIP: make(map[netip.Addr]int),
		// Small buffers and a shared write pool: idle connections are many.
		upgrader: websocket.Upgrader{ReadBufferSize: 1024, WriteBufferSize: 1024, WriteBufferPool: &sync.Pool{}, HandshakeTimeout: o.HandshakeTimeout},
	}
}

// ServeHTTP upgrades a request. It returns at once, so that the HTTP server's
// buffers are freed; the connection lives in goroutines of the hub.
func (h *Hub) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	c := &Conn{hub: h, wake: make(chan struct{}, 1), stop: make(chan struct{})}
	c.remote = remoteOf(r.RemoteAddr)
	c.ip = groupOf(c.remote)
	if err := h.reserve(c); err != nil {
		w.Header().Set("Retry-After", "10")
		w.Header().Set("Content-Type", "application/json")
		w.WriteHeader(err.Code.HTTPStatus())
		_ = json.NewEncoder(w).Encode(err) // the peer may be gone
		return
	}
	ws, err := h.upgrader.Upgrade(w, r, nil) // answers errors itself
	if err != nil {
		h.release(c)
		h.wg.Done()
		return
	}
	c.mu.Lock()
	c.ws = ws
	c.mu.Unlock()
	go func() {
		defer h.wg.Done()
		defer h.release(c)
		c.run()
	}()
}

// reserve counts c; the caller owes a wg.Done and a release on success.
func (h *Hub) reserve(c *Conn) *protocol.Error {
	h.mu.Lock()
	defer h.mu.Unlock()
	switch {
	case h.closed:
		return protocol.Errorf(protocol.CodeShutdown, "the tracker is stopping")
	case len(h.conns) >= h.o.MaxConns:
		return protocol.Errorf(protocol.CodeUnavailable, "the tracker has no free connection")
	case h.perIP[c.ip] >= h.o.MaxPerAddress:
		return protocol.Errorf(protocol.CodeRateLimited, "too many connections from this address")
	}
	h.conns[c] = struct{}{}
	h.perIP[c.ip]++
	h.wg.Add(1)
	return nil
}

func (h *Hub) release(c *Conn) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.conns, c)
	if h.perIP[c.ip]--; h.perIP[c.ip] == 0 {
		delete(h.perIP, c.ip)
	}
}

// Len is the number of connections, those in the handshake included.
func (h *Hub) Len() int {
	h.mu.Lock()
	defer h.mu.Unlock()
	return len(h.conns)
}

// Close says goodbye to all peers, closes their connections and waits for all
// goroutines, at most until ctx ends; then it cuts what is left.
func (h *Hub) Close(ctx context.Context) error {
	h.mu.Lock()
	h.closed = true
	conns := make([]*Conn, 0, len(h.conns))
	for c := range h.conns {
		conns = append(conns, c)
	}
	h.mu.Unlock()
	h.cancel()
	for i, c := range conns {
		bye, err := protocol.Pack(protocol.MsgBye, 0, protocol.Refused{
			Error: protocol.Errorf(protocol.CodeShutdown, "the tracker is stopping"), RetryAfter: comeBack(i, len(conns)),
		})
		if err != nil {
			return err
		}
		c.Stop(bye, websocket.CloseGoingAway, string(protocol.CodeShutdown))
	}
	done := make(chan struct{})
	go func() {
		h.wg.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		for _, c := range conns {
			c.cut()
		}
		<-done
		return ctx.Err()
	}
}

// comeBack is how many seconds peer i of n waits before it comes back to a
// tracker that restarts: returnsPerSecond of them come at a time, all within
// maxReturn.
func comeBack(i, n int) int {
	perSecond := max(returnsPerSecond, (n+maxReturn-1)/maxReturn)
	return 1 + i/perSecond
}

func remoteOf(remote string) netip.Addr {
	host, _, err := net.SplitHostPort(remote)
	if err != nil {
		return netip.Addr{}
	}
	ip, err := netip.ParseAddr(host)
	if err != nil {
		return netip.Addr{}
	}
	return ip.Unmap().WithZone("")
}

// groupOf is the address that limits count by.
func groupOf(ip netip.Addr) netip.Addr {
	if ip.Is6() {
		p, _ := ip.Prefix(64) // 64 is valid for every IPv6 address
		return p.Addr()
	}
	return ip
}
