package registry

import (
	"net/netip"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"neuron/engine/protocol"
)

// TestManyClaimsDoNotHideAPublishedModel: what the manifest says is the truth,
// however many nodes say otherwise.
func TestManyClaimsDoNotHideAPublishedModel(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	r.SetCatalog([]Published{{Model: modA, Name: "guide", Architecture: "llama", Layers: 4, Context: 4096, Width: 64}, {Model: modB, Name: "other", Layers: 2, Width: 8}})
	for i := range 5 {
		r.Join(t0, node(i, 1))
	}
	good := shardReport(modA, 4, 0, 4)
	good.Capability.Name = "whatever.gguf"
	mustReport(t, r, t0, node(0, 1), report(good))
	for i := 1; i < 4; i++ {
		lie := shardReport(modA, 9, 0, 9)
		mustReport(t, r, t0, node(i, 1), report(lie))
	}
	wide := shardReport(modA, 4, 0, 4)
	wide.Capability.Width = 65
	mustReport(t, r, t0, node(4, 1), report(wide))
	c := r.Coverage(t0)
	if d := cmp.Diff(Coverage{Replicas: []int{1, 1, 1, 1}, Routable: true}, c[modA]); d != "" {
		t.Error(d)
	}
	if d := cmp.Diff(Coverage{Replicas: []int{0, 0}}, c[modB]); d != "" {
		t.Error(d)
	}
	if m := r.Models(t0); len(m) != 1 || m[0].Name != "guide" || m[0].Layers != 4 {
		t.Errorf("models %+v", m)
	}
	n, err := r.Index("guide")
	if err != nil || len(n.Shards(t0)) != 1 {
		t.Errorf("network %+v, %v", n, err)
	}
	n, err = r.Index("other")
	if err != nil || n.Model != modB || n.Connected(t0) {
		t.Errorf("a model that nobody holds: %+v, %v", n, err)
	}
}

func TestFetchingNodes(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	r.SetCatalog([]Published{{Model: modA, Name: "guide", Layers: 4, Width: 64}})
	for i, s := range []protocol.ShardState{protocol.ShardDownloading, protocol.ShardVerifying, protocol.ShardLoading, protocol.ShardReady, protocol.ShardDraining, protocol.ShardFailed} {
		r.Join(t0, node(i, 1))
		sh := shardReport(modA, 4, 0, 2)
		if sh.State = s; s == protocol.ShardDownloading {
			sh.Capability.Width, sh.Capability.MaxContext = 0, 0 // no stage has seen it
		}
		mustReport(t, r, t0, node(i, 1), report(sh))
	}
	if d := cmp.Diff(Coverage{Replicas: []int{1, 1, 0, 0}, Fetching: 3}, r.Coverage(t0)[modA]); d != "" {
		t.Error(d)
	}
	// Without a catalog what is being fetched does not outvote what is ready.
	r.SetCatalog(nil)
	if m := r.Models(t0); len(m) != 1 || !slices.Equal(m[0].Replicas, []int{1, 1, 0, 0}) {
		t.Errorf("models %+v", m)
	}
}

func TestSwarmAddresses(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]struct{ remote, reported, want string }{
		"port only":          {"203.0.113.1", ":7", "203.0.113.1:7"},
		"any":                {"203.0.113.1", "0.0.0.0:7", "203.0.113.1:7"},
		"any 6":              {"2001:db8::1", "[::]:7", "[2001:db8::1]:7"},
		"own":                {"::ffff:203.0.113.1", "203.0.113.1:7", "203.0.113.1:7"},
		"a stranger's":       {"203.0.113.1", "203.0.113.2:7", ""},
		"loopback from afar": {"203.0.113.1", "127.0.0.1:7", ""},
		"loopback":           {"127.0.0.1", "127.0.0.3:7", "127.0.0.3:7"},
		"afar from loopback": {"127.0.0.1", "203.0.113.1:7", ""},
		"a name":             {"203.0.113.1", "example.org:7", ""},
		"port 0":             {"203.0.113.1", ":0", ""},
		"none":               {"203.0.113.1", "", ""},
		"nonsense":           {"203.0.113.1", "x", ""},
		"zone":               {"fe80::1%eth0", ":7", "[fe80::1]:7"},
	} {
		got := swarmAddr(netip.MustParseAddr(c.remote), c.reported)
		if s := got.String(); got.IsValid() && s != c.want || !got.IsValid() && c.want != "" {
			t.Errorf("%s: %s, want %s", name, s, c.want)
		}
	}
	if swarmAddr(netip.Addr{}, ":7").IsValid() {
		t.Error("an address without a connection")
	}
}

