package accounts

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/owner"
	"neuron/internal/signed"
	"neuron/tracker-server/ledger/keys"
	"neuron/tracker-server/store"
)

func TestPrices(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	p := store.Prices{Version: 2, From: t0.Add(time.Hour), DecodeMiB: 7}
	w.must(w.l.AddPrices(t.Context(), p))
	var out struct {
		Now            int64
		Prices         []store.Prices
		StartingCredit int64 `json:"starting_credit"`
	}
	get := func() {
		t.Helper()
		status, body, h := w.plain("GET", "/v1/prices", "")
		if status != 200 || h.Get("Cache-Control") != "no-store" || h.Get("X-Content-Type-Options") != "nosniff" {
			t.Errorf("%d, %v", status, h)
		}
		w.must(json.Unmarshal([]byte(body), &out))
	}
	get()
	if out.Now != 1 || len(out.Prices) != 2 || out.Prices[1].DecodeMiB != 7 || out.StartingCredit != starting {
		t.Errorf("%+v", out)
	}
	w.pass(time.Hour)
	if get(); out.Now != 2 {
		t.Errorf("%+v", out)
	}
}

// TestBindAndRelease: two owners; a node changes hands, and is let go.
func TestBindAndRelease(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bind(1, 101)
	w.bind(1, 101) // again
	w.bind(2, 102)
	a := w.account(101)
	if a.As != asOwner || a.Account != account(101) || len(a.Nodes) != 1 || a.Nodes[0].Node != node(1) || a.Balances["available"] != moneyOf(starting) {
		t.Errorf("%+v", a)
	}
	if len(a.Balances) != 5 || a.Frozen || a.Key != nil {
		t.Errorf("%+v", a)
	}
	// A node's key reads its owner's account.
	w.mu.Lock()
	w.names[node(1)] = NodeInfo{Host: "study", Engine: "1.2"}
	w.mu.Unlock()
	n := w.account(1)
	if n.As != asNode || n.Account != account(101) || !n.Nodes[0].This || !n.Nodes[0].Connected || string(n.Nodes[0].NodeKey) != string(pub(1)) || n.Nodes[0].Info.Host != "study" {
		t.Errorf("%+v", n)
	}
	for i, c := range map[int]protocol.Code{3: protocol.CodeNotFound, 103: protocol.CodeNotFound} {
		w.code(w.do(i, "GET", "/v1/account", nil, nil), c)
	}
	// Signatures that are missing or of others.
	forged := binding(3, 101, t0)
	forged.OwnerSig = forged.NodeSig
	w.code(w.do(3, "POST", "/v1/owners/bind", forged, nil), protocol.CodeForbidden)
	w.code(w.do(3, "POST", "/v1/owners/bind", map[string]int{"node": 1}, nil), protocol.CodeInvalidRequest)
	// The node changes hands; the old binding is a replay.
	w.pass(time.Minute)
	w.bind(1, 102)
	w.code(w.do(1, "POST", "/v1/owners/bind", binding(1, 101, t0), nil), protocol.CodeConflict)
	if a := w.account(1); a.Account != account(102) || len(a.Nodes) != 2 {
		t.Errorf("%+v", a)
	}
	w.pass(time.Minute)
	w.code(w.do(101, "POST", "/v1/owners/release", owner.SignRelease(pub(1), pub(101), w.clock(), key(101)), nil), protocol.CodeNotFound)
	w.must(w.do(102, "POST", "/v1/owners/release", owner.SignRelease(pub(1), pub(102), w.clock(), key(102)), nil))
	w.code(w.do(1, "GET", "/v1/account", nil, nil), protocol.CodeNotFound)
	want := fmt.Sprintf("%s %s,%[1]s %[2]s,%s %s,%[1]s %[4]s,%[1]s ", node(1).Short(), account(101), node(2).Short(), account(102))
	if got := strings.Join(w.owned, ","); got != want {
		t.Errorf("told %s\nwant %s", got, want)
	}
	w.must(w.l.Check(t.Context()))
}

