package server

import (
	"context"
	"crypto/ed25519"
	"crypto/rand"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"runtime"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
)

var (
	testBuild = protocol.Build{Protocol: protocol.Version, Llama: "b1"}
	testModel = protocol.ModelID(strings.Repeat("ab", 32))
)

const patience = 20 * time.Second

// clock is real time plus what a test adds.
type clock struct{ offset atomic.Int64 }

func (c *clock) Now() time.Time          { return time.Now().Add(time.Duration(c.offset.Load())) }
func (c *clock) Advance(d time.Duration) { c.offset.Add(int64(d)) }

// tracker is a running server under test.
type tracker struct {
	*Server
	t     *testing.T
	clock *clock
	done  chan error
	stop  context.CancelFunc
}

func start(t *testing.T, data string, c *clock) *tracker {
	t.Helper()
	return startWith(t, c, Options{Data: data})
}

func startWith(t *testing.T, c *clock, o Options) *tracker {
	t.Helper()
	o.Listen, o.Now = "127.0.0.1:0", c.Now
	if o.ReportEvery == 0 {
		o.ReportEvery = 20 * time.Second // fakes report once, and machines can be slow
	}
	s, err := New(o)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	tr := &tracker{Server: s, t: t, clock: c, done: make(chan error, 1), stop: cancel}
	go func() { tr.done <- s.Run(ctx) }()
	t.Cleanup(tr.halt)
	return tr
}

// halt stops the server in order; it may be called twice.
func (tr *tracker) halt() {
	tr.t.Helper()
	if tr.stop == nil {
		return
	}
	tr.stop()
	tr.stop = nil
	if err := <-tr.done; err != nil {
		tr.t.Errorf("stop: %v", err)
	}
}

func (tr *tracker) get(path string, v any) int {
	tr.t.Helper()
	resp, err := http.Get(strings.TrimSuffix(tr.URL(), "/") + path)
	if err != nil {
		tr.t.Fatal(err)
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	if err != nil {
		tr.t.Fatal(err)
	}
	if text, ok := v.(*string); ok {
		*text = string(raw)
	} else if v != nil {
		if err := json.Unmarshal(raw, v); err != nil {
			tr.t.Fatalf("%s: %v in %s", path, err, raw)
		}
	}
	return resp.StatusCode
}

// eventually polls a condition.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(patience); time.Now().Before(end); {
		if ok() {
			return
		}
		runtime.Gosched()
		<-time.After(5 * time.Millisecond)
	}
	t.Fatalf("never happened: %s", what)
}

// fake is a node or gateway made of a key and a websocket.
type fake struct {
	t       *testing.T
	key     ed25519.PrivateKey
	ws      *websocket.Conn
	welcome *protocol.Welcome
	msgs    chan *protocol.Envelope // closed when the connection ends
	next    uint64
}

func newKey() ed25519.PrivateKey {
	_, k, _ := ed25519.GenerateKey(rand.Reader)
	return k
}

func idOf(k ed25519.PrivateKey) protocol.NodeID {
	return protocol.NodeIDOf(k.Public().(ed25519.PublicKey))
}

func (f *fake) id() protocol.NodeID { return idOf(f.key) }

// dial connects and sends a hello, which change may spoil.
func (tr *tracker) dial(key ed25519.PrivateKey, role protocol.Role, change func(*protocol.Hello)) *fake {
	tr.t.Helper()
	ws, resp, err := websocket.DefaultDialer.Dial("ws://"+tr.Addr()+"/v1/nodes", nil)
	if err != nil {
		tr.t.Fatal(err, resp)
	}
	f := &fake{t: tr.t, key: key, ws: ws, msgs: make(chan *protocol.Envelope, 1000)}
	tr.t.Cleanup(func() { ws.Close() })
	go func() {
		defer close(f.msgs)
		for {
			_, raw, err := ws.ReadMessage()
			if err != nil {
				return
			}
			if e, err := protocol.ParseEnvelope(raw); err == nil {
				f.msgs <- e
			}
		}
	}()
	ch := expect[protocol.Challenge](f, protocol.MsgChallenge)
	h := &protocol.Hello{
		Protocol: protocol.Version, Engine: "test", Build: testBuild, Role: role, Key: key.Public().(ed25519.PublicKey),
		Sig: ed25519.Sign(key, protocol.HelloPayload(ch.Nonce, ch.Tracker)), Addr: "127.0.0.1:9", Host: "2 cores, 4.0 GB",
	}
	if change != nil {
		change(h)
	}
	f.send(protocol.MsgHello, h)
	return f
}

