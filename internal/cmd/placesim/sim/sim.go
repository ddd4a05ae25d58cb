// Package sim runs tracker-server/placement against computers that come,
// fetch, serve, leave and crash as those of people do, and checks at every
// step that layers which are covered have a route. Its test and the command
// internal/cmd/placesim import it; nothing else does.
//
// For one seed everything but the decision times is the same on every run.
package sim

import (
	"cmp"
	"container/heap"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"slices"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/stopwatch"
	"neuron/tracker-server/placement"
)

// Options of a run; all but Out are needed.
type Options struct {
	Nodes  int // computers that join in the first half hour; half as many more come later
	Models int
	Hours  int
	Seed   uint64
	Out    io.Writer // table by hour; nil: none
	Config placement.Config
}

// Row is the network at the end of an hour.
type Row struct {
	Hour, Online, Serving int
	// Asked counts the models with demand, Routable those of them that have a
	// route, and Demand the share of the demand that these have.
	Asked, Routable int
	Demand          float64
	Routes          int     // of distinct nodes, over all models
	Weighted        float64 // the same by speed
	Boundaries      float64 // per model
	Fetched         int64   // bytes, since the last row
	Moves           int     // nodes that changed their range while online, since the last row
}

// Result of a run.
type Result struct {
	Rows                      []Row
	Joins, Leaves, Crashes    int
	Idle                      int   // joins that found nothing that fits
	Fetched, Cached, Moved    int64 // bytes: fetched in all, found on the disk, fetched because of moves
	Moves                     int
	Checks                    int // route searches
	Decisions                 int
	DecisionP50, DecisionP99  time.Duration
	DecisionMax, DecisionMean time.Duration
	// Rescued counts the models that were suddenly asked for, had no route and
	// got one, Rescue is the median time to it, Waiting counts those without.
	Rescued int
	Rescue  time.Duration
	Waiting int
	Lacks   []placement.Lack // at the end
	// MeanDemand is the share of demand that has a route, MeanRoutes the number
	// of routes, over all rows but the first.
	MeanDemand, MeanRoutes float64
}

type kind int

const (
	evJoin kind = iota
	evReady
	evLeave
	evCrash
	evExpire // a crashed node is noticed
	evAsk    // an online node asks again
	evHour
)

type event struct {
	at   time.Duration
	seq  int
	kind kind
	node int
	life int // events of an earlier life of the node are void
}

type queue []event

func (q queue) Len() int { return len(q) }
func (q queue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(q[i].at, q[j].at), q[i].seq-q[j].seq) < 0
}
func (q queue) Swap(i, j int) { q[i], q[j] = q[j], q[i] }

// Push implements heap.Interface.
func (q *queue) Push(x any) { *q = append(*q, x.(event)) }

// Pop implements heap.Interface.
func (q *queue) Pop() any {
	old := *q
	e := old[len(old)-1]
	*q = old[:len(old)-1]
	return e
}

// computer is one node, online or not.
type computer struct {
	id     protocol.NodeID
	offer  protocol.Offer
	disk   []cached // oldest first
	life   int
	online bool // or crashed and not noticed yet
	ghost  bool
	model  int // -1: none
	r      protocol.Range
	since  time.Duration
	ready  bool
	ends   time.Duration // of this life
	asks   bool          // an evAsk is under way
}

type cached struct {
	model int
	r     protocol.Range
}

// shelf is the simulator's own record of who holds a model: what the checks
// compare with.
type shelf struct {
	ready map[int]protocol.Range // by computer
	since time.Duration          // asked for without a route since; -1: not so
}

type world struct {
	o       Options
	rng     *rand.Rand
	moods   *rand.Rand // of demand: the same whatever placement decides
	m       *placement.Map
	models  []placement.Model
	demand  []float64
	shelves []shelf
	all     []*computer
	q       queue
	seq     int
	now     time.Duration
	times   []time.Duration
	rescues []time.Duration
	res     Result
	hour    Row // counters since the last row
}

var (
	epoch = time.Date(2026, 1, 1, 0, 0, 0, 0, time.UTC)
	build = protocol.Build{Protocol: 1, Llama: "v0.4.0"}
)

// Run simulates. The error says which promise of placement was broken, and
// when.
func Run(ctx context.Context, o Options) (*Result, error) {
	s := &world{o: o, rng: rand.New(rand.NewPCG(o.Seed, 1)), moods: rand.New(rand.NewPCG(o.Seed, 2)), m: placement.New(o.Config)}
	if err := s.makeModels(); err != nil {
		return nil, err
	}
	s.makeComputers()
	for h := range o.Hours {
		s.at(time.Duration(h+1)*time.Hour, evHour, 0)
	}
	s.header()
	end := time.Duration(o.Hours) * time.Hour
	for len(s.q) > 0 && s.q[0].at <= end {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		e := heap.Pop(&s.q).(event)
		s.now = e.at
		if err := s.step(e); err != nil {
			return nil, fmt.Errorf("after %s: %w", s.now.Round(time.Second), err)
		}
	}
	s.finish()
	return &s.res, nil
}

func (s *world) at(t time.Duration, k kind, node int) {
	life := 0
	if k != evHour {
		life = s.all[node].life
	}
	s.seq++
	heap.Push(&s.q, event{t, s.seq, k, node, life})
}

