package server

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/datadir"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/receipts/receiptstest"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

// FuzzReceipts sends hostile bodies of receipt messages through the real
// dispatch, as a hop of a session that somebody pays for. Every body has one
// answer: an error, or a verdict with a known code for each receipt; and the
// books add up to 0. The corpus in testdata holds valid receipts of the session
// below.
func FuzzReceipts(f *testing.F) {
	ctx := context.Background()
	must := func(err error) {
		f.Helper()
		if err != nil {
			f.Fatal(err)
		}
	}
	dir, err := datadir.Open(f.TempDir())
	must(err)
	db, err := sqlite.Open(ctx, dir.File("t.db"))
	must(err)
	f.Cleanup(func() { db.Close(); dir.Close() })
	issued := time.Unix(1_800_000_000, 0).UTC()
	// Time goes forth and back, so that no limit ends the fuzzing.
	turn := 0
	o := Options{Listen: "127.0.0.1:0", Now: func() time.Time { return issued.Add(time.Duration(turn%2) * 20 * time.Minute) }}
	must(o.fill())
	c := newCore(o, receiptstest.Key("tracker"), db)
	must(errors.Join(c.openMoney(ctx), c.openReceipts(ctx)))
	r := fuzzedRoute(f, issued)
	lease, err := json.Marshal(r.Signed)
	must(err)
	l := r.Lease
	must(db.AddSession(ctx, store.Session{ID: l.Session, Driver: l.Driver, Model: l.Model, Lease: lease, Issued: l.Issued}))
	a, err := c.ledger.AddClient(ctx, "client")
	must(err)
	must(c.ledger.Grant(ctx, a.ID, "first", 1e12, ""))
	reserve := ledger.Reserve{Session: l.Session, Account: a.ID, Model: l.Model, Prefill: 64, Decode: 320, Expires: l.Expires}
	for _, h := range l.Hops {
		reserve.Hops = append(reserve.Hops, ledger.ReserveHop{Node: h.Node, Use: h.Use, Bytes: 1 << 20})
	}
	_, err = c.ledger.Reserve(ctx, reserve)
	must(err)
	for _, body := range []string{
		`{"receipts":[]}`, `{"receipts":[""]}`, `{"receipts":["AAAA",null]}`, `{"receipts":5}`, `{"receipts":["!"]}`, `null`, `[]`, `{"receipts":[["AAAA"]]}`,
	} {
		f.Add([]byte(body))
	}
	statuses := []protocol.ReceiptStatus{protocol.ReceiptAccepted, protocol.ReceiptRepeat, protocol.ReceiptRefused, protocol.ReceiptRetry}
	p := &stub{id: l.Hops[0].Node, hello: protocol.Hello{Role: protocol.RoleNode, Build: testBuild, Addr: "h:1"}}
	c.joined(p)
	f.Fuzz(func(t *testing.T, body []byte) {
		turn++
		p.sent = nil
		c.message(t.Context(), p, &protocol.Envelope{Kind: protocol.MsgReceipts, ID: 7, Body: body})
		if len(p.sent) != 1 || p.sent[0].ID != 7 {
			t.Fatalf("%d answers", len(p.sent))
		}
		e := p.sent[0]
		if raw, err := json.Marshal(e); err != nil || len(raw) > protocol.MaxMessage {
			t.Fatalf("an answer of %d bytes, %v", len(raw), err)
		}
		switch e.Kind {
		case protocol.MsgError:
			if x, err := protocol.Unpack[protocol.Error](e); err != nil || x.Code != protocol.CodeInvalidRequest && x.Code != protocol.CodeRequestTooLarge {
				t.Fatalf("error %s, %v", e.Body, err)
			}
		case protocol.MsgReceipts:
			in, err := protocol.Unpack[protocol.Receipts](&protocol.Envelope{Body: body})
			v, verr := protocol.Unpack[protocol.ReceiptVerdicts](e)
			if err = errors.Join(err, verr); err != nil || len(v.Verdicts) != len(in.Receipts) {
				t.Fatalf("answer %s, %v", e.Body, err)
			}
			for _, x := range v.Verdicts {
				if !slices.Contains(statuses, x.Status) || (x.Status == protocol.ReceiptRefused) != (x.Error != nil) || x.Error != nil && !x.Error.Code.Known() {
					t.Fatalf("verdict %+v", x)
				}
			}
		default:
			t.Fatalf("answer %s", e.Kind)
		}
		if err := c.ledger.View(t.Context(), func(v store.LedgerView) error {
			all, err := v.Cached()
			sum := store.Credit(0)
			for _, books := range all {
				for _, x := range books {
					sum += x
				}
			}
			if sum != 0 {
				t.Fatalf("the books add up to %s", sum)
			}
			return err
		}); err != nil {
			t.Fatal(err)
		}
	})
}

// fuzzedRoute is the session that the corpus is about.
func fuzzedRoute(t testing.TB, issued time.Time) *receiptstest.Route {
	return receiptstest.Sign(t, receiptstest.Key("tracker"), "s-aaaaaaaaaaaaaaaaaaaaaaaaaa", issued,
		receiptstest.Key("driver"), receiptstest.Key("head"), receiptstest.Key("tail"))
}
