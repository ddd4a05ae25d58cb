package seam

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/seamclient"
	"neuron/engine/seam/tlsio"
	"neuron/engine/seam/wire"
	"neuron/internal/identity"
)

// ServerOptions configure a Server. Identity and Stage are required.
type ServerOptions struct {
	Identity *identity.Identity
	// Stage is the running shard, or nil when none is ready. It is asked at
	// each open; safe for concurrent use.
	Stage func() Stage
	// TrackerKey is the key that signs leases; nil or empty when no tracker is
	// known yet. Safe for concurrent use.
	TrackerKey func() ed25519.PublicKey
	Logger     *slog.Logger // slog.Default() if nil
	Now        func() time.Time
	// Silence is how long a neighbour may be silent beyond its stated step
	// time (3 s if zero), PingEvery how often we give a sign of life (1 s).
	Silence   time.Duration
	PingEvery time.Duration
	// HeaderWait bounds the wait for the next hop's response headers (10 s);
	// StreamWait the time from open to the session's streams (10 s).
	HeaderWait time.Duration
	StreamWait time.Duration
	// Upgrade asks the next hop for the upgrade carrier. Both carriers are
	// always served.
	Upgrade bool
	// Receipts keeps the receipts of this node's hops; nil for none.
	Receipts Receipts
	// HopFailed tells the tracker that a neighbour broke; the error names its
	// hop and the phase. Called from a session's own goroutine, once per
	// session; may be nil.
	HopFailed func(protocol.SessionID, protocol.NodeID, *protocol.Error)
	// Taps see row frames of public sessions, and Audits takes frames for this
	// node's re-execution; both may be nil.
	Taps   Taps
	Audits AuditHandler
}

// Server is the seam of one node: it opens sessions on the stage and moves
// their frames. It is safe for concurrent use.
type Server struct {
	o      ServerOptions
	log    *slog.Logger
	mux    *http.ServeMux
	http   *http.Server
	client *seamclient.Client // towards next hops
	work   sync.WaitGroup

	mu       sync.Mutex // guards below; never held while a session's is taken
	closed   bool
	draining bool
	sessions map[protocol.SessionID]*session // nil value: being opened
	ended    map[protocol.SessionID]tombstone
	order    []protocol.SessionID // of ended, oldest first
}

// tombstone is what remains of an ended session: GET still tells how it ended,
// and its lease cannot open it again.
type tombstone struct {
	driver protocol.NodeID
	prev   protocol.NodeID
	hop    int
	tail   bool
	state  protocol.SessionState
}

// defaultStreamWait holds where the options say nothing.
const defaultStreamWait = 10 * time.Second

// maxTombstones bounds what is remembered of ended sessions.
const maxTombstones = 1024

