package registry

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/routing"
)

// shape is what all shards of one model must agree on. Nodes may lie or be
// broken; the shape that most nodes report is the model's.
type shape struct {
	Name         string
	Architecture string
	Layers       int
	Width        int
}

type modelKey struct {
	id protocol.ModelID
	sh shape
}

// model are the shards that agree on one shape. It is kept up to date node by
// node, so that a route request finds its index ready.
type model struct {
	modelKey
	holders map[*member]holding
	// ready counts the nodes with a ready shard: those are measured on a real
	// stage, the others only promised.
	ready int
	ix    *routing.Index
}

// holding is what one node has of a model.
type holding struct {
	shards []*protocol.ShardReport
	ready  bool
}

// refresh brings what n holds into the models, after any change of n. A member
// that is no longer in the registry is taken out.
func (r *Registry) refresh(n *member) {
	now := make(map[modelKey]holding)
	if n.report != nil && n.Role == protocol.RoleNode && !n.gone {
		for i := range n.report.Shards {
			s := &n.report.Shards[i]
			c := &s.Capability
			k := modelKey{c.Model, shape{c.Name, c.Architecture, c.Layers, c.Width}}
			if published := r.catalog[c.Model]; published != nil {
				if !published.fits(s) {
					continue
				}
				k.sh = published.shape()
			}
			h := now[k]
			h.shards = append(h.shards, s)
			h.ready = h.ready || s.State == protocol.ShardReady
			now[k] = h
		}
	}
	for _, m := range n.models {
		if _, still := now[m.modelKey]; !still {
			r.take(m, n)
		}
	}
	n.models = n.models[:0]
	for k, h := range now {
		m := r.models[k]
		if m == nil {
			m = &model{modelKey: k, holders: make(map[*member]holding), ix: routing.NewIndex(k.id, k.sh.Name, k.sh.Layers, r.links)}
			r.models[k] = m
			r.byID[k.id] = append(r.byID[k.id], m)
			r.byName[k.sh.Name] = append(r.byName[k.sh.Name], m)
			if p := r.catalog[k.id]; p != nil {
				m.ix.Trained = p.Context
			}
		}
		if m.holders[n].ready {
			m.ready--
		}
		if h.ready {
			m.ready++
		}
		m.holders[n] = h
		n.models = append(n.models, m)
		shards := make([]routing.Shard, len(h.shards))
		for i, s := range h.shards {
			shards[i] = r.shard(n, s)
		}
		m.ix.Put(n.ID, shards)
	}
}

// take removes n from m, and m when nobody holds it any more.
func (r *Registry) take(m *model, n *member) {
	if m.holders[n].ready {
		m.ready--
	}
	delete(m.holders, n)
	m.ix.Put(n.ID, nil)
	if len(m.holders) > 0 {
		return
	}
	delete(r.models, m.modelKey)
	isM := func(o *model) bool { return o == m }
	if r.byID[m.id] = slices.DeleteFunc(r.byID[m.id], isM); len(r.byID[m.id]) == 0 {
		delete(r.byID, m.id)
	}
	if r.byName[m.sh.Name] = slices.DeleteFunc(r.byName[m.sh.Name], isM); len(r.byName[m.sh.Name]) == 0 {
		delete(r.byName, m.sh.Name)
	}
}

// shapeOf picks the shape of a model: that of its manifest where the catalog
// has one, else the majority's. Ties go to the smaller shape. Nil: nobody holds
// the model.
func (r *Registry) shapeOf(id protocol.ModelID) *model {
	var best *model
	for _, m := range r.byID[id] {
		if best == nil || betterShape(m, best) {
			best = m
		}
	}
	return best
}

func betterShape(a, b *model) bool {
	return cmp.Or(
		cmp.Compare(b.ready, a.ready), cmp.Compare(len(b.holders), len(a.holders)),
		cmp.Compare(a.sh.Layers, b.sh.Layers), cmp.Compare(a.sh.Width, b.sh.Width),
		cmp.Compare(a.sh.Name, b.sh.Name), cmp.Compare(a.sh.Architecture, b.sh.Architecture)) < 0
}

// find resolves a model id or a display name. Several models may carry one
// name: a published one wins, then the one on most nodes, then the smaller id.
func (r *Registry) find(name string) *model {
	unheld := func(p *Published) *model {
		ix := routing.NewIndex(p.Model, p.Name, p.Layers, routing.NewLinks())
		ix.Trained = p.Context
		return &model{modelKey: modelKey{p.Model, p.shape()}, ix: ix}
	}
	if m := r.shapeOf(protocol.ModelID(name)); m != nil {
		return m
	}
	if p := r.catalog[protocol.ModelID(name)]; p != nil {
		return unheld(p)
	}
	published := func(m *model) int {
		if r.catalog[m.id] != nil {
			return 1
		}
		return 0
	}
	var best *model
	offer := func(m *model) {
		if best == nil || cmp.Or(cmp.Compare(published(best), published(m)),
			cmp.Compare(len(best.holders), len(m.holders)), cmp.Compare(m.id, best.id)) < 0 {
			best = m
		}
	}
	for _, m := range r.byName[name] {
		if r.shapeOf(m.id) == m {
			offer(m)
		}
	}
	for id, p := range r.catalog {
		if p.Name == name && r.byID[id] == nil {
			offer(unheld(p))
		}
	}
	return best
}

// Index gives the routing view of a model, found by id or display name. It
// changes with the registry and is guarded as the registry is. Error:
// model_not_found.
func (r *Registry) Index(name string) (*routing.Index, error) {
	m := r.find(name)
	if m == nil {
		return nil, protocol.Errorf(protocol.CodeModelUnknown, "no node reports the model %.80q, and the catalog does not have it", name)
	}
	return m.ix, nil
}

