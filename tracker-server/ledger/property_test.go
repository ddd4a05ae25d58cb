package ledger

import (
	"bufio"
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

// plan is what happens to one session in the tests below. What it has to cost is
// computed from it by plain arithmetic, without the ledger's code.
type plan struct {
	session  int
	hops     int
	failed   bool
	receipts []Work
}

// plans draws sessions with receipts that are good, one-sided, of two epochs,
// and more than was reserved.
func plans(rng *rand.Rand, n int) []plan {
	var out []plan
	for i := range n {
		p := plan{session: i, hops: 1 + rng.IntN(3), failed: rng.IntN(4) == 0}
		for h := range p.hops {
			for epoch := range int64(1 + rng.IntN(2)) {
				for first := int64(0); first < 150; {
					rows := 1 + rng.Int64N(64)
					x := work(i, h, first, first+rows, 0)
					if epoch == 0 && first == 0 {
						x.Prefill, x.Decode = rows, 0
					}
					x.Epoch, x.BothSigned = epoch, rng.IntN(6) > 0
					first += rows
					p.receipts = append(p.receipts, x)
				}
			}
		}
		out = append(out, p)
	}
	return out
}

// expect is the credit of owner h, of the house, and what clients paid.
func expect(all []plan) (owners [3]store.Credit, house, cost store.Credit) {
	for _, p := range all {
		if p.failed {
			continue
		}
		for h := range p.hops {
			var prefill, decode int64
			for _, x := range p.receipts {
				if x.Hop == h && x.BothSigned {
					prefill, decode = prefill+x.Prefill, decode+x.Decode
				}
			}
			prefill, decode = min(prefill, 100), min(decode, 200)
			paid := store.Credit(prefill*prefillRow + decode*decodeRow)
			owners[h] += store.Credit(prefill*prefShare + decode*decodeShare)
			house += paid - store.Credit(prefill*prefShare+decode*decodeShare)
			cost += paid
		}
	}
	return owners, house, cost
}

// steps are the operations of all plans. Each may be refused while another one
// has not happened; the last round has them in order.
func (w *world) steps(all []plan) []func() error {
	ctx := context.Background()
	var out []func() error
	for _, p := range all {
		out = append(out, func() error {
			_, err := w.Reserve(ctx, w.reservation(p.session, p.hops))
			return err
		})
	}
	for _, p := range all {
		for i := range p.receipts {
			out = append(out, func() error {
				got, err := w.Submit(ctx, p.receipts[i:i+1])
				if err == nil && !p.receipts[i].BothSigned && got[0].Status != StatusRefused {
					err = fmt.Errorf("a one-sided receipt is %+v", got[0])
				}
				return err
			})
		}
	}
	for _, p := range all {
		out = append(out, func() error {
			return w.Finish(ctx, End{Session: sid(p.session), Failed: p.failed, Prefill: -1, Decode: -1})
		})
	}
	return append(out,
		func() error { return w.Freeze(ctx, w.owners[2], "proof", "") },
		func() error { return w.Grant(ctx, w.client, "second", 77, "") },
		func() error { _, err := w.Settle(ctx); return err },
		func() error { _, err := w.Sweep(ctx); return err },
	)
}

// TestAnyOrder: whatever the order and the repetitions of what happens, the
// balances at the end are those that the plans give.
func TestAnyOrder(t *testing.T) {
	t.Parallel()
	for seed := range uint64(4) {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			rng := rand.New(rand.NewPCG(seed, 7))
			all := plans(rng, 5)
			w := newWorld(t, 3, Config{})
			steps := w.steps(all)
			mixed := append(append([]func() error{}, steps...), steps[:len(steps)/2]...)
			rng.Shuffle(len(mixed), func(i, j int) { mixed[i], mixed[j] = mixed[j], mixed[i] })
			callers := int(1 + 7*(seed%2)) // one after the other, or all at one time
			var wg sync.WaitGroup
			for c := range callers {
				wg.Go(func() {
					for i := c; i < len(mixed); i += callers {
						err := mixed[i]()
						if e := protocol.AsError(err); e != nil && e.Code != protocol.CodeSessionUnknown {
							t.Error(err)
						}
						if i%150 == 0 {
							if err := w.Check(context.Background()); err != nil {
								t.Error(err)
							}
						}
					}
				})
			}
			wg.Wait()
			// A session that failed before its first receipt came, or was posted,
			// is the same; so is everything once more.
			for range 2 {
				for _, f := range steps {
					w.must(f())
				}
			}
			w.wantPlans(all)
		})
	}
}

