package accounts

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/owner"
	"neuron/internal/signed"
)

func key(i byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{i}, ed25519.SeedSize))
}

func pub(i byte) ed25519.PublicKey { return key(i).Public().(ed25519.PublicKey) }

const trackerKey = 200

// tracker answers each path with a status and a body, and verifies signatures.
type tracker struct {
	*httptest.Server
	status int
	body   string
	seen   []string
	by     ed25519.PublicKey
}

func newTracker(t *testing.T) (*tracker, *Client) {
	t.Helper()
	tr := &tracker{status: 200, body: "{}"}
	v := signed.NewVerifier(signed.Options{Audience: pub(trackerKey)})
	tr.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		by, body, err := v.Read(w, r)
		if err != nil {
			t.Errorf("%s %s: %v", r.Method, r.URL, err)
		}
		tr.by, tr.seen = by, append(tr.seen, r.Method+" "+r.URL.RequestURI()+" "+string(body))
		w.WriteHeader(tr.status)
		io.WriteString(w, tr.body)
	}))
	t.Cleanup(tr.Close)
	c := New(Options{URL: tr.URL, TrackerKey: func() ed25519.PublicKey { return pub(trackerKey) }})
	t.Cleanup(c.Close)
	return tr, c
}

func code(err error) protocol.Code {
	if err == nil {
		return ""
	}
	return protocol.AsError(err).Code
}

// TestRequests: what is asked, and by which key it is signed.
func TestRequests(t *testing.T) {
	t.Parallel()
	tr, c := newTracker(t)
	ctx := t.Context()
	secret := "nk-abcdefgh-" + strings.Repeat("a", 52)
	b := owner.NewBinding(pub(1), pub(2), time.Unix(1_800_000_000, 0))
	b.SignNode(key(1))
	offered, _ := json.Marshal(Offered{Binding: b, Node: b.Node(), Info: &NodeInfo{Host: "4 \x1b[31mcores"}})
	lookup, _ := json.Marshal(Lookup{OwnerKey: pub(2), Owner: owner.IDOf(pub(2))})
	for _, x := range []struct {
		want, body string
		do         func() error
	}{
		{"POST /v1/owners/bind {", "{}", func() error { return c.Bind(ctx, key(1), b) }},
		{"POST /v1/owners/release {", "{}", func() error {
			return c.Release(ctx, key(1), owner.SignRelease(pub(1), pub(2), time.Now(), key(1)))
		}},
		{"GET /v1/account ", `{"account":"` + string(owner.IDOf(pub(2))) + `"}`, func() error {
			id, err := c.OwnerOf(ctx, key(1))
			if id != owner.IDOf(pub(2)) {
				t.Errorf("owner %s", id)
			}
			return err
		}},
		{"POST /v1/pairing {}", `{"code":"ABCD2345"}`, func() error { _, err := c.StartPairing(ctx, key(1)); return err }},
		{`POST /v1/pairing/lookup {"code":"ABCD"}`, string(lookup), func() error { _, err := c.Lookup(ctx, key(1), "ABCD"); return err }},
		{`POST /v1/pairing/offer {"code":"ABCD","binding":{`, "{}", func() error { return c.Offer(ctx, key(1), "ABCD", b) }},
		{`POST /v1/pairing/offered {"code":"ABCD"}`, string(offered), func() error {
			o, err := c.Offered(ctx, key(1), "ABCD")
			if err == nil && o.Info.Host != "4 [31mcores" {
				t.Errorf("%q", o.Info.Host)
			}
			return err
		}},
		{`POST /v1/pairing/confirm {"code":"ABCD","binding":{`, "{}", func() error { return c.Confirm(ctx, key(1), "ABCD", b) }},
		{"GET /v1/account/earnings?format=json&since=2027-01-01 ", "{}", func() error { _, err := c.Earnings(ctx, key(1), Query{Since: "2027-01-01"}); return err }},
		{"GET /v1/account/statement?book=held%2Cpending&format=json&limit=7 ", "{}", func() error { _, err := c.Statement(ctx, key(1), Query{Book: "held,pending", Limit: 7}); return err }},
		{"GET /v1/account/statement?format=csv ", "a,b\r\n", func() error {
			raw, err := c.StatementCSV(ctx, key(1), Query{})
			if string(raw) != "a,b\r\n" {
				t.Errorf("%q", raw)
			}
			return err
		}},
		{"GET /v1/account/keys ", `{"keys":[]}`, func() error { _, err := c.Keys(ctx, key(1)); return err }},
		{`POST /v1/account/keys {"name":"n","limits":{"budget":1,"budget_day":0,"per_minute":2}}`, `{"secret":"` + secret + `"}`, func() error {
			_, err := c.CreateKey(ctx, key(1), "n", Limits{Budget: 1, PerMinute: 2})
			return err
		}},
		{`POST /v1/account/keys/a%2Fb/limits {"budget":0,`, "{}", func() error { _, err := c.LimitKey(ctx, key(1), "a/b", Limits{}); return err }},
		{"DELETE /v1/account/keys/nk-a ", "{}", func() error { _, err := c.RevokeKey(ctx, key(1), "nk-a"); return err }},
		{"GET /v1/prices ", "{}", func() error { _, err := c.Prices(ctx, key(1)); return err }},
	} {
		tr.body = x.body
		if err := x.do(); err != nil {
			t.Errorf("%s: %v", x.want, err)
		}
		if got := tr.seen[len(tr.seen)-1]; !strings.HasPrefix(got, x.want) || !tr.by.Equal(pub(1)) {
			t.Errorf("asked %s, want %s", got, x.want)
		}
	}
}

