package operator

import (
	"context"
	"encoding/json"
	"net/http"
	"strings"

	"neuron/engine/protocol"
)

// operation changes something: by is who asked. It returns what programs get and
// the sentence that people get.
type operation[T any] func(ctx context.Context, by string, in T) (any, string, error)

// API and page of one thing have the same path below these.
const (
	apiRoot  = "/v1/operator"
	pageRoot = "/operator"
)

func (a *Area) routes() {
	change(a, "/nodes/{id}/{action}", a.SetNode)
	change(a, "/owners/{id}/{action}", a.SetOwner)
	change(a, "/models/{id}/unpublish", a.Unpublish)
	change(a, "/publish", a.StartPublish)
	change(a, "/publish/stop", a.StopPublish)
	change(a, "/accounts", a.AddAccount)
	change(a, "/accounts/{id}/grant", a.Grant)
	change(a, "/accounts/{id}/close", a.CloseAccount)
	change(a, "/accounts/{id}/freeze", a.fault("freeze", "The unsettled credit of %s is frozen.", a.cfg.Ledger.Freeze, nil))
	change(a, "/accounts/{id}/thaw", a.fault("thaw", "The freeze of %s is lifted.", a.cfg.Ledger.Thaw, a.cfg.Faults.Lift))
	change(a, "/accounts/{id}/forfeit", a.fault("forfeit", "The frozen credit of %s is the house's.", a.cfg.Ledger.Forfeit, a.cfg.Faults.Forfeit))
	change(a, "/accounts/{id}/keys", a.AddKey)
	change(a, "/accounts/{id}/keys/{key}/limits", a.LimitKey)
	change(a, "/accounts/{id}/keys/{key}/revoke", a.RevokeKey)
	change(a, "/proofs/{id}/lift", a.onProof("lift", "The proof is lifted: its node may serve, and its owner's credit is free, as far as no other proof stands.", a.cfg.Faults.Lift))
	change(a, "/proofs/{id}/forfeit", a.onProof("forfeit", "The frozen credit of the owner is the house's.", a.cfg.Faults.Forfeit))
	change(a, "/corrections", a.Correct)
	change(a, "/prices", a.AddPrices)

	show(a, "/nodes", "nodes", a.Nodes)
	show(a, "/nodes/{id}", "node", func(ctx context.Context, q struct {
		ID string `path:"id"`
	}) (*NodeDetail, error) {
		return a.Node(ctx, q.ID)
	})
	show(a, "/models", "models", func(ctx context.Context, _ struct{}) (*ModelPage, error) { return a.Models(ctx) })
	show(a, "/accounts", "accounts", a.Accounts)
	show(a, "/accounts/{id}", "account", func(ctx context.Context, q struct {
		ID     string `path:"id"`
		Cursor string `json:"cursor"`
	}) (*AccountDetail, error) {
		return a.Account(ctx, q.ID, q.Cursor)
	})
	show(a, "/prices", "prices", func(ctx context.Context, _ struct{}) (*PricePage, error) { return a.Prices(ctx) })
	show(a, "/settings", "settings", func(context.Context, struct{}) (*SettingsPage, error) {
		return &SettingsPage{Settings: a.cfg.Network.Settings()}, nil
	})
	show(a, "/audits", "audits", a.Audits)
	show(a, "/log", "log", a.Log)

	a.mux.HandleFunc("GET /operator/{$}", a.home)
	a.mux.HandleFunc("GET /operator/operator.css", a.style)
	a.mux.HandleFunc("GET /operator", func(w http.ResponseWriter, r *http.Request) {
		http.Redirect(w, r, "/operator/", http.StatusSeeOther)
	})
	a.mux.HandleFunc("POST /operator/login", a.login)
	a.mux.HandleFunc("POST /operator/logout", a.logout)
	a.mux.HandleFunc("/operator/", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := a.browser(w, r); ok {
			a.problem(w, r, protocol.Errorf(protocol.CodeNotFound, "no such page: %.100q", r.URL.Path))
		}
	})
	a.mux.HandleFunc("/v1/operator/", func(w http.ResponseWriter, r *http.Request) {
		if _, ok := a.program(w, r); ok {
			writeError(w, protocol.Errorf(protocol.CodeNotFound, "no such operation: %s %.100q", r.Method, r.URL.Path))
		}
	})
}