// wantPlans lets all times pass and compares.
func (w *world) wantPlans(all []plan) {
	w.t.Helper()
	ctx := context.Background()
	owners, house, cost := expect(all)
	w.check()
	w.pass(10 * time.Hour)
	_, err := w.Sweep(ctx)
	w.must(err)
	_, err = w.Settle(ctx)
	w.must(err)
	w.check()
	w.want(w.owners[0], store.Available, owners[0])
	w.want(w.owners[1], store.Available, owners[1])
	w.want(w.owners[2], store.Frozen, owners[2])
	w.want(store.House, store.Available, house)
	w.want(w.client, store.Available, 1e12+77-cost)
	for _, id := range append(w.owners, store.House, w.client) {
		w.want(id, store.Held, 0)
		w.want(id, store.Pending, 0)
		w.want(id, store.Reserved, 0)
	}
	// No work was posted twice, and none of a failed session was kept.
	posted := make(map[string]bool)
	w.must(w.View(ctx, func(tx store.LedgerView) error {
		return tx.Each(func(x *store.Transaction) error {
			if posted[x.ID] {
				w.t.Errorf("%s is there twice", x.ID)
			}
			posted[x.ID] = true
			return nil
		})
	}))
	for _, p := range all {
		if posted["earn:"+string(sid(p.session))] == p.failed {
			w.t.Errorf("session %d failed: %t", p.session, p.failed)
		}
	}
}

const killWriter = "NEURON_LEDGER_WRITER"

// TestKilledAtRandomWrites kills a process that writes without pause, 20 times
// at moments that nobody chose. Each time the books are in order and hold what
// the process had reported; at the end they hold exactly what was planned.
func TestKilledAtRandomWrites(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	all := plans(rng, 30)
	if path := os.Getenv(killWriter); path != "" {
		db, err := sqlite.Open(context.Background(), path)
		if err != nil {
			fmt.Println("error", err)
			return
		}
		l, err := Open(context.Background(), db, Config{Now: func() time.Time { return t0 }})
		if err != nil {
			fmt.Println("error", err)
			return
		}
		var client store.AccountID
		if _, err := fmt.Sscan(os.Getenv(killWriter+"_CLIENT"), &client); err != nil {
			fmt.Println("error", err)
			return
		}
		w := &world{Ledger: l, db: db, client: client}
		if err := w.writeAll(all, os.Getenv(killWriter+"_FROM")); err != nil {
			fmt.Println("error", err)
		}
		return
	}
	t.Parallel()
	w := newWorld(t, 3, Config{})
	w.must(w.db.Close())
	from := "0"
	for range 20 {
		ctx, cancel := context.WithCancel(t.Context())
		cmd := exec.CommandContext(ctx, os.Args[0], "-test.run=^TestKilledAtRandomWrites$")
		cmd.Env = append(os.Environ(), killWriter+"="+w.path, killWriter+"_CLIENT="+string(w.client), killWriter+"_FROM="+from)
		out, err := cmd.StdoutPipe()
		w.must(err)
		w.must(cmd.Start())
		lines, done := bufio.NewScanner(out), ""
		for n := rng.IntN(25); n >= 0 && lines.Scan(); n-- {
			if strings.HasPrefix(lines.Text(), "error") {
				t.Error(lines.Text())
			}
			if id, ok := strings.CutPrefix(lines.Text(), "done "); ok {
				done = id
			}
			if i, ok := strings.CutPrefix(lines.Text(), "finished "); ok {
				from = i
			}
		}
		cancel() // SIGKILL to this one process
		_ = cmd.Wait()
		w.open(Config{Now: w.clock})
		w.check()
		if done != "" {
			w.must(w.View(t.Context(), func(tx store.LedgerView) error {
				_, err := tx.Transaction(done)
				return err
			}))
		}
		w.must(w.db.Close())
	}
	t.Logf("killed 20 times, up to session %s of %d", from, len(all))
	w.open(Config{Now: w.clock})
	for _, f := range w.steps(all) {
		w.must(f())
	}
	w.wantPlans(all)
}

