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
	"strings"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"neuron/engine/protocol"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/routing"
	"neuron/tracker-server/sessions"
	"neuron/tracker-server/telemetry"
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
	// History is what is kept of a session, of a private one its phases and end
	// alone. Errors: session_unknown, not_found, unavailable, timeout.
	History(ctx context.Context, id protocol.SessionID) (*telemetry.History, error)
	// Figures sums the network's figures since a time into steps. Errors:
	// invalid_request, unavailable, timeout.
	Figures(ctx context.Context, since time.Time, step time.Duration) ([]telemetry.Figures, error)
	// Troubles is what is wrong with the tracker itself.
	Troubles() []*protocol.Error
	// OwnerOf is the account that owns a node, or "".
	OwnerOf(id protocol.NodeID) string
}

// Session is a session as the API shows it.
type Session struct {
	// Session is "" in lists when the session is private.
	Session protocol.SessionID `json:"session,omitempty"`
	// Private: only phase, model and end are told.
	Private    bool                `json:"private,omitempty"`
	Driver     protocol.NodeID     `json:"driver,omitempty"`
	Model      protocol.ModelID    `json:"model"`
	Name       string              `json:"model_name"`
	Phase      protocol.Phase      `json:"phase"`
	Issued     time.Time           `json:"issued"`
	Expires    time.Time           `json:"expires,omitzero"`
	Updated    time.Time           `json:"updated,omitzero"`
	Context    int                 `json:"context,omitempty"`
	CostMicros int64               `json:"cost_us,omitempty"`
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
	p := &pages{src: src, now: now, board: newBoard(src, now)}
	metrics.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "neuron_tracker_status_viewers", Help: "Open event streams of the status page."}, func() float64 { return float64(p.board.streams()) }))
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", p.status)
	mux.HandleFunc("GET /nodes", p.list)
	mux.HandleFunc("GET /models", p.list)
	mux.HandleFunc("GET /sessions", p.list)
	mux.HandleFunc("GET /sessions/{id}", p.sessionPage)
	mux.HandleFunc("GET /route", p.routePage)
	mux.HandleFunc("GET /theme", p.setTheme)
	mux.HandleFunc("GET /assets/{name}", asset)
	mux.HandleFunc("GET /events", p.board.events)
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
	mux.HandleFunc("GET /v1/sessions/{id}/telemetry", p.history)
	mux.HandleFunc("GET /v1/figures", p.figures)
	mux.HandleFunc("GET /v1/health", p.health)
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
		err := protocol.Errorf(protocol.CodeNotFound, "no such page: %.100q", r.URL.Path)
		if strings.Contains(r.Header.Get("Accept"), "text/html") {
			p.fail(w, r, err)
			return
		}
		writeError(w, err)
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
