package announce

import (
	"bytes"
	"crypto/ed25519"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"net/url"
	"strings"
	"testing"

	"neuron/engine/protocol"
)

// TestHandler: BitTorrent clients get status 200 with a reason, errors too; the
// token of the path counts before that of the query.
func TestHandler(t *testing.T) {
	t.Parallel()
	known := Hash([]byte("aaaaaaaaaaaaaaaaaaaa"))
	counted := map[string]int{}
	mux := http.NewServeMux()
	Mount(mux, HandlerOptions{
		Table: New(Config{Burst: 50, PerSecond: 1e-9}), Logger: slog.New(slog.DiscardHandler), Count: func(kind, result string) { counted[kind+" "+result]++ },
		Find: func(h Hash, token string) ([]Peer, error) {
			switch {
			case h != known:
				return nil, protocol.Errorf(protocol.CodeModelUnknown, "this tracker does not have the torrent in its catalog")
			case token != "mine":
				return nil, protocol.Errorf(protocol.CodeForbidden, "not for you")
			}
			return []Peer{{Addr: netip.MustParseAddrPort("198.51.100.1:9"), Seed: true}, {Addr: netip.MustParseAddrPort("192.0.2.1:1")}}, nil
		},
	})
	get := func(path string) string {
		r := httptest.NewRequestWithContext(t.Context(), "GET", path, http.NoBody)
		r.RemoteAddr = "192.0.2.1:5"
		w := httptest.NewRecorder()
		mux.ServeHTTP(w, r)
		if w.Code != 200 || !strings.HasPrefix(w.Header().Get("Content-Type"), "text/plain") {
			t.Errorf("%.60s: %d %v", path, w.Code, w.Header())
		}
		return w.Body.String()
	}
	good := "?" + url.Values{"info_hash": {string(known[:])}, "peer_id": {"bbbbbbbbbbbbbbbbbbbb"}, "port": {"1"}, "left": {"1"}, "compact": {"1"}}.Encode()
	for path, part := range map[string]string{
		"/announce":                                                     "missing",
		"/announce?info_hash=%":                                         "not well formed",
		"/announce" + good:                                              "not for you",
		"/announce/other" + good + "&token=mine":                        "not for you",
		"/announce/mine" + good + "&ip=203.0.113.1":                     "only the address that it comes from",
		"/announce/mine" + good + "&port=2":                             "twice",
		"/announce/mine" + strings.Replace(good, "port=1", "port=0", 1): "not a port",
		"/announce/mine" + strings.Replace(good, "aaaaaaaaaaaaaaaaaaaa", "cccccccccccccccccccc", 1): "does not have the torrent",
		"/announce/mine" + good + "&x=" + strings.Repeat("y", 9000):                                 "a query of",
	} {
		if a := get(path); !strings.Contains(a, "14:failure reason") || !strings.Contains(a, part) {
			t.Errorf("%.60s: %q, want %q", path, a, part)
		}
	}
	if a := get("/announce" + good + "&token=mine"); strings.Contains(a, "failure") || !strings.Contains(a, "8:intervali") {
		t.Errorf("a good announce: %q", a)
	}
	// The announced peer is one of the known ones, and counts once.
	if s := get("/scrape/mine" + good); !strings.Contains(s, "8:completei1e10:downloadedi0e10:incompletei1e") {
		t.Errorf("scrape: %q", s)
	}
	if s := get("/scrape" + good); strings.Contains(s, "complete") || strings.Contains(s, "failure") {
		t.Errorf("a scrape without a token: %q", s)
	}
	for range 60 {
		get("/scrape/mine" + good)
	}
	if counted["announce ok"] != 1 || counted["announce forbidden"] != 3 || counted["scrape rate_limited"] < 20 || counted["scrape ok"] < 20 {
		t.Errorf("counted %v", counted)
	}
}

// TestTokens: a token names its node, and only the tracker that made it takes
// it.
func TestTokens(t *testing.T) {
	t.Parallel()
	key := func(b byte) Tokens {
		return NewTokens(ed25519.NewKeyFromSeed(bytes.Repeat([]byte{b}, ed25519.SeedSize)))
	}
	a, b := protocol.NodeID(strings.Repeat("a", 52)), protocol.NodeID(strings.Repeat("b", 52))
	token := key(1).Of(a)
	if got, ok := key(1).Node(token); !ok || got != a {
		t.Errorf("%s is of %s, %v", token, got, ok)
	}
	for _, wrong := range []string{"", ".", string(a), token[:len(token)-1], token + "0", string(b) + token[52:], key(2).Of(a)} {
		if _, ok := key(1).Node(wrong); ok {
			t.Errorf("%q is taken", wrong)
		}
	}
}
