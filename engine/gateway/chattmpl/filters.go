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

// Filters that the language has, but not as Jinja and Hugging Face's renderer
// have them. The guard renames their uses, see rename.
var ownFilters = map[string]func(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error){
	"sort":     sortFilter,
	"dictsort": dictsortFilter,
	"tojson":   tojsonFilter,
}

const filterPrefix = "neuron_"

// argument is a filter's argument by place (from 1; 0 is the input) or name.
func argument(args []jinja.Value, kwargs map[string]jinja.Value, at int, name string) jinja.Value {
	if v, ok := kwargs[name]; ok {
		return v
	}
	if at > 0 && at < len(args) {
		return args[at]
	}
	return jinja.Undefined()
}

// sortFilter is sort(reverse=false, case_sensitive=false, attribute=none).
func sortFilter(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 {
		return jinja.Value{}, errors.New("sort needs a value")
	}
	var items []jinja.Value
	switch v := args[0]; {
	case v.IsList():
		items = slices.Clone(v.AsList().Items)
	case v.IsDict():
		for _, k := range v.AsDict().Keys {
			items = append(items, jinja.NewString(k))
		}
	case v.IsString():
		for _, r := range v.AsString() {
			items = append(items, jinja.NewString(string(r)))
		}
	default:
		return jinja.Value{}, errors.New("sort needs a list")
	}
	sensitive := argument(args, kwargs, 2, "case_sensitive").IsTruthy()
	path := ""
	if a := argument(args, kwargs, 3, "attribute"); a.IsString() {
		path = a.AsString()
	} else if a.IsInt() {
		path = strconv.FormatInt(a.AsInt(), 10)
	}
	keys := make([]jinja.Value, len(items))
	order := make([]int, len(items))
	for i, v := range items {
		keys[i], order[i] = lookUp(v, path), i
	}
	return ordered(items, keys, order, sensitive, argument(args, kwargs, 1, "reverse").IsTruthy())
}

// ordered sorts order by keys, keeping equal ones as they are, and returns the
// items in that order.
func ordered(items, keys []jinja.Value, order []int, sensitive, reverse bool) (jinja.Value, error) {
	var failed error
	slices.SortStableFunc(order, func(i, j int) int {
		n, err := compareValues(keys[i], keys[j], sensitive)
		if err != nil && failed == nil {
			failed = err
		}
		if reverse {
			n = -n
		}
		return n
	})
	out := make([]jinja.Value, len(items))
	for at, i := range order {
		out[at] = items[i]
	}
	return jinja.NewList(out), failed
}

// lookUp follows a dotted path of keys and indices; "" is v itself.
func lookUp(v jinja.Value, path string) jinja.Value {
	if path == "" {
		return v
	}
	for _, part := range strings.Split(path, ".") {
		switch i, err := strconv.Atoi(part); {
		case v.IsDict():
			next, ok := v.AsDict().Data[part]
			if !ok {
				return jinja.Undefined()
			}
			v = next
		case v.IsList() && err == nil && i >= 0 && i < len(v.AsList().Items):
			v = v.AsList().Items[i]
		default:
			return jinja.Undefined()
		}
	}
	return v
}

// compareValues orders as Python does: numbers with numbers, texts with texts,
// lists by their elements. Others cannot be compared.
func compareValues(a, b jinja.Value, sensitive bool) (int, error) {
	number := func(v jinja.Value) (float64, bool) {
		switch {
		case v.IsInt():
			return float64(v.AsInt()), true
		case v.IsFloat():
			return v.AsFloat(), true
		case v.IsBool() && v.AsBool():
			return 1, true
		}
		return 0, v.IsBool()
	}
	x, okX := number(a)
	y, okY := number(b)
	switch {
	case okX && okY:
		if x < y {
			return -1, nil
		} else if x > y {
			return 1, nil
		}
		return 0, nil
	case a.IsString() && b.IsString():
		s, t := a.AsString(), b.AsString()
		if !sensitive {
			s, t = strings.ToLower(s), strings.ToLower(t)
		}
		return strings.Compare(s, t), nil
	case a.IsList() && b.IsList():
		l, m := a.AsList().Items, b.AsList().Items
		for i := range min(len(l), len(m)) {
			if n, err := compareValues(l[i], m[i], sensitive); n != 0 || err != nil {
				return n, err
			}
		}
		return len(l) - len(m), nil
	}
	return 0, errors.New("values of different kinds cannot be sorted")
}

// dictsortFilter is dictsort(case_sensitive=false, by="key", reverse=false).
func dictsortFilter(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if len(args) == 0 || !args[0].IsDict() {
		return jinja.Value{}, errors.New("dictsort needs an object")
	}
	d := args[0].AsDict()
	by := argument(args, kwargs, 2, "by")
	items, keys, order := make([]jinja.Value, len(d.Keys)), make([]jinja.Value, len(d.Keys)), make([]int, len(d.Keys))
	for i, k := range d.Keys {
		items[i], keys[i], order[i] = jinja.NewList([]jinja.Value{jinja.NewString(k), d.Data[k]}), jinja.NewString(k), i
		if by.IsString() && by.AsString() == "value" {
			keys[i] = d.Data[k]
		}
	}
	return ordered(items, keys, order, argument(args, kwargs, 1, "case_sensitive").IsTruthy(), argument(args, kwargs, 3, "reverse").IsTruthy())
}

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

// rename rewrites a tag for the language: uses of ownFilters get our names,
// and braces that close one after the other get a space between, since the
// language takes two of them for the tag's end. Literals stay as they are.
func rename(tag string) string {
	body := tag[2 : len(tag)-2]
	var out strings.Builder
	out.WriteString(tag[:2])
	for i := 0; i < len(body); i++ {
		c := body[i]
		switch {
		case c == '\'' || c == '"':
			from := i
			for i++; i < len(body) && body[i] != c; i++ {
				if body[i] == '\\' {
					i++
				}
			}
			out.WriteString(body[from:min(i+1, len(body))])
			continue
		case c == '}' && i+1 < len(body) && body[i+1] == '}':
			out.WriteString("} ")
			continue
		case c == '|':
			out.WriteByte(c)
			at := i + 1
			for at < len(body) && isBlank(body[at]) {
				at++
			}
			end := at
			for end < len(body) && isName(body[end]) {
				end++
			}
			if ownFilters[body[at:end]] != nil {
				out.WriteString(body[i+1:at] + filterPrefix + body[at:end])
				i = end - 1
			}
			continue
		}
		out.WriteByte(c)
	}
	if strings.HasSuffix(body, "}") && tag[1] == '{' {
		out.WriteByte(' ')
	}
	out.WriteString(tag[len(tag)-2:])
	return out.String()
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isName(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
