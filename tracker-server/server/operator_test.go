package server

import (
	"bytes"
	"encoding/json"
	"fmt"
	"html"
	"io"
	"net/http"
	"net/http/cookiejar"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/ledger/keys"
	"neuron/tracker-server/operator"
	"neuron/tracker-server/standing"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

// op asks the operator's API with the key of the data folder.
func (tr *tracker) op(method, path string, in, out any) *protocol.Error {
	tr.t.Helper()
	key, err := operator.ReadKey(tr.dir)
	if err != nil {
		tr.t.Fatal(err)
	}
	return tr.opKey(key.Reveal(), method, path, in, out)
}

func (tr *tracker) opKey(key, method, path string, in, out any) *protocol.Error {
	tr.t.Helper()
	raw, ok := in.(string)
	if !ok && in != nil {
		b, err := json.Marshal(in)
		if err != nil {
			tr.t.Fatal(err)
		}
		raw = string(b)
	}
	req, err := http.NewRequest(method, tr.URL()+"v1/operator"+path, strings.NewReader(raw))
	if err != nil {
		tr.t.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+key)
	req.Header.Set("Neuron-Operator", "alice\u202e")
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		tr.t.Fatal(err)
	}
	defer resp.Body.Close()
	body, err := io.ReadAll(resp.Body)
	if err != nil {
		tr.t.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		var e protocol.Error
		if err := json.Unmarshal(body, &e); err != nil || e.Code.HTTPStatus() != resp.StatusCode {
			tr.t.Fatalf("%s %s: status %d, %s", method, path, resp.StatusCode, body)
		}
		return &e
	}
	if out != nil {
		if err := json.Unmarshal(body, out); err != nil {
			tr.t.Fatalf("%s: %v in %s", path, err, body)
		}
	}
	return nil
}

// must fails on a refusal.
func (tr *tracker) must(method, path string, in, out any) {
	tr.t.Helper()
	if e := tr.op(method, path, in, out); e != nil {
		tr.t.Fatalf("%s %s: %v", method, path, e)
	}
}

func (tr *tracker) refused(code protocol.Code, method, path string, in any) {
	tr.t.Helper()
	if e := tr.op(method, path, in, nil); e == nil || e.Code != code {
		tr.t.Errorf("%s %s: got %v, want %s", method, path, e, code)
	}
}

func (tr *tracker) stand(id protocol.NodeID, action, reason string) {
	tr.t.Helper()
	tr.must("POST", "/nodes/"+string(id)+"/"+action, map[string]string{"reason": reason}, nil)
}

func routable(tr *tracker) bool {
	m := tr.core.Models()
	return len(m) == 1 && m[0].Routable
}

// TestBan: a banned node is sent away in both roles with the reason, its
// sessions end, its routes vanish, it stays out over a restart, and comes back
// when the ban is lifted.
func TestBan(t *testing.T) {
	t.Parallel()
	data, c := t.TempDir(), &clock{}
	tr := start(t, data, c)
	key := newKey()
	a, b := tr.node(key, 4, 0, 2), tr.node(newKey(), 4, 2, 4)
	own := tr.join(key, protocol.RoleGateway) // the gateway of a's computer
	g := tr.join(newKey(), protocol.RoleGateway)
	tr.ready()
	l, l2 := g.route(tr, 100), own.route(tr, 100)
	tr.refused(protocol.CodeInvalidRequest, "POST", "/nodes/"+string(a.id())+"/ban", nil) // no reason
	tr.stand(a.id(), "ban", "signed <b>false</b> receipts")
	for _, f := range []*fake{b, g} {
		e := expect[protocol.EndSession](f, protocol.MsgEndSession)
		if f == g && (e.Session != l.Session || e.Error.Code != protocol.CodeHopLost || *e.Error.Hop != 0 || !strings.Contains(e.Error.Message, "false")) {
			t.Errorf("end %+v", e)
		}
	}
	if e := expect[protocol.EndSession](own, protocol.MsgEndSession); e.Error == nil {
		t.Error("no reason")
	}
	for _, f := range []*fake{a, own} {
		r := f.expectRefused(protocol.CodeForbidden)
		if !strings.Contains(r.Error.Message, "banned this node: signed <b>false</b> receipts") || r.RetryAfter != 0 {
			t.Errorf("refusal %+v", r)
		}
	}
	if s := tr.session(l2.Session); s.End == nil || s.End.Error.Code != protocol.CodeForbidden {
		t.Errorf("the banned gateway's session: %+v", s.End)
	}
	if routable(tr) {
		t.Error("the route is still there")
	}
	if n := tr.core.Nodes(); len(n) != 2 {
		t.Errorf("%d connections count", len(n))
	}
	tr.dial(key, protocol.RoleNode, nil).expectRefused(protocol.CodeForbidden)
	tr.dial(key, protocol.RoleGateway, nil).expectRefused(protocol.CodeForbidden)

	tr.halt()
	tr = start(t, data, c)
	tr.dial(key, protocol.RoleNode, nil).expectRefused(protocol.CodeForbidden)
	var d operator.NodeDetail
	tr.must("GET", "/nodes/"+string(a.id())[:8], nil, &d)
	if d.State != standing.StateBanned || d.Banned.Reason != "signed <b>false</b> receipts" || !strings.HasPrefix(d.Banned.By, "alice, program at 127.0.0.1") ||
		len(d.Log) != 1 || d.Log[0].Action != "ban" || d.Log[0].Reason != d.Banned.Reason {
		t.Errorf("detail %+v", d)
	}
	tr.stand(a.id(), "unban", "")
	tr.node(key, 4, 0, 4)
	tr.ready()
}

