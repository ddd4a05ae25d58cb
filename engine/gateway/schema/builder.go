package schema

import (
	"fmt"
	"strconv"
	"strings"
)

// Builder collects the rules of one grammar. Rules may come from schemas and
// from the caller. Not safe for concurrent use.
type Builder struct {
	rules   []rule
	shared  map[string]string // fixed rules by their purpose
	size    int
	repeats int
	err     *Error // the first limit that was reached
}

type rule struct{ name, body string }

// NewBuilder returns an empty grammar.
func NewBuilder() *Builder { return &Builder{shared: map[string]string{}} }

// FromSchema is the grammar of a schema alone. Errors are *Error.
func FromSchema(raw []byte) (string, error) {
	b := NewBuilder()
	root, err := b.Schema(raw)
	if err != nil {
		return "", err
	}
	return b.Grammar(root)
}

// AnyObject is the grammar of any JSON object.
func AnyObject() string {
	b := NewBuilder()
	g, err := b.Grammar(b.Object())
	if err != nil {
		panic("schema: the grammar of JSON itself: " + err.Error()) // a constant
	}
	return g
}

// Grammar writes all rules with one more, named root, that stands for expr.
func (b *Builder) Grammar(expr string) (string, error) {
	if b.err != nil {
		return "", b.err
	}
	var out strings.Builder
	out.WriteString("root ::= " + expr + "\n")
	for _, r := range b.rules {
		out.WriteString(r.name + " ::= " + r.body + "\n")
	}
	if out.Len() > MaxGrammar {
		return "", cannot("", "", "its grammar has more than %d bytes", MaxGrammar)
	}
	return out.String(), nil
}

// Add adds a rule and returns its name.
func (b *Builder) Add(body string) string {
	name := b.Reserve()
	b.Define(name, body)
	return name
}

// Reserve is the name of a rule that Define gives a body later.
func (b *Builder) Reserve() string {
	if len(b.rules) >= MaxRules {
		b.fail(cannot("", "", "its grammar has more than %d rules", MaxRules))
		return "root"
	}
	name := "r" + strconv.Itoa(len(b.rules))
	b.rules = append(b.rules, rule{name: name})
	return name
}

// Define gives a reserved rule its body.
func (b *Builder) Define(name, body string) {
	if b.size += len(name) + len(body) + 6; b.size > MaxGrammar {
		b.fail(cannot("", "", "its grammar has more than %d bytes", MaxGrammar))
		return
	}
	if i, err := strconv.Atoi(name[1:]); err == nil && i < len(b.rules) {
		b.rules[i].body = body
	}
}

func (b *Builder) fail(e *Error) {
	if b.err == nil {
		b.err = e
	}
}

// once adds a rule at the first call for a purpose.
func (b *Builder) once(purpose string, body func() string) string {
	if name, ok := b.shared[purpose]; ok {
		return name
	}
	name := b.Reserve()
	b.shared[purpose] = name
	b.Define(name, body())
	return name
}

// repeat writes {lo,hi} behind elem; hi < 0 is unbounded. elem is a rule, a
// literal or a class.
func (b *Builder) repeat(elem string, lo, hi int) string {
	b.repeats += max(lo, hi, 1)
	if b.repeats > MaxRepeats {
		b.fail(cannot("", "", "its repetitions have more than %d elements together", MaxRepeats))
	}
	switch {
	case lo == 0 && hi < 0:
		return elem + "*"
	case lo == 1 && hi < 0:
		return elem + "+"
	case lo == 0 && hi == 1:
		return elem + "?"
	case lo == 1 && hi == 1:
		return elem
	case hi < 0:
		return fmt.Sprintf("%s{%d,}", elem, lo)
	case lo == hi:
		return fmt.Sprintf("%s{%d}", elem, lo)
	}
	return fmt.Sprintf("%s{%d,%d}", elem, lo, hi)
}

// alternatives makes a rule of them, or returns the only one.
func (b *Builder) alternatives(alts []string) string {
	if len(alts) == 1 {
		return alts[0]
	}
	return b.Add(strings.Join(alts, " | "))
}

// Literal is a GBNF literal that stands for s.
func Literal(s string) string {
	var out strings.Builder
	out.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			out.WriteByte('\\')
			out.WriteRune(r)
		case r == '\n':
			out.WriteString(`\n`)
		case r == '\r':
			out.WriteString(`\r`)
		case r == '\t':
			out.WriteString(`\t`)
		case r < ' ' || r == 0x7f:
			fmt.Fprintf(&out, `\x%02X`, r)
		default:
			out.WriteRune(r)
		}
	}
	out.WriteByte('"')
	return out.String()
}

// Rules of JSON itself.

// Space is optional white space of bounded length.
func (b *Builder) Space() string {
	return b.once("ws", func() string { return `( " " | "\n" [ \t]{0,20} )?` })
}

// plainChar is a character that a JSON string holds as it is: no quote, no
// backslash, no control character, and a code point that exists.
const plainChar = `[ !#-\x5B\x5D-~\x80-\uD7FF\uE000-\U0010FFFF]`

func (b *Builder) char() string {
	return b.once("char", func() string {
		hex := b.hex()
		// A surrogate escape comes in pairs only, so that each char is one
		// code point.
		return plainChar + ` | "\\" ( ["\\/bfnrt] | "u" ( [0-9a-cA-CefEF] ` + hex + `{3} | [dD] [0-7] ` + hex + `{2} | ` +
			`[dD] [89abAB] ` + hex + `{2} "\\u" [dD] [c-fC-F] ` + hex + `{2} ) )`
	})
}

func (b *Builder) hex() string { return b.once("hex", func() string { return "[0-9a-fA-F]" }) }

func (b *Builder) str() string {
	return b.once("string", func() string { return `"\"" ` + b.char() + `* "\""` })
}

func (b *Builder) number() string {
	return b.once("number", func() string {
		return `"-"? ( "0" | [1-9] [0-9]{0,15} ) ( "." [0-9]{1,15} )? ( [eE] [-+]? "0"? [0-9]{1,2} )?`
	})
}

func (b *Builder) boolean() string {
	return b.once("boolean", func() string { return `"true" | "false"` })
}

// Value is any JSON value.
func (b *Builder) Value() string {
	return b.once("value", func() string {
		return strings.Join([]string{b.Object(), b.array(), b.str(), b.number(), b.boolean(), `"null"`}, " | ")
	})
}

// Object is any JSON object.
func (b *Builder) Object() string {
	return b.once("object", func() string {
		ws := b.Space()
		kv := b.Add(b.str() + ` ":" ` + ws + " " + b.Value())
		return `"{" ` + ws + " ( " + kv + ` ( "," ` + ws + " " + kv + " )* " + ws + ` )? "}"`
	})
}

func (b *Builder) array() string {
	return b.once("array", func() string {
		ws := b.Space()
		return `"[" ` + ws + " ( " + b.Value() + ` ( "," ` + ws + " " + b.Value() + " )* " + ws + ` )? "]"`
	})
}
