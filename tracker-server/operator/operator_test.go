package operator

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/datadir"
	"neuron/tracker-server/store"
)

func wantCode(t *testing.T, err error, c protocol.Code) {
	t.Helper()
	if !isCode(err, c) {
		t.Errorf("got %v, want %s", err, c)
	}
}

func TestAmount(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]Amount{
		"0": 0, "1": 1e6, "12.5": 12_500_000, " 0.000001 ": 1, "007": 7e6, "1.000000": 1e6, "9223372036854.775806": 9223372036854775806,
	} {
		if got, err := ParseAmount(text); err != nil || got != want {
			t.Errorf("%q: %d, %v", text, got, err)
		}
	}
	for _, text := range []string{"", "-1", "+1", "1e3", ".5", "1.", "1.0000001", "1,5", "0x1", "1 000", "9223372036854.775808", "99999999999999999999", "١"} {
		if got, err := ParseAmount(text); err == nil {
			t.Errorf("%q is %d", text, got)
		}
	}
	for want, a := range map[string]Amount{"0": 0, "1": 1e6, "1.5": 1_500_000, "0.000001": 1} {
		if a.String() != want {
			t.Errorf("%d is %s", a, a)
		}
	}
	var in struct {
		A Amount  `json:"a"`
		B *Amount `json:"b"`
	}
	if err := json.Unmarshal([]byte(`{"a":1500000}`), &in); err != nil || in.A != 1_500_000 || in.B != nil {
		t.Errorf("%+v, %v", in, err)
	}
	for _, bad := range []string{`{"a":"1"}`, `{"a":1.5}`, `{"a":9223372036854775808}`} {
		if json.Unmarshal([]byte(bad), &in) == nil {
			t.Errorf("%s was read", bad)
		}
	}
}

func FuzzAmount(f *testing.F) {
	for _, s := range []string{"12.5", "0.000001", "-1", "1e9", "9223372036854.775806", " 1 "} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		a, err := ParseAmount(s)
		if err != nil {
			if !errors.Is(err, &protocol.Error{Code: protocol.CodeInvalidRequest}) {
				t.Fatal(err)
			}
			return
		}
		if a < 0 {
			t.Fatalf("%q is %d", s, a)
		}
		for _, text := range []string{a.String(), store.Credit(a).String()} {
			if b, err := ParseAmount(text); err != nil || b != a {
				t.Fatalf("%q: %d is %s is %d, %v", s, a, text, b, err)
			}
		}
	})
}

// form is all kinds of fields that inputs have.
type form struct {
	ID    string    `path:"id"`
	Name  string    `json:"name"`
	N     int64     `json:"n"`
	On    bool      `json:"on"`
	Money Amount    `json:"money"`
	Maybe *Amount   `json:"maybe"`
	When  time.Time `json:"when"`
	List  []string  `json:"list"`
}

func FuzzForm(f *testing.F) {
	f.Add("name=+a+&n=7&on=true&money=1.5&maybe=2&when=2027-01-31T18:00&list=a%0Ab")
	f.Add("n=x")
	f.Add("when=2027-01-31+18:00:00&maybe=")
	f.Add("money=-1")
	f.Fuzz(func(t *testing.T, s string) {
		q, err := url.ParseQuery(s)
		if err != nil {
			return
		}
		r := httptest.NewRequest("POST", "/", nil)
		r.SetPathValue("id", "x")
		var v form
		if err := fill(r, &v, q.Get); err != nil {
			if !errors.Is(err, &protocol.Error{Code: protocol.CodeInvalidRequest}) {
				t.Fatalf("%q: %v", s, err)
			}
			return
		}
		if v.ID != "x" || v.Money < 0 || v.Maybe != nil && *v.Maybe < 0 || v.Name != strings.TrimSpace(q.Get("name")) {
			t.Fatalf("%q: %+v", s, v)
		}
	})
}

