package server

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"neuron/engine/protocol"
	"neuron/tracker-server/audit"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/receipts"
	"neuron/tracker-server/store"
)

// openReceipts begins to take receipts, and puts proven faults into force again.
// The ledger is open.
func (c *core) openReceipts(ctx context.Context) error {
	judged := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "neuron_tracker_receipts_total", Help: "Receipts, by answer and error code."}, []string{"status", "code"})
	proven := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "neuron_tracker_proofs_total", Help: "New proofs of faults, by kind."}, []string{"kind"})
	works := prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "neuron_tracker_works_total", Help: "Work of receipts that was handed to the ledger, by result."}, []string{"result"})
	credit := prometheus.NewCounter(prometheus.CounterOpts{
		Name: "neuron_tracker_credit_posted_total", Help: "Credits posted to owners for receipts."})
	c.metrics.registry.MustRegister(judged, proven, works, credit)
	in, err := receipts.Open(ctx, receipts.Config{
		Store: c.store, Ledger: c.ledger, Now: c.o.Now, Logger: c.o.Logger,
		Bar: func(id protocol.NodeID, why string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.reg.Bar(id, why)
		},
		Hooks: receipts.Hooks{
			Judged: func(s protocol.ReceiptStatus, code protocol.Code) {
				judged.WithLabelValues(string(s), string(code)).Inc()
			},
			Proven: func(k audit.FaultKind) { proven.WithLabelValues(string(k)).Inc() },
			Posted: func(s ledger.Status, amount store.Credit) {
				works.WithLabelValues(string(s)).Inc()
				if s == ledger.StatusPosted {
					credit.Add(float64(amount) / 1e6)
					c.recorder.Credit(int64(amount))
				}
			},
		},
	})
	c.receipts = in
	return err
}

// onReceipts judges, pays and stores what a node or a driver sends, and answers
// with a verdict for each. The connection waits meanwhile: it cannot send faster
// than the disk takes.
func (c *core) onReceipts(ctx context.Context, p peer, e *protocol.Envelope) error {
	m, err := protocol.Unpack[protocol.Receipts](e)
	if err != nil {
		return err
	}
	if err := m.Check(); err != nil {
		return err
	}
	c.mu.Lock()
	err = c.currentLocked(p)
	c.mu.Unlock()
	if err != nil {
		return err
	}
	reply, err := protocol.Pack(protocol.MsgReceipts, e.ID, protocol.ReceiptVerdicts{Verdicts: c.receipts.Submit(ctx, p.Node(), m.Receipts)})
	if err != nil {
		return err
	}
	p.Send(reply)
	return nil
}

// pruneReceipts forgets the receipts whose time is over.
func (c *core) pruneReceipts(ctx context.Context) {
	n, err := c.receipts.Prune(ctx)
	switch {
	case err != nil && ctx.Err() == nil:
		c.o.Logger.Error("forget old receipts", "err", err)
	case n > 0:
		c.o.Logger.Info("forgot the receipts of old sessions", "sessions", n)
	}
}

// proofsHandler shows proofs of faults to everybody.
type proofsHandler struct{ *core }

func (h proofsHandler) mount(mux *http.ServeMux) {
	mux.HandleFunc("GET /v1/proofs", h.list)
	mux.HandleFunc("GET /v1/proofs/{id}", h.file)
	mux.HandleFunc("GET /v1/sessions/{id}/receipts", h.receipts)
}

// proofView is a proof in the list.
type proofView struct {
	Proof   protocol.Hash      `json:"proof"`
	Kind    string             `json:"kind"`
	Node    protocol.NodeID    `json:"node"`
	Session protocol.SessionID `json:"session"`
	Hop     int                `json:"hop"`
	Text    string             `json:"text"`
	Found   time.Time          `json:"found"`
	// Lifted is there when the operator let the node in again, Forfeited when
	// its owner's frozen credit went to the house.
	Lifted    *time.Time `json:"lifted,omitempty"`
	Forfeited *time.Time `json:"forfeited,omitempty"`
	Note      string     `json:"note,omitempty"`
}

func viewOf(p *store.Proof) proofView {
	v := proofView{
		Proof: p.ID, Kind: p.Kind, Node: p.Culprit, Session: p.Session, Hop: p.Hop, Text: p.Text, Found: p.Found, Note: p.Note,
	}
	if !p.Lifted.IsZero() {
		v.Lifted = &p.Lifted
	}
	if !p.Forfeited.IsZero() {
		v.Forfeited = &p.Forfeited
	}
	return v
}

// Proofs in one answer, at most and unless asked otherwise.
const (
	maxProofs     = 500
	defaultProofs = 100
)

// list answers GET /v1/proofs[?limit=&before=], the newest first.
func (h proofsHandler) list(w http.ResponseWriter, r *http.Request) {
	number := func(name string, fallback, most int64) (int64, error) {
		text := r.URL.Query().Get(name)
		if text == "" {
			return fallback, nil
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 1 || n > most {
			e := protocol.Errorf(protocol.CodeInvalidRequest, "%s is a number from 1 to %d", name, most)
			e.Param = name
			return 0, e
		}
		return n, nil
	}
	limit, err := number("limit", defaultProofs, maxProofs)
	before, berr := number("before", 0, 1<<62)
	if err = errors.Join(err, berr); err != nil {
		h.fail(w, err)
		return
	}
	found, err := h.store.Proofs(r.Context(), before, int(limit)+1)
	if err != nil {
		h.fail(w, err)
		return
	}
	out := struct {
		Proofs []proofView `json:"proofs"`
		// Next is the before of the following page, absent after the last one.
		Next int64 `json:"next,omitempty"`
	}{Proofs: []proofView{}}
	if len(found) > int(limit) {
		found = found[:limit]
		out.Next = found[limit-1].Num
	}
	for i := range found {
		out.Proofs = append(out.Proofs, viewOf(&found[i]))
	}
	raw, err := json.MarshalIndent(out, "", "  ")
	if err != nil {
		h.fail(w, err)
		return
	}
	proofHeaders(w)
	_, _ = w.Write(append(raw, '\n')) // the reader may be gone
}

// file answers GET /v1/proofs/{id} with exactly the bytes that verify.
func (h proofsHandler) file(w http.ResponseWriter, r *http.Request) {
	var id protocol.Hash
	if err := id.UnmarshalText([]byte(r.PathValue("id"))); err != nil {
		h.fail(w, err)
		return
	}
	p, err := h.store.Proof(r.Context(), id)
	if err != nil {
		h.fail(w, err)
		return
	}
	proofHeaders(w)
	w.Header().Set("Content-Disposition", `attachment; filename="neuron-proof-`+id.String()[:16]+`.json"`)
	w.Header().Set("Content-Length", strconv.Itoa(len(p.File)))
	_, _ = w.Write(p.File) // the reader may be gone
}

func proofHeaders(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(30 * time.Second)) // none in tests without a connection
}

func (h proofsHandler) fail(w http.ResponseWriter, err error) {
	coded := protocol.AsError(err)
	if coded.Code == protocol.CodeInternal {
		h.o.Logger.Error("show proofs", "err", err)
	}
	raw, err := json.MarshalIndent(coded, "", "  ")
	if err != nil {
		raw = []byte(`{"code":"internal","message":"internal error"}`)
	}
	proofHeaders(w)
	w.WriteHeader(coded.Code.HTTPStatus())
	_, _ = w.Write(append(raw, '\n')) // the reader may be gone
}
