package thread

import (
	"slices"
)

// Tree holds all messages of one chat. The zero value is empty. It is not safe
// for concurrent use.
type Tree struct {
	byID     map[ID]*Message
	children map[ID][]ID // in the order of their creation
}

// NewTree makes a tree of messages in any order; siblings are in that of their
// times. Messages whose parent is not there begin a branch of their own, and so
// does one of a circle, so that a damaged chat can still be read.
func NewTree(messages []Message) *Tree {
	sorted := slices.Clone(messages)
	slices.SortStableFunc(sorted, func(a, b Message) int { return a.Created.Compare(b.Created) })
	parents := make(map[ID]ID, len(sorted))
	for _, m := range sorted {
		if _, twice := parents[m.ID]; !twice {
			parents[m.ID] = m.Parent
		}
	}
	reaches := make(map[ID]bool, len(sorted)) // a beginning, by its parents
	for _, m := range sorted {
		passed := make(map[ID]bool)
		for id := m.ID; !reaches[id]; id = parents[id] {
			passed[id] = true
			parent := parents[id]
			if _, there := parents[parent]; !there {
				parents[id] = 0
				break
			}
			if passed[parent] { // a circle: it begins where it was entered
				parents[parent] = 0
				break
			}
		}
		for id := range passed {
			reaches[id] = true
		}
	}
	t := &Tree{}
	for _, m := range sorted {
		m.Parent = parents[m.ID]
		t.Put(m)
	}
	return t
}

// Len counts the messages.
func (t *Tree) Len() int { return len(t.byID) }

// Get returns a message of the tree, nil for none. The caller may change it, but
// for ID and Parent.
func (t *Tree) Get(id ID) *Message { return t.byID[id] }

// Put adds a message, or replaces the one with its id.
func (t *Tree) Put(m Message) *Message {
	if t.byID == nil {
		t.byID, t.children = map[ID]*Message{}, map[ID][]ID{}
	}
	if old := t.byID[m.ID]; old != nil {
		m.Parent = old.Parent
		*old = m
		return old
	}
	t.byID[m.ID] = &m
	t.children[m.Parent] = append(t.children[m.Parent], m.ID)
	return &m
}

// Path is the branch that ends with head, from its beginning. The messages are
// copies.
func (t *Tree) Path(head ID) []Message {
	var out []Message
	for m := t.byID[head]; m != nil && len(out) < len(t.byID); m = t.byID[m.Parent] {
		out = append(out, *m)
	}
	slices.Reverse(out)
	return out
}

// Place says which of its siblings a message is, from 1, and how many there are.
func (t *Tree) Place(id ID) (place, of int) {
	m := t.byID[id]
	if m == nil {
		return 0, 0
	}
	all := t.children[m.Parent]
	return slices.Index(all, id) + 1, len(all)
}

// Sibling is the head of the newest branch through the sibling that is step
// places from id; id itself when there is none.
func (t *Tree) Sibling(id ID, step int) ID {
	m := t.byID[id]
	if m == nil {
		return id
	}
	all := t.children[m.Parent]
	i := slices.Index(all, id) + step
	if i < 0 || i >= len(all) {
		return id
	}
	return t.Leaf(all[i])
}

// Leaf follows the newest children of id to their end.
func (t *Tree) Leaf(id ID) ID {
	for n := 0; n <= len(t.byID); n++ {
		c := t.children[id]
		if len(c) == 0 {
			break
		}
		id = c[len(c)-1]
	}
	return id
}

// All returns every message, parents before their children.
func (t *Tree) All() []Message {
	out := make([]Message, 0, len(t.byID))
	var walk func(ID)
	walk = func(parent ID) {
		for _, id := range t.children[parent] {
			out = append(out, *t.byID[id])
			walk(id)
		}
	}
	walk(0)
	return out
}
