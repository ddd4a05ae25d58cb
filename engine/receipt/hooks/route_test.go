package hooks_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"neuron/engine/control"
	"neuron/engine/control/controltest"
	"neuron/engine/gateway"
	"neuron/engine/protocol"
	"neuron/engine/receipt"
	"neuron/engine/receipt/hooks"
	"neuron/engine/seam"
	"neuron/engine/seam/seamclient"
	"neuron/engine/seam/seamtest"
	"neuron/engine/session"
	"neuron/engine/session/sessiontest"
	"neuron/internal/identity"
)

const patience = 20 * time.Second

func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	limit := time.Now().Add(patience)
	for !ok() {
		if time.Now().After(limit) {
			t.Fatalf("not within %s: %s", patience, what)
		}
		time.Sleep(5 * time.Millisecond) // polling, bounded by patience
	}
}

// party is a node or a gateway with its book, over a real control channel.
type party struct {
	id     *identity.Identity
	client *seamclient.Client
	ctl    *control.Client
	book   *receipt.Book
	server *seam.Server // of a node
	stage  *seamtest.Stage
	addr   string

	closers []func()
}

// newParty opens what nodes and gateways have in common; dir is their data
// folder.
func newParty(dir, tracker string, key ed25519.PublicKey, role protocol.Role) (p *party, err error) {
	p = &party{}
	if p.id, err = identity.LoadOrCreate(dir); err != nil {
		return nil, err
	}
	p.client = seamclient.New(p.id)
	p.closers = append(p.closers, p.client.Close)
	p.ctl, err = control.New(control.Options{
		URL: tracker, Identity: p.id, Role: role, PinnedTracker: key,
		OnState: func(s control.State) {
			if s.Status == control.StatusConnected {
				p.book.Wake()
			}
		},
	})
	if err != nil {
		return nil, err
	}
	book := filepath.Join(dir, "receipts")
	if err := os.MkdirAll(book, 0o700); err != nil {
		return nil, err
	}
	p.book, err = receipt.Open(receipt.Options{
		Identity: p.id, Dir: book, Receiver: p.client, Tracker: p.ctl, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = p.ctl.Run(ctx) }) // ends with ctx
	p.closers = append(p.closers, func() {
		cancel()
		running.Wait()
		if err := p.book.Close(); err != nil {
			panic(err)
		}
	})
	return p, nil
}

// serve makes p a node that runs layers use.
func (p *party) serve(use protocol.Range, key ed25519.PublicKey) error {
	st := seamtest.NewStage(use, 1<<16)
	p.stage = st
	p.server = seam.NewServer(seam.ServerOptions{
		Identity: p.id, Stage: func() seam.Stage { return st }, TrackerKey: func() ed25519.PublicKey { return key },
		Logger: slog.New(slog.DiscardHandler), Receipts: hooks.Hops{Book: p.book, Engine: "9.9-test"},
	})
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return err
	}
	p.addr = l.Addr().String()
	var serving sync.WaitGroup
	serving.Go(func() { _ = p.server.Serve(l) }) // ends with Close
	p.closers = append(p.closers, func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := p.server.Close(ctx); err != nil {
			panic(err)
		}
		serving.Wait()
	})
	return nil
}

func (p *party) close() {
	for _, f := range slices.Backward(p.closers) {
		f()
	}
}

// world is a tracker, a driver, and nodes on a route.
type world struct {
	t      *testing.T
	tr     *controltest.Tracker
	driver *party
	nodes  []*party
	m      *session.Manager
	route  []protocol.Hop
}

func useOf(i, hops int) protocol.Range {
	return protocol.Range{First: i * seamtest.Layers / hops, Last: (i + 1) * seamtest.Layers / hops}
}

