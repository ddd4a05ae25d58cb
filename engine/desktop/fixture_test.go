package desktop_test

import (
	"context"
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"neuron/engine/cli/apiclient"
	"neuron/engine/desktop"
	"neuron/engine/localapi"
	"neuron/engine/manifest"
	"neuron/engine/policy"
	"neuron/engine/program"
	"neuron/engine/protocol"
	"neuron/internal/leaktest"
	"neuron/internal/logging"
	"neuron/internal/publish"
	"neuron/llama"
	"neuron/tracker-server/datadir"
	"neuron/tracker-server/keys"
	"neuron/tracker-server/server"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

const (
	guide     = "../../assets/model/guide-q8_0.gguf"
	guideName = "guide-q8_0"
	// networkName is what the tracker calls its network.
	networkName = "Network of the tests"
	patience    = 60 * time.Second
)

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func code(err error) protocol.Code {
	if err == nil {
		return ""
	}
	return protocol.AsError(err).Code
}

// eventually polls a condition until it holds.
func eventually(t testing.TB, what string, f func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !f() {
		if time.Now().After(deadline) {
			t.Fatalf("still waiting after %s for %s", patience, what)
		}
		time.Sleep(10 * time.Millisecond) // polling, bounded by patience
	}
}

// computer is a System that tests move. The zero value keeps nobody from
// sharing.
type computer struct {
	mu    sync.Mutex
	edit  func(*policy.System) // guarded by mu
	awake bool                 // guarded by mu
}

func (c *computer) Read(context.Context, policy.Needs) policy.System {
	c.mu.Lock()
	defer c.mu.Unlock()
	x := policy.Undisturbed(time.Now())
	if c.edit != nil {
		c.edit(&x)
	}
	return x
}

func (c *computer) set(edit func(*policy.System)) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.edit = edit
}

func (c *computer) KeepAwake(_ context.Context, on bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.awake = on
	return nil
}

func (c *computer) isAwake() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.awake
}

func (c *computer) Close() error { return nil }

// running is a desktop engine of a test with a client of its local API.
type running struct {
	*desktop.Engine
	*localapi.Client
	o    desktop.Options
	sys  *computer
	stop func() // ends it and wants an ordered end; may be called again
}

func (r *running) status(t testing.TB) *localapi.Status {
	t.Helper()
	s, err := r.Status(t.Context())
	must(t, err)
	return s
}

// wants waits until the sharing has this reason, "" for sharing.
func (r *running) wants(t testing.TB, why protocol.SharingReason) *localapi.Status {
	t.Helper()
	var s *localapi.Status
	var last *localapi.Sharing
	eventually(t, "the reason "+string(why), func() bool {
		s = r.status(t)
		if last == nil || last.Reason != s.Policy.Reason {
			t.Logf("%s %q %s", s.Policy.State, s.Policy.Reason, s.Policy.Detail)
			last = s.Policy
		}
		return s.Policy.Reason == why
	})
	return s
}

// change changes the settings as a window does.
func (r *running) change(t testing.TB, f func(*policy.Settings)) policy.Settings {
	t.Helper()
	s, err := r.Settings(t.Context())
	must(t, err)
	f(&s)
	s, err = r.SetSettings(t.Context(), s)
	must(t, err)
	return s
}

// begin starts a desktop engine.
func begin(t testing.TB, o desktop.Options) *running {
	t.Helper()
	r := &running{sys: &computer{}}
	if o.Data == "" {
		o.Data = t.TempDir()
	}
	o.System, o.GatewayListen = r.sys, "127.0.0.1:0"
	o.Ring = logging.NewRing(1000)
	o.Log = logging.NewTo(logging.Levels{}, slog.NewTextHandler(t.Output(), nil), o.Ring.Handler()).For
	e, err := desktop.New(t.Context(), o)
	must(t, err)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- e.Run(ctx) }()
	r.Engine, r.o = e, o
	r.Client, err = localapi.Dial(o.Data)
	must(t, err)
	var once sync.Once
	r.stop = func() {
		once.Do(func() {
			r.Client.Close()
			cancel()
			select {
			case err := <-done:
				if err != nil {
					t.Errorf("the engine ended with %v", err)
				}
			case <-time.After(patience):
				t.Error("the engine does not end")
			}
		})
	}
	t.Cleanup(r.stop)
	return r
}

