package program_test

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/json"
	"encoding/pem"
	"errors"
	"net/http"
	"net/http/httptest"
	"net/http/httputil"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"neuron/engine/accounts"
	"neuron/engine/control"
	"neuron/engine/localapi"
	"neuron/engine/ownership/desk"
	"neuron/engine/program"
	"neuron/engine/protocol"
	"neuron/engine/wallet"
	"neuron/internal/owner"
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func dial(t testing.TB, data string) *localapi.Client {
	t.Helper()
	c, err := localapi.Dial(data)
	must(t, err)
	t.Cleanup(c.Close)
	return c
}

// bound waits until the tracker has an owner for the node that o speaks for.
func bound(t testing.TB, o localapi.Owner, by owner.ID) *localapi.OwnerState {
	t.Helper()
	var s *localapi.OwnerState
	eventually(t, "the owner "+by.Short(), func() bool {
		var err error
		s, err = o.Owner(t.Context())
		must(t, err)
		return s.Status == "bound" && s.Tracker == by && s.Wanted == by
	})
	return s
}

func ownKey(t testing.TB, data string) owner.ID {
	t.Helper()
	id, err := wallet.At(data).Owner()
	must(t, err)
	return id
}

// TestOwnerOfSeveralComputers: each computer has an owner key from its first
// start; pairing brings a node and a gateway to one owner, with one balance; a
// key of that owner is made, bounded and revoked; a released node stays away
// from its own key until its person says otherwise.
func TestOwnerOfSeveralComputers(t *testing.T) {
	n := newNetwork(t, guide, "0-4", "4-8")
	ctx := t.Context()
	gatewayData := filepath.Join(n.dir, "gateway")
	a, b := dial(t, n.nodes[0].o.Data), dial(t, n.nodes[1].o.Data)
	alice, bob := ownKey(t, n.nodes[0].o.Data), ownKey(t, n.nodes[1].o.Data)
	bound(t, a, alice)
	bound(t, b, bob)

	// Pairing: a node by the local API, a running gateway by its files.
	g, err := desk.Visit(gatewayData, "", "")
	must(t, err)
	defer g.Close()
	bound(t, g, ownKey(t, gatewayData))
	for _, x := range []struct {
		api  localapi.Owner
		node protocol.NodeID
	}{{b, n.nodes[1].ID()}, {g, bound(t, g, ownKey(t, gatewayData)).Node}} {
		p, err := a.StartPairing(ctx, false)
		must(t, err)
		if by, err := x.api.LookupCode(ctx, p.Code); err != nil || by != alice {
			t.Fatalf("the code is of %s, %v", by, err)
		}
		_, err = x.api.Join(ctx, "ABCD2345", "")
		if code(err) != protocol.CodeNotFound {
			t.Errorf("a wrong code: %v", err)
		}
		by, err := x.api.Join(ctx, strings.ToLower(p.Code), alice)
		must(t, err)
		if s, err := x.api.Owner(ctx); err != nil || by != alice || s.Status != "waiting" || s.Wanted != alice || s.Tracker == alice {
			t.Errorf("%+v, %v", s, err)
		}
		p, err = a.Pairing(ctx)
		must(t, err)
		if p.Offer == nil || p.Offer.Node != x.node {
			t.Fatalf("%+v", p.Offer)
		}
		must(t, a.ConfirmPairing(ctx, p.Offer.Node))
		bound(t, x.api, alice)
	}
	acc, err := a.Account(ctx)
	must(t, err)
	if acc.As != "owner" || acc.Account != string(alice) || len(acc.Nodes) != 3 {
		t.Errorf("%+v", acc)
	}
	for _, o := range []localapi.Owner{b, g} {
		same, err := o.Account(ctx)
		must(t, err)
		if same.As != "node" || same.Account != acc.Account || same.Balances["available"] != acc.Balances["available"] {
			t.Errorf("not one balance: %+v", same)
		}
	}

	// Keys are the owner key's.
	k, err := a.CreateKey(ctx, "script", accounts.Limits{Budget: 5_000_000, PerMinute: 7})
	must(t, err)
	if accounts.CheckKey(k.Secret) != nil || !strings.HasPrefix(k.Secret, k.Key.ID) || k.Key.Limits.Budget != 5_000_000 {
		t.Errorf("%+v", k.Key)
	}
	if got, err := a.LimitKey(ctx, k.Key.ID, accounts.Limits{BudgetDay: 3}); err != nil || got.Limits != (accounts.Limits{BudgetDay: 3}) {
		t.Errorf("%+v, %v", got, err)
	}
	if got, err := a.RevokeKey(ctx, k.Key.ID); err != nil || got.Revoked == nil {
		t.Errorf("%+v, %v", got, err)
	}
	if list, err := a.Keys(ctx); err != nil || len(list) != 1 || list[0].Name != "script" {
		t.Errorf("%+v, %v", list, err)
	}
	if _, err := b.Keys(ctx); code(err) != protocol.CodeForbidden {
		t.Errorf("a paired computer has the owner's keys: %v", err)
	}
	prices, err := b.Prices(ctx)
	must(t, err)
	if prices.MicrosPerCredit != 1_000_000 {
		t.Errorf("%+v", prices)
	}
	_, err = a.Earnings(ctx, accounts.Query{Since: "2026-01-01"})
	must(t, err)
	if raw, err := b.EarningsCSV(ctx, accounts.Query{}); err != nil || !strings.HasPrefix(string(raw), "day,") {
		t.Errorf("%q, %v", raw, err)
	}
	if _, err := a.Statement(ctx, accounts.Query{Book: "gold"}); code(err) != protocol.CodeInvalidRequest {
		t.Errorf("a book that is none: %v", err)
	}

	// Released: it shows, also after a restart, and nothing is bound by itself.
	node, err := a.Release(ctx, string(n.nodes[1].ID())[:12])
	must(t, err)
	if node != n.nodes[1].ID() {
		t.Errorf("released %s", node)
	}
	n.nodes[1].end(t)
	n.startNode(program.NodeOptions{Data: n.nodes[1].o.Data, Layers: "4-8"})
	b = dial(t, n.nodes[1].o.Data)
	eventually(t, "the release to show", func() bool {
		s, err := b.Status(ctx)
		must(t, err)
		return s.Owner.Status == "released" && s.Owner.Tracker == "" && len(s.Health) > 0 && s.Sharing
	})
	must(t, b.Leave(ctx))
	bound(t, b, bob)

	// The key itself is taken to the other computer.
	sealed, err := a.Export(ctx, "correct horse")
	must(t, err)
	_, err = b.Recover(ctx, localapi.Recover{File: string(sealed), Passphrase: "correct horse"})
	if code(err) != protocol.CodeConflict {
		t.Errorf("another key was replaced: %v", err)
	}
	got, err := b.Recover(ctx, localapi.Recover{File: string(sealed), Passphrase: "correct horse", Replace: true})
	must(t, err)
	if got.Owner != alice || !got.Changed || got.Saved == "" {
		t.Errorf("%+v", got)
	}
	bound(t, b, alice)
	if _, err := b.Keys(ctx); err != nil {
		t.Errorf("with the key: %v", err)
	}
}

