package web

import (
	"bytes"
	"cmp"
	"fmt"
	"html/template"
	"slices"
	"strings"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/routing"
)

// Bounds of the summary page and of the pages with the rest.
const (
	summaryModels   = 24
	summaryNodes    = 20
	summarySessions = 12
	pageSize        = 100
)

// view is the network at one moment, as the pages show it.
type view struct {
	Now      time.Time
	Models   []modelView
	Nodes    []nodeView
	Sessions []sessionView // public ones, live ones first
	Private  []privateView
	Health   []Entry
	Charts   []chart
	Measured int   // minutes in the charts
	Credit   int64 // posted in the newest hour, in micro-credits

	Routable     int
	Ready        int
	Live         int // sessions, private ones too
	Ended        int // recent public ones
	TokensPerSec float64
}

// modelView is a published model, or one that nodes hold on their own.
type modelView struct {
	protocol.CatalogModel
	Key       string
	Published bool
	Words     string
	Strip     template.HTML
	Marks     []int
}

// nodeView is a row of the table of nodes.
type nodeView struct {
	registry.NodeView
	Key      string
	Owner    string
	Ago      string
	Pressure int // percent
	Trouble  string
}

// sessionView is a session with its route.
type sessionView struct {
	Session
	Key    string
	Ago    string
	Slow   int // the number of the slowest hop that is slow, or -1
	Why    []whyHop
	Return int64
}

type whyHop struct {
	Node protocol.NodeID
	Use  protocol.Range
	Cost string
}

// privateView counts private sessions; nothing tells one from another.
type privateView struct {
	Model string
	Phase protocol.Phase
	Count int
}

func makeView(src Source, now time.Time) *view {
	v := &view{Now: now, Models: modelViews(src)}
	for i := range v.Models {
		if v.Models[i].Routable {
			v.Routable++
		}
	}
	for _, n := range src.Nodes() {
		if n.State == registry.StateReady {
			v.Ready++
		}
		v.Nodes = append(v.Nodes, viewNode(n, src.OwnerOf(n.Node), now))
	}
	// Ready nodes first, then those with trouble, gateways last.
	order := map[registry.State]int{}
	for i, s := range registry.States() {
		order[s] = i
	}
	slices.SortStableFunc(v.Nodes, func(a, b nodeView) int { return cmp.Compare(order[a.State], order[b.State]) })
	v.addSessions(src.Sessions())
	v.Health = health(v, src.Troubles())
	return v
}

func (v *view) addSessions(all []Session) {
	count := map[privateView]int{}
	for i := range all {
		s := &all[i]
		if s.End == nil {
			v.Live++
		}
		if s.Private {
			if s.End == nil {
				count[privateView{Model: s.Name, Phase: s.Phase}]++
			}
			continue
		}
		if s.End != nil {
			v.Ended++
		} else if s.Telemetry != nil {
			v.TokensPerSec += s.Telemetry.TokensPerSecond
		}
		v.Sessions = append(v.Sessions, viewSession(s, v.Now))
	}
	slices.SortStableFunc(v.Sessions, func(a, b sessionView) int {
		return cmp.Compare(btoi(a.End != nil), btoi(b.End != nil))
	})
	for p, n := range count {
		p.Count = n
		v.Private = append(v.Private, p)
	}
	slices.SortFunc(v.Private, func(a, b privateView) int {
		return cmp.Or(cmp.Compare(a.Model, b.Model), cmp.Compare(a.Phase, b.Phase))
	})
}

func btoi(b bool) int {
	if b {
		return 1
	}
	return 0
}

func modelViews(src Source) []modelView {
	var out []modelView
	known := make(map[protocol.ModelID]bool)
	for _, m := range src.Catalog() {
		known[m.Model] = true
		out = append(out, modelView{CatalogModel: m, Published: true})
	}
	for _, m := range src.Models() {
		if !known[m.Model] {
			out = append(out, modelView{CatalogModel: protocol.CatalogModel{
				Model: m.Model, Name: m.Name, Architecture: m.Architecture, Layers: m.Layers, Context: m.Context,
				Replicas: m.Replicas, Routable: m.Routable, Missing: MissingLayers(m.Replicas),
			}})
		}
	}
	for i := range out {
		m := &out[i]
		m.Key, m.Words = "m-"+string(m.Model), coverageWords(m.Replicas)
		m.Strip, m.Marks = strip(m.Replicas), marks(len(m.Replicas))
	}
	slices.SortStableFunc(out, func(a, b modelView) int {
		return cmp.Or(strings.Compare(a.Name, b.Name), strings.Compare(string(a.Model), string(b.Model)))
	})
	return out
}

