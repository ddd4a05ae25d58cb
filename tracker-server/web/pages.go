package web

import (
	"bytes"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/routing"
	"neuron/tracker-server/telemetry"
)

//go:embed assets
var assets embed.FS

var tmpl = template.Must(template.New("").Funcs(template.FuncMap{
	"millis": millis, "bytes": showBytes, "pct": percent, "count": count[int], "count64": count[int64], "credits": credits, "rate": rate,
	"layers": layers, "clock": clock, "plural": plural, "asset": assetURL, "add": func(a, b int) int { return a + b },
}).ParseFS(assets, "assets/*.html"))

// assetTypes are the files that pages load, with their types.
var assetTypes = map[string]string{
	"status.css": "text/css; charset=utf-8", "status.js": "text/javascript; charset=utf-8", "icon.svg": "image/svg+xml",
}

// assetURL carries the hash of the content, so that browsers may keep it.
func assetURL(name string) string {
	raw, err := assets.ReadFile("assets/" + name)
	if err != nil {
		return "/assets/" + name
	}
	sum := sha256.Sum256(raw)
	return "/assets/" + name + "?v=" + hex.EncodeToString(sum[:6])
}

func asset(w http.ResponseWriter, r *http.Request) {
	name := r.PathValue("name")
	raw, err := assets.ReadFile("assets/" + name)
	if kind := assetTypes[name]; kind == "" || err != nil {
		writeError(w, protocol.Errorf(protocol.CodeNotFound, "no such file"))
		return
	}
	w.Header().Set("Content-Type", assetTypes[name])
	if r.URL.RawQuery != "" && r.URL.RequestURI() == assetURL(name) {
		w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	}
	_, _ = w.Write(raw) // the reader may be gone
}

// pagePolicy lets pages load our own files and nothing else: nothing inline,
// nothing from elsewhere.
const pagePolicy = "default-src 'none'; style-src 'self'; script-src 'self'; connect-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// pages renders HTML.
type pages struct {
	src   Source
	now   func() time.Time
	board *board
}

// frameData is what the layout of all pages needs.
type frameData struct {
	Title string
	Theme string // auto, light or dark
	Path  string // of this page, for the theme switch
	Live  string // since when events are wanted, or "" for pages without
	Body  any
}

// show renders a page. Its layout calls the template named in kind.
func (p *pages) show(w http.ResponseWriter, r *http.Request, status int, kind string, d frameData) {
	d.Theme, d.Path = theme(r), r.URL.Path
	var b bytes.Buffer
	if err := tmpl.ExecuteTemplate(&b, kind, d); err != nil {
		writeError(w, fmt.Errorf("render %s: %w", kind, err))
		return
	}
	w.Header().Set("Content-Security-Policy", pagePolicy)
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the reader may be gone
}

// fail shows an error as a page.
func (p *pages) fail(w http.ResponseWriter, r *http.Request, err error) {
	e := protocol.AsError(err)
	if e.Code == protocol.CodeUnavailable || e.Code == protocol.CodeRateLimited {
		w.Header().Set("Retry-After", "5")
	}
	p.show(w, r, e.Code.HTTPStatus(), "error.html", frameData{Title: "Error", Body: map[string]string{"Code": string(e.Code), "Message": e.Message, "Remedy": e.Code.Remedy()}})
}

const themeCookie = "neuron_theme"

func theme(r *http.Request) string {
	if c, err := r.Cookie(themeCookie); err == nil && (c.Value == "dark" || c.Value == "light") {
		return c.Value
	}
	return "auto"
}

// setTheme keeps the reader's choice in a cookie and goes back. It works
// without JavaScript.
func (p *pages) setTheme(w http.ResponseWriter, r *http.Request) {
	to := r.URL.Query().Get("to")
	c := &http.Cookie{Name: themeCookie, Value: to, Path: "/", MaxAge: 365 * 24 * 3600, SameSite: http.SameSiteLaxMode}
	switch to {
	case "dark", "light":
	case "auto":
		c.Value, c.MaxAge = "", -1
	default:
		p.fail(w, r, protocol.Errorf(protocol.CodeInvalidRequest, "the themes are auto, light and dark"))
		return
	}
	http.SetCookie(w, c)
	http.Redirect(w, r, localPath(r.URL.Query().Get("back")), http.StatusSeeOther)
}

// localPath is path when it is surely on this site, else "/".
func localPath(path string) string {
	u, err := url.Parse(path)
	if err != nil || u.Scheme != "" || u.Host != "" || u.User != nil || !strings.HasPrefix(u.Path, "/") || strings.HasPrefix(u.Path, "//") || strings.ContainsAny(u.Path, "\\\r\n") {
		return "/"
	}
	return u.EscapedPath()
}

func (p *pages) status(w http.ResponseWriter, r *http.Request) {
	s, err := p.board.page()
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.show(w, r, http.StatusOK, "status.html", frameData{Title: "Network", Live: s.Since, Body: s})
}

// paged is one page of a long list.
type paged struct {
	Kind         string // nodes, models or sessions
	Items        any
	Page, Pages  int
	Total        int
	State        string // filter, of nodes
	States       []registry.State
	Private      []privateView
	Query        template.URL // of the links to other pages, without page
	First, After int
}