// writeAll does the plans in order, and says what is done.
func (w *world) writeAll(all []plan, from string) error {
	ctx, first := context.Background(), 0
	if _, err := fmt.Sscan(from, &first); err != nil {
		return err
	}
	for _, p := range all[min(first, len(all)-1):] {
		if _, err := w.Reserve(ctx, w.reservation(p.session, p.hops)); err != nil {
			return err
		}
		fmt.Printf("done reserve:%s\n", sid(p.session))
		for i, x := range p.receipts {
			got, err := w.Submit(ctx, []Work{x})
			if err != nil {
				return err
			}
			if got[0].Status == StatusPosted {
				fmt.Printf("done %s\n", postID(&p.receipts[i]))
			}
		}
		if err := w.Finish(ctx, End{Session: sid(p.session), Failed: p.failed, Prefill: -1, Decode: -1}); err != nil {
			return err
		}
		fmt.Printf("finished %d\n", p.session)
	}
	return nil
}

// TestTwoTrackers: two processes' worth of ledgers on one database, as with an
// operator's command beside the tracker.
func TestTwoTrackers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 3, Config{})
	db, err := sqlite.Open(t.Context(), filepath.Clean(w.path))
	w.must(err)
	defer db.Close()
	l, err := Open(t.Context(), db, Config{Now: w.clock})
	w.must(err)
	second := &world{Ledger: l, t: t, db: db, client: w.client, owners: w.owners}
	rng := rand.New(rand.NewPCG(3, 3))
	all := plans(rng, 4)
	var wg sync.WaitGroup
	for _, x := range []*world{w, second} {
		wg.Go(func() {
			for _, f := range x.steps(all) {
				if err := f(); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
	w.wantPlans(all)
}

// FuzzReceipt: no figures of a receipt make the ledger fail, and the books stay
// in order.
func FuzzReceipt(f *testing.F) {
	f.Add(0, int64(0), int64(0), int64(64), int64(64), int64(0), int64(100*mib), true)
	f.Add(1, int64(1), int64(64), int64(65), int64(0), int64(1), int64(100*mib), true)
	f.Add(-1, int64(-1), int64(-1), int64(1<<62), int64(1<<62), int64(1<<62), int64(-1), false)
	w := newWorld(f, 2, Config{})
	w.reserve(1, 2)
	f.Fuzz(func(t *testing.T, hop int, epoch, first, last, prefill, decode, bytes int64, signed bool) {
		x := Work{Session: sid(1), Hop: hop, Epoch: epoch, Node: nodeID(hop & 1), Bytes: bytes, First: first, Last: last, Prefill: prefill, Decode: decode, BothSigned: signed}
		got, err := w.Submit(context.Background(), []Work{x})
		if err != nil {
			t.Fatal(err)
		}
		if got[0].Status == StatusPosted && (!signed || bytes != 100*mib || prefill+decode > last-first) {
			t.Errorf("%+v was paid", x)
		}
		all, err := w.Balances(context.Background(), w.client)
		if err != nil || all[store.Reserved] < 0 {
			t.Errorf("%v, %v", all, err)
		}
	})
}

// FuzzCursor: a cursor either is one or is refused, never an error of the store.
func FuzzCursor(f *testing.F) {
	for _, s := range []string{"", "1-0", "9223372036854775807-9", "1-2-3", "-1", "\x00"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		seq, n, err := parseCursor(s)
		if err == nil && s != "" && fmt.Sprintf("%d-%d", seq, n) != s {
			t.Errorf("%q is %d-%d", s, seq, n)
		}
	})
}
