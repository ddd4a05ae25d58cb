package operator

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/registry"
	"neuron/tracker-server/standing"
	"neuron/tracker-server/store"
)

const (
	pageSize = 50
	maxKnown = 100_000 // nodes that are looked through
	minShort = 4       // characters of an id that may stand for all
)

// NodeRow is a node that is connected, was connected, or has a standing.
type NodeRow struct {
	Node  protocol.NodeID `json:"node"`
	Host  string          `json:"host"`
	Addr  string          `json:"addr"`
	Owner store.AccountID `json:"owner,omitempty"`
	// State is the strongest mark; OwnerBanned says that another reason is its
	// owner's ban.
	State       standing.State `json:"standing"`
	OwnerBanned bool           `json:"owner_banned,omitempty"`
	Approved    standing.Mark  `json:"approved"`
	Banned      standing.Mark  `json:"banned"`
	Drained     standing.Mark  `json:"drained"`
	// Roles are those that it is connected in now.
	Roles    []protocol.Role `json:"roles"`
	Network  registry.State  `json:"state,omitempty"` // of the connection as a node
	Why      string          `json:"why,omitempty"`
	Barred   string          `json:"barred,omitempty"` // why public routes leave it out
	LastSeen time.Time       `json:"last_seen,omitzero"`
	Failures int             `json:"failures"`
	Shards   []string        `json:"shards"` // "model layers/all state"

	role protocol.Role // of the newest connection
}

// Online reports whether it is connected.
func (n *NodeRow) Online() bool { return len(n.Roles) > 0 }

// Waits reports whether it waits for an approval. What only asks for routes
// needs none.
func (n *NodeRow) Waits(p standing.Policy) bool {
	serves := n.Network != "" || !n.Online() && n.role == protocol.RoleNode
	return p == standing.Approve && serves && !n.Approved.Set() && !n.Banned.Set()
}

// NodeQuery selects nodes.
type NodeQuery struct {
	// Text is a part of an id, an owner, a computer, an address or a model.
	Text  string `json:"q"`
	State string `json:"state"` // a standing, "online", "waiting", or "" for all
	Page  int    `json:"page"`  // from 1
}

// NodePage is a page of nodes: connected ones first, then by id.
type NodePage struct {
	Policy standing.Policy `json:"policy"`
	Nodes  []NodeRow       `json:"nodes"`
	Total  int             `json:"total"`
	Page   int             `json:"page"`
	Pages  int             `json:"pages"`
	Query  NodeQuery       `json:"-"`
}

// rows lists all nodes, without owners.
func (a *Area) rows(ctx context.Context) (map[protocol.NodeID]*NodeRow, error) {
	out := make(map[protocol.NodeID]*NodeRow)
	get := func(id protocol.NodeID) *NodeRow {
		if out[id] == nil {
			out[id] = &NodeRow{Node: id, State: standing.StateUnknown, Roles: []protocol.Role{}, Shards: []string{}}
		}
		return out[id]
	}
	known, err := a.cfg.Store.Nodes(ctx, maxKnown)
	if err != nil {
		return nil, err
	}
	for i := range known {
		n := get(known[i].ID)
		n.Host, n.Addr, n.LastSeen, n.role = known[i].Host, known[i].Addr, known[i].LastSeen, known[i].Role
	}
	for _, v := range a.cfg.Network.Nodes() {
		n := get(v.Node)
		n.Roles = append(n.Roles, v.Role)
		n.Host, n.LastSeen = v.Host, v.Joined
		if v.Role != protocol.RoleNode {
			continue
		}
		n.Addr, n.Network, n.Why, n.Barred, n.Failures = v.Addr, v.State, v.Why, v.Barred, v.Failures
		for i := range v.Shards {
			s := &v.Shards[i]
			n.Shards = append(n.Shards, fmt.Sprintf("%s %s/%d %s", s.Name, s.Loaded, s.Layers, s.State))
		}
	}
	for _, r := range a.cfg.Network.Standings() {
		if r.Kind == standing.KindNode {
			n := get(protocol.NodeID(r.ID))
			n.State, n.Approved, n.Banned, n.Drained = r.State(), r.Approved, r.Banned, r.Drained
		}
	}
	return out, nil
}

