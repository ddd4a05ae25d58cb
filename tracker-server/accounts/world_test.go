package accounts

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/owner"
	"neuron/internal/signed"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/ledger/keys"
	"neuron/tracker-server/ledger/owners"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

var t0 = time.Unix(1_800_000_000, 0).UTC().Truncate(24 * time.Hour)

const (
	mib      = 1 << 20
	starting = 1000 * 1_000_000
)

// world is the API over a real database and a real HTTP server, with one clock.
// Owners have keys from 101 on, nodes from 1.
type world struct {
	t   testing.TB
	l   *ledger.Ledger
	db  *sqlite.Store
	h   *Handler
	url string
	log *bytes.Buffer

	mu    sync.Mutex
	now   time.Time
	names map[protocol.NodeID]NodeInfo
	owned []string
}

func newWorld(t testing.TB) *world {
	t.Helper()
	w := &world{t: t, now: t0, names: map[protocol.NodeID]NodeInfo{}, log: new(bytes.Buffer)}
	db, err := sqlite.Open(t.Context(), filepath.Join(t.TempDir(), "t.db"))
	w.must(err)
	w.db = db
	t.Cleanup(func() { db.Close() })
	w.l, err = ledger.Open(t.Context(), db, ledger.Config{Now: w.clock, StartingCredit: starting})
	w.must(err)
	prices := ledger.DefaultPrices(t0)
	w.must(w.l.AddPrices(t.Context(), prices))
	w.h = New(Options{
		Ledger: w.l, Keys: keys.New(w.l, w.clock), Owners: owners.New(w.l, w.clock), Tracker: pub(200), Now: w.clock,
		Logger: slog.New(slog.NewTextHandler(w.log, nil)),
		Node: func(n protocol.NodeID) (NodeInfo, bool) {
			w.mu.Lock()
			defer w.mu.Unlock()
			info, ok := w.names[n]
			return info, ok
		},
		ModelName: func(protocol.ModelID) string { return "=a model" },
		Owned: func(ctx context.Context, n protocol.NodeID) {
			o, err := w.h.o.Owners.Owner(ctx, n)
			if err != nil && !isCode(err, protocol.CodeNotFound) {
				t.Error(err)
			}
			w.mu.Lock()
			defer w.mu.Unlock()
			w.owned = append(w.owned, n.Short()+" "+string(o.Owner))
		},
	})
	mux := http.NewServeMux()
	w.h.Mount(mux)
	srv := httptest.NewServer(mux)
	t.Cleanup(srv.Close)
	w.url = srv.URL
	return w
}

func (w *world) clock() time.Time {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.now
}

func (w *world) pass(d time.Duration) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.now = w.now.Add(d)
}

func (w *world) must(err error) {
	w.t.Helper()
	if err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) code(err error, c protocol.Code) {
	w.t.Helper()
	if !errors.Is(err, &protocol.Error{Code: c}) {
		w.t.Errorf("got %v, want code %s", err, c)
	}
}

func key(i int) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i)}, 32))
}

func pub(i int) ed25519.PublicKey { return key(i).Public().(ed25519.PublicKey) }

func node(i int) protocol.NodeID { return protocol.NodeIDOf(pub(i)) }

func account(i int) store.AccountID { return ledger.OwnerAccount(pub(i)) }

// do sends a request that key i signs.
func (w *world) do(i int, method, path string, in, out any) error {
	w.t.Helper()
	c := &signed.Client{HTTP: http.DefaultClient, Key: key(i), Audience: pub(200), Now: w.clock}
	return c.Do(w.t.Context(), method, w.url+path, in, out)
}

// plain sends a request with headers as they are, and reads the answer.
func (w *world) plain(method, path, body string, headers ...string) (int, string, http.Header) {
	w.t.Helper()
	req, err := http.NewRequestWithContext(w.t.Context(), method, w.url+path, strings.NewReader(body))
	w.must(err)
	if body != "" {
		req.Header.Set("Content-Type", "application/json")
	}
	for i := 0; i < len(headers); i += 2 {
		req.Header.Set(headers[i], headers[i+1])
	}
	res, err := http.DefaultClient.Do(req)
	w.must(err)
	defer res.Body.Close()
	raw, err := io.ReadAll(res.Body)
	w.must(err)
	return res.StatusCode, string(raw), res.Header
}

func binding(n, by int, at time.Time) *owner.Binding {
	b := owner.NewBinding(pub(n), pub(by), at)
	b.SignNode(key(n))
	b.SignOwner(key(by))
	return b
}

// bind gives node n to owner by.
func (w *world) bind(n, by int) {
	w.t.Helper()
	var out boundAnswer
	w.must(w.do(n, "POST", "/v1/owners/bind", binding(n, by, w.clock()), &out))
	if out.Account != account(by) || out.Node != node(n) {
		w.t.Fatalf("%+v", out)
	}
}

func (w *world) account(i int) accountView {
	w.t.Helper()
	var out accountView
	w.must(w.do(i, "GET", "/v1/account", nil, &out))
	return out
}

var model = protocol.ModelID(strings.Repeat("ab", 32))

// session runs a session that account pays for, over 1 MiB on node n: 10
// positions decoded of 20 reserved.
func (w *world) session(i int, payer store.AccountID, keyID string, n int) error {
	w.t.Helper()
	ctx := context.Background()
	s := protocol.SessionID(fmt.Sprintf("s-%d", i))
	_, err := w.l.Reserve(ctx, ledger.Reserve{
		Session: s, Account: payer, Key: keyID, Model: model, Decode: 20, Expires: w.clock().Add(time.Hour),
		Hops: []ledger.ReserveHop{{Node: node(n), Use: protocol.Range{First: 0, Last: 4}, Bytes: mib}},
	})
	if err != nil {
		return err
	}
	res, err := w.l.Submit(ctx, []ledger.Work{{Session: s, Node: node(n), Bytes: mib, Last: 10, Decode: 10, BothSigned: true}})
	w.must(err)
	if res[0].Status != ledger.StatusPosted {
		w.t.Fatalf("%+v", res)
	}
	w.must(w.l.Finish(ctx, ledger.End{Session: s, Prefill: 0, Decode: 10}))
	return nil
}

var keysLimits = keys.Limits{}

// clientOf makes a client's account with three lines.
func clientOf(w *world) store.AccountID {
	w.t.Helper()
	a, err := w.l.AddClient(w.t.Context(), "client")
	w.must(err)
	for _, ref := range []string{"a", "b", "c"} {
		w.must(w.l.Grant(w.t.Context(), a.ID, ref, 5, ""))
	}
	return a.ID
}