// TestBanOwner: all nodes of an owner go, one that comes to the owner later too.
func TestBanOwner(t *testing.T) {
	t.Parallel()
	c := &clock{}
	tr := start(t, t.TempDir(), c)
	by := newKey()
	one, two, other := newKey(), newKey(), newKey()
	account := tr.own(one, by)
	a := tr.join(one, protocol.RoleNode)
	o := tr.join(other, protocol.RoleNode)
	tr.must("POST", "/owners/"+string(account)[:12]+"/ban", map[string]string{"reason": "all of them"}, nil)
	if r := a.expectRefused(protocol.CodeForbidden); !strings.Contains(r.Error.Message, "banned the owner of this node: all of them") {
		t.Errorf("refusal %v", r.Error)
	}
	tr.dial(one, protocol.RoleGateway, nil).expectRefused(protocol.CodeForbidden)
	b := tr.join(two, protocol.RoleNode)
	tr.own(two, by)
	tr.core.noteOwner(b.id(), string(account)) // as whoever binds does
	c.Advance(bannedOwnersEvery)
	b.expectRefused(protocol.CodeForbidden)
	o.send(protocol.MsgModels, nil)
	expect[protocol.Models](o, protocol.MsgModels) // a stranger stays
	tr.refused(protocol.CodeInvalidRequest, "POST", "/owners/"+string(account)+"/drain", nil)
	tr.refused(protocol.CodeNotFound, "POST", "/owners/o-nobody/ban", map[string]string{"reason": "x"})
	tr.must("POST", "/owners/"+string(account)+"/unban", nil, nil)
	tr.join(one, protocol.RoleNode)
}

// TestApproval: where new nodes wait, they connect and show, own routes may use
// them, and public routes and placement begin with the approval.
func TestApproval(t *testing.T) {
	t.Parallel()
	data, c := t.TempDir(), &clock{}
	tr := startWith(t, c, Options{Data: data, Admission: standing.Approve})
	tr.publishGuide(false)
	n := tr.node(newKey(), 4, 0, 4)
	g := tr.join(newKey(), protocol.RoleGateway)
	shown := func() operator.NodeRow {
		var p operator.NodePage
		tr.must("GET", "/nodes?state=waiting&q="+string(n.id()), nil, &p)
		if len(p.Nodes) == 0 {
			return operator.NodeRow{}
		}
		return p.Nodes[0]
	}
	eventually(t, "the shard", func() bool { return len(shown().Shards) == 1 })
	if s := shown(); s.State != standing.StateUnknown || s.Barred == "" || s.Network != "ready" {
		t.Errorf("shown as %+v", s)
	}
	place := protocol.PlaceRequest{Offer: protocol.Offer{Memory: 1 << 40, Speed: 1}}
	n.send(protocol.MsgPlace, place)
	if e := n.expectError(protocol.CodeForbidden); !strings.Contains(e.Message, "approval") {
		t.Errorf("%v", e)
	}
	ask := func(policy string) {
		r := protocol.RouteRequest{Session: protocol.NewSessionID(), Model: string(testModel), Context: 100, Prompt: 10, Policy: policy}
		if policy == protocol.PolicyPrivate {
			r.Nodes = []protocol.NodeID{n.id()}
		}
		g.send(protocol.MsgRoute, r)
	}
	ask(protocol.PolicyPublic)
	g.expectError(protocol.CodeNoRoute)
	ask(protocol.PolicyPrivate)
	expect[protocol.RouteReply](g, protocol.MsgLease)
	tr.stand(n.id(), "approve", "known")
	ask(protocol.PolicyPublic)
	expect[protocol.RouteReply](g, protocol.MsgLease)
	tr.stand(n.id(), "disapprove", "")
	ask(protocol.PolicyPublic)
	g.expectError(protocol.CodeNoRoute)
	tr.stand(n.id(), "approve", "again")

	tr.halt()
	tr = startWith(t, c, Options{Data: data, Admission: standing.Approve})
	n = tr.node(n.key, 4, 0, 4)
	tr.node(newKey(), 4, 0, 4) // unknown
	eventually(t, "one of two nodes", func() bool {
		for _, m := range tr.core.Models() {
			if m.Model == testModel {
				return m.Replicas[0] == 1 && m.Routable
			}
		}
		return false
	})
}