func TestForm(t *testing.T) {
	t.Parallel()
	q, _ := url.ParseQuery("name=+a+&n=7&on=true&money=1.5&maybe=2&when=2027-01-31T18:00&list=a%0Ab")
	r := httptest.NewRequest("POST", "/", nil)
	r.SetPathValue("id", "x")
	var v form
	if err := fill(r, &v, q.Get); err != nil {
		t.Fatal(err)
	}
	if v.ID != "x" || v.Name != "a" || v.N != 7 || !v.On || v.Money != 1_500_000 || *v.Maybe != 2_000_000 || !v.When.Equal(time.Date(2027, 1, 31, 18, 0, 0, 0, time.UTC)) || fmt.Sprint(v.List) != "[a b]" {
		t.Errorf("%+v", v)
	}
	for _, s := range []string{"n=x", "money=x", "maybe=-1", "when=tomorrow"} {
		q, _ := url.ParseQuery(s)
		wantCode(t, fill(r, &form{}, q.Get), protocol.CodeInvalidRequest)
	}
}

func TestKeyFile(t *testing.T) {
	t.Parallel()
	d, err := datadir.Share(t.TempDir(), true)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := ReadKey(d); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
	a, err := LoadOrCreateKey(d)
	if err != nil || len(a.Reveal()) != len(keyPrefix)+keyChars {
		t.Fatal(a.Reveal(), err)
	}
	if b, err := LoadOrCreateKey(d); err != nil || b != a {
		t.Errorf("a second look: %v", err)
	}
	b, err := RotateKey(d)
	if err != nil || b == a {
		t.Errorf("rotated: %v", err)
	}
	if c, err := ReadKey(d); err != nil || c != b {
		t.Errorf("read: %v", err)
	}
	for name, raw := range map[string]string{"empty": "", "short": "nop-abc", "other": strings.Repeat("x", 56), "huge": strings.Repeat("x", 5000)} {
		if err := os.WriteFile(d.File(KeyFile), []byte(raw), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, err := LoadOrCreateKey(d); !isCode(err, protocol.CodeDataFolder) {
			t.Errorf("%s: %v", name, err)
		}
	}
}

func TestTries(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	tr := tries{now: func() time.Time { return now }}
	for range perSource {
		if err := tr.check("10.0.0.1"); err != nil {
			t.Fatal(err)
		}
		tr.failed("10.0.0.1")
	}
	wantCode(t, tr.check("10.0.0.1"), protocol.CodeRateLimited)
	if err := tr.check("10.0.0.2"); err != nil {
		t.Error(err)
	}
	for i := range perAll {
		tr.failed(fmt.Sprint("10.1.", i/200, ".", i%200))
	}
	wantCode(t, tr.check("10.0.0.2"), protocol.CodeRateLimited)
	if err := tr.check("127.0.0.1"); err != nil {
		t.Errorf("this computer is locked out by others: %v", err)
	}
	for i := range 10 * perAll {
		tr.failed(fmt.Sprint(i))
	}
	if len(tr.seen) > 3*perAll {
		t.Errorf("%d sources are kept", len(tr.seen))
	}
	now = now.Add(triesFor)
	if err := tr.check("10.0.0.1"); err != nil {
		t.Errorf("after a while: %v", err)
	}
}

func TestSource(t *testing.T) {
	t.Parallel()
	for remote, want := range map[string]string{
		"10.1.2.3:5": "10.1.2.3", "[2001:db8:1:2:3:4:5:6]:7": "2001:db8:1:2::", "[::1]:7": "::1", "[::ffff:10.1.2.3]:7": "10.1.2.3", "odd": "odd",
	} {
		r := httptest.NewRequest("GET", "/", nil)
		r.RemoteAddr = remote
		if got := source(r); got != want {
			t.Errorf("%s: %s", remote, got)
		}
	}
	r := httptest.NewRequest("GET", "/", nil)
	r.RemoteAddr = "10.1.2.3:5"
	for name, want := range map[string]string{
		"": "browser at 10.1.2.3", " Ada\n\x1b[31m ": "Ada[31m, browser at 10.1.2.3", strings.Repeat("ü", 100): strings.Repeat("ü", 30) + ", browser at 10.1.2.3",
		"\xff": "browser at 10.1.2.3",
	} {
		if got := who(name, "browser", r); got != want {
			t.Errorf("%q: %q", name, got)
		}
	}
}

func TestSessions(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 0)
	l := logins{now: func() time.Time { return now }, open: map[[32]byte]*session{}}
	key := sum("k")
	first := l.start(key, "first")
	for i := range maxSessions + 5 {
		now = now.Add(time.Second)
		l.start(key, fmt.Sprint(i))
	}
	if len(l.open) != maxSessions {
		t.Errorf("%d sessions", len(l.open))
	}
	r := httptest.NewRequest("GET", "/operator/", nil)
	r.Header.Set("Cookie", cookieName+"="+first)
	if l.find(r, key) != nil {
		t.Error("the oldest one made no room")
	}
	token := l.start(key, "me")
	r.Header.Set("Cookie", cookieName+"="+token)
	if s := l.find(r, key); s == nil || s.by != "me" {
		t.Error("not found")
	}
	if l.find(r, sum("rotated")) != nil || l.find(r, key) != nil {
		t.Error("a session outlives its key")
	}
}

