package gateway

import (
	"encoding/json"
	"net/http"
	"unicode/utf8"

	"neuron/engine/gateway/events"
	"neuron/engine/gateway/logprob"
	"neuron/engine/gateway/toolcall"
	"neuron/engine/protocol"
)

// streamSink writes an answer as server-sent events.
type streamSink struct {
	out     *events.Writer
	j       *job
	roles   map[int]bool // chat answers whose role was sent
	offsets map[int]int  // code points of plain answers so far
}

func newStreamSink(w http.ResponseWriter, j *job) *streamSink {
	return &streamSink{out: events.New(w), j: j, roles: map[int]bool{}, offsets: map[int]int{}}
}

// commit sends the headers.
func (s *streamSink) commit() error { return s.out.Begin() }

func (s *streamSink) begin(id protocol.SessionID) error {
	if h, ok := s.out.Header(); ok {
		h.Set("X-Neuron-Session", string(id))
		return nil
	}
	return s.out.Comment("session " + string(id))
}

func (s *streamSink) idle() error { return s.out.Comment("keep-alive") }

func (s *streamSink) telemetry(t protocol.Telemetry) error {
	return s.out.Event("neuron.telemetry", t)
}

func (s *streamSink) chunk(choice any) error {
	object := "text_completion"
	if s.j.isChat() {
		object = "chat.completion.chunk"
	}
	c := s.j.chunk(object)
	if choice != nil {
		c.Choices = append(c.Choices, choice)
	}
	if s.j.p.includeUsage {
		null := json.RawMessage("null")
		c.Usage = &null
	}
	return s.out.Event("", c)
}

// role sends the first delta of a chat answer once.
func (s *streamSink) role(i int, content *string) error {
	if !s.j.isChat() || s.roles[i] {
		return nil
	}
	s.roles[i] = true
	return s.chunk(chatChunkChoice{Index: i, Delta: chatDelta{Role: "assistant", Content: rawString(content)}})
}

func (s *streamSink) call(i int, e toolcall.Event, id string) error {
	if err := s.role(i, nil); err != nil {
		return err
	}
	d := toolCallDelta{Index: e.Call, ID: id, Function: toolFunctionDelta{Name: e.Name, Arguments: e.Args}}
	if id != "" {
		d.Type = "function"
	}
	return s.chunk(chatChunkChoice{Index: i, Delta: chatDelta{Calls: []toolCallDelta{d}}})
}

func (s *streamSink) thought(i int, delta string) error {
	if err := s.role(i, new(string)); err != nil {
		return err
	}
	return s.chunk(chatChunkChoice{Index: i, Delta: chatDelta{Thought: delta}})
}

func (s *streamSink) text(i int, delta string, tokens []protocol.Token) error {
	if err := s.role(i, new(string)); err != nil {
		return err
	}
	if s.j.isChat() {
		c := chatChunkChoice{Index: i, Delta: chatDelta{Content: rawString(&delta)}}
		if s.j.p.sampler.Logprobs {
			l := logprob.NewChat()
			c.Logprobs = &l
			c.Logprobs.Append(tokens, s.j.p.sampler.Top)
		}
		return s.chunk(c)
	}
	c := textChoice{Index: i, Text: delta}
	if s.j.p.sampler.Logprobs {
		l := logprob.NewText()
		c.Logprobs = &l
		s.offsets[i] = c.Logprobs.Append(tokens, s.j.p.sampler.Top, s.offsets[i])
	} else {
		s.offsets[i] += utf8.RuneCountInString(delta)
	}
	return s.chunk(c)
}

func (s *streamSink) finish(i int, reason protocol.FinishReason) error {
	if err := s.role(i, new(string)); err != nil {
		return err
	}
	if s.j.isChat() {
		return s.chunk(chatChunkChoice{Index: i, Finish: &reason})
	}
	return s.chunk(textChoice{Index: i, Finish: &reason})
}

func (s *streamSink) done(u usage) error {
	if s.j.p.includeUsage {
		c := s.j.chunk("text_completion")
		if s.j.isChat() {
			c.Object = "chat.completion.chunk"
		}
		c.Usage = usageJSON(u)
		if err := s.out.Event("", c); err != nil {
			return err
		}
	}
	return s.out.Data("[DONE]")
}

// fail ends the answer: a plain HTTP error as long as nothing was sent.
func (s *streamSink) fail(e *protocol.Error) {
	if w, ok := s.out.Instead(); ok {
		writeError(w, e, 0)
		return
	}
	_ = s.out.Event("", toBody(e)) // the client may be gone, which is no news
}
