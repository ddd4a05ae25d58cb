// Package proofs shows to everybody what the tracker holds against nodes:
// proofs of faults, and the receipts of a session, from which anybody can
// compute what it pays. It serves HTTP and keeps nothing; package receipts
// finds the faults. Only the tracker's server imports it.
package proofs

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"strconv"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// Store is what the handlers read; package store says what the methods do.
type Store interface {
	Proofs(ctx context.Context, before int64, limit int) ([]store.Proof, error)
	Proof(ctx context.Context, id protocol.Hash) (store.Proof, error)
	Receipts(ctx context.Context, id protocol.SessionID) ([][]byte, error)
}

// Options of Mount; all are required.
type Options struct {
	Store Store
	// Known returns nil for a session that the tracker remembers, else a coded
	// error.
	Known  func(ctx context.Context, id protocol.SessionID) error
	Logger *slog.Logger
}

// handler serves the paths.
type handler struct{ o Options }

// Mount adds the paths to mux.
func Mount(mux *http.ServeMux, o Options) {
	h := handler{o}
	mux.HandleFunc("GET /v1/proofs", h.list)
	mux.HandleFunc("GET /v1/proofs/{id}", h.file)
	mux.HandleFunc("GET /v1/sessions/{id}/receipts", h.receipts)
}

// View is a proof in the list.
type View struct {
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

func viewOf(p *store.Proof) View {
	v := View{
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
func (h handler) list(w http.ResponseWriter, r *http.Request) {
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
	found, err := h.o.Store.Proofs(r.Context(), before, int(limit)+1)
	if err != nil {
		h.fail(w, err)
		return
	}
	out := struct {
		Proofs []View `json:"proofs"`
		// Next is the before of the following page, absent after the last one.
		Next int64 `json:"next,omitempty"`
	}{Proofs: []View{}}
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
	headers(w)
	_, _ = w.Write(append(raw, '\n')) // the reader may be gone
}

// file answers GET /v1/proofs/{id} with exactly the bytes that verify.
func (h handler) file(w http.ResponseWriter, r *http.Request) {
	var id protocol.Hash
	if err := id.UnmarshalText([]byte(r.PathValue("id"))); err != nil {
		h.fail(w, err)
		return
	}
	p, err := h.o.Store.Proof(r.Context(), id)
	if err != nil {
		h.fail(w, err)
		return
	}
	headers(w)
	w.Header().Set("Content-Disposition", `attachment; filename="neuron-proof-`+id.String()[:16]+`.json"`)
	w.Header().Set("Content-Length", strconv.Itoa(len(p.File)))
	_, _ = w.Write(p.File) // the reader may be gone
}

func headers(w http.ResponseWriter) {
	header := w.Header()
	header.Set("Content-Type", "application/json; charset=utf-8")
	header.Set("X-Content-Type-Options", "nosniff")
	header.Set("Referrer-Policy", "no-referrer")
	header.Set("Cache-Control", "no-store")
	header.Set("Content-Security-Policy", "default-src 'none'; frame-ancestors 'none'")
	_ = http.NewResponseController(w).SetWriteDeadline(time.Now().Add(30 * time.Second)) // none in tests without a connection
}

func (h handler) fail(w http.ResponseWriter, err error) {
	coded := protocol.AsError(err)
	if coded.Code == protocol.CodeInternal {
		h.o.Logger.Error("show proofs", "err", err)
	}
	raw, err := json.MarshalIndent(coded, "", "  ")
	if err != nil {
		raw = []byte(`{"code":"internal","message":"internal error"}`)
	}
	headers(w)
	w.WriteHeader(coded.Code.HTTPStatus())
	_, _ = w.Write(append(raw, '\n')) // the reader may be gone
}

// receipts answers GET /v1/sessions/{id}/receipts: what was accepted of a
// session, in the form that nodes sent, so that anybody can compute what it
// pays. It is public as proofs are, and holds no text: receipts are hashes,
// positions and signatures. They are there until they are pruned.
func (h handler) receipts(w http.ResponseWriter, r *http.Request) {
	id, err := protocol.ParseSessionID(r.PathValue("id"))
	if err == nil {
		err = h.o.Known(r.Context(), id)
	}
	var list [][]byte
	if err == nil {
		list, err = h.o.Store.Receipts(r.Context(), id)
	}
	var raw []byte
	if err == nil {
		raw, err = json.Marshal(protocol.Receipts{Receipts: append([][]byte{}, list...)})
	}
	if err != nil {
		h.fail(w, err)
		return
	}
	headers(w)
	_, _ = w.Write(append(raw, '\n')) // the reader may be gone
}