// network is a tracker, and a node that gives the guide away.
type network struct {
	t    *testing.T
	dir  string
	addr string
	url  string
	end  func()
}

func newNetwork(t *testing.T) *network {
	t.Helper()
	if _, err := llama.NativeDir(); err != nil {
		t.Skipf("SKIPPED: no native libraries (make native): %v", err)
	}
	leaktest.Check(t)
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	return &network{t: t, dir: t.TempDir(), addr: "127.0.0.1:0"}
}

func (n *network) log(c string) *slog.Logger {
	return slog.New(slog.NewTextHandler(n.t.Output(), nil)).With("component", "net/"+c)
}

// tracker starts it, again at the same address.
func (n *network) tracker() {
	n.t.Helper()
	var s *server.Server
	eventually(n.t, "the tracker's port", func() bool {
		var err error
		s, err = server.New(server.Options{
			Name: networkName, Listen: n.addr, Data: filepath.Join(n.dir, "tracker"), ReportEvery: time.Second, Logger: n.log("tracker"),
		})
		if err != nil && !errors.Is(err, &protocol.Error{Code: protocol.CodePortInUse}) {
			n.t.Fatal(err)
		}
		return err == nil
	})
	n.addr, n.url = s.Addr(), s.URL()
	n.end = n.run("tracker", s.Run)
}

// run runs a part until the returned function, or the test's end.
func (n *network) run(name string, f func(context.Context) error) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- f(ctx) }()
	var once sync.Once
	end = func() {
		once.Do(func() {
			cancel()
			if err := <-done; err != nil {
				n.t.Errorf("%s: %v", name, err)
			}
		})
	}
	n.t.Cleanup(end)
	return end
}

// seed publishes the guide and starts a node that gives it away.
func (n *network) seed() {
	n.t.Helper()
	n.publish()
	x, err := program.NewNode(n.t.Context(), program.NodeOptions{
		Data: filepath.Join(n.dir, "seeder"), Tracker: n.url, Log: n.log, SeedOnly: true, Adopt: []string{guide},
	})
	must(n.t, err)
	n.run("seeder", x.Run)
}

// publish puts the guide into the catalog of the tracker's folder.
func (n *network) publish() {
	n.t.Helper()
	dir, err := datadir.Share(filepath.Join(n.dir, "tracker"), true)
	must(n.t, err)
	key, err := keys.LoadOrCreate(dir)
	must(n.t, err)
	r, err := publish.Build(n.t.Context(), []string{guide}, publish.Options{})
	must(n.t, err)
	s, err := manifest.Sign(r.Manifest, key)
	must(n.t, err)
	st, err := sqlite.Open(n.t.Context(), dir.File("tracker.db"))
	must(n.t, err)
	defer st.Close()
	_, err = st.Publish(n.t.Context(), store.CatalogModel{
		Model: r.Manifest.Model, Name: r.Manifest.Name, InfoHash: r.InfoHash, Published: time.Now(), Manifest: s.Raw, Torrent: r.Torrent,
	})
	must(n.t, err)
}

// chat is a client of the engine's own OpenAI API.
func (r *running) chat(t testing.TB) *apiclient.Client {
	t.Helper()
	var a *localapi.Access
	eventually(t, "the gateway", func() bool {
		var err error
		a, err = r.Access(t.Context())
		return err == nil
	})
	return apiclient.New(a.URL, a.Key)
}

func question(text string, tokens int) apiclient.ChatRequest {
	return apiclient.ChatRequest{Model: guideName, MaxTokens: tokens, IgnoreEOS: tokens > 200, Messages: []apiclient.Message{{Role: "user", Content: text}}}
}

func getJSON(t testing.TB, url string, out any) {
	t.Helper()
	r, err := http.NewRequestWithContext(t.Context(), http.MethodGet, url, http.NoBody)
	must(t, err)
	resp, err := http.DefaultClient.Do(r)
	must(t, err)
	defer resp.Body.Close()
	must(t, json.NewDecoder(resp.Body).Decode(out))
}
