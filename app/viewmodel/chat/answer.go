package chat

import (
	"context"
	"errors"
	"slices"
	"strings"
	"time"

	"neuron/app/chat/completion"
	"neuron/app/chat/thread"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
)

// answer is one that is being written. Its goroutine ends soon after stop, and
// closes done when the end is saved.
type answer struct {
	id   thread.ID // of the message
	stop context.CancelCauseFunc
	done chan struct{}

	// Guarded by the Model's mu.
	text      strings.Builder
	telemetry *protocol.Telemetry // the last one, nil before the first
	saved     time.Time
}

var errStopped = errors.New("stopped by the user")

// Send asks a question in the current chat. False: it was not taken, since it is
// empty, an answer is under way, or nothing is ready to answer.
func (m *Model) Send(text string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.current
	if strings.TrimSpace(text) == "" || !m.canAsk() {
		return false
	}
	t.Draft = ""
	m.dropDraftTimer()
	m.ask(t, t.Head, text)
	return true
}

// Edit asks another question in the place of one that was asked. The old one
// stays beside it.
func (m *Model) Edit(question thread.ID, text string) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.current
	old := t.message(question)
	if old == nil || old.Role != thread.RoleUser || strings.TrimSpace(text) == "" || !m.canAsk() {
		return false
	}
	m.ask(t, old.Parent, text)
	return true
}

// Regenerate asks for another answer beside one; an answer without text is
// replaced. Without an engine one is started, and asked when it is there.
func (m *Model) Regenerate(id thread.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.regenerate(id)
}

func (m *Model) regenerate(id thread.ID) bool {
	t := m.current
	old := t.message(id)
	switch {
	case old == nil || old.Role != thread.RoleAssistant:
		return false
	case m.canAsk():
		m.repeat(t, old)
		return true
	case m.connected() || m.closed || t.answer != nil:
		return false
	}
	m.again = &again{t, id, m.o.Engine.State().Since}
	m.o.Engine.Retry()
	m.changed()
	return true
}

// again is an answer that is asked for once an engine runs.
type again struct {
	talk  *talk
	id    thread.ID
	since time.Time // when the engine's phase began, as it was asked for
}

// resume does what has waited for the engine, or gives it up with the engine;
// mu is held.
func (m *Model) resume(s link.State) {
	a := m.again
	if a == nil || s.Phase != link.Connected && (s.Phase != link.Absent || s.Since.Equal(a.since)) {
		return
	}
	m.again = nil
	m.changed()
	if old := a.talk.message(a.id); s.Phase == link.Connected && old != nil && a.talk.answer == nil && !a.talk.deleted && !m.closed {
		m.repeat(a.talk, old)
	}
}

// repeat begins another answer beside old; mu is held.
func (m *Model) repeat(t *talk, old *thread.Message) {
	if strings.TrimSpace(old.Text) == "" {
		m.begin(t, thread.Message{ID: old.ID, Parent: old.Parent, Created: old.Created})
	} else {
		m.begin(t, thread.Message{ID: thread.NewID(), Parent: old.Parent, Created: m.later(t)})
	}
}

// RegeneratePublic asks again over a public route, which stays the chat's choice.
func (m *Model) RegeneratePublic(id thread.ID) bool {
	m.mu.Lock()
	defer m.mu.Unlock()
	private := m.current.Private
	m.current.Private = false
	taken := m.regenerate(id)
	if !taken {
		m.current.Private = private
	}
	return taken
}

// Stop ends the current chat's answer; what has come is kept. One that waits for
// an engine is not asked for any more.
func (m *Model) Stop() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.again != nil && m.again.talk == m.current {
		m.again = nil
		m.changed()
	}
	if a := m.current.answer; a != nil {
		a.stop(errStopped)
	}
}

// canAsk reports whether the current chat can take a question; mu is held.
func (m *Model) canAsk() bool {
	t := m.current
	return !m.closed && t.tree != nil && t.answer == nil && m.connected() && m.modelOf(t) != ""
}

