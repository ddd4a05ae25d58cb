// Package standing is what the operator thinks of nodes and of their owners:
// who may connect, who may serve public routes, and who is drained.
//
// It is pure: records go in, answers come out; the server guards the Book and
// keeps its records in the store. It knows no websocket, no session and no
// route. The store and the operator's area import its words.
package standing

import (
	"slices"
	"strings"
	"time"

	"neuron/engine/protocol"
)

// Policy says what a node may do that the operator has not looked at.
type Policy string

// The policies.
const (
	// Open lets every node serve.
	Open Policy = "open"
	// Approve lets new nodes connect and show; they take part in public routes
	// and in placement once the operator has approved them.
	Approve Policy = "approve"
)

// ParsePolicy checks a policy; "" is Open. Error: invalid_request.
func ParsePolicy(s string) (Policy, error) {
	switch p := Policy(s); p {
	case "":
		return Open, nil
	case Open, Approve:
		return p, nil
	}
	return "", protocol.Errorf(protocol.CodeInvalidRequest, "the admission policy is %s or %s, not %.40q", Open, Approve, s)
}

// Kind says whom a record is about.
type Kind string

// The kinds.
const (
	KindNode  Kind = "node"
	KindOwner Kind = "owner"
)

// Subject is whom a record is about: a node id, or an owner's account id.
type Subject struct {
	Kind Kind   `json:"kind"`
	ID   string `json:"id"`
}

// Node is the subject of a node.
func Node(id protocol.NodeID) Subject { return Subject{KindNode, string(id)} }

// Owner is the subject of an owner's account.
func Owner(id string) Subject { return Subject{KindOwner, id} }

// Mark is one thing that the operator has said of a subject.
type Mark struct {
	At     time.Time `json:"at"` // zero: not said
	By     string    `json:"by"`
	Reason string    `json:"reason"`
}

// Set reports whether the mark is there.
func (m Mark) Set() bool { return !m.At.IsZero() }

// Record is all marks of a subject. They are independent: lifting a ban leaves
// an approval as it was. Owners have Banned only.
type Record struct {
	Subject
	Approved Mark
	Banned   Mark
	Drained  Mark
}

// State is the mark that decides.
type State string

// The states, the strongest last.
const (
	StateUnknown  State = "unknown"
	StateApproved State = "approved"
	StateDrained  State = "drained"
	StateBanned   State = "banned"
)

// State is the strongest of the marks.
func (r *Record) State() State {
	switch {
	case r.Banned.Set():
		return StateBanned
	case r.Drained.Set():
		return StateDrained
	case r.Approved.Set():
		return StateApproved
	default:
		return StateUnknown
	}
}

// Action is a change that the operator asks for.
type Action string

// The actions. Disapprove, Unban and Undrain take a mark away.
const (
	ActApprove    Action = "approve"
	ActDisapprove Action = "disapprove"
	ActBan        Action = "ban"
	ActUnban      Action = "unban"
	ActDrain      Action = "drain"
	ActUndrain    Action = "undrain"
)

// Actions lists them all.
func Actions() []Action {
	return []Action{ActApprove, ActDisapprove, ActBan, ActUnban, ActDrain, ActUndrain}
}

// MaxReason bounds a reason, in bytes.
const MaxReason = 500

// Change is an action with who asked for it, when and why.
type Change struct {
	Subject
	Action Action
	Mark
}

// Check holds the rules of a change by itself: a ban needs a reason, and owners
// are banned or not. Error: invalid_request.
func (c *Change) Check() error {
	bad := func(format string, args ...any) error {
		return protocol.Errorf(protocol.CodeInvalidRequest, format, args...)
	}
	switch c.Kind {
	case KindNode:
		if _, err := protocol.ParseNodeID(c.ID); err != nil {
			return err
		}
	case KindOwner:
		rest, ok := strings.CutPrefix(c.ID, "o-")
		if _, err := protocol.ParseNodeID(rest); !ok || err != nil {
			return bad("%.80q is not an owner's account", c.ID)
		}
		if c.Action != ActBan && c.Action != ActUnban {
			return bad("an owner is banned or not; %.20q is for nodes", string(c.Action))
		}
	default:
		return bad("there is no standing of a %.20q", string(c.Kind))
	}
	if !slices.Contains(Actions(), c.Action) {
		return bad("unknown action %.40q", string(c.Action))
	}
	if c.Action == ActBan && strings.TrimSpace(c.Reason) == "" {
		return bad("a ban needs a reason: the node is told")
	}
	if len(c.Reason) > MaxReason {
		return bad("a reason of %d bytes; at most %d are possible", len(c.Reason), MaxReason)
	}
	if c.At.IsZero() {
		return bad("a change needs its time")
	}
	return nil
}

