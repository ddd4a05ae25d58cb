package seam_test

import (
	"context"
	"crypto/ed25519"
	"errors"
	"io"
	"log/slog"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/receipt"
	"neuron/engine/receipt/hooks"
	"neuron/engine/seam"
	"neuron/engine/seam/seamclient"
	"neuron/engine/seam/seamtest"
	"neuron/internal/identity"
	"neuron/internal/leaktest"
)

// Tests run with shorter times than the defaults, in the same proportions.
const (
	silence       = 900 * time.Millisecond
	pingEvery     = 200 * time.Millisecond
	engineVersion = "test-engine"
	// freedIn is the product's limit for freeing the KV of an ended session.
	freedIn = 2 * time.Second
)

// network is a route of real servers on loopback with fake stages.
type network struct {
	t       *testing.T
	tracker ed25519.PrivateKey
	nodes   []*node
	driver  *identity.Identity
	client  *seamclient.Client
}

type node struct {
	id     *identity.Identity
	stage  *seamtest.Stage
	server *seam.Server
	addr   string
	nodeID protocol.NodeID
	use    protocol.Range
	proc   *os.Process // of a node that is a process of its own: no id, stage, server, book
	book   *receipt.Book

	mu     sync.Mutex // guards below
	failed []failure
}

type failure struct {
	node protocol.NodeID
	err  *protocol.Error
}

func (n *node) failures() []failure {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]failure(nil), n.failed...)
}

func newID(t *testing.T) *identity.Identity {
	t.Helper()
	id, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	return id
}

type netOptions struct {
	hops       int
	upgrade    bool
	streamWait time.Duration
	headerWait time.Duration
	// process makes hop process-1 a process of its own.
	process int
	// till makes the nodes keep receipts, and takes them; stuck makes those of
	// hop stuck-1 miss the receiver's signatures.
	till  *till
	stuck int
	// stage wraps the stages; nil: as they are.
	stage func(seam.Stage) seam.Stage
}

func newNetwork(t *testing.T, o netOptions) *network {
	t.Helper()
	leaktest.Check(t)
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	n := &network{t: t, tracker: key, driver: newID(t)}
	n.client = n.newClient(n.driver, o.upgrade)
	for i := range o.hops {
		use := protocol.Range{First: i * seamtest.Layers / o.hops, Last: (i + 1) * seamtest.Layers / o.hops}
		if i == o.process-1 {
			n.nodes = append(n.nodes, startProcess(t, use, key.Public().(ed25519.PublicKey), o.till != nil))
			continue
		}
		nd := &node{id: newID(t), stage: seamtest.NewStage(use, 4096), use: use}
		nd.nodeID = nd.id.ID()
		var receipts seam.Receipts
		if o.till != nil {
			nd.book = openBook(t, nd.id, n.newClient(nd.id, o.upgrade), o.till)
			receipts = hooks.Hops{Book: nd.book, Engine: engineVersion}
			if i == o.stuck-1 {
				receipts = stuckHops{receipts}
			}
		}
		stage := func() seam.Stage { return nd.stage }
		if o.stage != nil {
			st := o.stage(nd.stage)
			stage = func() seam.Stage { return st }
		}
		nd.server = seam.NewServer(seam.ServerOptions{
			Identity: nd.id, Stage: stage,
			TrackerKey: func() ed25519.PublicKey { return key.Public().(ed25519.PublicKey) },
			Logger:     slog.New(slog.NewTextHandler(io.Discard, nil)),
			Silence:    silence, PingEvery: pingEvery, StreamWait: o.streamWait, HeaderWait: o.headerWait, Upgrade: o.upgrade,
			Receipts: receipts,
			HopFailed: func(_ protocol.SessionID, id protocol.NodeID, e *protocol.Error) {
				nd.mu.Lock()
				defer nd.mu.Unlock()
				nd.failed = append(nd.failed, failure{id, e})
			},
		})
		l, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		nd.addr = l.Addr().String()
		served := make(chan error, 1)
		go func() { served <- nd.server.Serve(l) }()
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
			defer cancel()
			if err := nd.server.Close(ctx); err != nil {
				t.Errorf("server close: %v", err)
			}
			if err := <-served; err != nil {
				t.Errorf("serve: %v", err)
			}
			if nd.book != nil {
				if err := nd.book.Close(); err != nil {
					t.Errorf("book close: %v", err)
				}
			}
			if nd.stage.Sessions() != 0 || nd.stage.FreeCells() != 4096 {
				t.Errorf("%d sessions and %d free cells at the end", nd.stage.Sessions(), nd.stage.FreeCells())
			}
		})
		n.nodes = append(n.nodes, nd)
	}
	return n
}

