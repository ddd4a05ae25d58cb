package placement

import (
	"cmp"
	"math"
	"slices"
	"time"

	"neuron/engine/protocol"
)

// Reason says why a node gets its range.
type Reason string

// The reasons.
const (
	ReasonAsked   Reason = "asked"   // its owner chose it
	ReasonKeep    Reason = "keep"    // it has this range, and keeps it
	ReasonMissing Reason = "missing" // the model is asked for and layers are missing
	ReasonRoute   Reason = "route"   // completes one more route
	ReasonPart    Reason = "part"    // brings a part of the next route
	ReasonSpare   Reason = "spare"   // nobody asks for a model that would fit
)

// Join is a node that asks what to hold. Map knows its present shards by Put.
type Join struct {
	Node    protocol.NodeID
	Build   protocol.Build
	Request protocol.PlaceRequest
	Now     time.Time
}

// Choice is a range that a node could take.
type Choice struct {
	Model protocol.ModelID `json:"model"`
	Name  string           `json:"name"`
	Range protocol.Range   `json:"range"`
	// FetchBytes is what the node has to fetch, without boundary pieces.
	FetchBytes int64  `json:"fetch_bytes"`
	Reason     Reason `json:"reason"`
	// Fill is the part of the layers that hold up the next route, by bytes.
	Fill float64 `json:"fill"`
	// Score is comparable between models: demand over the routes that are
	// planned, times the part that the range brings.
	Score float64 `json:"score"`

	urgent bool
}

// Decision is the answer to a Join.
type Decision struct {
	Choice
	// RoutesBefore and RoutesAfter count the model's planned routes of distinct
	// nodes, with the node's own present range left out of the former.
	RoutesBefore int `json:"routes_before"`
	RoutesAfter  int `json:"routes_after"`
	// Text says why, in one sentence.
	Text string `json:"text"`
	// Alternatives are the best ranges of up to three other models.
	Alternatives []Choice `json:"alternatives,omitempty"`
}

// Worth of a boundary: ranges that meet at few points leave less to early
// exits, which cost memory and bandwidth. grid is the number of parts whose
// boundaries are the next best.
const (
	newBound  = 0.85
	gridBound = 0.95
	grid      = 16
)

// slowDown is the rate of downloads that is taken when none is known.
const slowDown = 2_000_000 // bytes per second

// seek is one decision being made.
type seek struct {
	m     *Map
	j     *Join
	step  int64 // most bytes of weights that one step may read
	held  map[protocol.ModelID]*onDisk
	limit map[protocol.ModelID]int64 // memory, after refusals
	disk  map[protocol.ModelID]int64
	cur   *Shard // the range that the node has and would have to leave
}

// Decide says what a node should hold. It changes nothing: no decision moves
// another node, and the caller Puts what the node accepts. A node that has a
// range keeps it unless no route needs it and something else is worth far more.
// The request must have passed CheckRequest. Errors: model_not_found (no such
// model, or an empty catalog), range_invalid, model_whole_only, does_not_fit,
// disk_full.
func (m *Map) Decide(j Join) (*Decision, error) {
	s := m.newSeek(&j)
	// The node's own shards do not count towards what is there without it.
	if n := m.nodes[j.Node]; n != nil {
		for i := range n.Shards {
			if sh := &n.Shards[i]; covers(sh.State) && m.byID[sh.Model] != nil && (s.cur == nil || sh.Range.Len() > s.cur.Range.Len()) {
				s.cur = sh
			}
		}
		m.count(n, -1)
		defer m.count(n, 1)
	}
	models := m.models
	if r := &j.Request; r.Model != "" {
		e := m.find(r.Model)
		if e == nil {
			return nil, unknown(protocol.ModelID(r.Model))
		}
		if r.Range != nil {
			return s.asked(e, *r.Range)
		}
		models = []*entry{e}
	}
	if len(models) == 0 {
		return nil, protocol.Errorf(protocol.CodeModelUnknown, "the catalog is empty")
	}
	all := s.choices(models)
	if len(all) == 0 {
		return nil, s.nothing(models)
	}
	best := all[0]
	if keep, ok := s.keep(&best); ok {
		best = keep
	}
	return s.decision(best, all), nil
}

// alternatives is how many choices besides the best one are shown.
const alternatives = 3

// wanted is a model with what a whole route of it is worth.
type wanted struct {
	e      *entry
	c      *cover
	base   float64
	urgent bool
}