// NewServer returns a server that is not listening yet; Close it.
func NewServer(o ServerOptions) *Server {
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	orDefault := func(d *time.Duration, v time.Duration) {
		if *d <= 0 {
			*d = v
		}
	}
	orDefault(&o.Silence, wire.DefaultSilence)
	orDefault(&o.PingEvery, wire.DefaultPingEvery)
	orDefault(&o.HeaderWait, wire.DefaultHeaderWait)
	orDefault(&o.StreamWait, defaultStreamWait)
	opts := []seamclient.Option{seamclient.WithLiveness(o.Silence, o.PingEvery), seamclient.WithHeaderWait(o.HeaderWait)}
	if o.Upgrade {
		opts = append(opts, seamclient.WithUpgrade())
	}
	s := &Server{
		o: o, log: o.Logger, mux: http.NewServeMux(), client: seamclient.New(o.Identity, opts...),
		sessions: map[protocol.SessionID]*session{}, ended: map[protocol.SessionID]tombstone{},
	}
	s.mux.HandleFunc("POST "+wire.PathSessions, s.handle(s.serveOpen))
	s.mux.HandleFunc("GET "+wire.PathSessions+"/{id}", s.handle(s.serveState))
	s.mux.HandleFunc("DELETE "+wire.PathSessions+"/{id}", s.handle(s.serveRelease))
	s.mux.HandleFunc("POST "+wire.PathSessions+"/{id}/stream", s.handle(s.serveStream))
	s.mux.HandleFunc("GET "+wire.PathSessions+"/{id}/tokens", s.handle(s.serveTokens))
	s.mux.HandleFunc("POST "+wire.PathAudits+"/{audit}/{side}", s.handle(s.serveAudit))
	s.handleReceipts()
	s.mux.HandleFunc("GET "+wire.PathPing, s.handle(s.servePing))
	s.mux.HandleFunc("GET "+wire.PathReport, s.handle(s.serveReport))
	s.mux.HandleFunc("/", s.handle(s.serveUnknown))
	s.http = &http.Server{
		Handler:     s.mux,
		ConnContext: withConn,
		// No read or write timeout: they would end healthy streams. This one
		// covers the handshake and the headers only.
		ReadHeaderTimeout: 10 * time.Second,
		IdleTimeout:       90 * time.Second,
		MaxHeaderBytes:    16 << 10,
		TLSNextProto:      map[string]func(*http.Server, *tls.Conn, http.Handler){},
		ErrorLog:          slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	return s
}

// Handler is the seam's HTTP face, for a listener that speaks TLS as
// Identity.ServerTLS says.
func (s *Server) Handler() http.Handler { return s.mux }

// Serve accepts connections on l, wraps them in TLS, and returns nil after
// Close.
func (s *Server) Serve(l net.Listener) error {
	err := s.http.Serve(tlsio.Listen(l, s.o.Identity.ServerTLS()))
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}

// Drain refuses new sessions while on; running ones go on.
func (s *Server) Drain(on bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.draining = on
}

// Sessions lists the sessions that hold KV, in no order.
func (s *Server) Sessions() []protocol.SessionState {
	var out []protocol.SessionState
	for _, sess := range s.live() {
		out = append(out, sess.state())
	}
	return out
}

func (s *Server) live() []*session {
	s.mu.Lock()
	defer s.mu.Unlock()
	out := make([]*session, 0, len(s.sessions))
	for _, sess := range s.sessions {
		if sess != nil {
			out = append(out, sess)
		}
	}
	return out
}

// EndSession ends a session with a reason, nil for an end in order, and
// reports whether it was there. It does not wait.
func (s *Server) EndSession(id protocol.SessionID, reason *protocol.Error) bool {
	s.mu.Lock()
	sess := s.sessions[id]
	s.mu.Unlock()
	if sess == nil {
		return false
	}
	sess.end(reason, "")
	return true
}

// Close ends all sessions with the code shutdown, which closes their streams,
// waits for every goroutine, and closes the listeners. When ctx ends first the
// connections are cut and ctx's error is returned.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	s.closed = true
	s.mu.Unlock()
	for _, sess := range s.live() {
		sess.end(errorf(protocol.CodeShutdown, "the node is stopping"), "")
	}
	done := make(chan struct{})
	go func() {
		s.work.Wait()
		close(done)
	}()
	select {
	case <-done:
	case <-ctx.Done():
		s.http.Close()
		s.client.Close()
		return errorf(protocol.CodeTimeout, "sessions did not end in time: %w", ctx.Err())
	}
	s.client.Close()
	quiet, cancel := context.WithTimeout(ctx, wire.LastWords)
	defer cancel()
	if s.http.Shutdown(quiet) != nil {
		// What is left carries no session: net/http counts a connection that
		// was dialled and never used as busy for five seconds.
		s.http.Close()
	}
	return nil
}

// handle wraps a handler that may answer with an error.
func (s *Server) handle(h func(http.ResponseWriter, *http.Request, protocol.NodeID) *protocol.Error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		s.mu.Lock()
		closed := s.closed
		if !closed {
			s.work.Add(1)
		}
		s.mu.Unlock()
		if closed {
			s.refuse(w, errorf(protocol.CodeShutdown, "the node is stopping"))
			return
		}
		defer s.work.Done()
		peer, err := identity.PeerID(r.TLS)
		if err != nil {
			s.refuse(w, protocol.AsError(err))
			return
		}
		if e := h(w, r, peer); e != nil {
			s.log.Debug("seam request refused", "code", e.Code, "peer", peer.Short(), "error", e)
			s.refuse(w, e)
		}
	}
}

