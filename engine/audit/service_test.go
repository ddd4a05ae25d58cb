package audit

import (
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"errors"
	"net"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/protocol/auditmsg"
	"neuron/engine/seam"
	"neuron/engine/seam/seamclient"
	"neuron/engine/seam/seamtest"
	"neuron/internal/identity"
	"neuron/internal/leaktest"
)

func isCode(err error, c protocol.Code) bool { return errors.Is(err, &protocol.Error{Code: c}) }

func equal(a, b []int) bool { return slices.Equal(a, b) }

const patience = 20 * time.Second

// party is a node with its part in audits.
type party struct {
	id     *identity.Identity
	svc    *Service
	client *seamclient.Client
	addr   string
	told   chan protocol.Envelope
}

// world is a tracker's key, two keepers, an auditor with a stage for the middle
// third of the fake model, and a stranger, each behind real TLS.
type world struct {
	t                             *testing.T
	tracker                       ed25519.PrivateKey
	input, output, auditor, other *party
	stage                         *seamtest.Stage
	session                       protocol.SessionID
	now                           func() time.Time
}

func newWorld(t *testing.T, wait time.Duration) *world {
	leaktest.Check(t)
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	w := &world{t: t, tracker: key, stage: seamtest.NewStage(protocol.Range{First: 4, Last: 8}, 2048), session: protocol.NewSessionID(), now: time.Now}
	for _, p := range []**party{&w.input, &w.output, &w.auditor, &w.other} {
		*p = w.party(wait, p == &w.auditor)
	}
	t.Cleanup(func() {
		if w.stage.Sessions() != 0 || w.stage.FreeCells() != 2048 {
			t.Errorf("%d sessions and %d free cells are left in the stage", w.stage.Sessions(), w.stage.FreeCells())
		}
	})
	return w
}

func (w *world) party(wait time.Duration, auditor bool) *party {
	id, err := identity.New()
	if err != nil {
		w.t.Fatal(err)
	}
	p := &party{id: id, client: seamclient.New(id), told: make(chan protocol.Envelope, 16)}
	o := Options{
		Node: id.ID(), TrackerKey: func() ed25519.PublicKey { return w.tracker.Public().(ed25519.PublicKey) }, Sender: p.client, Engine: "test",
		Now: func() time.Time { return w.now() }, Patience: wait,
		Tell: func(kind protocol.MessageKind, body any) {
			e, err := protocol.Pack(kind, 0, body)
			if err != nil {
				w.t.Error(err)
				return
			}
			p.told <- *e
		},
	}
	if auditor {
		o.Stage = func() seam.Stage { return w.stage }
	}
	p.svc = New(o)
	srv := seam.NewServer(seam.ServerOptions{Identity: id, Stage: func() seam.Stage { return nil }, Audits: p.svc.Receive})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		w.t.Fatal(err)
	}
	p.addr = l.Addr().String()
	ctx, stop := context.WithCancel(context.Background())
	var work sync.WaitGroup
	work.Go(func() {
		if err := srv.Serve(l); err != nil {
			w.t.Error(err)
		}
	})
	work.Go(func() { p.svc.Run(ctx) })
	w.t.Cleanup(func() {
		stop()
		end, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		p.client.Close()
		if err := srv.Close(end); err != nil {
			w.t.Error(err)
		}
		work.Wait()
	})
	return p
}

// ticket is a good one, which change may spoil before it is signed.
func (w *world) ticket(change func(*auditmsg.AuditTicket)) *auditmsg.SignedAuditTicket {
	w.t.Helper()
	x := &auditmsg.AuditTicket{
		Version: protocol.Version, Audit: auditmsg.NewAuditID(), Session: w.session, Model: seamtest.Model, Layers: seamtest.Layers,
		Use: protocol.Range{First: 4, Last: 8}, Build: protocol.Build{Protocol: protocol.Version, Llama: seamtest.LlamaVersion}, Rows: 512,
		Input: w.input.id.ID(), Output: w.output.id.ID(), Auditor: protocol.Peer{Node: w.auditor.id.ID(), Addr: w.auditor.addr},
		Expires: time.Now().Add(time.Minute),
	}
	if change != nil {
		change(x)
	}
	s, err := auditmsg.SignAuditTicket(x, w.tracker)
	if err != nil {
		w.t.Fatal(err)
	}
	return s
}

