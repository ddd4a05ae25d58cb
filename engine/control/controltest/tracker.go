// Package controltest is a small tracker for tests: a real websocket server
// that checks hellos, signs leases and records what it is told. Tests of
// engine/control and engine/session use it; programs must not.
package controltest

import (
	"crypto/ed25519"
	"crypto/rand"
	"net/http"
	"net/http/httptest"
	"sync"
	"testing"
	"time"

	"github.com/gorilla/websocket"

	"neuron/engine/protocol"
)

// Identity is a key in memory; it satisfies control.Identity.
type Identity struct{ key ed25519.PrivateKey }

// NewIdentity makes one.
func NewIdentity() *Identity {
	_, k, _ := ed25519.GenerateKey(rand.Reader) // never fails (crypto/rand)
	return &Identity{key: k}
}

// ID is the node id.
func (i *Identity) ID() protocol.NodeID { return protocol.NodeIDOf(i.Public()) }

// Public is the public key.
func (i *Identity) Public() ed25519.PublicKey { return i.key.Public().(ed25519.PublicKey) }

// Sign signs msg.
func (i *Identity) Sign(msg []byte) []byte { return ed25519.Sign(i.key, msg) }

// Key is the private key.
func (i *Identity) Key() ed25519.PrivateKey { return i.key }

// Tracker is the server. Hooks are set before the first connection.
type Tracker struct {
	*Identity
	// Route answers route questions; nil answers no_route.
	Route func(driver protocol.NodeID, r protocol.RouteRequest) (*protocol.Lease, *protocol.Error)
	// Models is the answer to the models question.
	Models []protocol.ModelInfo
	// Place is the answer to the place question; nil gives none.
	Place *protocol.Placement
	// Receipts is what becomes of each receipt that is delivered; nil accepts
	// those with both signatures, and calls them repeats when they come again.
	Receipts func(raw []byte) protocol.ReceiptVerdict
	// OnHello may refuse; a nil result accepts.
	OnHello func(protocol.Hello) *protocol.Refused
	// Raw, when it returns a message, replaces the answer to a message.
	Raw func(e *protocol.Envelope) []byte
	// ReportSeconds goes into the welcome.
	ReportSeconds int
	// Protocol goes into the challenge; 0 is protocol.Version.
	Protocol int

	srv *httptest.Server
	wg  sync.WaitGroup

	mu sync.Mutex
	// Protected by mu.
	conns    map[*conn]bool
	epoch    uint64
	hellos   []protocol.Hello
	reports  []protocol.Report
	sessions []protocol.Telemetry
	blames   []protocol.HopFailed
	receipts [][]byte
	seen     map[protocol.Hash]bool
	errors   []*protocol.Error
	byes     int
	changed  chan struct{}
}

type conn struct {
	ws *websocket.Conn
	mu sync.Mutex // serialises writers
}

func (c *conn) write(b []byte) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ws.SetWriteDeadline(time.Now().Add(5 * time.Second))
	return c.ws.WriteMessage(websocket.TextMessage, b)
}

// New starts a tracker that ends with the test.
func New(t testing.TB) *Tracker {
	tr := &Tracker{Identity: NewIdentity(), ReportSeconds: 300, conns: map[*conn]bool{}, changed: make(chan struct{})}
	mux := http.NewServeMux()
	mux.HandleFunc("GET /v1/nodes", tr.serve)
	tr.srv = httptest.NewServer(mux)
	t.Cleanup(func() {
		tr.Kick()
		tr.srv.Close()
		tr.wg.Wait()
	})
	return tr
}

// URL is the tracker's address, http://127.0.0.1:port.
func (t *Tracker) URL() string { return t.srv.URL }

