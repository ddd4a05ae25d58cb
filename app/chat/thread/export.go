package thread

import (
	"encoding/json"
	"fmt"
	"strings"
	"time"
	"unicode"

	"neuron/engine/protocol"
)

// Labels are the words of an exported text.
type Labels struct {
	You        string // heads questions
	Answer     string // heads answers of a model without a name
	System     string // heads the system prompt
	Incomplete string // follows an answer that is not whole
}

// Markdown writes the branch that is shown as a document for people.
func Markdown(c *Chat, path []Message, l Labels) []byte {
	var b strings.Builder
	fmt.Fprintf(&b, "# %s\n\n%s\n", strings.Join(strings.Fields(c.Title), " "), c.Created.Format("2006-01-02 15:04"))
	if c.System != "" {
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", l.System, strings.TrimSpace(c.System))
	}
	for i := range path {
		m := &path[i]
		head := l.You
		if m.Role == RoleAssistant {
			if head = m.Model; head == "" {
				head = l.Answer
			}
		}
		fmt.Fprintf(&b, "\n## %s\n\n%s\n", head, strings.TrimSpace(m.Text))
		if m.State != StateComplete {
			fmt.Fprintf(&b, "\n*%s*\n", l.Incomplete)
		}
	}
	return []byte(b.String())
}

// file is the form of an exported chat. Fields are only ever added.
type file struct {
	Format   string        `json:"format"` // "neuron.chat/1"
	Title    string        `json:"title"`
	Model    string        `json:"model,omitempty"`
	Policy   string        `json:"policy"`
	System   string        `json:"system,omitempty"`
	Params   Params        `json:"parameters"`
	Created  time.Time     `json:"created"`
	Updated  time.Time     `json:"updated"`
	Head     string        `json:"head"` // the last message of the branch that is shown
	Messages []fileMessage `json:"messages"`
}

type fileMessage struct {
	ID      string                `json:"id"`
	Parent  string                `json:"parent,omitempty"`
	Role    Role                  `json:"role"`
	Content string                `json:"content"`
	State   State                 `json:"state"`
	Finish  protocol.FinishReason `json:"finish_reason,omitempty"`
	Error   *protocol.Error       `json:"error,omitempty"`
	Model   string                `json:"model,omitempty"`
	Policy  string                `json:"policy,omitempty"`
	Stats   *Stats                `json:"stats,omitempty"`
	Created time.Time             `json:"created"`
}

// JSON writes the whole chat with all its branches, for programs.
func JSON(c *Chat, t *Tree) ([]byte, error) {
	f := file{
		Format: "neuron.chat/1", Title: c.Title, Model: c.Model, Policy: Policy(c.Private), System: c.System, Params: c.Params,
		Created: c.Created.UTC(), Updated: c.Updated.UTC(), Head: c.Head.String(), Messages: []fileMessage{},
	}
	for _, m := range t.All() {
		out := fileMessage{
			ID: m.ID.String(), Role: m.Role, Content: m.Text, State: m.State, Finish: m.Finish, Error: m.Error,
			Model: m.Model, Stats: m.Stats, Created: m.Created.UTC(),
		}
		if m.Parent != 0 {
			out.Parent = m.Parent.String()
		}
		if m.Role == RoleAssistant {
			out.Policy = Policy(m.Private)
		}
		f.Messages = append(f.Messages, out)
	}
	raw, err := json.MarshalIndent(f, "", "  ")
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "encode the chat: %w", err)
	}
	return append(raw, '\n'), nil
}

// Policy is the gateway's word for a kind of route.
func Policy(private bool) string {
	if private {
		return "private"
	}
	return "public"
}

// FileName makes a name that every system takes, without an extension.
func FileName(title string) string {
	name := strings.Map(func(r rune) rune {
		switch {
		case unicode.IsLetter(r), unicode.IsDigit(r), unicode.IsMark(r), r == '-':
			return r
		case unicode.IsSpace(r), r == '_':
			return ' '
		}
		return -1
	}, title)
	name = strings.Join(strings.Fields(name), " ")
	if r := []rune(name); len(r) > maxTitle {
		name = strings.TrimSpace(string(r[:maxTitle]))
	}
	if name == "" {
		return "chat"
	}
	return "chat " + name
}
