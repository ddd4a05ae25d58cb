package chat

import (
	"context"
	"math"
	"strconv"
	"strings"
	"time"

	"neuron/app/chat/completion"
	"neuron/app/chat/store"
	"neuron/app/chat/thread"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
)

// SetDraft remembers what is typed and not sent.
func (m *Model) SetDraft(text string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.current
	if t.Draft == text || m.closed {
		return
	}
	t.Draft = text
	if m.drafts == nil {
		m.drafts = time.AfterFunc(draftAfter, func() {
			m.mu.Lock()
			defer m.mu.Unlock()
			if !m.closed {
				m.saveDraft()
			}
		})
	}
}

// saveDraft writes the current chat's draft, if it is not written; mu is held.
func (m *Model) saveDraft() {
	if m.drafts == nil {
		return
	}
	m.dropDraftTimer()
	t := m.current
	if t.stored && t.Empty() {
		// Nothing was ever said in it: without its draft it is no chat.
		t.stored = false
		delete(m.chats, t.ID)
		m.sortList()
		m.disk(func(ctx context.Context, s *store.Store) error { return s.Remove(ctx, t.ID) })
	} else {
		m.save(t)
	}
	m.changed()
}

// dropDraftTimer is for when the draft is written, or is none any more.
func (m *Model) dropDraftTimer() {
	if m.drafts != nil {
		m.drafts.Stop()
		m.drafts = nil
	}
}

// change changes the current chat's settings and saves them.
func (m *Model) change(f func(c *thread.Chat)) {
	m.mu.Lock()
	defer m.mu.Unlock()
	f(&m.current.Chat)
	m.save(m.current)
	m.changed()
}

// SetModel chooses who answers in this chat.
func (m *Model) SetModel(id string) { m.change(func(c *thread.Chat) { c.Model = id }) }

// SetPrivate chooses between a private and a public route.
func (m *Model) SetPrivate(on bool) { m.change(func(c *thread.Chat) { c.Private = on }) }

// SetSystem gives the chat a system prompt.
func (m *Model) SetSystem(text string) { m.change(func(c *thread.Chat) { c.System = text }) }

// ParamTexts are the parameters as the user types them; "" is the default.
type ParamTexts struct{ Temperature, TopP, MaxTokens, Seed string }

// SetParams takes parameters, each by itself. Those that cannot be read stay as
// they were, and problems says what is wrong with them.
func (m *Model) SetParams(p ParamTexts) (problems ParamTexts) {
	w := m.o.Words
	number := func(s string, top float64, out **float64) string {
		if s = strings.TrimSpace(s); s == "" {
			*out = nil
			return ""
		}
		v, err := strconv.ParseFloat(strings.Replace(s, ",", ".", 1), 64)
		if err != nil || math.IsNaN(v) || v < 0 || v > top {
			return w.T("chat.param_range", "Top", w.Decimal(top, 0))
		}
		*out = &v
		return ""
	}
	m.change(func(c *thread.Chat) {
		n := c.Params.Clone()
		problems.Temperature = number(p.Temperature, thread.MaxTemperature, &n.Temperature)
		problems.TopP = number(p.TopP, 1, &n.TopP)
		if s := strings.TrimSpace(p.MaxTokens); s == "" {
			n.MaxTokens = 0
		} else if v, err := strconv.Atoi(s); err != nil || v < 1 || v > thread.MaxMaxTokens {
			problems.MaxTokens = w.T("chat.param_tokens", "Top", w.Number(thread.MaxMaxTokens))
		} else {
			n.MaxTokens = v
		}
		if s := strings.TrimSpace(p.Seed); s == "" {
			n.Seed = nil
		} else if v, err := strconv.ParseUint(s, 10, 32); err != nil {
			problems.Seed = w.T("chat.param_seed", "Top", w.Number(math.MaxUint32))
		} else {
			seed := uint32(v)
			n.Seed = &seed
		}
		c.Params = n
	})
	return problems
}

// paramTexts is the other direction.
func (m *Model) paramTexts(p thread.Params) (out ParamTexts) {
	float := func(f *float64) string {
		if f == nil {
			return ""
		}
		s := strconv.FormatFloat(*f, 'f', -1, 64)
		if m.o.Words.Decimal(0.5, 1) == "0,5" {
			s = strings.Replace(s, ".", ",", 1)
		}
		return s
	}
	out.Temperature, out.TopP = float(p.Temperature), float(p.TopP)
	if p.MaxTokens > 0 {
		out.MaxTokens = strconv.Itoa(p.MaxTokens)
	}
	if p.Seed != nil {
		out.Seed = strconv.FormatUint(uint64(*p.Seed), 10)
	}
	return out
}