func (t *Tracker) serve(w http.ResponseWriter, r *http.Request) {
	up := websocket.Upgrader{CheckOrigin: func(*http.Request) bool { return true }}
	ws, err := up.Upgrade(w, r, nil)
	if err != nil {
		return
	}
	t.wg.Add(1)
	defer t.wg.Done()
	defer ws.Close()
	ws.SetReadLimit(protocol.MaxMessage)
	c := &conn{ws: ws}
	t.update(func() { t.conns[c] = true })
	defer t.update(func() { delete(t.conns, c) })

	nonce := make([]byte, 32)
	rand.Read(nonce)
	proto := t.Protocol
	if proto == 0 {
		proto = protocol.Version
	}
	t.reply(c, protocol.MsgChallenge, 0, protocol.Challenge{Nonce: nonce, Protocol: proto, Tracker: t.Public()})
	e, ok := t.readOne(c)
	if !ok {
		return
	}
	h, err := protocol.Unpack[protocol.Hello](e)
	if err != nil || e.Kind != protocol.MsgHello || len(h.Key) != ed25519.PublicKeySize ||
		!ed25519.Verify(h.Key, protocol.HelloPayload(nonce, t.Public()), h.Sig) {
		t.reply(c, protocol.MsgRefused, 0, protocol.Refused{Error: protocol.Errorf(protocol.CodeUnauthorized, "bad hello")})
		return
	}
	if t.OnHello != nil {
		if ref := t.OnHello(*h); ref != nil {
			t.update(func() { t.hellos = append(t.hellos, *h) })
			t.reply(c, protocol.MsgRefused, 0, ref)
			return
		}
	}
	node := protocol.NodeIDOf(h.Key)
	var epoch uint64
	t.update(func() { t.hellos = append(t.hellos, *h); t.epoch++; epoch = t.epoch })
	t.reply(c, protocol.MsgWelcome, 0, protocol.Welcome{Node: node, Epoch: epoch, Tracker: t.Public(), ReportSeconds: t.ReportSeconds})
	for {
		e, ok := t.readOne(c)
		if !ok {
			return
		}
		t.handle(c, node, e)
	}
}

func (t *Tracker) readOne(c *conn) (*protocol.Envelope, bool) {
	_, raw, err := c.ws.ReadMessage()
	if err != nil {
		return nil, false
	}
	e, err := protocol.ParseEnvelope(raw)
	return e, err == nil
}

func (t *Tracker) handle(c *conn, node protocol.NodeID, e *protocol.Envelope) {
	if t.Raw != nil {
		if b := t.Raw(e); b != nil {
			c.write(b)
			return
		}
	}
	switch e.Kind {
	case protocol.MsgRoute:
		r, err := protocol.Unpack[protocol.RouteRequest](e)
		if err != nil {
			return
		}
		if t.Route == nil {
			t.reply(c, protocol.MsgError, e.ID, protocol.Errorf(protocol.CodeNoRoute, "no route"))
			return
		}
		l, perr := t.Route(node, *r)
		if perr != nil {
			t.reply(c, protocol.MsgError, e.ID, perr)
			return
		}
		signed, err := protocol.SignLease(l, t.Key())
		if err != nil {
			t.reply(c, protocol.MsgError, e.ID, protocol.AsError(err))
			return
		}
		t.reply(c, protocol.MsgLease, e.ID, protocol.RouteReply{Lease: signed, CostMicros: 1000})
	case protocol.MsgModels:
		t.reply(c, protocol.MsgModels, e.ID, protocol.Models{Models: t.Models})
	case protocol.MsgPlace:
		if t.Place != nil {
			t.reply(c, protocol.MsgPlace, e.ID, t.Place)
		}
	case protocol.MsgReceipts:
		r, err := protocol.Unpack[protocol.Receipts](e)
		if err == nil {
			err = r.Check()
		}
		if err != nil {
			t.reply(c, protocol.MsgError, e.ID, protocol.AsError(err))
			return
		}
		var out protocol.ReceiptVerdicts
		for _, raw := range r.Receipts {
			out.Verdicts = append(out.Verdicts, t.verdict(raw))
		}
		t.reply(c, protocol.MsgReceipts, e.ID, out)
	case protocol.MsgReport:
		if v, err := protocol.Unpack[protocol.Report](e); err == nil {
			t.update(func() { t.reports = append(t.reports, *v) })
		}
	case protocol.MsgSession:
		if v, err := protocol.Unpack[protocol.SessionUpdate](e); err == nil {
			t.update(func() { t.sessions = append(t.sessions, v.Telemetry) })
		}
	case protocol.MsgHopFailed:
		if v, err := protocol.Unpack[protocol.HopFailed](e); err == nil {
			t.update(func() { t.blames = append(t.blames, *v) })
		}
	case protocol.MsgError:
		if v, err := protocol.Unpack[protocol.Error](e); err == nil {
			t.update(func() { t.errors = append(t.errors, v) })
		}
	case protocol.MsgBye:
		t.update(func() { t.byes++ })
	}
}

