package web

import (
	"net/http"
	"net/url"
	"strconv"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/routing"
)

// badParam is an error of one parameter of a query.
func badParam(name, format string, args ...any) error {
	e := protocol.Errorf(protocol.CodeInvalidRequest, format, args...)
	e.Param = name
	return e
}

// explain answers GET /v1/routes/explain?model=&context=[&prompt=][&gateway=];
// with one or more &node= it is about a private route over those nodes.
func (p *pages) explain(w http.ResponseWriter, r *http.Request) {
	route, err := p.asked(r.URL.Query())
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, route)
}

// routeQuery reads the query of explain.
func routeQuery(q url.Values) (model string, req routing.Request, err error) {
	number := func(name string, fallback int) int {
		if err != nil || q.Get(name) == "" {
			return fallback
		}
		n, perr := strconv.Atoi(q.Get(name))
		if perr != nil || n < 0 {
			err = badParam(name, "%s is not a number", name)
		}
		return n
	}
	model = q.Get("model")
	if model == "" || len(model) > 256 {
		return "", req, badParam("model", "name the model: ?model=NAME&context=TOKENS")
	}
	req.Context = number("context", 4096)
	req.Prompt = number("prompt", 0)
	if err != nil {
		return "", req, err
	}
	if req.Prompt > req.Context {
		return "", req, badParam("prompt", "a prompt of %d tokens is longer than the context", req.Prompt)
	}
	if gateway := q.Get("gateway"); gateway != "" {
		if req.Gateway, err = protocol.ParseNodeID(gateway); err != nil {
			return "", req, err
		}
	}
	nodes := q["node"]
	if len(nodes) > protocol.MaxRouteNodes {
		return "", req, badParam("node", "%d nodes, at most %d", len(nodes), protocol.MaxRouteNodes)
	}
	if len(nodes) > 0 {
		req.Only = make(map[protocol.NodeID]bool, len(nodes))
	}
	for _, n := range nodes {
		id, err := protocol.ParseNodeID(n)
		if err != nil {
			return "", req, err
		}
		req.Only[id] = true
	}
	return model, req, nil
}

// history answers GET /v1/sessions/{id}/telemetry.
func (p *pages) history(w http.ResponseWriter, r *http.Request) {
	id, err := protocol.ParseSessionID(r.PathValue("id"))
	if err != nil {
		writeError(w, err)
		return
	}
	h, err := p.src.History(r.Context(), id)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, h)
}

// The default series: the newest three hours by the minute.
const (
	defaultSince = 3 * time.Hour
	defaultStep  = time.Minute
)

// figures answers GET /v1/figures[?since=][&step=]. since is a time (RFC 3339)
// or a span before now ("24h"), step a span.
func (p *pages) figures(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	since, step := p.now().Add(-defaultSince), defaultStep
	if text := q.Get("since"); text != "" {
		at, terr := time.Parse(time.RFC3339, text)
		d, derr := time.ParseDuration(text)
		switch {
		case terr == nil:
			since = at
		case derr == nil && d > 0:
			since = p.now().Add(-d)
		default:
			writeError(w, badParam("since", "since is a time like 2026-01-31T12:00:00Z, or a span like 24h"))
			return
		}
	}
	if text := q.Get("step"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			writeError(w, badParam("step", "step is a span like 10m"))
			return
		}
		step = d
	}
	list, err := p.src.Figures(r.Context(), since, step)
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"step_seconds": int(step / time.Second), "figures": list})
}

// health answers GET /v1/health: what is wrong with the network.
func (p *pages) health(w http.ResponseWriter, r *http.Request) {
	v, err := p.board.refreshed()
	if err != nil {
		writeError(w, err)
		return
	}
	writeJSON(w, http.StatusOK, map[string]any{"entries": v.Health})
}
