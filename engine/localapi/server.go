package localapi

import (
	"context"
	"crypto/subtle"
	"encoding/json"
	"errors"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"neuron/engine/protocol"
)

// Options configure a Server.
type Options struct {
	// Dir is the data folder; it exists and is ours.
	Dir    string
	Source Source
	// Owner does what belongs to the owner; nil serves no such paths.
	Owner Owner
	// Desktop does what the window and the tray need besides; nil refuses such
	// requests as unsupported.
	Desktop Desktop
	// Updates looks for newer versions; nil refuses such requests as unsupported.
	Updates Updates
	// Listen is a loopback host:port; "" is 127.0.0.1:0.
	Listen  string
	Version string
	Logger  *slog.Logger
	// EventEvery is how often events look for a change by themselves [1 s].
	EventEvery time.Duration
}

// Server serves the local API. It owns the goroutines of its connections;
// Close waits for them.
type Server struct {
	o       Options
	ln      net.Listener
	http    *http.Server
	done    chan struct{}  // closed when Serve has returned
	stop    chan struct{}  // closed by Close: events end
	sockets sync.WaitGroup // handlers of websockets, which http.Server does not wait for
	view    view

	mu sync.Mutex
	// Protected by mu.
	addr      Address
	changed   chan struct{} // closed and replaced by Changed
	renewed   chan struct{} // closed and replaced when the token is another one
	listeners int           // event streams
	closed    bool
}

// Start listens, writes the address file and serves. Errors: data_folder,
// port_in_use, invalid_request (not a loopback address).
func Start(o Options) (*Server, error) {
	if o.Listen == "" {
		o.Listen = "127.0.0.1:0"
	}
	if o.EventEvery <= 0 {
		o.EventEvery = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Source == nil || !loopbackHost(o.Listen) {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the local API listens on loopback only, not on %.100q", o.Listen)
	}
	token, err := newToken(o.Dir)
	if err != nil {
		return nil, err
	}
	ln, err := new(net.ListenConfig).Listen(context.Background(), "tcp", o.Listen)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodePortInUse, "listen for the local API: %w", err)
	}
	if a, ok := ln.Addr().(*net.TCPAddr); !ok || !a.IP.IsLoopback() {
		ln.Close() // "localhost" of a strange hosts file
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "%s is not a loopback address", ln.Addr())
	}
	s := &Server{
		o: o, ln: ln, done: make(chan struct{}), stop: make(chan struct{}), changed: make(chan struct{}), renewed: make(chan struct{}),
		addr: Address{URL: "http://" + ln.Addr().String(), Token: token, PID: os.Getpid(), Version: o.Version},
	}
	s.http = &http.Server{
		Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: 2 * time.Minute, MaxHeaderBytes: 16 << 10,
		ErrorLog: slog.NewLogLogger(o.Logger.Handler(), slog.LevelDebug),
	}
	if err := s.addr.write(o.Dir); err != nil {
		ln.Close()
		return nil, err
	}
	go func() {
		defer close(s.done)
		if err := s.http.Serve(ln); !errors.Is(err, http.ErrServerClosed) {
			o.Logger.Error("local API ended", "error", err)
		}
	}()
	return s, nil
}

// Address is where the server listens, and with which token.
func (s *Server) Address() Address {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.addr
}

// Renew looks whether the address and token files still say what the server
// has written. Where one is gone or another, the user has withdrawn the token:
// there is a new one from then on, and event streams with the old one end. For
// an owner of the folder that calls it every few seconds. Error: data_folder.
func (s *Server) Renew() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed || s.addr.written(s.o.Dir) {
		return nil
	}
	token, err := newToken(s.o.Dir)
	if err != nil {
		return err
	}
	s.addr.Token = token
	close(s.renewed)
	s.renewed = make(chan struct{})
	s.o.Logger.Warn("The files of the local API were missing or changed: its token is a new one")
	return s.addr.write(s.o.Dir)
}

// Changed tells the event streams to look at the Source now; it never blocks.
func (s *Server) Changed() {
	s.mu.Lock()
	close(s.changed)
	s.changed = make(chan struct{})
	s.mu.Unlock()
}

// Close removes the address file if it is still ours, ends the event streams
// and waits for running requests until ctx ends. Idempotent.
func (s *Server) Close(ctx context.Context) error {
	s.mu.Lock()
	first := !s.closed
	s.closed = true
	addr := s.addr
	s.mu.Unlock()
	if !first {
		<-s.done
		return nil
	}
	path := filepath.Join(s.o.Dir, AddressFile)
	if b, err := readSmall(path); err == nil {
		if a, err := ParseAddress(b); err == nil && *a == addr {
			os.Remove(path)
			os.Remove(filepath.Join(s.o.Dir, TokenFile))
		}
	}
	close(s.stop)
	err := s.http.Shutdown(ctx)
	if err != nil {
		s.http.Close()
	}
	<-s.done
	s.sockets.Wait() // a write takes writeTime at most
	if err != nil {
		return protocol.Errorf(protocol.CodeTimeout, "close the local API: %w", err)
	}
	return nil
}