// own fills in a node's owner.
func (a *Area) own(ctx context.Context, n *NodeRow) error {
	o, err := a.cfg.Owners.Owner(ctx, n.Node)
	if isCode(err, protocol.CodeNotFound) {
		return nil
	}
	if err != nil {
		return err
	}
	n.Owner = o.Owner
	r := a.cfg.Network.Standing(standing.Owner(string(o.Owner)))
	n.OwnerBanned = r.Banned.Set()
	return nil
}

// Nodes lists a page of nodes.
func (a *Area) Nodes(ctx context.Context, q NodeQuery) (*NodePage, error) {
	all, err := a.rows(ctx)
	if err != nil {
		return nil, err
	}
	owned := map[protocol.NodeID]bool{}
	text := strings.ToLower(q.Text)
	if strings.HasPrefix(text, "o-") {
		list, err := a.cfg.Owners.Nodes(ctx, store.AccountID(text))
		if err != nil && !isCode(err, protocol.CodeNotFound) {
			return nil, err
		}
		for _, n := range list {
			owned[n.Node] = true
		}
	}
	policy := a.cfg.Network.Policy()
	var list []*NodeRow
	for _, n := range all {
		if n.matches(text, q.State, policy) || owned[n.Node] {
			list = append(list, n)
		}
	}
	slices.SortFunc(list, func(x, y *NodeRow) int {
		if x.Online() != y.Online() {
			if x.Online() {
				return -1
			}
			return 1
		}
		return cmp.Compare(x.Node, y.Node)
	})
	p := &NodePage{Policy: policy, Nodes: []NodeRow{}, Total: len(list), Pages: max(1, (len(list)+pageSize-1)/pageSize), Query: q}
	p.Page = min(max(1, q.Page), p.Pages)
	first := (p.Page - 1) * pageSize
	for _, n := range list[first:min(first+pageSize, len(list))] {
		if err := a.own(ctx, n); err != nil {
			return nil, err
		}
		p.Nodes = append(p.Nodes, *n)
	}
	return p, nil
}

func (n *NodeRow) matches(text, state string, policy standing.Policy) bool {
	switch state {
	case "":
	case "online":
		if !n.Online() {
			return false
		}
	case "waiting":
		if !n.Waits(policy) {
			return false
		}
	default:
		if string(n.State) != state {
			return false
		}
	}
	if text == "" {
		return true
	}
	for _, s := range append([]string{string(n.Node), n.Host, n.Addr}, n.Shards...) {
		if strings.Contains(strings.ToLower(s), text) {
			return true
		}
	}
	return false
}

// NodeDetail is all about one node.
type NodeDetail struct {
	NodeRow
	Policy standing.Policy  `json:"policy"`
	Proofs []Proof          `json:"proofs"`
	Log    []store.LogEntry `json:"log"`
}

// Node finds one by its id, or by a beginning that only one has. Errors:
// not_found, conflict when several begin so.
func (a *Area) Node(ctx context.Context, short string) (*NodeDetail, error) {
	all, err := a.rows(ctx)
	if err != nil {
		return nil, err
	}
	id, err := pick(short, "node", all)
	if err != nil {
		return nil, err
	}
	d := &NodeDetail{NodeRow: *all[id], Policy: a.cfg.Network.Policy()}
	if err := a.own(ctx, &d.NodeRow); err != nil {
		return nil, err
	}
	if d.Proofs, err = a.proofs(ctx, id); err != nil {
		return nil, err
	}
	d.Log, err = a.cfg.Store.OperatorLog(ctx, string(id), 0, pageSize)
	return d, err
}

