package signed

import (
	"bytes"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
)

var t0 = time.UnixMilli(1_800_000_000_123)

func testKey(i int) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{byte(i), byte(i >> 8)}, 16))
}

func pub(k ed25519.PrivateKey) ed25519.PublicKey { return k.Public().(ed25519.PublicKey) }

var tracker = pub(testKey(200))

func request(t testing.TB, method, target, body string, key int, at time.Time) *http.Request {
	t.Helper()
	r := httptest.NewRequest(method, target, strings.NewReader(body))
	SignAt(r, []byte(body), testKey(key), tracker, at)
	return r
}

func verifier(now *time.Time) *Verifier {
	return NewVerifier(Options{Audience: tracker, Now: func() time.Time { return *now }})
}

func wantCode(t *testing.T, err error, c protocol.Code) {
	t.Helper()
	if !errors.Is(err, &protocol.Error{Code: c}) {
		t.Errorf("got %v, want code %s", err, c)
	}
}

// TestBound: the signature is worth nothing for any other request.
func TestBound(t *testing.T) {
	t.Parallel()
	now := t0
	v := verifier(&now)
	base := func() *http.Request { return request(t, "POST", "/v1/a%2Fb?x=1&y=", `{"a":1}`, 1, now) }
	for name, change := range map[string]func(r *http.Request, body *string){
		"method":      func(r *http.Request, _ *string) { r.Method = "PUT" },
		"path":        func(r *http.Request, _ *string) { r.URL.Path, r.URL.RawPath = "/v1/b", "" },
		"spelling":    func(r *http.Request, _ *string) { r.URL.RawPath = "" },
		"query":       func(r *http.Request, _ *string) { r.URL.RawQuery = "x=2&y=" },
		"order":       func(r *http.Request, _ *string) { r.URL.RawQuery = "y=&x=1" },
		"body":        func(_ *http.Request, b *string) { *b = `{"a":2}` },
		"no body":     func(_ *http.Request, b *string) { *b = "" },
		"other key":   func(r *http.Request, _ *string) { swap(r, func(a *auth) { copy(a.key[:], pub(testKey(2))) }) },
		"time":        func(r *http.Request, _ *string) { swap(r, func(a *auth) { a.at++ }) },
		"nonce":       func(r *http.Request, _ *string) { swap(r, func(a *auth) { a.nonce[0] ^= 1 }) },
		"signature":   func(r *http.Request, _ *string) { swap(r, func(a *auth) { a.sig[63] ^= 1 }) },
		"two headers": func(r *http.Request, _ *string) { r.Header.Add("Authorization", r.Header.Get("Authorization")) },
		"no header":   func(r *http.Request, _ *string) { r.Header.Del("Authorization") },
		"audience": func(r *http.Request, _ *string) {
			SignAt(r, []byte(`{"a":1}`), testKey(1), pub(testKey(201)), now)
		},
	} {
		r, body := base(), `{"a":1}`
		change(r, &body)
		if key, err := v.Verify(r, []byte(body)); !errors.Is(err, &protocol.Error{Code: protocol.CodeUnauthorized}) {
			t.Errorf("%s: %x, %v", name, key, err)
		}
	}
	key, err := v.Verify(base(), []byte(`{"a":1}`))
	if err != nil || !key.Equal(pub(testKey(1))) {
		t.Errorf("%x, %v", key, err)
	}
	_, err = v.Verify(base(), make([]byte, MaxBody+1))
	wantCode(t, err, protocol.CodeRequestTooLarge)
	long := request(t, "GET", "/"+strings.Repeat("a", maxTarget), "", 1, now)
	_, err = v.Verify(long, nil)
	wantCode(t, err, protocol.CodeRequestTooLarge)
}

// swap changes the header without signing again.
func swap(r *http.Request, f func(*auth)) {
	a, err := parse(r.Header.Get("Authorization"))
	if err != nil {
		panic(err)
	}
	f(a)
	r.Header.Set("Authorization", a.String())
}

func TestTime(t *testing.T) {
	t.Parallel()
	now := t0.Add(-time.Hour)
	v := verifier(&now)
	now = t0
	for off, ok := range map[time.Duration]bool{
		0: true, Window: true, -Window: true, Window + time.Millisecond: false, -Window - time.Millisecond: false,
		time.Hour: false, -time.Hour: false, 1e6 * time.Hour: false,
	} {
		_, err := v.Verify(request(t, "GET", "/a", "", 1, t0.Add(off)), nil)
		if ok != (err == nil) {
			t.Errorf("%s off: %v", off, err)
		}
		if !ok {
			if skew, found := Skew(err, t0.Add(off)); !found || skew != -off {
				t.Errorf("%s off: told %s, %v", off, skew, found)
			}
		}
	}
	if _, found := Skew(errReplay, t0); found {
		t.Error("a replay tells a time to try again with")
	}
	if _, found := Skew(nil, t0); found {
		t.Error("no error tells a time")
	}
}

