// Package thread is what a chat is made of: messages in a tree, since an edited
// question or a second answer never replaces the first. It is pure. The parts
// of the chat page import it; it knows no database, no network and no screen.
package thread

import (
	"crypto/rand"
	"encoding/binary"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"neuron/engine/protocol"
)

// ID names a chat or a message; 0 is none.
type ID int64

// NewID is random, so that whoever makes a message need not ask the database.
func NewID() ID {
	var b [8]byte
	for {
		rand.Read(b[:]) // never fails (crypto/rand)
		if id := ID(binary.LittleEndian.Uint64(b[:]) >> 1); id != 0 {
			return id
		}
	}
}

func (id ID) String() string { return strconv.FormatInt(int64(id), 36) }

// Role says who speaks.
type Role string

// The roles. The system prompt is no message: it belongs to the chat.
const (
	RoleUser      Role = "user"
	RoleAssistant Role = "assistant"
)

// State says whether a message is whole.
type State string

// The states. Questions are always complete.
const (
	StateComplete State = "complete"
	StateWriting  State = "writing" // tokens are coming
	StateStopped  State = "stopped" // by the user
	StateFailed   State = "failed"  // Error says why
	StateLost     State = "lost"    // the window ended in the middle
)

// Params are the settings of a chat's answers; nil and 0 leave the server's
// defaults.
type Params struct {
	Temperature *float64 `json:"temperature,omitempty"` // 0 to 2
	TopP        *float64 `json:"top_p,omitempty"`       // 0 to 1
	MaxTokens   int      `json:"max_tokens,omitempty"`  // 1 to 131,072
	Seed        *uint32  `json:"seed,omitempty"`
}

// Bounds of Params.
const (
	MaxTemperature = 2
	MaxMaxTokens   = 131072
)

// Chat is a conversation without its messages.
type Chat struct {
	ID    ID
	Title string // "" until the first question
	// Named says that the user gave the title.
	Named   bool
	Model   string
	Private bool
	System  string
	Params  Params
	// Draft is what stands in the entry and is not sent.
	Draft string
	// Head is the last message of the branch that is shown.
	Head             ID
	Created, Updated time.Time
}

// Empty reports whether nothing would be lost without the chat.
func (c *Chat) Empty() bool { return c.Head == 0 && strings.TrimSpace(c.Draft) == "" }

// Message is one question or answer.
type Message struct {
	ID, Chat ID
	Parent   ID // 0: the chat begins here
	Role     Role
	Text     string
	State    State
	// Finish, Error, Model, Private and Stats belong to answers.
	Finish  protocol.FinishReason
	Error   *protocol.Error
	Model   string
	Private bool
	Stats   *Stats
	Created time.Time
}

// Stats are what is kept of an answer's telemetry.
type Stats struct {
	Tokens           int     `json:"tokens"`
	PromptTokens     int     `json:"prompt_tokens"`
	TokensPerSecond  float64 `json:"tokens_per_second"` // from the first token to the last
	FirstTokenMillis float64 `json:"first_token_ms"`
	ElapsedMillis    float64 `json:"elapsed_ms"`
	Hops             []Hop   `json:"hops,omitempty"`
}

// Hop is one computer of a route.
type Hop struct {
	Node   protocol.NodeID `json:"node"`
	Use    protocol.Range  `json:"use"`
	Health string          `json:"health"`
	// StepMillis is the time in the model for one token, 0 when not known.
	StepMillis float64 `json:"step_ms"`
}

// StatsOf reads a snapshot.
func StatsOf(t *protocol.Telemetry) *Stats {
	s := &Stats{
		Tokens: t.Tokens, PromptTokens: t.PrefillTotal, TokensPerSecond: t.TokensPerSecond,
		FirstTokenMillis: t.FirstTokenMillis, ElapsedMillis: t.ElapsedMillis,
	}
	if d := t.ElapsedMillis - t.FirstTokenMillis; t.Tokens > 1 && t.FirstTokenMillis > 0 && d > 0 && t.Phase.Ended() {
		s.TokensPerSecond = float64(t.Tokens-1) / d * 1000
	}
	for _, h := range t.Route {
		hop := Hop{Node: h.Node, Use: h.Use, Health: h.Health}
		if n := h.Counters.DecodeSteps; n > 0 {
			hop.StepMillis = float64(h.Counters.DecodeMicros) / float64(n) / 1000
		}
		s.Hops = append(s.Hops, hop)
	}
	return s
}

// maxTitle is in characters.
const maxTitle = 60

// Title makes a title of a question: its first line that says something, cut
// at a word.
func Title(question string) string {
	line := ""
	for l := range strings.Lines(question) {
		l = strings.TrimLeft(l, "#>*-` \t")
		if strings.IndexFunc(l, func(r rune) bool { return unicode.IsLetter(r) || unicode.IsDigit(r) }) >= 0 {
			line = l
			break
		}
	}
	line = strings.Join(strings.FieldsFunc(line, func(r rune) bool { return unicode.IsSpace(r) || unicode.IsControl(r) }), " ")
	if utf8.RuneCountInString(line) <= maxTitle {
		return line
	}
	cut := string([]rune(line)[:maxTitle])
	if i := strings.LastIndexByte(cut, ' '); i > len(cut)/2 {
		cut = cut[:i]
	}
	return strings.TrimRightFunc(cut, func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSpace(r) }) + "…"
}

// Turn is a message as a model gets it.
type Turn struct {
	Role Role
	Text string
}

// Turns are what a model is told of a path. Answers that have no text are left
// out, and two questions in a row become one: templates of many models insist
// on turns that alternate.
func Turns(path []Message) []Turn {
	var out []Turn
	for i := range path {
		m := &path[i]
		switch n := len(out); {
		case m.Role == RoleAssistant && strings.TrimSpace(m.Text) == "":
		case n > 0 && out[n-1].Role == m.Role:
			out[n-1].Text += "\n\n" + m.Text
		default:
			out = append(out, Turn{m.Role, m.Text})
		}
	}
	return out
}

// Clone copies what c points to.
func (p Params) Clone() Params {
	for _, f := range []**float64{&p.Temperature, &p.TopP} {
		if *f != nil {
			v := **f
			*f = &v
		}
	}
	if p.Seed != nil {
		v := *p.Seed
		p.Seed = &v
	}
	return p
}

// Sort orders chats, the one used last first.
func Sort(chats []Chat) {
	slices.SortStableFunc(chats, func(a, b Chat) int { return b.Updated.Compare(a.Updated) })
}
