package program_test

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"neuron/engine/localapi"
	"neuron/engine/manifest"
	"neuron/engine/program"
	"neuron/engine/protocol"
	"neuron/engine/swarm"
	"neuron/engine/swarm/swarmtest"
	"neuron/internal/leaktest"
	"neuron/llama/cut"
)

// catalogNetwork is a tracker whose catalog has the guide, and a node that
// gives the file away and holds nothing.
func catalogNetwork(t *testing.T) (*network, *manifest.Manifest) {
	t.Helper()
	needLibrary(t)
	leaktest.Check(t)
	n := &network{t: t, dir: t.TempDir(), trackerAddr: "127.0.0.1:0", log: testLog(t)}
	n.startTracker()
	m := publishGuide(t, filepath.Join(n.dir, "tracker"))
	eventually(t, "the catalog", func() bool {
		var c protocol.Catalog
		return getJSON(t.Context(), n.url+"v1/catalog", &c) == nil && len(c.Models) == 1
	})
	n.seeder = n.join("seeder", program.NodeOptions{SeedOnly: true, Adopt: []string{guide}})
	return n, m
}

// join starts a node of the network with options of its own.
func (n *network) join(name string, o program.NodeOptions) *node {
	n.t.Helper()
	o.Data, o.Tracker, o.Log, o.Threads = filepath.Join(n.dir, name), n.url, n.log, 1
	x, err := program.NewNode(n.t.Context(), o)
	if err != nil {
		n.t.Fatal(err)
	}
	m := &node{Node: x, part: run(name, x.Run), o: o}
	n.t.Cleanup(func() { m.end(n.t) })
	return m
}

