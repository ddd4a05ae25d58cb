package sim

import (
	"fmt"
	"math"
	"slices"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/placement"
)

const (
	mb = 1_000_000
	gb = 1_000 * mb
)

// shapes are models as they are published, at about four and a half bits a
// weight: layers, bytes of a layer, KV bytes of a position in it, bytes at
// either end.
var shapes = []struct {
	layers        int
	layer, kv, at int64
}{
	{16, 40 * mb, 2 << 10, 160 * mb},   // 1B
	{28, 55 * mb, 1 << 10, 250 * mb},   // 2B
	{32, 125 * mb, 4 << 10, 300 * mb},  // 8B
	{40, 180 * mb, 4 << 10, 400 * mb},  // 14B
	{64, 270 * mb, 4 << 10, 600 * mb},  // 32B
	{80, 490 * mb, 4 << 10, 700 * mb},  // 70B
	{48, 1300 * mb, 2 << 10, 500 * mb}, // 110B, experts
	{61, 6 * gb, 2 << 10, 1 * gb},      // 650B, experts
}

func (s *world) makeModels() error {
	s.demand = make([]float64, s.o.Models)
	for i := range s.o.Models {
		// Small ones are many.
		sh := shapes[min(int(s.rng.ExpFloat64()*2.5), len(shapes)-1)]
		m := placement.Model{
			ID: protocol.ModelID(fmt.Sprintf("%064x", i+1)), Name: fmt.Sprintf("model-%03d", i), Layers: sh.layers,
			LayerBytes: make([]int64, sh.layers), KVLayerBytes: slices.Repeat([]int64{sh.kv}, sh.layers),
			HeaderBytes: 6 * mb, AllBytes: 1024, HeadBytes: sh.at / 2, TailBytes: sh.at / 2, ComputeBytes: 300 * mb,
		}
		for l := range m.LayerBytes {
			// Mixed quantisation: some layers are larger.
			m.LayerBytes[l] = sh.layer + int64(s.rng.Float64()*0.2*float64(sh.layer))
		}
		switch k := s.rng.IntN(20); {
		case k == 0 && sh.layers <= 32:
			m.WholeOnly = true
		case k <= 2: // cut at multiples of four layers only
			m.Ends = make([][]placement.Span, m.Layers)
			for a := 0; a < m.Layers; a += 4 {
				for b := a + 4; b < m.Layers; b += 4 {
					m.Ends[a] = append(m.Ends[a], placement.Span{From: b, To: b})
				}
				m.Ends[a] = append(m.Ends[a], placement.Span{From: m.Layers, To: m.Layers})
			}
		}
		if err := s.m.SetModel(m); err != nil {
			return err
		}
		s.models = append(s.models, m)
		s.shelves = append(s.shelves, shelf{ready: make(map[int]protocol.Range), since: -1})
	}
	for rank, i := range s.rng.Perm(s.o.Models) {
		if rank >= s.o.Models*4/5 && rank > 0 {
			continue // nobody asks, yet
		}
		s.demand[i] = 100 / math.Pow(float64(rank+1), 1.1)
		s.m.SetDemand(s.models[i].ID, s.demand[i])
	}
	return nil
}

func (s *world) makeComputers() {
	for i := range s.o.Nodes * 3 / 2 {
		memory := int64(8 * gb)
		switch p := s.rng.Float64(); {
		case p < 0.1:
			memory = 64 * gb
		case p < 0.3:
			memory = 32 * gb
		case p < 0.7:
			memory = 16 * gb
		}
		speed := s.lognormal(22*gb, 0.5, 80*gb)
		if s.rng.IntN(20) == 0 {
			speed = s.lognormal(3*gb, 0.4, 6*gb)
		}
		c := &computer{id: protocol.NodeIDOf(fmt.Appendf(nil, "computer %d of %d", i, s.o.Seed)), model: -1, offer: protocol.Offer{
			// What other programs leave, less headroom.
			Memory:   int64(float64(memory) * (0.3 + 0.35*s.rng.Float64())),
			Disk:     s.lognormal(80*gb, 0.8, 2000*gb),
			DownRate: s.lognormal(8*mb, 1, 120*mb),
			Speed:    speed,
		}}
		s.all = append(s.all, c)
		if i < s.o.Nodes {
			s.at(s.between(0, 30*time.Minute), evJoin, i)
		} else {
			s.at(s.between(30*time.Minute, 12*time.Hour), evJoin, i)
		}
	}
}

func (s *world) between(a, b time.Duration) time.Duration {
	return a + time.Duration(s.rng.Int64N(int64(b-a)))
}

func (s *world) lognormal(median, sigma, limit float64) int64 {
	return int64(min(median*math.Exp(sigma*s.rng.NormFloat64()), limit))
}

// pareto draws a heavy-tailed time: most are short, a few last days.
func (s *world) pareto(least time.Duration, alpha float64, limit time.Duration) time.Duration {
	return time.Duration(min(float64(least)/math.Pow(1-s.rng.Float64(), 1/alpha), float64(limit)))
}

