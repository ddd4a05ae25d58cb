package update_test

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/engine/update"
	"neuron/engine/update/feed"
)

const patience = 20 * time.Second

func code(err error) protocol.Code {
	if err == nil {
		return ""
	}
	return protocol.AsError(err).Code
}

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func releaseKey(n byte) ed25519.PrivateKey {
	return ed25519.NewKeyFromSeed(bytes.Repeat([]byte{n}, ed25519.SeedSize))
}

// publisher is a server of releases, with TLS on loopback.
type publisher struct {
	t   testing.TB
	srv *httptest.Server

	mu sync.Mutex
	// Protected by mu.
	feed     []byte
	pack     []byte
	asked    []string // paths, with the range
	answer   http.HandlerFunc
	transfer http.HandlerFunc
}

const packName = "neuron_2.0.0_amd64.deb"

func newPublisher(t testing.TB) *publisher {
	t.Helper()
	p := &publisher{t: t, pack: bytes.Repeat([]byte("package!"), 40_000)}
	p.srv = httptest.NewTLSServer(http.HandlerFunc(p.serve))
	t.Cleanup(p.srv.Close)
	p.publish(p.release(), releaseKey(1))
	return p
}

func (p *publisher) serve(w http.ResponseWriter, r *http.Request) {
	p.mu.Lock()
	p.asked = append(p.asked, strings.TrimSpace(r.URL.Path+" "+r.Header.Get("Range")))
	body, answer, transfer, pack := p.feed, p.answer, p.transfer, p.pack
	p.mu.Unlock()
	switch {
	case r.URL.Path == "/stable.json" && answer != nil:
		answer(w, r)
	case r.URL.Path == "/stable.json":
		w.Write(body)
	case transfer != nil:
		transfer(w, r)
	case r.URL.Path == "/"+packName:
		http.ServeContent(w, r, packName, time.Time{}, bytes.NewReader(pack))
	default:
		http.NotFound(w, r)
	}
}

func (p *publisher) set(f func(*publisher)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	f(p)
}

func (p *publisher) requests() []string {
	p.mu.Lock()
	defer p.mu.Unlock()
	return append([]string{}, p.asked...)
}

func (p *publisher) url() string { return p.srv.URL + "/stable.json" }

// release is version 2.0.0 with a package for this tests' computer.
func (p *publisher) release() *feed.Feed { return releaseOf(p.pack) }

func releaseOf(pack []byte) *feed.Feed {
	now := time.Now().UTC().Truncate(time.Second)
	sum := sha256.Sum256(pack)
	return &feed.Feed{
		Form: feed.Form, Channel: "stable", Serial: 10, Issued: now.Add(-time.Hour), Expires: now.Add(30 * 24 * time.Hour), Version: "2.0.0", Date: "2026-11-30",
		Page: "https://neuron.example/2.0.0", Notes: map[string]string{"en": "It is better."},
		Packages: []feed.Package{{OS: "linux", Arch: "amd64", Kind: feed.KindDeb, URL: packName, Name: packName, Size: int64(len(pack)), SHA256: hex.EncodeToString(sum[:])}},
	}
}

func (p *publisher) publish(f *feed.Feed, keys ...ed25519.PrivateKey) {
	p.t.Helper()
	raw, err := feed.Sign(f, keys...)
	must(p.t, err)
	p.set(func(p *publisher) { p.feed = raw })
}

// options are those of a computer with version 1.0.0 that knows key 1.
func (p *publisher) options(dir string) update.Options {
	return update.Options{
		Dir: dir, Keys: []ed25519.PublicKey{releaseKey(1).Public().(ed25519.PublicKey)}, Feed: p.url(), Version: "1.0.0", OS: "linux", Arch: "amd64", Kind: feed.KindDeb,
		Transport: p.srv.Client().Transport, Free: func(string) (int64, error) { return 1 << 40, nil },
	}
}

// computer is a Keeper that runs until the test ends.
type computer struct {
	*update.Keeper
	dir  string
	stop func()
}

func run(t testing.TB, o update.Options) *computer {
	t.Helper()
	c := &computer{Keeper: update.New(o), dir: o.Dir}
	ctx, cancel := context.WithCancel(context.Background())
	var done sync.WaitGroup
	done.Go(func() { c.Run(ctx) })
	c.stop = func() { cancel(); done.Wait() }
	t.Cleanup(c.stop)
	return c
}

// wants waits for a state.
func (c *computer) wants(t testing.TB, want localapi.UpdateState) localapi.Update {
	t.Helper()
	return c.until(t, string(want), func(u localapi.Update) bool { return u.State == want })
}

func (c *computer) until(t testing.TB, what string, f func(localapi.Update) bool) localapi.Update {
	t.Helper()
	deadline := time.Now().Add(patience)
	for {
		u := c.Update()
		if f(u) {
			return u
		}
		if time.Now().After(deadline) {
			t.Fatalf("still waiting for %s: %+v", what, u)
		}
		time.Sleep(5 * time.Millisecond) // polling, bounded by patience
	}
}

// noted are the codes of the health entries.
func (c *computer) noted() string {
	var out []string
	for _, h := range c.Health() {
		out = append(out, fmt.Sprintf("%s %s", h.Severity, h.Code))
	}
	return strings.Join(out, ", ")
}

func (c *computer) files(t testing.TB) string {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(c.dir, "*"))
	must(t, err)
	for i := range list {
		list[i] = filepath.Base(list[i])
	}
	return strings.Join(list, " ")
}
