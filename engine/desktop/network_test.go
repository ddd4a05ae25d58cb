package desktop_test

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"neuron/engine/cli/apiclient"
	"neuron/engine/desktop"
	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
)

// shares starts an engine that holds what the tracker wants and is ready.
func (n *network) shares() *running {
	n.t.Helper()
	r := begin(n.t, desktop.Options{Tracker: n.url, UnloadAfter: 2 * time.Second})
	r.change(n.t, func(s *policy.Settings) { s.SetUp, s.Share, s.Limits.KeepFree, s.Limits.Threads = true, true, 1, 1 })
	s := r.wants(n.t, "")
	if s.Policy.State != protocol.SharingOn || len(s.Shards) != 1 || s.Shards[0].State != protocol.ShardReady {
		n.t.Fatalf("%+v", s)
	}
	return r
}

// answering is a chat under way.
type answering struct {
	done   chan struct{}
	answer *apiclient.Answer // valid after done
	err    error             // the same
}

// ask starts a chat and returns when the first text has come.
func ask(t testing.TB, c *apiclient.Client, q apiclient.ChatRequest) *answering {
	t.Helper()
	a := &answering{done: make(chan struct{})}
	first := make(chan struct{})
	var once sync.Once
	go func() {
		defer close(a.done)
		a.answer, a.err = c.Chat(t.Context(), q, func(string) { once.Do(func() { close(first) }) })
	}()
	t.Cleanup(func() { <-a.done })
	select {
	case <-first:
	case <-a.done:
		t.Fatalf("the answer ended before its first text: %v", a.err)
	case <-time.After(patience):
		t.Fatal("no text")
	}
	return a
}

// TestShareAndChat: a new user names the network and turns sharing on; the
// engine fetches what the tracker wants, serves it, and its own chat is answered
// by it. What it did is counted and survives a restart.
func TestShareAndChat(t *testing.T) {
	n := newNetwork(t)
	n.tracker()
	n.seed()
	r := n.shares()
	ctx := t.Context()

	var events []localapi.Event
	var mu sync.Mutex
	listening, enough := context.WithCancel(ctx)
	var listener sync.WaitGroup
	listener.Go(func() {
		if err := r.Events(listening, func(e localapi.Event) error {
			mu.Lock()
			defer mu.Unlock()
			events = append(events, e)
			return nil
		}); err != nil {
			t.Errorf("events: %v", err)
		}
	})
	defer listener.Wait()
	defer enough()

	a, err := r.chat(t).Chat(ctx, question("What is Neuron?", 100), nil)
	must(t, err)
	if a.Text == "" || len(a.Telemetry.Route) != 1 || a.Telemetry.Route[0].Node != r.Node() {
		t.Errorf("%q over %+v", a.Text, a.Telemetry.Route)
	}
	s := r.status(t)
	tokens := s.Work.TokensToday
	if c := a.Telemetry.Route[0].Counters; tokens < c.PrefillRows+c.DecodeRows-c.DroppedRows || s.Work.TokensPerSecond <= 0 || s.Work.BytesToday <= s.Transfers[0].Bytes {
		t.Errorf("%+v after %+v and %d bytes fetched", s.Work, c, s.Transfers[0].Bytes)
	}
	eventually(t, "the day's credit", func() bool {
		mu.Lock()
		defer mu.Unlock()
		return len(events) > 0 && events[len(events)-1].Status.Work.CreditKnown
	})
	net, err := r.Network(ctx)
	must(t, err)
	if net.Nodes != 2 || len(net.Models) != 1 || net.Models[0].Bytes == 0 || net.Models[0].Local == nil || !net.Models[0].Info.Routable || !net.Tracker.Connected {
		t.Errorf("%+v", net)
	}
	if plans, err := r.Plans(ctx); err != nil || len(plans) != 1 {
		t.Errorf("%+v, %v", plans, err)
	}
	enough()
	listener.Wait()

	r.stop()
	again := begin(t, desktop.Options{Data: r.o.Data})
	if got := again.status(t); got.Work.TokensToday < tokens || !got.Sharing {
		t.Errorf("after a restart: %+v", got.Work)
	}
	again.wants(t, "")
}

