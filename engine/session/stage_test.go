package session_test

import (
	"context"
	"crypto/ed25519"
	"fmt"
	"log/slog"
	"math"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"neuron/engine/artifact"
	"neuron/engine/gateway"
	"neuron/engine/protocol"
	"neuron/engine/seam"
	"neuron/engine/seam/seamclient"
	"neuron/engine/session"
	"neuron/engine/session/sessiontest"
	"neuron/engine/stage"
	"neuron/engine/stage/wire"
	"neuron/engine/stage/worker"
	"neuron/internal/identity"
	"neuron/llama"
)

// These tests drive real stages of the guide model, each in a process of its
// own, behind real seams.

// TestMain makes the test binary its own stage program.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && os.Args[1] == "stage" {
		log := slog.New(slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
		if err := worker.Run(context.Background(), os.Stdin, os.Stdout, log); err != nil {
			log.Error("Stage failed", "error", err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

const stagePatience = time.Minute

// stageWorld is a driver and stages of the guide model.
type stageWorld struct {
	t      *testing.T
	m      *session.Manager
	router *fixedRouter
	stages []*stage.Process
}

// fixedRouter leases the same hops to everybody.
type fixedRouter struct {
	session.Router // a scripted network for all but Route
	key            ed25519.PrivateKey
	driver         protocol.NodeID
	capab          protocol.Capability
	hops           []protocol.Hop
}

func (r *fixedRouter) Route(_ context.Context, q protocol.RouteRequest) (*protocol.RouteReply, error) {
	s, err := protocol.SignLease(&protocol.Lease{
		Version: protocol.Version, Session: q.Session, Model: r.capab.Model, Layers: r.capab.Layers, Driver: r.driver, Hops: r.hops,
		Context: q.Context, DType: protocol.DTypeF32, EngineBuild: r.capab.Build, Policy: q.Policy, Issued: time.Now(), Expires: time.Now().Add(time.Hour),
	}, r.key)
	return &protocol.RouteReply{Lease: s}, err
}

func (r *fixedRouter) TrackerKey() ed25519.PublicKey { return r.key.Public().(ed25519.PublicKey) }

// startStage runs layers of the guide model until the test ends.
func startStage(t *testing.T, src *artifact.Source, use protocol.Range) *stage.Process {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), stagePatience)
	defer cancel()
	shard, err := src.Shard(ctx, use, t.TempDir(), nil)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := llama.NativeDir()
	if err == nil {
		dir, err = filepath.Abs(dir)
	}
	if err != nil {
		t.Fatal(err)
	}
	paths, release, err := shard.Prepare(ctx)
	if err != nil {
		t.Fatal(err)
	}
	defer release()
	c := shard.Capability(64)
	plan, err := shard.Plan()
	if err != nil {
		t.Fatal(err)
	}
	spawn := stage.Spawn{Exe: os.Args[0], Args: []string{"stage"}, Logger: slog.New(slog.DiscardHandler)}
	// The race detector lets a process linger at its end; a stage gets to see few
	// variables, so env sets this one.
	if env, err := exec.LookPath("env"); err == nil {
		spawn.Exe, spawn.Args = env, []string{"GORACE=atexit_sleep_ms=0", os.Args[0], "stage"}
	}
	p, err := stage.Start(ctx, spawn, wire.Load{
		NativeDir: dir, Paths: paths, First: use.First, Last: use.Last, Layers: c.Layers, Plan: plan, Memory: c.Memory,
		Threads: 1, ChunkRows: 64, MaxContext: 1024, MaxSessions: 8, KVBytesPerCell: c.KVBytesPerCell, KVBudget: 16 * c.KVBytes(512),
	}, c)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.Stop)
	return p
}

func newStageWorld(t *testing.T, hops int) *stageWorld {
	t.Helper()
	const layers = 8
	var cuts []int
	for i := 1; i < hops; i++ {
		cuts = append(cuts, i*layers/hops)
	}
	return newModelWorld(t, filepath.Join("..", "..", "assets", "model", "guide-q8_0.gguf"), cuts)
}

