// Package chat is the chat page without its widgets: the chats of this computer,
// the answers that are being written, and what the page says about them. The
// page imports it; it knows no widget.
//
// Memory is ahead of the file: what the user does shows at once, and one
// goroutine writes it to the store in the same order. Nothing of what is said
// reaches a log.
package chat

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	"neuron/app/chat/completion"
	"neuron/app/chat/store"
	"neuron/app/chat/thread"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/words"
)

// Engine is what the Model needs of the engine; Linked makes it of a link.
type Engine interface {
	State() link.State
	// Watch gives a channel of capacity 1 that gets a value after each change of
	// State, and what ends it.
	Watch() (changed <-chan struct{}, stop func())
	// Retry looks for an engine, and starts one.
	Retry()
	// API asks the OpenAI API of this computer; unavailable while no engine runs.
	API(ctx context.Context) (API, error)
}

// API is the part of completion.Client that is used.
type API interface {
	Models(ctx context.Context) ([]completion.Model, error)
	Ask(ctx context.Context, r completion.Request, onTelemetry func(protocol.Telemetry), onText func(string)) (protocol.FinishReason, error)
}

// Options configure a Model. All but Logger are needed.
type Options struct {
	File   string // of the chats
	Engine Engine
	Words  *words.Words
	Now    func() time.Time
	Logger *slog.Logger
}

// Times of the Model.
const (
	saveEvery   = time.Second            // while an answer is written
	draftAfter  = 500 * time.Millisecond // after the last key
	undoFor     = 10 * time.Second
	modelsEvery = 10 * time.Second // while the page is shown
)

// Model is the page's state. Its methods return at once and may be called from
// any goroutine. It owns the goroutines of the store, of answers, and of
// requests to the engine; Close waits for them.
type Model struct {
	o      Options
	ctx    context.Context // ends with Close
	end    context.CancelCauseFunc
	work   sync.WaitGroup
	writer *writer
	wake   chan struct{} // capacity 1; for follow
	tell   chan struct{} // capacity 1; a value after each change

	// These belong to the writer's jobs.
	store   *store.Store
	unsaved bool        // a write has failed, and what it was about is in memory only
	retry   *time.Timer // nil until a write fails

	mu      sync.Mutex
	version uint64 // grows with every change
	closed  bool
	notices notices
	chats   map[thread.ID]*talk
	order   []thread.ID // chats that are in the list, the one used last first
	current *talk       // never nil
	window  int         // messages that are shown
	list    []Group     // what View told last of order, nil when it has changed
	listDay int         // the day of the year that list was made on
	search  search
	undo    *undo
	drafts  *time.Timer // saves the draft; nil when it is saved
	models  modelList
	again   *again // what waits for an engine; nil for nothing
}

// talk is a chat in memory.
type talk struct {
	thread.Chat
	tree   *thread.Tree // nil until it is loaded
	stored bool         // the file has it
	// deleted: it is not written any more, lest it come back.
	deleted bool
	answer  *answer // that is being written, nil for none
}

// New makes a Model and begins to read the chats.
func New(o Options) *Model {
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	m := &Model{o: o, writer: newWriter(), wake: make(chan struct{}, 1), tell: make(chan struct{}, 1), chats: map[thread.ID]*talk{}, window: windowStep}
	m.ctx, m.end = context.WithCancelCause(context.Background())
	m.current = m.fresh()
	m.work.Go(m.writer.run)
	m.work.Go(m.follow)
	m.writer.do(m.open)
	return m
}

var errClosing = errors.New("the window ends")

// Finish waits until no answer is being written, or ctx ends.
func (m *Model) Finish(ctx context.Context) {
	for {
		a := m.anyAnswer()
		if a == nil {
			return
		}
		select {
		case <-a.done:
		case <-ctx.Done():
			return
		}
	}
}

// anyAnswer is one that is being written, nil for none.
func (m *Model) anyAnswer() *answer {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, t := range m.chats {
		if t.answer != nil {
			return t.answer
		}
	}
	return nil
}

// Close stops answers, saves what is not saved, and waits for all goroutines.
func (m *Model) Close() {
	m.mu.Lock()
	if m.closed {
		m.mu.Unlock()
		return
	}
	m.closed = true
	m.saveDraft()
	m.stopUndo()
	answers := make([]*answer, 0, 1)
	for _, t := range m.chats {
		if t.answer != nil {
			answers = append(answers, t.answer)
		}
	}
	m.mu.Unlock()
	m.end(errClosing)
	for _, a := range answers {
		<-a.done // it saves what it has
	}
	m.writer.do(func() {
		if m.store == nil {
			return
		}
		m.heal(context.Background())
		if m.unsaved {
			m.settle(m.saveAll(context.Background()))
		}
		if m.retry != nil {
			m.retry.Stop()
		}
		if err := errors.Join(m.store.Purge(context.Background()), m.store.Close()); err != nil {
			m.o.Logger.Error("the chats could not be closed", "code", protocol.AsError(err).Code)
		}
	})
	m.writer.close()
	m.work.Wait()
}

