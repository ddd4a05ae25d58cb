package placement

import (
	"math"

	"neuron/engine/protocol"
)

// entry is a model with its sums and its coverage, build by build: a route
// needs one build on all hops.
type entry struct {
	Model
	demand  float64
	weights []int64 // of layers [0, i)
	kv      []int64
	builds  map[protocol.Build]*cover
	empty   *cover // stands for every other build
}

func newEntry(m Model) *entry {
	e := &entry{Model: m, weights: make([]int64, m.Layers+1), kv: make([]int64, m.Layers+1), builds: make(map[protocol.Build]*cover), empty: newCover(m.Layers)}
	for i := range m.Layers {
		e.weights[i+1] = e.weights[i] + m.LayerBytes[i]
		e.kv[i+1] = e.kv[i] + m.KVLayerBytes[i]
	}
	return e
}

// weight is what the tensors of [a, b) take.
func (e *entry) weight(a, b int) int64 {
	n := e.weights[b] - e.weights[a] + e.AllBytes
	if a == 0 {
		n += e.HeadBytes
	}
	if b == e.Layers {
		n += e.TailBytes
	}
	if a == 0 || b == e.Layers {
		n += e.EndsBytes
	}
	return n
}

// memory is what a stage of [a, b) takes with so many reserved positions.
func (e *entry) memory(a, b, cells int) int64 {
	return e.weight(a, b) + e.ComputeBytes + (e.kv[b]-e.kv[a])*int64(cells)
}

// add counts a shard, or takes it away with sign -1.
func (e *entry) add(cfg Config, n *Node, s *Shard, sign int) {
	if !s.Range.Valid(e.Layers) {
		return
	}
	c := e.builds[n.Build]
	if c == nil {
		c = newCover(e.Layers)
		e.builds[n.Build] = c
	}
	w := int64(sign) * nodeWeight(cfg, n.Speed)
	rate := int64(0)
	if s.State == protocol.ShardReady {
		rate = int64(sign) * microRate(n.Speed, e.weight(s.Range.First, s.Range.Last))
	}
	for l := s.Range.First; l < s.Range.Last; l++ {
		c.planned[l] += sign
		c.weight[l] += w
		c.rate[l] += rate
		if s.State == protocol.ShardReady {
			c.ready[l] += sign
		}
	}
	c.bounds[s.Range.First] += sign
	c.bounds[s.Range.Last] += sign
	if c.stale = true; sign > 0 {
		c.shards[n.ID] = s
		return
	}
	// What nobody runs any more is forgotten: builds come from nodes.
	if delete(c.shards, n.ID); len(c.shards) == 0 {
		delete(e.builds, n.Build)
	}
}

// cover is a model's coverage by nodes of one build. All counts are integers,
// so that what is added and taken away again leaves no trace.
type cover struct {
	planned []int   // nodes per layer that are ready or on their way
	ready   []int   // of these, the ready ones
	weight  []int64 // planned nodes by speed, in weightUnits
	rate    []int64 // ready nodes' tokens per second and layer, in millionths
	bounds  []int   // ranges that begin or end at a boundary
	shards  map[protocol.NodeID]*Shard

	// What follows comes from the above, see refresh.
	stale  bool
	level  int   // least of planned
	weak   int64 // least of weight
	strict []float64
	soft   []float64
	used   []int // the last boundary in use up to b
	runEnd []int // end of the run of lacking layers that holds layer a or follows it
}

func newCover(layers int) *cover {
	return &cover{
		planned: make([]int, layers), ready: make([]int, layers), weight: make([]int64, layers), rate: make([]int64, layers),
		bounds: make([]int, layers+1), shards: make(map[protocol.NodeID]*Shard), stale: true,
		strict: make([]float64, layers+1), soft: make([]float64, layers+1), used: make([]int, layers+1), runEnd: make([]int, layers+1),
	}
}

// A node's weight is its speed over the reference, in sixteenths; between an
// eighth and eight, so that no claim of a node is worth more than eight nodes.
// One that was not measured counts a quarter.
const (
	weightUnits   = 16
	minWeight     = weightUnits / 8
	maxWeight     = weightUnits * 8
	unknownWeight = weightUnits / 4
)

func nodeWeight(cfg Config, speed int64) int64 {
	if speed <= 0 {
		return unknownWeight
	}
	w := float64(speed) / float64(cfg.RefSpeed) * weightUnits
	return int64(min(max(w, minWeight), maxWeight))
}

// microRate is what a node of this speed can decode of a range, in millionths
// of a token per second.
func microRate(speed, weight int64) int64 {
	if speed <= 0 {
		return 0
	}
	return int64(min(float64(speed)/float64(max(1, weight))*1e6, 1e12))
}

// softStep is by how much less a layer pulls for each node more that it has
// than the thinnest one.
const softStep = 4

// refresh brings the derived figures up to date.
func (c *cover) refresh(e *entry) {
	if !c.stale {
		return
	}
	c.stale = false
	n := e.Layers
	c.level, c.weak = c.planned[0], c.weight[0]
	for l := range n {
		c.level, c.weak = min(c.level, c.planned[l]), min(c.weak, c.weight[l])
	}
	c.used[0] = 0
	for b := 1; b <= n; b++ {
		if c.used[b] = c.used[b-1]; c.bounds[b] > 0 || b == n {
			c.used[b] = b
		}
	}
	for l := range n {
		// One more, for models whose bytes belong to no layer.
		bytes := float64(e.LayerBytes[l] + 1)
		above := min(c.planned[l]-c.level, 8)
		c.strict[l+1] = c.strict[l]
		if above == 0 {
			c.strict[l+1] += bytes
		}
		// Slow nodes leave more to wish for than fast ones.
		pull := math.Pow(softStep, -float64(above)) / (1 + float64(c.weight[l])/weightUnits)
		c.soft[l+1] = c.soft[l] + bytes*pull
	}
	c.runEnd[n] = n
	for l := n - 1; l >= 0; l-- {
		if c.runEnd[l] = c.runEnd[l+1]; c.planned[l] == c.level && (l+1 == n || c.planned[l+1] != c.level) {
			c.runEnd[l] = l + 1
		}
	}
}

// share is the part of what the model lacks that [a, b) brings, 0 to 1: most
// of it for the layers that hold up the next route, the rest for the others,
// the less the more nodes they have.
func (c *cover) share(a, b int) float64 {
	n := len(c.planned)
	return strictPart*(c.strict[b]-c.strict[a])/c.strict[n] + (1-strictPart)*(c.soft[b]-c.soft[a])/c.soft[n]
}

const strictPart = 0.75

// fill is the part of the layers that hold up the next route, by bytes.
func (c *cover) fill(a, b int) float64 { return (c.strict[b] - c.strict[a]) / c.strict[len(c.planned)] }

// least is the least of counts when those in r change by so much.
func least(counts []int, r protocol.Range, change int) int {
	n := math.MaxInt
	for l, k := range counts {
		if r.First <= l && l < r.Last {
			k += change
		}
		n = min(n, k)
	}
	return n
}

// cover gives the coverage by a build, an empty one where there is none.
func (e *entry) cover(b protocol.Build) *cover {
	c := e.builds[b]
	if c == nil {
		c = e.empty
	}
	c.refresh(e)
	return c
}

// totals are the routes and the weight of the routes that are planned, over
// all builds.
func (e *entry) totals() (routes int, weak int64) {
	for _, c := range e.builds {
		c.refresh(e)
		routes += c.level
		weak += c.weak
	}
	return routes, weak
}