func order(t *testing.T, p *party, kind protocol.MessageKind, body any) error {
	t.Helper()
	e, err := protocol.Pack(kind, 0, body)
	if err != nil {
		t.Fatal(err)
	}
	known, err := p.svc.Handle(e)
	if !known {
		t.Fatalf("%s is not known", kind)
	}
	return err
}

func expect[T any](t *testing.T, p *party, kind protocol.MessageKind) *T {
	t.Helper()
	select {
	case e := <-p.told:
		if e.Kind != kind {
			t.Fatalf("%s came, want %s: %s", e.Kind, kind, e.Body)
		}
		v, err := protocol.Unpack[T](&e)
		if err != nil {
			t.Fatal(err)
		}
		return v
	case <-time.After(patience):
		t.Fatalf("no %s came", kind)
		return nil
	}
}

func failure(t *testing.T, p *party, code protocol.Code) {
	t.Helper()
	r := expect[auditmsg.AuditResult](t, p, auditmsg.MsgAuditResult)
	if r.Error == nil || r.Error.Code != code {
		t.Fatalf("%+v %v, want %s", r.Measures, r.Error, code)
	}
}

// rows of the session: a chunk, and two steps. The fake adds 1 to each element.
func sessionRows(add float32) []*protocol.Frame {
	return []*protocol.Frame{
		hidden(protocol.KindPrefill, 0, 40, seamtest.Width, 3+add), hidden(protocol.KindDecode, 40, 1, seamtest.Width, 5+add),
		hidden(protocol.KindDecode, 41, 1, seamtest.Width, 6+add),
	}
}

// keepAll makes both keepers keep the session; claimed changes the output.
func (w *world) keepAll(claimed func([]*protocol.Frame)) (in, out []*protocol.Frame) {
	w.t.Helper()
	for p, side := range map[*party]auditmsg.AuditSide{w.input: auditmsg.AuditInput, w.output: auditmsg.AuditOutput} {
		if err := order(w.t, p, auditmsg.MsgAuditKeep, keep(w.session, side, 512, 600)); err != nil {
			w.t.Fatal(err)
		}
	}
	in, out = sessionRows(0), sessionRows(1)
	if claimed != nil {
		claimed(out)
	}
	for _, f := range in {
		w.input.svc.Keeper().Sent(w.session, f)
	}
	for _, f := range out {
		w.output.svc.Keeper().Received(w.session, f)
	}
	return in, out
}

// begin orders the re-execution and waits for the auditor.
func (w *world) begin(ticket *auditmsg.SignedAuditTicket, receipts ...[]byte) {
	w.t.Helper()
	if err := order(w.t, w.auditor, auditmsg.MsgAuditRun, auditmsg.AuditRun{Ticket: ticket, Receipts: receipts}); err != nil {
		w.t.Fatal(err)
	}
	expect[auditmsg.AuditReady](w.t, w.auditor, auditmsg.MsgAuditReady)
}

func (w *world) sendBoth(ticket *auditmsg.SignedAuditTicket) {
	w.t.Helper()
	if err := order(w.t, w.input, auditmsg.MsgAuditSend, auditmsg.AuditSend{Ticket: ticket, Side: auditmsg.AuditInput}); err != nil {
		w.t.Fatal(err)
	}
	if err := order(w.t, w.output, auditmsg.MsgAuditSend, auditmsg.AuditSend{Ticket: ticket, Side: auditmsg.AuditOutput}); err != nil {
		w.t.Fatal(err)
	}
}