func (s *world) step(e event) error {
	if e.kind == evHour {
		return s.hourly()
	}
	c := s.all[e.node]
	if e.life != c.life {
		return nil
	}
	touched := c.model
	switch e.kind {
	case evJoin:
		if err := s.join(e.node, c); err != nil {
			return err
		}
	case evReady:
		c.ready = true
		s.put(e.node, c)
	case evAsk:
		c.asks = false
		if c.model >= 0 && !c.ready {
			s.askLater(e.node, c)
			return nil
		}
		if err := s.decide(e.node, c); err != nil {
			return err
		}
		s.askLater(e.node, c)
	case evLeave, evExpire:
		if e.kind == evLeave {
			s.res.Leaves++
		}
		s.gone(e.node, c)
	case evCrash:
		// The tracker learns it later: until then the node counts.
		s.res.Crashes++
		c.life++
		c.ghost = true
		s.at(s.now+time.Minute+s.between(0, 30*time.Second), evExpire, e.node)
	}
	for _, i := range []int{touched, c.model} {
		if i >= 0 {
			if err := s.check(i); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *world) join(i int, c *computer) error {
	s.res.Joins++
	c.life++
	c.online, c.model, c.ready, c.ghost, c.asks = true, -1, false, false, false
	c.ends = s.now + s.pareto(20*time.Minute, 1.1, 14*24*time.Hour)
	if err := s.decide(i, c); err != nil {
		return err
	}
	if s.rng.Float64() < 0.3 {
		s.at(c.ends, evCrash, i)
	} else {
		s.at(c.ends, evLeave, i)
	}
	s.askLater(i, c)
	return nil
}

func (s *world) askLater(i int, c *computer) {
	if !c.asks {
		c.asks = true
		s.at(s.now+3*time.Hour+s.between(0, 2*time.Hour), evAsk, i)
	}
}

// decide asks placement for computer i and lets it follow.
func (s *world) decide(i int, c *computer) error {
	j := placement.Join{Node: c.id, Build: build, Now: epoch.Add(s.now), Request: protocol.PlaceRequest{Offer: c.offer, Held: s.heldBy(c)}}
	if err := placement.CheckRequest(&j.Request); err != nil {
		return err
	}
	watch := stopwatch.Start()
	d, err := s.m.Decide(j)
	s.times = append(s.times, watch.Elapsed())
	if err != nil {
		if code := protocol.AsError(err).Code; code != protocol.CodeDoesNotFit && code != protocol.CodeDiskFull {
			return err
		}
		s.res.Idle++
		return nil
	}
	model := slices.IndexFunc(s.models, func(m placement.Model) bool { return m.ID == d.Model })
	if model == c.model && d.Range == c.r {
		return nil
	}
	moved := c.model >= 0
	if moved {
		s.res.Moves++
		s.hour.Moves++
		s.res.Moved += d.FetchBytes
		delete(s.shelves[c.model].ready, i)
	}
	c.model, c.r, c.since, c.ready = model, d.Range, s.now, false
	s.res.Fetched += d.FetchBytes
	s.hour.Fetched += d.FetchBytes
	s.res.Cached += s.bytes(model, d.Range) - d.FetchBytes
	s.keepOnDisk(c)
	s.put(i, c)
	fetch := time.Duration(float64(d.FetchBytes) / float64(c.offer.DownRate) * float64(time.Second))
	s.at(s.now+fetch+s.between(5*time.Second, 15*time.Second), evReady, i)
	return nil
}

// put tells the map what computer i holds, and writes it into our own record.
func (s *world) put(i int, c *computer) {
	state := protocol.ShardDownloading
	if c.ready {
		state = protocol.ShardReady
		s.shelves[c.model].ready[i] = c.r
	}
	s.m.Put(placement.Node{ID: c.id, Build: build, Speed: c.offer.Speed, Memory: c.offer.Memory, Shards: []placement.Shard{
		{Model: s.models[c.model].ID, Range: c.r, State: state, Since: epoch.Add(c.since)},
	}})
}

// gone takes computer i off the network; it comes back later.
func (s *world) gone(i int, c *computer) {
	s.m.Drop(c.id)
	if c.model >= 0 {
		delete(s.shelves[c.model].ready, i)
	}
	c.life++
	c.online, c.ghost, c.ready = false, false, false
	c.model = -1
	s.at(s.now+s.pareto(10*time.Minute, 1.0, 7*24*time.Hour), evJoin, i)
}

// check compares the map with our own record of model i, and looks for a route
// where all layers are covered: over every edge (node, a, e), without the
// code under test.
func (s *world) check(i int) error {
	s.res.Checks++
	m := &s.models[i]
	cover := make([]int, m.Layers)
	ends := make([][]int, m.Layers) // by first layer
	for _, r := range s.shelves[i].ready {
		ends[r.First] = append(ends[r.First], r.Last)
		for l := r.First; l < r.Last; l++ {
			cover[l]++
		}
	}
	v, err := s.m.View(m.ID)
	if err != nil {
		return err
	}
	if !slices.Equal(v.Ready, cover) {
		return fmt.Errorf("%s: the map counts %v, we count %v", m.Name, v.Ready, cover)
	}
	reach := make([]bool, m.Layers+1)
	reach[0] = true
	for a, here := range ends {
		for _, b := range here {
			for e := a + 1; reach[a] && e <= b; e++ {
				reach[e] = true
			}
		}
	}
	covered, route := slices.Min(cover) > 0, reach[m.Layers]
	if covered != route || route != (v.Routes > 0) || v.Routes != slices.Min(cover) {
		return fmt.Errorf("%s: least coverage %d, a route exists: %v, the map says %d routes", m.Name, slices.Min(cover), route, v.Routes)
	}
	s.noteRoute(i)
	return nil
}

// noteRoute measures how long a model that is asked for has had no route.
func (s *world) noteRoute(i int) {
	v, err := s.m.View(s.models[i].ID)
	if err != nil {
		return
	}
	if sh := &s.shelves[i]; sh.since >= 0 && v.Routes > 0 {
		s.rescues = append(s.rescues, s.now-sh.since)
		sh.since = -1
	}
}