// join connects and waits until the tracker counts the connection, which is a
// moment after the welcome.
func (tr *tracker) join(key ed25519.PrivateKey, role protocol.Role) *fake {
	tr.t.Helper()
	f := tr.dial(key, role, nil)
	f.welcome = expect[protocol.Welcome](f, protocol.MsgWelcome)
	k := peerKey{f.welcome.Node, role}
	eventually(tr.t, "the connection to count", func() bool {
		tr.core.mu.Lock()
		defer tr.core.mu.Unlock()
		p := tr.core.peers[k]
		return p != nil && p.Epoch() == f.welcome.Epoch
	})
	return f
}

// node joins and reports one shard.
func (tr *tracker) node(key ed25519.PrivateKey, layers, first, last int) *fake {
	tr.t.Helper()
	f := tr.join(key, protocol.RoleNode)
	f.report(layers, first, last, nil)
	return f
}

func (f *fake) report(layers, first, last int, change func(*protocol.ShardReport)) {
	f.t.Helper()
	s := protocol.ShardReport{
		State: protocol.ShardReady, FreeKVBytes: 1 << 20, MaxSessions: 4, StepMicros: 1000,
		Capability: protocol.Capability{
			Model: testModel, Name: "guide", Architecture: "llama", Layers: layers, Loaded: protocol.Range{First: first, Last: last},
			Head: first == 0, Tail: last == layers, Width: 64, DTypes: []string{"f32"}, KVBytesPerCell: 256, MaxContext: 4096, ChunkRows: 64, Build: testBuild,
		},
	}
	if change != nil {
		change(&s)
	}
	f.send(protocol.MsgReport, protocol.Report{Shards: []protocol.ShardReport{s}})
}

func (f *fake) send(k protocol.MessageKind, body any) uint64 {
	f.t.Helper()
	f.next++
	e, err := protocol.Pack(k, f.next, body)
	if err != nil {
		f.t.Fatal(err)
	}
	if err := f.ws.WriteJSON(e); err != nil {
		f.t.Fatal(err)
	}
	return f.next
}

// expect waits for a message of a kind and skips others.
func expect[T any](f *fake, k protocol.MessageKind) *T {
	f.t.Helper()
	late := time.After(patience)
	for {
		select {
		case e, ok := <-f.msgs:
			if !ok {
				f.t.Fatalf("the connection ended before %s came", k)
			}
			if e.Kind != k {
				if k == protocol.MsgLease && e.Kind == protocol.MsgError {
					f.t.Fatalf("error instead of a lease: %s", e.Body)
				}
				continue
			}
			v, err := protocol.Unpack[T](e)
			if err != nil {
				f.t.Fatal(err)
			}
			return v
		case <-late:
			f.t.Fatalf("no %s came", k)
		}
	}
}

func (f *fake) expectError(code protocol.Code) *protocol.Error {
	f.t.Helper()
	e := expect[protocol.Error](f, protocol.MsgError)
	if e.Code != code {
		f.t.Fatalf("got %v, want %s", e, code)
	}
	return e
}

func (f *fake) expectRefused(code protocol.Code) *protocol.Refused {
	f.t.Helper()
	r := expect[protocol.Refused](f, protocol.MsgRefused)
	if r.Error == nil || r.Error.Code != code {
		f.t.Fatalf("got %+v, want %s", r.Error, code)
	}
	for range f.msgs { // the connection closes
	}
	return r
}

func (f *fake) askRoute(context int) protocol.SessionID {
	f.t.Helper()
	id := protocol.NewSessionID()
	f.send(protocol.MsgRoute, protocol.RouteRequest{Session: id, Model: "guide", Context: context, Prompt: 10, Policy: "public"})
	return id
}

func (f *fake) route(tr *tracker, context int) *protocol.Lease {
	f.t.Helper()
	f.askRoute(context)
	r := expect[protocol.RouteReply](f, protocol.MsgLease)
	l, err := r.Lease.Verify(tr.Key(), tr.clock.Now())
	if err != nil {
		f.t.Fatal(err)
	}
	return l
}

func (f *fake) telemetry(l *protocol.Lease, seq uint64, p protocol.Phase, change func(*protocol.Telemetry)) {
	f.t.Helper()
	t := protocol.Telemetry{Session: l.Session, Phase: p, Seq: seq, At: time.Now(), PrefillTotal: 10, PrefillDone: 10, Tokens: int(seq), TokensPerSecond: 7.5}
	for i, h := range l.Hops {
		t.Route = append(t.Route, protocol.HopTelemetry{Hop: i, Node: h.Node, Use: h.Use, Health: protocol.HealthOK,
			Counters: protocol.Counters{DecodeSteps: 10, DecodeMicros: 11_000}})
	}
	if change != nil {
		change(&t)
	}
	f.send(protocol.MsgSession, protocol.SessionUpdate{Telemetry: t})
}

func wantCode(t *testing.T, err error, code protocol.Code) {
	t.Helper()
	if !errors.Is(err, &protocol.Error{Code: code}) {
		t.Fatalf("got %v, want code %s", err, code)
	}
}
