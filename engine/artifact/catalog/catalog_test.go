package catalog

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"neuron/engine/manifest"
	"neuron/engine/protocol"
	"neuron/internal/publish"
)

func key(name string) ed25519.PrivateKey {
	seed := sha256.Sum256([]byte(name))
	return ed25519.NewKeyFromSeed(seed[:])
}

func pub(name string) ed25519.PublicKey { return key(name).Public().(ed25519.PublicKey) }

// built is the guide model, described once: public and private.
var built = map[bool]func() (*publish.Result, error){false: build(false), true: build(true)}

func build(private bool) func() (*publish.Result, error) {
	return sync.OnceValues(func() (*publish.Result, error) {
		return publish.Build(context.Background(), []string{"../../../assets/model/guide-q8_0.gguf"}, publish.Options{Name: "guide", Private: private})
	})
}

// tracker answers like one; a test may spoil its fields between requests.
type tracker struct {
	t   *testing.T
	url string

	mu                sync.Mutex
	entry             protocol.CatalogModel
	manifest, torrent []byte
	hashes            [2]string // that .../manifest and .../torrent are served under
	answer            http.HandlerFunc
	asked             []string
	tokens            []string
}

func newTracker(t *testing.T, signer string) *tracker {
	tr := &tracker{t: t}
	tr.sign(signer, false)
	s := httptest.NewServer(tr)
	t.Cleanup(s.Close)
	tr.url = s.URL
	return tr
}

func (tr *tracker) sign(signer string, private bool) *manifest.Manifest {
	tr.t.Helper()
	r, err := built[private]()
	if err != nil {
		tr.t.Fatal(err)
	}
	s, err := manifest.Sign(r.Manifest, key(signer))
	if err != nil {
		tr.t.Fatal(err)
	}
	tr.set(s.Raw, r.Torrent, r.Manifest)
	return r.Manifest
}

func (tr *tracker) set(raw, torrent []byte, m *manifest.Manifest) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.manifest, tr.torrent, tr.hashes = raw, torrent, [2]string{hashOf(raw), hashOf(torrent)}
	tr.entry = protocol.CatalogModel{
		Model: m.Model, Name: m.Name, Layers: m.Layers, Bytes: m.Size(), ManifestSHA256: tr.hashes[0], TorrentSHA256: tr.hashes[1], Replicas: make([]int, m.Layers),
	}
}

func (tr *tracker) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.asked = append(tr.asked, r.URL.Path)
	tr.tokens = append(tr.tokens, r.Header.Get("Authorization"))
	if tr.answer != nil {
		tr.answer(w, r)
		return
	}
	serve := func(raw []byte, hash string) {
		if r.URL.Query().Get("sha256") != hash {
			w.WriteHeader(404)
			_ = json.NewEncoder(w).Encode(protocol.Errorf(protocol.CodeNotFound, "another one now"))
			return
		}
		_, _ = w.Write(raw)
	}
	switch r.URL.Path {
	case "/v1/catalog":
		_ = json.NewEncoder(w).Encode(protocol.Catalog{Models: []protocol.CatalogModel{tr.entry}})
	case "/v1/models/" + string(tr.entry.Model) + "/manifest":
		serve(tr.manifest, tr.hashes[0])
	case "/v1/models/" + string(tr.entry.Model) + "/torrent":
		serve(tr.torrent, tr.hashes[1])
	default:
		http.NotFound(w, r)
	}
}

func (tr *tracker) spoil(answer http.HandlerFunc) {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	tr.answer = answer
}

// count is the number of requests since the last call.
func (tr *tracker) count() int {
	tr.mu.Lock()
	defer tr.mu.Unlock()
	n := len(tr.asked)
	tr.asked = nil
	return n
}