// TestDrain: running sessions go on, new ones are refused on any route, also
// after a restart.
func TestDrain(t *testing.T) {
	t.Parallel()
	data, c := t.TempDir(), &clock{}
	tr := start(t, data, c)
	n := tr.node(newKey(), 4, 0, 4)
	g := tr.join(newKey(), protocol.RoleGateway)
	tr.ready()
	l := g.route(tr, 100)
	g.telemetry(l, 1, protocol.PhaseDecode, nil)
	tr.waitPhase(l.Session, protocol.PhaseDecode)
	tr.stand(n.id(), "drain", "new disk")
	g.askRoute(100)
	g.expectError(protocol.CodeNoRoute)
	n.send(protocol.MsgPlace, protocol.PlaceRequest{Offer: protocol.Offer{Memory: 1 << 40, Speed: 1}})
	n.expectError(protocol.CodeForbidden)
	g.telemetry(l, 2, protocol.PhaseDecode, nil)
	g.telemetry(l, 3, protocol.PhaseDone, func(t *protocol.Telemetry) { t.Finish = protocol.FinishStop })
	if s := tr.waitPhase(l.Session, protocol.PhaseDone); s.End.Error != nil {
		t.Errorf("the running session ended with %v", s.End.Error)
	}
	tr.halt()
	tr = start(t, data, c)
	n = tr.node(n.key, 4, 0, 4)
	eventually(t, "a drained node", func() bool {
		v := tr.core.Nodes()
		return len(v) == 1 && v[0].State == "draining" && v[0].Why == "drained by the operator: new disk"
	})
	tr.stand(n.id(), "undrain", "")
	tr.ready()
}

// TestBannedWhileStopped: a session whose end was not written before a crash
// ends at the start.
func TestBannedWhileStopped(t *testing.T) {
	t.Parallel()
	data, c := t.TempDir(), &clock{}
	tr := start(t, data, c)
	n := tr.node(newKey(), 4, 0, 4)
	g, owned := tr.join(newKey(), protocol.RoleGateway), tr.join(newKey(), protocol.RoleGateway)
	tr.ready()
	l, l2 := g.route(tr, 100), owned.route(tr, 100)
	account := tr.own(owned.key, newKey())
	// A ban is stored and nothing else, as when the process ends right then.
	ban := func(subject standing.Subject) {
		t.Helper()
		tr.halt()
		db, err := sqlite.Open(t.Context(), filepath.Join(data, "tracker.db"))
		if err != nil {
			t.Fatal(err)
		}
		rec := standing.Record{Subject: subject, Banned: standing.Mark{At: c.Now(), By: "x", Reason: "y"}}
		if _, err := db.SetStanding(t.Context(), rec, store.LogEntry{At: c.Now(), By: "x", Action: "ban"}); err != nil {
			t.Fatal(err)
		}
		if err := db.Close(); err != nil {
			t.Fatal(err)
		}
		tr = start(t, data, c)
	}
	ban(standing.Owner(string(account)))
	if s := tr.session(l2.Session); s.End == nil || s.End.Error.Code != protocol.CodeForbidden {
		t.Errorf("the banned owner's session: %+v", s.End)
	}
	if s := tr.session(l.Session); s.End != nil {
		t.Errorf("another's session ended: %+v", s.End)
	}
	ban(standing.Node(n.id()))
	if s := tr.session(l.Session); s.End == nil || s.End.Error.Code != protocol.CodeHopLost {
		t.Errorf("the banned node's session: %+v", s.End)
	}
}