func TestBackStaysHere(t *testing.T) {
	t.Parallel()
	for to, want := range map[string]string{
		"/operator/nodes?q=x": "/operator/nodes?q=x", "": "/operator/", "https://evil.example/": "/operator/", "//evil.example/": "/operator/",
		"/operator//evil.example": "/operator/", "/operator/\\evil": "/operator/", "/v1/operator/": "/operator/", "/operator/\r\nX: y": "/operator/",
	} {
		r := httptest.NewRequest("POST", "/operator/x", strings.NewReader(url.Values{"back": {to}}.Encode()))
		r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
		if err := r.ParseForm(); err != nil {
			t.Fatal(err)
		}
		if got := back(r); got != want {
			t.Errorf("%q: %q", to, got)
		}
	}
}

func TestLaterSplit(t *testing.T) {
	t.Parallel()
	for name, want := range map[string]bool{
		"a.gguf": false, "a-00001-of-00004.gguf": false, "a-00002-of-00004.gguf": true, "A-00002-OF-00004.GGUF": true, "best-of-all.gguf": false, "-of-.gguf": false,
	} {
		if laterSplit("/x/"+name) != want {
			t.Errorf("%s: not %t", name, want)
		}
	}
}

func TestPick(t *testing.T) {
	t.Parallel()
	all := map[protocol.NodeID]int{"abcde1": 0, "abcde2": 0, "xyzxyz": 0, "ab": 0}
	for short, want := range map[string]protocol.NodeID{"abcde1": "abcde1", "xyzx": "xyzxyz", "ab": "ab"} {
		if got, err := pick(short, "node", all); err != nil || got != want {
			t.Errorf("%s: %s, %v", short, got, err)
		}
	}
	for short, code := range map[string]protocol.Code{"abcde": protocol.CodeConflict, "xyz": protocol.CodeNotFound, "": protocol.CodeNotFound, "nope": protocol.CodeNotFound} {
		_, err := pick(short, "node", all)
		wantCode(t, err, code)
	}
}

// TestCookies: no script reads them, no other site sends them, and over TLS they
// never leave it.
func TestCookies(t *testing.T) {
	t.Parallel()
	a := &Area{cfg: Config{SecureHost: "tracker.example"}}
	for url, secure := range map[string]bool{
		"https://10.0.0.1/operator/": true, "http://10.0.0.1/operator/": false, "http://tracker.example/operator/": true,
	} {
		r, w := httptest.NewRequest("GET", url, nil), httptest.NewRecorder()
		a.setCookie(w, r, cookieName, "x", 60)
		c := w.Result().Cookies()[0]
		if c.Secure != secure || !c.HttpOnly || c.SameSite != http.SameSiteStrictMode || c.Path != "/operator/" || c.MaxAge != 60 {
			t.Errorf("%s: %+v", url, c)
		}
	}
}
