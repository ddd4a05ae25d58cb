package web

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/routing"
	"neuron/tracker-server/sessions"
	"neuron/tracker-server/telemetry"
)

var t0 = time.Date(2026, 3, 14, 12, 0, 0, 0, time.UTC)

// network is a Source with a fixed state, which tests change under its lock.
type network struct {
	mu       sync.Mutex
	models   []protocol.ModelInfo
	catalog  []protocol.CatalogModel
	nodes    []registry.NodeView
	sessions []Session
	figures  []telemetry.Figures
	troubles []*protocol.Error
	owners   map[protocol.NodeID]string
	history  *telemetry.History
	route    *routing.Explanation
	looked   int // times that the nodes were listed
}

func (n *network) Models() []protocol.ModelInfo { n.mu.Lock(); defer n.mu.Unlock(); return n.models }
func (n *network) Nodes() []registry.NodeView {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.looked++
	return append([]registry.NodeView(nil), n.nodes...)
}
func (n *network) Sessions() []Session {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]Session(nil), n.sessions...)
}
func (n *network) Session(_ context.Context, id protocol.SessionID) (Session, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range n.sessions {
		if s.Session == id {
			return s, nil
		}
	}
	return Session{}, protocol.Errorf(protocol.CodeSessionUnknown, "session %s is not known", string(id))
}
func (n *network) Catalog() []protocol.CatalogModel {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]protocol.CatalogModel(nil), n.catalog...)
}
func (n *network) File(context.Context, protocol.ModelID, FileKind, string) (File, error) {
	return File{}, protocol.Errorf(protocol.CodeModelUnknown, "no such model")
}
func (n *network) Explain(model string, _ routing.Request) (*routing.Explanation, error) {
	if n.route == nil {
		return nil, protocol.Errorf(protocol.CodeModelUnknown, "no model %.100q", model)
	}
	return n.route, nil
}
func (n *network) History(context.Context, protocol.SessionID) (*telemetry.History, error) {
	if n.history == nil {
		return nil, protocol.Errorf(protocol.CodeNotFound, "this tracker keeps no history of sessions")
	}
	return n.history, nil
}
func (n *network) Figures(context.Context, time.Time, time.Duration) ([]telemetry.Figures, error) {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.figures, nil
}
func (n *network) Troubles() []*protocol.Error {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.troubles
}
func (n *network) OwnerOf(id protocol.NodeID) string { return n.owners[id] }

// change changes the state while somebody looks.
func (n *network) change(f func(*network)) {
	n.mu.Lock()
	defer n.mu.Unlock()
	f(n)
}

func nodeID(i int) protocol.NodeID {
	letters := "abcdefghijklmnopqrstuvwxyz234567"
	b := make([]byte, 52)
	for k := range b {
		b[k] = letters[(i*7+k*(i+3)+k*k)%32]
	}
	return protocol.NodeID(b)
}

func modelID(i int) protocol.ModelID {
	return protocol.ModelID(fmt.Sprintf("%064x", (i+1)*0x1234567))
}

func sessionID(i int) protocol.SessionID {
	return protocol.SessionID("s-" + string(nodeID(1000 + i))[:26])
}

// counts repeats replica counts: counts(3, 10, 0, 2) is ten layers on three
// nodes and two on none.
func counts(pairs ...int) (out []int) {
	for i := 0; i+1 < len(pairs); i += 2 {
		for range pairs[i+1] {
			out = append(out, pairs[i])
		}
	}
	return out
}

func published(i int, name, arch string, context int, size int64, replicas []int) protocol.CatalogModel {
	routable := true
	for _, n := range replicas {
		routable = routable && n > 0
	}
	return protocol.CatalogModel{
		Model: modelID(i), Name: name, Architecture: arch, Layers: len(replicas), Context: context, Bytes: size, Files: 1,
		Replicas: replicas, Routable: routable, Missing: MissingLayers(replicas), Seeders: 2 + i, Fetching: i % 3,
	}
}

func node(i int, state registry.State, model protocol.CatalogModel, first, last int, step int64) registry.NodeView {
	at := t0.Add(-time.Duration(i) * 3 * time.Second)
	return registry.NodeView{
		Node: nodeID(i), Role: protocol.RoleNode, State: state, Host: fmt.Sprintf("%d cores, %d.0 GB", 4+i%13, 8+i%57), Reported: &at,
		Pressure: float64(20+i*7%60) / 100, FreeDisk: 90 << 30,
		Shards: []registry.ShardView{{
			Model: model.Model, Name: model.Name, Layers: model.Layers, Loaded: protocol.Range{First: first, Last: last}, State: protocol.ShardReady,
			StepMicros: step, FreeKVBytes: int64(1+i%7) << 30, Sessions: i % 3, MaxSessions: 8,
		}},
	}
}

