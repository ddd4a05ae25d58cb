package chat

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"neuron/app/chat/store"
	"neuron/app/chat/thread"
)

// Group is a part of the list of chats.
type Group struct {
	Title string
	Chats []Entry
}

// Entry is a chat in the list.
type Entry struct {
	ID    thread.ID
	Title string
	// Detail is the time, or where a search found something.
	Detail  string
	Current bool
	Busy    bool // an answer is being written
	Draft   bool // something is typed and not sent
}

// maxListed bounds the list; a search finds the rest.
const maxListed = 300

// search is what is looked for in the list.
type search struct {
	query string
	hits  []store.Hit
	done  bool // hits belong to query
}

// undo is a deleted chat that can still come back.
type undo struct {
	talk  *talk
	timer *time.Timer
}

// NewChat begins a chat. One in which nothing was said is gone on with.
func (m *Model) NewChat() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.current.Empty() {
		return
	}
	t := m.fresh()
	t.Model, t.Private, t.System, t.Params = m.current.Model, m.current.Private, "", thread.Params{}
	m.show(t)
}

// Open shows a chat of the list.
func (m *Model) Open(id thread.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if t := m.chats[id]; t != nil {
		m.show(t)
	}
}

// Rename gives a chat a title; an empty one is not taken.
func (m *Model) Rename(id thread.ID, title string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.chats[id]
	if title = thread.Title(title); t == nil || title == "" || title == t.Title {
		return
	}
	t.Title, t.Named = title, true
	m.save(t)
	m.changed()
}

// Delete takes a chat out of the list. For a while Undo brings it back.
func (m *Model) Delete(id thread.ID) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.chats[id]
	if t == nil {
		return
	}
	if t.answer != nil {
		t.answer.stop(errStopped)
	}
	m.stopUndo()
	m.dropDraftTimer()
	delete(m.chats, id)
	t.deleted = true
	if m.current == t {
		m.show(m.fresh())
		m.current.Model = t.Model
	}
	m.sortList()
	m.undo = &undo{talk: t, timer: time.AfterFunc(undoFor, m.forget)}
	now := m.o.Now()
	m.disk(func(ctx context.Context, s *store.Store) error {
		return errors.Join(s.Purge(ctx), s.Delete(ctx, id, now)) // the one before is gone for good
	})
	m.changed()
}

// Undo brings the deleted chat back and shows it.
func (m *Model) Undo() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.undo == nil {
		return
	}
	t := m.undo.talk
	m.stopUndo()
	m.chats[t.ID] = t
	t.deleted = false
	m.disk(func(ctx context.Context, s *store.Store) error { return s.Restore(ctx, t.ID) })
	if t.tree != nil { // with what has come meanwhile
		m.save(t, t.tree.All()...)
	}
	m.sortList()
	m.show(t)
	m.changed()
}

// forget ends the time for Undo.
func (m *Model) forget() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.undo == nil || m.closed {
		return
	}
	m.undo = nil
	m.disk(func(ctx context.Context, s *store.Store) error { return s.Purge(ctx) })
	m.changed()
}

// stopUndo is for when something else ends it; mu is held.
func (m *Model) stopUndo() {
	if m.undo != nil {
		m.undo.timer.Stop()
		m.undo = nil
	}
}

// Search looks for a query in all chats; "" shows all of them again.
func (m *Model) Search(query string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if query == m.search.query {
		return
	}
	m.search = search{query: query, hits: m.search.hits}
	m.list = nil
	m.changed()
	if strings.TrimSpace(query) == "" {
		return
	}
	m.writer.do(func() {
		m.mu.Lock()
		late := m.search.query != query // another key was typed
		m.mu.Unlock()
		if late || m.store == nil {
			return
		}
		hits, err := m.store.Search(context.Background(), query, maxListed)
		m.mu.Lock()
		defer m.mu.Unlock()
		if m.search.query != query {
			return
		}
		if err != nil {
			m.notices.save = err
		}
		m.search.hits, m.search.done, m.list = hits, true, nil
		m.changed()
	})
}

// sortList orders the chats anew; mu is held.
func (m *Model) sortList() {
	m.order = m.order[:0]
	for id := range m.chats {
		m.order = append(m.order, id)
	}
	slices.SortFunc(m.order, func(a, b thread.ID) int {
		if c := m.chats[b].Updated.Compare(m.chats[a].Updated); c != 0 {
			return c
		}
		return int(a>>1) - int(b>>1)
	})
	m.list = nil
}

// groups is the list as it is shown; mu is held.
func (m *Model) groups() []Group {
	if day := m.o.Now().YearDay(); m.list == nil || m.listDay != day {
		m.listDay = day
		if strings.TrimSpace(m.search.query) != "" {
			m.list = m.found()
		} else {
			m.list = m.byDay()
		}
	}
	return m.list
}

func (m *Model) entry(t *talk) Entry {
	title := t.Title
	if title == "" {
		title = m.o.Words.T("chat.untitled")
	}
	return Entry{ID: t.ID, Title: title, Current: t == m.current, Busy: t.answer != nil, Draft: t.Draft != "" && t != m.current, Detail: m.o.Words.Time(t.Updated)}
}

func (m *Model) byDay() []Group {
	now := m.o.Now()
	today := time.Date(now.Year(), now.Month(), now.Day(), 0, 0, 0, 0, now.Location())
	out := []Group{{Title: m.o.Words.T("chat.today")}, {Title: m.o.Words.T("chat.yesterday")}, {Title: m.o.Words.T("chat.earlier")}}
	for _, id := range m.order[:min(len(m.order), maxListed)] {
		t, at := m.chats[id], 2
		switch {
		case !t.Updated.Before(today):
			at = 0
		case !t.Updated.Before(today.AddDate(0, 0, -1)):
			at = 1
		}
		out[at].Chats = append(out[at].Chats, m.entry(t))
	}
	return slices.DeleteFunc(out, func(g Group) bool { return len(g.Chats) == 0 })
}

func (m *Model) found() []Group {
	g := Group{Title: m.o.Words.T("chat.found")}
	for _, h := range m.search.hits {
		if t := m.chats[h.Chat]; t != nil {
			e := m.entry(t)
			if h.Snippet != "" {
				e.Detail = h.Snippet
			}
			g.Chats = append(g.Chats, e)
		}
	}
	if len(g.Chats) == 0 {
		return []Group{}
	}
	return []Group{g}
}
