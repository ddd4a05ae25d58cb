package interop_test

import (
	"bytes"
	"context"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/swarm"
	"neuron/engine/swarm/swarmtest"
	"neuron/internal/publish"
)

func TestMain(m *testing.M) { os.Exit(swarmtest.Main(m)) }

const (
	layers      = 6
	pieceLength = 256 << 10
)

// cut is how three of our nodes share the model; none has all of it.
var cut = []protocol.Range{{First: 0, Last: 2}, {First: 2, Last: 4}, {First: 4, Last: 6}}

// program finds a program or skips the test.
func program(t *testing.T, name, pkg string) string {
	t.Helper()
	path, err := exec.LookPath(name)
	if err != nil {
		t.Skipf("SKIPPED: %s is missing (Debian package %s)", name, pkg)
	}
	return path
}

// daemon runs a program until the test ends; its output goes to the test's log
// when the test fails.
func daemon(t *testing.T, path string, args ...string) {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	cmd := exec.CommandContext(ctx, path, args...)
	cmd.Env = []string{"PATH=" + os.Getenv("PATH"), "HOME=" + t.TempDir()}
	cmd.Cancel = func() error { return cmd.Process.Signal(os.Interrupt) }
	cmd.WaitDelay = 5 * time.Second
	out := &output{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	done := make(chan error, 1)
	go func() { done <- cmd.Wait() }()
	t.Cleanup(func() {
		cancel()
		err := <-done
		if t.Failed() {
			t.Logf("%s ended with %v; its output:\n%s", filepath.Base(path), err, out)
		}
	})
}

type output struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (o *output) Write(p []byte) (int, error) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.b.Len() > 1<<20 {
		return len(p), nil
	}
	return o.b.Write(p)
}

func (o *output) String() string {
	o.mu.Lock()
	defer o.mu.Unlock()
	return o.b.String()
}

// freePort is a port that nobody listens on now.
func freePort(t *testing.T) int {
	t.Helper()
	l, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().(*net.TCPAddr).Port
}

// partNodes are three nodes of ours that have fetched a part each from a
// seeder that has gone.
func partNodes(t *testing.T, m *swarmtest.Model, tracker string, peers ...string) []*swarmtest.Node {
	t.Helper()
	seeder := ourSeeder(t, m, "")
	addr := seeder.Addr().String()
	var nodes []*swarmtest.Node
	for i, r := range cut {
		// Transmission has one connection per address at most.
		listen := "127.0.0.1:0"
		if len(peers) > 0 {
			listen = fmt.Sprintf("127.0.0.%d:0", 2+i)
		}
		n := swarmtest.StartAt(t, listen)
		w := m.Wanted(m.Folder(t))
		w.Ranges, w.Peers = []protocol.Range{r}, append([]string{addr}, peers...)
		if tracker != "" {
			w.Announce = []string{tracker}
		}
		n.Only(w)
		nodes = append(nodes, n)
	}
	for _, n := range nodes {
		n.UntilState(swarm.StateComplete)
	}
	seeder.Stop()
	return nodes
}

func ourSeeder(t *testing.T, m *swarmtest.Model, tracker string) *swarmtest.Node {
	t.Helper()
	n := swarmtest.Start(t)
	w := m.Wanted(m.Folder(t))
	w.Adopted = []string{m.Path}
	if tracker != "" {
		w.Announce = []string{tracker}
	}
	n.Only(w)
	n.UntilState(swarm.StateComplete)
	return n
}

// sameFile waits until a client by others has the publisher's bytes.
func sameFile(t *testing.T, m *swarmtest.Model, path string) {
	t.Helper()
	want, err := os.ReadFile(m.Path)
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(want, got) {
		t.Errorf("the other client's file of %d bytes differs from the publisher's of %d", len(got), len(want))
	}
}

// transmission is a running daemon and its RPC.
type transmission struct {
	t        *testing.T
	rpc      string
	session  string
	peer     string // where it listens for peers
	download string
}