// newWorld has hops nodes in this process, or the one of route.
func newWorld(t *testing.T, hops int) *world {
	t.Helper()
	w := &world{t: t, tr: controltest.New(t)}
	w.tr.Route = func(d protocol.NodeID, r protocol.RouteRequest) (*protocol.Lease, *protocol.Error) {
		return &protocol.Lease{Version: protocol.Version, Session: r.Session, Model: seamtest.Model, Layers: seamtest.Layers, Driver: d,
			Hops: w.route, Context: r.Context, DType: protocol.DTypeF32, Issued: time.Now(), Expires: time.Now().Add(time.Hour), Policy: r.Policy,
			EngineBuild: protocol.Build{Protocol: protocol.Version, Llama: seamtest.LlamaVersion}}, nil
	}
	var err error
	if w.driver, err = newParty(t.TempDir(), w.tr.URL(), w.tr.Public(), protocol.RoleGateway); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(w.driver.close)
	for i := range hops {
		p, err := newParty(t.TempDir(), w.tr.URL(), w.tr.Public(), protocol.RoleNode)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(p.close)
		if err := p.serve(useOf(i, hops), w.tr.Public()); err != nil {
			t.Fatal(err)
		}
		w.nodes = append(w.nodes, p)
		w.route = append(w.route, protocol.Hop{Node: p.id.ID(), Addr: p.addr, Use: useOf(i, hops), StepMicros: 1000})
	}
	w.m, err = session.New(session.Options{
		Node: w.driver.id.ID(), Hops: session.SeamHops{Client: w.driver.client}, Router: w.driver.ctl,
		Texts: sessiontest.New(sessiontest.Script{}), Receipts: hooks.Driver{Book: w.driver.book, Tail: w.driver.client},
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := w.m.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	if err := w.driver.ctl.Await(t.Context()); err != nil {
		t.Fatal(err)
	}
	return w
}

// generate asks for an answer and reads some of it, or all (-1).
func (w *world) generate(prompt, tokens, read int) protocol.FinishReason {
	w.t.Helper()
	r := gateway.GenerateRequest{Request: "r", Model: sessiontest.ModelName, MaxTokens: tokens, Policy: protocol.PolicyPublic}
	for i := range prompt {
		r.Prompt = append(r.Prompt, int32(i%50)+1)
	}
	g, err := w.m.Generate(context.Background(), r)
	if err != nil {
		w.t.Fatal(err)
	}
	n := 0
	for range g.Tokens() {
		if n++; n == read {
			g.Cancel()
		}
	}
	fin, perr := g.Result()
	if perr != nil && perr.Code != protocol.CodeCancelled {
		w.t.Fatal(perr)
	}
	return fin
}

// taken are the receipts that the tracker has taken, by hop and number.
func (w *world) taken() map[int][]*protocol.Receipt {
	out := map[int][]*protocol.Receipt{}
	w.tr.Wait(w.t, "a record", func(r controltest.Record) bool {
		for _, raw := range r.Receipts {
			sr, x, err := protocol.ParseSignedReceipt(raw)
			if err != nil || !sr.Both() {
				w.t.Errorf("the tracker took half a receipt: %v", err)
				continue
			}
			out[x.Hop] = append(out[x.Hop], x)
		}
		return true
	})
	for _, l := range out {
		slices.SortFunc(l, func(a, b *protocol.Receipt) int { return int(a.Span.Seq) - int(b.Span.Seq) })
	}
	return out
}

// rows sums what the receipts are for.
func rows(list []*protocol.Receipt) (n int) {
	for _, x := range list {
		n += int(x.Span.Rows)
	}
	return n
}

// A whole route with its driver: every row of every hop is in a receipt at the
// tracker, signed by both ends.
func TestReceiptsOfWholeAnswers(t *testing.T) {
	for _, hops := range []int{1, 3} {
		t.Run(fmt.Sprintf("hops=%d", hops), func(t *testing.T) {
			t.Parallel()
			w := newWorld(t, hops)
			const prompt, tokens = 700, 150
			if fin := w.generate(prompt, tokens, -1); fin != protocol.FinishLength {
				t.Fatal(fin)
			}
			// The last token of a full answer is not executed.
			const want = prompt + tokens - 1
			eventually(t, "all receipts", func() bool {
				got := w.taken()
				for i := range hops {
					if rows(got[i]) < want {
						return false
					}
				}
				return true
			})
			got := w.taken()
			for i := range hops {
				if n := rows(got[i]); n != want {
					t.Errorf("hop %d: receipts for %d rows, want %d", i, n, want)
				}
				for k, x := range got[i] {
					if int(x.Span.Seq) != k || x.Class != (protocol.Class{Threads: 1, Llama: seamtest.LlamaVersion, Engine: "9.9-test"}) || x.Span.Final != (k == len(got[i])-1) {
						t.Errorf("hop %d: %+v", i, x)
					}
					if i > 0 && (len(got[i]) != len(got[i-1]) || x.Span.Input != got[i-1][k].Span.Output || !x.Span.SameShape(&got[i-1][k].Span)) {
						t.Errorf("span %d of hop %d does not continue hop %d", k, i, i-1)
					}
				}
				if st := w.nodes[i].book.Stats(); st.Unsigned != 0 || st.Denied != 0 || st.Waiting != 0 {
					t.Errorf("hop %d: %+v", i, st)
				}
			}
			if st := w.driver.book.Stats(); st.Given != int64(len(got[hops-1])) || st.Denied != 0 {
				t.Errorf("driver: %+v", st)
			}
		})
	}
}

// An answer that the client leaves is paid for as far as the driver got it, on
// all hops alike.
func TestReceiptsOfACancelledAnswer(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3)
	if fin := w.generate(100, 2000, 45); fin != protocol.FinishCancelled {
		t.Fatal(fin)
	}
	eventually(t, "final receipts of all", func() bool {
		got := w.taken()
		for i := range 3 {
			if n := len(got[i]); n == 0 || !got[i][n-1].Span.Final {
				return false
			}
		}
		return true
	})
	got := w.taken()
	for i := range 3 {
		if rows(got[i]) != rows(got[0]) || len(got[i]) != len(got[0]) || rows(got[i]) < 100+44 {
			t.Errorf("hop %d: %d receipts for %d rows", i, len(got[i]), rows(got[i]))
		}
	}
}