// choices lists the best ranges of the models that come first, best first: as
// many as are shown.
func (s *seek) choices(models []*entry) []Choice {
	order := s.m.scratch[:0]
	for _, e := range models {
		w := wanted{e: e, c: e.cover(s.j.Build)}
		w.base, w.urgent = s.base(e, w.c)
		order = append(order, w)
	}
	s.m.scratch = order
	slices.SortFunc(order, func(a, b wanted) int {
		if a.urgent != b.urgent {
			if a.urgent {
				return -1
			}
			return 1
		}
		return cmp.Or(cmp.Compare(b.base, a.base), cmp.Compare(a.e.ID, b.e.ID))
	})
	all := make([]Choice, 0, alternatives+2)
	for i := range order {
		w, floor := &order[i], 0.0
		if len(all) > alternatives {
			last := &all[alternatives]
			if last.urgent == w.urgent {
				floor = last.Score
			}
			// No range is worth more than base.
			if last.urgent && !w.urgent || w.base < floor {
				continue
			}
		}
		if c, ok := s.best(w, floor); ok {
			i, _ := slices.BinarySearchFunc(all, c, compareChoices)
			all = slices.Insert(all, i, c)
			all = all[:min(len(all), alternatives+1)]
		}
	}
	return all
}

// find takes a model id or a display name; of several with one name the one
// that is wanted most, then the smaller id.
func (m *Map) find(name string) *entry {
	if e := m.byID[protocol.ModelID(name)]; e != nil {
		return e
	}
	var best *entry
	for _, e := range m.models {
		if e.Name == name && (best == nil || e.demand > best.demand) {
			best = e
		}
	}
	return best
}

func (m *Map) newSeek(j *Join) *seek {
	s := &seek{m: m, j: j, step: math.MaxInt64}
	if o := &j.Request.Offer; o.Speed > 0 {
		s.step = int64(float64(o.Speed) * m.cfg.MaxStep.Seconds())
	}
	for _, h := range j.Request.Held {
		if e := m.byID[h.Model]; e != nil {
			if s.held == nil {
				s.held = make(map[protocol.ModelID]*onDisk)
			}
			s.held[h.Model] = diskOf(e, h.Ranges)
		}
	}
	for _, f := range j.Request.Refused {
		if e := m.byID[f.Model]; e != nil && f.Range.Valid(e.Layers) && f.Error != nil {
			s.refused(e, f)
		}
	}
	return s
}

// best is the best range of one model; false when none fits, or none is worth
// floor.
func (s *seek) best(w *wanted, floor float64) (Choice, bool) {
	e, c, base := w.e, w.c, w.base
	memory, disk := s.room(e)
	have := s.held[e.ID]
	best := Choice{Model: e.ID, Name: e.Name, Score: -1}
	grid := max(1, e.Layers/grid)
	reach := 0
	for a := range e.Layers {
		reach = s.reach(e, a, reach, memory, disk)
		last := s.longest(e, a, reach, memory, disk)
		if last == 0 {
			continue
		}
		// A shorter range never brings more. Missing layers come before scores,
		// so a start with some is not left out for one without.
		fills := w.urgent && c.fill(a, last) > 0
		if most := base * c.share(a, last); most < floor || fills == best.urgent && most < best.Score || best.urgent && !fills {
			continue
		}
		// The longest one; one that ends where others do; one that ends on the
		// grid; one that fills the next hole only; one that is on the disk.
		ends := [...]int{last, c.used[last], last / grid * grid, c.runEnd[a], have.end(a)}
		for i, b := range ends {
			if b <= a || b > last || slices.Contains(ends[:i], b) || !e.legal(a, b) {
				continue
			}
			ch := Choice{Range: protocol.Range{First: a, Last: b}, Fill: c.fill(a, b), FetchBytes: fetch(e, have, a, b)}
			ch.urgent = w.urgent && ch.Fill > 0
			ch.Score = base * s.worth(e, c, have, &ch)
			if best.Score < 0 || ch.before(&best) {
				best.Range, best.Fill, best.FetchBytes, best.urgent, best.Score = ch.Range, ch.Fill, ch.FetchBytes, ch.urgent, ch.Score
			}
		}
	}
	if best.Score < 0 {
		return best, false
	}
	best.Reason = s.reason(e, c, &best)
	return best, true
}

// base is what a whole route of the model is worth: the demand over the routes
// that are planned already, weighted by speed, one more counted (D'Hondt's
// rule, so that routes spread as demand does). A model that is asked for and
// has layers that nobody holds comes first, as long as the network could hold
// what is missing.
func (s *seek) base(e *entry, c *cover) (base float64, urgent bool) {
	routes, weak := e.totals()
	base = (e.demand + idle) / (1 + float64(weak)/weightUnits)
	if e.demand > 0 && routes == 0 {
		missing := int64(0)
		for l, n := range c.planned {
			if n == 0 {
				missing += e.LayerBytes[l]
			}
		}
		known := s.m.memory
		if s.m.nodes[s.j.Node] == nil {
			known += s.j.Request.Offer.Memory
		}
		urgent = missing <= known
	}
	return base, urgent
}