// Branch shows the sibling of a message that is step places away.
func (m *Model) Branch(id thread.ID, step int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	t := m.current
	if t.message(id) == nil || t.answer != nil {
		return
	}
	if head := t.tree.Sibling(id, step); head != id && head != t.Head {
		t.Head = head
		m.save(t)
		m.changed()
	}
}

// ExportFormat is a form of an exported chat.
type ExportFormat string

// The formats.
const (
	ExportMarkdown ExportFormat = "md"   // the branch that is shown, for people
	ExportJSON     ExportFormat = "json" // all of it, for programs
)

// Export makes a file of a chat. done gets its name and content, or an error,
// from another goroutine.
func (m *Model) Export(id thread.ID, format ExportFormat, done func(name string, data []byte, err error)) {
	m.writer.do(func() {
		m.load(id)
		m.mu.Lock()
		t := m.chats[id]
		if t == nil || t.tree == nil {
			m.mu.Unlock()
			done("", nil, protocol.Errorf(protocol.CodeNotFound, "the chat is not there"))
			return
		}
		c, tree := t.Chat, thread.NewTree(t.tree.All())
		m.mu.Unlock()
		w := m.o.Words
		name := thread.FileName(c.Title) + "." + string(format)
		if format == ExportJSON {
			data, err := thread.JSON(&c, tree)
			done(name, data, err)
			return
		}
		done(name, thread.Markdown(&c, tree.Path(c.Head), thread.Labels{
			You: w.T("chat.you"), Answer: w.T("chat.answer"), System: w.T("chat.system"), Incomplete: w.T("chat.incomplete"),
		}), nil)
	})
}

// windowStep is how many messages are shown at first, and how many more each time.
const windowStep = 50

// LoadOlder shows more of the chat.
func (m *Model) LoadOlder() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.window += windowStep
	m.changed()
}

// modelList is what the engine said last about models.
type modelList struct {
	all      []completion.Model
	err      error
	asked    time.Time
	answered bool       // with all, or with err
	phase    link.Phase // of the engine, when it was looked at last
	shown    bool
}

// Shown says whether the page is looked at: models are asked for only then.
func (m *Model) Shown(on bool) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.models.shown = on
	select {
	case m.wake <- struct{}{}:
	default: // it will look anyway
	}
}

// follow sees the engine come and go, and asks for its models from time to time.
func (m *Model) follow() {
	changed, stop := m.o.Engine.Watch()
	defer stop()
	again := time.NewTicker(modelsEvery)
	defer again.Stop()
	for {
		if m.look() {
			m.askModels()
		}
		select {
		case <-m.ctx.Done():
			return
		case <-changed:
		case <-m.wake:
		case <-again.C:
		}
	}
}

// look takes in how the engine is, and says whether to ask for its models.
func (m *Model) look() bool {
	state := m.o.Engine.State()
	phase := state.Phase
	m.mu.Lock()
	defer m.mu.Unlock()
	l := &m.models
	if phase != l.phase {
		l.phase, l.asked = phase, time.Time{}
		m.changed()
	}
	m.resume(state)
	now := m.o.Now()
	if phase != link.Connected || !l.shown || now.Sub(l.asked) < modelsEvery {
		return false
	}
	l.asked = now
	return true
}

func (m *Model) askModels() {
	ctx, cancel := context.WithTimeout(m.ctx, modelsEvery)
	defer cancel()
	var all []completion.Model
	api, err := m.o.Engine.API(ctx)
	if err == nil {
		all, err = api.Models(ctx)
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.models.err, m.models.answered = err, true
	if err == nil {
		m.models.all = all
	}
	m.changed()
}

// StartEngine looks for an engine, and starts one.
func (m *Model) StartEngine() { m.o.Engine.Retry() }

// connected reports whether an engine answers, as follow saw it; mu is held.
func (m *Model) connected() bool { return m.models.phase == link.Connected }

// modelOf is the model that a chat's next question goes to: the chat's own, else
// one that can answer now; mu is held.
func (m *Model) modelOf(t *talk) string {
	if t.Model != "" {
		return t.Model
	}
	for _, c := range m.models.all {
		if c.Ready {
			return c.ID
		}
	}
	if len(m.models.all) > 0 {
		return m.models.all[0].ID
	}
	return ""
}
