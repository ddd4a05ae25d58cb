package seam_test

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"strings"
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
)

// lingerTest is how long the books of these tests keep an ended session.
const lingerTest = 8 * time.Second

// till is a tracker that keeps the receipts that it is given.
type till struct {
	mu  sync.Mutex // guards below
	got []*protocol.Receipt
}

func (t *till) Deliver(_ context.Context, raws [][]byte) ([]protocol.ReceiptVerdict, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []protocol.ReceiptVerdict
	for _, raw := range raws {
		sr, r, err := protocol.ParseSignedReceipt(raw)
		if err == nil && !sr.Both() {
			err = protocol.Errorf(protocol.CodeUnauthorized, "half a receipt")
		}
		if err != nil {
			return nil, err
		}
		t.got = append(t.got, r)
		out = append(out, protocol.ReceiptVerdict{Status: protocol.ReceiptAccepted})
	}
	return out, nil
}

// of are the receipts of one hop, by their numbers.
func (t *till) of(hop int) []*protocol.Receipt {
	t.mu.Lock()
	defer t.mu.Unlock()
	var out []*protocol.Receipt
	for _, r := range t.got {
		if r.Hop == hop {
			out = append(out, r)
		}
	}
	slices.SortFunc(out, func(a, b *protocol.Receipt) int { return int(a.Span.Seq) - int(b.Span.Seq) })
	return out
}