func viewNode(n registry.NodeView, owner string, now time.Time) nodeView {
	out := nodeView{NodeView: n, Key: "n-" + string(n.Role) + "-" + string(n.Node), Owner: shortOwner(owner), Ago: "no report yet", Pressure: int(n.Pressure*100 + 0.5)}
	if n.Reported != nil {
		out.Ago = ago(now, *n.Reported)
	}
	for i := range n.Shards {
		if e := n.Shards[i].Error; e != nil {
			out.Trouble = string(e.Code)
			if !e.Code.Known() {
				out.Trouble = "other" // a stranger's word
			}
		}
	}
	return out
}

// shortOwner is enough of an account to tell owners apart.
func shortOwner(owner string) string {
	if i := strings.LastIndexAny(owner, ":-"); i >= 0 {
		owner = owner[i+1:]
	}
	return owner[:min(8, len(owner))]
}

func viewSession(s *Session, now time.Time) sessionView {
	out := sessionView{Session: *s, Key: string(s.Session), Ago: ago(now, s.Issued), Slow: -1}
	var worst int64
	for i, h := range s.Hops {
		if over := h.StepMicros - h.ExpectedMicros; h.Health == protocol.HealthSlow && (out.Slow < 0 || over > worst) {
			out.Slow, worst = i, over
		}
	}
	if s.Route != nil {
		out.Why, out.Return = whyHops(s.Route), s.Route.ReturnMicros
	}
	return out
}

func whyHops(r *routing.Route) []whyHop {
	var out []whyHop
	for _, h := range r.Hops {
		out = append(out, whyHop{h.Node, h.Use, h.Cost.String()})
	}
	return out
}

// render makes all parts of the summary page, each one element with its key as
// id, and the order of the lists.
func (v *view) render() (parts map[string][]byte, lists map[string][]string, err error) {
	parts, lists = map[string][]byte{}, map[string][]string{"models": {}, "nodes": {}, "sessions": {}}
	var b bytes.Buffer
	put := func(key, name string, data any) {
		if err != nil {
			return
		}
		b.Reset()
		if err = tmpl.ExecuteTemplate(&b, name, data); err != nil {
			err = fmt.Errorf("render %s of the status page: %w", name, err)
			return
		}
		parts[key] = bytes.Clone(bytes.TrimSpace(b.Bytes()))
	}
	for _, name := range []string{"figures", "health", "charts", "models-note", "nodes-note", "sessions-note"} {
		put(name, name, v)
	}
	for i := range v.Models[:min(len(v.Models), summaryModels)] {
		m := &v.Models[i]
		lists["models"] = append(lists["models"], m.Key)
		put(m.Key, "model", m)
	}
	for i := range v.Nodes[:min(len(v.Nodes), summaryNodes)] {
		n := &v.Nodes[i]
		lists["nodes"] = append(lists["nodes"], n.Key)
		put(n.Key, "node", n)
	}
	for i := range v.Sessions[:min(len(v.Sessions), summarySessions)] {
		s := &v.Sessions[i]
		lists["sessions"] = append(lists["sessions"], s.Key)
		put(s.Key, "session", s)
	}
	return parts, lists, err
}

// MoreModels, MoreNodes and MoreSessions count what the summary leaves out.
func (v *view) MoreModels() int { return max(0, len(v.Models)-summaryModels) }

// MoreNodes see MoreModels.
func (v *view) MoreNodes() int { return max(0, len(v.Nodes)-summaryNodes) }

// MoreSessions see MoreModels.
func (v *view) MoreSessions() int { return max(0, len(v.Sessions)-summarySessions) }
