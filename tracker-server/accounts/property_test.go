package accounts

import (
	"bytes"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"net/http"
	"slices"
	"strings"
	"testing"
	"time"

	"neuron/internal/owner"
	"neuron/internal/signed"
	"neuron/tracker-server/ledger/keys"
	"neuron/tracker-server/store"
)

// victim is all there is of B: balances, nodes, keys and what they spent.
func (w *world) victim(id store.AccountID) string {
	w.t.Helper()
	var out struct {
		Account  store.Account
		Balances store.Balances
		Nodes    []store.NodeOwner
		Keys     []keys.Usage
		Lines    int
	}
	ctx := w.t.Context()
	w.must(w.l.View(ctx, func(v store.LedgerView) (err error) {
		if out.Account, err = v.Account(id); err != nil {
			return err
		}
		if out.Balances, err = v.Balances(id); err != nil {
			return err
		}
		out.Nodes, err = v.NodesOf(id)
		return err
	}))
	var err error
	out.Keys, err = w.h.o.Keys.Usages(ctx, id)
	w.must(err)
	page, err := w.l.Statement(ctx, store.LineQuery{Account: id}, "", 1000)
	w.must(err)
	out.Lines = len(page.Items)
	raw, err := json.Marshal(out)
	w.must(err)
	return string(raw)
}

// TestNobodyElsesMoney: whatever A sends, with the keys of an owner, two nodes
// and a stranger, API keys, B's ids, codes and old messages, B's money does not
// change, and no answer shows any of it.
func TestNobodyElsesMoney(t *testing.T) {
	t.Parallel()
	for seed := range uint64(2) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			nobodyElsesMoney(t, rand.New(rand.NewPCG(seed, 7)))
		})
	}
}

