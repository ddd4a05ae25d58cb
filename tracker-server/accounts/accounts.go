// Package accounts is the tracker's HTTP face of money: prices, who owns which
// node, pairing, balances, statements and API keys, for owners, their nodes and
// clients. docs/protocol/accounts.md is the published form.
//
// The server imports and mounts it. It checks who asks and what they may see;
// the rules of money and keys are in package ledger and below it. It knows no
// websocket and no route.
package accounts

import (
	"context"
	"crypto/ed25519"
	"encoding/json"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/signed"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/ledger/keys"
	"neuron/tracker-server/ledger/owners"
	"neuron/tracker-server/store"
)

// Options configures a Handler. Ledger, Keys, Owners and Tracker are needed.
type Options struct {
	Ledger *ledger.Ledger
	Keys   *keys.Keys
	Owners *owners.Owners
	// Tracker is the tracker's public key: requests are signed for it.
	Tracker ed25519.PublicKey
	Now     func() time.Time // default time.Now
	Logger  *slog.Logger     // default: discard
	// Node tells what is known of a node that is connected, false for others;
	// nil knows none. It must not block.
	Node func(protocol.NodeID) (NodeInfo, bool)
	// ModelName is a model's display name, or ""; nil knows none. It must not
	// block.
	ModelName func(protocol.ModelID) string
	// Owned is told, after the fact and in no certain order, that the owner of a
	// node may be another one now, or nobody; nil wants to know nothing.
	Owned func(context.Context, protocol.NodeID)
}

// NodeInfo is what a connected node said of itself.
type NodeInfo struct {
	Host   string        `json:"host,omitempty"`
	Addr   string        `json:"addr,omitempty"`
	Engine string        `json:"engine,omitempty"`
	Role   protocol.Role `json:"role,omitempty"`
}

// Handler serves the API. It is safe for concurrent use and has no goroutines.
type Handler struct {
	o        Options
	mux      *http.ServeMux
	verifier *signed.Verifier
	exports  exports
	// reading has one place for each statement or list of earnings that is read
	// at one time: they may go over all lines of an account.
	reading  chan struct{}
	readWait time.Duration

	sources limiter // requests of one address
	signers limiter // requests of one key
	binds   limiter // new bindings from one address
}

// New makes a Handler.
func New(o Options) *Handler {
	if o.Now == nil {
		o.Now = time.Now
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Node == nil {
		o.Node = func(protocol.NodeID) (NodeInfo, bool) { return NodeInfo{}, false }
	}
	if o.ModelName == nil {
		o.ModelName = func(protocol.ModelID) string { return "" }
	}
	if o.Owned == nil {
		o.Owned = func(context.Context, protocol.NodeID) {}
	}
	h := &Handler{
		o: o, mux: http.NewServeMux(), reading: make(chan struct{}, maxReading), readWait: 10 * time.Second,
		sources: limiter{now: o.Now, every: 100 * time.Millisecond, burst: 200},
		signers: limiter{now: o.Now, every: 500 * time.Millisecond, burst: 60},
		binds:   limiter{now: o.Now, every: 3 * time.Minute, burst: 20},
	}
	h.verifier = signed.NewVerifier(signed.Options{Audience: o.Tracker, Now: o.Now, Known: h.known})
	for pattern, f := range map[string]func(http.ResponseWriter, *http.Request) error{
		"GET /v1/prices":                    h.prices,
		"POST /v1/owners/bind":              h.bind,
		"POST /v1/owners/release":           h.release,
		"POST /v1/pairing":                  h.startPairing,
		"POST /v1/pairing/lookup":           h.lookup,
		"POST /v1/pairing/offer":            h.offer,
		"POST /v1/pairing/offered":          h.offered,
		"POST /v1/pairing/confirm":          h.confirm,
		"GET /v1/account":                   h.account,
		"GET /v1/account/statement":         h.statement,
		"GET /v1/account/earnings":          h.earnings,
		"GET /v1/account/keys":              h.listKeys,
		"POST /v1/account/keys":             h.createKey,
		"POST /v1/account/keys/{id}/limits": h.setLimits,
		"DELETE /v1/account/keys/{id}":      h.revokeKey,
	} {
		h.mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := f(w, r); err != nil {
				h.writeError(w, r, err)
			}
		})
	}
	return h
}

// Mount adds the API's paths to mux.
func (h *Handler) Mount(mux *http.ServeMux) {
	for _, path := range []string{"/v1/prices", "/v1/owners/", "/v1/pairing", "/v1/pairing/", "/v1/account", "/v1/account/"} {
		mux.Handle(path, h)
	}
}