// verdict judges one receipt, and records it when it is taken.
func (t *Tracker) verdict(raw []byte) protocol.ReceiptVerdict {
	if t.Receipts != nil {
		v := t.Receipts(raw)
		if v.Status == protocol.ReceiptAccepted {
			t.update(func() { t.receipts = append(t.receipts, raw) })
		}
		return v
	}
	sr, _, err := protocol.ParseSignedReceipt(raw)
	if err == nil && !sr.Both() {
		err = protocol.Errorf(protocol.CodeUnauthorized, "the receiver has not signed")
	}
	if err != nil {
		return protocol.ReceiptVerdict{Status: protocol.ReceiptRefused, Error: protocol.AsError(err)}
	}
	v := protocol.ReceiptVerdict{Status: protocol.ReceiptAccepted}
	t.update(func() {
		if t.seen == nil {
			t.seen = map[protocol.Hash]bool{}
		}
		if t.seen[sr.ID()] {
			v.Status = protocol.ReceiptRepeat
			return
		}
		t.seen[sr.ID()] = true
		t.receipts = append(t.receipts, raw)
	})
	return v
}

func (t *Tracker) reply(c *conn, k protocol.MessageKind, id uint64, body any) {
	e, err := protocol.Pack(k, id, body)
	if err != nil {
		return
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.ws.SetWriteDeadline(time.Now().Add(5 * time.Second))
	c.ws.WriteJSON(e)
}

// update changes the record and wakes Wait.
func (t *Tracker) update(f func()) {
	t.mu.Lock()
	f()
	close(t.changed)
	t.changed = make(chan struct{})
	t.mu.Unlock()
}

// Record is what the tracker was told so far.
type Record struct {
	Conns    int
	Hellos   []protocol.Hello
	Reports  []protocol.Report
	Sessions []protocol.Telemetry
	Blames   []protocol.HopFailed
	Receipts [][]byte // accepted, in their wire form
	Errors   []*protocol.Error
	Byes     int
}

// Wait blocks until ok accepts the record; after 10 s it fails the test.
func (t *Tracker) Wait(tb testing.TB, what string, ok func(Record) bool) Record {
	tb.Helper()
	limit := time.After(10 * time.Second)
	for {
		t.mu.Lock()
		r := Record{
			Conns: len(t.conns), Byes: t.byes,
			Hellos: append([]protocol.Hello(nil), t.hellos...), Reports: append([]protocol.Report(nil), t.reports...),
			Sessions: append([]protocol.Telemetry(nil), t.sessions...), Blames: append([]protocol.HopFailed(nil), t.blames...),
			Receipts: append([][]byte(nil), t.receipts...),
			Errors:   append([]*protocol.Error(nil), t.errors...),
		}
		changed := t.changed
		t.mu.Unlock()
		if ok(r) {
			return r
		}
		select {
		case <-changed:
		case <-limit:
			tb.Fatalf("tracker: %s did not happen; record %+v", what, r)
		}
	}
}

// Send sends one message to every connection.
func (t *Tracker) Send(k protocol.MessageKind, body any) {
	for _, c := range t.all() {
		t.reply(c, k, 0, body)
	}
}

// SendRaw sends bytes as they are.
func (t *Tracker) SendRaw(b []byte) {
	for _, c := range t.all() {
		c.write(b)
	}
}

// Ping pings every connection.
func (t *Tracker) Ping() {
	for _, c := range t.all() {
		c.ws.WriteControl(websocket.PingMessage, nil, time.Now().Add(time.Second))
	}
}

// Kick breaks every connection without a word.
func (t *Tracker) Kick() {
	for _, c := range t.all() {
		c.ws.Close()
	}
}

func (t *Tracker) all() []*conn {
	t.mu.Lock()
	defer t.mu.Unlock()
	out := make([]*conn, 0, len(t.conns))
	for c := range t.conns {
		out = append(out, c)
	}
	return out
}