// idle is the demand of a model that nobody asks for: it orders such models
// among themselves.
const idle = 1e-9

// worth is the part of the next route that a range brings, less for new
// boundaries and for a long time of fetching.
func (s *seek) worth(e *entry, c *cover, have *onDisk, ch *Choice) float64 {
	a, b := ch.Range.First, ch.Range.Last
	rate := s.j.Request.Offer.DownRate
	if rate == 0 {
		rate = slowDown
	}
	wait := float64(ch.FetchBytes) / float64(rate) / s.m.cfg.Patience.Seconds()
	return c.share(a, b) * bound(e, c, have, a) * bound(e, c, have, b) / (1 + wait)
}

// bound is what a boundary is worth. One that the node had before counts like
// one in use: others have met it, or will be back.
func bound(e *entry, c *cover, have *onDisk, b int) float64 {
	switch {
	case b == 0 || b == e.Layers || c.bounds[b] > 0 || have.bound(b):
		return 1
	case b%max(1, e.Layers/grid) == 0:
		return gridBound
	}
	return newBound
}

// fetch is what a node with these layers on its disk has to fetch for [a, b).
func fetch(e *entry, have *onDisk, a, b int) int64 {
	n := e.weight(a, b) + e.HeaderBytes
	if have != nil && have.sums[b] > have.sums[a] {
		// Where layers are, the header is.
		n -= have.sums[b] - have.sums[a] + e.HeaderBytes + e.AllBytes
	}
	return max(0, n)
}

func (s *seek) reason(e *entry, c *cover, ch *Choice) Reason {
	switch {
	case ch.urgent:
		return ReasonMissing
	case e.demand == 0:
		return ReasonSpare
	case least(c.planned, ch.Range, 1) > c.level:
		return ReasonRoute
	}
	return ReasonPart
}

// before orders the ranges of one model: those that fill missing layers first,
// then score, then less to fetch, then lower layers.
func (ch *Choice) before(o *Choice) bool {
	switch {
	case ch.urgent != o.urgent:
		return ch.urgent
	case ch.Score != o.Score:
		return ch.Score > o.Score
	case ch.FetchBytes != o.FetchBytes:
		return ch.FetchBytes < o.FetchBytes
	case ch.Range.First != o.Range.First:
		return ch.Range.First < o.Range.First
	}
	return ch.Range.Last < o.Range.Last
}

// compareChoices orders: models that lack layers first, then score, then less
// to fetch, then names.
func compareChoices(a, b Choice) int {
	if a.urgent != b.urgent {
		if a.urgent {
			return -1
		}
		return 1
	}
	return cmp.Or(cmp.Compare(b.Score, a.Score), cmp.Compare(a.FetchBytes, b.FetchBytes),
		cmp.Compare(a.Model, b.Model), cmp.Compare(a.Range.First, b.Range.First), cmp.Compare(a.Range.Last, b.Range.Last))
}

// keep says whether the node's present range stays. It goes when it no longer
// fits or exists; or when no route needs it, the node has had it long enough,
// and best fills a hole or is worth far more.
func (s *seek) keep(best *Choice) (Choice, bool) {
	if s.cur == nil || s.j.Request.Model != "" && s.m.find(s.j.Request.Model) != s.m.byID[s.cur.Model] {
		return Choice{}, false
	}
	e, r := s.m.byID[s.cur.Model], s.cur.Range
	if !e.legal(r.First, r.Last) {
		return Choice{}, false
	}
	if memory, disk := s.room(e); !s.fits(e, r.First, r.Last, memory, disk, math.MaxInt64) {
		return Choice{}, false
	}
	c := e.cover(s.j.Build)
	base, urgent := s.base(e, c)
	ch := Choice{Model: e.ID, Name: e.Name, Range: r, Reason: ReasonKeep, Fill: c.fill(r.First, r.Last)}
	ch.urgent = urgent && ch.Fill > 0
	ch.Score = base * s.worth(e, c, s.held[e.ID], &ch)
	// Without it, is a route less planned?
	needed := least(c.planned, r, 1) > c.level || ch.urgent
	if needed || s.j.Now.Sub(s.cur.Since) < s.m.cfg.MinStay || best.Model == ch.Model && best.Range == r {
		return ch, true
	}
	return ch, !best.urgent && best.Score < s.m.cfg.MoveFactor*ch.Score
}