// answerTime bounds the time of writing an answer; an export moves it.
const answerTime = 30 * time.Second

// ServeHTTP implements http.Handler.
func (h *Handler) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	head := w.Header()
	head.Set("X-Content-Type-Options", "nosniff")
	head.Set("Referrer-Policy", "no-referrer")
	head.Set("Cache-Control", "no-store")
	head.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	// Some writers (in tests) have no deadline; then there is none to set.
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(answerTime))
	if err := h.sources.take(source(r)); err != nil {
		h.writeError(w, r, err)
		return
	}
	if _, pattern := h.mux.Handler(r); pattern == "" {
		h.noSuch(w, r)
		return
	}
	h.mux.ServeHTTP(w, r)
}

// noSuch answers what no pattern matches: another method of a path that is
// served, or another path.
func (h *Handler) noSuch(w http.ResponseWriter, r *http.Request) {
	allow := ""
	for _, m := range []string{http.MethodGet, http.MethodPost, http.MethodDelete} {
		other := r.Clone(r.Context())
		other.Method = m
		if _, pattern := h.mux.Handler(other); pattern != "" {
			if allow != "" {
				allow += ", "
			}
			allow += m
		}
	}
	if allow == "" {
		h.writeError(w, r, protocol.Errorf(protocol.CodeNotFound, "no such page: %.100q", r.URL.Path))
		return
	}
	w.Header().Set("Allow", allow)
	writeJSON(w, http.StatusMethodNotAllowed, protocol.Errorf(protocol.CodeInvalidRequest, "here is served: %s", allow))
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

// writeError answers with a coded error, and logs what is a fault of ours. The
// log has the path without its query; codes and secrets are in neither.
func (h *Handler) writeError(w http.ResponseWriter, r *http.Request, err error) {
	e := protocol.AsError(err)
	if e.Code.HTTPStatus() >= 500 && r.Context().Err() == nil {
		h.o.Logger.Error("answer a request", "method", r.Method, "path", r.URL.Path, "err", err)
	}
	switch e.Code {
	case protocol.CodeRateLimited, protocol.CodeUnavailable:
		after := "5"
		if n, err := strconv.Atoi(e.Detail["retry_after"]); err == nil && n > 0 {
			after = strconv.Itoa(n)
		}
		w.Header().Set("Retry-After", after)
	case protocol.CodeUnauthorized:
		w.Header().Set("WWW-Authenticate", "Neuron, Bearer")
	}
	writeJSON(w, e.Code.HTTPStatus(), e)
}

// known says whether a key belongs to an owner, or to a node that has one.
func (h *Handler) known(r *http.Request, key ed25519.PublicKey) bool {
	_, err := h.callerOf(r.Context(), key)
	return err == nil
}

// prices answers GET /v1/prices.
func (h *Handler) prices(w http.ResponseWriter, r *http.Request) error {
	list, err := h.o.Ledger.Prices(r.Context())
	if err != nil {
		return err
	}
	out := struct {
		Now             int64          `json:"now"` // the version that holds, 0 for none
		Prices          []store.Prices `json:"prices"`
		StartingCredit  store.Credit   `json:"starting_credit"`
		MicrosPerCredit int64          `json:"micros_per_credit"`
	}{Prices: list, StartingCredit: h.o.Ledger.StartingCredit(), MicrosPerCredit: 1_000_000}
	if list == nil {
		out.Prices = []store.Prices{}
	}
	now := h.o.Now()
	for _, p := range list {
		if !p.From.After(now) {
			out.Now = p.Version
		}
	}
	writeJSON(w, http.StatusOK, out)
	return nil
}

// Payer says whose credit a session costs: that of the API key when there is
// one, which also counts a request of the key; else that of the owner of the
// gateway's node; else "", nobody's. keyID is "" without a key. A key that is
// not valid is an error, never nobody. Errors: unauthorized, rate_limited,
// forbidden for an account that is closed.
func Payer(ctx context.Context, k *keys.Keys, o *owners.Owners, driver protocol.NodeID, apiKey string) (account store.AccountID, keyID string, err error) {
	if apiKey != "" {
		key, err := k.Authenticate(ctx, keys.Secret(apiKey))
		if err != nil {
			return "", "", err
		}
		return key.Account, key.ID, nil
	}
	has, err := o.Owner(ctx, driver)
	if isCode(err, protocol.CodeNotFound) {
		return "", "", nil
	}
	return has.Owner, "", err
}