func (w *world) measures() *auditmsg.AuditMeasures {
	w.t.Helper()
	r := expect[auditmsg.AuditResult](w.t, w.auditor, auditmsg.MsgAuditResult)
	if r.Error != nil {
		w.t.Fatal(r.Error)
	}
	if err := r.Check(); err != nil {
		w.t.Fatal(err)
	}
	return r.Measures
}

// receipts are those of the audited hop over what both ends saw.
func (w *world) receipt(seq uint32, in, out []*protocol.Frame) []byte {
	w.t.Helper()
	_, hop, err := ed25519.GenerateKey(nil)
	if err != nil {
		w.t.Fatal(err)
	}
	last := in[len(in)-1]
	sp := protocol.Span{
		Kind: protocol.SpanDecode, Seq: seq, First: in[0].Pos, Last: last.Pos + last.Rows, Rows: last.Pos + last.Rows - in[0].Pos,
		Input: protocol.SpanRoot(w.session, in[0].Pos), Output: protocol.SpanRoot(w.session, in[0].Pos),
	}
	if in[0].Kind == protocol.KindPrefill {
		sp.Kind = protocol.SpanPrefill
	}
	for i := range in {
		sp.Input, sp.Output = protocol.ChainRoot(sp.Input, protocol.SumFrame(in[i])), protocol.ChainRoot(sp.Output, protocol.SumFrame(out[i]))
	}
	r := &protocol.Receipt{
		Session: w.session, Model: seamtest.Model, Node: protocol.NodeIDOf(hop.Public().(ed25519.PublicKey)), Receiver: w.output.id.ID(), Hop: 1,
		Layers: protocol.Range{First: 4, Last: 8}, DType: protocol.DTypeF32, Span: sp, Class: protocol.Class{Threads: 1, CPU: "x", Llama: "y", Engine: "z"},
		Time: time.UnixMilli(1),
	}
	s, err := protocol.SignReceipt(r, hop)
	if err != nil {
		w.t.Fatal(err)
	}
	return s.Countersign(w.output.id.PrivateKey()).Encode()
}

func TestHonest(t *testing.T) {
	w := newWorld(t, patience)
	in, out := w.keepAll(nil)
	ticket := w.ticket(nil)
	w.begin(ticket, w.receipt(0, in[:1], out[:1]), w.receipt(1, in[1:], out[1:]))
	w.sendBoth(ticket)
	m := w.measures()
	if m.Rows != 42 || m.Proven != 42 || m.Exact != 42 || m.Max != 0 || m.Basis != auditmsg.AuditContribution || m.Class.Threads != 1 || m.Class.Engine != "test" {
		t.Errorf("%+v", m)
	}
	size(t, w.input.svc.Keeper(), 0, 0)
	size(t, w.output.svc.Keeper(), 0, 0)
	// And again: nothing of it blocks the next one.
	w.session = protocol.NewSessionID()
	w.keepAll(func(out []*protocol.Frame) { // it returns its input at the second step
		copy(out[2].Payload, sessionRows(0)[2].Payload)
	})
	ticket = w.ticket(nil)
	w.begin(ticket)
	w.sendBoth(ticket)
	if m := w.measures(); m.Proven != 0 || m.Exact != 41 || m.Max != 1 || m.Median != 0 || m.MinCosine != 0 {
		t.Errorf("%+v", m)
	}
}

// TestSides: where one keeper has less, the common rows are compared.
func TestSides(t *testing.T) {
	w := newWorld(t, patience)
	w.keepAll(nil)
	if _, err := w.output.svc.Keeper().Take(w.session, auditmsg.AuditOutput); err != nil {
		t.Fatal(err)
	}
	want(t, w.output.svc.Keeper(), keep(w.session, auditmsg.AuditOutput, 512, 600))
	w.output.svc.Keeper().Received(w.session, sessionRows(1)[0])
	ticket := w.ticket(nil)
	w.begin(ticket)
	w.sendBoth(ticket)
	if m := w.measures(); m.Rows != 40 || m.Exact != 40 {
		t.Errorf("%+v", m)
	}
}

