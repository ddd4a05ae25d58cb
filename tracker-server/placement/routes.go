package placement

import (
	"cmp"
	"maps"
	"math"
	"slices"

	"neuron/engine/protocol"
)

// How many routes of distinct nodes a model has is the least number of nodes
// on any of its layers.
//
// Proof. Take the boundaries 0 to n as points. A node with [a, b) is an arc
// from a to b that one route may use; leaving early is an arc of no price from
// every point to the one before it, which any number may use. Routes are then
// paths from 0 to n, and routes of distinct nodes are a flow. (A path may go
// back further than a node's own start; it then comes through the start, and
// the loop is cut off.) A cut that separates 0 from n and crosses no free arc
// is a set {0, ..., l}, and what crosses it are the nodes that hold layer l. By
// max-flow min-cut the largest flow is the smallest such number, in integers;
// with any other capacity of nodes (speed) the same holds for its sum.
//
// So no search is needed to count, and adding a node never lowers the number.
// Routes gives the routes themselves.

// Use is a node's part in a route.
type Use struct {
	Node protocol.NodeID
	Use  protocol.Range // from the start of the held range on
}

// Routes lists as many routes of distinct nodes as there are, each hop with
// the layers that it runs; only ready shards, build by build. Error:
// model_not_found.
func (m *Map) Routes(id protocol.ModelID) ([][]Use, error) {
	e := m.byID[id]
	if e == nil {
		return nil, unknown(id)
	}
	var out [][]Use
	for _, b := range slices.SortedFunc(maps.Keys(e.builds), compareBuilds) {
		out = append(out, e.builds[b].routes(e.Layers)...)
	}
	return out, nil
}

func compareBuilds(a, b protocol.Build) int {
	return cmp.Or(cmp.Compare(a.Protocol, b.Protocol), cmp.Compare(a.Llama, b.Llama))
}

func unknown(id protocol.ModelID) *protocol.Error {
	return protocol.Errorf(protocol.CodeModelUnknown, "the catalog has no model %.80q", string(id))
}

// routes builds k routes at once, k being the least coverage: the one that
// reaches least far is always the one that goes on, with the unused node that
// begins at or before its reach and goes furthest. There always is one: of the
// k nodes on the next layer, each other route has used at most one, since a
// route that has passed this layer is not the least.
func (c *cover) routes(layers int) [][]Use {
	k := slices.Min(c.ready)
	if k == 0 {
		return nil
	}
	nodes := make([]Use, 0, len(c.shards))
	for id, s := range c.shards {
		if s.State == protocol.ShardReady {
			nodes = append(nodes, Use{id, s.Range})
		}
	}
	slices.SortFunc(nodes, func(a, b Use) int {
		return cmp.Or(cmp.Compare(a.Use.First, b.Use.First), cmp.Compare(a.Node, b.Node))
	})
	paths := make([][]Use, k)
	reach := make([]int, k)
	// byEnd holds, per end, the unused nodes that begin early enough.
	byEnd := make([][]Use, layers+1)
	for next := 0; ; {
		least := 0
		for i, r := range reach {
			if r < reach[least] {
				least = i
			}
		}
		if reach[least] == layers {
			break
		}
		for ; next < len(nodes) && nodes[next].Use.First <= reach[least]; next++ {
			end := nodes[next].Use.Last
			byEnd[end] = append(byEnd[end], nodes[next])
		}
		for end := layers; ; end-- {
			if n := len(byEnd[end]); n > 0 {
				paths[least] = append(paths[least], byEnd[end][n-1])
				byEnd[end] = byEnd[end][:n-1]
				reach[least] = end
				break
			}
		}
	}
	for i := range paths {
		paths[i] = trim(paths[i])
	}
	return paths
}

// trim lets each hop stop where the next one begins, and takes out hops that
// the next one makes needless.
func trim(path []Use) []Use {
	var out []Use
	for _, u := range path {
		for len(out) > 0 && out[len(out)-1].Use.First >= u.Use.First {
			out = out[:len(out)-1]
		}
		if n := len(out); n > 0 {
			out[n-1].Use.Last = u.Use.First
		}
		out = append(out, u)
	}
	return out
}

