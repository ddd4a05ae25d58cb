package server

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/announce"
	"neuron/tracker-server/channel"
	"neuron/tracker-server/datadir"
	"neuron/tracker-server/keys"
	"neuron/tracker-server/operator"
	"neuron/tracker-server/proofs"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
	"neuron/tracker-server/web"
)

// Server is a tracker. New opens everything, Run serves, Close gives back all
// that New took, whether Run was called or not.
type Server struct {
	o        Options
	dir      *datadir.Dir
	store    store.Store
	core     *core
	hub      *channel.Hub
	area     *operator.Area
	http     *http.Server
	listener net.Listener

	ctx    context.Context // ends when Close begins
	cancel context.CancelFunc
	mu     sync.Mutex     // orders Run's start and Close
	wg     sync.WaitGroup // the goroutines of Run
	once   sync.Once
	result error // of Close, valid after closed
	closed chan struct{}
}

const (
	tickEvery   = 250 * time.Millisecond
	pruneEvery  = 24 * time.Hour
	retryWrite  = time.Second
	persistPace = 25 * time.Millisecond
	// Each transaction changes some twenty pages besides those of what it is for:
	// few of them write for many.
	writePace      = 5 * time.Millisecond
	writeLaterPace = 25 * time.Millisecond
	closeTimeout   = 10 * time.Second
)

// New opens the data folder, the database and the port. Errors carry
// data_folder, disk_full, already_running, port_in_use or invalid_request.
func New(o Options) (_ *Server, err error) {
	if err := o.fill(); err != nil {
		return nil, err
	}
	s := &Server{o: o, closed: make(chan struct{})}
	s.ctx, s.cancel = context.WithCancel(context.Background())
	defer func() {
		if err != nil {
			err = errors.Join(err, s.release())
			s.cancel()
		}
	}()
	if s.dir, err = datadir.Open(o.Data); err != nil {
		return nil, err
	}
	key, err := keys.LoadOrCreate(s.dir)
	if err != nil {
		return nil, err
	}
	// A pointer that is nil must not become a store that is not.
	disk := newDiskTimes()
	db, err := sqlite.OpenWith(s.ctx, s.dir.File("tracker.db"), sqlite.Options{
		Pace: writePace, PaceLater: writeLaterPace, Begun: disk.begun, Synced: disk.synced,
	})
	if err != nil {
		return nil, err
	}
	s.store = db
	s.core = newCore(o, key, s.store)
	disk.register(s.core.metrics.registry)
	s.core.openTelemetry(s.dir.File(TelemetryFile))
	if err := s.core.openMoney(s.ctx); err != nil {
		return nil, err
	}
	if err := s.core.openReceipts(s.ctx); err != nil {
		return nil, err
	}
	s.core.openAudits()
	if err := s.core.openStanding(s.ctx); err != nil {
		return nil, err
	}
	if err := s.core.restore(s.ctx); err != nil {
		return nil, err
	}
	if err := s.core.restoreStanding(s.ctx); err != nil {
		return nil, err
	}
	if err := s.core.billing.Restore(s.ctx); err != nil {
		return nil, err
	}
	if err := s.core.catalog.Load(s.ctx); err != nil {
		return nil, err
	}
	var tlsConfig *tls.Config
	if o.TLSCert != "" {
		cert, err := tls.LoadX509KeyPair(o.TLSCert, o.TLSKey)
		if err != nil {
			return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the certificate %s cannot be used: %w", o.TLSCert, err)
		}
		// Websockets need HTTP/1.1.
		tlsConfig = &tls.Config{Certificates: []tls.Certificate{cert}, MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}}
	}
	if s.listener, err = listen(o.Listen); err != nil {
		return nil, err
	}
	if tlsConfig != nil {
		s.listener = tls.NewListener(s.listener, tlsConfig)
	}
	if err := errors.Join(s.dir.WriteFile(URLFile, []byte(s.publicURL()+"\n")), operator.WriteLocal(s.dir, s.Addr(), tlsConfig)); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	s.hub = channel.New(channel.Options{
		Key: key.Public().(ed25519.PublicKey), Handler: hubHandler{s.core}, Logger: o.Logger,
		MaxConns: o.MaxConns, MaxPerAddress: o.MaxPerAddress,
	})
	mux := http.NewServeMux()
	pages := web.Handler(s.core, o.Now, s.core.metrics.registry)
	mux.Handle("GET /v1/nodes", s.nodesOrChannel(pages))
	mux.Handle("GET /v1/telemetry", s.core.feed)
	announce.Mount(mux, announce.HandlerOptions{Table: s.core.announced, Find: s.core.findTorrent, Count: s.core.metrics.announced, Logger: o.Logger})
	proofs.Mount(mux, proofs.Options{Store: s.store, Logger: o.Logger, Known: func(ctx context.Context, id protocol.SessionID) error {
		_, err := s.core.Session(ctx, id)
		return err
	}})
	s.core.mountAccounts(mux)
	if s.area, err = s.openOperator(); err != nil {
		return nil, errors.Join(err, s.listener.Close())
	}
	mux.Handle("/operator/", s.area)
	mux.Handle("/operator", s.area)
	mux.Handle("/v1/operator/", s.area)
	mux.Handle("/", pages)
	s.http = &http.Server{
		Handler: behindProxies(o.Proxies, mux), ReadHeaderTimeout: 10 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 32 << 10,
		BaseContext: func(net.Listener) context.Context { return s.ctx },
		ErrorLog:    slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	return s, nil
}