func client(t *testing.T, tr *tracker, dir string, trusted ...string) *Client {
	t.Helper()
	c, err := New(Options{URL: tr.url, Dir: dir, Token: func() string { return "secret" }, Trusted: func() []ed25519.PublicKey {
		var keys []ed25519.PublicKey
		for _, name := range trusted {
			keys = append(keys, pub(name))
		}
		return keys
	}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func wantCode(t *testing.T, err error, code protocol.Code) {
	t.Helper()
	if !errors.Is(err, &protocol.Error{Code: code}) {
		t.Errorf("got %v, want %s", err, code)
	}
}

func TestGet(t *testing.T) {
	t.Parallel()
	tr := newTracker(t, "tracker")
	base := filepath.Join(t.TempDir(), "shards") // made when it is needed
	c := client(t, tr, base, "somebody", "tracker")
	want, _ := built[false]()
	for i, ref := range []string{"guide", string(want.Manifest.Model), "guide"} {
		m, dir, err := c.Get(t.Context(), ref)
		if err != nil || m.Model != want.Manifest.Model || dir != filepath.Join(base, m.Model.Short()) {
			t.Fatalf("%s: %v, %s", ref, err, dir)
		}
		if n := tr.count(); i == 0 && n != 3 || i > 0 && n != 1 {
			t.Errorf("%d requests at time %d", n, i)
		}
	}
	dir := filepath.Join(base, want.Manifest.Model.Short())
	raw, err := os.ReadFile(filepath.Join(dir, ManifestFile))
	if err != nil || !bytes.Equal(raw, tr.manifest) {
		t.Errorf("kept manifest: %v", err)
	}
	if raw, err = os.ReadFile(filepath.Join(dir, TorrentFile)); err != nil || !bytes.Equal(raw, tr.torrent) {
		t.Errorf("kept torrent: %v", err)
	}
	for _, token := range tr.tokens {
		if token != "Bearer secret" {
			t.Errorf("token %q", token)
		}
	}
	_, _, err = c.Get(t.Context(), "other")
	wantCode(t, err, protocol.CodeModelUnknown)
	// Published again, as a private model: the kept copy is old.
	private := tr.sign("somebody", true)
	m, _, err := c.Get(t.Context(), "guide")
	if err != nil || m.Torrent.InfoHash != private.Torrent.InfoHash {
		t.Errorf("an old copy: %v", err)
	}
	if got := c.AnnounceURL(m); got != tr.url+"/announce/secret" {
		t.Errorf("announce %s", got)
	}
	if got := c.AnnounceURL(want.Manifest); got != tr.url+"/announce" {
		t.Errorf("announce %s", got)
	}
	if left, _ := filepath.Glob(filepath.Join(dir, "*")); len(left) != 2 {
		t.Errorf("files %v", left)
	}
}

// TestTrackerAway: a kept copy serves, by id and by name, and is checked as
// what comes from the tracker is.
func TestTrackerAway(t *testing.T) {
	t.Parallel()
	tr := newTracker(t, "tracker")
	dir := t.TempDir()
	c := client(t, tr, dir, "tracker")
	_, _, err := client(t, &tracker{url: "http://127.0.0.1:1"}, dir, "tracker").Get(t.Context(), "guide")
	wantCode(t, err, protocol.CodeUnavailable)
	m, folder, err := c.Get(t.Context(), "guide")
	if err != nil {
		t.Fatal(err)
	}
	away := client(t, &tracker{url: "http://127.0.0.1:1"}, dir, "tracker")
	for _, ref := range []string{"guide", string(m.Model)} {
		got, d, err := away.Get(t.Context(), ref)
		if err != nil || got.Model != m.Model || d != folder {
			t.Errorf("%s: %v", ref, err)
		}
	}
	_, _, err = away.Get(t.Context(), "other")
	wantCode(t, err, protocol.CodeUnavailable)
	_, err = away.List(t.Context())
	wantCode(t, err, protocol.CodeUnavailable)
	distrustful := client(t, &tracker{url: "http://127.0.0.1:1"}, dir, "somebody")
	_, _, err = distrustful.Get(t.Context(), "guide")
	wantCode(t, err, protocol.CodeUnavailable)
	// A tracker that is back but broken counts as away.
	for name, answer := range map[string]http.HandlerFunc{
		"503":     func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(503) },
		"nothing": func(http.ResponseWriter, *http.Request) { panic(http.ErrAbortHandler) },
		"page":    func(w http.ResponseWriter, _ *http.Request) { fmt.Fprint(w, "<html>log in to the hotel") },
	} {
		tr.spoil(answer)
		if got, _, err := c.Get(t.Context(), "guide"); err != nil || got.Model != m.Model {
			t.Errorf("%s: %v", name, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, _, err := c.Get(ctx, "guide"); err == nil {
		t.Error("a cancelled call found something")
	}
	for _, name := range []string{ManifestFile, TorrentFile} {
		path := filepath.Join(folder, name)
		whole, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, whole[:len(whole)-1], 0o600); err != nil {
			t.Fatal(err)
		}
		_, _, err = away.Get(t.Context(), "guide")
		wantCode(t, err, protocol.CodeUnavailable)
		if err := os.WriteFile(path, whole, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	tr.spoil(nil)
	if err := os.WriteFile(filepath.Join(folder, TorrentFile), []byte("d"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := c.Get(t.Context(), "guide"); err != nil {
		t.Errorf("a damaged copy is not replaced: %v", err)
	}
	if _, _, err := away.Get(t.Context(), "guide"); err != nil {
		t.Errorf("a damaged copy was not replaced: %v", err)
	}
}

func TestHostileTracker(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct {
		spoil func(*tracker)
		code  protocol.Code
	}{
		"strange key":    {func(tr *tracker) { tr.sign("mallory", false) }, protocol.CodeForbidden},
		"no manifest":    {func(tr *tracker) { tr.manifest = nil }, protocol.CodeModelInvalid},
		"bent signature": {func(tr *tracker) { tr.manifest[len(tr.manifest)-5] ^= 1 }, protocol.CodeModelInvalid},
		"other model":    {func(tr *tracker) { tr.entry.Model = protocol.ModelID(strings.Repeat("ab", 32)) }, protocol.CodeModelInvalid},
		"other torrent": {func(tr *tracker) {
			r, _ := built[true]()
			tr.torrent = r.Torrent
		}, protocol.CodeModelInvalid},
		"huge manifest":   {func(tr *tracker) { tr.manifest = make([]byte, manifest.MaxBytes+1) }, protocol.CodeModelInvalid},
		"hash of another": {func(tr *tracker) { tr.entry.ManifestSHA256 = strings.Repeat("0", 64) }, protocol.CodeNotFound},
		"no hash":         {func(tr *tracker) { tr.entry.ManifestSHA256 = "../../x" }, protocol.CodeModelUnknown},
		"path as a name":  {func(tr *tracker) { tr.entry.Name = "../guide" }, protocol.CodeModelUnknown},
		"path as an id":   {func(tr *tracker) { tr.entry.Model = "../../etc" }, protocol.CodeModelUnknown},
		"many layers":     {func(tr *tracker) { tr.entry.Layers = 1 << 30 }, protocol.CodeModelUnknown},
		"forbidden": {func(tr *tracker) {
			tr.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(403)
				_ = json.NewEncoder(w).Encode(protocol.Errorf(protocol.CodeForbidden, "not you"))
			}
		}, protocol.CodeForbidden},
		"a code of our own": {func(tr *tracker) {
			tr.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.WriteHeader(500)
				_ = json.NewEncoder(w).Encode(protocol.Errorf(protocol.CodeDiskFull, "delete your files"))
			}
		}, protocol.CodeUnavailable},
		"too busy": {func(tr *tracker) { tr.answer = func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(429) } }, protocol.CodeRateLimited},
		"elsewhere": {func(tr *tracker) {
			tr.answer = func(w http.ResponseWriter, r *http.Request) {
				http.Redirect(w, r, "http://127.0.0.1:1/", http.StatusFound)
			}
		}, protocol.CodeUnavailable},
		"zip bomb": {func(tr *tracker) {
			tr.answer = func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Encoding", "gzip")
				_, _ = w.Write([]byte("\x1f\x8b\x08\x00"))
			}
		}, protocol.CodeUnavailable},
		"huge list": {func(tr *tracker) {
			tr.answer = func(w http.ResponseWriter, _ *http.Request) {
				block := bytes.Repeat([]byte(" "), 1<<20)
				for range maxList/len(block) + 1 {
					if _, err := w.Write(block); err != nil {
						return
					}
				}
			}
		}, protocol.CodeModelInvalid},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			tr := newTracker(t, "tracker")
			tr.manifest = bytes.Clone(tr.manifest)
			c.spoil(tr)
			dir := t.TempDir()
			_, _, err := client(t, tr, dir, "tracker").Get(t.Context(), "guide")
			if wantCode(t, err, c.code); strings.Contains(fmt.Sprint(err), "secret") {
				t.Errorf("the error holds the token: %v", err)
			}
			if left, _ := os.ReadDir(dir); len(left) != 0 {
				t.Errorf("something was kept: %v", left)
			}
		})
	}
}

func TestFolderThatCannotBeWritten(t *testing.T) {
	t.Parallel()
	tr := newTracker(t, "tracker")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	_, _, err := client(t, tr, file, "tracker").Get(t.Context(), "guide")
	wantCode(t, err, protocol.CodeDataFolder)
}

func TestBaseURL(t *testing.T) {
	t.Parallel()
	for in, want := range map[string]string{
		"http://a:1": "http://a:1", "http://a:1/": "http://a:1", "ws://a:1/v1/nodes": "http://a:1", "wss://a/v1/nodes": "https://a",
		"https://a/under/": "https://a/under", " http://a ": "http://a", "http://a/?x=1#y": "http://a",
		"": "", "a:1": "", "ftp://a": "", "http://": "", "://": "",
	} {
		got, err := BaseURL(in)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("%q: %q, %v", in, got, err)
		}
	}
	if _, err := New(Options{URL: "nowhere"}); err == nil {
		t.Error("a client without a tracker")
	}
}

// FuzzAnswers: whatever the tracker answers, nothing panics, and what comes out
// of it is a model that somebody trusted has signed.
func FuzzAnswers(f *testing.F) {
	r, err := built[false]()
	if err != nil {
		f.Fatal(err)
	}
	s, err := manifest.Sign(r.Manifest, key("mallory"))
	if err != nil {
		f.Fatal(err)
	}
	entry := `{"models":[{"model":"` + string(r.Manifest.Model) + `","name":"guide","layers":4,"bytes":1,"manifest_sha256":"` + strings.Repeat("0", 64) +
		`","torrent_sha256":"` + strings.Repeat("1", 64) + `","replicas":[1,2]}]}`
	for _, b := range []string{entry, `{"models":[{"model":"x"}]}`, `{"models":null}`, `[]`, `{"code":"forbidden","message":"no"}`, `{"code":"disk_full"}`, "d8:announce0:e", ""} {
		f.Add([]byte(b))
	}
	f.Add(s.Raw[:600])
	c := &Client{o: Options{Trusted: func() []ed25519.PublicKey { return []ed25519.PublicKey{pub("tracker")} }}}
	f.Fuzz(func(t *testing.T, raw []byte) {
		list, err := parseList(raw)
		if err != nil && len(list) != 0 {
			t.Fatal("models and an error")
		}
		for i := range list {
			if !wellFormed(&list[i]) || strings.ContainsAny(list[i].Name+string(list[i].Model), "/\\\x00") {
				t.Fatalf("passed: %+v", list[i])
			}
		}
		for _, status := range []int{404, 403, 500, 200} {
			if e := answerError(status, raw); protocol.AsError(e).Code == protocol.CodeInternal || protocol.AsError(e).Code == protocol.CodeDiskFull {
				t.Fatalf("%v", e)
			}
		}
		if _, err := c.check(raw); err == nil {
			t.Fatal("a signature was guessed")
		}
	})
}
