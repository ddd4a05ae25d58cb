package chat

import (
	"context"
	"time"

	"neuron/app/chat/store"
	"neuron/app/chat/thread"
	"neuron/engine/protocol"
)

// heal puts the file of the chats back where it was taken away under the window,
// and begins another one where it was damaged. Both are told; what this window has
// read and written is not lost. It is called by the writer.
func (m *Model) heal(ctx context.Context) {
	if m.store.Spoilt() {
		m.renew(ctx)
		return
	}
	if !m.store.Gone() {
		return
	}
	again, opened, err := m.store.Rescue(ctx, m.o.Now())
	if err != nil {
		m.settle(err)
		return
	}
	m.o.Logger.Warn("the file of chats was taken away and is written again", "set_aside", opened.SetAside)
	m.store = again
	m.notice(func(n *notices) { n.rescued, n.seen = true, false })
}

// renew sets a file aside that turned out damaged, and saves to a new one what is
// in memory: chats that were looked at. The others are in the file set aside. It is
// called by the writer.
func (m *Model) renew(ctx context.Context) {
	_ = m.store.Close() // its file is damaged, and what it cannot finish is written below
	s, opened, err := store.Open(ctx, m.o.File, m.o.Now())
	if err != nil || opened.SetAside == "" {
		if err == nil {
			m.store = s // the damage was not in the file
			return
		}
		m.o.Logger.Error("the chats cannot be opened again", "code", protocol.AsError(err).Code)
		m.notice(func(n *notices) { n.memory = err })
		if s, err = store.Memory(ctx); err != nil {
			m.o.Logger.Error("no store of chats", "code", protocol.AsError(err).Code)
			return // the old one goes on to say that it cannot save
		}
	}
	m.store = s
	if opened.SetAside != "" {
		m.o.Logger.Warn("a damaged file of chats is set aside", "file", opened.SetAside)
		m.notice(func(n *notices) { n.aside, n.rescued, n.seen = opened.SetAside, false, false })
	}
	m.mu.Lock()
	for id, t := range m.chats {
		if t.tree == nil {
			delete(m.chats, id)
		}
	}
	m.sortList()
	m.changed()
	m.mu.Unlock()
	m.settle(m.saveAll(ctx))
}

// saveAll writes all that this window has in memory, also what the store has
// already. It is called by the writer.
func (m *Model) saveAll(ctx context.Context) error {
	type known struct {
		chat     thread.Chat
		messages []thread.Message
		deleted  bool
	}
	var all []known
	m.mu.Lock()
	for _, t := range m.chats {
		if t.tree == nil || !t.stored {
			continue // never read, so never changed; or of no interest to anybody
		}
		c := t.Chat
		c.Params = c.Params.Clone()
		all = append(all, known{c, t.tree.All(), t.deleted})
	}
	m.mu.Unlock()
	for i := range all {
		x := &all[i]
		err := m.store.Put(ctx, &x.chat, x.messages...)
		if err == nil && x.deleted {
			err = m.store.Delete(ctx, x.chat.ID, m.o.Now())
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// retryEvery is how often what could not be written is tried again.
const retryEvery = 5 * time.Second

// settle tells how a write has ended. What failed is not forgotten: it is tried
// again, alone and with every further write. It is called by the writer.
func (m *Model) settle(err error) {
	m.unsaved = err != nil
	m.wrote(err)
	if err == nil {
		return
	}
	if m.retry != nil {
		m.retry.Stop()
	}
	m.retry = time.AfterFunc(retryEvery, func() {
		m.disk(func(context.Context, *store.Store) error { return nil })
	})
}
