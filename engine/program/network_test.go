package program_test

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"neuron/engine/cli/apiclient"
	"neuron/engine/localapi"
	"neuron/engine/program"
	"neuron/engine/protocol"
	"neuron/internal/leaktest"
	"neuron/llama"
	"neuron/tracker-server/audit/numeric"
	"neuron/tracker-server/server"
)

const (
	guide     = "../../assets/model/guide-q8_0.gguf"
	guideName = "guide-q8_0"
	patience  = 30 * time.Second
)

// needLibrary skips a test that runs a model when there is no library.
func needLibrary(t testing.TB) {
	t.Helper()
	if _, err := llama.NativeDir(); err != nil {
		t.Skipf("SKIPPED: no native libraries (make native): %v", err)
	}
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

// part is a program that runs in this process.
type part struct {
	name string
	stop context.CancelFunc
	done chan struct{}
	err  error // valid after done
}

func run(name string, f func(context.Context) error) *part {
	ctx, cancel := context.WithCancel(context.Background())
	p := &part{name: name, stop: cancel, done: make(chan struct{})}
	go func() {
		defer close(p.done)
		p.err = f(ctx)
	}()
	return p
}

// end stops the part and wants an ordered end.
func (p *part) end(t testing.TB) {
	t.Helper()
	p.stop()
	if err := p.wait(t); err != nil {
		t.Errorf("%s: %v", p.name, err)
	}
}

// wait waits for the part to end by itself.
func (p *part) wait(t testing.TB) error {
	t.Helper()
	select {
	case <-p.done:
		return p.err
	case <-time.After(patience):
		t.Fatalf("%s does not end", p.name)
		return nil
	}
}

type node struct {
	*program.Node
	*part
	o program.NodeOptions
}

// network is a tracker, nodes and a gateway with one model.
type network struct {
	t      testing.TB
	parent testing.TB
	dir    string
	model  string // path
	log    program.Log

	trackerAddr string // host:port, kept over restarts
	audits      numeric.Config
	halves      bool           // of the gateway
	trackerOf   *server.Server // what runs now
	tracker     *part
	url         string
	nodes       []*node
	seeder      *node // of a catalogNetwork
	gateway     *program.Gateway
	gatewayRun  *part
	client      *apiclient.Client
}

// newNetwork starts a tracker, a node per range and a gateway, and waits for a
// route. All of it has ended without a leak when the test is over.
func newNetwork(t testing.TB, model string, ranges ...string) *network {
	t.Helper()
	needLibrary(t)
	leaktest.Check(t)
	n := &network{t: t, dir: t.TempDir(), model: model, trackerAddr: "127.0.0.1:0", log: discard}
	if _, bench := t.(*testing.B); !bench {
		n.log = testLog(t)
	}
	t.Cleanup(http.DefaultTransport.(*http.Transport).CloseIdleConnections)
	n.startTracker()
	for i, r := range ranges {
		n.startNode(program.NodeOptions{Data: filepath.Join(n.dir, fmt.Sprintf("node-%d", i)), Layers: r})
	}
	n.startGateway()
	t.Cleanup(func() { // all at once; the cleanups of the parts wait
		n.gatewayRun.stop()
		for _, x := range n.nodes {
			x.stop()
		}
	})
	n.waitRoutable()
	return n
}

// testLog writes to the test's output.
func testLog(t testing.TB) program.Log {
	h := slog.NewTextHandler(t.Output(), nil)
	return func(c string) *slog.Logger { return slog.New(h).With("component", c) }
}

func discard(string) *slog.Logger { return slog.New(slog.DiscardHandler) }

func (n *network) startTracker() {
	n.t.Helper()
	var s *server.Server
	// After a restart the port may still be held by a dying connection.
	eventually(n.t, "the tracker's port", func() bool {
		var err error
		s, err = server.New(server.Options{
			Listen: n.trackerAddr, Data: filepath.Join(n.dir, "tracker"), ReportEvery: time.Second, Logger: n.log("tracker"),
			Audits: n.audits,
		})
		if err != nil && !errors.Is(err, &protocol.Error{Code: protocol.CodePortInUse}) {
			n.t.Fatal(err)
		}
		return err == nil
	})
	n.trackerAddr, n.url, n.trackerOf = s.Addr(), s.URL(), s
	p := run("tracker", s.Run)
	n.tracker = p
	n.t.Cleanup(func() { p.end(n.t) })
}

func (n *network) startNode(o program.NodeOptions) *node {
	n.t.Helper()
	o.Model, o.Tracker, o.Log, o.Threads = n.model, n.url, n.log, 1
	x, err := program.NewNode(n.t.Context(), o)
	if err != nil {
		n.t.Fatal(err)
	}
	m := &node{Node: x, part: run("node "+o.Layers, x.Run), o: o}
	n.t.Cleanup(func() { m.end(n.t) })
	n.nodes = append(n.nodes, m)
	return m
}

func (n *network) startGateway() {
	n.t.Helper()
	o := program.GatewayOptions{Data: filepath.Join(n.dir, "gateway"), Tracker: n.url, Halves: n.halves, Log: n.log}
	if n.model != "" {
		o.Models = []string{n.model}
	}
	g, err := program.NewGateway(n.t.Context(), o)
	if err != nil {
		n.t.Fatal(err)
	}
	n.gateway, n.gatewayRun = g, run("gateway", g.Run)
	p := n.gatewayRun
	n.t.Cleanup(func() { p.end(n.t) })
	e := g.Endpoint()
	n.client = apiclient.New(e.URL, e.Key)
}

// waitRoutable waits until the tracker has a route and the gateway a tracker.
func (n *network) waitRoutable() {
	n.t.Helper()
	eventually(n.t, "a route", func() bool {
		return n.gateway.Connected() && n.routable()
	})
}

func (n *network) routable() bool {
	var list protocol.Models
	if err := getJSON(n.t.Context(), n.url+"v1/models", &list); err != nil || len(list.Models) == 0 {
		return false
	}
	for _, m := range list.Models {
		if !m.Routable {
			return false
		}
	}
	return true
}

func getJSON(ctx context.Context, url string, out any) error {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, url, nil)
	if err != nil {
		return err
	}
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		return errors.New(resp.Status)
	}
	return json.NewDecoder(io.LimitReader(resp.Body, 1<<20)).Decode(out)
}