func (n *network) newClient(id *identity.Identity, upgrade bool) *seamclient.Client {
	opts := []seamclient.Option{seamclient.WithLiveness(silence, pingEvery)}
	if upgrade {
		opts = append(opts, seamclient.WithUpgrade())
	}
	c := seamclient.New(id, opts...)
	n.t.Cleanup(c.Close)
	return c
}

// lease is a good lease for the network's whole route.
func (n *network) lease() *protocol.Lease {
	l := &protocol.Lease{
		Version: protocol.Version, Session: protocol.NewSessionID(), Model: seamtest.Model, Layers: seamtest.Layers,
		Driver: n.driver.ID(), Context: 1024, DType: protocol.DTypeF32,
		EngineBuild: protocol.Build{Protocol: protocol.Version, Llama: seamtest.LlamaVersion},
		Issued:      time.Now().Add(-time.Minute), Expires: time.Now().Add(time.Hour), Policy: "public",
	}
	for _, nd := range n.nodes {
		l.Hops = append(l.Hops, protocol.Hop{Node: nd.nodeID, Addr: nd.addr, Use: nd.use, StepMicros: 1000})
	}
	return l
}

func (n *network) sign(l *protocol.Lease) *protocol.SignedLease {
	n.t.Helper()
	s, err := protocol.SignLease(l, n.tracker)
	if err != nil {
		n.t.Fatal(err)
	}
	return s
}

func request(l *protocol.Lease, s *protocol.SignedLease, hop int) *protocol.OpenRequest {
	r := &protocol.OpenRequest{Lease: s, Hop: hop}
	if hop == len(l.Hops)-1 {
		r.Sampler = &protocol.Sampler{Seed: 1}
	}
	return r
}

// route is an open session with its two streams.
type route struct {
	*network
	lease  *protocol.Lease
	stream seamclient.Stream
	tokens seamclient.TokenStream
	cancel context.CancelFunc
	note   *receipt.Session // the driver's, or nil
}

func (n *network) open(l *protocol.Lease) {
	n.t.Helper()
	s := n.sign(l)
	for i, h := range l.Hops {
		r, err := n.client.Open(n.t.Context(), h, request(l, s, i))
		if err != nil {
			n.t.Fatalf("open hop %d: %v", i, err)
		}
		if r.Session != l.Session || r.Hop != i || r.Cells != l.Context || r.Report.Width != seamtest.Width {
			n.t.Fatalf("open reply %+v", r)
		}
	}
}

func (n *network) start() *route { return n.startLease(n.lease()) }

func (n *network) startLease(l *protocol.Lease) *route {
	n.t.Helper()
	r := &route{network: n, lease: l}
	n.open(r.lease)
	ctx, cancel := context.WithCancel(context.Background())
	n.t.Cleanup(cancel)
	r.cancel = cancel
	var err error
	last := len(r.lease.Hops) - 1
	if r.tokens, err = n.client.Tokens(ctx, r.lease.Hops[last], r.lease.Session); err != nil {
		n.t.Fatalf("tokens: %v", err)
	}
	if r.stream, err = n.client.Stream(ctx, r.lease.Hops[0], r.lease.Session); err != nil {
		n.t.Fatalf("stream: %v", err)
	}
	n.t.Cleanup(func() {
		r.stream.Close()
		r.tokens.Close()
	})
	return r
}

func ids(n int) []int32 {
	out := make([]int32, n)
	for i := range out {
		out[i] = int32(i%50) + 1
	}
	return out
}