// refuse answers with a coded error. What the client still sends is not worth
// waiting for.
func (s *Server) refuse(w http.ResponseWriter, e *protocol.Error) {
	rc := http.NewResponseController(w)
	// Each step helps where the connection allows it; the answer is all that
	// counts.
	_ = rc.EnableFullDuplex()
	w.Header().Set("Connection", "close")
	writeJSON(w, e.Code.HTTPStatus(), e)
	_ = rc.Flush()
	_ = rc.SetReadDeadline(time.Now().Add(wire.LastWords))
}

func (s *Server) servePing(w http.ResponseWriter, r *http.Request, _ protocol.NodeID) *protocol.Error {
	w.WriteHeader(http.StatusNoContent)
	return nil
}

func (s *Server) serveReport(w http.ResponseWriter, r *http.Request, _ protocol.NodeID) *protocol.Error {
	stage := s.o.Stage()
	if stage == nil {
		return errorf(protocol.CodeUnavailable, "no shard is ready on this node")
	}
	writeJSON(w, http.StatusOK, stage.Capability())
	return nil
}

func (s *Server) serveUnknown(w http.ResponseWriter, r *http.Request, _ protocol.NodeID) *protocol.Error {
	if strings.HasPrefix(r.URL.Path, "/seam/v") && !strings.HasPrefix(r.URL.Path, wire.PathPrefix) {
		return errorf(protocol.CodeProtocolVersion, "this node speaks version %d of the seam", protocol.Version)
	}
	return errorf(protocol.CodeNotFound, "no such path or method")
}

// lookup finds the session of a request: a live one, or what remains of it.
func (s *Server) lookup(r *http.Request) (*session, *tombstone, *protocol.Error) {
	id, err := protocol.ParseSessionID(r.PathValue("id"))
	if err != nil {
		return nil, nil, protocol.AsError(err)
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if sess := s.sessions[id]; sess != nil {
		return sess, nil, nil
	}
	if t, ok := s.ended[id]; ok {
		return nil, &t, nil
	}
	return nil, nil, errorf(protocol.CodeSessionUnknown, "no session %s on this node", id)
}

func (s *Server) serveState(w http.ResponseWriter, r *http.Request, peer protocol.NodeID) *protocol.Error {
	sess, tomb, e := s.lookup(r)
	if e != nil {
		return e
	}
	var state protocol.SessionState
	driver := protocol.NodeID("")
	if sess != nil {
		state, driver = sess.state(), sess.lease.Driver
	} else {
		state, driver = tomb.state, tomb.driver
	}
	if peer != driver {
		return errorf(protocol.CodeForbidden, "only the session's driver may ask for it")
	}
	writeJSON(w, http.StatusOK, state)
	return nil
}

func (s *Server) serveRelease(w http.ResponseWriter, r *http.Request, peer protocol.NodeID) *protocol.Error {
	sess, tomb, e := s.lookup(r)
	if e != nil {
		return e
	}
	if sess != nil && peer != sess.lease.Driver || tomb != nil && peer != tomb.driver {
		return errorf(protocol.CodeForbidden, "only the session's driver may release it")
	}
	if sess != nil {
		sess.end(nil, "")
		select {
		case <-sess.freed:
		case <-r.Context().Done():
			return errorf(protocol.CodeTimeout, "the session's KV is not free yet").AtHop(sess.hop)
		}
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// bury replaces an ended session by its tombstone.
func (s *Server) bury(sess *session) {
	state := sess.state()
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.sessions, sess.id)
	s.ended[sess.id] = tombstone{driver: sess.lease.Driver, prev: sess.prev, hop: sess.hop, tail: sess.tail, state: state}
	s.order = append(s.order, sess.id)
	if len(s.order) > maxTombstones {
		delete(s.ended, s.order[0])
		s.order = s.order[1:]
	}
}