func TestReplay(t *testing.T) {
	t.Parallel()
	now := t0
	v := verifier(&now)
	r := request(t, "POST", "/a", "x", 1, now.Add(Window))
	if _, err := v.Verify(r, []byte("x")); err != nil {
		t.Fatal(err)
	}
	// For as long as its time is good, and after.
	for range 13 {
		_, err := v.Verify(r, []byte("x"))
		wantCode(t, err, protocol.CodeUnauthorized)
		now = now.Add(time.Minute)
	}
	// Requests of the same millisecond are told apart.
	for range 3 {
		if _, err := v.Verify(request(t, "POST", "/a", "x", 1, now), []byte("x")); err != nil {
			t.Error(err)
		}
	}
	// A restart forgets what came, so nothing older is taken.
	again := verifier(&now)
	_, err := again.Verify(request(t, "GET", "/a", "", 1, now.Add(-time.Millisecond)), nil)
	if skew, ok := Skew(err, now); !ok || skew.Round(time.Millisecond).Abs() > time.Millisecond {
		t.Errorf("after a restart: %v", err)
	}
	if _, err := again.Verify(request(t, "GET", "/a", "", 1, now), nil); err != nil {
		t.Error(err)
	}
}

// TestReplayProperty: of each signed request exactly one try in any order of
// many is taken or none, whatever else is forgotten meanwhile.
func TestReplayProperty(t *testing.T) {
	t.Parallel()
	now := t0
	v := verifier(&now)
	var sent []*http.Request
	taken := make(map[string]int)
	state := uint64(42)
	random := func(n int) int {
		state = state*6364136223846793005 + 1442695040888963407
		return int(state>>33) % n
	}
	good := 0
	for range 6000 {
		var r *http.Request
		if random(3) == 0 && len(sent) > 0 {
			r = sent[random(len(sent))]
		} else {
			r = request(t, "GET", "/a", "", random(5), now.Add(time.Duration(random(600_000)-300_000)*time.Millisecond))
			sent = append(sent, r)
		}
		if _, err := v.Verify(r, nil); err == nil {
			taken[r.Header.Get("Authorization")]++
			good++
		}
		now = now.Add(time.Duration(random(2000)) * time.Millisecond)
		if random(500) == 0 {
			v.nonces.mu.Lock()
			v.nonces.sweepLocked(now.UnixMilli())
			v.nonces.mu.Unlock()
		}
	}
	for h, n := range taken {
		if n > 1 {
			t.Fatalf("%s was taken %d times", h, n)
		}
	}
	if good < 2000 {
		t.Errorf("only %d requests were taken", good)
	}
	for _, s := range v.nonces.keys {
		if len(s.requests) > perKey || cap(s.requests) > perKey {
			t.Errorf("%d requests of one key are held", len(s.requests))
		}
	}
}

// TestOneKeyCostsNobody: a key that floods loses its own oldest requests, and
// nobody else's.
func TestOneKeyCostsNobody(t *testing.T) {
	t.Parallel()
	now := t0
	v := verifier(&now)
	quiet := request(t, "GET", "/a", "", 1, now)
	if _, err := v.Verify(quiet, nil); err != nil {
		t.Fatal(err)
	}
	var flood []*http.Request
	for i := range 10 * perKey {
		r := request(t, "GET", "/a", "", 2, now.Add(time.Duration(i)*time.Millisecond))
		flood = append(flood, r)
		if _, err := v.Verify(r, nil); err != nil {
			t.Fatal(i, err)
		}
	}
	for _, r := range append(flood, quiet) {
		if _, err := v.Verify(r, nil); err == nil {
			t.Fatal("a replay was taken")
		}
	}
	if _, err := v.Verify(request(t, "GET", "/a", "", 1, now), nil); err != nil {
		t.Error(err)
	}
	// The flooding key goes on with newer times.
	if _, err := v.Verify(request(t, "GET", "/a", "", 2, now.Add(time.Second)), nil); err != nil {
		t.Error(err)
	}
}