// TestAnswers: what the tracker says is checked before anything uses it.
func TestAnswers(t *testing.T) {
	t.Parallel()
	tr, c := newTracker(t)
	ctx := t.Context()
	account := func() error { _, err := c.Account(ctx, key(1)); return err }
	for _, x := range []struct {
		status int
		body   string
		want   protocol.Code
		do     func() error
	}{
		{404, `{"code":"not_found","message":"no account"}`, protocol.CodeNotFound, account},
		{404, `{"code":"not_found","message":"no account"}`, "", func() error { id, err := c.OwnerOf(ctx, key(1)); return errors.Join(err, text(string(id))) }},
		{502, `<html>`, protocol.CodeUnavailable, account},
		{302, ``, protocol.CodeUnavailable, account},
		{200, `<html>`, protocol.CodeInternal, account},
		{200, `{"nodes":[{"node":"x"}]}`, protocol.CodeUnavailable, account},
		{200, `{"nodes":[{"node":"` + string(protocol.NodeIDOf(pub(1))) + `","node_key":"AAAA"}]}`, protocol.CodeUnavailable, account},
		{200, `{"account":"me"}`, protocol.CodeInvalidRequest, func() error { _, err := c.OwnerOf(ctx, key(1)); return err }},
		{200, `{"owner":"o-x"}`, protocol.CodeUnavailable, func() error { _, err := c.Lookup(ctx, key(1), "x"); return err }},
		{200, `{"waiting":false}`, protocol.CodeUnavailable, func() error { _, err := c.Offered(ctx, key(1), "x"); return err }},
		{200, `{"binding":{"node_key":"AAAA"}}`, protocol.CodeUnavailable, func() error { _, err := c.Offered(ctx, key(1), "x"); return err }},
		{201, `{"secret":"short"}`, protocol.CodeUnavailable, func() error { _, err := c.CreateKey(ctx, key(1), "x", Limits{}); return err }},
	} {
		tr.status, tr.body = x.status, x.body
		if err := x.do(); code(err) != x.want {
			t.Errorf("%d %s: %v, want %s", x.status, x.body, err, x.want)
		}
	}
	tr.status, tr.body = 400, `{"code":"invalid_request","message":"a\u001b[2J`+strings.Repeat("x", 1000)+`"}`
	if err := account(); err == nil || len(err.Error()) > 500 || strings.Contains(err.Error(), "\x1b") {
		t.Errorf("%v", err)
	}
	gone, stop := context.WithCancel(ctx)
	stop()
	if _, err := c.Account(gone, key(1)); code(err) != protocol.CodeCancelled {
		t.Errorf("%v", err)
	}
	unknown := New(Options{URL: tr.URL, TrackerKey: func() ed25519.PublicKey { return nil }})
	before := len(tr.seen)
	if _, err := unknown.Account(ctx, key(1)); code(err) != protocol.CodeUnavailable || len(tr.seen) != before {
		t.Errorf("signed for a tracker that is not known: %v", err)
	}
}

// text is an error for a text that should be empty.
func text(s string) error {
	if s != "" {
		return errors.New(s)
	}
	return nil
}

// TestClock: a computer whose clock is wrong gets its answer all the same.
func TestClock(t *testing.T) {
	t.Parallel()
	tr, _ := newTracker(t)
	v := signed.NewVerifier(signed.Options{Audience: pub(trackerKey)})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if _, _, err := v.Read(w, r); err != nil {
			w.WriteHeader(401)
			json.NewEncoder(w).Encode(protocol.AsError(err))
			return
		}
		io.WriteString(w, tr.body)
	}))
	defer srv.Close()
	c := New(Options{URL: srv.URL, TrackerKey: func() ed25519.PublicKey { return pub(trackerKey) }, Now: func() time.Time { return time.Now().Add(-3 * time.Hour) }})
	defer c.Close()
	for range 2 {
		if _, err := c.Account(t.Context(), key(1)); err != nil {
			t.Error(err)
		}
	}
}

func FuzzClean(f *testing.F) {
	f.Add("a\x1b[2Jb", 3)
	f.Add("é\xff\u0085", 1)
	f.Fuzz(func(t *testing.T, s string, limit int) {
		limit = max(limit, 0)
		out := Clean(s, limit)
		if len(out) > limit || strings.ContainsFunc(out, func(r rune) bool { return r < ' ' || r == 0x7f || r >= 0x80 && r < 0xa0 }) {
			t.Errorf("%q became %q", s, out)
		}
	})
}

func FuzzCheckKey(f *testing.F) {
	f.Add("nk-abcdefgh-" + strings.Repeat("a", 52))
	f.Add("nk-")
	f.Fuzz(func(t *testing.T, s string) {
		if CheckKey(s) == nil && (len(s) != 64 || strings.ContainsAny(s, " \r\n\t\"")) {
			t.Errorf("%q passes", s)
		}
	})
}
