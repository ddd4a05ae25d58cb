package gateway

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"io"
	"log/slog"
	"net/http"
	"strconv"
	"sync"
	"time"

	"github.com/prometheus/client_golang/prometheus/promhttp"

	"neuron/engine/gateway/admit"
	"neuron/engine/gateway/prompt"
	"neuron/engine/gateway/recent"
	"neuron/engine/protocol"
)

// Options configure a Gateway; Backend is required, zero values of the rest
// take the defaults named here.
type Options struct {
	Backend Backend
	// Key is what clients must send as bearer token, without limits of its
	// own; Keys are further ones. Without any, none is asked for.
	Key    string
	Keys   []admit.Key
	Logger *slog.Logger // default: discard
	// KeepAlive is the longest silence of a stream; default 10 s.
	KeepAlive time.Duration
	// MaxBody bounds a request body, in bytes; default 8 MiB.
	MaxBody int64
	// MaxConcurrent completion requests run at a time (default 8), MaxQueue
	// more may wait (default 64; negative: none), the rest gets 429. The
	// backend should run as many sessions: requests wait here, in order and
	// with their position, and not behind it.
	MaxConcurrent, MaxQueue int
	// DefaultMaxTokens bounds answers to requests without max_tokens; 0 means
	// the rest of the context.
	DefaultMaxTokens int
	Now              func() time.Time
	// AllowedHosts are the host names, with or without port, that requests may
	// name in Host and Origin; empty: any Host, and only its own Origin.
	AllowedHosts []string
	// AllowedOrigins are web origins ("https://app.example") that may call
	// from a browser; empty: no CORS headers at all.
	AllowedOrigins []string
}

// Gateway is the API as an http.Handler. Safe for concurrent use.
type Gateway struct {
	o       Options
	queue   *admit.Queue
	clients []*admit.Client // constant
	drain   *admit.Work
	metrics *metrics
	recent  *recent.Sessions
	routes  http.Handler

	// stop ends every request, with a cause; base is done then.
	base context.Context
	stop context.CancelCauseFunc

	mu     sync.Mutex
	closed bool
	active sync.WaitGroup // Add only under mu while not closed
}

// New returns a Gateway. The caller serves it and calls Close before it lets
// go of the backend.
func New(o Options) *Gateway {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.KeepAlive <= 0 {
		o.KeepAlive = 10 * time.Second
	}
	if o.MaxBody <= 0 {
		o.MaxBody = 8 << 20
	}
	if o.MaxConcurrent <= 0 {
		o.MaxConcurrent = 8
	}
	if o.MaxQueue == 0 {
		o.MaxQueue = 64
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	g := &Gateway{o: o, queue: admit.NewQueue(o.MaxConcurrent, o.MaxQueue, o.Now), drain: admit.NewWork(), recent: recent.New()}
	keys := o.Keys
	if o.Key != "" {
		keys = append([]admit.Key{{Name: "main", Secret: o.Key}}, keys...)
	}
	g.clients = admit.NewClients(keys, o.Now)
	g.metrics = newMetrics(g.queue)
	g.base, g.stop = context.WithCancelCause(context.Background())
	g.routes = g.newRoutes()
	return g
}

// newRoutes is the route table; another method on a known path is a 405.
func (g *Gateway) newRoutes() http.Handler {
	mux := http.NewServeMux()
	handle := func(method, path string, h http.HandlerFunc) {
		mux.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if r.Method != method && !(method == http.MethodGet && r.Method == http.MethodHead) {
				w.Header().Set("Allow", method)
				writeError(w, protocol.Errorf(protocol.CodeInvalidRequest, "%.20q is not a method of this path", r.Method), http.StatusMethodNotAllowed)
				return
			}
			h(w, r)
		})
	}
	handle("GET", "/v1/models", g.listModels)
	handle("GET", "/v1/models/{id...}", g.getModel)
	handle("POST", "/v1/chat/completions", g.work(g.chatCompletions))
	handle("POST", "/v1/completions", g.work(g.completions))
	handle("POST", "/v1/embeddings", g.work(g.embeddings))
	handle("GET", "/v1/sessions", g.listSessions)
	handle("GET", "/v1/sessions/watch", g.watchAll)
	handle("GET", "/v1/sessions/{id}", g.getSession)
	handle("GET", "/v1/sessions/{id}/watch", g.watchSession)
	handle("GET", "/health", g.health)
	handle("GET", "/metrics", promhttp.HandlerFor(g.metrics.registry, promhttp.HandlerOpts{}).ServeHTTP)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		writeError(w, protocol.Errorf(protocol.CodeNotFound, "there is nothing at this path"), 0)
	})
	return mux
}

// aborted tells net/http's way of breaking off a response from a fault.
func aborted(p any) bool {
	err, ok := p.(error)
	return ok && errors.Is(err, http.ErrAbortHandler)
}

