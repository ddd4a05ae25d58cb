package toolcall

import (
	"encoding/json"
	"strings"
)

// scanner makes the reader of one call.
func (f Form) scanner(p *Parser) scanner {
	switch {
	case f.tags != nil:
		return &tagged{t: f.tags, end: f.end, params: p.params}
	case f.keyed:
		return &keyed{}
	case f.sep != "":
		return &named{f: f}
	}
	o := &objectCall{args: []string{"arguments", "parameters"}}
	if f.bare { // plain JSON is a call only if it names a tool
		o.known = p.params
	}
	if !f.list {
		o.end = f.end
	}
	return o
}

// values follows JSON text byte by byte: how deep it is, and in a string or
// not.
type values struct {
	depth  int
	str    bool
	escape bool
}

func (v *values) byte(c byte) {
	switch {
	case v.escape:
		v.escape = false
	case v.str && c == '\\':
		v.escape = true
	case c == '"':
		v.str = !v.str
	case v.str:
	case c == '{' || c == '[':
		v.depth++
	case c == '}' || c == ']':
		v.depth--
	}
}

// objectCall reads {"name": ..., "arguments": {...}} in any order of keys.
// Arguments stream once the name is known.
type objectCall struct {
	args  []string
	known map[string]json.RawMessage // the tools; nil: any name
	end   string                     // what has to follow the object; "" nothing

	v       values
	opened  bool
	key     string
	current strings.Builder // the key or value under way
	value   bool            // a value is being read
	name    string
	told    bool
	held    strings.Builder // arguments that wait for the name
	sent    bool            // some arguments were emitted
	over    bool            // the object is complete
}

func (o *objectCall) started() bool { return o.told }

func (o *objectCall) isArgs() bool { return o.key == o.args[0] || o.key == o.args[1] }

// feed implements scanner.
func (o *objectCall) feed(s string, emit func(name, args string)) (rest string, done, ok bool) {
	stream := 0 // where unsent bytes of the arguments begin
	flush := func(to int) {
		if o.told && o.value && o.streams() && to > stream {
			emit("", s[stream:to])
			o.sent = true
		}
		stream = to
	}
	for i := 0; i < len(s); i++ {
		if o.over {
			return o.tail(s[i:])
		}
		c := s[i]
		if !o.opened {
			switch {
			case c == '{':
				o.opened = true
				o.v.byte(c)
			case !isSpace(c):
				return s[i:], false, false
			}
			stream = i + 1
			continue
		}
		before := o.v
		o.v.byte(c)
		switch {
		case before.depth == 1 && !before.str && !o.value && c == ':':
			var key string
			if json.Unmarshal([]byte(o.current.String()), &key) != nil {
				return s[i:], false, false
			}
			o.key, o.value = key, true
			o.current.Reset()
			stream = i + 1
		case before.depth == 1 && !before.str && (c == ',' || c == '}'):
			flush(i)
			if !o.closeValue(c, emit) {
				return s[i:], false, false
			}
			o.over = c == '}'
			stream = i + 1
		case o.value && o.current.Len() == 0 && isSpace(c):
			stream = i + 1
		default:
			o.current.WriteByte(c)
		}
	}
	flush(len(s))
	if o.over {
		return o.tail("")
	}
	return "", false, true
}

// streams reports arguments that are an object, which may go out as they come.
func (o *objectCall) streams() bool {
	return o.isArgs() && strings.HasPrefix(o.current.String(), "{")
}

// closeValue takes a complete value, or nothing in front of a brace.
func (o *objectCall) closeValue(c byte, emit func(name, args string)) bool {
	text := strings.TrimSpace(o.current.String())
	defer func() {
		o.value = false
		o.current.Reset()
	}()
	if !o.value {
		return text == "" && c == '}'
	}
	switch {
	case o.key == "name" && !o.told:
		if json.Unmarshal([]byte(text), &o.name) != nil || o.name == "" || o.known != nil && !has(o.known, o.name) {
			return false
		}
		o.told = true
		held := o.held.String()
		emit(o.name, held)
		o.sent = held != ""
	case o.isArgs() && o.told && o.sent:
		// It has streamed.
	case o.isArgs():
		args := text
		var inner string
		if json.Unmarshal([]byte(text), &inner) == nil { // some models quote the object
			args = inner
		}
		if args == "" || args == "null" {
			args = "{}"
		}
		if o.told {
			emit("", args)
			o.sent = true
		} else {
			o.held.Reset()
			o.held.WriteString(args)
		}
	}
	if c == '}' && o.told && !o.sent {
		emit("", "{}")
		o.sent = true
	}
	return true
}

// tail waits for what closes the call.
func (o *objectCall) tail(s string) (rest string, done, ok bool) {
	if !o.told {
		return s, false, false
	}
	trimmed := strings.TrimLeft(s, " \t\r\n")
	switch {
	case o.end == "" || strings.HasPrefix(trimmed, o.end):
		return strings.TrimPrefix(trimmed, o.end), true, true
	case strings.HasPrefix(o.end, trimmed):
		return s, false, true // waits; nothing is taken
	}
	return s, true, true // without its closing mark
}

const space = " \t\r\n"

// expect finds which of the texts s begins with behind white space; rest is
// what follows it. wait says that more of s is needed to know; which is -1 for
// none.
func expect(s string, texts ...string) (which int, rest string, wait bool) {
	trimmed := strings.TrimLeft(s, space)
	for i, t := range texts {
		if strings.HasPrefix(trimmed, t) {
			return i, trimmed[len(t):], false
		}
		wait = wait || strings.HasPrefix(t, trimmed)
	}
	return -1, s, wait
}

func has(tools map[string]json.RawMessage, name string) bool {
	_, ok := tools[name]
	return ok
}

func isSpace(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

// named reads name SEP {...} END.
type named struct {
	f    Form
	told bool
	v    values
	open bool
	over bool
}

func (n *named) started() bool { return n.told }

// maxName bounds what may stand in front of the arguments.
const maxName = 256

// feed implements scanner.
func (n *named) feed(s string, emit func(name, args string)) (rest string, done, ok bool) {
	if !n.told {
		i := strings.Index(s, n.f.sep)
		switch {
		case i > maxName || i < 0 && len(s) > maxName+len(n.f.sep):
			return s, false, false
		case i < 0:
			return s, false, true // waits for the separator
		}
		name, _, _ := strings.Cut(strings.TrimSpace(s[:i]), callID)
		if name = strings.TrimSpace(name); name == "" {
			return s, false, false
		}
		n.told = true
		emit(name, "")
		s = s[i+len(n.f.sep):]
	}
	from := 0
	for i := 0; i < len(s) && !n.over; i++ {
		if !n.open && isSpace(s[i]) {
			from = i + 1
			continue
		}
		if !n.open && s[i] != '{' {
			return s[i:], false, false
		}
		n.open = true
		n.v.byte(s[i])
		if n.v.depth == 0 && !n.v.str {
			n.over = true
			emit("", s[from:i+1])
			s, from = s[i+1:], 0
		}
	}
	if !n.over {
		if n.open && from < len(s) {
			emit("", s[from:])
		}
		return "", false, true
	}
	trimmed := strings.TrimLeft(s, " \t\r\n")
	switch {
	case n.f.end == "" || strings.HasPrefix(trimmed, n.f.end):
		return strings.TrimPrefix(trimmed, n.f.end), true, true
	case strings.HasPrefix(n.f.end, trimmed):
		return s, false, true
	}
	return s, true, true
}