func TestReceiptsThatDoNotFit(t *testing.T) {
	w := newWorld(t, patience)
	in, out := w.keepAll(nil)
	lie := sessionRows(1)
	lie[1].Payload[0] ^= 1
	for name, raw := range map[string][]byte{
		"another input":  w.receipt(0, []*protocol.Frame{sessionRows(7)[0]}, out[:1]),
		"another output": w.receipt(1, in[1:], lie[1:]),
	} {
		w.keepAll(nil)
		ticket := w.ticket(nil)
		w.begin(ticket, raw)
		w.sendBoth(ticket)
		r := expect[auditmsg.AuditResult](t, w.auditor, auditmsg.MsgAuditResult)
		if r.Error == nil || r.Error.Code != protocol.CodeReceiptConflict {
			t.Errorf("%s: %+v", name, r)
		}
	}
	// One signature is no proof.
	w.keepAll(nil)
	ticket := w.ticket(nil)
	half := w.receipt(0, in[:1], out[:1])
	clear(half[len(half)-96:])
	w.begin(ticket, half)
	w.sendBoth(ticket)
	failure(t, w.auditor, protocol.CodeUnauthorized)
}

// TestWrongTickets: a keeper gives frames away for a good ticket of its own
// tracker only, and a wrong one takes nothing out of it.
func TestWrongTickets(t *testing.T) {
	w := newWorld(t, patience)
	w.keepAll(nil)
	_, before := w.input.svc.Keeper().Size()
	_, foreign, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	good := w.tracker
	w.tracker = foreign
	stranger := w.ticket(nil)
	w.tracker = good
	changed := w.ticket(nil)
	changed.Ticket = []byte(strings.Replace(string(changed.Ticket), w.auditor.addr, "203.0.113.9:1234", 1))
	for name, x := range map[string]struct {
		code   protocol.Code
		ticket *auditmsg.SignedAuditTicket
		side   auditmsg.AuditSide
	}{
		"none":            {protocol.CodeInvalidRequest, nil, auditmsg.AuditInput},
		"another tracker": {protocol.CodeUnauthorized, stranger, auditmsg.AuditInput},
		"changed":         {protocol.CodeUnauthorized, changed, auditmsg.AuditInput},
		"expired":         {protocol.CodeForbidden, w.ticket(func(x *auditmsg.AuditTicket) { x.Expires = time.Now().Add(-time.Second) }), auditmsg.AuditInput},
		"another keeper":  {protocol.CodeForbidden, w.ticket(func(x *auditmsg.AuditTicket) { x.Input = w.other.id.ID() }), auditmsg.AuditInput},
		"the other side":  {protocol.CodeForbidden, w.ticket(nil), auditmsg.AuditOutput},
		"no side":         {protocol.CodeInvalidRequest, w.ticket(nil), "all"},
	} {
		if err := order(t, w.input, auditmsg.MsgAuditSend, auditmsg.AuditSend{Ticket: x.ticket, Side: x.side}); !isCode(err, x.code) {
			t.Errorf("%s: %v, want %s", name, err, x.code)
		}
	}
	for name, x := range map[string]struct {
		code   protocol.Code
		ticket *auditmsg.SignedAuditTicket
	}{
		"another tracker": {protocol.CodeUnauthorized, stranger},
		"another auditor": {protocol.CodeForbidden, w.ticket(func(x *auditmsg.AuditTicket) { x.Auditor.Node = w.other.id.ID() })},
	} {
		if err := order(t, w.auditor, auditmsg.MsgAuditRun, auditmsg.AuditRun{Ticket: x.ticket}); !isCode(err, x.code) {
			t.Errorf("run, %s: %v, want %s", name, err, x.code)
		}
	}
	if _, after := w.input.svc.Keeper().Size(); after != before || before == 0 {
		t.Errorf("%d bytes are kept, before there were %d", after, before)
	}
	if w.stage.Opened() != 0 {
		t.Error("the stage was used")
	}
	// A ticket that ends while the order waits is checked again.
	late := w.ticket(nil)
	w.input.svc.send(t.Context(), &auditmsg.AuditSend{Ticket: late, Side: auditmsg.AuditOutput})
	if _, after := w.input.svc.Keeper().Size(); after != before {
		t.Error("a waiting order was carried out without a check")
	}
}

