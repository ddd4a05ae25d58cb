package main

import (
	"bufio"
	"bytes"
	"context"
	"crypto/ed25519"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gorilla/websocket"
	"golang.org/x/time/rate"

	"neuron/engine/protocol"
	"neuron/tracker-server/datadir"
	"neuron/tracker-server/keys"
	"neuron/tracker-server/ledger"
	"neuron/tracker-server/receipts/receiptstest"
	"neuron/tracker-server/store"
	"neuron/tracker-server/store/sqlite"
)

// asTracker makes this test binary the program: the tests below kill it.
const asTracker = "NEURON_TEST_AS_TRACKER"

func TestMain(m *testing.M) {
	if os.Getenv(asTracker) != "" {
		os.Exit(mainStatus())
	}
	os.Exit(m.Run())
}

// The sessions whose receipts are sent while the tracker is killed.
const (
	killHops     = 2
	killSessions = 8
	killSpans    = 120
	killNodes    = 4 // two routes of two nodes
	kills        = 10
	killBytes    = 1 << 20
)

func killKey(i int) ed25519.PrivateKey { return receiptstest.Key(fmt.Sprint("kill", i)) }

// killedTracker is a data folder with paid sessions that ended well, and what
// nodes were told about their receipts.
type killedTracker struct {
	t      *testing.T
	data   string
	routes []*receiptstest.Route
	owners []store.AccountID // by node

	mu       sync.Mutex
	url      string                 // of the tracker that runs, or ran last
	accepted map[protocol.Hash]span // by the receipt's id
	answered chan struct{}          // one for each answer, as far as there is room
}

type span struct {
	route, hop int
	seq        uint32
}

// postID is the ledger's name of the work of a span.
func (k *killedTracker) postID(s span) string {
	x := k.routes[s.route].Receipt(s.hop, s.seq).Span
	return fmt.Sprintf("post:%s:%d:%d:%d-%d", k.routes[s.route].Lease.Session, s.hop, x.EpochLast, x.First, x.Last)
}

func (k *killedTracker) must(err error) {
	k.t.Helper()
	if err != nil {
		k.t.Fatal(err)
	}
}

// open runs f on the database while no tracker runs.
func (k *killedTracker) open(f func(ctx context.Context, db *sqlite.Store, l *ledger.Ledger, key ed25519.PrivateKey)) {
	k.t.Helper()
	ctx := context.Background()
	dir, err := datadir.Open(k.data)
	k.must(err)
	defer dir.Close()
	key, err := keys.LoadOrCreate(dir)
	k.must(err)
	db, err := sqlite.Open(ctx, dir.File("tracker.db"))
	k.must(err)
	l, err := ledger.Open(ctx, db, ledger.Config{})
	k.must(err)
	f(ctx, db, l, key)
	k.must(db.Close())
}

// fill makes accounts, owners, sessions and reservations.
func (k *killedTracker) fill(ctx context.Context, db *sqlite.Store, l *ledger.Ledger, key ed25519.PrivateKey) {
	now := time.Now().UTC().Truncate(time.Microsecond)
	k.must(l.AddPrices(ctx, ledger.DefaultPrices(now)))
	a, err := l.AddClient(ctx, "client")
	k.must(err)
	k.must(l.Grant(ctx, a.ID, "first", 1e12, ""))
	for i := range killNodes {
		k.must(l.Update(ctx, func(tx store.LedgerTx, now time.Time) error {
			id, err := ledger.EnsureOwner(tx, receiptstest.Key(fmt.Sprint("owner", i)).Public().(ed25519.PublicKey), 0, now)
			if err != nil {
				return err
			}
			k.owners = append(k.owners, id)
			return tx.AddNodeOwner(store.NodeOwner{Node: receiptstest.ID(killKey(i)), Owner: id, Binding: []byte("{}"), At: now})
		}))
	}
	for i := range killSessions {
		first := i % 2 * killHops
		r := receiptstest.Sign(k.t, key, protocol.NewSessionID(), now, receiptstest.Key("driver"), killKey(first), killKey(first+1))
		k.routes = append(k.routes, r)
		lease, err := json.Marshal(r.Signed)
		k.must(err)
		k.must(db.AddSession(ctx, store.Session{
			ID: r.Lease.Session, Driver: r.Lease.Driver, Model: r.Lease.Model, Lease: lease, KVBytes: make([]int64, killHops), Issued: r.Lease.Issued,
			Phase: protocol.PhaseDone, Ended: now, Finish: protocol.FinishStop,
		}))
		res := ledger.Reserve{Session: r.Lease.Session, Account: a.ID, Model: r.Lease.Model, Prefill: 64, Decode: 32 * killSpans, Expires: r.Lease.Expires}
		for _, h := range r.Lease.Hops {
			res.Hops = append(res.Hops, ledger.ReserveHop{Node: h.Node, Use: h.Use, Bytes: killBytes})
		}
		_, err = l.Reserve(ctx, res)
		k.must(err)
		k.must(l.Finish(ctx, ledger.End{Session: r.Lease.Session, Prefill: -1, Decode: -1}))
	}
}