// TestOperatorMoney: accounts, credit, keys, corrections, faults and prices by
// the API, and all of it in the log.
func TestOperatorMoney(t *testing.T) {
	t.Parallel()
	data, c := t.TempDir(), &clock{}
	tr := startWith(t, c, Options{Data: data, StartingCredit: 5_000_000})
	var made struct {
		ID store.AccountID `json:"id"`
	}
	tr.must("POST", "/accounts", map[string]string{"name": "Ümit <i>"}, &made)
	path := "/accounts/" + string(made.ID)
	grant := map[string]any{"amount": 1_500_001, "ref": "first", "note": "welcome"}
	for range 2 { // the same grant is one
		tr.must("POST", path+"/grant", grant, nil)
	}
	tr.refused(protocol.CodeConflict, "POST", path+"/grant", map[string]any{"amount": 7, "ref": "first", "note": "welcome"})
	tr.refused(protocol.CodeInvalidRequest, "POST", path+"/grant", map[string]any{"amount": 0})
	tr.refused(protocol.CodeInvalidRequest, "POST", path+"/grant", map[string]any{"amount": "1.5"})
	tr.refused(protocol.CodeInvalidRequest, "POST", path+"/grant", map[string]any{"amount": 1, "amuont": 2})
	tr.refused(protocol.CodeInvalidRequest, "POST", path+"/grant", `{"amount":1}{"amount":1}`)
	tr.refused(protocol.CodeRequestTooLarge, "POST", path+"/grant", `{"note":"`+strings.Repeat("x", 70_000)+`"}`)
	tr.refused(protocol.CodeNotFound, "POST", "/accounts/c-none/grant", grant)

	var k operator.NewKey
	tr.must("POST", path+"/keys", map[string]any{"name": "laptop", "budget": 900_000, "per_minute": 60}, &k)
	if got, err := tr.core.keys.Authenticate(t.Context(), "nk-"); err == nil {
		t.Errorf("a part of a key is %v", got)
	}
	tr.must("POST", path+"/keys/"+k.ID+"/limits", map[string]any{"budget": 800_000, "budget_day": 1}, nil)
	var d operator.AccountDetail
	tr.must("GET", path[:len("/accounts/")+8], nil, &d) // a beginning is enough
	if d.ID != made.ID || d.Name != "Ümit <i>" || d.Balances["available"] != 1_500_001 || len(d.Keys) != 1 || d.Keys[0].Budget != 800_000 || d.Keys[0].BudgetDay != 1 ||
		d.Keys[0].PerMinute != 0 || len(d.Lines) != 1 || d.Lines[0].Amount != 1_500_001 || !d.Lines[0].Correctable() {
		t.Errorf("account %+v", d)
	}
	if _, err := tr.core.keys.Authenticate(t.Context(), keys.Secret(k.Secret)); err != nil {
		t.Error(err)
	}
	tr.must("POST", path+"/keys/"+k.ID+"/revoke", map[string]string{"reason": "lost"}, nil)
	if _, err := tr.core.keys.Authenticate(t.Context(), keys.Secret(k.Secret)); err == nil {
		t.Error("a revoked key is good")
	}
	tr.must("POST", "/corrections", map[string]string{"transaction": d.Lines[0].ID, "reason": "a mistake"}, nil)
	if v := tr.balance(made.ID, store.Available); v != 0 {
		t.Errorf("%s are left", v)
	}
	tr.refused(protocol.CodeInvalidRequest, "POST", "/corrections", map[string]string{"transaction": d.Lines[0].ID})
	tr.must("POST", path+"/close", map[string]string{"reason": "left"}, nil)
	tr.refused(protocol.CodeForbidden, "POST", path+"/keys", map[string]any{"name": "x"})

	owner := "/accounts/" + string(tr.own(newKey(), newKey()))
	for _, a := range []string{"freeze", "thaw"} {
		tr.must("POST", owner+"/"+a, map[string]string{"proof": "p1", "reason": "r"}, nil)
	}
	tr.refused(protocol.CodeConflict, "POST", owner+"/forfeit", map[string]string{"proof": "p1"})
	tr.must("POST", owner+"/freeze", map[string]string{"proof": "p2"}, nil)
	tr.must("POST", owner+"/forfeit", map[string]string{"proof": "p2"}, nil)
	tr.refused(protocol.CodeNotFound, "POST", owner+"/thaw", map[string]string{"proof": strings.Repeat("ab", 32)})
	tr.refused(protocol.CodeInvalidRequest, "POST", owner+"/freeze", map[string]string{})
	tr.must("GET", owner, nil, &d)
	if len(d.Freezes) != 2 || d.Freezes[0].Ended != store.TxThaw || d.Freezes[1].Ended != store.TxForfeit || len(d.Nodes) != 1 {
		t.Errorf("owner %+v", d)
	}

	tr.must("POST", "/prices", map[string]any{"decode_per_mib": 1200, "reason": "dearer power"}, nil)
	tr.refused(protocol.CodeInvalidRequest, "POST", "/prices", map[string]any{"from": "2001-01-01T00:00:00Z"})
	tr.refused(protocol.CodeConflict, "POST", "/prices", map[string]any{"version": 1, "fee_ppm": 7})
	var p operator.PricePage
	tr.must("GET", "/prices", nil, &p)
	if len(p.Prices) != 2 || p.Now != 1 || p.Prices[0].DecodeMiB != 1200 || p.Prices[0].PrefillPPM != 150_000 {
		t.Errorf("prices %+v", p)
	}
	tr.halt()
	tr = startWith(t, c, Options{Data: data})
	var log operator.LogPage
	tr.must("GET", "/log?subject="+string(made.ID), nil, &log)
	var got []string
	for _, e := range log.Entries {
		got = append([]string{strings.TrimSpace(e.Action + " " + e.Failed)}, got...)
	}
	if s := strings.Join(got, ", "); s != "grant, grant, grant, grant conflict, key add, key limits, key revoke, account close, key add, key add forbidden" {
		t.Errorf("log: %s", s)
	}
	for _, e := range log.Entries {
		if strings.Contains(fmt.Sprint(e), k.Secret[len(k.ID)+1:]) {
			t.Error("the log holds a key")
		}
	}
}