// Book holds all records. It is not safe for concurrent use.
type Book struct {
	policy  Policy
	records map[Subject]Record
}

// NewBook makes a book over stored records.
func NewBook(p Policy, list []Record) *Book {
	b := &Book{policy: p, records: make(map[Subject]Record, len(list))}
	for _, r := range list {
		b.Put(r)
	}
	return b
}

// Policy is the admission policy.
func (b *Book) Policy() Policy { return b.policy }

// Get is the record of a subject, an empty one without any.
func (b *Book) Get(s Subject) Record {
	r := b.records[s]
	r.Subject = s
	return r
}

// After is the record as a change leaves it; false when it is so already. What
// is banned, approved or drained once more keeps its first time and gets the new
// reason. The change must have passed Check.
func (b *Book) After(c Change) (Record, bool) {
	r := b.Get(c.Subject)
	set := func(m *Mark) bool {
		if m.Set() && m.Reason == c.Reason {
			return false
		}
		at := c.At
		if m.Set() {
			at = m.At
		}
		*m = Mark{At: at, By: c.By, Reason: c.Reason}
		return true
	}
	unset := func(m *Mark) bool {
		was := m.Set()
		*m = Mark{}
		return was
	}
	changed := false
	switch c.Action {
	case ActApprove:
		changed = set(&r.Approved)
	case ActDisapprove:
		changed = unset(&r.Approved)
	case ActBan:
		changed = set(&r.Banned)
	case ActUnban:
		changed = unset(&r.Banned)
	case ActDrain:
		changed = set(&r.Drained)
	case ActUndrain:
		changed = unset(&r.Drained)
	}
	return r, changed
}

// Put replaces a record.
func (b *Book) Put(r Record) {
	if r.State() == StateUnknown {
		delete(b.records, r.Subject)
		return
	}
	b.records[r.Subject] = r
}

// List is all records that say something, nodes before owners, by id.
func (b *Book) List() []Record {
	out := make([]Record, 0, len(b.records))
	for _, r := range b.records {
		out = append(out, r)
	}
	slices.SortFunc(out, func(x, y Record) int {
		return strings.Compare(string(x.Kind)+x.ID, string(y.Kind)+y.ID)
	})
	return out
}

// Refusal says why a node may not be connected, in whatever role; nil when it
// may. owner is its owner's account, or "". The code is forbidden.
func (b *Book) Refusal(id protocol.NodeID, owner string) *protocol.Error {
	if r := b.records[Node(id)]; r.Banned.Set() {
		return protocol.Errorf(protocol.CodeForbidden, "the operator of this tracker has banned this node: %s", r.Banned.Reason)
	}
	if owner == "" {
		return nil
	}
	if r := b.records[Owner(owner)]; r.Banned.Set() {
		return protocol.Errorf(protocol.CodeForbidden, "the operator of this tracker has banned the owner of this node: %s", r.Banned.Reason)
	}
	return nil
}

// Waits says why a node takes no part in public routes and placement although
// nothing is wrong with it, or is "".
func (b *Book) Waits(id protocol.NodeID) string {
	if r := b.records[Node(id)]; b.policy == Approve && !r.Approved.Set() {
		return "waits for the operator's approval"
	}
	return ""
}

// Drained says why a node gets no new sessions, or is "".
func (b *Book) Drained(id protocol.NodeID) string {
	r := b.records[Node(id)]
	switch {
	case !r.Drained.Set():
		return ""
	case r.Drained.Reason == "":
		return "drained by the operator"
	default:
		return "drained by the operator: " + r.Drained.Reason
	}
}
