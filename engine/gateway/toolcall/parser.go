package toolcall

import (
	"encoding/json"
	"strings"
)

// Event is one piece of an answer: text of the message, or a part of a call.
type Event struct {
	// Text is set for text; then the rest is not. Thought is the same for what
	// the model thinks before it answers, where the form tells that apart.
	Text    string
	Thought string
	// Call counts calls from 0. Name is set at a call's first event, Args is a
	// piece of its arguments, a JSON object as text.
	Call int
	Name string
	Args string
	// End is set at a call's last event.
	End bool
}

// Parser splits an answer into text and calls while it comes. Text is never
// lost: what looked like a call and was none comes out as text. White space
// around calls is dropped. Not safe for concurrent use.
type Parser struct {
	f      Form
	params map[string]json.RawMessage // the tools' parameters by name
	buf    string                     // not decided yet
	calls  int
	space  string // white space behind text that is held back
	began  bool   // something else than white space was seen
	inner  scanner
	// raw is the text of the call under way, as long as it can still turn out
	// to be none.
	raw    strings.Builder
	listed bool // inside a list of calls
	closes bool // behind such a list, whose closing mark may come
	out    []Event
}

// scanner reads one call; see scan.go.
type scanner interface {
	// feed takes text and returns what it did not need; done says that the
	// call is over, ok false that it is none.
	feed(s string, emit func(name, args string)) (rest string, done, ok bool)
	// started reports whether the call's name was told.
	started() bool
}

// NewParser reads answers in the form f of a request with these tools.
func NewParser(f Form, tools []Tool) *Parser {
	p := &Parser{f: f, params: map[string]json.RawMessage{}}
	for _, t := range tools {
		p.params[t.Name] = t.Parameters
	}
	return p
}

// Calls is the number of calls begun.
func (p *Parser) Calls() int { return p.calls }

// Feed takes the next piece of the answer.
func (p *Parser) Feed(s string) []Event {
	p.out = nil
	p.buf += s
	for p.step() {
	}
	return p.out
}

// Finish takes the answer's end: what was held back comes out.
func (p *Parser) Finish() []Event {
	p.out = nil
	switch {
	case p.inner == nil && p.listed && p.raw.Len() > 0:
		p.text(p.raw.String() + p.buf) // a list without a call
	case p.inner == nil && !p.listed:
		p.text(p.buf)
	case p.inner == nil:
	case p.inner.started():
		p.event(Event{End: true})
	default:
		p.text(p.raw.String() + p.buf)
	}
	p.buf, p.inner, p.listed, p.closes = "", nil, false, false
	return p.out
}

func (p *Parser) event(e Event) {
	if e.Text == "" {
		e.Call = p.calls - 1
	}
	p.out = append(p.out, e)
}

// text emits text; white space waits for what comes behind it.
func (p *Parser) text(s string) {
	if s == "" {
		return
	}
	body := strings.TrimRight(s, " \t\r\n")
	if body == "" {
		p.space += s
		return
	}
	p.event(Event{Text: p.space + body})
	p.space, p.began = s[len(body):], true
}

// step does one thing with the buffer; false when it has to wait.
func (p *Parser) step() bool {
	if p.buf == "" {
		return false
	}
	if p.inner != nil {
		return p.call()
	}
	if p.listed {
		return p.between()
	}
	if p.closes {
		which, rest, wait := expect(p.buf, p.f.end)
		if wait {
			return false
		}
		if p.closes = false; which == 0 {
			p.buf = rest
			return true
		}
	}
	if p.f.bare && !p.began && p.calls == 0 {
		trimmed := strings.TrimLeft(p.buf, " \t\r\n")
		switch {
		case trimmed == "" || strings.HasPrefix(pythonTag, trimmed) && p.f.open == "":
			return false
		case p.f.open == "" && strings.HasPrefix(trimmed, pythonTag):
			p.buf = trimmed[len(pythonTag):]
			return true
		case trimmed[0] == '{':
			p.begin(p.buf[:len(p.buf)-len(trimmed)], trimmed)
			return true
		}
		p.began = true
	}
	if p.f.open == "" {
		p.text(p.buf)
		p.buf = ""
		return false
	}
	if i := strings.Index(p.buf, p.f.open); i >= 0 {
		p.text(p.buf[:i])
		p.began = true
		rest := p.buf[i+len(p.f.open):]
		if p.f.list {
			p.listed, p.buf = true, rest
			p.raw.Reset()
			p.raw.WriteString(p.f.open)
			return true
		}
		p.begin(p.f.open, rest)
		return true
	}
	// A beginning of the mark at the end waits.
	hold := overlap(p.buf, p.f.open)
	p.text(p.buf[:len(p.buf)-hold])
	p.buf = p.buf[len(p.buf)-hold:]
	return false
}

// begin starts a call whose text so far is mark.
func (p *Parser) begin(mark, rest string) {
	p.raw.Reset()
	p.raw.WriteString(mark)
	p.buf = rest
	p.inner = p.f.scanner(p)
}

// between reads what stands between the calls of a list.
func (p *Parser) between() bool {
	s := strings.TrimLeft(p.buf, " \t\r\n[,")
	if p.raw.Len() > 0 { // no call yet: it may turn out to be text
		p.raw.WriteString(p.buf[:len(p.buf)-len(s)])
	}
	p.buf = s
	switch {
	case s == "":
		return false
	case s[0] == ']':
		p.listed, p.buf = false, s[1:]
		if p.raw.Len() > 0 { // an empty list
			p.text(p.raw.String() + "]")
		} else {
			p.closes = p.f.end != ""
		}
	case s[0] == '{':
		p.inner = p.f.scanner(p)
	default: // no list
		p.listed = false
		p.text(p.raw.String())
	}
	return true
}

// call feeds the call under way.
func (p *Parser) call() bool {
	fed := p.buf
	rest, done, ok := p.inner.feed(fed, func(name, args string) {
		if name != "" {
			p.calls++
			p.space = ""
		}
		p.event(Event{Name: name, Args: args})
	})
	p.raw.WriteString(fed[:len(fed)-len(rest)])
	p.buf = rest
	switch {
	case !ok && !p.inner.started():
		// It was text all along, the rest of what was read with it.
		p.inner, p.listed = nil, false
		p.began = true
		p.text(p.raw.String())
		return true
	case done || !ok:
		p.event(Event{End: true})
		p.inner = nil
		p.raw.Reset()
		return true
	}
	return false
}