// ServeHTTP serves one request: checks first, then the route.
func (g *Gateway) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	start := g.o.Now()
	rec := &recorder{ResponseWriter: w}
	defer func() {
		p := recover()
		status := rec.status
		if p != nil && !aborted(p) {
			g.o.Logger.Error("handler panicked", "route", r.Pattern, "panic", p, "stack", stack())
			status = http.StatusInternalServerError
			if rec.status == 0 {
				writeError(rec, protocol.Errorf(protocol.CodeInternal, "internal error"), 0)
				p = nil
			}
		}
		route := r.Pattern
		if route == "" {
			route = "refused"
		}
		g.metrics.requests.WithLabelValues(route, strconv.Itoa(status)).Inc()
		g.metrics.duration.WithLabelValues(route).Observe(g.o.Now().Sub(start).Seconds())
		if p != nil {
			// The answer has begun: a broken connection is better than one
			// that looks complete.
			panic(http.ErrAbortHandler)
		}
	}()
	if !g.enter() {
		writeError(rec, errShutdown, 0)
		return
	}
	defer g.active.Done()
	if err := g.guard().Check(r); err != nil {
		writeError(rec, err, 0)
		return
	}
	if g.guard().CORS(rec, r) {
		return
	}
	ctx := r.Context()
	if r.URL.Path != "/health" {
		c, err := g.checkKey(r)
		if err != nil {
			writeError(rec, err, 0)
			return
		}
		ctx = context.WithValue(ctx, clientKey{}, c)
	}
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	defer context.AfterFunc(g.base, func() { cancel(context.Cause(g.base)) })()
	inner := r.WithContext(ctx)
	defer func() { r.Pattern = inner.Pattern }() // for the metrics above
	g.routes.ServeHTTP(rec, inner)
}

var errShutdown = protocol.Errorf(protocol.CodeShutdown, "the gateway is stopping")

// enter counts a request; false after Close.
func (g *Gateway) enter() bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.closed {
		return false
	}
	g.active.Add(1)
	return true
}

// Close refuses new requests, ends running ones with code shutdown, and waits
// for them until ctx ends. The listener is the caller's.
func (g *Gateway) Close(ctx context.Context) error {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.stop(errShutdown)
	done := make(chan struct{})
	go func() {
		g.active.Wait()
		close(done)
	}()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return protocol.Errorf(protocol.CodeTimeout, "gateway close: requests still run: %w", context.Cause(ctx))
	}
}

// Handler is the gateway itself; it exists so that a composition can name it.
func (g *Gateway) Handler() http.Handler { return g }

func (g *Gateway) health(w http.ResponseWriter, _ *http.Request) {
	running, waiting := g.queue.Counts()
	status := "ok"
	if _, refuses := g.drain.State(); refuses {
		status = "stopping"
	}
	writeJSON(w, http.StatusOK, struct {
		Status  string `json:"status"`
		Running int    `json:"running"`
		Waiting int    `json:"waiting"`
	}{status, running, waiting})
}

// readFields reads and parses a request body.
func (g *Gateway) readFields(w http.ResponseWriter, r *http.Request) (*fields, *protocol.Error) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, g.o.MaxBody))
	var big *http.MaxBytesError
	if errors.As(err, &big) {
		return nil, protocol.Errorf(protocol.CodeRequestTooLarge, "the body has more than %d bytes", g.o.MaxBody)
	}
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "the body could not be read: %w", err)
	}
	return parseFields(body)
}

// newJob gives a request its id.
func (g *Gateway) newJob(r *http.Request, prefix string, p params) *job {
	switch r.Header.Get("X-Neuron-Telemetry") {
	case "1", "true":
		p.telemetry = true
	}
	var b [12]byte
	rand.Read(b[:]) // never fails (crypto/rand)
	return &job{id: prefix + hex.EncodeToString(b[:]), created: g.o.Now().Unix(), p: p}
}

// textModel finds the model that a job names.
func (g *Gateway) textModel(r *http.Request, j *job) (TextModel, *protocol.Error) {
	tm, err := g.o.Backend.Text(r.Context(), j.p.model)
	if err != nil {
		e := protocol.AsError(err)
		if e.Code == protocol.CodeModelUnknown && e.Param == "" {
			c := *e
			c.Param = "model"
			e = &c
		}
		return nil, e
	}
	info := tm.Info()
	j.name, j.model = info.Name, string(info.Model)
	if j.name == "" {
		j.name = j.p.model
	}
	if j.model == "" {
		j.model = j.p.model
	}
	return tm, nil
}

// serve checks that everything fits and runs the job.
func (g *Gateway) serve(w http.ResponseWriter, r *http.Request, j *job, tm TextModel, prompts []promptIDs) {
	for i := range prompts {
		if len(prompts[i].ids) == 0 {
			writeError(w, badParam("prompt", "prompt %d has no tokens", i), 0)
			return
		}
		n, err := prompt.Fit(len(prompts[i].ids), j.p.maxTokens, g.o.DefaultMaxTokens, tm.ContextLength())
		if err != nil {
			writeError(w, err, 0)
			return
		}
		prompts[i].maxTokens = n
	}
	j.prompts = prompts
	c, _ := r.Context().Value(clientKey{}).(*admit.Client)
	if err := c.Begin(w.Header()); err != nil {
		writeError(w, err, 0)
		return
	}
	defer c.End()
	w.Header().Set("X-Request-Id", j.id)
	if j.p.stream {
		_ = g.run(r.Context(), j, newStreamSink(w, j)) // reported by the sink
		return
	}
	_ = g.run(r.Context(), j, newCollectSink(w, j)) // reported by the sink
}
