// Package swarmtest is what tests and measurements of the swarm share: models
// that are published for real, a BitTorrent tracker (BEP 3 and 23), and nodes
// whose child process is the test binary itself.
//
// Only tests and measuring tools may import it.
package swarmtest

import (
	"context"
	"crypto/ed25519"
	"log/slog"
	"net/netip"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"neuron/engine/manifest"
	"neuron/engine/swarm"
	"neuron/engine/swarm/worker"
	"neuron/internal/publish"
	"neuron/llama/synth"
)

// Patience bounds every wait; a loaded machine takes seconds for what usually
// takes milliseconds.
const Patience = 90 * time.Second

// Main makes a test binary its own BitTorrent process: with "swarm" as its
// first argument it is the child. TestMain passes what it returns to os.Exit.
func Main(m *testing.M) int {
	if len(os.Args) > 1 && os.Args[1] == "swarm" {
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		if err := worker.Run(context.Background(), os.Stdin, os.Stdout, log); err != nil {
			log.Error("Swarm failed", "error", err)
			return 1
		}
		return 0
	}
	return m.Run()
}

// Spawn starts the test binary as a child.
func Spawn() swarm.Spawn {
	s := swarm.Spawn{Exe: os.Args[0], Args: []string{"swarm"}, Logger: slog.New(slog.DiscardHandler)}
	// The race detector lets a process linger for a second at its end; a child
	// gets to see few variables, so env sets this one.
	if env, err := exec.LookPath("env"); err == nil {
		s.Exe, s.Args = env, []string{"GORACE=atexit_sleep_ms=0", os.Args[0], "swarm"}
	}
	return s
}

// Model is a published model.
type Model struct {
	Path     string // the publisher's file
	Manifest *manifest.Manifest
	Signed   []byte
	Torrent  []byte
	InfoHash string
}

// Publish makes a model of random weights (Llama shape, 2.4 MB a layer and two
// of 0.5 MB around them) and publishes it.
func Publish(t testing.TB, layers int, o publish.Options) *Model {
	t.Helper()
	path := filepath.Join(t.TempDir(), "model.gguf")
	shape, err := synth.Preset("tiny-llama")
	if err != nil {
		t.Fatal(err)
	}
	shape.Layers = layers
	if err := synth.Write(path, shape, synth.Options{Seed: uint64(layers)}); err != nil {
		t.Fatal(err)
	}
	return PublishFile(t, path, o)
}

// PublishFile publishes a GGUF that exists.
func PublishFile(t testing.TB, path string, o publish.Options) *Model {
	t.Helper()
	r, err := publish.Build(t.Context(), []string{path}, o)
	if err != nil {
		t.Fatal(err)
	}
	signed, err := manifest.Sign(r.Manifest, ed25519.NewKeyFromSeed(make([]byte, ed25519.SeedSize)))
	if err != nil {
		t.Fatal(err)
	}
	return &Model{Path: path, Manifest: r.Manifest, Signed: signed.Raw, Torrent: r.Torrent, InfoHash: r.InfoHash}
}

// Folder makes a shard folder as the engine does.
func (m *Model) Folder(t testing.TB) string {
	t.Helper()
	return m.FolderIn(t, t.TempDir())
}

// FolderIn puts manifest and torrent into a folder that exists.
func (m *Model) FolderIn(t testing.TB, dir string) string {
	t.Helper()
	for name, b := range map[string][]byte{"manifest.json": m.Signed, "model.torrent": m.Torrent} {
		if err := os.WriteFile(filepath.Join(dir, name), b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// Wanted describes one model in a folder.
func (m *Model) Wanted(dir string) swarm.Model {
	return swarm.Model{Model: m.Manifest.Model, Dir: dir}
}

// Node is a host with its child.
type Node struct {
	Host *swarm.Host

	t       testing.TB
	changed chan struct{}
	mu      sync.Mutex
	wanted  swarm.Wanted // guarded by mu
	end     func()
}

// Start runs a node that ends with the test. It listens on a free port of
// 127.0.0.1.
func Start(t testing.TB) *Node { return StartAt(t, "127.0.0.1:0") }

// StartAt runs a node that listens on the given address.
func StartAt(t testing.TB, listen string) *Node {
	t.Helper()
	n := &Node{t: t, changed: make(chan struct{}, 1), wanted: swarm.Wanted{Listen: listen}}
	n.Host = swarm.NewHost(swarm.HostOptions{Spawn: Spawn(), Changed: func() {
		select {
		case n.changed <- struct{}{}:
		default: // a look is due already
		}
	}})
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan struct{})
	go func() {
		defer close(done)
		n.Host.Run(ctx)
	}()
	n.end = sync.OnceFunc(func() { cancel(); <-done })
	t.Cleanup(n.end)
	return n
}

// Stop ends the node in order.
func (n *Node) Stop() { n.end() }

// Want changes what is wanted.
func (n *Node) Want(change func(*swarm.Wanted)) {
	n.t.Helper()
	n.mu.Lock()
	defer n.mu.Unlock()
	n.wanted.Version++
	change(&n.wanted)
	if err := n.Host.Set(n.wanted); err != nil {
		n.t.Fatal(err)
	}
}

// Only wants one model and nothing else.
func (n *Node) Only(m swarm.Model) {
	n.t.Helper()
	n.Want(func(w *swarm.Wanted) { w.Models = []swarm.Model{m} })
}

// Until waits for a status. Statuses that are older than the last Want do not
// count.
func (n *Node) Until(what string, ok func(swarm.Status) bool) swarm.Status {
	n.t.Helper()
	deadline := time.After(Patience)
	n.mu.Lock()
	version := n.wanted.Version
	n.mu.Unlock()
	for {
		s := n.Host.Status()
		if s.Version >= version && ok(s) {
			return s
		}
		select {
		case <-n.changed:
		case <-deadline:
			n.t.Fatalf("%s: not within %s; last status %+v", what, Patience, n.Host.Status())
		}
	}
}

// UntilState waits for the state of the only model.
func (n *Node) UntilState(state swarm.State) swarm.ModelStatus {
	n.t.Helper()
	s := n.Until(string(state), func(s swarm.Status) bool { return len(s.Models) == 1 && s.Models[0].State == state })
	return s.Models[0]
}

// Addr is where the node's child listens, when it does.
func (n *Node) Addr() netip.AddrPort {
	n.t.Helper()
	s := n.Until("listening", func(s swarm.Status) bool { return s.Addr != "" })
	return netip.MustParseAddrPort(s.Addr)
}

// Until polls a condition that another process makes true.
func Until(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	deadline := time.After(Patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("%s: not within %s", what, Patience)
		}
	}
}