// check compares the database with what nodes were told: what was accepted is
// stored, it is paid once as soon as the hops behind it were accepted too, and
// nothing else is paid.
func (k *killedTracker) check(ctx context.Context, db *sqlite.Store, l *ledger.Ledger, _ ed25519.PrivateKey) {
	k.t.Helper()
	k.must(l.Check(ctx))
	k.mu.Lock()
	accepted := maps.Clone(k.accepted) // a node may still be reading its last answer
	k.mu.Unlock()
	stored := map[protocol.Hash]bool{}
	for _, r := range k.routes {
		raws, err := db.Receipts(ctx, r.Lease.Session)
		k.must(err)
		for _, raw := range raws {
			s, _, err := protocol.ParseSignedReceipt(raw)
			k.must(err)
			stored[s.ID()] = true
		}
	}
	posts := map[string]int{}
	k.must(l.View(ctx, func(v store.LedgerView) error {
		return v.Each(func(x *store.Transaction) error {
			if x.Kind == store.TxPost {
				posts[x.ID]++
			}
			return nil
		})
	}))
	told := map[span]bool{}
	for id, s := range accepted {
		told[s] = true
		if !stored[id] {
			k.t.Errorf("an accepted receipt is lost: %+v", s)
		}
	}
	for s := range told {
		if n := posts[k.postID(s)]; n > 1 || n == 0 && told[span{s.route, killHops - 1, s.seq}] {
			k.t.Errorf("an accepted receipt was posted %d times: %+v", n, s)
		}
	}
	for route := range k.routes {
		for hop := range killHops {
			for seq := range uint32(killSpans) {
				delete(posts, k.postID(span{route, hop, seq}))
			}
		}
	}
	if len(posts) > 0 {
		k.t.Errorf("paid for what nobody sent: %v", posts)
	}
}

// tracker starts the program and returns when it serves.
func (k *killedTracker) tracker() *exec.Cmd {
	k.t.Helper()
	cmd := exec.CommandContext(k.t.Context(), os.Args[0], "serve", "--listen", "127.0.0.1:0", "--data", k.data, "--log-level", "error")
	cmd.Env = append(os.Environ(), asTracker+"=1")
	var stderr bytes.Buffer
	cmd.Stderr = &stderr
	out, err := cmd.StdoutPipe()
	k.must(err)
	k.must(cmd.Start())
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		_ = cmd.Wait()
		k.t.Fatalf("the tracker does not start: %v\n%s", err, stderr.String())
	}
	k.mu.Lock()
	k.url = strings.TrimSpace(line)
	k.mu.Unlock()
	return cmd
}