// newModelWorld is a route over a model that is cut there.
func newModelWorld(t *testing.T, path string, cuts []int) *stageWorld {
	t.Helper()
	src, err := artifact.Inspect(t.Context(), path, "", slog.New(slog.DiscardHandler))
	if err != nil {
		t.Fatal(err)
	}
	w := &stageWorld{t: t}
	_, key, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	me, err := identity.New()
	if err != nil {
		t.Fatal(err)
	}
	scripted := sessiontest.New(sessiontest.Script{})
	w.router = &fixedRouter{Router: scripted, key: key, driver: me.ID()}
	ends := append(slices.Clone(cuts), src.Model.Layers)
	for i, first := range append([]int{0}, cuts...) {
		use := protocol.Range{First: first, Last: ends[i]}
		p := startStage(t, src, use)
		id, err := identity.New()
		if err != nil {
			t.Fatal(err)
		}
		srv := seam.NewServer(seam.ServerOptions{
			Logger: slog.New(slog.DiscardHandler), Identity: id, Stage: func() seam.Stage { return p }, TrackerKey: w.router.TrackerKey,
		})
		ln, err := net.Listen("tcp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		var serving sync.WaitGroup
		serving.Go(func() { _ = srv.Serve(ln) }) // ends with Close
		t.Cleanup(func() {
			ctx, cancel := context.WithTimeout(context.Background(), stagePatience)
			defer cancel()
			if err := srv.Close(ctx); err != nil {
				t.Errorf("close hop %d: %v", i, err)
			}
			serving.Wait()
		})
		w.router.capab = p.Capability()
		w.router.hops = append(w.router.hops, protocol.Hop{Node: id.ID(), Addr: ln.Addr().String(), Use: use, StepMicros: p.Loaded().StepMicros})
		w.stages = append(w.stages, p)
	}
	client := seamclient.New(me)
	t.Cleanup(client.Close)
	o := session.Options{
		Node: me.ID(), Hops: session.SeamHops{Client: client}, Router: w.router, Texts: scripted, Frozen: stagePatience,
	}
	session.AlwaysDraft(&o) // what a busy machine makes of it does not matter here
	w.m, err = session.New(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		ctx, cancel := context.WithTimeout(context.Background(), stagePatience)
		defer cancel()
		if err := w.m.Close(ctx); err != nil {
			t.Error(err)
		}
	})
	return w
}

// result is a finished answer.
type result struct {
	tokens []protocol.Token
	t      protocol.Telemetry
}

// generate runs a request to its end.
func (w *stageWorld) generate(r gateway.GenerateRequest) (*result, error) {
	g, err := w.m.Generate(context.Background(), r)
	if err != nil {
		return nil, err
	}
	var out result
	for t := range g.Tokens() {
		out.tokens = append(out.tokens, t)
	}
	if _, perr := g.Result(); perr != nil {
		return nil, perr
	}
	out.t, _ = w.m.Telemetry(g.Session())
	return &out, nil
}

func (w *stageWorld) must(r gateway.GenerateRequest) *result {
	w.t.Helper()
	out, err := w.generate(r)
	if err != nil {
		w.t.Fatal(err)
	}
	return out
}

// empty wants the memory of all stages back.
func (w *stageWorld) empty() {
	w.t.Helper()
	limit := time.Now().Add(stagePatience)
	for i, p := range w.stages {
		for {
			s := p.Stats()
			if s.Sessions == 0 && s.FreeKVBytes == p.KVBudget() && s.Queue == 0 {
				break
			}
			if time.Now().After(limit) {
				w.t.Fatalf("hop %d holds %d sessions, %d of %d bytes are free", i, s.Sessions, s.FreeKVBytes, p.KVBudget())
			}
			time.Sleep(5 * time.Millisecond) // polling, bounded; stages tell once a second
		}
	}
}

// greedy asks for the most likely tokens, and the next best one of each.
func greedy(prompt []int32, tokens int) gateway.GenerateRequest {
	return gateway.GenerateRequest{
		Request: "r", Model: sessiontest.ModelName, Prompt: prompt, MaxTokens: tokens, Policy: protocol.PolicyPublic,
		Sampler: protocol.Sampler{IgnoreEOG: true, Logprobs: true, Top: 2}, NoPrefix: true,
	}
}