func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET "+pathStatus, func(w http.ResponseWriter, _ *http.Request) { answer(w, s.o.Source.Status()) })
	mux.HandleFunc("GET "+pathModels, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, models{Models: s.o.Source.Models()})
	})
	mux.HandleFunc("GET "+pathSessions, func(w http.ResponseWriter, _ *http.Request) {
		answer(w, sessions{Sessions: s.o.Source.Sessions()})
	})
	mux.HandleFunc("POST "+pathShutdown, func(w http.ResponseWriter, _ *http.Request) {
		s.o.Logger.Info("shutdown asked for by the local API")
		// First the order, then the answer: Close waits for this request.
		s.o.Source.Shutdown()
		w.WriteHeader(http.StatusAccepted)
	})
	mux.HandleFunc("POST "+pathHold, order(func(ctx context.Context, h Hold) error { return s.o.Source.Hold(ctx, h) }))
	mux.HandleFunc("POST "+pathShare, order(func(_ context.Context, x share) error { return s.o.Source.Share(x.On) }))
	mux.HandleFunc("GET "+pathPlans, func(w http.ResponseWriter, r *http.Request) {
		p, err := s.o.Source.Plans(r.Context())
		if err != nil {
			refuse(w, protocol.AsError(err))
			return
		}
		answer(w, plans{Plans: p})
	})
	mux.HandleFunc("GET "+pathEvents, s.events)
	s.ownerRoutes(mux)
	s.desktopRoutes(mux)
	s.updateRoutes(mux)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) {
		refuse(w, protocol.Errorf(protocol.CodeNotFound, "no such endpoint"))
	})
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("X-Content-Type-Options", "nosniff")
		if e := s.check(r); e != nil {
			s.o.Logger.Warn("local API request refused", "code", e.Code, "reason", e.Message)
			refuse(w, e)
			return
		}
		r.Body = http.MaxBytesReader(w, r.Body, 64<<10)
		mux.ServeHTTP(w, r)
	})
}

// order is a handler for a JSON order that is answered with 202.
func order[T any](do func(context.Context, T) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		var v T
		if err := decodeOrder(r, &v); err != nil {
			refuse(w, protocol.AsError(err))
			return
		}
		if err := do(r.Context(), v); err != nil {
			refuse(w, protocol.AsError(err))
			return
		}
		w.WriteHeader(http.StatusAccepted)
	}
}

// decodeOrder reads the body. Its error repeats nothing of it, which may be a
// passphrase. Error: invalid_request.
func decodeOrder(r *http.Request, v any) error {
	d := json.NewDecoder(r.Body)
	d.DisallowUnknownFields()
	if err := d.Decode(v); err != nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "the order is malformed: it is not JSON of the form that is asked for")
	}
	return nil
}

// check refuses what a web page or another user's program could send.
func (s *Server) check(r *http.Request) *protocol.Error {
	if !loopbackHost(r.Host) {
		return protocol.Errorf(protocol.CodeForbidden, "the Host header does not name this computer")
	}
	// Our clients are programs and send neither; a browser sends Origin with
	// every cross-site and every POST request, and Sec-Fetch-Site always.
	if len(r.Header.Values("Origin")) > 0 {
		return protocol.Errorf(protocol.CodeForbidden, "requests of web pages are not served")
	}
	if site := r.Header.Values("Sec-Fetch-Site"); len(site) > 1 || len(site) == 1 && site[0] != "none" {
		return protocol.Errorf(protocol.CodeForbidden, "requests of web pages are not served")
	}
	auth := r.Header.Values("Authorization")
	if len(auth) == 1 {
		scheme, token, _ := strings.Cut(auth[0], " ")
		if strings.EqualFold(scheme, "Bearer") && subtle.ConstantTimeCompare([]byte(token), []byte(s.Address().Token)) == 1 {
			return nil
		}
	}
	return protocol.Errorf(protocol.CodeUnauthorized, "the local API needs its token")
}

func answer(w http.ResponseWriter, v any) {
	b, err := json.Marshal(v)
	if err != nil {
		refuse(w, protocol.AsError(err))
		return
	}
	w.Header().Set("Content-Type", "application/json")
	w.Write(b)
}

func refuse(w http.ResponseWriter, e *protocol.Error) {
	b, err := json.Marshal(errorBody{e})
	if err != nil {
		b = []byte(`{"error":{"code":"internal","message":"internal error"}}`)
	}
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(e.Code.HTTPStatus())
	w.Write(b)
}
