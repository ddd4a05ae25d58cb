package routing

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"neuron/engine/protocol"
)

// Explanation says why a request gets its route.
type Explanation struct {
	*Route
	Why string `json:"why"`
	// Next is the cheapest route that lacks at least one of the hops' shards;
	// it costs NextMicros more. Nil: there is none.
	Next       *Route `json:"next,omitempty"`
	NextMicros int64  `json:"next_us,omitempty"`
	// LeftOut are the shards that could not take part, at most maxLeftOut.
	LeftOut []LeftOut `json:"left_out"`
	// Shards counts all shards of the model, Out those that were left out.
	Shards int `json:"shards"`
	Out    int `json:"out"`
}

// LeftOut is a shard that could not take part.
type LeftOut struct {
	Node   protocol.NodeID `json:"node"`
	Loaded protocol.Range  `json:"loaded"`
	// Reason is policy, state, context, sessions, kv or shape.
	Reason string `json:"reason"`
	Text   string `json:"text"`
	// Fits is, for kv and context, the longest context that the shard could
	// take now, in tokens.
	Fits *int `json:"fits,omitempty"`
}

const maxLeftOut = 200

// Explain finds the route and says why. Errors are those of Refusal.
func (x *Index) Explain(r *Request) (*Explanation, error) {
	route := x.Find(r)
	if route == nil {
		return nil, x.Refusal(r)
	}
	ru := rules{headroom: route.Headroom}
	out := &Explanation{Route: route}
	for _, h := range x.best(r, ru, nil).hops {
		n := x.route(r, ru, []*entry{h.shard})
		if n != nil && (out.Next == nil || cmp.Or(cmp.Compare(n.TotalMicros, out.Next.TotalMicros), cmp.Compare(len(n.Hops), len(out.Next.Hops))) < 0) {
			out.Next = n
		}
	}
	if out.Next != nil {
		out.NextMicros = out.Next.TotalMicros - route.TotalMicros
	}
	out.LeftOut, out.Shards = x.leftOut(r, ru)
	out.Out = len(out.LeftOut)
	out.LeftOut = out.LeftOut[:min(len(out.LeftOut), maxLeftOut)]
	out.Why = why(out)
	return out, nil
}

// why puts the choice in words.
func why(e *Explanation) string {
	var b strings.Builder
	fmt.Fprintf(&b, "cheapest of all chains over %d shards", e.Shards-e.Out)
	switch {
	case e.Next == nil:
		b.WriteString("; without one of its shards there is no route")
	case e.NextMicros == 0 && len(e.Next.Hops) > len(e.Hops):
		b.WriteString("; the next best costs the same and has more hops")
	case e.NextMicros == 0:
		b.WriteString("; the next best costs the same, the order of node ids decides")
	default:
		fmt.Fprintf(&b, "; the next best costs %.1f ms per token more (%s)", float64(e.NextMicros)/1000, difference(e.Route, e.Next))
	}
	if !e.Headroom {
		b.WriteString("; it takes the last fifth of the KV memory of a node")
	}
	return b.String()
}

// factor is a named part of a cost.
type factor struct {
	name string
	us   int64
}

// factors lists the parts in the order of Cost.
func (c Cost) factors() []factor {
	return []factor{
		{"stage time", c.Stage}, {"round trips", c.Link}, {"hops", c.Overhead}, {"sessions", c.Load}, {"queue", c.Queue}, {"memory pressure", c.Memory},
		{"disk", c.Disk}, {"prefill", c.Prefill}, {"cached prefixes", c.Cache}, {"relay", c.Relay}, {"fairness", c.Fair},
	}
}

// String names the parts that are not zero.
func (c Cost) String() string {
	var out []string
	for _, f := range c.factors() {
		if f.us != 0 {
			out = append(out, fmt.Sprintf("%s %.1f ms", f.name, float64(f.us)/1000))
		}
	}
	return strings.Join(out, ", ")
}