func TestSwarm(t *testing.T) {
	t.Parallel()
	r := newRegistry()
	join := func(i int) Member {
		m := node(i, 1)
		m.Remote = netip.AddrFrom4([4]byte{203, 0, 113, byte(i)})
		r.Join(t0, m)
		return m
	}
	say := func(m Member, swarm, off string, shards ...protocol.ShardReport) {
		rep := report(shards...)
		rep.Swarm, rep.SharingOff = swarm, off
		mustReport(t, r, t0, m, rep)
	}
	failed := shardReport(modB, 4, 0, 4)
	failed.State = protocol.ShardFailed
	a := join(1)
	say(a, ":7", "", shardReport(modA, 4, 0, 4), failed)
	part := shardReport(modA, 4, 2, 4)
	part.State = protocol.ShardDownloading
	say(join(2), ":8", "", part, shardReport(modA, 4, 0, 1))
	say(join(3), "203.0.113.9:8", "", part)
	say(join(4), "", "", part)
	say(join(5), ":9", "user", part)
	want := map[protocol.ModelID][]SwarmNode{modA: {{netip.MustParseAddrPort("203.0.113.1:7"), true}, {netip.MustParseAddrPort("203.0.113.2:8"), false}}}
	if d := cmp.Diff(want, r.Swarm(), cmpopts.EquateComparable(netip.AddrPort{})); d != "" {
		t.Error(d)
	}
	v := r.Version()
	say(a, ":77", "", shardReport(modA, 4, 0, 4))
	if r.Version() == v {
		t.Error("another address does not show")
	}
	r.Left(a, false)
	if n := r.Swarm()[modA]; len(n) != 1 {
		t.Errorf("a node that has left: %v", n)
	}
	if r.Member(a.ID) || !r.Member(id(2)) {
		t.Error("Member is wrong")
	}
}

func TestCheckReportBoundsEveryList(t *testing.T) {
	t.Parallel()
	for name, spoil := range map[string]func(*protocol.Report, *protocol.Capability){
		"swarm":               func(r *protocol.Report, _ *protocol.Capability) { r.Swarm = "x" },
		"swarm port":          func(r *protocol.Report, _ *protocol.Capability) { r.Swarm = "h:0" },
		"long swarm":          func(r *protocol.Report, _ *protocol.Capability) { r.Swarm = strings.Repeat("h", 300) + ":1" },
		"cuts":                func(_ *protocol.Report, c *protocol.Capability) { c.Cuts = make([]int, MaxLayers+1) },
		"cut outside":         func(_ *protocol.Report, c *protocol.Capability) { c.Cuts = []int{5} },
		"negative cut":        func(_ *protocol.Report, c *protocol.Capability) { c.Cuts = []int{-1} },
		"KV layers":           func(_ *protocol.Report, c *protocol.Capability) { c.KVLayerBytes = make([]int64, 5) },
		"KV of a layer":       func(_ *protocol.Report, c *protocol.Capability) { c.KVLayerBytes = []int64{-1} },
		"much KV of a layer":  func(_ *protocol.Report, c *protocol.Capability) { c.KVLayerBytes = []int64{1 << 62} },
		"sidebands":           func(_ *protocol.Report, c *protocol.Capability) { c.Sidebands = make([]string, 17) },
		"long sideband":       func(_ *protocol.Report, c *protocol.Capability) { c.Sidebands = []string{strings.Repeat("x", 300)} },
		"devices":             func(_ *protocol.Report, c *protocol.Capability) { c.Devices = make([]string, 65) },
		"KV type":             func(_ *protocol.Report, c *protocol.Capability) { c.KVType = "f\x1b16" },
		"KV window":           func(_ *protocol.Report, c *protocol.Capability) { c.KVWindowBytes = -1 },
		"KV window cells":     func(_ *protocol.Report, c *protocol.Capability) { c.KVWindowCells = -1 },
		"KV budget":           func(_ *protocol.Report, c *protocol.Capability) { c.KVBudget = 1 << 60 },
		"compute":             func(_ *protocol.Report, c *protocol.Capability) { c.ComputeBytes = -5 },
		"compute of one cell": func(_ *protocol.Report, c *protocol.Capability) { c.ComputeBytesPerCell = 1 << 40 },
	} {
		s := shardReport(modA, 4, 0, 4)
		rep := report(s)
		spoil(rep, &rep.Shards[0].Capability)
		if err := CheckReport(rep); err == nil {
			t.Errorf("%s passed", name)
		}
	}
	s := shardReport(modA, 4, 0, 4)
	c := &s.Capability
	c.Cuts, c.KVLayerBytes, c.Sidebands, c.KVType = []int{1, 2, 3}, []int64{1, 2, 3, 4}, []string{"ids"}, "f16"
	c.KVWindowBytes, c.KVWindowCells, c.KVBudget, c.ComputeBytes, c.ComputeBytesPerCell = 1, 512, 1<<40, 1<<30, 100
	rep := report(s)
	rep.Swarm = "[2001:db8::1]:6881"
	if err := CheckReport(rep); err != nil {
		t.Error(err)
	}
}