// TestStrangers: an auditor takes frames from the two keepers only, once each,
// and not more than was asked for. What comes wrong ends the audit.
func TestStrangers(t *testing.T) {
	w := newWorld(t, patience)
	send := func(p *party, audit auditmsg.AuditID, side auditmsg.AuditSide, frames []*protocol.Frame) error {
		return p.client.SendAudit(t.Context(), protocol.Peer{Node: w.auditor.id.ID(), Addr: w.auditor.addr}, audit, side, frames)
	}
	var id auditmsg.AuditID
	open := func(rows int) {
		w.begin(w.ticket(func(x *auditmsg.AuditTicket) { x.Rows = rows; id = x.Audit }))
	}
	wantCode(t, send(w.input, auditmsg.NewAuditID(), auditmsg.AuditInput, sessionRows(0)), protocol.CodeNotFound)
	wantCode(t, w.input.client.SendAudit(t.Context(), protocol.Peer{Node: w.other.id.ID(), Addr: w.other.addr}, auditmsg.NewAuditID(), auditmsg.AuditInput, nil), protocol.CodeNotFound)
	open(512)
	wantCode(t, send(w.other, id, auditmsg.AuditInput, sessionRows(0)), protocol.CodeForbidden)
	wantCode(t, send(w.input, id, auditmsg.AuditOutput, sessionRows(1)), protocol.CodeForbidden)
	wantCode(t, send(w.input, id, "both", sessionRows(1)), protocol.CodeNotFound)
	if err := send(w.input, id, auditmsg.AuditInput, sessionRows(0)); err != nil {
		t.Fatal(err)
	}
	wantCode(t, send(w.input, id, auditmsg.AuditInput, sessionRows(0)), protocol.CodeConflict)
	if err := send(w.output, id, auditmsg.AuditOutput, sessionRows(1)); err != nil {
		t.Fatal(err)
	}
	if m := w.measures(); m.Exact != 42 {
		t.Errorf("%+v", m)
	}
	wide := hidden(protocol.KindPrefill, 0, 1, 2*seamtest.Width, 0)
	nan := sessionRows(1)
	copy(nan[0].Payload, []byte{0, 0, 0xc0, 0x7f})
	for name, x := range map[string]struct {
		rows   int
		code   protocol.Code // of the answer to the keeper, "" for none
		end    protocol.Code // of the audit
		frames []*protocol.Frame
	}{
		"more rows":   {40, protocol.CodeRequestTooLarge, protocol.CodeRequestTooLarge, sessionRows(1)},
		"wider":       {512, protocol.CodeFrameInvalid, protocol.CodeFrameInvalid, []*protocol.Frame{wide}},
		"not rows":    {512, protocol.CodeFrameInvalid, protocol.CodeFrameInvalid, []*protocol.Frame{protocol.ControlFrame(protocol.KindTruncate, 0, 1, 0)}},
		"not finite":  {512, "", protocol.CodeFrameNonFinite, nan},
		"not from 0":  {512, "", protocol.CodeFrameOrder, sessionRows(1)[1:]},
		"none at all": {512, "", protocol.CodeNotFound, nil},
	} {
		open(x.rows)
		if err := send(w.input, id, auditmsg.AuditInput, sessionRows(0)[:1]); err != nil {
			t.Fatal(name, err)
		}
		err := send(w.output, id, auditmsg.AuditOutput, x.frames)
		if x.code == "" && err != nil || x.code != "" && !isCode(err, x.code) {
			t.Errorf("%s: %v, want %s", name, err, x.code)
		}
		r := expect[auditmsg.AuditResult](t, w.auditor, auditmsg.MsgAuditResult)
		if r.Error == nil || r.Error.Code != x.end {
			t.Errorf("%s: ended with %+v, want %s", name, r, x.end)
		}
	}
}

