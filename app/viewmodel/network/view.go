package network

import (
	"fmt"
	"net/url"
	"strings"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
)

// Stage says what of the network is there.
type Stage int

// The stages.
const (
	Loading Stage = iota
	Absent        // no engine answers
	Failed        // the network does not: View.Err
	Ready
)

// View is what the pages show; all words are the user's.
type View struct {
	Stage Stage
	// Err is why the network was not reached last, also when Ready: then what is
	// shown is of Asked.
	Err   *protocol.Error
	Asked string

	Connection Connection
	Nodes      string
	Sessions   string
	Answering  string // models that can answer, of all
	Models     []Entry
	Filtered   bool // there are more models than those shown
	Routes     []Route
	Access     *localapi.Access

	Held    string // name of what was ordered last, "" for nothing
	Problem *protocol.Error
}

// Connection is that of this computer to the tracker.
type Connection struct {
	URL       string
	Name      string // of the network, "" where it has none
	Connected bool
	Text      string
}

// Entry is one model of the catalog.
type Entry struct {
	ID, Name  string
	Text      string // size, layers, context, licence
	Routable  bool
	Private   bool
	Replicas  []int // ready computers per layer
	Local     *protocol.Range
	LocalText string // "" when nothing is held here
	Coverage  string // what is missing, or how often it is there
	Fits      string // what this computer could take of it, "" while not known
}

// Route is one conversation of this computer with its way.
type Route struct {
	Name  string
	Model string
	Phase protocol.Phase
	Text  string // tokens, speed, time to the first token
	Hops  []Hop
	Err   *protocol.Error
}

// Hop is one computer of a route.
type Hop struct {
	Layers string
	Node   string
	Time   string // per token
	Health string // protocol.HealthOK, HealthSlow, HealthLost
}

// mostRoutes bounds the list.
const mostRoutes = 8

// View is the present state.
func (m *Model) View() View {
	s := m.o.State()
	w := m.o.Words
	m.mu.Lock()
	defer m.mu.Unlock()
	v := View{Err: m.err, Access: m.access, Held: m.held, Problem: m.problem}
	v.Connection = m.connection(&s.Event.Status.Tracker)
	switch {
	case s.Phase == link.Absent:
		v.Stage = Absent
		return v
	case m.network != nil:
		v.Stage = Ready
	case m.err != nil:
		v.Stage = Failed
	}
	for i := range m.routes {
		if len(v.Routes) == mostRoutes {
			break
		}
		v.Routes = append(v.Routes, m.route(&m.routes[i]))
	}
	if m.network == nil {
		return v
	}
	n := m.network
	v.Asked = w.Time(n.Asked)
	v.Nodes, v.Sessions = w.Number(int64(n.Nodes)), w.Number(int64(n.Sessions))
	answering := 0
	for i := range n.Models {
		if n.Models[i].Info.Routable {
			answering++
		}
		if m.filter != "" && !strings.Contains(strings.ToLower(n.Models[i].Info.Name), m.filter) {
			v.Filtered = true
			continue
		}
		v.Models = append(v.Models, m.model(&n.Models[i]))
	}
	v.Answering = w.T("network.answering_of", "Count", answering, "All", len(n.Models))
	return v
}

func (m *Model) connection(t *localapi.Tracker) Connection {
	w := m.o.Words
	c := Connection{URL: pageOf(t.URL), Name: t.Name, Connected: t.Connected}
	switch {
	case t.URL == "":
		c.Text = w.T("network.no_address")
	case t.Connected && !t.Since.IsZero():
		c.Text = w.T("network.connected_since", "Time", w.Time(t.Since))
	case t.Connected:
		c.Text = w.T("network.connected")
	default:
		c.Text = w.T("network.connecting")
	}
	return c
}

// pageOf is the tracker's status page, where the engine tells the address of its
// control channel.
func pageOf(address string) string {
	u, err := url.Parse(address)
	if err != nil {
		return address
	}
	switch u.Scheme {
	case "ws":
		u.Scheme = "http"
	case "wss":
		u.Scheme = "https"
	}
	u.Path = strings.TrimSuffix(u.Path, "/v1/nodes")
	return u.String()
}