// TestPauseWhileASessionRuns: the running answer is finished, no other one is
// taken, the tracker knows why, and resuming brings everything back.
func TestPauseWhileASessionRuns(t *testing.T) {
	n := newNetwork(t)
	n.tracker()
	n.seed()
	r := n.shares()
	chat := r.chat(t)
	x := ask(t, chat, question("Tell me a story.", 1200))
	if s := r.status(t); s.Work.Sessions != 1 {
		t.Errorf("%+v", s.Work)
	}
	must(t, r.Pause(t.Context(), localapi.PauseOrder{UntilResumed: true}))
	s := r.wants(t, protocol.SharingUserPause)
	select {
	case <-x.done:
		t.Fatal("the answer was over before the pause: nothing was tried")
	default:
	}
	if s.Policy.State != protocol.SharingLeaving || s.Policy.Until != nil {
		t.Errorf("%+v", s.Policy)
	}
	eventually(t, "the tracker to know", func() bool { return n.why(r.Node()) == string(protocol.SharingUserPause) })
	if _, err := chat.Chat(t.Context(), question("What is Neuron?", 50), nil); code(err) != protocol.CodeNoRoute {
		t.Errorf("a paused computer was used: %v", err)
	}
	<-x.done
	if x.err != nil || x.answer.Telemetry.Tokens != 1200 {
		t.Errorf("the running answer was not finished: %v", x.err)
	}
	eventually(t, "the pause", func() bool { return r.status(t).Policy.State == protocol.SharingPaused })
	eventually(t, "the memory to be freed in a long pause", func() bool { return len(r.status(t).StagePIDs) == 0 })
	must(t, r.Resume(t.Context()))
	r.wants(t, "")
	eventually(t, "the tracker to know", func() bool { return n.why(r.Node()) == "" })
	if _, err := chat.Chat(t.Context(), question("What is Neuron?", 50), nil); err != nil {
		t.Error(err)
	}
}

// TestStopWhileASessionRuns: asked to stop, the engine finishes the answer that
// it works on, says what it does meanwhile, and takes no other.
func TestStopWhileASessionRuns(t *testing.T) {
	n := newNetwork(t)
	n.tracker()
	n.seed()
	r := n.shares()
	other := begin(t, desktop.Options{Tracker: n.url}) // a person who only chats
	chat := other.chat(t)
	x := ask(t, chat, question("Tell me a story.", 1200))
	must(t, r.Shutdown(t.Context()))
	s := r.wants(t, protocol.SharingStopping)
	if s.Policy.State != protocol.SharingLeaving {
		t.Errorf("%+v", s.Policy)
	}
	<-x.done
	if x.err != nil || x.answer.Telemetry.Tokens != 1200 {
		t.Errorf("the running answer was not finished: %v", x.err)
	}
	eventually(t, "the end", func() bool {
		_, err := localapi.Dial(r.o.Data)
		return err != nil
	})
	r.stop()
}

// why is what the tracker tells of a node that takes no sessions.
func (n *network) why(id protocol.NodeID) string {
	n.t.Helper()
	var list struct {
		Nodes []struct {
			Node protocol.NodeID `json:"node"`
			Why  string          `json:"why"`
		} `json:"nodes"`
	}
	getJSON(n.t, n.url+"v1/nodes", &list)
	for _, x := range list.Nodes {
		if x.Node == id {
			return x.Why
		}
	}
	return "gone"
}

// TestSharingOffFreesTheMemory: turned off, the stage is gone and the engine is
// small; turned on, it is there again, without being fetched again. When other
// programs need the memory, what runs is ended in its time.
func TestSharingOffFreesTheMemory(t *testing.T) {
	n := newNetwork(t)
	n.tracker()
	n.seed()
	r := n.shares()
	must(t, r.Share(t.Context(), false))
	r.wants(t, protocol.SharingUserOff)
	eventually(t, "the stage to be gone", func() bool { return len(r.status(t).StagePIDs) == 0 })
	s := r.status(t)
	if s.Policy.State != protocol.SharingOff || s.Sharing || len(s.Shards) != 1 || s.Shards[0].State != protocol.ShardDraining {
		t.Errorf("%+v, %+v", s.Policy, s.Shards)
	}
	received := s.Transfers[0].Received
	must(t, r.Share(t.Context(), true))
	r.wants(t, "")
	if s = r.status(t); s.Transfers[0].Received != received {
		t.Errorf("%d bytes were fetched again", s.Transfers[0].Received-received)
	}
	x := ask(t, r.chat(t), question("Tell me a story.", 1900))
	eventually(t, "the computer to be kept awake", r.sys.isAwake)
	r.sys.set(func(s *policy.System) { s.Pressure = policy.Tell(1.0) })
	r.wants(t, protocol.SharingMemory)
	<-x.done
	eventually(t, "the stage to be gone", func() bool { return len(r.status(t).StagePIDs) == 0 })
	eventually(t, "the computer to be let sleep", func() bool { return !r.sys.isAwake() })
	if x.err != nil && code(x.err) != protocol.CodeHostBusy {
		t.Errorf("the answer ended with %v", x.err)
	}
}