// long is a request whose answer is still running when a test looks at it.
func long(tokens int) apiclient.ChatRequest {
	return apiclient.ChatRequest{Model: guideName, MaxTokens: tokens, IgnoreEOS: true,
		Messages: []apiclient.Message{{Role: "user", Content: "Tell me a story."}}}
}

func ask(question string) apiclient.ChatRequest {
	return apiclient.ChatRequest{Model: guideName, MaxTokens: 100, Messages: []apiclient.Message{{Role: "user", Content: question}}}
}

// answer asks and wants a complete answer.
func (n *network) answer(r apiclient.ChatRequest) *apiclient.Answer {
	n.t.Helper()
	a, err := n.client.Chat(n.t.Context(), r, nil)
	if err != nil {
		n.t.Fatal(err)
	}
	return a
}

// running is an answer under way.
type running struct {
	cancel context.CancelFunc
	done   chan struct{}
	answer *apiclient.Answer // valid after done
	err    error             // the same
	ended  time.Time         // the same
}

// begin starts an answer and returns when some of its text has come, so that
// both hops have decoded.
func (n *network) begin(r apiclient.ChatRequest) *running {
	n.t.Helper()
	ctx, cancel := context.WithCancel(n.t.Context())
	x := &running{cancel: cancel, done: make(chan struct{})}
	first := make(chan struct{})
	go func() {
		defer close(x.done)
		deltas := 0
		x.answer, x.err = n.client.Chat(ctx, r, func(string) {
			if deltas++; deltas == 5 {
				close(first)
			}
		})
		x.ended = time.Now()
	}()
	n.t.Cleanup(func() { cancel(); <-x.done })
	select {
	case <-first:
	case <-x.done:
		n.t.Fatalf("the answer ended before its first text: %v", x.err)
	case <-time.After(patience):
		n.t.Fatal("no text")
	}
	return x
}

// failure waits for the end and wants a coded error.
func (x *running) failure(t testing.TB) *protocol.Error {
	t.Helper()
	select {
	case <-x.done:
	case <-time.After(patience):
		t.Fatal("the answer does not end")
	}
	var e *protocol.Error
	if !errors.As(x.err, &e) {
		t.Fatalf("want a coded error, got %v (%+v)", x.err, x.answer)
	}
	return e
}

// sessions is what a node's local API lists.
func (x *node) sessions(t testing.TB) []protocol.SessionState {
	t.Helper()
	c, err := localapi.Dial(x.o.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Sessions(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// idle waits until no session and no KV memory is left on any node.
func (n *network) idle() {
	n.t.Helper()
	for _, x := range n.nodes {
		eventually(n.t, "node "+x.o.Layers+" to free everything", func() bool {
			p := x.Stage().Process()
			return p != nil && len(x.sessions(n.t)) == 0 && p.Stats().Sessions == 0 && p.Stats().FreeKVBytes == p.KVBudget()
		})
	}
}

// alive reports whether a process exists.
func alive(pid int) bool {
	p, err := os.FindProcess(pid) // Windows opens it, and fails for one that is gone
	if err != nil {
		return false
	}
	defer p.Release()
	return !errors.Is(p.Signal(syscall.Signal(0)), os.ErrProcessDone)
}

func code(err error) protocol.Code {
	var e *protocol.Error
	if errors.As(err, &e) {
		return e.Code
	}
	return ""
}

// busyPort listens on a port, so that nobody else can.
func busyPort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { l.Close() })
	return l.Addr().String()
}

func copyFile(t *testing.T, to string, change func([]byte) []byte) string {
	t.Helper()
	raw, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, change(raw), 0o600); err != nil {
		t.Fatal(err)
	}
	return to
}