// TestNewOwnersAreFew: keys cost nothing, and each new owner gets credit.
func TestNewOwnersAreFew(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for i := range 20 {
		w.bind(1+i, 101+i)
	}
	err := w.do(30, "POST", "/v1/owners/bind", binding(30, 130, w.clock()), nil)
	w.code(err, protocol.CodeRateLimited)
	if protocol.AsError(err).Detail["retry_after"] != "180" {
		t.Errorf("%v %v", err, protocol.AsError(err).Detail)
	}
	w.bind(1, 101) // what holds may be repeated
	w.pass(3 * time.Minute)
	w.bind(30, 130)
}

// TestPairing is a second computer's way to its owner, with the wrong turns.
func TestPairing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bind(1, 101)
	w.bind(3, 102)
	var started struct {
		Code    string
		Expires time.Time
	}
	w.code(w.do(1, "POST", "/v1/pairing", nil, nil), protocol.CodeForbidden) // a node's key
	w.code(w.do(9, "POST", "/v1/pairing", nil, nil), protocol.CodeNotFound)  // a stranger's
	w.must(w.do(101, "POST", "/v1/pairing", map[string]string{}, &started))  // with a body, and without:
	w.must(w.do(101, "POST", "/v1/pairing", nil, &started))
	if !started.Expires.Equal(t0.Add(10 * time.Minute)) {
		t.Errorf("%+v", started)
	}
	code := codeBody{started.Code}
	var state struct {
		Waiting, Connected, Yours bool
		Binding                   *owner.Binding
		Node                      protocol.NodeID
		Info                      NodeInfo
		OtherOwner                bool `json:"other_owner"`
	}
	w.must(w.do(101, "POST", "/v1/pairing/offered", code, &state))
	if !state.Waiting || state.Binding != nil {
		t.Errorf("%+v", state)
	}
	var found struct {
		OwnerKey []byte `json:"owner_key"`
		Owner    owner.ID
	}
	w.code(w.do(2, "POST", "/v1/pairing/lookup", codeBody{"AAAA2222"}, nil), protocol.CodeNotFound)
	w.must(w.do(2, "POST", "/v1/pairing/lookup", codeBody{strings.ToLower(started.Code)}, &found))
	if string(found.OwnerKey) != string(pub(101)) || store.AccountID(found.Owner) != account(101) {
		t.Fatalf("%+v", found)
	}
	b := owner.NewBinding(pub(2), found.OwnerKey, w.clock())
	w.code(w.do(2, "POST", "/v1/pairing/offer", codeBinding{started.Code, b}, nil), protocol.CodeForbidden)
	b.SignNode(key(2))
	w.code(w.do(4, "POST", "/v1/pairing/offer", codeBinding{started.Code, b}, nil), protocol.CodeForbidden) // another node
	w.code(w.do(2, "POST", "/v1/pairing/offer", codeBinding{started.Code, nil}, nil), protocol.CodeForbidden)
	w.must(w.do(2, "POST", "/v1/pairing/offer", codeBinding{started.Code, b}, nil))
	w.must(w.do(2, "POST", "/v1/pairing/offer", codeBinding{started.Code, b}, nil)) // the answer got lost
	// Used up; and another owner learns nothing of it.
	w.code(w.do(4, "POST", "/v1/pairing/lookup", code, nil), protocol.CodeNotFound)
	err := w.do(102, "POST", "/v1/pairing/offered", code, nil)
	w.code(err, protocol.CodeNotFound)
	if none := w.do(102, "POST", "/v1/pairing/offered", codeBody{"BBBB2222"}, nil); none.Error() != err.Error() {
		t.Errorf("%v and %v", none, err)
	}
	w.mu.Lock()
	w.names[node(2)] = NodeInfo{Host: "kitchen", Role: protocol.RoleNode}
	w.mu.Unlock()
	w.must(w.do(101, "POST", "/v1/pairing/offered", code, &state))
	if state.Waiting || !state.Connected || state.Node != node(2) || state.Info.Host != "kitchen" || state.OtherOwner || state.Yours {
		t.Errorf("%+v", state)
	}
	signedBy := func(i int) *owner.Binding {
		c := *state.Binding
		c.SignOwner(key(i))
		return &c
	}
	w.code(w.do(101, "POST", "/v1/pairing/confirm", codeBinding{started.Code, state.Binding}, nil), protocol.CodeForbidden)
	w.code(w.do(101, "POST", "/v1/pairing/confirm", codeBinding{started.Code, signedBy(102)}, nil), protocol.CodeForbidden)
	w.code(w.do(102, "POST", "/v1/pairing/confirm", codeBinding{started.Code, signedBy(101)}, nil), protocol.CodeForbidden)
	w.code(w.do(101, "POST", "/v1/pairing/confirm", codeBinding{started.Code, binding(2, 101, t0.Add(time.Second))}, nil), protocol.CodeForbidden)
	for range 2 {
		w.must(w.do(101, "POST", "/v1/pairing/confirm", codeBinding{started.Code, signedBy(101)}, nil))
	}
	w.must(w.do(101, "POST", "/v1/pairing/offered", code, &state))
	if !state.Yours {
		t.Errorf("%+v", state)
	}
	if a := w.account(2); len(a.Nodes) != 2 || a.Balances["available"] != moneyOf(starting) {
		t.Errorf("one balance for both: %+v", a)
	}
	if strings.Contains(w.log.String(), started.Code) {
		t.Error("the log has a pairing code")
	}
	// Expired.
	w.pass(10*time.Minute + time.Second)
	w.code(w.do(101, "POST", "/v1/pairing/offered", code, nil), protocol.CodeNotFound)
	w.code(w.do(101, "POST", "/v1/pairing/confirm", codeBinding{started.Code, signedBy(101)}, nil), protocol.CodeNotFound)
}