// nodesOrChannel serves one path for two things: nodes upgrade it to the
// control channel, everybody else reads the list of nodes.
func (s *Server) nodesOrChannel(list http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Upgrade") != "" {
			s.hub.ServeHTTP(w, r)
			return
		}
		list.ServeHTTP(w, r)
	})
}

// Addr is the address that the server listens on.
func (s *Server) Addr() string { return s.listener.Addr().String() }

// URL is the address of the status page.
func (s *Server) URL() string {
	if s.o.TLSCert != "" {
		return "https://" + s.Addr() + "/"
	}
	return "http://" + s.Addr() + "/"
}

// URLFile is the file of the data folder that tells the publishing command
// where others reach the tracker.
const URLFile = "tracker.url"

// publicURL is where others reach the tracker, or "" when nobody said so.
func (s *Server) publicURL() string {
	if s.o.PublicURL != "" {
		return strings.TrimSuffix(s.o.PublicURL, "/") + "/"
	}
	if at, err := netip.ParseAddrPort(s.Addr()); err != nil || at.Addr().IsUnspecified() {
		return ""
	}
	return s.URL()
}

// Key is the public key that signs leases.
func (s *Server) Key() ed25519.PublicKey { return s.core.key.Public().(ed25519.PublicKey) }

// Run serves until ctx ends or Close is called, then closes everything. It
// may be called once. It returns nil after an orderly stop.
func (s *Server) Run(ctx context.Context) error {
	serveErr := make(chan error, 1)
	s.mu.Lock()
	if s.ctx.Err() != nil {
		s.mu.Unlock()
		return s.Close(ctx)
	}
	s.wg.Add(6)
	s.mu.Unlock()
	go func() {
		defer s.wg.Done()
		serveErr <- s.http.Serve(s.listener)
	}()
	go func() {
		defer s.wg.Done()
		s.tickLoop()
	}()
	go func() {
		defer s.wg.Done()
		s.core.recorder.Run(s.ctx)
	}()
	go func() {
		defer s.wg.Done()
		s.persistLoop()
	}()
	go func() {
		defer s.wg.Done()
		s.core.catalog.Watch(s.ctx)
	}()
	go func() {
		defer s.wg.Done()
		s.core.billing.Run(s.ctx)
	}()
	var err error
	select {
	case <-ctx.Done():
	case <-s.ctx.Done():
	case err = <-serveErr:
		if errors.Is(err, http.ErrServerClosed) {
			err = nil
		}
	}
	closeCtx, cancel := context.WithTimeout(context.Background(), closeTimeout)
	defer cancel()
	if cerr := s.Close(closeCtx); err == nil {
		err = cerr
	}
	return err
}

func (s *Server) tickLoop() {
	t := time.NewTicker(tickEvery)
	defer t.Stop()
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-t.C:
			s.core.tick()
			s.core.audits.Tick(s.ctx)
			s.core.receipts.Rest()
		}
	}
}

// persistLoop writes changes as they come and forgets old records once a day.
func (s *Server) persistLoop() {
	prune := time.NewTicker(pruneEvery)
	defer prune.Stop()
	forget := func() {
		if err := s.store.Prune(s.ctx, s.o.Now().Add(-KeepFor)); err != nil && s.ctx.Err() == nil {
			s.o.Logger.Error("forget old records", "err", err)
		}
		s.core.pruneReceipts(s.ctx)
	}
	forget()
	var retry <-chan time.Time
	for {
		select {
		case <-s.ctx.Done():
			return
		case <-prune.C:
			forget()
			continue
		case <-s.core.kick:
		case <-retry:
		}
		// What others change meanwhile goes to the disk with it.
		select {
		case <-s.ctx.Done():
			return
		case <-time.After(persistPace):
		}
		retry = nil
		if err := s.core.persist(s.ctx); err != nil && s.ctx.Err() == nil {
			s.o.Logger.Error("write sessions; trying again", "err", err)
			retry = time.After(retryWrite)
		}
	}
}

// Close stops in order: no new connections, goodbye to peers, requests end,
// what changed is written, files are closed. Later calls wait for the first
// one and return its result.
func (s *Server) Close(ctx context.Context) error {
	s.once.Do(func() {
		s.mu.Lock()
		s.cancel()
		s.mu.Unlock()
		var errs []error
		if err := s.hub.Close(ctx); err != nil {
			errs = append(errs, err)
		}
		if err := s.http.Shutdown(ctx); err != nil {
			errs = append(errs, err, s.http.Close())
		}
		// Without Run the HTTP server does not know the listener.
		if err := s.listener.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
			errs = append(errs, err)
		}
		s.core.feed.Close()
		s.wg.Wait()
		s.core.requests.Wait()
		if err := s.core.persist(context.WithoutCancel(ctx)); err != nil {
			errs = append(errs, err)
		}
		errs = append(errs, s.release())
		s.result = errors.Join(errs...)
		close(s.closed)
	})
	<-s.closed
	return s.result
}

// release closes what is open, for Close and for a New that fails.
func (s *Server) release() error {
	var errs []error
	if s.area != nil {
		s.area.Close()
	}
	if s.store != nil {
		errs = append(errs, s.store.Close())
	}
	if s.dir != nil {
		s.dir.Close()
	}
	return errors.Join(errs...)
}