// show serves something that is read, as JSON and as a page. Q comes from path
// and query.
func show[Q, V any](a *Area, path, page string, f func(context.Context, Q) (V, error)) {
	read := func(r *http.Request) (v V, err error) {
		var q Q
		if err := fill(r, &q, r.URL.Query().Get); err != nil {
			return v, err
		}
		return f(r.Context(), q)
	}
	a.mux.HandleFunc("GET "+apiRoot+path, func(w http.ResponseWriter, r *http.Request) {
		if _, ok := a.program(w, r); !ok {
			return
		}
		v, err := read(r)
		if err != nil {
			writeError(w, a.known(err))
			return
		}
		writeJSON(w, http.StatusOK, v)
	})
	a.mux.HandleFunc("GET "+pageRoot+path, func(w http.ResponseWriter, r *http.Request) {
		s, ok := a.browser(w, r)
		if !ok {
			return
		}
		v, err := read(r)
		if err != nil {
			a.problem(w, r, err)
			return
		}
		a.render(w, r, s, http.StatusOK, page, v)
	})
}

// change serves an operation, for programs with a JSON body and for browsers
// with a form.
func change[T any](a *Area, path string, f operation[T]) {
	a.mux.HandleFunc("POST "+apiRoot+path, func(w http.ResponseWriter, r *http.Request) {
		by, ok := a.program(w, r)
		if !ok {
			return
		}
		var in T
		err := readJSON(r, &in)
		if err == nil {
			err = fill(r, &in, nil)
		}
		var v any
		if err == nil {
			v, _, err = f(r.Context(), by, in)
		}
		if err != nil {
			writeError(w, a.known(err))
			return
		}
		writeJSON(w, http.StatusOK, v)
	})
	a.mux.HandleFunc("POST "+pageRoot+path, func(w http.ResponseWriter, r *http.Request) {
		s, ok := a.browser(w, r)
		if !ok {
			return
		}
		if err := a.checkForm(w, r, s.csrf); err != nil {
			a.problem(w, r, err)
			return
		}
		var in T
		err := fill(r, &in, r.PostForm.Get)
		if err != nil {
			a.problem(w, r, err)
			return
		}
		v, text, err := f(r.Context(), s.by, in)
		if err != nil {
			a.problem(w, r, err)
			return
		}
		what := said{Text: text}
		if k, ok := v.(NewKey); ok {
			what.Secret = k.Secret
		}
		a.logins.say(s, what)
		http.Redirect(w, r, back(r), http.StatusSeeOther)
	})
}

// back is the page that a form names to return to; only pages of the area.
func back(r *http.Request) string {
	to := r.PostForm.Get("back")
	if !strings.HasPrefix(to, "/operator/") || strings.ContainsAny(to, "\\\r\n") || strings.Contains(to, "//") {
		return "/operator/"
	}
	return to
}

// checkForm reads a form of this area: it must come from our own pages, and
// with the token that we gave them. Errors: invalid_request, forbidden.
func (a *Area) checkForm(w http.ResponseWriter, r *http.Request, token string) error {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if err := r.ParseForm(); err != nil {
		return protocol.Errorf(protocol.CodeInvalidRequest, "the form cannot be read: %w", err)
	}
	if a.cross.Check(r) != nil || !same(r.PostForm.Get("csrf"), token) {
		return protocol.Errorf(protocol.CodeForbidden, "the form is not one of this visit; go back, reload the page and send it again")
	}
	return nil
}

// program checks the key of a program's request and says who it is.
func (a *Area) program(w http.ResponseWriter, r *http.Request) (by string, ok bool) {
	key, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	if !bearer {
		writeError(w, protocol.Errorf(protocol.CodeUnauthorized, "the operator's key is missing"))
		return "", false
	}
	if _, err := a.checkKey(source(r), strings.TrimSpace(key)); err != nil {
		writeError(w, a.known(err))
		return "", false
	}
	return who(r.Header.Get("Neuron-Operator"), "program", r), true
}

// browser finds the session of a browser's request, or shows the login form.
func (a *Area) browser(w http.ResponseWriter, r *http.Request) (*session, bool) {
	key, err := a.current()
	if err != nil {
		a.loginPage(w, r, a.known(err))
		return nil, false
	}
	s := a.logins.find(r, key)
	if s == nil {
		var why *protocol.Error
		if r.Method == http.MethodPost {
			why = protocol.Errorf(protocol.CodeUnauthorized, "the visit is over; log in and send the form again")
		}
		a.loginPage(w, r, why)
		return nil, false
	}
	return s, true
}

// known logs what is no coded error, and gives what may be shown.
func (a *Area) known(err error) *protocol.Error {
	e := protocol.AsError(err)
	if e.Code == protocol.CodeInternal {
		a.cfg.Logger.Error("operator's request", "err", err)
	}
	return e
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

func writeError(w http.ResponseWriter, e *protocol.Error) {
	retryHeader(w, e)
	writeJSON(w, e.Code.HTTPStatus(), e)
}

func retryHeader(w http.ResponseWriter, e *protocol.Error) {
	if s := e.Detail["retry_after"]; s != "" {
		w.Header().Set("Retry-After", s)
	}
}