func (t *talk) message(id thread.ID) *thread.Message {
	if t.tree == nil {
		return nil
	}
	return t.tree.Get(id)
}

// later is now, and after every message that the chat has: the order of
// messages is that of their times, which the store keeps in microseconds.
func (m *Model) later(t *talk) time.Time {
	now := m.o.Now().Truncate(time.Microsecond)
	if !now.After(t.Updated) {
		now = t.Updated.Add(time.Microsecond)
	}
	t.Updated = now
	return now
}

// ask adds a question behind parent and begins its answer; mu is held.
func (m *Model) ask(t *talk, parent thread.ID, text string) {
	q := thread.Message{
		ID: thread.NewID(), Chat: t.ID, Parent: parent, Role: thread.RoleUser, Text: strings.TrimRight(text, " \t\r\n"),
		State: thread.StateComplete, Created: m.later(t),
	}
	t.tree.Put(q)
	if t.Title == "" && !t.Named {
		t.Title = thread.Title(q.Text)
	}
	t.Head = q.ID
	m.begin(t, thread.Message{ID: thread.NewID(), Parent: q.ID, Created: m.later(t)}, q)
}

// begin starts an answer; mu is held. also is saved with it.
func (m *Model) begin(t *talk, msg thread.Message, also ...thread.Message) {
	t.Model = m.modelOf(t)
	msg.Chat, msg.Role, msg.State, msg.Model, msg.Private = t.ID, thread.RoleAssistant, thread.StateWriting, t.Model, t.Private
	path := t.tree.Path(msg.Parent)
	t.tree.Put(msg)
	t.Head = msg.ID
	m.later(t)
	ctx, stop := context.WithCancelCause(m.ctx)
	a := &answer{id: msg.ID, stop: stop, done: make(chan struct{}), saved: m.o.Now()}
	t.answer = a
	m.list = nil
	m.save(t, append(slices.Clone(also), msg)...)
	r := completion.Request{Model: t.Model, System: t.System, Turns: thread.Turns(path), Params: t.Params.Clone(), Private: t.Private}
	m.changed()
	m.work.Go(func() {
		defer close(a.done)
		defer stop(nil)
		finish, err := m.write(ctx, t, a, r)
		m.finish(ctx, t, a, finish, err)
	})
}

// write lets the answer come.
func (m *Model) write(ctx context.Context, t *talk, a *answer, r completion.Request) (protocol.FinishReason, error) {
	api, err := m.o.Engine.API(ctx)
	if err != nil {
		return "", err
	}
	return api.Ask(ctx, r, func(s protocol.Telemetry) {
		m.mu.Lock()
		defer m.mu.Unlock()
		a.telemetry = &s
		m.changed()
	}, func(text string) {
		m.mu.Lock()
		defer m.mu.Unlock()
		a.text.WriteString(text)
		msg := t.tree.Get(a.id)
		msg.Text = a.text.String()
		if now := m.o.Now(); now.Sub(a.saved) >= saveEvery {
			a.saved = now
			m.save(t, *msg)
		}
		m.changed()
	})
}

// finish says how the answer ended, and saves it.
func (m *Model) finish(ctx context.Context, t *talk, a *answer, finish protocol.FinishReason, err error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	msg := t.tree.Get(a.id)
	msg.Finish = finish
	switch cause := context.Cause(ctx); {
	case err == nil:
		msg.State = thread.StateComplete
	case errors.Is(cause, errStopped):
		msg.State = thread.StateStopped
	case errors.Is(cause, errClosing):
		msg.State = thread.StateLost
	default:
		msg.State = thread.StateFailed
		msg.Error = protocol.AsError(err)
		m.o.Logger.Info("an answer failed", "code", msg.Error.Code, "phase", msg.Error.Phase)
	}
	if a.telemetry != nil {
		msg.Stats = thread.StatsOf(a.telemetry)
	}
	t.answer = nil
	m.list = nil
	m.save(t, *msg)
	m.changed()
}
