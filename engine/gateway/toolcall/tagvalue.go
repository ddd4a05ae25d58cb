package toolcall

import (
	"encoding/json"
	"slices"
	"strconv"
	"strings"
)

// maxValue bounds, in bytes, a value that waits for its end to be read as JSON;
// a larger one is a string.
const maxValue = 1 << 20

// tagValue makes JSON of an argument's value that stands as plain text between
// tags. Strings stream; the others go out when they are complete.
type tagValue struct {
	kinds   []string // what it may be; empty for a string
	streams bool
	held    strings.Builder
	out     *strings.Builder
}

func newTagValue(kinds []string, out *strings.Builder) tagValue {
	v := tagValue{kinds: kinds, out: out}
	if len(kinds) == 0 || len(kinds) == 1 && kinds[0] == "string" {
		v.stream()
	}
	return v
}

func (v *tagValue) stream() {
	v.streams = true
	v.out.WriteByte('"')
}

func (v *tagValue) write(s string) {
	if !v.streams && v.held.Len()+len(s) > maxValue {
		v.stream()
		escape(v.out, v.held.String())
	}
	if v.streams {
		escape(v.out, s)
	} else {
		v.held.WriteString(s)
	}
}

func (v *tagValue) finish() {
	if !v.streams {
		text := v.held.String()
		if j := literal(text); v.takes(j) {
			v.out.WriteString(j)
			return
		}
		v.stream()
		escape(v.out, text)
	}
	v.out.WriteByte('"')
}

// takes reports whether JSON is the value. Where a string is allowed, all that
// is no other allowed kind is one.
func (v *tagValue) takes(j string) bool {
	return j != "" && (slices.Contains(v.kinds, kindOf(j)) && j[0] != '"' || !slices.Contains(v.kinds, "string"))
}

// literal is a text as JSON, "" when it is none. Models that learned Python's
// spelling may write True, None and 'text'.
func literal(text string) string {
	text = strings.TrimSpace(text)
	if json.Valid([]byte(text)) {
		return text
	}
	if j := fromPython(text); json.Valid([]byte(j)) {
		return j
	}
	return ""
}

var pythonWords = strings.NewReplacer("True", "true", "False", "false", "None", "null")

// fromPython respells the literals of Python; what it makes need not be JSON.
func fromPython(s string) string {
	var b strings.Builder
	for s != "" {
		i := strings.IndexAny(s, `'"`)
		if i < 0 {
			i = len(s)
		}
		b.WriteString(pythonWords.Replace(s[:i]))
		if s = s[i:]; s == "" {
			break
		}
		quote := s[0]
		s = s[1:]
		var text strings.Builder
		for s != "" && s[0] != quote {
			r, _, rest, err := strconv.UnquoteChar(s, quote)
			if err != nil {
				return ""
			}
			text.WriteRune(r)
			s = rest
		}
		if s == "" {
			return ""
		}
		b.WriteByte('"')
		escape(&b, text.String())
		b.WriteByte('"')
		s = s[1:]
	}
	return b.String()
}

// kindOf is a JSON value's type; number covers integers.
func kindOf(j string) string {
	switch j[0] {
	case '{':
		return "object"
	case '[':
		return "array"
	case '"':
		return "string"
	case 't', 'f':
		return "boolean"
	case 'n':
		return "null"
	}
	return "number"
}

// escape writes s as the inside of a JSON string. It works byte by byte, so
// that a text may come in any pieces.
func escape(b *strings.Builder, s string) {
	for i := 0; i < len(s); i++ {
		switch c := s[i]; {
		case c == '"' || c == '\\':
			b.WriteByte('\\')
			b.WriteByte(c)
		case c == '\n':
			b.WriteString(`\n`)
		case c == '\t':
			b.WriteString(`\t`)
		case c < ' ':
			const digits = "0123456789abcdef"
			b.WriteString(`\u00`)
			b.WriteByte(digits[c>>4])
			b.WriteByte(digits[c&15])
		default:
			b.WriteByte(c)
		}
	}
}