func startTransmission(t *testing.T, download string) *transmission {
	t.Helper()
	path := program(t, "transmission-daemon", "transmission-daemon")
	rpc, peer := freePort(t), freePort(t)
	conf := t.TempDir()
	settings, err := json.Marshal(map[string]any{
		"rpc-enabled": true, "rpc-port": rpc, "rpc-bind-address": "127.0.0.1", "rpc-whitelist-enabled": false,
		"rpc-host-whitelist-enabled": false, "rpc-authentication-required": false,
		"dht-enabled": false, "lpd-enabled": false, "pex-enabled": false, "utp-enabled": false, "port-forwarding-enabled": false,
		"peer-port": peer, "bind-address-ipv4": "127.0.0.1", "bind-address-ipv6": "::1", "encryption": 1,
		"download-dir": download, "start-added-torrents": true, "ratio-limit-enabled": false, "idle-seeding-limit-enabled": false,
		"speed-limit-up-enabled": false, "speed-limit-down-enabled": false,
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(conf, "settings.json"), settings, 0o600); err != nil {
		t.Fatal(err)
	}
	daemon(t, path, "--foreground", "--config-dir", conf, "--log-info")
	tr := &transmission{t: t, rpc: fmt.Sprintf("http://127.0.0.1:%d/transmission/rpc", rpc), peer: fmt.Sprintf("127.0.0.1:%d", peer), download: download}
	swarmtest.Until(t, "transmission answers", func() bool { return tr.call("session-get", nil, nil) == nil })
	return tr
}

// call is one request of the RPC. The first answer only names a session id.
func (tr *transmission) call(method string, args, result any) error {
	body, err := json.Marshal(map[string]any{"method": method, "arguments": args})
	if err != nil {
		return err
	}
	for range 2 {
		req, err := http.NewRequestWithContext(tr.t.Context(), http.MethodPost, tr.rpc, bytes.NewReader(body))
		if err != nil {
			return err
		}
		req.Header.Set("X-Transmission-Session-Id", tr.session)
		resp, err := http.DefaultClient.Do(req)
		if err != nil {
			return err
		}
		b, err := io.ReadAll(io.LimitReader(resp.Body, 1<<20))
		if cerr := resp.Body.Close(); err != nil || cerr != nil {
			return fmt.Errorf("read: %w %w", err, cerr)
		}
		if resp.StatusCode == http.StatusConflict {
			tr.session = resp.Header.Get("X-Transmission-Session-Id")
			continue
		}
		var a struct {
			Result    string
			Arguments json.RawMessage
		}
		if err := json.Unmarshal(b, &a); err != nil || a.Result != "success" {
			return fmt.Errorf("transmission answers %.200s: %w", b, err)
		}
		if result != nil {
			return json.Unmarshal(a.Arguments, result)
		}
		return nil
	}
	return fmt.Errorf("no session")
}

func (tr *transmission) add(m *swarmtest.Model) {
	tr.t.Helper()
	if err := tr.call("torrent-add", map[string]any{"metainfo": base64.StdEncoding.EncodeToString(m.Torrent)}, nil); err != nil {
		tr.t.Fatal(err)
	}
}

// untilWhole waits until it has all bytes and has checked them.
func (tr *transmission) untilWhole() {
	tr.t.Helper()
	swarmtest.Until(tr.t, "transmission has the whole torrent", func() bool {
		var r struct {
			Torrents []struct {
				PercentDone float64
				Status      int // 6: seeding
				Error       int
				ErrorString string
			}
		}
		if err := tr.call("torrent-get", map[string]any{"fields": []string{"percentDone", "status", "error", "errorString"}}, &r); err != nil {
			tr.t.Fatal(err)
		}
		if len(r.Torrents) == 1 && r.Torrents[0].Error != 0 {
			tr.t.Fatalf("transmission: %s", r.Torrents[0].ErrorString)
		}
		return len(r.Torrents) == 1 && r.Torrents[0].PercentDone == 1 && r.Torrents[0].Status == 6
	})
}

// Transmission never dials loopback addresses, so our nodes dial it; and it
// decides every ten seconds only whom it serves and from whom it fetches.
func TestTransmissionDownloadsFromOurNodes(t *testing.T) {
	t.Parallel()
	m := swarmtest.Publish(t, layers, publish.Options{PieceLength: pieceLength})
	tr := startTransmission(t, t.TempDir())
	tr.add(m)
	partNodes(t, m, "", tr.peer)
	tr.untilWhole()
	sameFile(t, m, filepath.Join(tr.download, filepath.Base(m.Path)))
}

func TestOurNodeDownloadsFromTransmission(t *testing.T) {
	t.Parallel()
	m := swarmtest.Publish(t, layers, publish.Options{PieceLength: pieceLength})
	tr := startTransmission(t, copyOf(t, m))
	tr.add(m)
	tr.untilWhole()
	fetch(t, m, protocol.Range{First: 0, Last: layers}, func(w *swarm.Model) { w.Peers = []string{tr.peer} })
}

// fetch downloads a range with a node of ours that knows no other source.
func fetch(t *testing.T, m *swarmtest.Model, r protocol.Range, source func(*swarm.Model)) {
	t.Helper()
	n := swarmtest.Start(t)
	w := m.Wanted(m.Folder(t))
	w.Ranges = []protocol.Range{r}
	source(&w)
	n.Only(w)
	s := n.UntilState(swarm.StateComplete)
	need, err := m.Manifest.NeedAll(r)
	if err != nil {
		t.Fatal(err)
	}
	if s.Received < need.WireBytes || float64(s.Received) > 1.1*float64(need.WireBytes) {
		t.Errorf("layers %s: %d bytes received for %d", r, s.Received, need.WireBytes)
	}
}

// copyOf puts the publisher's file into a folder of its own.
func copyOf(t *testing.T, m *swarmtest.Model) string {
	t.Helper()
	b, err := os.ReadFile(m.Path)
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	if err := os.WriteFile(filepath.Join(dir, filepath.Base(m.Path)), b, 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// aria2 is a command line of aria2c that uses the given tracker only.
func aria2(t *testing.T, m *swarmtest.Model, tracker, dir string, more ...string) (path string, args []string) {
	t.Helper()
	path = program(t, "aria2c", "aria2")
	file := filepath.Join(t.TempDir(), "m.torrent")
	if err := os.WriteFile(file, m.Torrent, 0o600); err != nil {
		t.Fatal(err)
	}
	return path, append([]string{
		"--no-conf", "--dir=" + dir, "--interface=127.0.0.1", fmt.Sprintf("--listen-port=%d", freePort(t)),
		"--enable-dht=false", "--enable-dht6=false", "--bt-enable-lpd=false", "--enable-peer-exchange=false",
		"--bt-tracker=" + tracker, "--file-allocation=none", "--summary-interval=0", "--console-log-level=warn",
		fmt.Sprintf("--stop-with-process=%d", os.Getpid()),
	}, append(more, file)...)
}

func TestAria2DownloadsFromOurNodes(t *testing.T) {
	t.Parallel()
	tracker := swarmtest.StartTracker(t)
	m := swarmtest.Publish(t, layers, publish.Options{PieceLength: pieceLength})
	dir := t.TempDir()
	path, args := aria2(t, m, tracker.URL, dir, "--seed-time=0")
	partNodes(t, m, tracker.URL)
	ctx, cancel := context.WithTimeout(t.Context(), swarmtest.Patience)
	defer cancel()
	cmd := exec.CommandContext(ctx, path, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, strings.ReplaceAll(string(out), "\r", "\n"))
	}
	sameFile(t, m, filepath.Join(dir, filepath.Base(m.Path)))
}

func TestOurNodeDownloadsFromAria2(t *testing.T) {
	t.Parallel()
	tracker := swarmtest.StartTracker(t)
	m := swarmtest.Publish(t, layers, publish.Options{PieceLength: pieceLength})
	path, args := aria2(t, m, tracker.URL, copyOf(t, m), "--seed-ratio=0.0", "--check-integrity=true")
	daemon(t, path, args...)
	swarmtest.Until(t, "aria2 announces", func() bool { return len(tracker.Peers(m.InfoHash)) == 1 })
	fetch(t, m, cut[1], func(w *swarm.Model) { w.Announce = []string{tracker.URL} })
}
