// Package web is the tracker's face for people and programs: the status page
// with its event stream, the read-only JSON API, the files of the catalog,
// health and metrics.
//
// The server imports it and implements Source. It changes nothing, shows no
// prompts and no keys, and knows no websocket and no store.
package web

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"neuron/engine/protocol"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/routing"
	"neuron/tracker-server/sessions"
)

// Source is what the pages show. Its methods are safe for concurrent use.
type Source interface {
	Models() []protocol.ModelInfo
	Nodes() []registry.NodeView
	// Sessions lists live sessions and the newest ended ones.
	Sessions() []Session
	// Session finds one. Error: session_unknown.
	Session(ctx context.Context, id protocol.SessionID) (Session, error)
	// Catalog lists the published models by name.
	Catalog() []protocol.CatalogModel
	// File finds a file of a published model; token opens private ones. Errors:
	// model_not_found, forbidden.
	File(ctx context.Context, id protocol.ModelID, kind FileKind, token string) (File, error)
	// Explain finds a route without making a lease, and says why it is that one.
	Explain(model string, r routing.Request) (*routing.Explanation, error)
}

// Session is a session as the API shows it.
type Session struct {
	Session    protocol.SessionID  `json:"session"`
	Driver     protocol.NodeID     `json:"driver"`
	Model      protocol.ModelID    `json:"model"`
	Name       string              `json:"model_name"`
	Phase      protocol.Phase      `json:"phase"`
	Issued     time.Time           `json:"issued"`
	Expires    time.Time           `json:"expires"`
	Updated    time.Time           `json:"updated"`
	Context    int                 `json:"context"`
	CostMicros int64               `json:"cost_us"`
	Hops       []Hop               `json:"hops"`
	Telemetry  *protocol.Telemetry `json:"telemetry,omitempty"`
	// Route is what the route was chosen by, of a live session.
	Route *routing.Route `json:"route,omitempty"`
	End   *sessions.End  `json:"end,omitempty"`
}

// Hop is one hop of a session.
type Hop struct {
	Hop  int             `json:"hop"`
	Node protocol.NodeID `json:"node"`
	Use  protocol.Range  `json:"use"`
	// ExpectedMicros is the step time that the route was chosen by, StepMicros
	// the mean of the session so far, 0 before the first step.
	ExpectedMicros int64 `json:"expected_us"`
	StepMicros     int64 `json:"step_us"`
	// Health is ok, slow, lost, failed or unknown.
	Health string `json:"health"`
}

// Handler serves all pages.
func Handler(src Source, now func() time.Time, metrics *prometheus.Registry) http.Handler {
	p := &pages{src: src, now: now}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.status)
	mux.HandleFunc("GET /events", p.events)
	mux.HandleFunc("GET /v1/models", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"models": src.Models()})
	})
	mux.HandleFunc("GET /v1/catalog", p.catalog)
	mux.HandleFunc("GET /v1/models/{id}/manifest", p.file(FileManifest, "application/json"))
	mux.HandleFunc("GET /v1/models/{id}/torrent", p.file(FileTorrent, "application/x-bittorrent"))
	mux.HandleFunc("GET /v1/nodes", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"nodes": src.Nodes()})
	})
	mux.HandleFunc("GET /v1/sessions", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"sessions": src.Sessions()})
	})
	mux.HandleFunc("GET /v1/sessions/{id}", p.session)
	mux.HandleFunc("GET /v1/routes/explain", p.explain)
	mux.HandleFunc("GET /health", func(w http.ResponseWriter, r *http.Request) {
		writeJSON(w, http.StatusOK, map[string]any{"status": "ok", "protocol": protocol.Version})
	})
	mux.Handle("GET /metrics", promhttp.HandlerFor(metrics, promhttp.HandlerOpts{MaxRequestsInFlight: 4}))
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet && r.Method != http.MethodHead {
			w.Header().Set("Allow", "GET, HEAD")
			err := protocol.Errorf(protocol.CodeInvalidRequest, "only GET is served here")
			writeJSON(w, http.StatusMethodNotAllowed, err)
			return
		}
		writeError(w, protocol.Errorf(protocol.CodeNotFound, "no such page: %.100q", r.URL.Path))
	})
	return secured(mux)
}

// secured sets what every answer has, and bounds the time of writing it; the
// event stream moves its own deadline.
func secured(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
		// Some writers (in tests) have no deadline; then there is none to set.
		_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(30 * time.Second))
		next.ServeHTTP(w, r)
	})
}

func writeJSON(w http.ResponseWriter, status int, v any) {
	raw, err := json.MarshalIndent(v, "", "  ")
	if err != nil {
		status, raw = http.StatusInternalServerError, []byte(`{"code":"internal","message":"internal error"}`)
	}
	w.Header().Set("Content-Type", "application/json; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(append(raw, '\n')) // the reader may be gone
}

func writeError(w http.ResponseWriter, err error) {
	e := protocol.AsError(err)
	if e.Code == protocol.CodeUnavailable || e.Code == protocol.CodeRateLimited {
		w.Header().Set("Retry-After", "5")
	}
	writeJSON(w, e.Code.HTTPStatus(), e)
}

func (p *pages) session(w http.ResponseWriter, r *http.Request) {
	id, err := protocol.ParseSessionID(r.PathValue("id"))
	if err != nil {
		writeError(w, err)
		return
	}
	s, err := p.src.Session(r.Context(), id)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, s)
}

// explain answers GET /v1/routes/explain?model=&context=[&prompt=][&gateway=];
// with one or more &node= it is about a private route over those nodes.
func (p *pages) explain(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	number := func(name string, fallback int) (int, error) {
		if q.Get(name) == "" {
			return fallback, nil
		}
		n, err := strconv.Atoi(q.Get(name))
		if err != nil || n < 0 {
			e := protocol.Errorf(protocol.CodeInvalidRequest, "%s is not a number", name)
			e.Param = name
			return 0, e
		}
		return n, nil
	}
	model := q.Get("model")
	if model == "" || len(model) > 256 {
		e := protocol.Errorf(protocol.CodeInvalidRequest, "name the model: ?model=NAME&context=TOKENS")
		e.Param = "model"
		writeError(w, e)
		return
	}
	context, err := number("context", 4096)
	if err != nil {
		writeError(w, err)
		return
	}
	prompt, err := number("prompt", 0)
	if err == nil && prompt > context {
		err = protocol.Errorf(protocol.CodeInvalidRequest, "a prompt of %d tokens is longer than the context", prompt)
	}
	gateway := protocol.NodeID(q.Get("gateway"))
	if err == nil && gateway != "" {
		_, err = protocol.ParseNodeID(string(gateway))
	}
	var only map[protocol.NodeID]bool
	if list := q["node"]; err == nil && len(list) > 0 {
		if len(list) > protocol.MaxRouteNodes {
			err = protocol.Errorf(protocol.CodeInvalidRequest, "%d nodes, at most %d", len(list), protocol.MaxRouteNodes)
			list = nil
		}
		only = make(map[protocol.NodeID]bool, len(list))
		for _, n := range list {
			id, perr := protocol.ParseNodeID(n)
			if perr != nil {
				err = perr
				break
			}
			only[id] = true
		}
	}
	if err != nil {
		writeError(w, err)
		return
	}
	route, err := p.src.Explain(model, routing.Request{Gateway: gateway, Context: context, Prompt: prompt, Only: only})
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, route)
}