// book opens a book of id whose receipts go to tr.
func openBook(t *testing.T, id *identity.Identity, client *seamclient.Client, tr receipt.Tracker) *receipt.Book {
	t.Helper()
	b, err := receipt.Open(receipt.Options{
		Identity: id, Dir: t.TempDir(), Receiver: client, Tracker: tr, Linger: lingerTest, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// paidRoute is a route whose driver keeps receipts: it notes what it sends and
// gets, as engine/session does.
type paidRoute struct {
	*route
	rec  *receipt.Session
	tail interface {
		Finish(context.Context) error
		Pull(context.Context) error
	}
	books []*receipt.Book // the hops', then the driver's
	till  *till
}

// paidNetwork is a network whose nodes keep books.
func paidNetwork(t *testing.T, o netOptions) (*network, *till) {
	o.till = &till{}
	return newNetwork(t, o), o.till
}

func (n *network) startPaid(tl *till) *paidRoute {
	n.t.Helper()
	b := openBook(n.t, n.driver, n.client, tl)
	n.t.Cleanup(func() {
		if err := b.Close(); err != nil {
			n.t.Error(err)
		}
	})
	r := &paidRoute{route: n.start(), till: tl}
	d, err := hooks.Driver{Book: b, Tail: n.client}.Open(r.lease, n.sign(r.lease))
	if err != nil {
		n.t.Fatal(err)
	}
	r.tail = d
	if r.rec, err = b.Find(r.lease.Session, -1); err != nil {
		n.t.Fatal(err)
	}
	for _, nd := range n.nodes {
		r.books = append(r.books, nd.book)
	}
	r.books = append(r.books, b)
	r.note = r.rec
	r.drainAcks()
	return r
}

// finish ends the session in order, with its receipts.
func (r *paidRoute) finish() {
	r.t.Helper()
	if err := r.stream.Close(); err != nil {
		r.t.Fatal(err)
	}
	for _, h := range r.lease.Hops {
		if err := r.client.Release(r.t.Context(), h, r.lease.Session); err != nil {
			r.t.Fatal(err)
		}
	}
	if err := r.tail.Finish(r.t.Context()); err != nil {
		r.t.Fatal(err)
	}
	r.rec.Close()
}

// check wants the receipts of all hops to cover the same spans, in a chain, and
// rows rows of each.
func (r *paidRoute) check(spans int, rows uint32) {
	r.t.Helper()
	hops := len(r.lease.Hops)
	until(r.t, lingerTest, "all receipts come to the tracker", func() bool {
		for i := range hops {
			if len(r.till.of(i)) < spans {
				return false
			}
		}
		return true
	})
	for i := range hops {
		list := r.till.of(i)
		if len(list) != spans {
			r.t.Fatalf("hop %d has %d receipts, want %d", i, len(list), spans)
		}
		var sum uint32
		for k, x := range list {
			sum += x.Span.Rows
			if x.Span.Seq != uint32(k) || x.Model != seamtest.Model || x.Layers != r.lease.Hops[i].Use || x.Class.Threads != 1 ||
				x.Class.Llama != seamtest.LlamaVersion || x.Class.Engine != engineVersion || x.Node != r.lease.Hops[i].Node {
				r.t.Errorf("hop %d, receipt %d: %+v", i, k, x)
			}
			if i > 0 {
				before := r.till.of(i - 1)[k]
				if !x.Span.SameShape(&before.Span) || x.Span.Input != before.Span.Output || before.Receiver != x.Node {
					r.t.Errorf("span %d: hop %d worked on %+v, hop %d sent %+v", k, i, x.Span, i-1, before.Span)
				}
			}
			if k > 0 && !list[k-1].Span.Before(&x.Span) {
				r.t.Errorf("hop %d: span %+v does not follow %+v", i, x.Span, list[k-1].Span)
			}
		}
		if sum != rows {
			r.t.Errorf("hop %d: receipts for %d rows, want %d", i, sum, rows)
		}
		if st := r.books[i].Stats(); st.Finished != int64(spans) || st.Signed != int64(spans) || st.Unsigned != 0 || st.Denied != 0 {
			r.t.Errorf("book of hop %d: %+v", i, st)
		}
	}
	if st := r.books[hops].Stats(); st.Given != int64(spans) || st.Denied != 0 {
		r.t.Errorf("the driver's book: %+v", st)
	}
}

// paidCarriers is carriers with books.
func paidCarriers(t *testing.T, f func(t *testing.T, r *paidRoute)) {
	for _, upgrade := range []bool{false, true} {
		for _, hops := range []int{1, 3} {
			t.Run(fmt.Sprintf("upgrade=%v/hops=%d", upgrade, hops), func(t *testing.T) {
				n, tl := paidNetwork(t, netOptions{hops: hops, upgrade: upgrade})
				f(t, n.startPaid(tl))
			})
		}
	}
}

func TestReceiptsOfARoute(t *testing.T) {
	paidCarriers(t, func(t *testing.T, r *paidRoute) {
		const prompt, steps = 64*3 + 10, 70
		r.prefill(0, 0, prompt)
		r.token(prompt)
		for i := range uint32(steps) {
			r.decode(0, prompt+i)
			r.token(prompt + i + 1)
		}
		// In the middle of the session, as a driver does.
		if err := r.tail.Pull(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := len(r.till.of(len(r.lease.Hops) - 1)); n > 6 {
			t.Errorf("%d receipts of the tail", n)
		}
		r.finish()
		// 4 chunks, 32 + 32 + 6 tokens.
		r.check(7, prompt+steps)
		for i := range r.lease.Hops {
			for k, x := range r.till.of(i) {
				if want := k == 6; x.Span.Final != want {
					t.Errorf("hop %d, span %d is final: %v", i, k, x.Span.Final)
				}
			}
		}
	})
}

// The driver hears late of steps that ask for no token, also of those that it has
// taken back; they are paid for all the same, but for the last ones.
func TestReceiptsOfStepsThatAskForNothing(t *testing.T) {
	paidCarriers(t, func(t *testing.T, r *paidRoute) {
		r.prefill(0, 0, 64)
		r.token(64)
		pos, epoch := uint32(64), uint32(0)
		quiet := func(n int) {
			for range n {
				f := protocol.IDFrame(protocol.KindDecode, pos, []int32{7})
				f.Epoch = epoch
				r.send(f)
				pos++
			}
		}
		quiet(5)
		r.decode(epoch, pos)
		r.token(pos + 1)
		pos++
		quiet(3)
		epoch, pos = 1, pos-1 // takes the last of them back
		r.send(protocol.ControlFrame(protocol.KindTruncate, 0, epoch, pos))
		r.decode(epoch, pos)
		r.token(pos + 1)
		pos++
		quiet(2) // nobody ever hears of these
		r.finish()
		r.check(2, 64+5+1+3+1)
	})
}

func TestReceiptsWithTruncates(t *testing.T) {
	paidCarriers(t, func(t *testing.T, r *paidRoute) {
		// The truncate goes out while chunks are still at the first stage.
		r.prefill(0, 0, 256)
		r.send(protocol.ControlFrame(protocol.KindTruncate, 0, 1, 200))
		r.token(256)
		r.prefill(1, 200, 70)
		r.token(270)
		for i := range uint32(10) {
			r.decode(1, 270+i)
			r.token(271 + i)
		}
		// Inside the open span, and one that nothing follows.
		r.send(protocol.ControlFrame(protocol.KindTruncate, 0, 2, 275))
		for i := range uint32(40) {
			r.decode(2, 275+i)
			r.token(276 + i)
		}
		r.send(protocol.ControlFrame(protocol.KindTruncate, 0, 3, 280))
		r.finish()
		// 4 and 2 chunks, decode spans of [270,302) and [302,315).
		r.check(8, 256+70+50)
		last := r.till.of(0)[6].Span
		if last.First != 270 || last.Last != 302 || last.Rows != 37 || last.EpochFirst != 1 || last.EpochLast != 2 {
			t.Errorf("the span that was rolled back: %+v", last)
		}
	})
}

// pileUp sends a chunk with a token, and chunks behind it that pile up at hop
// hold, whose stage does nothing until release; then it cancels them.
func (r *paidRoute) pileUp(hold int) (release func()) {
	r.t.Helper()
	r.prefill(0, 0, 64)
	r.token(64)
	release = r.nodes[hold].stage.Hold()
	r.t.Cleanup(release)
	sent := make(chan struct{})
	go func() {
		defer close(sent)
		for i := range uint32(8) {
			f := protocol.IDFrame(protocol.KindPrefill, 64+64*i, ids(64))
			r.rec.In(f)
			if r.stream.Send(context.Background(), f) != nil {
				return
			}
		}
	}()
	until(r.t, 5*time.Second, "chunks arrived", func() bool {
		return r.nodes[hold].server.Sessions()[0].Counters.NextPos > 64
	})
	r.send(protocol.ControlFrame(protocol.KindCancel, 0, 0, 0))
	<-sent
	return release
}

// TestReceiptsWithCancel stops work in the middle of chunks and goes on: what
// no hop's receiver has executed counts for nobody.
func TestReceiptsWithCancel(t *testing.T) {
	for hold := range 2 {
		t.Run(fmt.Sprintf("hold=%d", hold), func(t *testing.T) {
			n, tl := paidNetwork(t, netOptions{hops: 3})
			r := n.startPaid(tl)
			release := r.pileUp(hold)
			r.send(protocol.ControlFrame(protocol.KindTruncate, 0, 1, 64))
			// A stage that is let go before it has heard of the cancel runs its chunk,
			// and the hop before it is paid for that.
			until(t, 5*time.Second, "the cancel went through", func() bool { return n.nodes[hold].stage.Cancels() > 0 })
			release()
			for i := range uint32(40) {
				r.decode(1, 64+i)
				r.token(65 + i)
			}
			r.finish()
			r.check(3, 64+40)
		})
	}
}

// TestReceiptsOfACancelledPrompt ends a session while chunks are under way. What
// the driver has heard of stands in the receipts of all; hops in front may have
// more, for which only their neighbour has signed.
func TestReceiptsOfACancelledPrompt(t *testing.T) {
	for hold := range 3 {
		t.Run(fmt.Sprintf("hold=%d", hold), func(t *testing.T) {
			n, tl := paidNetwork(t, netOptions{hops: 3})
			r := n.startPaid(tl)
			r.pileUp(hold)
			r.finish()
			until(t, lingerTest, "the hops know where the session ended", func() bool {
				for i, nd := range n.nodes {
					rec, err := nd.book.Find(r.lease.Session, i)
					if err != nil {
						t.Fatal(err)
					}
					if _, err := rec.Mark(); err != nil || rec.Lag() > 0 {
						return false
					}
				}
				return len(tl.of(0)) > 0 && len(tl.of(1)) > 0
			})
			tail := tl.of(2)
			if len(tail) != 1 || tail[0].Span.Rows != 64 || tail[0].Span.Kind != protocol.SpanPrefill {
				t.Fatalf("the tail has %d receipts", len(tail))
			}
			for i := 2; i > 0; i-- {
				a, b := tl.of(i - 1)[0], tl.of(i)[0]
				if !a.Span.SameShape(&b.Span) || a.Span.Output != b.Span.Input {
					t.Errorf("hop %d sent %+v, hop %d worked on %+v", i-1, a.Span, i, b.Span)
				}
				for _, x := range append(tl.of(i - 1)[1:], tl.of(i)[1:]...) {
					if x.Hop+1 >= hold {
						t.Errorf("a receipt of hop %d for %+v, which hop %d did not run", x.Hop, x.Span, hold)
					}
				}
			}
		})
	}
}

// TestReceiptsOfACancelledAnswer ends a session while chunks are under way:
// frames that the driver has not heard of are paid to nobody.
func TestReceiptsOfACancelledAnswer(t *testing.T) {
	n, tl := paidNetwork(t, netOptions{hops: 3})
	r := n.startPaid(tl)
	r.prefill(0, 0, 64)
	r.token(64)
	for i := range uint32(5) {
		r.decode(0, 64+i)
		r.token(65 + i)
	}
	// One more row: executed by all, and the driver leaves without its token.
	r.decode(0, 69)
	until(t, 5*time.Second, "the row ran", func() bool {
		s := n.nodes[2].server.Sessions()
		return len(s) == 1 && s[0].Counters.DecodeRows == 6
	})
	r.send(protocol.ControlFrame(protocol.KindCancel, 0, 0, 70))
	r.finish()
	r.check(2, 64+5)
	if last := tl.of(1)[1].Span; !last.Final || last.Last != 69 {
		t.Errorf("the last span: %+v", last)
	}
}

// TestReceiptsOfALostHop kills the hop in the middle. What was signed before
// stays; hop 0 gets nothing for what nobody can sign any more; the tail is paid
// for what the driver got.
func TestReceiptsOfALostHop(t *testing.T) {
	n, tl := paidNetwork(t, netOptions{hops: 3, process: 2})
	r := n.startPaid(tl)
	r.prefill(0, 0, 100)
	r.token(100)
	for i := range uint32(40) {
		r.decode(0, 100+i)
		r.token(101 + i)
	}
	until(t, 5*time.Second, "hop 0 has its signatures", func() bool { return len(tl.of(0)) == 3 })
	if err := n.nodes[1].proc.Kill(); err != nil {
		t.Fatal(err)
	}
	wantCode(t, "stream", r.streamEnd(), protocol.CodeHopLost)
	n.freed(n.nodes[0], n.nodes[2])
	if err := r.tail.Finish(t.Context()); err != nil {
		t.Fatal(err)
	}
	r.rec.Close()
	until(t, 2*lingerTest, "the books give up", func() bool {
		_, err0 := n.nodes[0].book.Find(r.lease.Session, 0)
		_, err2 := n.nodes[2].book.Find(r.lease.Session, 2)
		return err0 != nil && err2 != nil
	})
	if got := tl.of(0); len(got) != 3 || got[2].Span.Final || got[2].Span.Last != 132 {
		t.Errorf("hop 0: %d receipts", len(got))
	}
	if got := tl.of(2); len(got) != 4 || !got[3].Span.Final || got[3].Span.Last != 140 {
		t.Errorf("the tail: %d receipts", len(got))
	}
	if st := n.nodes[0].book.Stats(); st.Signed != 3 || st.Finished != 3 || st.Unsigned != 0 {
		t.Errorf("hop 0's book: %+v", st)
	}
}

// TestPrivateRouteHasNoReceipts: nobody is paid.
func TestPrivateRouteHasNoReceipts(t *testing.T) {
	n, tl := paidNetwork(t, netOptions{hops: 2})
	l := n.lease()
	l.Policy = protocol.PolicyPrivate
	r := n.startLease(l)
	r.drainAcks()
	r.prefill(0, 0, 64)
	r.token(64)
	if _, err := n.client.Pending(t.Context(), l); err != nil {
		t.Error(err)
	}
	if err := r.stream.Close(); err != nil {
		t.Fatal(err)
	}
	n.freed()
	for i, nd := range n.nodes {
		if _, err := nd.book.Find(l.Session, i); err == nil {
			t.Errorf("hop %d keeps receipts", i)
		}
	}
	if err := n.client.CloseTail(t.Context(), l, protocol.ReceiptMark{}); err == nil {
		until(t, time.Second, "the session is buried", func() bool {
			return n.client.CloseTail(t.Context(), l, protocol.ReceiptMark{}) != nil
		})
	}
	if len(tl.of(0))+len(tl.of(1)) != 0 {
		t.Error("receipts for a private route")
	}
}

// stuckReceipts are receipts of a hop whose receiver does not sign.
type stuckReceipts struct {
	seam.HopReceipts
	after int // frames
	seen  int
}

func (s *stuckReceipts) In(f *protocol.Frame) {
	s.seen++
	s.HopReceipts.In(f)
}

func (s *stuckReceipts) Overdue() error {
	if s.seen < s.after {
		return nil
	}
	return protocol.Errorf(protocol.CodeReceiptUnsigned, "the receiver has not signed")
}

// stuckHops makes all hops of a node stuck.
type stuckHops struct{ seam.Receipts }

func (s stuckHops) Open(l *protocol.Lease, signed *protocol.SignedLease, hop int, c protocol.Capability) (seam.HopReceipts, error) {
	h, err := s.Receipts.Open(l, signed, hop, c)
	return &stuckReceipts{HopReceipts: h, after: 3}, err
}

// A hop whose receiver does not sign ends the session, and names it.
func TestReceiverDoesNotSign(t *testing.T) {
	for hop := range 2 {
		t.Run(fmt.Sprint(hop), func(t *testing.T) {
			n, tl := paidNetwork(t, netOptions{hops: 2, stuck: hop + 1})
			r := n.startPaid(tl)
			r.prefill(0, 0, 64)
			r.token(64)
			r.decode(0, 64)
			r.token(65)
			r.decode(0, 65)
			r.token(66)
			r.decode(0, 66)
			e := wantCode(t, "stream", r.streamEnd(), protocol.CodeReceiptUnsigned)
			wantHop(t, "stream", e, 1, protocol.PhaseDecode)
			n.freed()
			if hop == 1 {
				if f := n.nodes[1].failures(); len(f) != 0 {
					t.Errorf("the driver is blamed: %+v", f)
				}
				return
			}
			until(t, freedIn, "the receiver is named", func() bool { return len(n.nodes[0].failures()) == 1 })
			if f := n.nodes[0].failures()[0]; f.node != n.nodes[1].nodeID {
				t.Errorf("blamed %s", f.node)
			}
		})
	}
}

// ask makes one request of a node's seam as id.
func ask(t *testing.T, id *identity.Identity, nd *node, method, path, body string) (int, protocol.Code) {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: id.ClientTLS(nd.nodeID)}
	defer tr.CloseIdleConnections()
	req, err := http.NewRequestWithContext(t.Context(), method, "https://"+nd.addr+path, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	resp, err := tr.RoundTrip(req)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	var e protocol.Error
	if resp.StatusCode >= 400 {
		if err := json.Unmarshal(b, &e); err != nil {
			t.Fatalf("%d %q", resp.StatusCode, b)
		}
	}
	return resp.StatusCode, e.Code
}

// Who may ask for what, and what is refused before it is looked at; the same
// during the session and after it.
func TestReceiptRequests(t *testing.T) {
	n, tl := paidNetwork(t, netOptions{hops: 3})
	r := n.startPaid(tl)
	r.prefill(0, 0, 64)
	r.token(64)
	stranger := newID(t)
	ids := []*identity.Identity{n.nodes[0].id, n.nodes[1].id, n.nodes[2].id, n.driver, stranger}
	list := func(sizes ...int) string {
		var l protocol.Receipts
		for _, s := range sizes {
			l.Receipts = append(l.Receipts, bytes.Repeat([]byte{1}, s))
		}
		b, err := json.Marshal(l)
		if err != nil {
			t.Fatal(err)
		}
		return string(b)
	}
	good := list(protocol.SignedReceiptSize)
	all := func(t *testing.T) {
		for _, tc := range []struct {
			who    int // index of ids
			hop    int
			method string
			what   string
			body   string
			want   protocol.Code
		}{
			{0, 1, "POST", "/sign", good, protocol.CodeReceiptInvalid}, // it came to the receipt itself
			{0, 1, "GET", "/mark", "", protocol.CodeUnavailable},
			{3, 2, "GET", "", "", ""},
			{3, 2, "POST", "", good, protocol.CodeReceiptInvalid},
			{2, 1, "POST", "/sign", good, protocol.CodeForbidden},
			{3, 1, "POST", "/sign", good, protocol.CodeForbidden},
			{4, 1, "POST", "/sign", good, protocol.CodeForbidden},
			{3, 0, "POST", "/sign", good, protocol.CodeForbidden}, // before hop 0 is the driver, which does no work
			{3, 0, "GET", "/mark", "", protocol.CodeForbidden},
			{2, 1, "GET", "/mark", "", protocol.CodeForbidden},
			{1, 2, "GET", "", "", protocol.CodeForbidden},
			{4, 2, "GET", "", "", protocol.CodeForbidden},
			{4, 2, "POST", "", good, protocol.CodeForbidden},
			{4, 2, "POST", "/end", "{}", protocol.CodeForbidden},
			{1, 2, "POST", "/end", "{}", protocol.CodeForbidden},
			{3, 1, "GET", "", "", protocol.CodeUnsupported}, // not the tail
			{3, 0, "POST", "/end", "{}", protocol.CodeUnsupported},
			{0, 1, "POST", "/sign", list(), protocol.CodeInvalidRequest},
			{0, 1, "POST", "/sign", list(protocol.SignedReceiptSize, protocol.SignedReceiptSize), protocol.CodeInvalidRequest},
			{0, 1, "POST", "/sign", list(protocol.SignedReceiptSize - 1), protocol.CodeReceiptInvalid},
			{0, 1, "POST", "/sign", "{", protocol.CodeInvalidRequest},
			{0, 1, "POST", "/sign", strings.Repeat(" ", 3<<10) + good, protocol.CodeRequestTooLarge},
			{3, 2, "POST", "", strings.Repeat(" ", 2<<20), protocol.CodeRequestTooLarge},
			{3, 2, "POST", "/end", `{"seq":-1}`, protocol.CodeInvalidRequest},
			{3, 2, "POST", "/end", strings.Repeat(" ", 300), protocol.CodeRequestTooLarge},
		} {
			path := "/seam/v1/sessions/" + string(r.lease.Session) + "/receipts" + tc.what
			status, code := ask(t, ids[tc.who], n.nodes[tc.hop], tc.method, path, tc.body)
			if code != tc.want || code == "" && status != http.StatusOK {
				t.Errorf("%s %s of hop %d by %d: %d %s, want %s", tc.method, tc.what, tc.hop, tc.who, status, code, tc.want)
			}
		}
		path := "/seam/v1/sessions/" + string(protocol.NewSessionID()) + "/receipts"
		if _, code := ask(t, n.driver, n.nodes[2], "GET", path, ""); code != protocol.CodeSessionUnknown {
			t.Errorf("an unknown session: %s", code)
		}
	}
	t.Run("during", all)
	if err := r.stream.Close(); err != nil {
		t.Fatal(err)
	}
	n.freed()
	t.Run("after", all)
}