// bytes is what a range takes on a disk.
func (s *world) bytes(model int, r protocol.Range) int64 {
	m := &s.models[model]
	n := m.HeaderBytes + m.AllBytes
	if r.First == 0 {
		n += m.HeadBytes
	}
	if r.Last == m.Layers {
		n += m.TailBytes
	}
	for _, b := range m.LayerBytes[r.First:r.Last] {
		n += b
	}
	return n
}

// keepOnDisk puts the computer's range on its disk; the oldest ranges make
// room.
func (s *world) keepOnDisk(c *computer) {
	c.disk = slices.DeleteFunc(c.disk, func(d cached) bool { return d.model == c.model && c.r.Contains(d.r) })
	c.disk = append(c.disk, cached{c.model, c.r})
	sum := int64(0)
	for i := len(c.disk) - 1; i >= 0; i-- {
		if sum += s.bytes(c.disk[i].model, c.disk[i].r); sum > c.offer.Disk && i < len(c.disk)-1 {
			c.disk = slices.Delete(c.disk, 0, i+1)
			return
		}
	}
}

func (s *world) heldBy(c *computer) []protocol.HeldLayers {
	var out []protocol.HeldLayers
	for _, d := range c.disk {
		id := s.models[d.model].ID
		if i := slices.IndexFunc(out, func(h protocol.HeldLayers) bool { return h.Model == id }); i >= 0 {
			out[i].Ranges = append(out[i].Ranges, d.r)
			continue
		}
		out = append(out, protocol.HeldLayers{Model: id, Ranges: []protocol.Range{d.r}})
	}
	return out
}

// hourly looks at everything once, writes a row and lets demand change.
func (s *world) hourly() error {
	hour := int(s.now / time.Hour)
	row := s.hour
	s.hour = Row{}
	row.Hour = hour
	for i, c := range s.all {
		if !c.online {
			continue
		}
		row.Online++
		if c.ready && !c.ghost {
			row.Serving++
		}
		// Nobody but the node itself changes what it holds.
		if held := s.m.Held(c.id); c.model >= 0 && (len(held) != 1 || held[0].Model != s.models[c.model].ID || held[0].Range != c.r) {
			return fmt.Errorf("computer %d holds %s of %s, the map says %v", i, c.r, s.models[c.model].Name, held)
		}
	}
	total := 0.0
	for i := range s.models {
		v, err := s.m.View(s.models[i].ID)
		if err != nil {
			return err
		}
		if err := s.checkRoutes(i, v); err != nil {
			return err
		}
		row.Routes += v.Routes
		row.Weighted += v.Weighted
		row.Boundaries += float64(v.Boundaries) / float64(len(s.models))
		if s.demand[i] > 0 {
			row.Asked++
			total += s.demand[i]
			if v.Routes > 0 {
				row.Routable++
				row.Demand += s.demand[i]
			}
		}
	}
	row.Demand /= max(total, 1e-9)
	s.res.Rows = append(s.res.Rows, row)
	s.print(&row)
	if hour == s.o.Hours {
		return nil
	}
	return s.drift(hour)
}

// drift lets demand change, and wakes up models.
func (s *world) drift(hour int) error {
	for i, d := range s.demand {
		if d > 0 {
			s.demand[i] = min(d*math.Exp(0.2*s.moods.NormFloat64()), 1000)
		} else if hour%6 == 0 && s.moods.IntN(3) == 0 {
			// Suddenly everybody wants it.
			s.demand[i] = 50
			v, err := s.m.View(s.models[i].ID)
			if err != nil {
				return err
			}
			if v.Routes == 0 {
				s.shelves[i].since = s.now
			}
		}
		s.m.SetDemand(s.models[i].ID, s.demand[i])
	}
	return nil
}

// checkRoutes holds the listed routes against our own record: distinct nodes,
// front parts of what they hold, all layers once.
func (s *world) checkRoutes(i int, v *placement.View) error {
	routes, err := s.m.Routes(v.Model)
	if err != nil {
		return err
	}
	held := make(map[protocol.NodeID]protocol.Range, len(s.shelves[i].ready))
	for n, r := range s.shelves[i].ready {
		held[s.all[n].id] = r
	}
	for _, route := range routes {
		at := 0
		for _, u := range route {
			h, ok := held[u.Node]
			if !ok || u.Use.First != at || h.First != at || u.Use.Last > h.Last || u.Use.Len() < 1 {
				return fmt.Errorf("%s: hop %+v at layer %d, the node holds %s (%v)", v.Name, u, at, h, ok)
			}
			delete(held, u.Node) // once
			at = u.Use.Last
		}
		if at != v.Layers {
			return fmt.Errorf("%s: a route ends at layer %d", v.Name, at)
		}
	}
	if len(routes) != v.Routes {
		return fmt.Errorf("%s: %d routes are listed, %d counted", v.Name, len(routes), v.Routes)
	}
	return nil
}
