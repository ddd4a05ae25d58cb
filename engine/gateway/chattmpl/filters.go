package chattmpl

import (
	"errors"
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/ardanlabs/jinja"
)

// Filters that the language has, but not as Jinja and Hugging Face's renderer
// have them. The guard renames their uses, see rename.
var ownFilters = map[string]func(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error){
	"sort":     sortFilter,
	"dictsort": dictsortFilter,
	"tojson":   tojsonFilter,
	"int":      intFilter,
	"float":    floatFilter,
	// Only without a test, see rename.
	"selectattr": func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) { return attrFilter(args, true) },
	"rejectattr": func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		return attrFilter(args, false)
	},
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
	if a.IsNone() && b.IsNone() || a.IsUndefined() && b.IsUndefined() {
		return 0, nil
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

// attrFilter keeps the elements whose attribute is true, or those where it is
// not.
func attrFilter(args []jinja.Value, want bool) (jinja.Value, error) {
	if len(args) != 2 || !args[0].IsList() || !args[1].IsString() {
		return jinja.Value{}, errors.New("selectattr and rejectattr need a list and a name")
	}
	var out []jinja.Value
	for _, v := range args[0].AsList().Items {
		if lookUp(v, args[1].AsString()).IsTruthy() == want {
			out = append(out, v)
		}
	}
	return jinja.NewList(out), nil
}

// intFilter is int(default=0).
func intFilter(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if f, ok := numberOf(args); ok && math.Abs(f) < 1<<62 {
		if args[0].IsInt() {
			return args[0], nil
		}
		return jinja.NewInt(int64(f)), nil
	}
	if v := argument(args, kwargs, 1, "default"); !v.IsUndefined() {
		return v, nil
	}
	return jinja.NewInt(0), nil
}

// floatFilter is float(default=0.0).
func floatFilter(args []jinja.Value, kwargs map[string]jinja.Value) (jinja.Value, error) {
	if f, ok := numberOf(args); ok {
		return jinja.NewFloat(f), nil
	}
	if v := argument(args, kwargs, 1, "default"); !v.IsUndefined() {
		return v, nil
	}
	return jinja.NewFloat(0), nil
}

func numberOf(args []jinja.Value) (float64, bool) {
	if len(args) == 0 {
		return 0, false
	}
	switch v := args[0]; {
	case v.IsInt():
		return float64(v.AsInt()), true
	case v.IsFloat():
		return v.AsFloat(), !math.IsNaN(v.AsFloat()) && !math.IsInf(v.AsFloat(), 0)
	case v.IsBool() && v.AsBool():
		return 1, true
	case v.IsString():
		f, err := strconv.ParseFloat(strings.TrimSpace(v.AsString()), 64)
		return f, err == nil && !math.IsNaN(f) && !math.IsInf(f, 0)
	default:
		return 0, v.IsBool()
	}
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
			if name := body[at:end]; ownFilters[name] != nil && (!strings.HasSuffix(name, "attr") || oneArgument(body[end:])) {
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

// oneArgument reports whether a call follows that has a single argument.
func oneArgument(s string) bool {
	inside, _, ok := strings.Cut(strings.TrimLeft(s, " "), ")")
	return ok && strings.HasPrefix(inside, "(") && !strings.Contains(inside, ",")
}

func isBlank(c byte) bool { return c == ' ' || c == '\t' || c == '\n' || c == '\r' }

func isName(c byte) bool {
	return c == '_' || c >= 'a' && c <= 'z' || c >= 'A' && c <= 'Z' || c >= '0' && c <= '9'
}
