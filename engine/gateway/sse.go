package gateway

import (
	"encoding/json"
	"net/http"
	"time"
	"unicode/utf8"

	"neuron/engine/gateway/logprob"
	"neuron/engine/gateway/toolcall"
	"neuron/engine/protocol"
)

// writeLimit is how long one write to a client may block; a client that does
// not read for so long is gone.
const writeLimit = 30 * time.Second

// streamSink writes an answer as server-sent events.
type streamSink struct {
	w         http.ResponseWriter
	rc        *http.ResponseController
	j         *job
	committed bool
	roles     map[int]bool // chat answers whose role was sent
	offsets   map[int]int  // code points of plain answers so far
}

func newStreamSink(w http.ResponseWriter, j *job) *streamSink {
	return &streamSink{w: w, rc: http.NewResponseController(w), j: j, roles: map[int]bool{}, offsets: map[int]int{}}
}

// commit sends the headers.
func (s *streamSink) commit() error {
	if s.committed {
		return nil
	}
	s.committed = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	s.deadline()
	s.w.WriteHeader(http.StatusOK)
	return s.rc.Flush()
}

func (s *streamSink) deadline() {
	// Not every ResponseWriter of a test can do it, all of net/http can.
	_ = s.rc.SetWriteDeadline(time.Now().Add(writeLimit))
}

func (s *streamSink) write(raw ...[]byte) error {
	if err := s.commit(); err != nil {
		return err
	}
	s.deadline()
	var all []byte
	for _, r := range raw {
		all = append(all, r...)
	}
	if _, err := s.w.Write(all); err != nil {
		return err
	}
	return s.rc.Flush()
}

func (s *streamSink) event(name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if name != "" {
		return s.write([]byte("event: "+name+"\ndata: "), raw, []byte("\n\n"))
	}
	return s.write([]byte("data: "), raw, []byte("\n\n"))
}

func (s *streamSink) begin(id protocol.SessionID) error {
	if !s.committed {
		s.w.Header().Set("X-Neuron-Session", string(id))
		return nil
	}
	return s.write([]byte(": session " + string(id) + "\n\n"))
}

func (s *streamSink) idle() error { return s.write([]byte(": keep-alive\n\n")) }

func (s *streamSink) telemetry(t protocol.Telemetry) error { return s.event("neuron.telemetry", t) }

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
	return s.event("", c)
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
		if err := s.event("", c); err != nil {
			return err
		}
	}
	return s.write([]byte("data: [DONE]\n\n"))
}

// fail ends the answer: a plain HTTP error as long as nothing was sent.
func (s *streamSink) fail(e *protocol.Error) {
	if !s.committed {
		s.committed = true
		writeError(s.w, e, 0)
		return
	}
	_ = s.event("", toBody(e)) // the client may be gone, which is no news
}