// shard is the routing view of a shard.
func (r *Registry) shard(n *member, s *protocol.ShardReport) routing.Shard {
	c := &s.Capability
	out := routing.Shard{
		Node: n.ID, Addr: n.Addr, Loaded: c.Loaded, Exits: c.Exits, Head: c.Head, Tail: c.Tail,
		WholeOnly: c.WholeOnly != "", Build: n.Build,
		StepMicros: s.StepMicros, ChunkMicros: s.ChunkMicros, ChunkRows: c.ChunkRows,
		FreeKV: s.FreeKVBytes, KVPerCell: c.KVBytesPerCell, Memory: c.Memory, Seam: c.SeamName(), Halves: slices.Contains(c.DTypes, protocol.DTypeF16.String()), MaxContext: c.MaxContext,
		Sessions: s.Sessions, MaxSessions: s.MaxSessions, Queue: s.Queue,
		Pressure: int64(n.report.MemoryPressure * 1000), DiskPressure: diskPressure(n.report.FreeDisk),
		Cached: s.Prefixes, Recent: r.recentOf(n.ID), Barred: r.barredOf(n.ID),
		Blocked: blocked(n, s), Until: n.reported.Add(r.cfg.drainAfter()),
	}
	for _, p := range r.promised[n.ID] {
		if p.model == c.Model && p.first == c.Loaded.First {
			out.FreeKV -= p.bytes
			out.Sessions++
		}
	}
	return out
}

// easyDisk is free disk space that is enough.
const easyDisk = 4 << 30

// diskPressure is 0 with easyDisk free and 1000 with nothing, also when nobody
// measured it.
func diskPressure(free int64) int64 {
	return 1000 - min(free, easyDisk)*1000/easyDisk
}

// blocked says why a shard takes no new session, or is "". That reports are
// missing is not its subject, see routing.Shard.Until.
func blocked(n *member, s *protocol.ShardReport) string {
	c := &s.Capability
	switch st, _ := n.state(); {
	case st == StateOff:
		return "sharing off"
	case st != StateReady:
		return string(st)
	case s.State != protocol.ShardReady:
		return string(s.State)
	case c.Build != (protocol.Build{}) && c.Build != n.Build:
		return "shard and engine differ in build"
	case len(c.DTypes) > 0 && !slices.Contains(c.DTypes, protocol.DTypeF32.String()):
		return "no f32 seam"
	default:
		return ""
	}
}

// recent counts the sessions that a node was given; it halves every fairHalf.
type recent struct {
	count float64
	at    time.Time
}

const fairHalf = time.Minute

func (u recent) now(t time.Time) float64 {
	return u.count * math.Exp2(-max(0, t.Sub(u.at)).Seconds()/fairHalf.Seconds())
}

func (r *Registry) recentOf(id protocol.NodeID) int {
	u, ok := r.recent[id]
	if !ok {
		return 0
	}
	return int(math.Round(u.now(r.now)))
}

// Given notes that a node was given a session, so that its equals get the next
// ones.
func (r *Registry) Given(now time.Time, id protocol.NodeID) {
	r.tick(now)
	r.recent[id] = recent{r.recent[id].now(now) + 1, now}
	r.changed(id)
}

// Bar keeps a node out of public routes, for the reason that why tells; "" lets
// it in again.
func (r *Registry) Bar(id protocol.NodeID, why string) {
	if why == "" {
		delete(r.barred, id)
	} else {
		r.barred[id] = why
	}
	r.version++
	r.changed(id)
}

// barredOf says why public routes leave a node out, or is "".
func (r *Registry) barredOf(id protocol.NodeID) string {
	return cmp.Or(r.barred[id], r.limits[id].Waits)
}

// Limit is what the operator has said of a node.
type Limit struct {
	Waits   string // why public routes leave it out, or ""
	Drained string // why it gets no new session of any kind, or ""
}

// Limit keeps what the operator has said of a node until the node is removed; it
// is told again before each Join. It is apart from Bar: neither takes the other
// back.
func (r *Registry) Limit(id protocol.NodeID, l Limit) {
	if r.limits[id] == l {
		return
	}
	if l == (Limit{}) {
		delete(r.limits, id)
	} else {
		r.limits[id] = l
	}
	if n := r.members[memberKey{id, protocol.RoleNode}]; n != nil {
		n.drained = l.Drained
	}
	r.version++
	r.changed(id)
}

// changed refreshes a node, if it is known.
func (r *Registry) changed(id protocol.NodeID) {
	if n := r.members[memberKey{id, protocol.RoleNode}]; n != nil {
		r.refresh(n)
	}
}

// Models lists the models that any node reports, by name and id, with
// coverage: Replicas counts each ready node once per layer.
func (r *Registry) Models(now time.Time) []protocol.ModelInfo {
	out := make([]protocol.ModelInfo, 0, len(r.byID))
	for _, id := range slices.Sorted(maps.Keys(r.byID)) {
		m := r.shapeOf(id)
		info := protocol.ModelInfo{
			Model: id, Name: m.sh.Name, Architecture: m.sh.Architecture, Layers: m.sh.Layers,
			Context: min(m.ix.MaxContext(), protocol.MaxContext), Replicas: m.ix.Replicas(now), Routable: m.ix.Connected(now),
		}
		for n := range m.holders {
			if n.reported.After(info.Seen) {
				info.Seen = n.reported
			}
		}
		out = append(out, info)
	}
	slices.SortStableFunc(out, func(a, b protocol.ModelInfo) int { return cmp.Compare(a.Name, b.Name) })
	return out
}