// pick resolves an id, or the beginning of one that only one of all has.
func pick[K ~string, V any](short, what string, all map[K]V) (K, error) {
	if _, ok := all[K(short)]; ok {
		return K(short), nil
	}
	var found []K
	if len(short) >= minShort {
		for id := range all {
			if strings.HasPrefix(string(id), short) {
				found = append(found, id)
			}
		}
	}
	switch len(found) {
	case 1:
		return found[0], nil
	case 0:
		return "", protocol.Errorf(protocol.CodeNotFound, "no %s is known as %.80q; at least %d characters of its id are needed", what, short, minShort)
	default:
		return "", protocol.Errorf(protocol.CodeConflict, "%d %ss begin with %.80q", len(found), what, short)
	}
}

// StandingInput asks for a change of a node's standing, or of an owner's.
type StandingInput struct {
	ID     string `path:"id"`
	Action string `path:"action"`
	Reason string `json:"reason"`
}

// SetNode changes the standing of a node. A whole id is taken also where the
// tracker does not know the node: it may be banned before it comes.
func (a *Area) SetNode(ctx context.Context, by string, in StandingInput) (any, string, error) {
	id, err := protocol.ParseNodeID(in.ID)
	if err != nil {
		all, rerr := a.rows(ctx)
		if rerr != nil {
			return nil, "", rerr
		}
		if id, err = pick(in.ID, "node", all); err != nil {
			return nil, "", err
		}
	}
	return a.setStanding(ctx, by, standing.Node(id), id.Short(), in)
}

// SetOwner bans an owner with all nodes, or lifts that.
func (a *Area) SetOwner(ctx context.Context, by string, in StandingInput) (any, string, error) {
	acc, err := a.account(ctx, in.ID)
	if err != nil {
		return nil, "", err
	}
	return a.setStanding(ctx, by, standing.Owner(string(acc.ID)), shortAccount(acc.ID), in)
}

// changed is the answer to a change of a standing.
type changed struct {
	standing.Subject
	State   standing.State `json:"standing"`
	Changed bool           `json:"changed"`
}

var past = map[standing.Action]string{
	standing.ActApprove: "approved", standing.ActDisapprove: "no longer approved", standing.ActBan: "banned", standing.ActUnban: "no longer banned",
	standing.ActDrain: "drained", standing.ActUndrain: "no longer drained",
}

func (a *Area) setStanding(ctx context.Context, by string, s standing.Subject, short string, in StandingInput) (any, string, error) {
	c := standing.Change{Subject: s, Action: standing.Action(in.Action), Mark: standing.Mark{At: a.cfg.Now(), By: by, Reason: in.Reason}}
	if err := c.Check(); err != nil {
		return nil, "", err
	}
	did, err := a.cfg.Network.SetStanding(ctx, c)
	if err != nil {
		return nil, "", err
	}
	text := fmt.Sprintf("%s %s is %s.", s.Kind, short, past[c.Action])
	if !did {
		text = fmt.Sprintf("Nothing has changed: %s %s was %s before.", s.Kind, short, past[c.Action])
	}
	r := a.cfg.Network.Standing(s)
	return changed{s, r.State(), did}, text, nil
}

func isCode(err error, c protocol.Code) bool { return errors.Is(err, &protocol.Error{Code: c}) }

// Proofs are looked through in pages, back to a bound.
const (
	proofPage     = 500
	maxProofPages = 20
)

// proofs lists the proven faults of a node, the newest first.
func (a *Area) proofs(ctx context.Context, id protocol.NodeID) ([]Proof, error) {
	out := []Proof{}
	before := int64(0)
	for range maxProofPages {
		list, err := a.cfg.Store.Proofs(ctx, before, proofPage)
		if err != nil {
			return nil, err
		}
		for i := range list {
			if p := &list[i]; p.Culprit == id {
				out = append(out, Proof{
					ID: p.ID.String(), Kind: p.Kind, At: p.Found, Text: p.Text, Owner: p.Owner, Lifted: p.Lifted, Forfeited: p.Forfeited, Note: p.Note,
				})
			}
		}
		if len(list) < proofPage {
			break
		}
		before = list[len(list)-1].Num
	}
	return out, nil
}