// same holds DESIGN.md's "Exactness": got has the reference's token wherever the
// gap between its two best logits exceeds twice the largest difference seen. It
// returns both figures: the gap at the first other token, +Inf for none.
func same(t *testing.T, what string, ref, got []protocol.Token) (gap, diff float64) {
	t.Helper()
	gap = math.Inf(1)
	n := min(len(ref), len(got))
	for i := range n {
		if len(ref[i].Top) != 2 || len(got[i].Top) != 2 {
			t.Fatalf("%s: tokens without two alternatives", what)
		}
		for _, a := range ref[i].Top {
			for _, b := range got[i].Top {
				if a.ID == b.ID {
					diff = max(diff, math.Abs(float64(a.Logprob)-float64(b.Logprob)))
				}
			}
		}
		if ref[i].ID != got[i].ID {
			n = i + 1
			gap = float64(ref[i].Top[0].Logprob) - float64(ref[i].Top[1].Logprob)
			break
		}
	}
	if gap > 2*diff && !math.IsInf(gap, 1) {
		t.Errorf("%s: another token at %d with a gap of %g, largest difference %g", what, n-1, gap, diff)
	}
	if math.IsInf(gap, 1) && len(ref) != len(got) {
		t.Errorf("%s: %d tokens, want %d", what, len(got), len(ref))
	}
	t.Logf("%s: %d tokens equal of %d, largest difference of two logits %.3g, gap at the first other one %.3g", what, n, len(ref), diff, gap)
	return gap, diff
}

// pieces are prompts: a block that repeats, blocks with changes, and a text
// without repetition. The model goes round in circles after some of them.
func stagePrompts() map[string][]int32 {
	x := uint32(12345)
	random := func() int32 {
		x = x*1664525 + 1013904223 // a common linear congruential generator (Numerical Recipes)
		return int32(x>>16)%500 + 3
	}
	var block, novel, changed []int32
	for range 24 {
		block = append(block, random())
	}
	for range 150 {
		novel = append(novel, random())
	}
	for range 6 {
		b := slices.Clone(block)
		b[random()%24] = random()
		changed = append(changed, b...)
	}
	return map[string][]int32{"repeated": slices.Repeat(block, 6), "changed": changed, "novel": novel}
}

// Greedy answers with guesses are those without, over one, two and three hops;
// wrong guesses are taken back on all of them alike.
func TestGuessesOfRealStages(t *testing.T) {
	const tokens = 160
	for hops := 1; hops <= 3; hops++ {
		t.Run(fmt.Sprintf("%d hops", hops), func(t *testing.T) {
			w := newStageWorld(t, hops)
			drafted, accepted, dropped := 0, 0, int64(0)
			for name, prompt := range stagePrompts() {
				r := greedy(prompt, tokens)
				got := w.must(r)
				r.NoDraft = true
				ref := w.must(r)
				same(t, name, ref.tokens, got.tokens)
				if ref.t.Drafted != 0 || len(got.tokens) != tokens || got.t.Tokens != tokens {
					t.Errorf("%s: %d tokens, %d guessed without being asked", name, len(got.tokens), ref.t.Drafted)
				}
				drafted, accepted = drafted+got.t.Drafted, accepted+got.t.Accepted
				for i, h := range got.t.Route {
					c, first := h.Counters, got.t.Route[0].Counters
					stand := c.DecodeRows - c.DroppedRows
					// The last token of a full answer is not executed; guesses that
					// the end refused are not taken back.
					if c.NextPos != c.PrefillRows+stand || stand < tokens-1 || stand > tokens-1+7 ||
						c.DecodeRows != first.DecodeRows || c.DroppedRows != first.DroppedRows || c.DecodeSteps != first.DecodeSteps {
						t.Errorf("%s: hop %d: %+v", name, i, c)
					}
					dropped += c.DroppedRows
				}
				t.Logf("%s: %d of %d guesses were right, %d passes instead of %d", name, got.t.Accepted, got.t.Drafted,
					got.t.Route[0].Counters.DecodeSteps, ref.t.Route[0].Counters.DecodeSteps)
			}
			if accepted == 0 || accepted == drafted || dropped == 0 {
				t.Errorf("%d of %d guesses were right, %d rows taken back: too few of one kind to show anything", accepted, drafted, dropped)
			}
			w.empty()
		})
	}
}

