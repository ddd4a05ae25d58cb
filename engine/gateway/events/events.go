// Package events writes server-sent events (WHATWG HTML, section 9.2) to a
// client. The gateway imports it; it knows nothing of what the events say.
package events

import (
	"encoding/json"
	"net/http"
	"time"
)

// Limit is how long one write to a client may block; a client that does not
// read for so long is gone.
const Limit = 30 * time.Second

// Writer writes the events of one answer. One goroutine uses it.
type Writer struct {
	w     http.ResponseWriter
	rc    *http.ResponseController
	begun bool
}

// New is a writer that has sent nothing, the headers neither.
func New(w http.ResponseWriter) *Writer { return &Writer{w: w, rc: http.NewResponseController(w)} }

// Instead gives the response up for another answer, as long as nothing of this
// one was sent.
func (s *Writer) Instead() (http.ResponseWriter, bool) {
	if s.begun {
		return nil, false
	}
	s.begun = true
	return s.w, true
}

// Header is for headers of the answer; false when they have been sent.
func (s *Writer) Header() (http.Header, bool) { return s.w.Header(), !s.begun }

// Begin sends the headers, once.
func (s *Writer) Begin() error {
	if s.begun {
		return nil
	}
	s.begun = true
	h := s.w.Header()
	h.Set("Content-Type", "text/event-stream; charset=utf-8")
	h.Set("Cache-Control", "no-cache")
	h.Set("X-Accel-Buffering", "no") // nginx would hold events back
	s.deadline()
	s.w.WriteHeader(http.StatusOK)
	return s.rc.Flush()
}

func (s *Writer) deadline() {
	// Not every ResponseWriter of a test can do it, all of net/http can.
	_ = s.rc.SetWriteDeadline(time.Now().Add(Limit))
}

func (s *Writer) write(raw ...[]byte) error {
	if err := s.Begin(); err != nil {
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

// Event sends v as JSON; name is "" for the client's default kind.
func (s *Writer) Event(name string, v any) error {
	raw, err := json.Marshal(v)
	if err != nil {
		return err
	}
	if name != "" {
		return s.write([]byte("event: "+name+"\ndata: "), raw, []byte("\n\n"))
	}
	return s.write([]byte("data: "), raw, []byte("\n\n"))
}

// Data sends text of one line as it is.
func (s *Writer) Data(text string) error { return s.write([]byte("data: " + text + "\n\n")) }

// Comment sends what clients pass over.
func (s *Writer) Comment(text string) error { return s.write([]byte(": " + text + "\n\n")) }