func nobodyElsesMoney(t *testing.T, random *rand.Rand) {
	w := newWorld(t)
	ctx := t.Context()
	const a, b = 101, 102
	// B: node 3 bound at t0, 4 bound and released, keys, notes and lines.
	w.bind(1, a)
	w.bind(3, b)
	w.bind(4, b)
	old := binding(4, b, t0)
	rel := owner.SignRelease(pub(4), pub(b), t0.Add(time.Second), key(b))
	w.pass(2 * time.Second)
	w.must(w.do(b, "POST", "/v1/owners/release", rel, nil))
	w.must(w.l.Grant(ctx, account(b), "x", 123_456_789_123, "zebra note"))
	w.must(w.session(1, account(b), "", 3))
	_, bk, err := w.h.o.Keys.Create(ctx, account(b), "zebra key", keys.Limits{Budget: 1e9})
	w.must(err)
	secretA, ak, err := w.h.o.Keys.Create(ctx, account(a), "mine", keys.Limits{})
	w.must(err)
	// B's messages, which A has seen on their way.
	var seen []*http.Request
	record := func(method, path, body string) {
		req, err := http.NewRequest(method, w.url+path, strings.NewReader(body))
		w.must(err)
		req.Header.Set("Content-Type", "application/json")
		signed.SignAt(req, []byte(body), key(b), pub(200), w.clock())
		seen = append(seen, req)
		status, answer, _ := w.plain(method, path, body, "Authorization", req.Header.Get("Authorization"))
		if status >= 300 {
			t.Fatal(status, answer)
		}
	}
	record("GET", "/v1/account", "")
	record("POST", "/v1/account/keys", `{"name":"zebra two"}`)
	record("GET", "/v1/account/statement?limit=5", "")
	var pairing codeBody
	w.must(w.do(b, "POST", "/v1/pairing", nil, &struct{ Code *string }{&pairing.Code}))
	before := w.victim(account(b))
	// What only B may see; A sends none of it.
	secrets := []string{"zebra", "123456.789", "124456", string(account(b)), "s-1"}

	pick := func(list ...string) string { return list[random.IntN(len(list))] }
	signer := func() int { return []int{a, 1, 2, 9}[random.IntN(4)] }
	keyIDs := []string{bk.ID, ak.ID, "nk-aaaaaaaa", "%2e%2e", ""}
	send := func(method, path string, in any, headers ...string) (status int, answer string) {
		body := ""
		if in != nil {
			raw, err := json.Marshal(in)
			w.must(err)
			body = string(raw)
		}
		req, err := http.NewRequest(method, w.url+path, bytes.NewReader([]byte(body)))
		if err != nil {
			return 0, ""
		}
		if len(headers) == 0 {
			signed.SignAt(req, []byte(body), key(signer()), pub(200), w.clock())
			headers = []string{"Authorization", req.Header.Get("Authorization")}
		}
		status, answer, _ = w.plain(method, path, body, headers...)
		return status, answer
	}
	statuses := map[int]int{}
	for step := range 250 {
		w.pass(5 * time.Second)
		var status int
		var answer, what string
		mayTell := false
		now := w.clock()
		switch random.IntN(12) {
		case 0:
			what = pick("/v1/account", "/v1/account/statement", "/v1/account/earnings", "/v1/account/keys", "/v1/account/statement?format=csv") +
				pick("", "?account="+string(account(a)), "?book=available", "?limit=1000")
			status, answer = send("GET", what, nil)
		case 1:
			what = "bearer"
			status, answer = send("GET", pick("/v1/account", "/v1/account/statement", "/v1/account/keys"), nil, "Authorization",
				"Bearer "+pick(secretA.Reveal(), bk.ID+secretA.Reveal()[len(ak.ID):], bk.ID, ""))
		case 2:
			what = "limits"
			status, answer = send("POST", "/v1/account/keys/"+pick(keyIDs...)+"/limits", map[string]int{"budget": 0, "budget_day": 0, "per_minute": 0})
		case 3:
			what = "revoke"
			status, answer = send("DELETE", "/v1/account/keys/"+pick(keyIDs[:1]...), nil)
		case 4:
			what = "make a key"
			status, answer = send("POST", "/v1/account/keys", newKey{Name: "a key"})
		case 5:
			what = "replay"
			r := seen[random.IntN(len(seen))]
			body := ""
			if r.Method == "POST" {
				body = pick(`{"name":"zebra two"}`, `{"name":"another"}`)
			}
			status, answer, _ = w.plain(r.Method, r.URL.RequestURI(), body, "Authorization", r.Header.Get("Authorization"))
			if status != http.StatusUnauthorized {
				t.Fatalf("step %d: a replay: %d %s", step, status, answer)
			}
		case 6:
			what, mayTell = "bind", true
			bound := []*owner.Binding{old, binding(3, b, t0), binding(2, a, now), binding(3, a, now), binding(2, b, now)}[random.IntN(5)]
			switch {
			case bound.Node() == node(3) && bound.At != t0.Unix(): // without B's node
				bound.NodeSig = ed25519Zero(random)
			case bound.Node() == node(2) && bound.Owner() == owner.ID(account(b)): // without B
				bound.OwnerSig = pickSig(random, bound)
			}
			status, answer = send("POST", "/v1/owners/bind", bound)
		case 7:
			what = "release"
			forged := owner.SignRelease(pub(3), pub(b), now, key(signer()))
			if random.IntN(2) == 0 {
				forged = rel
			}
			status, answer = send("POST", "/v1/owners/release", forged)
		case 8:
			what = "start"
			status, answer = send("POST", "/v1/pairing", nil)
		case 9:
			what, mayTell = "look", true // a code tells its owner's key
			status, answer = send("POST", "/v1/pairing/lookup", codeBody{pick(pairing.Code, "AAAA2222", "")})
		case 10:
			what, mayTell = "offer", true
			n := 1 + random.IntN(3)
			bound := owner.NewBinding(pub(n), pub(b), now)
			bound.SignNode(key([]int{1, 2, 9}[random.IntN(3)]))
			status, answer = send("POST", "/v1/pairing/offer", codeBinding{pairing.Code, bound})
		default:
			what = "take part in B's pairing"
			if random.IntN(2) == 0 {
				status, answer = send("POST", "/v1/pairing/offered", pairing)
			} else {
				bound := binding(1+random.IntN(2), a, now)
				if random.IntN(2) == 0 {
					bound = owner.NewBinding(pub(2), pub(b), now)
					bound.SignNode(key(2))
					bound.OwnerSig = pickSig(random, bound)
				}
				status, answer = send("POST", "/v1/pairing/confirm", codeBinding{pairing.Code, bound})
			}
		}
		statuses[status]++
		if status >= 500 {
			t.Fatalf("step %d, %s: %d %s", step, what, status, answer)
		}
		for _, s := range secrets {
			if strings.Contains(answer, s) && !(mayTell && s == string(account(b))) {
				t.Fatalf("step %d, %s shows %q: %s", step, what, s, answer)
			}
		}
		if after := w.victim(account(b)); after != before {
			t.Fatalf("step %d, %s changed\n%s\nto\n%s\n%s", step, what, before, after, answer)
		}
	}
	// The run was not made of refusals alone, nor of one kind of them.
	for _, s := range []int{200, 201, 401, 403, 404} {
		if statuses[s] < 2 {
			t.Errorf("answers by status: %v", statuses)
			break
		}
	}
	w.must(w.l.Check(ctx))
}

// ed25519Zero is a signature of nobody.
func ed25519Zero(random *rand.Rand) []byte {
	sig := make([]byte, 64)
	for i := range sig {
		sig[i] = byte(random.Uint32())
	}
	return sig
}

// pickSig is a signature that A can put where B's belongs.
func pickSig(random *rand.Rand, b *owner.Binding) []byte {
	c := *b
	c.SignOwner(key(101))
	return slices.Clone([][]byte{nil, b.NodeSig, c.OwnerSig, ed25519Zero(random)}[random.IntN(4)])
}