// node sends the receipts of one hop until all were answered for good and ctx
// has ended; until then it sends some of them again.
func (k *killedTracker) node(ctx context.Context, i int) {
	rnd := rand.New(rand.NewPCG(uint64(i), 6))
	var todo, done []span
	for route := i / killHops; route < killSessions; route += 2 {
		for seq := range uint32(killSpans) {
			todo = append(todo, span{route, i % killHops, seq})
		}
	}
	raws := make(map[span][]byte, len(todo))
	for _, s := range todo {
		raws[s] = k.routes[s.route].Span(s.hop, s.seq)
	}
	rnd.Shuffle(len(todo), func(i, j int) { todo[i], todo[j] = todo[j], todo[i] })
	// The control channel takes 200 messages a second.
	pace := rate.NewLimiter(150, 1)
	var ws *websocket.Conn
	for len(todo) > 0 || ctx.Err() == nil {
		if err := pace.Wait(context.Background()); err != nil {
			k.t.Error(err)
			return
		}
		if ws == nil {
			k.mu.Lock()
			url := k.url
			k.mu.Unlock()
			ws, _ = join(url, killKey(i)) // it may be dead: then there is no connection
			continue
		}
		batch := append([]span(nil), todo[:min(len(todo), 1+rnd.IntN(6))]...)
		if len(done) > 0 && (len(batch) == 0 || rnd.IntN(4) == 0) {
			batch = append(batch, done[rnd.IntN(len(done))])
		}
		verdicts, err := k.ask(ws, batch, raws)
		if err != nil {
			ws.Close()
			ws = nil
			continue
		}
		for n, v := range verdicts {
			s := batch[n]
			switch v.Status {
			case protocol.ReceiptAccepted, protocol.ReceiptRepeat:
				c, _, err := protocol.ParseSignedReceipt(raws[s])
				if err != nil {
					k.t.Error(err)
					return
				}
				k.mu.Lock()
				k.accepted[c.ID()] = s
				k.mu.Unlock()
				if len(todo) > 0 && todo[0] == s {
					todo, done = todo[1:], append(done, s)
				}
			default:
				k.t.Errorf("%+v: %s %v", s, v.Status, v.Error)
				return
			}
		}
		select {
		case k.answered <- struct{}{}:
		default:
		}
	}
	if ws != nil {
		ws.Close()
	}
}

// ask sends a batch and waits for its verdicts.
func (k *killedTracker) ask(ws *websocket.Conn, batch []span, raws map[span][]byte) ([]protocol.ReceiptVerdict, error) {
	var m protocol.Receipts
	for _, s := range batch {
		m.Receipts = append(m.Receipts, raws[s])
	}
	e, err := protocol.Pack(protocol.MsgReceipts, 1, m)
	if err != nil {
		return nil, err
	}
	if err := ws.WriteJSON(e); err != nil {
		return nil, err
	}
	e, err = read(ws, protocol.MsgReceipts)
	if err != nil {
		return nil, err
	}
	v, err := protocol.Unpack[protocol.ReceiptVerdicts](e)
	if err == nil && len(v.Verdicts) != len(batch) {
		err = fmt.Errorf("%d verdicts for %d receipts", len(v.Verdicts), len(batch))
	}
	if err != nil {
		return nil, err
	}
	return v.Verdicts, nil
}

// join connects a node to a tracker.
func join(url string, key ed25519.PrivateKey) (*websocket.Conn, error) {
	ws, resp, err := websocket.DefaultDialer.Dial("ws"+strings.TrimPrefix(url, "http")+"v1/nodes", nil)
	if err != nil {
		return nil, err
	}
	resp.Body.Close()
	e, err := read(ws, protocol.MsgChallenge)
	var ch *protocol.Challenge
	if err == nil {
		ch, err = protocol.Unpack[protocol.Challenge](e)
	}
	if err == nil {
		e, err = protocol.Pack(protocol.MsgHello, 1, protocol.Hello{
			Protocol: protocol.Version, Engine: "test", Build: protocol.Build{Protocol: protocol.Version, Llama: "v0.4.0"}, Role: protocol.RoleNode,
			Key: key.Public().(ed25519.PublicKey), Sig: ed25519.Sign(key, protocol.HelloPayload(ch.Nonce, ch.Tracker)), Addr: "127.0.0.1:9",
		})
	}
	if err == nil {
		err = ws.WriteJSON(e)
	}
	if err == nil {
		_, err = read(ws, protocol.MsgWelcome)
	}
	if err != nil {
		return nil, errors.Join(err, ws.Close())
	}
	return ws, nil
}