// TestOversized sends a body that never ends: it is cut at the bound.
func TestOversized(t *testing.T) {
	w := newWorld(t, patience)
	var id auditmsg.AuditID
	w.begin(w.ticket(func(x *auditmsg.AuditTicket) { x.Rows = 4; id = x.Audit }))
	conf := w.output.id.ClientTLS(w.auditor.id.ID())
	tr := &http.Transport{DialTLSContext: func(ctx context.Context, network, addr string) (net.Conn, error) {
		return (&tls.Dialer{Config: conf}).DialContext(ctx, network, addr)
	}}
	defer tr.CloseIdleConnections()
	body := &endless{one: frameBytes(t, hidden(protocol.KindDecode, 0, 1, seamtest.Width, 0))}
	req, err := http.NewRequestWithContext(t.Context(), http.MethodPost, "https://"+w.auditor.addr+"/seam/v1/audits/"+string(id)+"/output", body)
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err == nil {
		if resp.StatusCode != http.StatusRequestEntityTooLarge {
			t.Errorf("status %d", resp.StatusCode)
		}
		resp.Body.Close()
	}
	failure(t, w.auditor, protocol.CodeRequestTooLarge)
	if n := body.bytes(); n > 1<<20 {
		t.Errorf("%d bytes were taken", n)
	}
}

type endless struct {
	one []byte
	mu  sync.Mutex
	n   int
}

func (e *endless) Read(p []byte) (int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	for i := range p {
		p[i] = e.one[(e.n+i)%len(e.one)]
	}
	e.n += len(p)
	return len(p), nil
}

func (e *endless) bytes() int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.n
}

