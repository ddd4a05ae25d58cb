// Package operator is the area of the person who runs the tracker: approve,
// drain and ban nodes, publish, accounts, keys, prices, and a log of all that.
// Pages under /operator/ work without JavaScript; /v1/operator/ is the same for
// programs, and both call the same operations.
//
// The server imports it and implements Network; the command line imports it for
// the key and for the forms of the answers. It knows no websocket, and keeps
// nothing but the sessions of browsers.
package operator

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net/http"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/audit/numeric/desk"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/ledger/keys"
	"neuron/tracker-server/ledger/owners"
	"neuron/tracker-server/receipts"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/standing"
	"neuron/tracker-server/store"
)

// Network is the running tracker, as its operator sees and changes it. Methods
// are safe for concurrent use.
type Network interface {
	// Nodes lists the connections that count now.
	Nodes() []registry.NodeView
	// Policy says whether new nodes have to be approved.
	Policy() standing.Policy
	// Standing is the record of a subject, Standings lists all that say something.
	Standing(s standing.Subject) standing.Record
	Standings() []standing.Record
	// SetStanding makes a change with all that follows from it, stores it, and
	// logs it. It reports false when everything was so already. Errors:
	// invalid_request, and those of the store.
	SetStanding(ctx context.Context, c standing.Change) (changed bool, err error)
	// Catalog lists the published models by name.
	Catalog() []protocol.CatalogModel
	// ReloadCatalog shows at once what was published or taken out.
	ReloadCatalog(ctx context.Context)
	// Settings lists the settings in force.
	Settings() []Setting
}

// Published is what became of a model.
type Published struct {
	Model   protocol.ModelID `json:"model"`
	Name    string           `json:"name"`
	Changed bool             `json:"changed"` // false: exactly this was there
}

// Proof is a proven fault of a node.
type Proof struct {
	ID    string          `json:"id"` // the hash of its file; freezes are named by it
	Kind  string          `json:"kind"`
	At    time.Time       `json:"at"`
	Text  string          `json:"text"`
	Owner store.AccountID `json:"owner,omitempty"` // whose credit it holds
	// Lifted ends what follows from it, Forfeited takes the owner's credit.
	Lifted    time.Time `json:"lifted,omitzero"`
	Forfeited time.Time `json:"forfeited,omitzero"`
	Note      string    `json:"note,omitempty"`
}

// Setting is one setting in force. Values hold no secrets.
type Setting struct {
	Name  string `json:"name"`
	Value string `json:"value"`
	About string `json:"about"`
}

// Config is what an Area stands on. All fields but Announce, SecureHost and
// PublishFrom are needed.
type Config struct {
	Network Network
	Store   store.Store
	Ledger  *ledger.Ledger
	Keys    *keys.Keys
	Owners  *owners.Owners
	Faults  *receipts.Faults
	// Audits reads what numeric audits found; see desk.Desk.Page.
	Audits func(ctx context.Context, before time.Time, limit int) (*desk.Page, error)
	// Signer signs what is published: the tracker's own key. Announce is what
	// torrents carry, nil when nobody knows how others reach the tracker.
	Signer   ed25519.PrivateKey
	Announce []string
	Logger   *slog.Logger
	Now      func() time.Time
	// KeyPath is the file with the operator's key.
	KeyPath string
	// SecureHost is the host of the tracker's https URL behind a proxy that does
	// TLS, or "": its cookies are for TLS only.
	SecureHost string
	// PublishFrom are folders out of which the pages may publish.
	PublishFrom []string
}

// Area serves pages and API. Close ends what it runs.
type Area struct {
	cfg    Config
	mux    *http.ServeMux
	cross  *http.CrossOriginProtection
	logins logins
	tries  tries

	ctx    context.Context // ends with Close
	cancel context.CancelFunc
	wg     sync.WaitGroup // the publishing goroutine

	mu     sync.Mutex
	closed bool
	job    *job // the newest publishing, or nil
}

// New makes an area. Nothing runs until somebody publishes.
func New(cfg Config) *Area {
	a := &Area{
		cfg: cfg, mux: http.NewServeMux(), cross: http.NewCrossOriginProtection(),
		logins: logins{now: cfg.Now, open: make(map[[32]byte]*session)}, tries: tries{now: cfg.Now},
	}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	a.routes()
	return a
}

// Close cancels a publishing that runs and waits for it.
func (a *Area) Close() {
	a.mu.Lock()
	a.closed = true
	a.mu.Unlock()
	a.cancel()
	a.wg.Wait()
}

// ServeHTTP serves /operator/ and /v1/operator/.
func (a *Area) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Referrer-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	// Some writers (in tests) have no deadline; then there is none to set.
	rc := http.NewResponseController(w)
	_ = rc.SetReadDeadline(time.Now().Add(30 * time.Second))
	_ = rc.SetWriteDeadline(time.Now().Add(60 * time.Second))
	a.mux.ServeHTTP(w, r)
}

// deed is something that the operator does besides changing a standing.
type deed struct {
	by, action, subject, reason, detail string
}

// do logs a deed, does it, and logs its failure. What cannot be logged is not
// done.
func (a *Area) do(ctx context.Context, d deed, f func() error) error {
	if _, err := a.cfg.Store.AppendLog(ctx, a.entry(d)); err != nil {
		return err
	}
	a.cfg.Logger.Info("operator", "by", d.by, "action", d.action, "subject", d.subject)
	err := f()
	if err != nil {
		a.failed(ctx, d, err)
	}
	return err
}

func (a *Area) entry(d deed) store.LogEntry {
	return store.LogEntry{At: a.cfg.Now(), By: d.by, Action: d.action, Subject: d.subject, Reason: d.reason, Detail: d.detail}
}

// failed logs that a deed has failed. That the log cannot say so is the lesser
// trouble, and the request may be over already.
func (a *Area) failed(ctx context.Context, d deed, err error) {
	a.cfg.Logger.Warn("operator", "by", d.by, "action", d.action, "subject", d.subject, "err", err)
	e := a.entry(d)
	e.Failed = string(protocol.AsError(err).Code)
	if _, lerr := a.cfg.Store.AppendLog(context.WithoutCancel(ctx), e); lerr != nil {
		a.cfg.Logger.Error("write the operator's log", "action", d.action, "err", lerr)
	}
}