// read waits for a message of a kind.
func read(ws *websocket.Conn, kind protocol.MessageKind) (*protocol.Envelope, error) {
	for {
		_, raw, err := ws.ReadMessage()
		if err != nil {
			return nil, err
		}
		e, err := protocol.ParseEnvelope(raw)
		if err != nil || e.Kind == kind {
			return e, err
		}
		if e.Kind == protocol.MsgError {
			return nil, fmt.Errorf("%s", e.Body)
		}
	}
}

// TestKilledWhileReceiptsCome kills the real program without warning while four
// nodes send receipts, again and again, and starts it on the same folder. What
// was accepted is never lost, and everything is paid exactly once in the end.
func TestKilledWhileReceiptsCome(t *testing.T) {
	t.Parallel()
	k := &killedTracker{t: t, data: filepath.Join(t.TempDir(), "data"), accepted: map[protocol.Hash]span{}, answered: make(chan struct{}, 1)}
	k.open(k.fill)
	rnd := rand.New(rand.NewPCG(uint64(time.Now().UnixNano()), 7))
	cmd := k.tracker()
	ctx, enough := context.WithCancel(context.Background())
	defer enough()
	var wg sync.WaitGroup
	for i := range killNodes {
		wg.Go(func() { k.node(ctx, i) })
	}
	last := 0
	for range kills {
		for range rnd.IntN(40) {
			<-k.answered
		}
		k.must(cmd.Process.Kill()) // SIGKILL, while others of the nodes wait
		_ = cmd.Wait()             // it was killed
		k.mu.Lock()
		last = len(k.accepted)
		k.mu.Unlock()
		k.open(k.check)
		cmd = k.tracker()
	}
	enough()
	wg.Wait()
	k.must(cmd.Process.Signal(syscall.SIGTERM))
	if err := cmd.Wait(); err != nil {
		t.Errorf("the stop in order: %v", err)
	}
	total := killSessions * killHops * killSpans
	if len(k.accepted) != total {
		t.Errorf("%d of %d receipts were accepted", len(k.accepted), total)
	}
	if last == 0 || last == total {
		t.Errorf("%d of %d receipts were accepted before the last kill: the kills came at the wrong time", last, total)
	}
	k.open(k.check)
	k.open(func(ctx context.Context, _ *sqlite.Store, l *ledger.Ledger, _ ed25519.PrivateKey) {
		row, _ := ledger.RowPrice(killBytes, 1000)
		want := killSessions / 2 * (64*(row*150_000/1_000_000) + 32*(killSpans-1)*row)
		for i, o := range k.owners {
			have, err := l.Balances(ctx, o)
			k.must(err)
			if have[store.Pending] != want {
				t.Errorf("the owner of node %d earned %s, want %s", i, have[store.Pending], want)
			}
		}
	})
	t.Logf("%d kills, %d receipts, %d of them before the last kill", kills, total, last)
}

// TestVerifyProofCommand: the command needs nothing but the file.
func TestVerifyProofCommand(t *testing.T) {
	t.Parallel()
	var stderr bytes.Buffer
	path := filepath.Join(t.TempDir(), "x.json")
	if err := os.WriteFile(path, []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		args []string
		code int
		says string
	}{
		{[]string{"verify-proof"}, 2, "name one file"},
		{[]string{"verify-proof", "a", "b"}, 2, "name one file"},
		{[]string{"verify-proof", path}, 1, "receipt_invalid"},
		{[]string{"verify-proof", path + ".not"}, 1, "not_found"},
		{[]string{"verify-proof", "../engine/protocol/testdata/golden/lease-signed.txt"}, 1, "receipt_invalid"},
	} {
		stderr.Reset()
		if code := run(t.Context(), c.args, io.Discard, &stderr); code != c.code || !strings.Contains(stderr.String(), c.says) {
			t.Errorf("%v: %d %s", c.args, code, stderr.String())
		}
	}
}