func (r *Route) sum() Cost {
	c := Cost{Link: r.ReturnMicros}
	for _, h := range r.Hops {
		c.Stage += h.Cost.Stage
		c.Link += h.Cost.Link
		c.Overhead += h.Cost.Overhead
		c.Load += h.Cost.Load
		c.Queue += h.Cost.Queue
		c.Memory += h.Cost.Memory
		c.Disk += h.Cost.Disk
		c.Prefill += h.Cost.Prefill
		c.Cache += h.Cost.Cache
		c.Relay += h.Cost.Relay
		c.Fair += h.Cost.Fair
	}
	return c
}

// difference names the factors that make b dearer than a, the largest first.
func difference(a, b *Route) string {
	list := b.sum().factors()
	for i, f := range a.sum().factors() {
		list[i].us -= f.us
	}
	slices.SortStableFunc(list, func(x, y factor) int { return cmp.Compare(y.us, x.us) })
	var out []string
	for _, f := range list {
		if f.us > 0 && len(out) < 3 {
			out = append(out, fmt.Sprintf("%s %.1f ms", f.name, float64(f.us)/1000))
		}
	}
	return strings.Join(out, ", ")
}

// leftOut lists the shards that r cannot use, by first layer and node.
func (x *Index) leftOut(r *Request, ru rules) (out []LeftOut, all int) {
	q := &query{Request: r, x: x, rules: ru, cells: nextPow2(r.Context)}
	for _, list := range x.nodes {
		for _, e := range list {
			all++
			l := LeftOut{Node: e.Node, Loaded: e.Loaded, Reason: q.refuses(&e.Shard)}
			switch {
			case e.dead || len(e.ends) == 0:
				l.Reason, l.Text = "shape", "no route can use these layers: it takes no tokens, samples none, or holds part of a model that may not be cut"
			case l.Reason == "":
				continue
			default:
				l.Text, l.Fits = q.text(&e.Shard, l.Reason)
			}
			out = append(out, l)
		}
	}
	slices.SortFunc(out, func(a, b LeftOut) int {
		return cmp.Or(cmp.Compare(a.Loaded.First, b.Loaded.First), cmp.Compare(a.Node, b.Node), cmp.Compare(a.Loaded.Last, b.Loaded.Last))
	})
	return out, all
}

func (q *query) text(s *Shard, reason string) (string, *int) {
	switch reason {
	case outPolicy:
		if q.Only != nil {
			return "not one of the listed nodes of this private route", nil
		}
		return s.Barred, nil
	case outState:
		return s.state(q.Now), nil
	case outContext:
		fits := s.fits()
		return fmt.Sprintf("its longest context is %d tokens", s.MaxContext), &fits
	case outSessions:
		return fmt.Sprintf("%d of %d sessions", s.Sessions, s.MaxSessions), nil
	default:
		fits := s.fits()
		return fmt.Sprintf("free KV memory for a context of %d tokens", fits), &fits
	}
}

// fits is the longest context for which s has KV memory, using all of it.
func (s *Shard) fits() int {
	fits := 0
	for cells := 1; cells <= protocol.MaxContext && kvBytes(s, cells) <= s.FreeKV; cells *= 2 {
		fits = cells
	}
	return min(fits, s.MaxContext)
}

// Refusal says why there is no route for r, trying one filter after the other.
// Codes: invalid_request, context_length_exceeded and kv_budget (with "fits",
// the longest context that would get a route, and "asked"), no_route with a
// "reason": policy, sessions, cuts or layers.
func (x *Index) Refusal(r *Request) error {
	if r.Context < 1 {
		return protocol.Errorf(protocol.CodeInvalidRequest, "a context of %d tokens", r.Context)
	}
	if limit := x.limit(); r.Context > limit {
		return protocol.Errorf(protocol.CodeContextExceeded,
			"a context of %d tokens is longer than this model's %d", r.Context, limit).
			With("asked", itoa(r.Context)).With("fits", itoa(limit))
	}
	if r.Only != nil {
		public := *r
		public.Only = nil
		if !x.routable(r, roomy) && x.routable(&public, roomy) {
			return protocol.Errorf(protocol.CodeNoRoute,
				"a private route may use the %d listed nodes only, and they do not hold all layers; a public route exists", len(r.Only)).
				With("reason", outPolicy)
		}
	}
	if x.routable(r, rules{anySessions: true}) {
		return protocol.Errorf(protocol.CodeNoRoute,
			"all nodes that could carry the route are at their session limit").With("reason", outSessions)
	}
	if x.routable(r, roomy) {
		return x.tooLong(r)
	}
	missing, blocked := x.missingLayers(r)
	if len(missing) == 0 {
		return protocol.Errorf(protocol.CodeNoRoute,
			"all layers are held, but no chain of distinct nodes with one build and legal cuts covers them").With("reason", "cuts")
	}
	var names []string
	for _, m := range missing {
		names = append(names, m.String())
	}
	msg := fmt.Sprintf("no ready node holds layers %s of %d", strings.Join(names, ", "), x.Layers)
	if len(blocked) > 0 {
		msg += " (held, but not available: " + strings.Join(blocked, ", ") + ")"
	}
	return protocol.Errorf(protocol.CodeNoRoute, "%s", msg).With("reason", "layers").With("missing", strings.Join(names, ","))
}