// TestGuessing: wrong codes count by address, whatever keys they come with.
func TestGuessing(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bind(1, 101)
	var started codeBody
	w.must(w.do(101, "POST", "/v1/pairing", nil, &struct{ Code *string }{&started.Code}))
	for i := range 10 {
		w.code(w.do(20+i, "POST", "/v1/pairing/lookup", codeBody{"AAAA2222"}, nil), protocol.CodeNotFound)
	}
	w.code(w.do(40, "POST", "/v1/pairing/lookup", started, nil), protocol.CodeRateLimited)
	b := owner.NewBinding(pub(40), pub(101), w.clock())
	b.SignNode(key(40))
	w.code(w.do(40, "POST", "/v1/pairing/offer", codeBinding{started.Code, b}, nil), protocol.CodeRateLimited)
}

func TestKeys(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bind(1, 101)
	w.bind(2, 102)
	var made struct {
		Secret string
		Key    keyView
	}
	w.must(w.do(101, "POST", "/v1/account/keys", newKey{"laptop", keys.Limits{Budget: 30_000, PerMinute: 2}}, &made))
	if !strings.HasPrefix(made.Secret, made.Key.ID+"-") || made.Key.Name != "laptop" || made.Key.Limits.Budget != 30_000 {
		t.Errorf("%+v", made.Key)
	}
	var raw []byte
	w.must(w.do(101, "GET", "/v1/account/keys", nil, &raw))
	if strings.Contains(string(raw), made.Secret) || !strings.Contains(string(raw), made.Key.ID) {
		t.Errorf("the list: %s", raw)
	}
	w.must(w.do(102, "GET", "/v1/account/keys", nil, &raw))
	if strings.Contains(string(raw), made.Key.ID) {
		t.Errorf("another's list: %s", raw)
	}
	one := "/v1/account/keys/" + made.Key.ID
	zero := map[string]int{"budget": 0, "budget_day": 0, "per_minute": 0}
	for i, c := range map[int]protocol.Code{102: protocol.CodeNotFound, 1: protocol.CodeForbidden, 9: protocol.CodeNotFound} {
		w.code(w.do(i, "DELETE", one, nil, nil), c)
		w.code(w.do(i, "POST", one+"/limits", zero, nil), c)
	}
	w.code(w.do(1, "POST", "/v1/account/keys", newKey{Name: "x"}, nil), protocol.CodeForbidden)
	w.code(w.do(1, "GET", "/v1/account/keys", nil, nil), protocol.CodeForbidden)
	w.code(w.do(101, "POST", one+"/limits", map[string]int{"budget": 5}, nil), protocol.CodeInvalidRequest)
	w.code(w.do(101, "POST", "/v1/account/keys", newKey{Name: " "}, nil), protocol.CodeInvalidRequest)

	// The key pays, within its budget.
	payer := func(api string) (store.AccountID, string, error) {
		return Payer(t.Context(), w.h.o.Keys, w.h.o.Owners, node(2), api)
	}
	a, id, err := payer(made.Secret)
	if a != account(101) || id != made.Key.ID || err != nil {
		t.Errorf("%s, %s, %v", a, id, err)
	}
	w.must(w.session(1, a, id, 2))
	w.must(w.do(101, "POST", one+"/limits", map[string]int{"budget": 25_000, "budget_day": 0, "per_minute": 2}, &made))
	if made.Key.Limits.Budget != 25_000 || made.Key.Total.Micros != 20_000 {
		t.Errorf("%+v", made.Key)
	}
	w.code(w.session(2, a, id, 2), protocol.CodeBudget)

	// It sees its own figures, and neither balance nor lines of its owner.
	bearer := []string{"Authorization", "Bearer " + made.Secret}
	status, body, _ := w.plain("GET", "/v1/account", "", bearer...)
	var view accountView
	w.must(json.Unmarshal([]byte(body), &view))
	if status != 200 || view.As != asKey || view.Key.Today.Micros != 20_000 || view.Balances != nil || view.Nodes != nil {
		t.Errorf("%d %s", status, body)
	}
	for _, path := range []string{"/v1/account/statement", "/v1/account/earnings", "/v1/account/keys"} {
		if status, body, _ := w.plain("GET", path, "", bearer...); status != http.StatusForbidden {
			t.Errorf("%s: %d %s", path, status, body)
		}
	}
	if status, body, _ := w.plain("POST", "/v1/account/keys", `{"name":"more"}`, bearer...); status != http.StatusForbidden {
		t.Errorf("%d %s", status, body)
	}
	// Its rate: two a minute, reading not counted.
	_, _, err = payer(made.Secret)
	w.must(err)
	_, _, err = payer(made.Secret)
	w.code(err, protocol.CodeRateLimited)

	for range 2 {
		w.must(w.do(101, "DELETE", one, nil, &made))
	}
	if made.Key.Revoked == nil {
		t.Error("it is not shown as revoked")
	}
	_, _, err = payer(made.Secret)
	w.code(err, protocol.CodeUnauthorized)
	if status, body, _ := w.plain("GET", "/v1/account", "", bearer...); status != http.StatusUnauthorized || !strings.Contains(body, `"unauthorized"`) {
		t.Errorf("%d %s", status, body)
	}
	if strings.Contains(w.log.String(), made.Secret) {
		t.Error("the log has a secret")
	}
}