// Changed gets a value after each change of the View. It has one reader.
func (m *Model) Changed() <-chan struct{} { return m.tell }

// changed has to be called with mu held.
func (m *Model) changed() {
	m.version++
	select {
	case m.tell <- struct{}{}:
	default: // the last one is not read yet
	}
}

// open opens the store, or one in memory where that fails, and reads the list.
func (m *Model) open() {
	ctx := context.Background() // also when Close comes first, so that nothing is lost
	s, opened, err := store.Open(ctx, m.o.File, m.o.Now())
	if err != nil {
		m.o.Logger.Error("the chats cannot be opened", "code", protocol.AsError(err).Code)
		m.notice(func(n *notices) { n.memory = err })
		if s, err = store.Memory(ctx); err != nil {
			m.o.Logger.Error("no store of chats", "code", protocol.AsError(err).Code)
			m.notice(func(n *notices) { n.save = err })
			return
		}
	}
	m.store = s
	if opened.SetAside != "" {
		m.o.Logger.Warn("a damaged file of chats is set aside", "file", opened.SetAside)
		m.notice(func(n *notices) { n.aside = opened.SetAside })
	}
	chats, err := s.Chats(ctx)
	if err != nil {
		m.notice(func(n *notices) { n.save = err })
		return
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, c := range chats {
		m.chats[c.ID] = &talk{Chat: c, stored: true}
	}
	m.sortList()
	// What was typed and not sent comes back; else a chat begins.
	if untouched := m.current.Head == 0 && m.current.Draft == ""; untouched {
		m.current.Model = m.lastModel()
		for _, id := range m.order {
			if t := m.chats[id]; t.Draft != "" {
				m.show(t)
				break
			}
		}
	}
	m.changed()
}

func (m *Model) notice(set func(*notices)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	set(&m.notices)
	m.changed()
}

// save writes a chat and some of its messages; mu is held. Chats that nobody
// would miss are not written.
func (m *Model) save(t *talk, messages ...thread.Message) {
	if t.deleted || !t.stored && t.Empty() {
		return
	}
	if !t.stored {
		t.stored = true
		m.chats[t.ID] = t
	}
	c := t.Chat
	c.Params = c.Params.Clone()
	m.sortList()
	m.disk(func(ctx context.Context, s *store.Store) error { return s.Put(ctx, &c, messages...) })
}

// disk lets the writer change the store, also when Close has come meanwhile.
func (m *Model) disk(f func(ctx context.Context, s *store.Store) error) {
	m.writer.do(func() {
		if m.store == nil {
			return
		}
		ctx := context.Background()
		m.heal(ctx)
		err := f(ctx, m.store)
		if store.Damaged(err) {
			m.renew(ctx)
			err = f(ctx, m.store)
		}
		if err == nil && m.unsaved {
			err = m.saveAll(ctx)
		}
		m.settle(err)
	})
}

// wrote tells whether the last write went well.
func (m *Model) wrote(err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if (err == nil) != (m.notices.save == nil) {
		if err != nil {
			m.o.Logger.Error("the chats cannot be saved", "code", protocol.AsError(err).Code)
		}
		m.changed()
	}
	m.notices.save = err
}

// fresh is a chat that nobody has written in.
func (m *Model) fresh() *talk {
	now := m.o.Now()
	return &talk{Chat: thread.Chat{ID: thread.NewID(), Created: now, Updated: now}, tree: &thread.Tree{}}
}

// lastModel is the model that was used last; mu is held.
func (m *Model) lastModel() string {
	for _, id := range m.order {
		if model := m.chats[id].Model; model != "" {
			return model
		}
	}
	return ""
}

// show makes t the current chat; mu is held.
func (m *Model) show(t *talk) {
	if t == m.current {
		return
	}
	m.saveDraft()
	m.current, m.window, m.list = t, windowStep, nil
	if t.tree == nil {
		id := t.ID
		m.writer.do(func() { m.load(id) })
	}
	m.changed()
}

// load reads a chat's messages. It is called by the writer.
func (m *Model) load(id thread.ID) {
	m.mu.Lock()
	t := m.chats[id]
	missing := t != nil && t.tree == nil
	m.mu.Unlock()
	if !missing || m.store == nil {
		return
	}
	messages, err := m.store.Messages(context.Background(), id)
	if store.Damaged(err) {
		m.renew(context.Background())
		return // the chat is in the file that was set aside
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.o.Logger.Error("a chat cannot be read", "code", protocol.AsError(err).Code)
		m.notices.save = err
	} else {
		t.tree = thread.NewTree(messages)
		if t.tree.Len() > 0 && t.tree.Get(t.Head) == nil {
			t.Head = t.tree.Leaf(0) // its own was lost with a full disk: the rest is to be seen
		}
	}
	m.changed()
}