// status asks the node's local API.
func (x *node) status(t testing.TB) *localapi.Status {
	t.Helper()
	c, err := localapi.Dial(x.o.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	s, err := c.Status(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// order sends one by the node's local API.
func (x *node) order(t testing.TB, f func(context.Context, *localapi.Client) error) error {
	t.Helper()
	c, err := localapi.Dial(x.o.Data)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	return f(t.Context(), c)
}

// serves waits until the node's stage runs layers, and returns its status.
func (x *node) serves(t testing.TB, layers string) *localapi.Status {
	t.Helper()
	var s *localapi.Status
	eventually(t, x.name+" to serve "+layers, func() bool {
		s = x.status(t)
		return len(s.Shards) == 1 && s.Shards[0].State == protocol.ShardReady && s.Shards[0].Range.String() == layers
	})
	return s
}

func (x *node) folder(t testing.TB, m *manifest.Manifest) string {
	t.Helper()
	return filepath.Join(x.o.Data, "shards", m.Model.Short())
}

// TestNodesFetchWhatTheyServe: nodes and a gateway that have no file answer
// with layers and a tokenizer that they fetched.
func TestNodesFetchWhatTheyServe(t *testing.T) {
	n, m := catalogNetwork(t)
	a := n.join("a", program.NodeOptions{Model: guideName, Layers: "0-4"})
	b := n.join("b", program.NodeOptions{Model: guideName, Layers: "4-8"})
	n.nodes = []*node{a, b}
	n.startGateway()
	n.waitRoutable()
	if x := n.answer(ask("What is Neuron?")); x.Text == "" || len(x.Telemetry.Route) != 2 {
		t.Errorf("answer %q over %d hops", x.Text, len(x.Telemetry.Route))
	}
	for _, x := range n.nodes {
		s := x.status(t)
		r := s.Shards[0].Range
		need, err := m.Need(r)
		if err != nil {
			t.Fatal(err)
		}
		if len(s.Transfers) != 1 || s.Transfers[0].Bytes != need.WireBytes || s.Transfers[0].Done != need.WireBytes {
			t.Errorf("layers %s: transfers %+v, want %d bytes", r, s.Transfers, need.WireBytes)
		}
		for _, p := range s.Transfers[0].Parts {
			if !p.Served || p.Done != p.Bytes || strings.HasSuffix(p.Name, ".gguf") && !p.Verified {
				t.Errorf("layers %s: part %+v", r, p)
			}
		}
	}
}

// TestMovingFetchesOnlyWhatIsMissing moves a running node by one layer, with
// the old range serving until the new one is there.
func TestMovingFetchesOnlyWhatIsMissing(t *testing.T) {
	n, m := catalogNetwork(t)
	x := n.join("mover", program.NodeOptions{Model: guideName, Layers: "1-5"})
	before := x.serves(t, "1-5").Transfers[0].Received
	if err := x.order(t, func(ctx context.Context, c *localapi.Client) error {
		return c.Hold(ctx, localapi.Hold{Model: guideName, Layers: "2-6"})
	}); err != nil {
		t.Fatal(err)
	}
	s := x.serves(t, "2-6")
	layer := m.LayerBytes()[5]
	if got := s.Transfers[0].Received - before; got < layer || got > layer+layer/10+3*m.Torrent.PieceLength {
		t.Errorf("moving by a layer of %d bytes received %d", layer, got)
	}
	// Layer 1 is kept: nothing else needs the room.
	if _, err := os.Stat(filepath.Join(x.folder(t, m), "blk.0001.gguf")); err != nil {
		t.Error(err)
	}
	err := x.order(t, func(ctx context.Context, c *localapi.Client) error {
		return c.Hold(ctx, localapi.Hold{Model: guideName, Layers: "6-60"})
	})
	if code(err) != protocol.CodeRangeInvalid {
		t.Errorf("a range that does not exist: %v", err)
	}
	x.serves(t, "2-6")
}

// flip changes one byte in the middle of a layer's data.
func flip(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var b [1]byte
	at := int64(cut.HeaderRegion + 100_000)
	if _, err := f.ReadAt(b[:], at); err != nil {
		t.Fatal(err)
	}
	b[0] ^= 1
	if _, err := f.WriteAt(b[:], at); err != nil {
		t.Fatal(err)
	}
}

// kill ends a process at once, on every system.
func kill(t *testing.T, pid int) {
	t.Helper()
	p, err := os.FindProcess(pid)
	if err == nil {
		err = p.Kill()
	}
	if err != nil {
		t.Fatal(err)
	}
}

// TestDamagedLayerIsFetchedAgain damages a layer while a stage runs it: the
// next load refuses it and the node repairs it from the swarm.
func TestDamagedLayerIsFetchedAgain(t *testing.T) {
	n, m := catalogNetwork(t)
	x := n.join("damaged", program.NodeOptions{Model: guideName, Layers: "2-4"})
	before := x.serves(t, "2-4")
	file := filepath.Join(x.folder(t, m), "blk.0003.gguf")
	good := tensorBytes(t, file)
	flip(t, file)
	kill(t, before.StagePIDs[0])
	eventually(t, "the layer to be repaired", func() bool {
		s := x.status(t)
		return len(s.Shards) == 1 && s.Shards[0].State == protocol.ShardReady && len(s.StagePIDs) == 1 && s.StagePIDs[0] != before.StagePIDs[0]
	})
	if got := tensorBytes(t, file); string(got) != string(good) {
		t.Error("the layer's bytes are not what they were")
	}
	if got := x.status(t).Transfers[0].Received; got <= before.Transfers[0].Received {
		t.Error("nothing was fetched again")
	}
}

func tensorBytes(t *testing.T, path string) []byte {
	t.Helper()
	raw, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return raw[cut.HeaderRegion:]
}

// TestDamagedCutIsMadeAgain is the same for layers that were cut from a file of
// this computer.
func TestDamagedCutIsMadeAgain(t *testing.T) {
	needLibrary(t)
	leaktest.Check(t)
	data := t.TempDir()
	o := program.NodeOptions{Data: data, Model: guide, Layers: "2-4", Threads: 1, Log: testLog(t)}
	start := func() *node {
		x, err := program.NewNode(t.Context(), o)
		if err != nil {
			t.Fatal(err)
		}
		return &node{Node: x, part: run("node", x.Run), o: o}
	}
	x := start()
	x.serves(t, "2-4")
	x.end(t)
	files, err := filepath.Glob(filepath.Join(data, "shards", "*", "blk.0002.gguf"))
	if err != nil || len(files) != 1 {
		t.Fatalf("layer files %v: %v", files, err)
	}
	good := tensorBytes(t, files[0])
	flip(t, files[0])
	x = start()
	defer x.end(t)
	x.serves(t, "2-4")
	if got := tensorBytes(t, files[0]); string(got) != string(good) {
		t.Error("the layer's bytes are not what they were")
	}
}

// TestTrackerChooses: nodes that are told nothing get layers that make a route
// together.
func TestTrackerChooses(t *testing.T) {
	n, m := catalogNetwork(t)
	whole := m.WeightBytes(protocol.Range{Last: m.Layers})
	// Room for about two thirds of the model each, with conversations.
	o := program.NodeOptions{MemoryLimit: 96<<20 + whole, KVBudget: 32 << 20}
	n.nodes = []*node{n.join("first", o), n.join("second", o)}
	n.startGateway()
	n.waitRoutable()
	n.answer(ask("What is Neuron?"))
	err := n.nodes[0].order(t, func(ctx context.Context, c *localapi.Client) error {
		plans, err := c.Plans(ctx)
		if err == nil && (len(plans) != 1 || plans[0].Name != guideName || plans[0].Text == "") {
			err = errors.New("no plan for the guide")
		}
		return err
	})
	if err != nil {
		t.Error(err)
	}
}

// TestTooLargeForThisComputer: the node says why it holds nothing.
func TestTooLargeForThisComputer(t *testing.T) {
	n, _ := catalogNetwork(t)
	x := n.join("small", program.NodeOptions{Model: guideName, Layers: "all", MemoryLimit: 1 << 20})
	eventually(t, "the reason", func() bool {
		for _, h := range x.status(t).Health {
			if h.Code == protocol.CodeDoesNotFit && h.Remedy != "" {
				return true
			}
		}
		return false
	})
}

// TestSwarmDiesAlone kills the process that transfers: the stage goes on, and
// the process comes back.
func TestSwarmDiesAlone(t *testing.T) {
	n, _ := catalogNetwork(t)
	x := n.join("node", program.NodeOptions{Model: guideName, Layers: "3-5"})
	before := x.serves(t, "3-5")
	if before.SwarmPID == 0 {
		t.Fatal("no process transfers")
	}
	kill(t, before.SwarmPID)
	eventually(t, "the process to come back", func() bool {
		s := x.status(t)
		return s.SwarmPID != 0 && s.SwarmPID != before.SwarmPID && len(s.Transfers) == 1 && s.Transfers[0].State == "complete"
	})
	if s := x.serves(t, "3-5"); s.StagePIDs[0] != before.StagePIDs[0] {
		t.Error("the stage was restarted")
	}
}

// TestPausedSharing: a node whose owner does not share fetches and gives
// nothing, and takes no sessions.
func TestPausedSharing(t *testing.T) {
	n, _ := catalogNetwork(t)
	x := n.join("node", program.NodeOptions{Model: guideName, Layers: "all"})
	x.serves(t, "0-8")
	share := func(on bool) {
		t.Helper()
		if err := x.order(t, func(ctx context.Context, c *localapi.Client) error { return c.Share(ctx, on) }); err != nil {
			t.Fatal(err)
		}
	}
	eventually(t, "the route", n.routable)
	share(false)
	eventually(t, "the pause", func() bool {
		s := x.status(t)
		return !s.Sharing && len(s.Transfers) == 1 && s.Transfers[0].State == "paused" && !n.routable()
	})
	share(true)
	eventually(t, "the end of the pause", func() bool {
		s := x.status(t)
		return s.Sharing && s.Transfers[0].State == "complete" && n.routable()
	})
}

// TestHostilePeerChangesNoToken: while a stage decodes, its node fetches one
// more layer, whose first piece is shared with the last layer that runs, from a
// peer that sends wrong bytes. The answer is the one that was given before.
func TestHostilePeerChangesNoToken(t *testing.T) {
	n, m := catalogNetwork(t)
	a := n.join("a", program.NodeOptions{Model: guideName, Layers: "0-4"})
	// b has what a will lack, and gives next to nothing of it.
	b := n.join("b", program.NodeOptions{Model: guideName, Layers: "4-8", Swarm: swarm.Limits{UpBytes: 1}})
	n.nodes = []*node{a, b}
	n.startGateway()
	n.waitRoutable()
	request := long(600)
	want := n.answer(request).Text
	file, err := os.ReadFile(guide)
	if err != nil {
		t.Fatal(err)
	}
	n.seeder.end(t)
	x := n.begin(request)
	if err := a.order(t, func(ctx context.Context, c *localapi.Client) error {
		return c.Hold(ctx, localapi.Hold{Model: guideName, Layers: "0-5"})
	}); err != nil {
		t.Fatal(err)
	}
	addr, err := netip.ParseAddrPort(a.status(t).Swarm)
	if err != nil {
		t.Fatal(err)
	}
	w, err := swarmtest.DialWire(t, "127.0.0.9", addr, m.Torrent.InfoHash, [8]byte{})
	if err != nil {
		t.Fatal(err)
	}
	defer w.Close()
	if err := w.ServeWrong(m.Torrent.Pieces, func(piece, begin, size int) []byte {
		wrong := slices.Clone(file[int64(piece)*m.Torrent.PieceLength+int64(begin):][:size])
		for i := range wrong {
			wrong[i] ^= 0x55
		}
		return wrong
	}); err == nil {
		t.Error("the liar was not sent away")
	}
	select {
	case <-x.done:
		t.Error("the answer ended before the liar was sent away: the test shows nothing")
	default:
	}
	<-x.done
	if x.err != nil || x.answer.Text != want {
		t.Errorf("the answer has changed: %v", x.err)
	}
	if s := a.status(t).Transfers[0]; s.Dropped == 0 || s.Wasted == 0 {
		t.Errorf("the liar was not noticed: %+v", s)
	}
	b.end(t) // what was asked of it would wait for ever
	n.join("honest", program.NodeOptions{SeedOnly: true, Adopt: []string{guide}})
	a.serves(t, "0-5")
}