func (m *Model) model(x *localapi.NetworkModel) Entry {
	w := m.o.Words
	i := &x.Info
	out := Entry{ID: string(i.Model), Name: i.Name, Routable: i.Routable, Private: x.Private, Replicas: i.Replicas, Local: x.Local}
	var facts []string
	if x.Bytes > 0 {
		facts = append(facts, w.Bytes(x.Bytes))
	}
	facts = append(facts, w.T("network.layer_count", "Count", i.Layers))
	if i.Context > 0 {
		facts = append(facts, w.T("network.context", "Tokens", w.Number(int64(i.Context))))
	}
	if x.License != "" {
		facts = append(facts, x.License)
	}
	out.Text = strings.Join(facts, " · ")
	if x.Local != nil {
		out.LocalText = w.T("network.local", "First", x.Local.First, "Last", x.Local.Last-1)
	}
	out.Coverage = m.coverage(i)
	if x.Local == nil {
		out.Fits = m.fits(x)
	}
	return out
}

// longTalk is the conversation, in tokens, by which memory is told.
const longTalk = 32768

// fits says what of a model this computer could hold, by the engine's plan.
func (m *Model) fits(x *localapi.NetworkModel) string {
	w := m.o.Words
	for i := range m.plans {
		p := &m.plans[i]
		switch {
		case p.Model != x.Info.Model:
			continue
		case len(p.Ranges) == 0:
			return w.T("network.fits_none")
		}
		r := &p.Ranges[0]
		first, last := r.Range.First, r.Range.Last-1
		if r.KVPerToken == 0 {
			return w.T("network.fits", "First", first, "Last", last, "Memory", w.Memory(r.Weights))
		}
		tokens := int64(longTalk)
		if most := int64(x.Info.Context); most > 0 {
			tokens = min(tokens, most)
		}
		return w.T("network.fits_talk", "First", first, "Last", last, "Memory", w.Memory(r.Weights),
			"Talk", w.Memory(r.KVPerToken*tokens), "Tokens", fmt.Sprintf("%dK", max(1, tokens/1024)))
	}
	return ""
}

// coverage says in words what the strip shows.
func (m *Model) coverage(i *protocol.ModelInfo) string {
	w := m.o.Words
	if len(i.Replicas) == 0 {
		return w.T("network.coverage_none")
	}
	least, missing := i.Replicas[0], 0
	first := -1
	for l, n := range i.Replicas {
		least = min(least, n)
		if n == 0 {
			missing++
			if first < 0 {
				first = l
			}
		}
	}
	switch {
	case missing == len(i.Replicas):
		return w.T("network.coverage_none")
	case missing > 0:
		return w.T("network.coverage_missing", "Count", missing, "First", first)
	}
	return w.T("network.coverage", "Count", least)
}

func (m *Model) route(t *protocol.Telemetry) Route {
	w := m.o.Words
	out := Route{Name: short(string(t.Session), 10), Model: t.Name, Phase: t.Phase, Err: t.Error}
	out.Text = w.T("network.route_tokens", "Count", t.Tokens)
	if t.TokensPerSecond > 0 && !t.Phase.Ended() {
		out.Text += " · " + w.T("network.route_speed", "Speed", w.Decimal(t.TokensPerSecond, 1))
	}
	if t.FirstTokenMillis > 0 {
		out.Text += " · " + w.T("network.route_first", "Time", w.T("network.ms", "Count", int(t.FirstTokenMillis)))
	}
	for _, h := range t.Route {
		hop := Hop{Node: h.Node.Short(), Health: h.Health, Layers: w.T("network.hop_layers", "First", h.Use.First, "Last", h.Use.Last-1)}
		if c := h.Counters; c.DecodeSteps > 0 {
			hop.Time = w.T("network.hop_time", "Time", w.Decimal(float64(c.DecodeMicros)/float64(c.DecodeSteps)/1000, 1))
		}
		out.Hops = append(out.Hops, hop)
	}
	return out
}

func short(s string, n int) string {
	if len(s) > n {
		return s[:n]
	}
	return s
}