// tooLong says which context would get a route.
func (x *Index) tooLong(r *Request) error {
	routable := func(context int) bool {
		shorter := *r
		shorter.Context, shorter.Prompt = context, 0
		return x.routable(&shorter, rules{anySessions: true})
	}
	// KV memory comes in powers of two; the longest context of a shard can be
	// any number, and only those numbers and powers can be the answer.
	tries := []int{}
	for cells := nextPow2(r.Context) / 2; cells >= 1; cells /= 2 {
		tries = append(tries, cells)
	}
	for _, list := range x.nodes {
		for _, e := range list {
			if c := e.MaxContext; c > 0 && c < r.Context {
				tries = append(tries, c)
			}
		}
	}
	slices.Sort(tries)
	tries = slices.Compact(tries)
	// A shorter context fits wherever a longer one does.
	at, _ := slices.BinarySearchFunc(tries, true, func(c int, _ bool) int {
		if routable(c) {
			return -1
		}
		return 1
	})
	fits := 0
	if at > 0 {
		fits = tries[at-1]
	}
	code, msg := protocol.CodeKVBudget, "the nodes have no KV memory left for a session"
	switch {
	case fits > 0 && !x.routable(r, rules{anyKV: true, anySessions: true}):
		code = protocol.CodeContextExceeded
		msg = fmt.Sprintf("the nodes that hold these layers take contexts of at most %d tokens, not of %d", fits, r.Context)
	case fits > 0:
		msg = fmt.Sprintf("the nodes have KV memory for a context of %d tokens, not of %d", fits, r.Context)
	}
	return protocol.Errorf(code, "%s", msg).With("asked", itoa(r.Context)).With("fits", itoa(fits))
}

// missingLayers lists the ranges that no usable shard covers, and why shards
// that hold some of them cannot be used.
func (x *Index) missingLayers(r *Request) (missing []protocol.Range, reasons []string) {
	q := &query{Request: r, x: x, rules: roomy}
	covered := make([]bool, x.Layers)
	for _, list := range x.nodes {
		for _, e := range list {
			if q.usable(e) {
				for l := e.Loaded.First; l < e.Loaded.Last; l++ {
					covered[l] = true
				}
			}
		}
	}
	for l := 0; l < x.Layers; l++ {
		if covered[l] {
			continue
		}
		if k := len(missing); k > 0 && missing[k-1].Last == l {
			missing[k-1].Last = l + 1
		} else {
			missing = append(missing, protocol.Range{First: l, Last: l + 1})
		}
	}
	for _, list := range x.nodes {
		for _, e := range list {
			overlaps := slices.ContainsFunc(missing, func(m protocol.Range) bool {
				return m.First < e.Loaded.Last && e.Loaded.First < m.Last
			})
			if reason := q.refuses(&e.Shard); reason != "" && overlaps {
				text, _ := q.text(&e.Shard, reason)
				reasons = append(reasons, text)
			}
		}
	}
	slices.Sort(reasons)
	reasons = slices.Compact(reasons)
	return missing, reasons[:min(len(reasons), 8)]
}