func TestPayer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.bind(1, 101)
	client, err := w.l.AddClient(ctx, "client")
	w.must(err)
	secret, k, err := w.h.o.Keys.Create(ctx, client.ID, "server", keys.Limits{})
	w.must(err)
	for _, c := range []struct {
		node int
		api  string
		want store.AccountID
		key  string
	}{
		{1, "", account(101), ""}, {2, "", "", ""}, {1, secret.Reveal(), client.ID, k.ID}, {2, secret.Reveal(), client.ID, k.ID},
	} {
		a, id, err := Payer(ctx, w.h.o.Keys, w.h.o.Owners, node(c.node), c.api)
		if a != c.want || id != c.key || err != nil {
			t.Errorf("%+v: %s, %s, %v", c, a, id, err)
		}
	}
	// A wrong key is never nobody, nor the node's owner.
	a, _, err := Payer(ctx, w.h.o.Keys, w.h.o.Owners, node(1), secret.Reveal()[:len(secret.Reveal())-1]+"!")
	w.code(err, protocol.CodeUnauthorized)
	if a != "" {
		t.Errorf("%s pays", a)
	}
	w.must(w.l.CloseAccount(ctx, client.ID))
	_, _, err = Payer(ctx, w.h.o.Keys, w.h.o.Owners, node(1), secret.Reveal())
	w.code(err, protocol.CodeForbidden)
}

