package chat

import (
	"neuron/app/chat/thread"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
)

// View is what the page shows. It belongs to the caller; texts are ready to be
// shown, in the user's language.
type View struct {
	// Version grows with every change: an equal one shows the same.
	Version uint64
	Notice  *Notice

	Groups      []Group
	Query       string
	NothingMade bool // there is no chat yet
	NotFound    bool // a search found nothing
	Undo        string

	Chat      thread.ID
	Title     string
	Stored    bool // the chat is in the list: it can be renamed, exported, deleted
	Loading   bool
	Older     int // messages above the first that is shown
	Messages  []Message
	Draft     string
	Answering bool
	CanSend   bool
	// Hint says why nothing can be sent, "" when it can.
	Hint string

	Engine  EngineState
	Models  []Choice
	Model   string
	Private bool
	// Policy says who can see the text.
	Policy string
	System string
	Params ParamTexts
	Strip  *Strip
}

// Notice is about the file of the chats.
type Notice struct{ Text, Remedy string }

// EngineState is how the engine is.
type EngineState struct {
	Phase link.Phase
	// Text says it when it does not run, Remedy what can be done.
	Text, Remedy string
}

// Choice is a model in the picker.
type Choice struct {
	ID, Label string
	Ready     bool
}

// Message is a question or an answer.
type Message struct {
	ID      thread.ID
	User    bool
	Name    string // who speaks
	Text    string
	Writing bool
	// Note says in a sentence why an answer is not whole, or what is particular.
	Note    string
	Problem *Problem
	// Place is which of Of versions this one is, from 1.
	Place, Of int
}

// View makes what is shown now.
func (m *Model) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	w, t := m.o.Words, m.current
	v := View{
		Version: m.version, Notice: m.notices.view(w), Groups: m.groups(), Query: m.search.query, NothingMade: len(m.order) == 0,
		Chat: t.ID, Title: t.Title, Stored: t.stored, Loading: t.tree == nil, Draft: t.Draft, Answering: t.answer != nil, CanSend: m.canAsk(),
		Model: m.modelOf(t), Private: t.Private, System: t.System, Params: m.paramTexts(t.Params), Policy: w.T("chat.policy_public"),
	}
	v.NotFound = m.search.done && len(v.Groups) == 0
	if t.Private {
		v.Policy = w.T("chat.policy_private")
	}
	if v.Title == "" {
		v.Title = w.T("chat.untitled")
	}
	if m.undo != nil {
		title := m.undo.talk.Title
		if title == "" {
			title = w.T("chat.untitled")
		}
		v.Undo = w.T("chat.deleted", "Title", title)
	}
	m.viewEngine(&v)
	m.viewMessages(&v)
	return v
}

// viewEngine fills in what can answer; mu is held.
func (m *Model) viewEngine(v *View) {
	w := m.o.Words
	v.Engine.Phase = m.models.phase
	switch v.Engine.Phase {
	case link.Absent:
		v.Engine.Text, v.Engine.Remedy = w.T("chat.engine_absent"), w.T("chat.engine_absent_remedy")
		if err := m.o.Engine.State().Err; err != nil {
			v.Engine.Text, v.Engine.Remedy = w.Code(err.Code, err.Message)
		}
		v.Hint = w.T("chat.hint_engine")
	case link.Starting, link.Lost, "":
		v.Engine.Text = w.T("chat.engine_starting")
		if v.Engine.Phase == link.Lost {
			v.Engine.Text = w.T("chat.engine_lost")
		}
		v.Hint = v.Engine.Text
	case link.Connected:
		if v.Model == "" {
			v.Hint = w.T("chat.hint_no_model")
			if err := m.models.err; err != nil {
				v.Hint, _ = w.Code(protocol.AsError(err).Code, protocol.AsError(err).Message)
			} else if !m.models.answered {
				v.Hint = w.T("chat.hint_models")
			}
		}
	}
	listed := false
	for _, c := range m.models.all {
		label := c.ID
		switch {
		case c.Ready:
		case c.Held > 0:
			label = w.T("chat.model_part", "Model", c.ID, "Held", c.Held, "Layers", c.Layers)
		default:
			label = w.T("chat.model_off", "Model", c.ID)
		}
		v.Models = append(v.Models, Choice{c.ID, label, c.Ready})
		listed = listed || c.ID == v.Model
		if c.ID == v.Model && !c.Ready {
			v.Hint = w.T("chat.hint_model_off")
		}
	}
	if !listed && v.Model != "" {
		v.Models = append(v.Models, Choice{v.Model, w.T("chat.model_off", "Model", v.Model), false})
	}
}

// viewMessages fills in the branch that is shown; mu is held.
func (m *Model) viewMessages(v *View) {
	t := m.current
	if t.tree == nil {
		return
	}
	path := t.tree.Path(t.Head)
	from := max(0, len(path)-m.window)
	v.Older = from
	for i := from; i < len(path); i++ {
		v.Messages = append(v.Messages, m.message(t, &path[i], i == len(path)-1))
	}
	for i := len(path) - 1; i >= 0; i-- {
		if path[i].Role == thread.RoleAssistant {
			v.Strip = m.strip(t, &path[i])
			break
		}
	}
}

func (m *Model) message(t *talk, msg *thread.Message, last bool) Message {
	w := m.o.Words
	out := Message{ID: msg.ID, User: msg.Role == thread.RoleUser, Name: w.T("chat.you"), Text: msg.Text, Writing: msg.State == thread.StateWriting}
	out.Place, out.Of = t.tree.Place(msg.ID)
	if out.User {
		return out
	}
	if out.Name = msg.Model; out.Name == "" {
		out.Name = w.T("chat.answer")
	}
	out.Note = m.note(msg)
	switch a := m.again; {
	case a != nil && a.talk == t && a.id == msg.ID:
		out.Note = w.T("chat.note_again")
	case msg.Error != nil:
		out.Problem = m.problem(msg, last && t.answer == nil)
	}
	return out
}

// note says why an answer is not what one would expect.
func (m *Model) note(msg *thread.Message) string {
	w := m.o.Words
	switch msg.State {
	case thread.StateStopped:
		return w.T("chat.note_stopped")
	case thread.StateLost:
		return w.T("chat.note_lost")
	case thread.StateFailed:
		if msg.Text != "" {
			return w.T("chat.note_failed")
		}
	case thread.StateComplete:
		switch {
		case msg.Finish == "length":
			return w.T("chat.note_length")
		case msg.Text == "":
			return w.T("chat.note_empty")
		}
	case thread.StateWriting:
	}
	return ""
}