// lossy passes requests on to the tracker, and loses the answer of the next
// request to a path after the tracker has done it.
type lossy struct {
	*httptest.Server
	mu   sync.Mutex
	path string // guarded by mu
	hits int    // guarded by mu
}

func newLossy(t *testing.T, to string) *lossy {
	t.Helper()
	u, err := url.Parse(to)
	must(t, err)
	l := new(lossy)
	proxy := httputil.NewSingleHostReverseProxy(u)
	proxy.ModifyResponse = func(r *http.Response) error {
		l.mu.Lock()
		defer l.mu.Unlock()
		if l.path != "" && strings.HasSuffix(r.Request.URL.Path, l.path) {
			l.path = ""
			l.hits++
			return errors.New("lost")
		}
		return nil
	}
	proxy.ErrorHandler = func(http.ResponseWriter, *http.Request, error) { panic(http.ErrAbortHandler) }
	l.Server = httptest.NewServer(proxy)
	t.Cleanup(l.Close)
	return l
}

func (l *lossy) lose(path string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.path = path
}

// TestPairingSurvivesKills: every step is done by a program that ends after it,
// and every answer of the tracker is lost once.
func TestPairingSurvivesKills(t *testing.T) {
	n := &network{t: t, dir: t.TempDir(), trackerAddr: "127.0.0.1:0", log: testLog(t)}
	n.startTracker()
	l := newLossy(t, n.url)
	raw, err := os.ReadFile(filepath.Join(n.dir, "tracker", "tracker.key"))
	must(t, err)
	for _, path := range []string{"/owners/bind", "/v1/pairing", "/pairing/lookup", "/pairing/offer", "/pairing/offered", "/pairing/confirm", "/v1/account"} {
		t.Run(strings.ReplaceAll(path[1:], "/", " "), func(t *testing.T) {
			ctx := t.Context()
			var dirs [2]string
			for i := range dirs {
				dirs[i] = t.TempDir()
				_, err := wallet.Open(dirs[i])
				must(t, err)
				must(t, control.NewFileTrust(dirs[i]).Remember("ws"+strings.TrimPrefix(l.URL, "http")+"/v1/nodes", trackerPublic(t, raw)))
			}
			// step runs f with a program of its own until it succeeds.
			step := func(i int, f func(localapi.Owner) error) {
				t.Helper()
				for try := 0; ; try++ {
					d, err := desk.Visit(dirs[i], "", l.URL)
					must(t, err)
					err = f(d)
					d.Close()
					switch {
					case err == nil:
						return
					case try == 3 || code(err) != protocol.CodeUnavailable:
						t.Fatal(err)
					}
				}
			}
			alice := ownKey(t, dirs[0])
			l.lose(path)
			var open *localapi.Pairing
			step(0, func(o localapi.Owner) (err error) { open, err = o.StartPairing(ctx, false); return err })
			first := open.Code
			step(0, func(o localapi.Owner) (err error) { open, err = o.StartPairing(ctx, false); return err })
			if open.Code != first {
				t.Error("the code is forgotten")
			}
			step(1, func(o localapi.Owner) error { _, err := o.Join(ctx, open.Code, alice); return err })
			step(1, func(o localapi.Owner) error { _, err := o.Join(ctx, open.Code, alice); return err })
			step(0, func(o localapi.Owner) (err error) { open, err = o.Pairing(ctx); return err })
			if open.Offer == nil {
				t.Fatal("the offer is gone")
			}
			step(0, func(o localapi.Owner) error {
				err := o.ConfirmPairing(ctx, open.Offer.Node)
				if code(err) == protocol.CodeNotFound {
					return nil // the try before was it
				}
				return err
			})
			step(1, func(o localapi.Owner) error {
				s, err := o.Owner(ctx)
				if err == nil && s.Error != nil {
					return s.Error
				}
				if err == nil && (s.Status != "bound" || s.Tracker != alice) {
					t.Errorf("%+v", s)
				}
				return err
			})
			step(0, func(o localapi.Owner) error {
				acc, err := o.Account(ctx)
				if err == nil && len(acc.Nodes) != 2 {
					t.Errorf("%+v", acc)
				}
				return err
			})
			l.mu.Lock()
			defer l.mu.Unlock()
			if l.hits == 0 {
				t.Errorf("no answer of %s was lost", path)
			}
			l.hits = 0
		})
	}
}