// TestClient: a client has no key pair; its API keys read its account and
// change nothing.
func TestClient(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	ctx := t.Context()
	w.bind(1, 101)
	client, err := w.l.AddClient(ctx, "a company")
	w.must(err)
	w.must(w.l.Grant(ctx, client.ID, "first", 1_500_000, "invoice 7"))
	secret, k, err := w.h.o.Keys.Create(ctx, client.ID, "server", keys.Limits{})
	w.must(err)
	w.must(w.session(1, client.ID, k.ID, 1))
	bearer := []string{"Authorization", "Bearer " + secret.Reveal()}
	status, body, _ := w.plain("GET", "/v1/account", "", bearer...)
	var view accountView
	w.must(json.Unmarshal([]byte(body), &view))
	if status != 200 || view.Kind != store.KindClient || view.Name != "a company" || view.Balances["available"].Credits != "1.480000" ||
		view.Balances["reserved"].Micros != 10_000 || view.Key.ID != k.ID {
		t.Errorf("%d %s", status, body)
	}
	status, body, _ = w.plain("GET", "/v1/account/statement?book=available", "", bearer...)
	if status != 200 || strings.Count(body, `"transaction"`) != 2 || !strings.Contains(body, "invoice 7") {
		t.Errorf("%d %s", status, body)
	}
	for _, c := range [][2]string{{"POST", "/v1/account/keys"}, {"DELETE", "/v1/account/keys/" + k.ID}, {"POST", "/v1/account/keys/" + k.ID + "/limits"}, {"POST", "/v1/pairing"}} {
		if status, body, _ := w.plain(c[0], c[1], `{"name":"x"}`, bearer...); status != http.StatusForbidden {
			t.Errorf("%s: %d %s", c, status, body)
		}
	}
}

func TestFrozen(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bind(1, 101)
	w.must(w.l.Freeze(t.Context(), account(101), "proof-1", "two signatures for one span")) // with nothing to freeze
	a := w.account(1)
	if !a.Frozen || len(a.Freezes) != 1 || a.Freezes[0].Proof != "proof-1" || a.Freezes[0].Ended != "" {
		t.Errorf("%+v", a)
	}
	w.must(w.l.Thaw(t.Context(), account(101), "proof-1", ""))
	if a := w.account(101); a.Frozen || a.Freezes[0].Ended != store.TxThaw {
		t.Errorf("%+v", a)
	}
}

// TestSignatures: what is not signed for this tracker, at this time, as it is,
// by a key that may.
func TestSignatures(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bind(1, 101)
	sign := func(path, body string, k, audience int, at time.Time) string {
		req, err := http.NewRequest("POST", w.url+path, http.NoBody)
		w.must(err)
		signed.SignAt(req, []byte(body), key(k), pub(audience), at)
		return req.Header.Get("Authorization")
	}
	const path, body = "/v1/account/keys", `{"name":"a"}`
	for name, c := range map[string]struct {
		header, body string
		status       int
	}{
		"another tracker": {sign(path, body, 101, 201, t0), body, 401},
		"another path":    {sign(path+"/nk-1/limits", body, 101, 200, t0), body, 401},
		"a query":         {sign(path+"?a=1", body, 101, 200, t0), body, 401},
		"body changed":    {sign(path, body, 101, 200, t0), `{"name":"b"}`, 401},
		"too old":         {sign(path, body, 101, 200, t0.Add(-time.Hour)), body, 401},
		"too new":         {sign(path, body, 101, 200, t0.Add(time.Hour)), body, 401},
		"unsigned":        {"", body, 401},
		"not JSON":        {sign(path, "name", 101, 200, t0), "name", 400},
		"two values":      {sign(path, body+body, 101, 200, t0), body + body, 400},
		"unknown field":   {sign(path, `{"nam":"a"}`, 101, 200, t0), `{"nam":"a"}`, 400},
		"too large":       {sign(path, "", 101, 200, t0), strings.Repeat(" ", signed.MaxBody+1), 413},
		"a stranger":      {sign(path, body, 9, 200, t0), body, 404},
	} {
		status, answer, h := w.plain("POST", path, c.body, "Authorization", c.header)
		var e protocol.Error
		if err := json.Unmarshal([]byte(answer), &e); err != nil || status != c.status || !e.Code.Known() || h.Get("Cache-Control") != "no-store" {
			t.Errorf("%s: %d %s", name, status, answer)
		}
		if _, told := signed.Skew(&e, t0); told != strings.HasPrefix(name, "too old") && told != strings.HasPrefix(name, "too new") {
			t.Errorf("%s tells the time: %v", name, told)
		}
	}
	good := sign(path, body, 101, 200, t0)
	if status, answer, _ := w.plain("POST", path, body, "Authorization", good, "Content-Type", "text/plain"); status != 400 || !strings.Contains(answer, "Content-Type") {
		t.Errorf("text/plain: %d %s", status, answer)
	}
	if status, answer, _ := w.plain("POST", path, body, "Authorization", good); status != 401 {
		t.Errorf("a replay: %d %s", status, answer)
	}
	if status, answer, _ := w.plain("POST", path, body, "Authorization", sign(path, body, 101, 200, t0)); status != 201 {
		t.Errorf("%d %s", status, answer)
	}
}