// The sampler sees only what stands: a grammar that allows one text gives that
// text, penalties and seeded draws what they give without guesses.
func TestGuessesUnderAnySampler(t *testing.T) {
	w := newStageWorld(t, 2)
	prompt := stagePrompts()["repeated"]
	for name, s := range map[string]protocol.Sampler{
		"grammar":   {Grammar: `root ::= ("to be or not to be, "){12} "end"`},
		"penalties": {IgnoreEOG: true, RepeatLastN: 64, RepeatPenalty: 1.05, FrequencyPenalty: 0.1},
		"draws":     {IgnoreEOG: true, Temperature: 0.2, Seed: 7, TopK: 40, TopP: 0.95},
	} {
		r := greedy(prompt, 120)
		s.Logprobs, s.Top = true, 2
		r.Sampler = s
		got := w.must(r)
		r.NoDraft = true
		ref := w.must(r)
		text := func(l []protocol.Token) (out string) {
			for _, t := range l {
				out += string(t.Piece)
			}
			return out
		}
		if text(got.tokens) != text(ref.tokens) {
			t.Errorf("%s: %q, without guesses %q", name, text(got.tokens), text(ref.tokens))
		}
		t.Logf("%s: %d tokens, %d of %d guesses were right", name, len(got.tokens), got.t.Accepted, got.t.Drafted)
		if name == "grammar" && got.t.Accepted == 0 {
			t.Error("nothing was guessed right in a text that repeats itself")
		}
	}
	w.empty()
}

// Sessions with guesses and without share a stage.
func TestGuessesBesideOthers(t *testing.T) {
	w := newStageWorld(t, 2)
	prompts := stagePrompts()
	names := []string{"repeated", "novel", "changed", "repeated"}
	const tokens = 100
	refs := map[string]*result{}
	for name, p := range prompts {
		r := greedy(p, tokens)
		r.NoDraft = true
		refs[name] = w.must(r)
	}
	var all sync.WaitGroup
	got := make([]*result, 2*len(names))
	errs := make([]error, len(got))
	for i := range got {
		all.Go(func() {
			r := greedy(prompts[names[i/2]], tokens)
			r.NoDraft = i%2 == 1
			got[i], errs[i] = w.generate(r)
		})
	}
	all.Wait()
	accepted := 0
	for i, g := range got {
		name := fmt.Sprintf("session %d, %s", i, names[i/2])
		if errs[i] != nil {
			t.Errorf("%s: %v", name, errs[i])
			continue
		}
		same(t, name, refs[names[i/2]].tokens, g.tokens)
		if i%2 == 1 && g.t.Drafted != 0 {
			t.Errorf("%s: %d guesses", name, g.t.Drafted)
		}
		accepted += g.t.Accepted
	}
	if accepted == 0 {
		t.Error("nobody guessed right")
	}
	w.empty()
}

// A client that leaves while a pass with guesses runs frees the memory of all
// hops.
func TestCancelOfRealGuesses(t *testing.T) {
	w := newStageWorld(t, 3)
	g, err := w.m.Generate(context.Background(), greedy(stagePrompts()["repeated"], 800))
	if err != nil {
		t.Fatal(err)
	}
	var began time.Time
	for range g.Tokens() {
		if tl, _ := w.m.Telemetry(g.Session()); tl.Accepted > 0 && began.IsZero() {
			began = time.Now()
			g.Cancel()
		}
	}
	if fin, perr := g.Result(); began.IsZero() || fin != protocol.FinishCancelled {
		t.Fatalf("%s, %v; guesses seen: %v", fin, perr, !began.IsZero())
	}
	w.empty()
	t.Logf("all memory free %s after the cancel", time.Since(began).Round(time.Millisecond))
}