// TestManyKeys: strangers fill their half; keys that belong to somebody, and
// keys that came before, go on; everything is bounded, and room comes back.
func TestManyKeys(t *testing.T) {
	t.Parallel()
	now := t0
	v := verifier(&now)
	member := pub(testKey(7))
	v.o.Known = func(_ *http.Request, key ed25519.PublicKey) bool { return key.Equal(member) }
	early := request(t, "GET", "/a", "", 1, now)
	if _, err := v.Verify(early, nil); err != nil {
		t.Fatal(err)
	}
	for i := range 2 * maxKeys {
		a := &auth{at: now.UnixMilli()}
		copy(a.key[:], fmt.Sprintf("stranger %d", i))
		_ = v.nonces.take(a.at, a, func() bool { return false })
	}
	if n := len(v.nonces.keys); n != maxStrangers {
		t.Errorf("strangers fill %d places", n)
	}
	_, err := v.Verify(request(t, "GET", "/a", "", 2, now), nil)
	wantCode(t, err, protocol.CodeRateLimited)
	for _, key := range []int{1, 7} {
		if _, err := v.Verify(request(t, "GET", "/a", "", key, now), nil); err != nil {
			t.Errorf("key %d: %v", key, err)
		}
	}
	for i := range 2 * maxKeys {
		a := &auth{at: now.UnixMilli()}
		copy(a.key[:], fmt.Sprintf("member %d", i))
		_ = v.nonces.take(a.at, a, func() bool { return true })
	}
	if n := len(v.nonces.keys); n != maxKeys {
		t.Errorf("%d places are taken", n)
	}
	_, err = v.Verify(early, nil)
	wantCode(t, err, protocol.CodeUnauthorized)
	now = now.Add(Window + time.Second)
	if _, err := v.Verify(request(t, "GET", "/a", "", 2, now), nil); err != nil {
		t.Error(err)
	}
	if n := len(v.nonces.keys); n != 1 {
		t.Errorf("%d keys are held after their time", n)
	}
	// A clock that goes back does not bring old requests back.
	now = t0
	_, err = v.Verify(early, nil)
	wantCode(t, err, protocol.CodeUnauthorized)
}

func TestConcurrent(t *testing.T) {
	t.Parallel()
	v := NewVerifier(Options{Audience: tracker})
	r := httptest.NewRequest("GET", "/a", http.NoBody)
	Sign(r, nil, testKey(1), tracker)
	var mu sync.Mutex
	taken := 0
	var wg sync.WaitGroup
	for range 16 {
		wg.Go(func() {
			if _, err := v.Verify(r, nil); err == nil {
				mu.Lock()
				taken++
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if taken != 1 {
		t.Errorf("one request was taken %d times", taken)
	}
}

// TestOverHTTP sends requests over a real connection, with a client whose clock
// is wrong by an hour.
func TestOverHTTP(t *testing.T) {
	t.Parallel()
	v := NewVerifier(Options{Audience: tracker})
	srv := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		key, body, err := v.Read(w, r)
		if e := protocol.AsError(err); e != nil {
			w.WriteHeader(e.Code.HTTPStatus())
			_ = json.NewEncoder(w).Encode(e)
			return
		}
		fmt.Fprintf(w, `{"node": %q, "body": %q, "query": %q}`, protocol.NodeIDOf(key), body, r.URL.RawQuery)
	}))
	defer srv.Close()
	c := &Client{HTTP: srv.Client(), Key: testKey(1), Audience: tracker, Now: func() time.Time { return time.Now().Add(time.Hour) }}
	var out struct{ Node, Body, Query string }
	for range 2 {
		if err := c.Do(t.Context(), "POST", srv.URL+"/v1/x?a=b%20c", map[string]int{"n": 1}, &out); err != nil {
			t.Fatal(err)
		}
		if out.Node != string(protocol.NodeIDOf(pub(testKey(1)))) || out.Body != `{"n":1}` || out.Query != "a=b%20c" {
			t.Errorf("%+v", out)
		}
	}
	var raw []byte
	if err := c.Do(t.Context(), "GET", srv.URL, nil, &raw); err != nil || !bytes.HasPrefix(raw, []byte(`{"node"`)) {
		t.Errorf("%s, %v", raw, err)
	}
	wantCode(t, c.Do(t.Context(), "POST", srv.URL, strings.Repeat("x", MaxBody), nil), protocol.CodeRequestTooLarge)
	other := &Client{HTTP: srv.Client(), Key: testKey(1), Audience: pub(testKey(9))}
	wantCode(t, other.Do(t.Context(), "GET", srv.URL+"/a", nil, nil), protocol.CodeUnauthorized)
	// A body above the limit is refused without being read.
	req, _ := http.NewRequest("POST", srv.URL+"/a", io.LimitReader(zeros{}, 10<<20))
	Sign(req, nil, testKey(1), tracker)
	res, err := srv.Client().Do(req)
	if err == nil {
		res.Body.Close()
		if res.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("a large body: %s", res.Status)
		}
	}
	gone := &Client{HTTP: srv.Client(), Key: testKey(1), Audience: tracker}
	srv.Close()
	wantCode(t, gone.Do(t.Context(), "GET", srv.URL+"/a", nil, nil), protocol.CodeUnavailable)
}

type zeros struct{}

func (zeros) Read(p []byte) (int, error) { clear(p); return len(p), nil }

func FuzzHeader(f *testing.F) {
	r := request(f, "GET", "/a", "", 1, t0)
	f.Add(r.Header.Get("Authorization"))
	f.Add("Neuron key=, at=1, nonce=, sig=")
	f.Add("Bearer nk-aaaaaaaa")
	f.Fuzz(func(t *testing.T, h string) {
		a, err := parse(h)
		if err != nil {
			if !errors.Is(err, &protocol.Error{Code: protocol.CodeUnauthorized}) {
				t.Errorf("%v", err)
			}
			return
		}
		if a.String() != h {
			t.Errorf("%q is read as %q", h, a)
		}
	})
}
