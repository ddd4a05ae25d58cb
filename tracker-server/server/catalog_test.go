package server

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/publish"
	"neuron/internal/torrentfile"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/storetest"
)

// built is the guide model, described once for all tests: public and private.
var built = map[bool]func() (*publish.Result, error){false: build(false), true: build(true)}

func build(private bool) func() (*publish.Result, error) {
	return sync.OnceValues(func() (*publish.Result, error) {
		return publish.Build(context.Background(), []string{"../../assets/model/guide-q8_0.gguf"}, publish.Options{Name: "guide", Private: private, WebSeeds: []string{"https://seed.example/x"}})
	})
}

// publishGuide puts the guide model into the catalog and waits until the
// tracker shows it.
func (tr *tracker) publishGuide(private bool) *manifest.Manifest {
	tr.t.Helper()
	r, err := built[private]()
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.publish(r, private)
	eventually(tr.t, "the model in the catalog", func() bool { c := tr.core.Catalog(); return len(c) == 1 && c[0].Private == private })
	return r.Manifest
}

func (tr *tracker) publish(r *publish.Result, private bool) {
	tr.t.Helper()
	s, err := manifest.Sign(r.Manifest, tr.core.key)
	if err != nil {
		tr.t.Fatal(err)
	}
	if _, err := tr.store.Publish(tr.t.Context(), store.CatalogModel{
		Model: r.Manifest.Model, Name: r.Manifest.Name, InfoHash: r.InfoHash, Private: private, WebSeeds: []string{"https://seed.example/x"},
		Published: tr.clock.Now(), Manifest: s.Raw, Torrent: r.Torrent,
	}); err != nil {
		tr.t.Fatal(err)
	}
}

func (tr *tracker) request(method, path string, header map[string]string) (*http.Response, []byte) {
	tr.t.Helper()
	req, err := http.NewRequest(method, strings.TrimSuffix(tr.URL(), "/")+path, http.NoBody)
	if err != nil {
		tr.t.Fatal(err)
	}
	for k, v := range header {
		req.Header.Set(k, v)
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		tr.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		tr.t.Fatal(err)
	}
	return resp, raw
}

func TestCatalogFiles(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	m := tr.publishGuide(false)
	entry := tr.core.Catalog()[0]
	for kind, sum := range map[string]string{"manifest": entry.ManifestSHA256, "torrent": entry.TorrentSHA256} {
		path := "/v1/models/" + string(m.Model) + "/" + kind
		resp, raw := tr.request("GET", path, nil)
		tag := resp.Header.Get("ETag")
		if resp.StatusCode != 200 || tag != `"`+sum+`"` || resp.Header.Get("Cache-Control") != "public, no-cache" || resp.ContentLength != int64(len(raw)) {
			t.Errorf("%s: %d %v", kind, resp.StatusCode, resp.Header)
		}
		head, none := tr.request("HEAD", path, nil)
		if head.StatusCode != 200 || head.ContentLength != int64(len(raw)) || len(none) != 0 || head.Header.Get("ETag") != tag {
			t.Errorf("HEAD %s: %d %v", kind, head.StatusCode, head.Header)
		}
		for _, have := range []string{tag, `"x", W/` + tag, "*"} {
			if resp, raw := tr.request("GET", path, map[string]string{"If-None-Match": have}); resp.StatusCode != 304 || len(raw) != 0 {
				t.Errorf("%s, If-None-Match %s: %d", kind, have, resp.StatusCode)
			}
		}
		if resp, _ := tr.request("GET", path, map[string]string{"If-None-Match": `"x"`}); resp.StatusCode != 200 {
			t.Errorf("%s, another tag: %d", kind, resp.StatusCode)
		}
		if resp, same := tr.request("GET", path+"?sha256="+sum, nil); !strings.Contains(resp.Header.Get("Cache-Control"), "immutable") || !bytes.Equal(raw, same) {
			t.Errorf("%s by hash: %v", kind, resp.Header)
		}
		if resp, _ := tr.request("GET", path+"?sha256="+strings.Repeat("0", 64), nil); resp.StatusCode != 404 || resp.Header.Get("Cache-Control") != "no-store" {
			t.Errorf("%s by a wrong hash: %d %v", kind, resp.StatusCode, resp.Header)
		}
		if resp, _ := tr.request("POST", path, nil); resp.StatusCode != 405 {
			t.Errorf("POST: %d", resp.StatusCode)
		}
		switch kind {
		case "manifest":
			if s, err := manifest.ParseSigned(raw); err != nil || !bytes.Equal(s.Publisher, tr.Key()) {
				t.Error(err)
			}
		case "torrent":
			if err := torrentfile.CheckTorrent(raw, m); err != nil {
				t.Error(err)
			}
		}
	}
	for path, status := range map[string]int{
		"/v1/models/" + strings.Repeat("0", 64) + "/manifest": 404, "/v1/models/guide/manifest": 400, "/v1/models/" + string(m.Model) + "/weights": 404,
	} {
		if resp, raw := tr.request("GET", path, nil); resp.StatusCode != status || !bytes.Contains(raw, []byte(`"code"`)) {
			t.Errorf("%s: %d %s", path, resp.StatusCode, raw)
		}
	}
}