// sheet cuts a list into pages; page counts from 1.
func sheet[T any](r *http.Request, kind string, list []T) (paged, error) {
	page := 1
	if text := r.URL.Query().Get("page"); text != "" {
		n, err := strconv.Atoi(text)
		if err != nil || n < 1 {
			return paged{}, protocol.Errorf(protocol.CodeInvalidRequest, "pages count from 1")
		}
		page = n
	}
	pages := max(1, (len(list)+pageSize-1)/pageSize)
	if page > pages {
		return paged{}, protocol.Errorf(protocol.CodeNotFound, "there are %d pages", pages)
	}
	first := (page - 1) * pageSize
	after := min(first+pageSize, len(list))
	return paged{Kind: kind, Items: list[first:after], Page: page, Pages: pages, Total: len(list), First: first + 1, After: after}, nil
}

func (p *pages) list(w http.ResponseWriter, r *http.Request) {
	v, err := p.board.refreshed()
	if err != nil {
		p.fail(w, r, err)
		return
	}
	var d paged
	kind := strings.TrimPrefix(r.URL.Path, "/")
	switch kind {
	case "models":
		d, err = sheet(r, kind, v.Models)
	case "nodes":
		state, nodes := registry.State(r.URL.Query().Get("state")), v.Nodes
		if state != "" && !slices.Contains(registry.States(), state) {
			err = protocol.Errorf(protocol.CodeInvalidRequest, "no such state of nodes")
			break
		}
		if state != "" {
			nodes = nil
			for i := range v.Nodes {
				if v.Nodes[i].State == state {
					nodes = append(nodes, v.Nodes[i])
				}
			}
		}
		d, err = sheet(r, kind, nodes)
		d.State, d.States = string(state), registry.States()
		if state != "" {
			d.Query = template.URL("state=" + url.QueryEscape(string(state)) + "&")
		}
	default:
		d, err = sheet(r, kind, v.Sessions)
		d.Private = v.Private
	}
	if err != nil {
		p.fail(w, r, err)
		return
	}
	p.show(w, r, http.StatusOK, "list.html", frameData{Title: strings.ToUpper(kind[:1]) + kind[1:], Body: d})
}

// routePage is a form and, when it was sent, the answer of Explain.
func (p *pages) routePage(w http.ResponseWriter, r *http.Request) {
	q := r.URL.Query()
	body := map[string]any{"Model": q.Get("model"), "Context": q.Get("context"), "Names": p.names()}
	if body["Context"] == "" {
		body["Context"] = "4096"
	}
	status := http.StatusOK
	if q.Get("model") != "" {
		x, err := p.asked(q)
		if err != nil {
			e := protocol.AsError(err)
			status = e.Code.HTTPStatus()
			body["Error"] = map[string]string{"Code": string(e.Code), "Message": e.Message, "Remedy": e.Code.Remedy()}
		} else {
			body["Route"], body["Hops"] = x, whyHops(x.Route)
			if x.Next != nil {
				body["NextHops"] = whyHops(x.Next)
			}
		}
	}
	p.show(w, r, status, "route.html", frameData{Title: "Why this route", Body: body})
}

// maxNames bounds the suggestions of the form.
const maxNames = 200

func (p *pages) names() []string {
	v, err := p.board.refreshed()
	if err != nil {
		return nil
	}
	var out []string
	for i := range v.Models[:min(len(v.Models), maxNames)] {
		out = append(out, v.Models[i].Name)
	}
	return slices.Compact(out)
}

// sessionPage shows one session: its route, its phases and how fast it was.
func (p *pages) sessionPage(w http.ResponseWriter, r *http.Request) {
	id, err := protocol.ParseSessionID(r.PathValue("id"))
	if err != nil {
		p.fail(w, r, err)
		return
	}
	s, err := p.src.Session(r.Context(), id)
	if err != nil {
		p.fail(w, r, err)
		return
	}
	body := map[string]any{"Session": viewSession(&s, p.now())}
	h, err := p.src.History(r.Context(), id)
	switch {
	case err != nil:
		body["NoHistory"] = protocol.AsError(err).Message
	default:
		body["Phases"] = phaseViews(h)
		if c := rates(h); c != nil {
			body["Rate"] = c
		}
		if n := len(h.Samples); n > 0 {
			body["Last"] = h.Samples[n-1]
		}
	}
	p.show(w, r, http.StatusOK, "session.html", frameData{Title: "Session", Body: body})
}

// phaseView is a phase with the time it took.
type phaseView struct {
	Phase protocol.Phase
	At    time.Time
	Took  string
}

func phaseViews(h *telemetry.History) []phaseView {
	var out []phaseView
	for i, ph := range h.Phases {
		v := phaseView{Phase: ph.Phase, At: ph.At}
		if i+1 < len(h.Phases) {
			v.Took = millis(h.Phases[i+1].At.Sub(ph.At).Microseconds())
		}
		out = append(out, v)
	}
	return out
}

// rates draws the tokens per second of a session, once there are two points.
func rates(h *telemetry.History) *chart {
	c := &chart{ID: "chart-rate", Title: "Tokens generated", Unit: "tokens/s", Step: 365 * 24 * time.Hour}
	for i := range h.Samples {
		if s := &h.Samples[i]; s.Phase == protocol.PhaseDecode || s.Phase == protocol.PhaseDone {
			c.points = append(c.points, point{s.At, s.TokensPerSecond})
		}
	}
	if len(c.points) < 2 {
		return nil
	}
	c.From, c.To = c.points[0].at, c.points[len(c.points)-1].at
	return c
}

// asked answers the query of both forms of Explain.
func (p *pages) asked(q url.Values) (*routing.Explanation, error) {
	model, req, err := routeQuery(q)
	if err != nil {
		return nil, err
	}
	return p.src.Explain(model, req)
}
