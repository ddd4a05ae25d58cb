package web

import (
	"bytes"
	"crypto/rand"
	"embed"
	"encoding/base64"
	"fmt"
	"html/template"
	"net/http"
	"slices"
	"strings"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/registry"
)

//go:embed status.html status.css status.js
var files embed.FS

var tmpl = template.Must(template.New("status.html").Funcs(template.FuncMap{
	"millis": millis, "bytes": showBytes, "ago": ago, "level": level, "pct": func(a, b int) int { return a * 100 / max(b, 1) },
}).ParseFS(files, "status.html"))

// Bounds of one page; the JSON API has everything.
const (
	maxNodesShown    = 500
	maxSessionsShown = 60
	maxStreams       = 200
	refresh          = time.Second
)

// pages renders the status page. One rendering per second serves all readers.
type pages struct {
	src Source
	now func() time.Time

	mu       sync.Mutex
	rendered time.Time
	live     []byte // the part that changes
	streams  int
}

// view is what the template sees.
type view struct {
	Now          time.Time
	Models       []modelView
	Nodes        []registry.NodeView
	Sessions     []Session
	NodesHidden  int
	Ready        int
	LiveSessions int
	TokensPerSec float64
}

// modelView is a published model, or one that nodes hold on their own.
type modelView struct {
	protocol.CatalogModel
	Published bool
	Min       int
}

func (p *pages) models() []modelView {
	var out []modelView
	known := make(map[protocol.ModelID]bool)
	for _, m := range p.src.Catalog() {
		known[m.Model] = true
		out = append(out, modelView{CatalogModel: m, Published: true})
	}
	for _, m := range p.src.Models() {
		if !known[m.Model] {
			out = append(out, modelView{CatalogModel: protocol.CatalogModel{
				Model: m.Model, Name: m.Name, Architecture: m.Architecture, Layers: m.Layers, Context: m.Context,
				Replicas: m.Replicas, Routable: m.Routable, Missing: MissingLayers(m.Replicas),
			}})
		}
	}
	for i := range out {
		if r := out[i].Replicas; len(r) > 0 {
			out[i].Min = slices.Min(r)
		}
	}
	slices.SortStableFunc(out, func(a, b modelView) int { return strings.Compare(a.Name, b.Name) })
	return out
}

func (p *pages) view() view {
	v := view{Now: p.now(), Nodes: p.src.Nodes(), Sessions: p.src.Sessions(), Models: p.models()}
	for _, n := range v.Nodes {
		if n.State == registry.StateReady {
			v.Ready++
		}
	}
	for _, s := range v.Sessions {
		if s.End == nil {
			v.LiveSessions++
			if s.Telemetry != nil {
				v.TokensPerSec += s.Telemetry.TokensPerSecond
			}
		}
	}
	if len(v.Nodes) > maxNodesShown {
		v.NodesHidden = len(v.Nodes) - maxNodesShown
		v.Nodes = v.Nodes[:maxNodesShown]
	}
	v.Sessions = v.Sessions[:min(len(v.Sessions), maxSessionsShown)]
	return v
}

// fragment renders the changing part, at most once per refresh.
func (p *pages) fragment() ([]byte, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.live != nil && time.Since(p.rendered) < refresh/2 {
		return p.live, nil
	}
	var b bytes.Buffer
	if err := tmpl.ExecuteTemplate(&b, "live", p.view()); err != nil {
		return nil, fmt.Errorf("render the status page: %w", err)
	}
	p.live, p.rendered = b.Bytes(), time.Now()
	return p.live, nil
}

func (p *pages) status(w http.ResponseWriter, r *http.Request) {
	live, err := p.fragment()
	if err != nil {
		writeError(w, err)
		return
	}
	raw := make([]byte, 16)
	rand.Read(raw) // never fails (crypto/rand)
	nonce := base64.RawURLEncoding.EncodeToString(raw)
	css, _ := files.ReadFile("status.css") // embedded
	js, _ := files.ReadFile("status.js")
	var b bytes.Buffer
	err = tmpl.Execute(&b, map[string]any{
		"Nonce": nonce, "CSS": template.CSS(css), "JS": template.JS(js), "Live": template.HTML(live),
	})
	if err != nil {
		writeError(w, err)
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", "default-src 'none'; style-src 'nonce-"+nonce+"'; script-src 'nonce-"+nonce+
		"'; connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'")
	h.Set("Content-Type", "text/html; charset=utf-8")
	_, _ = w.Write(b.Bytes()) // the reader may be gone
}

// events streams the changing part whenever it has changed. It ends with the
// request, which ends with the server.
func (p *pages) events(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	if p.streams >= maxStreams {
		p.mu.Unlock()
		writeError(w, protocol.Errorf(protocol.CodeRateLimited, "too many readers of the event stream"))
		return
	}
	p.streams++
	p.mu.Unlock()
	defer func() {
		p.mu.Lock()
		p.streams--
		p.mu.Unlock()
	}()
	w.Header().Set("Content-Type", "text/event-stream")
	w.Header().Set("X-Accel-Buffering", "no")
	rc := http.NewResponseController(w)
	tick := time.NewTicker(refresh)
	defer tick.Stop()
	var last []byte
	quiet := 0
	for {
		live, err := p.fragment()
		if err != nil {
			return
		}
		var out []byte
		if !bytes.Equal(live, last) {
			last, quiet = live, 0
			out = append(out, "data: "...)
			out = append(out, bytes.ReplaceAll(live, []byte("\n"), []byte("\ndata: "))...)
			out = append(out, "\n\n"...)
		} else if quiet++; quiet%15 == 0 {
			out = []byte(": still here\n\n")
		}
		if len(out) > 0 {
			_ = rc.SetWriteDeadline(time.Now().Add(10 * time.Second)) // as in secured
			if _, err := w.Write(out); err != nil || rc.Flush() != nil {
				return
			}
		}
		select {
		case <-r.Context().Done():
			return
		case <-tick.C:
		}
	}
}

func millis(us int64) string {
	if us <= 0 {
		return "–"
	}
	return fmt.Sprintf("%.1f ms", float64(us)/1000)
}

func showBytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	}
}

// ago is coarse on purpose: the page must not change every second when
// nothing happens.
func ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return "never"
	case d < 15*time.Second:
		return "just now"
	case d < time.Minute:
		return "under a minute ago"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	default:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	}
}

// level is the CSS class of a replica count.
func level(n int) string { return fmt.Sprintf("c%d", min(n, 4)) }