func TestPrivateModelsNeedAConnectedNode(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	m := tr.publishGuide(true)
	var cat protocol.Catalog
	tr.get("/v1/catalog", &cat)
	if c := cat.Models[0]; !c.Private || c.InfoHash != "" || c.WebSeeds != nil {
		t.Errorf("the catalog tells too much: %+v", c)
	}
	g := tr.join(newKey(), protocol.RoleGateway)
	token := g.welcome.AnnounceToken
	path := "/v1/models/" + string(m.Model) + "/torrent"
	announce := announceQuery(m, "peer", 1, 1)
	allowed := func(token string) bool {
		t.Helper()
		resp, _ := tr.request("GET", path, map[string]string{"Authorization": "Bearer " + token})
		_, a := tr.request("GET", "/announce/"+token+announce, nil)
		_, b := tr.request("GET", "/announce"+announce+"&token="+token, nil)
		_, s := tr.request("GET", "/scrape/"+token+announce, nil)
		ok := resp.StatusCode == 200
		for _, raw := range [][]byte{a, b} {
			if bytes.Contains(raw, []byte("failure reason")) == ok {
				t.Errorf("token %.20s: file %d, announce %q", token, resp.StatusCode, raw)
			}
		}
		if bytes.Contains(s, []byte("complete")) != ok {
			t.Errorf("token %.20s: file %d, scrape %q", token, resp.StatusCode, s)
		}
		if ok && resp.Header.Get("Cache-Control") != "private, no-cache" {
			t.Errorf("a private file: %v", resp.Header)
		}
		return ok
	}
	if !allowed(token) {
		t.Error("a connected gateway is refused")
	}
	other := idOf(newKey())
	for _, wrong := range []string{"x", "nonsense.", string(g.id()), token[:len(token)-1] + "x", tr.core.tokens.Of(other), string(other) + token[52:]} {
		if allowed(wrong) {
			t.Errorf("%q opens a private model", wrong)
		}
	}
	g.ws.Close()
	eventually(t, "the gateway is gone", func() bool {
		resp, _ := tr.request("GET", path, map[string]string{"Authorization": "Bearer " + token})
		return resp.StatusCode == 403
	})
	if allowed(token) {
		t.Error("a gateway that has left is let in")
	}
}

// shard reports a part of a published model.
func (f *fake) shard(m *manifest.Manifest, state protocol.ShardState, first, last int, change func(*protocol.Report)) {
	f.t.Helper()
	s := protocol.ShardReport{State: state, Capability: protocol.Capability{
		Model: m.Model, Name: "another name", Architecture: "x", Layers: m.Layers, Loaded: protocol.Range{First: first, Last: last},
		Head: first == 0, Tail: last == m.Layers, Build: testBuild,
	}}
	if state == protocol.ShardReady {
		s.FreeKVBytes, s.MaxSessions, s.StepMicros = 1<<20, 4, 1000
		s.Capability.Width, s.Capability.KVBytesPerCell, s.Capability.MaxContext, s.Capability.ChunkRows = m.Width, 256, 4096, 64
	}
	rep := protocol.Report{Shards: []protocol.ShardReport{s}}
	if change != nil {
		change(&rep)
	}
	f.send(protocol.MsgReport, rep)
}

// TestCoverageOfPublishedModels: only ready shards count, and only those that
// agree with the manifest.
func TestCoverageOfPublishedModels(t *testing.T) {
	t.Parallel()
	tr := start(t, t.TempDir(), &clock{})
	m := tr.publishGuide(false)
	g := tr.join(newKey(), protocol.RoleGateway)
	g.askRoute(100)
	g.expectError(protocol.CodeNoRoute) // known, but nobody serves it
	half := m.Layers / 2
	a, b, liar := tr.join(newKey(), protocol.RoleNode), tr.join(newKey(), protocol.RoleNode), tr.join(newKey(), protocol.RoleNode)
	a.shard(m, protocol.ShardReady, 0, half, nil)
	b.shard(m, protocol.ShardDownloading, half, m.Layers, nil)
	liar.shard(m, protocol.ShardReady, half, m.Layers, func(r *protocol.Report) { r.Shards[0].Capability.Width++ })
	entry := func() protocol.CatalogModel { return tr.core.Catalog()[0] }
	eventually(t, "half of the model", func() bool { e := entry(); return e.Replicas[0] == 1 && e.Fetching == 1 })
	if e := entry(); e.Missing != fmt.Sprintf("%d-%d", half, m.Layers) || e.Routable {
		t.Errorf("catalog %+v", e)
	}
	var page string
	tr.get("/", &page)
	if !strings.Contains(page, fmt.Sprintf("Missing: layers %d–%d ", half, m.Layers-1)) || !strings.Contains(page, "1 node fetching") || strings.Contains(page, `<span class="name">another name`) {
		t.Errorf("page %s", page)
	}
	b.shard(m, protocol.ShardReady, half, m.Layers, nil)
	eventually(t, "the whole model", func() bool { return entry().Routable })
	if l := g.route(tr, 100); l.Model != m.Model || len(l.Hops) != 2 || l.Hops[1].Node != b.id() {
		t.Errorf("lease %+v", l)
	}
	if list := tr.core.Models(); len(list) != 1 || list[0].Name != "guide" {
		t.Errorf("models %+v", list)
	}
	if err := tr.store.Unpublish(t.Context(), m.Model); err != nil {
		t.Fatal(err)
	}
	eventually(t, "an empty catalog", func() bool { return len(tr.core.Catalog()) == 0 })
	// Nodes go on serving what is no longer published. The page is made anew at
	// most twice a second, on a busy computer more seldom.
	eventually(t, "a page that shows it", func() bool {
		tr.get("/", &page)
		return strings.Contains(page, "not published") && strings.Contains(page, "another name")
	})
}

