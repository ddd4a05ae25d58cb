package operator

import (
	"bytes"
	"context"
	"embed"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

//go:embed pages/*.html pages/operator.css
var files embed.FS

// SettingsPage is the settings in force.
type SettingsPage struct {
	Settings []Setting `json:"settings"`
}

// LogQuery selects entries of the log below a number, about one subject or all.
type LogQuery struct {
	Before  int64  `json:"before"`
	Subject string `json:"subject"`
}

// LogPage is a part of the operator's log, the newest first.
type LogPage struct {
	Entries []store.LogEntry `json:"entries"`
	Next    int64            `json:"next,omitempty"` // Before of the following page
	Query   LogQuery         `json:"-"`
}

// Log lists what the operator did.
func (a *Area) Log(ctx context.Context, q LogQuery) (*LogPage, error) {
	list, err := a.cfg.Store.OperatorLog(ctx, q.Subject, max(0, q.Before), pageSize+1)
	p := &LogPage{Entries: list, Query: q}
	if p.Entries == nil {
		p.Entries = []store.LogEntry{}
	}
	if len(list) > pageSize {
		p.Entries, p.Next = list[:pageSize], list[pageSize-1].Seq
	}
	return p, err
}

// frame is what every page has around it.
type frame struct {
	Theme  string // auto, light or dark, as on the status page
	Page   string
	Place  string // path of this page
	Path   string // to come back to
	CSRF   string
	By     string
	Said   []said
	Error  *protocol.Error
	Remedy string
	Now    time.Time
	Body   template.HTML // the page itself, by the template of its name
	V      any
}

var functions = template.FuncMap{
	"credits": func(c store.Credit) string { return c.String() },
	"time":    showTime,
	"amount":  func(c store.Credit) string { return Amount(c).String() },
	"states":  func() []string { return []string{"online", "waiting", "unknown", "approved", "drained", "banned"} },
	"bytes":   showBytes,
	"percent": func(share float64) string { return strconv.FormatFloat(share*100, 'g', 3, 64) + " %" },
	"query": func(pairs ...string) template.URL {
		q := url.Values{}
		for i := 0; i+1 < len(pairs); i += 2 {
			if pairs[i+1] != "" && pairs[i+1] != "0" {
				q.Set(pairs[i], pairs[i+1])
			}
		}
		return template.URL("?" + q.Encode()) // encoded: nothing of it can leave the attribute
	},
	"add":    func(a, b int) int { return a + b },
	"themes": func() []string { return []string{"auto", "light", "dark"} },
	"title":  func(s string) string { return strings.ToUpper(s[:1]) + s[1:] },
}

var pages = template.Must(template.New("").Funcs(functions).ParseFS(files, "pages/*.html"))

func showTime(t time.Time) string {
	if t.IsZero() {
		return "–"
	}
	return t.UTC().Format("2006-01-02 15:04:05")
}

// pagePolicy lets pages load our own style sheets and nothing else. There are no
// scripts at all.
const pagePolicy = "default-src 'none'; style-src 'self'; img-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

func (a *Area) write(w http.ResponseWriter, r *http.Request, status int, f *frame) {
	f.Theme, f.Place, f.Now = "auto", r.URL.Path, a.cfg.Now()
	if c, err := r.Cookie("neuron_theme"); err == nil && (c.Value == "dark" || c.Value == "light") {
		f.Theme = c.Value // chosen on the status page or here
	}
	if r.Method != http.MethodGet {
		f.Place = "/operator/"
	}
	var b bytes.Buffer
	err := pages.ExecuteTemplate(&b, f.Page, f)
	f.Body = template.HTML(b.String()) // escaped where it was made
	b.Reset()
	if err == nil {
		err = pages.ExecuteTemplate(&b, "frame", f)
	}
	if err != nil {
		writeError(w, a.known(err))
		return
	}
	h := w.Header()
	h.Set("Content-Security-Policy", pagePolicy)
	h.Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(status)
	_, _ = w.Write(b.Bytes()) // the reader may be gone
}

func (a *Area) render(w http.ResponseWriter, r *http.Request, s *session, status int, page string, v any) {
	a.write(w, r, status, &frame{Page: page, Path: r.URL.RequestURI(), CSRF: s.csrf, By: s.by, Said: a.logins.take(s), V: v})
}

// problem shows an error to a browser that is logged in.
func (a *Area) problem(w http.ResponseWriter, r *http.Request, err error) {
	key, kerr := a.current()
	s := a.logins.find(r, key)
	if kerr != nil || s == nil {
		a.loginPage(w, r, a.known(err))
		return
	}
	e := a.known(err)
	retryHeader(w, e)
	to := "/operator/"
	if r.Method == http.MethodPost {
		to = back(r)
	}
	a.write(w, r, e.Code.HTTPStatus(), &frame{Page: "problem", Path: to, CSRF: s.csrf, By: s.by, Error: e, Remedy: e.Code.Remedy(), V: nil})
}

// loginPage asks for the key. The form's token stands in a cookie of its own,
// since there is no session yet.
func (a *Area) loginPage(w http.ResponseWriter, r *http.Request, why *protocol.Error) {
	token := random()
	if c, err := r.Cookie(preCookie); err == nil && len(c.Value) == len(token) {
		token = c.Value // another window shows the form as well
	}
	a.setCookie(w, r, preCookie, token, 3600)
	status := http.StatusUnauthorized
	if why != nil {
		status = why.Code.HTTPStatus()
		retryHeader(w, why)
	} else if r.URL.Path == "/operator/" {
		status = http.StatusOK
	}
	to := "/operator/"
	if r.Method == http.MethodGet && strings.HasPrefix(r.URL.Path, "/operator/") {
		to = r.URL.RequestURI()
	}
	a.write(w, r, status, &frame{Page: "login", Path: to, CSRF: token, Error: why})
}

// login exchanges the key for a session.
func (a *Area) login(w http.ResponseWriter, r *http.Request) {
	token := ""
	if c, err := r.Cookie(preCookie); err == nil {
		token = c.Value
	}
	if err := a.checkForm(w, r, token); err != nil {
		a.loginPage(w, r, a.known(err))
		return
	}
	key, err := a.checkKey(source(r), strings.TrimSpace(r.PostForm.Get("key")))
	if err != nil {
		e := *a.known(err)
		a.loginPage(w, r, &e)
		return
	}
	a.logins.end(r)
	by := who(r.PostForm.Get("name"), "browser", r)
	a.setCookie(w, r, cookieName, a.logins.start(key, by), int(sessionFor/time.Second))
	a.setCookie(w, r, preCookie, "", -1)
	a.cfg.Logger.Info("the operator logged in", "by", by)
	http.Redirect(w, r, back(r), http.StatusSeeOther)
}

func (a *Area) logout(w http.ResponseWriter, r *http.Request) {
	s, ok := a.browser(w, r)
	if !ok {
		return
	}
	if err := a.checkForm(w, r, s.csrf); err != nil {
		a.problem(w, r, err)
		return
	}
	a.logins.end(r)
	a.setCookie(w, r, cookieName, "", -1)
	http.Redirect(w, r, "/operator/", http.StatusSeeOther)
}

// Home is the first page: what waits for a decision.
type Home struct {
	Waiting *NodePage
	Online  int
	Banned  int
	Drained int
	Models  int
	Log     *LogPage
}

func (a *Area) home(w http.ResponseWriter, r *http.Request) {
	s, ok := a.browser(w, r)
	if !ok {
		return
	}
	h := Home{Models: len(a.cfg.Network.Catalog())}
	var err error
	for _, q := range []struct {
		state string
		to    *int
	}{{"online", &h.Online}, {"banned", &h.Banned}, {"drained", &h.Drained}} {
		var p *NodePage
		if p, err = a.Nodes(r.Context(), NodeQuery{State: q.state}); err != nil {
			break
		}
		*q.to = p.Total
	}
	if err == nil {
		h.Waiting, err = a.Nodes(r.Context(), NodeQuery{State: "waiting"})
	}
	if err == nil {
		h.Log, err = a.Log(r.Context(), LogQuery{})
	}
	if err != nil {
		a.problem(w, r, err)
		return
	}
	h.Log.Entries = h.Log.Entries[:min(10, len(h.Log.Entries))]
	a.render(w, r, s, http.StatusOK, "home", h)
}

func showBytes(n int64) string {
	switch {
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
}

// style serves the style sheet of these pages; that of the status page goes
// before it.
func (a *Area) style(w http.ResponseWriter, _ *http.Request) {
	raw, err := files.ReadFile("pages/operator.css")
	if err != nil {
		writeError(w, a.known(err))
		return
	}
	w.Header().Set("Content-Type", "text/css; charset=utf-8")
	_, _ = w.Write(raw) // the reader may be gone
}