// View is how well a model is covered.
type View struct {
	Model  protocol.ModelID `json:"model"`
	Name   string           `json:"name"`
	Layers int              `json:"layers"`
	Demand float64          `json:"demand"`
	// Ready counts, per layer, the ready nodes that hold it, Planned those on
	// their way too.
	Ready   []int `json:"ready"`
	Planned []int `json:"planned"`
	// Routes is how many routes of distinct ready nodes exist, PlannedRoutes
	// how many there will be, Weighted the latter by speed: a node of
	// Config.RefSpeed counts one.
	Routes        int     `json:"routes"`
	PlannedRoutes int     `json:"planned_routes"`
	Weighted      float64 `json:"weighted"`
	// TokensPerSecond estimates what all ready nodes together decode when many
	// sessions keep them busy: a lower bound, since a hop that stops early is
	// counted as if it ran all its layers; links and batches are left out.
	TokensPerSecond float64 `json:"tokens_per_second"`
	// Missing are the layers that no ready node holds, Boundaries the points at
	// which planned ranges begin or end, 0 and Layers aside.
	Missing    []protocol.Range `json:"missing"`
	Boundaries int              `json:"boundaries"`
}

// View says how well a model is covered. Error: model_not_found.
func (m *Map) View(id protocol.ModelID) (*View, error) {
	e := m.byID[id]
	if e == nil {
		return nil, unknown(id)
	}
	v := &View{Model: e.ID, Name: e.Name, Layers: e.Layers, Demand: e.demand, Ready: make([]int, e.Layers), Planned: make([]int, e.Layers)}
	bounds := make([]bool, e.Layers+1)
	var micros int64
	for _, c := range e.builds {
		least, slowest := math.MaxInt, int64(math.MaxInt64)
		for l := range e.Layers {
			v.Ready[l] += c.ready[l]
			v.Planned[l] += c.planned[l]
			least, slowest = min(least, c.ready[l]), min(slowest, c.rate[l])
			bounds[l] = bounds[l] || c.bounds[l] > 0
		}
		v.Routes += least
		micros += slowest
	}
	routes, weak := e.totals()
	v.PlannedRoutes, v.Weighted, v.TokensPerSecond = routes, float64(weak)/weightUnits, float64(micros)/1e6
	for _, b := range bounds[1:] {
		if b {
			v.Boundaries++
		}
	}
	v.Missing = runs(v.Ready)
	return v, nil
}

// runs lists the runs of layers with a count of 0.
func runs(counts []int) []protocol.Range {
	var out []protocol.Range
	for l, n := range counts {
		if n > 0 {
			continue
		}
		if k := len(out); k > 0 && out[k-1].Last == l {
			out[k-1].Last++
			continue
		}
		out = append(out, protocol.Range{First: l, Last: l + 1})
	}
	return out
}

// Lack is a model that is asked for and has no route.
type Lack struct {
	Model  protocol.ModelID `json:"model"`
	Name   string           `json:"name"`
	Demand float64          `json:"demand"`
	// Missing are layers that no ready node holds; empty when only a build
	// that agrees is missing. Coming are those of them that are being fetched.
	Missing []protocol.Range `json:"missing"`
	Coming  []protocol.Range `json:"coming"`
	Bytes   int64            `json:"bytes"` // of the missing layers' weights
}

// Lacks lists them, the most wanted first.
func (m *Map) Lacks() []Lack {
	var out []Lack
	for _, e := range m.models {
		if e.demand == 0 {
			continue
		}
		v, err := m.View(e.ID)
		if err != nil || v.Routes > 0 {
			continue
		}
		l := Lack{Model: e.ID, Name: e.Name, Demand: e.demand, Missing: v.Missing}
		gone := slices.Clone(v.Ready)
		for i, n := range v.Ready {
			if n == 0 {
				l.Bytes += e.LayerBytes[i]
				// Anything but 0 is left out below.
				if gone[i] = 1; v.Planned[i] > 0 {
					gone[i] = 0
				}
			}
		}
		l.Coming = runs(gone)
		out = append(out, l)
	}
	slices.SortStableFunc(out, func(a, b Lack) int { return cmp.Compare(b.Demand, a.Demand) })
	return out
}