// TestPublishFrom: the pages publish out of the named folders and nothing else.
func TestPublishFrom(t *testing.T) {
	t.Parallel()
	dir, outside := t.TempDir(), t.TempDir()
	raw, err := os.ReadFile("../../assets/model/guide-q8_0.gguf")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range []string{filepath.Join(dir, "sub", "guide.gguf"), filepath.Join(outside, "secret.gguf")} {
		if err := os.MkdirAll(filepath.Dir(f), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(f, raw, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.WriteFile(filepath.Join(dir, "bad.gguf"), []byte("no model"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(filepath.Join(outside, "secret.gguf"), filepath.Join(dir, "link.gguf")); err != nil {
		t.Fatal(err)
	}
	tr := startWith(t, &clock{}, Options{Data: t.TempDir(), PublishFrom: []string{dir}})
	for name, path := range map[string]string{
		"outside": filepath.Join(outside, "secret.gguf"), "link": filepath.Join(dir, "link.gguf"), "dots": dir + "/../" + filepath.Base(outside) + "/secret.gguf",
		"absent": filepath.Join(dir, "none.gguf"), "folder": dir, "relative": "sub/guide.gguf", "other": "/etc/passwd", "key": tr.dir.File("tracker.key"),
	} {
		if e := tr.op("POST", "/publish", map[string]any{"path": path}, nil); e == nil || e.Code != protocol.CodeForbidden || strings.Contains(e.Message, path) {
			t.Errorf("%s: %v", name, e)
		}
	}
	publish := func(file string) operator.ModelPage {
		t.Helper()
		tr.must("POST", "/publish", map[string]any{"path": filepath.Join(dir, file), "name": "the guide"}, nil)
		var p operator.ModelPage
		eventually(t, "the end of "+file, func() bool {
			tr.must("GET", "/models", nil, &p)
			return !p.Job.Running
		})
		return p
	}
	if p := publish("bad.gguf"); p.Job.Error == nil || p.Job.Error.Code != protocol.CodeModelInvalid || len(p.Models) != 0 {
		t.Errorf("job %+v", p.Job)
	}
	p := publish("sub/guide.gguf")
	if p.Job.Error != nil || !p.Job.Result.Changed || len(p.Models) != 1 || p.Models[0].Name != "the guide" || p.Job.Percent() != 100 {
		t.Errorf("job %+v, models %+v", p.Job, p.Models)
	}
	if len(p.Files) != 2 { // the link is not offered
		t.Errorf("files %v", p.Files)
	}
	if again := publish("sub/guide.gguf"); again.Job.Result == nil || again.Job.Result.Changed {
		t.Errorf("again: %+v", again.Job)
	}
	tr.refused(protocol.CodeNotFound, "POST", "/publish/stop", nil)
	tr.must("POST", "/models/"+string(p.Models[0].Model)[:10]+"/unpublish", map[string]string{"reason": "old"}, nil)
	if list := tr.core.Catalog(); len(list) != 0 {
		t.Errorf("still published: %+v", list)
	}
	tr.refused(protocol.CodeNotFound, "POST", "/models/"+string(p.Models[0].Model)+"/unpublish", nil)
}

// browser is a person with a window.
type browser struct {
	t  *testing.T
	tr *tracker
	c  *http.Client
}

func (tr *tracker) browser() *browser {
	jar, err := cookiejar.New(nil)
	if err != nil {
		tr.t.Fatal(err)
	}
	return &browser{tr.t, tr, &http.Client{Jar: jar}}
}

func (b *browser) get(path string) (int, string) {
	b.t.Helper()
	resp, err := b.c.Get(strings.TrimSuffix(b.tr.URL(), "/") + path)
	return b.read(resp, err)
}

func (b *browser) read(resp *http.Response, err error) (int, string) {
	b.t.Helper()
	if err != nil {
		b.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		b.t.Fatal(err)
	}
	if csp := resp.Header.Get("Content-Security-Policy"); strings.Contains(csp, "script") || !strings.Contains(csp, "default-src 'none'") {
		b.t.Errorf("policy %q", csp)
	}
	if bytes.Contains(raw, []byte("<script")) {
		b.t.Error("the page has a script")
	}
	return resp.StatusCode, string(raw)
}

var csrfField = regexp.MustCompile(`name="csrf" value="([^"]+)"`)

// post sends a form with the token that the page at from shows.
func (b *browser) post(from, path string, form url.Values) (int, string) {
	b.t.Helper()
	_, page := b.get(from)
	if m := csrfField.FindStringSubmatch(page); m != nil {
		form.Set("csrf", html.UnescapeString(m[1]))
	}
	form.Set("back", from)
	return b.send(path, form, nil)
}

func (b *browser) send(path string, form url.Values, header http.Header) (int, string) {
	b.t.Helper()
	req, err := http.NewRequest("POST", strings.TrimSuffix(b.tr.URL(), "/")+path, strings.NewReader(form.Encode()))
	if err != nil {
		b.t.Fatal(err)
	}
	if header != nil {
		req.Header = header
	}
	req.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	return b.read(b.c.Do(req))
}

func (b *browser) login() {
	b.t.Helper()
	key, err := operator.ReadKey(b.tr.dir)
	if err != nil {
		b.t.Fatal(err)
	}
	if status, page := b.post("/operator/", "/operator/login", url.Values{"key": {key.Reveal()}, "name": {"Bob"}}); status != 200 || !strings.Contains(page, "Bob, browser at 127.0.0.1") {
		b.t.Fatalf("login: %d %s", status, page)
	}
}

func TestOperatorPages(t *testing.T) {
	t.Parallel()
	c := &clock{}
	tr := startWith(t, c, Options{Data: t.TempDir(), Admission: standing.Approve})
	evil := `"><img src=x onerror=alert(1)>`
	n := tr.dial(newKey(), protocol.RoleNode, func(h *protocol.Hello) { h.Host = evil })
	expect[protocol.Welcome](n, protocol.MsgWelcome)
	n.report(4, 0, 4, func(s *protocol.ShardReport) { s.Capability.Name = evil })
	b := tr.browser()
	for _, path := range []string{"/operator/nodes", "/operator/log", "/operator/accounts", "/operator/none"} {
		if status, page := b.get(path); status != http.StatusUnauthorized || !strings.Contains(page, "Log in") {
			t.Errorf("%s without a login: %d", path, status)
		}
	}
	if status, _ := b.post("/operator/", "/operator/login", url.Values{"key": {"nop-wrong"}}); status != http.StatusUnauthorized {
		t.Errorf("a wrong key: %d", status)
	}
	b.login()
	u, _ := url.Parse(tr.URL() + "operator/")
	for _, c := range b.c.Jar.Cookies(u) {
		if strings.Contains(c.Name, "login") {
			t.Errorf("a login cookie stays")
		}
	}

	node := "/operator/nodes/" + string(n.id())
	var page string
	eventually(t, "the shard", func() bool { _, page = b.get(node); return strings.Contains(page, "onerror") })
	account := tr.own(n.key, newKey())
	if status, page := b.post("/operator/accounts", "/operator/accounts", url.Values{"name": {evil}}); status != 200 || !strings.Contains(page, "is made") {
		t.Errorf("new account: %d", status)
	}
	if status, _ := b.post(node, node+"/approve", url.Values{"reason": {evil}}); status != 200 {
		t.Errorf("approve: %d", status)
	}
	for _, path := range []string{
		"/operator/", "/operator/nodes", "/operator/nodes?q=" + url.QueryEscape(evil), "/operator/nodes?state=" + url.QueryEscape(evil), node, "/operator/models",
		"/operator/accounts", "/operator/accounts?q=" + url.QueryEscape(evil), "/operator/accounts/house", "/operator/accounts/" + string(account),
		"/operator/prices", "/operator/settings", "/operator/audits", "/operator/audits?before=2030-01-01T00:00:00Z", "/operator/log", "/operator/log?subject=" + url.QueryEscape(evil),
	} {
		status, page := b.get(path)
		if status != 200 || strings.Contains(page, "<img") || strings.Contains(page, "{{") || !strings.HasSuffix(strings.TrimSpace(page), "</html>") {
			t.Errorf("%s: %d", path, status)
		}
	}
	if status, page := b.get("/operator/" + url.PathEscape(evil)); status != 404 || strings.Contains(page, "<img") {
		t.Errorf("no such page: %d", status)
	}

	money := "/operator/accounts/" + string(account)
	if status, page := b.post(money, money+"/grant", url.Values{"amount": {"12.000001"}, "ref": {"r"}, "note": {evil}}); status != 200 || !strings.Contains(page, "12.000001") {
		t.Errorf("grant: %d", status)
	}
	status, page := b.post(money, money+"/grant", url.Values{"amount": {"1e9"}, "ref": {"s"}})
	if status != http.StatusBadRequest || !strings.Contains(page, "not an amount") {
		t.Errorf("a wrong amount: %d", status)
	}
	status, page = b.post(money, money+"/keys", url.Values{"name": {"k"}, "budget": {"0.5"}})
	secret := regexp.MustCompile(`nk-[a-z2-7]{8}-[a-z2-7]{52}`).FindString(page)
	if status != 200 || secret == "" {
		t.Errorf("new key: %d", status)
	}
	if _, page := b.get(money); strings.Contains(page, secret) || !strings.Contains(page, "of 0.500000") {
		t.Error("the key is shown twice, or not at all")
	}
	if status, _ := b.post("/operator/prices", "/operator/prices", url.Values{"version": {"2"}, "from": {c.Now().UTC().Add(48 * time.Hour).Format("2006-01-02T15:04")},
		"decode_per_mib": {"9"}, "prefill_ppm": {"1"}, "seed_per_mib": {"2"}, "fee_ppm": {"3"}}); status != 200 {
		t.Errorf("prices: %d", status)
	}

	// Forms of others do nothing.
	_, page = b.get(node)
	good := html.UnescapeString(csrfField.FindStringSubmatch(page)[1])
	for name, try := range map[string]struct {
		csrf   string
		header http.Header
	}{
		"no token": {"", http.Header{}}, "wrong token": {good[1:] + "A", http.Header{}}, "other site": {good, http.Header{"Sec-Fetch-Site": {"cross-site"}}},
		"other origin": {good, http.Header{"Origin": {"https://evil.example"}}}, "same computer": {good, http.Header{"Origin": {"http://127.0.0.1:1"}}},
	} {
		if status, _ := b.send(node+"/ban", url.Values{"csrf": {try.csrf}, "reason": {"x"}}, try.header); status != http.StatusForbidden {
			t.Errorf("%s: %d", name, status)
		}
	}
	// A page's token is no key, and a cookie is none for the API.
	if e := tr.opKey(good, "GET", "/nodes", nil, nil); e == nil || e.Code != protocol.CodeUnauthorized {
		t.Errorf("the token as a key: %v", e)
	}
	if status, _ := b.get("/v1/operator/nodes"); status != http.StatusUnauthorized {
		t.Errorf("the API by cookie: %d", status)
	}
	if r := tr.core.Standing(standing.Node(n.id())); r.State() != standing.StateApproved {
		t.Fatalf("a foreign form did something: %+v", r)
	}
	if status, page := b.send(node+"/ban", url.Values{"csrf": {good}, "reason": {"bye"}, "back": {"//evil.example/"}}, http.Header{"Origin": {strings.TrimSuffix(tr.URL(), "/")}}); status != 200 || !strings.Contains(page, "is banned") {
		t.Errorf("ban: %d", status)
	}
	n.expectRefused(protocol.CodeForbidden)

	// A new key ends all visits, and so do logout and time.
	if _, err := operator.RotateKey(tr.dir); err != nil {
		t.Fatal(err)
	}
	if status, _ := b.get("/operator/nodes"); status != http.StatusUnauthorized {
		t.Errorf("after the rotation: %d", status)
	}
	b.login()
	other := tr.browser()
	other.login()
	if status, _ := other.post("/operator/", "/operator/logout", url.Values{}); status != 200 {
		t.Errorf("logout: %d", status)
	}
	if status, _ := other.get("/operator/nodes"); status != http.StatusUnauthorized {
		t.Errorf("after logout: %d", status)
	}
	if status, _ := b.get("/operator/nodes"); status != 200 {
		t.Errorf("another's logout: %d", status)
	}
	c.Advance(12*time.Hour + time.Minute)
	if status, _ := b.get("/operator/nodes"); status != http.StatusUnauthorized {
		t.Errorf("after 12 h: %d", status)
	}
}

// TestOperatorKeyTries: few wrong keys are possible, and then no right one.
func TestOperatorKeyTries(t *testing.T) {
	t.Parallel()
	c := &clock{}
	tr := start(t, t.TempDir(), c)
	codes := map[protocol.Code]int{}
	for i := range 15 {
		e := tr.opKey(fmt.Sprint("nop-", i), "GET", "/nodes", nil, nil)
		codes[e.Code]++
	}
	if codes[protocol.CodeUnauthorized] != 10 || codes[protocol.CodeRateLimited] != 5 {
		t.Errorf("%v", codes)
	}
	if e := tr.op("GET", "/nodes", nil, nil); e == nil || e.Code != protocol.CodeRateLimited || e.Detail["retry_after"] == "" {
		t.Errorf("the right key after that: %v", e)
	}
	c.Advance(11 * time.Minute)
	tr.must("GET", "/nodes", nil, nil)
	if info, err := os.Stat(tr.dir.File(operator.KeyFile)); err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("%v %v", info.Mode(), err)
	}
}

func TestNodePages(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	var ids []protocol.NodeID
	for i := range 120 {
		id := idOf(newKey())
		ids = append(ids, id)
		if _, err := tr.core.store.NodeConnected(t.Context(), store.Node{ID: id, Role: protocol.RoleNode, Host: fmt.Sprintf("host-%03d", i), LastSeen: time.Now()}); err != nil {
			t.Fatal(err)
		}
	}
	on := tr.node(newKey(), 4, 0, 4)
	seen := map[protocol.NodeID]bool{}
	for page := 1; page <= 3; page++ {
		var p operator.NodePage
		tr.must("GET", fmt.Sprint("/nodes?page=", page), nil, &p)
		if p.Total != 121 || p.Pages != 3 || p.Page != page || page == 1 && p.Nodes[0].Node != on.id() {
			t.Errorf("page %+v", p)
		}
		for _, n := range p.Nodes {
			seen[n.Node] = true
		}
	}
	if len(seen) != 121 {
		t.Errorf("%d nodes on all pages", len(seen))
	}
	var p operator.NodePage
	tr.must("GET", "/nodes?q=HOST-01&page=99", nil, &p)
	if p.Total != 10 {
		t.Errorf("%d found", p.Total)
	}
	tr.must("GET", "/nodes?q="+string(ids[7])[:20], nil, &p)
	if p.Total != 1 || p.Nodes[0].Node != ids[7] {
		t.Errorf("by id: %+v", p)
	}
	tr.refused(protocol.CodeNotFound, "GET", "/nodes/"+string(ids[7])[:3], nil) // too short
	tr.refused(protocol.CodeInvalidRequest, "GET", "/nodes?page=x", nil)
	stranger := idOf(newKey())
	tr.stand(stranger, "ban", "before it comes")
	tr.must("GET", "/nodes?state=banned", nil, &p)
	if p.Total != 1 || p.Nodes[0].Node != stranger {
		t.Errorf("banned: %+v", p)
	}
}