// full is a network in use, with a hole, a slow hop, a failure and private
// sessions.
func full() *network {
	n := &network{owners: map[protocol.NodeID]string{}}
	n.catalog = []protocol.CatalogModel{
		published(0, "guide", "llama", 4096, 12<<20, counts(6, 4)),
		published(1, "qwen3.5-27b-q4_k_m", "qwen35", 131072, 17<<30, counts(3, 20, 2, 14, 4, 14, 1, 16)),
		published(2, "deepseek-v4-flash-q4", "deepseek4", 131072, 158<<30, counts(2, 12, 0, 3, 1, 18, 0, 1, 3, 9)),
	}
	at := 0
	add := func(state registry.State, m, first, last int, step int64) {
		v := node(at, state, n.catalog[m], first, last, step)
		n.nodes = append(n.nodes, v)
		n.owners[v.Node] = "owner:" + string(nodeID(500 + at/3))[:20]
		at++
	}
	for i := range 6 {
		add(registry.StateReady, 0, 0, 4, 400+int64(i)*37)
	}
	for i := range 9 {
		add(registry.StateReady, 1, i%3*20, min(i%3*20+24, 64), 21_000+int64(i)*1700)
	}
	for i := range 4 {
		add(registry.StateReady, 2, i*10, i*10+12, 48_000+int64(i)*900)
	}
	n.nodes[7].State, n.nodes[7].Why = registry.StateDraining, "no report for 13 s"
	n.nodes[12].Shards[0].State = protocol.ShardFailed
	n.nodes[12].Shards[0].Error = protocol.Errorf(protocol.CodeDiskFull, "no space")
	n.nodes = append(n.nodes, registry.NodeView{Node: nodeID(90), Role: protocol.RoleGateway, State: registry.StateGateway, Host: "8 cores, 16.0 GB"})
	session := func(i int, model int, phase protocol.Phase, tokens int, rate float64, steps ...int64) Session {
		s := Session{
			Session: sessionID(i), Driver: nodeID(90), Model: n.catalog[model].Model, Name: n.catalog[model].Name, Phase: phase,
			Issued: t0.Add(-time.Duration(i+1) * 40 * time.Second), Context: 8192,
			Telemetry: &protocol.Telemetry{Seq: 9, Phase: phase, PrefillDone: 1536, PrefillTotal: 1536, Tokens: tokens, TokensPerSecond: rate},
		}
		r := &routing.Route{ReturnMicros: 9000}
		per := n.catalog[model].Layers / len(steps)
		for k, step := range steps {
			use := protocol.Range{First: k * per, Last: (k + 1) * per}
			if k == len(steps)-1 {
				use.Last = n.catalog[model].Layers
			}
			h := Hop{Hop: k, Node: n.nodes[(i*3+k)%len(n.nodes)].Node, Use: use, ExpectedMicros: 22_000, StepMicros: step, Health: protocol.HealthOK}
			if step > 44_000 {
				h.Health = protocol.HealthSlow
			}
			s.Hops = append(s.Hops, h)
			r.Hops = append(r.Hops, routing.Hop{Node: h.Node, Use: use, Cost: routing.Cost{Stage: 22_000, Link: 7_500, Overhead: 1000, Queue: int64(k) * 900}})
		}
		s.Route = r
		return s
	}
	n.sessions = []Session{
		session(0, 1, protocol.PhaseDecode, 412, 11.8, 21_900, 61_300, 23_100),
		session(1, 1, protocol.PhasePrefill, 0, 0, 0, 0, 0),
		session(2, 0, protocol.PhaseDecode, 96, 148.2, 430),
	}
	n.sessions[1].Telemetry.PrefillDone = 640
	n.sessions[1].Telemetry.PrefillTotal = 6100
	for i := range 6 {
		s := session(3+i, 1, protocol.PhaseDone, 300+i, 0, 22_000, 22_500)
		s.Route = nil
		s.End = &sessions.End{At: t0.Add(-time.Minute), Finish: protocol.FinishStop}
		if i == 2 {
			s.Phase, s.End.Finish = protocol.PhaseFailed, protocol.FinishError
			s.End.Error = protocol.Errorf(protocol.CodeHopLost, "the connection to node %s broke", s.Hops[1].Node.Short())
			s.Hops[1].Health = "failed"
		}
		n.sessions = append(n.sessions, s)
	}
	for _, p := range []protocol.Phase{protocol.PhaseDecode, protocol.PhaseDecode, protocol.PhasePrefill} {
		n.sessions = append(n.sessions, Session{Private: true, Model: n.catalog[1].Model, Name: n.catalog[1].Name, Phase: p, Issued: t0})
	}
	for i := range 175 {
		if i > 60 && i < 72 {
			continue // the tracker did not run
		}
		at := t0.Add(-time.Duration(175-i) * time.Minute)
		wave := float64((i*i)%97) + float64(i%23)*6
		n.figures = append(n.figures, telemetry.Figures{
			At: at, Tokens: int64(wave * 31), Prefill: int64(wave * 240), Started: int64(i % 7), Ended: int64(i % 6), Failed: int64(i % 29 / 27),
			Nodes: int64(15 + i/30), Credit: int64(wave * 8_300_000), Measured: 1,
		})
	}
	return n
}

// hostile says everything that strangers can say, in markup.
func hostile() *network {
	const evil = `<script>alert(1)</script>"' onload=x &amp; {{.}} </style>`
	n := full()
	n.catalog[0].Name, n.catalog[0].Architecture, n.catalog[0].WholeOnly = evil, evil, evil
	n.nodes[0].Host, n.nodes[0].Why, n.nodes[0].Engine = evil, evil, evil
	n.nodes[0].Shards[0].Name = evil
	n.nodes[0].Shards[0].State = evil
	n.nodes[0].Shards[0].Error = &protocol.Error{Code: evil, Message: evil}
	n.owners[n.nodes[0].Node] = evil
	n.sessions[0].Name = evil
	n.sessions[5].End = &sessions.End{At: t0, Finish: evil, Error: &protocol.Error{Code: evil, Message: evil}}
	n.sessions[5].Hops[0].Health = evil
	n.sessions[9].Name = evil
	n.route = &routing.Explanation{Route: &routing.Route{Name: evil}, Why: evil, LeftOut: []routing.LeftOut{{Node: nodeID(1), Loaded: protocol.Range{Last: 4}, Text: evil}}}
	n.models = []protocol.ModelInfo{{Model: modelID(9), Name: strings.Repeat("W", 256), Architecture: evil, Layers: 2, Replicas: []int{1, 1}, Routable: true}}
	return n
}