func (r *route) send(f *protocol.Frame) {
	r.t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	switch {
	case r.note != nil && f.Kind.Rows():
		r.note.In(f)
	case r.note != nil && f.Kind == protocol.KindTruncate:
		r.note.Truncate(f)
	}
	if err := r.stream.Send(ctx, f); err != nil {
		r.t.Fatalf("send %s at %d: %v", f.Kind, f.Pos, err)
	}
}

// drainAcks reads the stream's frames in the background, as a driver does.
func (r *route) drainAcks() {
	go func() {
		for range r.stream.Frames() {
		}
	}()
}

// prefill sends n rows in chunks of 64 and samples behind the last.
func (r *route) prefill(epoch, from uint32, n int) {
	r.t.Helper()
	all := ids(n)
	for pos := 0; pos < n; pos += 64 {
		end := min(pos+64, n)
		f := protocol.IDFrame(protocol.KindPrefill, from+uint32(pos), all[pos:end])
		f.Epoch = epoch
		if end == n {
			f.Flags = protocol.FlagSample
		}
		r.send(f)
	}
}

func (r *route) decode(epoch, pos uint32) {
	r.t.Helper()
	f := protocol.IDFrame(protocol.KindDecode, pos, []int32{7})
	f.Epoch, f.Flags = epoch, protocol.FlagSample
	r.send(f)
}

// token waits for the next token and checks its position and content.
func (r *route) token(pos uint32) protocol.Token {
	r.t.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case f, ok := <-r.tokens.Frames():
			if !ok {
				r.t.Fatalf("token stream ended: %v", r.tokens.Err())
			}
			if f.Kind == protocol.KindAck {
				if r.note != nil {
					r.note.Executed(f.Epoch, f.Pos)
				}
				continue
			}
			if r.note != nil {
				r.note.Out(f)
			}
			tok, err := f.Token()
			if err != nil {
				r.t.Fatalf("%s frame: %v", f.Kind, err)
			}
			if f.Pos != pos || tok.ID != seamtest.TokenAt(pos) {
				r.t.Fatalf("token %d at %d, want %d at %d", tok.ID, f.Pos, seamtest.TokenAt(pos), pos)
			}
			return tok
		case <-limit:
			r.t.Fatal("no token")
		}
	}
}

// ended waits for a stream's end and returns its error.
func ended(t *testing.T, frames <-chan *protocol.Frame, err func() error) error {
	t.Helper()
	limit := time.After(10 * time.Second)
	for {
		select {
		case _, ok := <-frames:
			if !ok {
				return err()
			}
		case <-limit:
			t.Fatal("stream does not end")
		}
	}
}

func (r *route) streamEnd() error { return ended(r.t, r.stream.Frames(), r.stream.Err) }
func (r *route) tokensEnd() error { return ended(r.t, r.tokens.Frames(), r.tokens.Err) }

// until polls a condition.
func until(t *testing.T, limit time.Duration, what string, ok func() bool) {
	t.Helper()
	deadline := time.Now().Add(limit)
	for !ok() {
		if time.Now().After(deadline) {
			t.Fatalf("not within %s: %s", limit, what)
		}
		time.Sleep(5 * time.Millisecond) // polling, bounded by limit
	}
}

// freed checks that the KV is free on all hops within the product's limit.
func (n *network) freed(nodes ...*node) {
	n.t.Helper()
	if nodes == nil {
		nodes = n.nodes
	}
	until(n.t, freedIn, "KV is free on all hops", func() bool {
		for _, nd := range nodes {
			if nd.stage != nil && nd.stage.Sessions() != 0 {
				return false
			}
		}
		return true
	})
}

func wantCode(t *testing.T, what string, err error, code protocol.Code) *protocol.Error {
	t.Helper()
	var e *protocol.Error
	if !errors.As(err, &e) || e.Code != code {
		t.Fatalf("%s: error %v, want %s", what, err, code)
	}
	return e
}

func wantHop(t *testing.T, what string, e *protocol.Error, hop int, phase protocol.Phase) {
	t.Helper()
	if e.Hop == nil || *e.Hop != hop || e.Phase != phase {
		t.Fatalf("%s: %v in phase %q, want hop %d in %q", what, e, e.Phase, hop, phase)
	}
}