// TestTrackerAwayAndBack: it is told while it lasts, the settings hold, and
// everything goes on by itself.
func TestTrackerAwayAndBack(t *testing.T) {
	n := newNetwork(t)
	n.tracker()
	n.seed()
	r := n.shares()
	n.end()
	s := r.wants(t, protocol.SharingNoTracker)
	if s.Policy.State != protocol.SharingPaused || s.Tracker.Connected {
		t.Errorf("%+v, %+v", s.Policy, s.Tracker)
	}
	if len(s.Shards) != 1 || s.Shards[0].State != protocol.ShardReady {
		t.Errorf("the layers were given up: %+v", s.Shards)
	}
	if _, err := r.Network(t.Context()); code(err) != protocol.CodeUnavailable {
		t.Errorf("network: %v", err)
	}
	n.tracker()
	r.wants(t, "")
	eventually(t, "an answer", func() bool {
		_, err := r.chat(t).Chat(t.Context(), question("What is Neuron?", 20), nil)
		return err == nil
	})
}

// TestEmptyCatalog: there is a network with nothing to do; that is told, and
// taken up by itself when there is.
func TestEmptyCatalog(t *testing.T) {
	n := newNetwork(t)
	n.tracker()
	r := begin(t, desktop.Options{Tracker: n.url})
	r.change(t, func(s *policy.Settings) { s.SetUp, s.Share, s.Limits.KeepFree, s.Limits.Threads = true, true, 1, 1 })
	s := r.wants(t, protocol.SharingNoModel)
	if s.Policy.State != protocol.SharingPaused || s.Policy.Detail == "" || len(s.Health) == 0 {
		t.Errorf("%+v, %+v", s.Policy, s.Health)
	}
	n.seed()
	r.wants(t, "")
}

// TestReportHasNoSecrets plants secrets where an engine may meet them.
func TestReportHasNoSecrets(t *testing.T) {
	n := newNetwork(t)
	n.tracker()
	n.seed()
	home := t.TempDir()
	r := begin(t, desktop.Options{Data: filepath.Join(home, "the users name", "data"), Tracker: n.url})
	r.change(t, func(s *policy.Settings) {
		s.SetUp, s.Share, s.Limits.KeepFree, s.Limits.Threads = true, true, 1, 1
		s.Proxy, s.Rules.Apps = "http://planteduser:plantedpassword@127.0.0.1:9", []string{"plantedgame"}
	})
	r.wants(t, "")
	const prompt = "The planted prompt says xyzzy"
	chat := r.chat(t)
	a, err := chat.Chat(t.Context(), question(prompt, 20), nil)
	must(t, err)
	if err := r.Hold(t.Context(), localapi.Hold{Model: filepath.Join(home, "planted model.gguf")}); err == nil {
		t.Error("a file that is not there is held")
	}
	log := r.o.Log("test")
	log.Warn("Opened", "path", filepath.Join(home, "planted-folder", "file.txt"), "error", "open "+filepath.Join(home, "planted dir", "x")+": no")
	log.Warn("Planted", "key", "nk-plantedkey", "text", "Authorization: Bearer plantedtoken")
	text, err := r.Report(t.Context())
	must(t, err)
	access, err := r.Access(t.Context())
	must(t, err)
	owner, err := os.ReadFile(filepath.Join(r.o.Data, "owner.key"))
	must(t, err)
	for name, secret := range map[string]string{
		"prompt": prompt, "part of the prompt": "xyzzy", "answer": a.Text, "API key": access.Key, "token": r.Engine.Address().Token,
		"folder": home, "folder's name": "the users name", "proxy": "planted", "owner key": strings.TrimSpace(string(owner)),
	} {
		if len(secret) > 2 && strings.Contains(text, secret) {
			t.Errorf("the report has the %s %q", name, secret)
		}
	}
	for _, want := range []string{"# Computer", "# Health", "# Settings", "share true", "proxy set true", "# Log", "Sharing"} {
		if !strings.Contains(text, want) {
			t.Errorf("the report has no %q", want)
		}
	}
	if t.Failed() {
		t.Log(text)
	}
}