func TestMethodsAndPaths(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for _, c := range []struct {
		method, path string
		status       int
		allow        string
	}{
		{"POST", "/v1/prices", 405, "GET"}, {"PUT", "/v1/account/keys", 405, "GET, POST"}, {"GET", "/v1/pairing/ABCD2345", 404, ""},
		{"GET", "/v1/account/none", 404, ""}, {"HEAD", "/v1/prices", 200, ""}, {"GET", "/v1/account/keys/nk-1", 405, "DELETE"},
	} {
		status, body, h := w.plain(c.method, c.path, "")
		if status != c.status || h.Get("Allow") != c.allow || c.method != "HEAD" && !strings.Contains(body, `"code"`) {
			t.Errorf("%+v: %d %q %s", c, status, h.Get("Allow"), body)
		}
	}
}

// TestRates: one key is bounded, and so is one address, whatever keys it makes.
func TestRates(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	w.bind(1, 101)
	limited := func(i int) (n int) {
		for range 250 {
			var e *protocol.Error
			if err := w.do(i, "GET", "/v1/account", nil, nil); errors.As(err, &e) && e.Code == protocol.CodeRateLimited {
				if e.Detail["retry_after"] == "" {
					t.Fatal(e)
				}
				break
			}
			n++
		}
		return n
	}
	if n := limited(101); n != 60 {
		t.Errorf("%d requests of one key", n)
	}
	total := 61
	for i := 10; total < 210; i++ {
		n := limited(i)
		if n < 60 {
			total += n
			break
		}
		total += n + 1
	}
	if total < 195 || total > 205 {
		t.Errorf("%d requests of one address", total)
	}
	status, _, h := w.plain("GET", "/v1/prices", "")
	if status != 429 || h.Get("Retry-After") != "1" {
		t.Errorf("%d %v", status, h)
	}
	w.pass(time.Minute)
	if a := w.account(101); a.As != asOwner {
		t.Errorf("%+v", a)
	}
}

func TestLimiterIsBounded(t *testing.T) {
	t.Parallel()
	now := t0
	l := limiter{now: func() time.Time { return now }, every: time.Minute, burst: 2}
	for i := range maxNames {
		if err := l.take(fmt.Sprint(i)); err != nil {
			t.Fatal(err)
		}
	}
	// The rest shares one bucket; those that were there have their own.
	refused := 0
	for i := range 10 {
		if l.take(fmt.Sprint("new ", i)) != nil {
			refused++
		}
	}
	if refused != 8 || l.take("5") != nil || l.take("5") == nil || len(l.full) > maxNames+1 {
		t.Errorf("%d refused, %d names", refused, len(l.full))
	}
	now = now.Add(3 * time.Minute)
	if err := l.take("new"); err != nil || len(l.full) != 1 {
		t.Errorf("%v, %d names", err, len(l.full))
	}
}

func TestSource(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"192.0.2.7:99": "192.0.2.7", "[::ffff:192.0.2.7]:1": "192.0.2.7", "[2001:db8::1:2:3:4]:5": "2001:db8::/64",
		"[fe80::1%eth0]:5": "fe80::/64", "@": "unknown",
	} {
		if got := source(&http.Request{RemoteAddr: remote}); got != want {
			t.Errorf("%s: %s", remote, got)
		}
	}
}
