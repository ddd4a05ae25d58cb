package gateway

import (
	"net/http"
	"strings"
	"unicode/utf8"

	"neuron/engine/gateway/logprob"
	"neuron/engine/gateway/toolcall"
	"neuron/engine/protocol"
)

// collectSink gathers an answer that is sent as a whole, or not at all.
type collectSink struct {
	w        http.ResponseWriter
	j        *job
	choices  []*collected
	session  protocol.SessionID
	sessions []protocol.Telemetry // the newest snapshot of each session
}

type collected struct {
	text   strings.Builder
	chat   logprob.Chat
	plain  logprob.Text
	offset int
	finish protocol.FinishReason
	calls  []toolCall
	// thoughts are of models that tell them apart.
	thoughts strings.Builder
}

func newCollectSink(w http.ResponseWriter, j *job) *collectSink {
	s := &collectSink{w: w, j: j}
	for range len(j.prompts) * j.p.n {
		s.choices = append(s.choices, &collected{chat: logprob.NewChat(),
			plain: logprob.NewText()})
	}
	return s
}

func (s *collectSink) begin(id protocol.SessionID) error {
	if s.session == "" {
		s.w.Header().Set("X-Neuron-Session", string(id))
	}
	s.session = id
	return nil
}

func (s *collectSink) commit() error { return nil }
func (s *collectSink) idle() error   { return nil }

func (s *collectSink) text(i int, delta string, tokens []protocol.Token) error {
	c := s.choices[i]
	c.text.WriteString(delta)
	switch {
	case !s.j.p.sampler.Logprobs:
		c.offset += utf8.RuneCountInString(delta)
	case s.j.isChat():
		c.chat.Append(tokens, s.j.p.sampler.Top)
	default:
		c.offset = c.plain.Append(tokens, s.j.p.sampler.Top, c.offset)
	}
	return nil
}

func (s *collectSink) call(i int, e toolcall.Event, id string) error {
	c := s.choices[i]
	if id != "" {
		c.calls = append(c.calls, toolCall{ID: id, Type: "function", Function: toolFunction{Name: e.Name}})
	}
	c.calls[e.Call].Function.Arguments += e.Args
	return nil
}

func (s *collectSink) thought(i int, delta string) error {
	s.choices[i].thoughts.WriteString(delta)
	return nil
}

func (s *collectSink) finish(i int, reason protocol.FinishReason) error {
	s.choices[i].finish = reason
	return nil
}

func (s *collectSink) telemetry(t protocol.Telemetry) error {
	if n := len(s.sessions); n > 0 && s.sessions[n-1].Session == t.Session {
		s.sessions[n-1] = t
	} else if t.Session != "" {
		s.sessions = append(s.sessions, t)
	}
	return nil
}

func (s *collectSink) done(u usage) error {
	object := "text_completion"
	if s.j.isChat() {
		object = "chat.completion"
	}
	out := s.j.chunk(object)
	for i, c := range s.choices {
		if s.j.isChat() {
			text := c.text.String()
			choice := chatChoice{Index: i, Message: chatMessage{Role: "assistant", Content: &text, Thought: c.thoughts.String(), Calls: c.calls}, Finish: c.finish}
			if text == "" && len(c.calls) > 0 {
				choice.Message.Content = nil
			}
			if s.j.p.sampler.Logprobs {
				choice.Logprobs = &c.chat
			}
			out.Choices = append(out.Choices, choice)
			continue
		}
		choice := textChoice{Index: i, Text: c.text.String(), Finish: &c.finish}
		if s.j.p.sampler.Logprobs {
			choice.Logprobs = &c.plain
		}
		out.Choices = append(out.Choices, choice)
	}
	out.Usage = usageJSON(u)
	if s.j.p.telemetry {
		out.Neuron = &neuronPart{Session: s.session}
		if n := len(s.sessions); n > 0 {
			out.Neuron.Telemetry = &s.sessions[n-1]
			if n > 1 {
				out.Neuron.Sessions = s.sessions
			}
		}
	}
	writeJSON(s.w, http.StatusOK, out)
	return nil
}

func (s *collectSink) fail(e *protocol.Error) { writeError(s.w, e, 0) }