// TestPrivateAsAClientAsks: the policy of a client's request is that of the
// route.
func TestPrivateAsAClientAsks(t *testing.T) {
	n := newNetwork(t, guide, "0-8")
	ctx := t.Context()
	e := n.gateway.Endpoint()
	ask := func() (int, *protocol.Error) {
		t.Helper()
		body := `{"model":"` + guideName + `","max_tokens":3,"messages":[{"role":"user","content":"Hi"}],"neuron":{"policy":"private"}}`
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, e.URL+"/chat/completions", strings.NewReader(body))
		must(t, err)
		req.Header.Set("Authorization", "Bearer "+e.Key)
		req.Header.Set("Content-Type", "application/json")
		resp, err := http.DefaultClient.Do(req)
		must(t, err)
		defer resp.Body.Close()
		var out struct {
			Error *protocol.Error `json:"error"`
		}
		if resp.StatusCode != http.StatusOK {
			must(t, json.NewDecoder(resp.Body).Decode(&out))
		}
		return resp.StatusCode, out.Error
	}
	// The node is another owner's than the gateway.
	if status, err := ask(); status == http.StatusOK || err == nil || err.Code != protocol.CodeNoRoute && err.Code != protocol.CodeForbidden {
		t.Errorf("%d %v", status, err)
	}
	a := dial(t, n.nodes[0].o.Data)
	bound(t, a, ownKey(t, n.nodes[0].o.Data))
	g, err := desk.Visit(filepath.Join(n.dir, "gateway"), "", "")
	must(t, err)
	defer g.Close()
	p, err := a.StartPairing(ctx, false)
	must(t, err)
	_, err = g.Join(ctx, p.Code, "")
	must(t, err)
	node := came(t, a)
	must(t, a.ConfirmPairing(ctx, node))
	eventually(t, "a private route", func() bool { status, _ := ask(); return status == http.StatusOK })
}

// came is the node that came for the open code.
func came(t testing.TB, a localapi.Owner) protocol.NodeID {
	t.Helper()
	p, err := a.Pairing(context.Background())
	must(t, err)
	if p.Offer == nil {
		t.Fatal("nobody came")
	}
	return p.Offer.Node
}

// trackerPublic is the public half of a tracker's key file.
func trackerPublic(t testing.TB, raw []byte) ed25519.PublicKey {
	t.Helper()
	block, _ := pem.Decode(raw)
	if block == nil {
		t.Fatal("no key")
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	must(t, err)
	return k.(ed25519.PrivateKey).Public().(ed25519.PublicKey)
}