// TestDamagedEntryIsLeftOut: one entry that cannot be used does not hide the
// others, neither while the tracker runs nor when it starts.
func TestDamagedEntryIsLeftOut(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	tr := start(t, data, &clock{})
	tr.publishGuide(false)
	v := tr.core.catalog.Version()
	r, err := built[false]()
	if err != nil {
		t.Fatal(err)
	}
	mixed := storetest.Model(2) // a manifest of another model
	s, err := manifest.Sign(r.Manifest, ed25519.NewKeyFromSeed(make([]byte, 32)))
	if err != nil {
		t.Fatal(err)
	}
	mixed.Manifest, mixed.Torrent = s.Raw, r.Torrent
	for _, x := range []store.CatalogModel{storetest.Model(1), mixed} {
		if _, err := tr.store.Publish(t.Context(), x); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the new version", func() bool { return tr.core.catalog.Version() == v+2 })
	if c := tr.core.Catalog(); len(c) != 1 || c[0].Name != "guide" {
		t.Errorf("catalog %+v", c)
	}
	tr.halt()
	tr = start(t, data, &clock{})
	if c := tr.core.Catalog(); len(c) != 1 || c[0].Name != "guide" {
		t.Errorf("after a restart: %+v", c)
	}
}

func TestBehindProxies(t *testing.T) {
	t.Parallel()
	var seen string
	h := behindProxies([]netip.Prefix{netip.MustParsePrefix("127.0.0.1/32"), netip.MustParsePrefix("10.0.0.0/8")},
		http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) { seen = r.RemoteAddr }))
	for name, c := range map[string]struct{ remote, forwarded, want string }{
		"direct":            {"203.0.113.1:5", "198.51.100.7", "203.0.113.1:5"},
		"proxy":             {"127.0.0.1:5", "198.51.100.7", "198.51.100.7:0"},
		"two proxies":       {"127.0.0.1:5", "198.51.100.7, 10.1.1.1", "198.51.100.7:0"},
		"claim":             {"127.0.0.1:5", "192.0.2.1, 198.51.100.7", "198.51.100.7:0"},
		"no header":         {"127.0.0.1:5", "", "127.0.0.1:5"},
		"nonsense":          {"127.0.0.1:5", "198.51.100.7, unknown", "127.0.0.1:5"},
		"nonsense before":   {"127.0.0.1:5", "unknown, 198.51.100.7", "198.51.100.7:0"},
		"IPv6":              {"[::ffff:127.0.0.1]:5", "2001:db8::1", "[2001:db8::1]:0"},
		"everything is one": {"127.0.0.1:5", "10.0.0.2", "10.0.0.2:0"},
	} {
		r := httptest.NewRequest("GET", "/", http.NoBody)
		r.RemoteAddr = c.remote
		if c.forwarded != "" {
			r.Header.Set("X-Forwarded-For", c.forwarded)
		}
		if h.ServeHTTP(httptest.NewRecorder(), r); seen != c.want {
			t.Errorf("%s: %s, want %s", name, seen, c.want)
		}
	}
}

// TestPublicURL: the folder says where others reach the tracker.
func TestPublicURL(t *testing.T) {
	t.Parallel()
	for listen, c := range map[string]struct{ public, want string }{
		"127.0.0.1:0": {"", "own"}, "0.0.0.0:0": {"", ""}, "[::]:0": {"https://tracker.example", "https://tracker.example/"},
	} {
		s, err := New(Options{Listen: listen, Data: t.TempDir(), Insecure: true, PublicURL: c.public})
		if err != nil {
			t.Fatal(err)
		}
		want := c.want
		if want == "own" {
			want = s.URL()
		}
		if got := s.publicURL(); got != want {
			t.Errorf("%s: %q, want %q", listen, got, want)
		}
		if err := s.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}
