package chattmpl

import (
	"errors"
	"fmt"
	"math"
	"slices"
	"strconv"
	"strings"
	"unicode/utf16"

	"github.com/ardanlabs/jinja"
)

// encoder writes JSON as Python's json.dumps does.
type encoder struct {
	b          strings.Builder
	ascii      bool
	sorted     bool
	indent     string // "" for one line
	item, pair string // separators
}

// tojsonFilter is Hugging Face's tojson(ensure_ascii=false, indent=none,
// separators=none, sort_keys=false).
func tojsonFilter(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Value{}, errors.New("tojson needs a value")
	}
	// By place, Jinja's own tojson takes the indent first.
	indent := argument(args, kwargs, 1, "indent")
	e := encoder{ascii: argument(args, kwargs, 0, "ensure_ascii").IsTruthy(), sorted: argument(args, kwargs, 0, "sort_keys").IsTruthy(), item: ", ", pair: ": "}
	if indent.IsInt() {
		e.indent, e.item = "\n"+strings.Repeat(" ", int(min(max(indent.AsInt(), 0), 64))), ","
	} else if indent.IsString() {
		e.indent, e.item = "\n"+indent.AsString(), ","
	}
	if s := argument(args, kwargs, 0, "separators"); s.IsList() && s.AsList().Len() == 2 {
		l := s.AsList().Items
		if !l[0].IsString() || !l[1].IsString() {
			return jinja.Value{}, errors.New("separators are two texts")
		}
		e.item, e.pair = l[0].AsString(), l[1].AsString()
	}
	err := e.value(args[0], 1)
	return jinja.NewString(e.b.String()), err
}

func (e *encoder) newline(depth int) {
	if e.indent != "" {
		e.b.WriteByte('\n')
		e.b.WriteString(strings.Repeat(e.indent[1:], depth))
	}
}

func (e *encoder) value(v jinja.Value, depth int) error {
	if depth > MaxDepth || e.b.Len() > MaxOutput {
		return errors.New("the value is too large for tojson")
	}
	switch {
	case v.IsNone(), v.IsUndefined():
		e.b.WriteString("null")
	case v.IsBool():
		e.b.WriteString(strconv.FormatBool(v.AsBool()))
	case v.IsInt():
		e.b.WriteString(strconv.FormatInt(v.AsInt(), 10))
	case v.IsFloat():
		e.b.WriteString(pythonFloat(v.AsFloat()))
	case v.IsString():
		e.text(v.AsString())
	case v.IsList():
		return e.list(v.AsList().Items, depth)
	case v.IsDict():
		return e.dict(v.AsDict(), depth)
	default:
		return errors.New("a function has no JSON")
	}
	return nil
}

func (e *encoder) list(items []jinja.Value, depth int) error {
	e.b.WriteByte('[')
	for i, v := range items {
		if i > 0 {
			e.b.WriteString(e.item)
		}
		e.newline(depth)
		if err := e.value(v, depth+1); err != nil {
			return err
		}
	}
	if len(items) > 0 {
		e.newline(depth - 1)
	}
	e.b.WriteByte(']')
	return nil
}

func (e *encoder) dict(d *jinja.Dict, depth int) error {
	keys := d.Keys
	if e.sorted {
		keys = slices.Sorted(slices.Values(keys))
	}
	e.b.WriteByte('{')
	for i, k := range keys {
		if i > 0 {
			e.b.WriteString(e.item)
		}
		e.newline(depth)
		e.text(k)
		e.b.WriteString(e.pair)
		if err := e.value(d.Data[k], depth+1); err != nil {
			return err
		}
	}
	if len(keys) > 0 {
		e.newline(depth - 1)
	}
	e.b.WriteByte('}')
	return nil
}

func (e *encoder) text(s string) {
	e.b.WriteByte('"')
	for _, r := range s {
		switch {
		case r == '"' || r == '\\':
			e.b.WriteByte('\\')
			e.b.WriteRune(r)
		case r == '\n':
			e.b.WriteString(`\n`)
		case r == '\r':
			e.b.WriteString(`\r`)
		case r == '\t':
			e.b.WriteString(`\t`)
		case r == '\b':
			e.b.WriteString(`\b`)
		case r == '\f':
			e.b.WriteString(`\f`)
		case r < ' ' || e.ascii && r > '~' && r <= 0xffff:
			fmt.Fprintf(&e.b, `\u%04x`, r)
		case e.ascii && r > 0xffff:
			hi, lo := utf16.EncodeRune(r)
			fmt.Fprintf(&e.b, `\u%04x\u%04x`, hi, lo)
		default:
			e.b.WriteRune(r)
		}
	}
	e.b.WriteByte('"')
}

// pythonFloat is Python's repr of a float.
func pythonFloat(f float64) string {
	switch a := math.Abs(f); {
	case math.IsNaN(f):
		return "NaN"
	case math.IsInf(f, 1):
		return "Infinity"
	case math.IsInf(f, -1):
		return "-Infinity"
	case a != 0 && (a < 1e-4 || a >= 1e16):
		return strconv.FormatFloat(f, 'e', -1, 64)
	}
	s := strconv.FormatFloat(f, 'f', -1, 64)
	if !strings.Contains(s, ".") {
		s += ".0"
	}
	return s
}
