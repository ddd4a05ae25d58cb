package web

import (
	"cmp"
	"fmt"
	"slices"

	"neuron/engine/protocol"
	"neuron/tracker-server/registry"
)

// Severity says how bad an entry is.
type Severity string

// The severities, the worst first.
const (
	Bad  Severity = "bad"  // something cannot be used
	Warn Severity = "warn" // something will not last, or is worse than it could be
)

// Entry is one thing that is wrong with the network, for people.
type Entry struct {
	Code     protocol.Code `json:"code"`
	Severity Severity      `json:"severity"`
	Text     string        `json:"text"`
	Remedy   string        `json:"remedy,omitempty"`
}

// maxModelEntries bounds the entries about models; one more counts the rest.
const maxModelEntries = 5

// enoughEnds is the number of ended sessions from which a rate means something.
const enoughEnds = 5

// health lists what is wrong, the worst first.
func health(v *view, troubles []*protocol.Error) []Entry {
	out := []Entry{}
	add := func(code protocol.Code, s Severity, remedy, format string, args ...any) {
		if remedy == "" {
			remedy = code.Remedy()
		}
		out = append(out, Entry{code, s, fmt.Sprintf(format, args...), remedy})
	}
	for _, e := range troubles {
		add(e.Code, Bad, "", "%s", e.Message)
	}
	models, thin := 0, 0
	for i := range v.Models {
		m := &v.Models[i]
		_, missing := holes(m.Replicas)
		switch {
		case missing > 0 || !m.Routable:
			if models++; models > maxModelEntries {
				continue
			}
			text := m.Words
			if missing == 0 {
				text = "All layers are held, but no chain of nodes can run them now."
			}
			add(protocol.CodeNoRoute, Bad, "share a computer that can hold the missing layers, or wait for nodes that are fetching them", "%s: %s", m.Name, text)
		case len(m.Replicas) > 0 && slices.Min(m.Replicas) == 1:
			thin++
		}
	}
	if models > maxModelEntries {
		add(protocol.CodeNoRoute, Bad, "see the list of models", "%s more cannot be used either.", plural(models-maxModelEntries, "model"))
	}
	v.nodeHealth(add)
	v.sessionHealth(add)
	if thin > 0 {
		add(protocol.CodeUnavailable, Warn, "a further node with those layers", "%s would stop working if a single node left: some layers are on one node only.", plural(thin, "model"))
	}
	slices.SortStableFunc(out, func(a, b Entry) int { return cmp.Compare(a.Severity, b.Severity) }) // "bad" before "warn"
	return out
}

type adder func(code protocol.Code, s Severity, remedy, format string, args ...any)

// nodeHealth counts nodes by what ails them.
func (v *view) nodeHealth(add adder) {
	errs := map[protocol.Code]int{}
	draining, pressed, nodes := 0, 0, 0
	for i := range v.Nodes {
		n := &v.Nodes[i]
		if n.Role != protocol.RoleNode {
			continue
		}
		nodes++
		if n.Trouble != "" {
			errs[protocol.Code(n.Trouble)]++
		}
		if n.State == registry.StateDraining {
			draining++
		}
		if n.Pressure >= 90 {
			pressed++
		}
	}
	codes := make([]protocol.Code, 0, len(errs))
	for c := range errs {
		codes = append(codes, c)
	}
	slices.Sort(codes)
	for _, c := range codes {
		add(c, Warn, "", "%s cannot serve a range of layers.", plural(errs[c], "node"))
	}
	if nodes > 0 && v.Ready == 0 {
		add(protocol.CodeNoRoute, Bad, "see the states in the table of nodes", "None of the %s is ready.", plural(nodes, "node"))
	}
	if draining > 0 {
		add(protocol.CodeUnavailable, Warn, "nothing, if it lasts under a minute; else see the node's own diagnostics", "%s gets no new sessions: it is draining, or does not report.", plural(draining, "node"))
	}
	if pressed > 0 {
		add(protocol.CodeDoesNotFit, Warn, "let those nodes hold fewer layers, or close other programs there", "%s has nearly no free memory.", plural(pressed, "node"))
	}
}

// sessionHealth looks at how the newest sessions ended, and at slow hops.
func (v *view) sessionHealth(add adder) {
	failed := map[protocol.Code]int{}
	all, slow := 0, 0
	for i := range v.Sessions {
		s := &v.Sessions[i]
		switch {
		case s.End == nil:
			if s.Slow >= 0 {
				slow++
			}
			continue
		case s.End.Error != nil && s.End.Error.Code != protocol.CodeCancelled:
			code := s.End.Error.Code
			if !code.Known() {
				code = "other"
			}
			failed[code]++
		}
		all++
	}
	codes := make([]protocol.Code, 0, len(failed))
	for c := range failed {
		codes = append(codes, c)
	}
	slices.SortFunc(codes, func(a, b protocol.Code) int { return cmp.Or(cmp.Compare(failed[b], failed[a]), cmp.Compare(a, b)) })
	for _, c := range codes {
		// One in ten is worth a line.
		if all >= enoughEnds && failed[c]*10 >= all {
			add(c, Warn, "", "%d of the newest %d sessions failed in this way.", failed[c], all)
		}
	}
	if slow > 0 {
		add(protocol.CodeHostBusy, Warn, "nothing: new sessions avoid the slow node once its reports show it", "%s runs over a hop that takes over twice its expected time.", plural(slow, "session"))
	}
}