func frameBytes(t *testing.T, f *protocol.Frame) []byte {
	t.Helper()
	b, err := protocol.AppendFrame(nil, f, protocol.SeamLimits())
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// TestSilence: keepers that send nothing end the audit in time, an auditor that
// is not there ends the order to send, and a stage that hangs ends too.
func TestSilence(t *testing.T) {
	w := newWorld(t, 300*time.Millisecond)
	w.begin(w.ticket(nil))
	failure(t, w.auditor, protocol.CodeTimeout)

	l, err := net.Listen("tcp", "127.0.0.1:0") // accepts, and says nothing
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	w.keepAll(nil)
	ticket := w.ticket(func(x *auditmsg.AuditTicket) { x.Auditor.Addr = l.Addr().String() })
	if err := order(t, w.input, auditmsg.MsgAuditSend, auditmsg.AuditSend{Ticket: ticket, Side: auditmsg.AuditInput}); err != nil {
		t.Fatal(err)
	}
	failure(t, w.input, protocol.CodeTimeout)

	w.session = protocol.NewSessionID()
	w.keepAll(nil)
	release := w.stage.Hold()
	defer release()
	ticket = w.ticket(nil)
	w.begin(ticket)
	w.sendBoth(ticket)
	failure(t, w.auditor, protocol.CodeTimeout)
}

// TestYields: a session that opens ends the audit before it gets its memory, no
// audit begins while one is there, and there is one audit at a time.
func TestYields(t *testing.T) {
	w := newWorld(t, patience)
	w.keepAll(nil)
	release := w.stage.Hold()
	defer release()
	ticket := w.ticket(nil)
	w.begin(ticket)
	if err := order(t, w.auditor, auditmsg.MsgAuditRun, auditmsg.AuditRun{Ticket: w.ticket(nil)}); err != nil {
		t.Fatal(err)
	}
	failure(t, w.auditor, protocol.CodeRateLimited)
	w.sendBoth(ticket)
	for end := time.Now().Add(patience); w.stage.Sessions() == 0; time.Sleep(time.Millisecond) { // polling, bounded
		if time.Now().After(end) {
			t.Fatal("the re-execution does not begin")
		}
	}
	guard := w.auditor.svc.Guard(w.stage)
	open := seam.StageOpen{Session: protocol.NewSessionID(), Use: protocol.Range{First: 4, Last: 8}, Context: 2048} // all cells
	st, err := seamtest.Open(t.Context(), guard, open)
	if err != nil {
		t.Fatalf("the session that pays: %v", err)
	}
	failure(t, w.auditor, protocol.CodeHostBusy)
	if err := order(t, w.auditor, auditmsg.MsgAuditRun, auditmsg.AuditRun{Ticket: w.ticket(nil)}); err != nil {
		t.Fatal(err)
	}
	failure(t, w.auditor, protocol.CodeHostBusy)
	st.Close()
	st.Close() // counts once
	if _, err := guard.Open(t.Context(), seam.StageOpen{Use: protocol.Range{First: 3, Last: 8}, Context: 1}); err == nil {
		t.Fatal("a wrong range was opened")
	}
	w.begin(w.ticket(nil)) // a failed opening counts no longer
}

// TestRefusals: what this node cannot re-execute it says at once.
func TestRefusals(t *testing.T) {
	w := newWorld(t, patience)
	for name, x := range map[string]struct {
		code   protocol.Code
		change func(*auditmsg.AuditTicket)
	}{
		"model":   {protocol.CodeModelUnknown, func(x *auditmsg.AuditTicket) { x.Model = protocol.ModelID(strings.Repeat("a", 64)) }},
		"build":   {protocol.CodeBuildMismatch, func(x *auditmsg.AuditTicket) { x.Build.Llama = "other" }},
		"entry":   {protocol.CodeRangeInvalid, func(x *auditmsg.AuditTicket) { x.Use.First = 5 }},
		"exit":    {protocol.CodeRangeInvalid, func(x *auditmsg.AuditTicket) { x.Use.Last = 9 }},
		"context": {protocol.CodeContextExceeded, func(x *auditmsg.AuditTicket) { x.Rows = auditmsg.MaxAuditRows }},
	} {
		if name == "context" && seamtest.MaxContext >= auditmsg.MaxAuditRows {
			continue
		}
		if err := order(t, w.auditor, auditmsg.MsgAuditRun, auditmsg.AuditRun{Ticket: w.ticket(x.change)}); err != nil {
			t.Fatal(name, err)
		}
		r := expect[auditmsg.AuditResult](t, w.auditor, auditmsg.MsgAuditResult)
		if r.Error == nil || r.Error.Code != x.code {
			t.Errorf("%s: %+v, want %s", name, r, x.code)
		}
	}
	// A gateway re-executes nothing.
	mine := w.ticket(func(x *auditmsg.AuditTicket) { x.Auditor.Node = w.other.id.ID() })
	if err := order(t, w.other, auditmsg.MsgAuditRun, auditmsg.AuditRun{Ticket: mine}); err != nil {
		t.Fatal(err)
	}
	failure(t, w.other, protocol.CodeUnsupported)
	if known, _ := w.other.svc.Handle(&protocol.Envelope{Kind: protocol.MsgPeers}); known {
		t.Error("peers are not of this package")
	}
	for _, kind := range []protocol.MessageKind{auditmsg.MsgAuditKeep, auditmsg.MsgAuditRun, auditmsg.MsgAuditSend} {
		if known, err := w.other.svc.Handle(&protocol.Envelope{Kind: kind, Body: []byte(`[1]`)}); !known || !isCode(err, protocol.CodeInvalidRequest) {
			t.Errorf("%s: %v, %v", kind, known, err)
		}
	}
}
