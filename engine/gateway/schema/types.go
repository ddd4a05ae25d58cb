package schema

import (
	"errors"
	"maps"
	"slices"
)

// typeNames are JSON Schema's types.
var typeNames = []string{"object", "array", "string", "number", "integer", "boolean", "null"}

// typesOf lists the types that s allows: those it names, or those that its
// keywords are about, or all.
func typesOf(s *value, ptr string) ([]string, error) {
	var out []string
	switch t := s.get("type"); {
	case t == nil:
		for _, name := range []string{"object", "array", "string", "number"} {
			if slices.ContainsFunc(about[name], func(k string) bool { return s.get(k) != nil }) {
				out = append(out, name)
			}
		}
		if len(out) == 0 {
			return nil, nil
		}
	case t.kind == isString:
		out = []string{t.text}
	case t.kind == isArray && len(t.items) > 0:
		for _, e := range t.items {
			if !slices.Contains(out, e.text) {
				out = append(out, e.text)
			}
		}
	}
	if len(out) == 0 {
		return nil, wrong(ptr, "type", "it must be a type or a list of types")
	}
	for _, name := range out {
		if !slices.Contains(typeNames, name) {
			return nil, wrong(ptr, "type", "%.40q is not a type", name)
		}
	}
	if n := s.get("nullable"); n != nil && n.yes && !slices.Contains(out, "null") { // OpenAPI's older word
		out = append(out, "null")
	}
	if slices.Contains(out, "number") {
		out = slices.DeleteFunc(out, func(n string) bool { return n == "integer" })
	}
	return out, nil
}

// types is the rule of what s allows by type.
func (c *compiler) types(s *value, ptr string, depth int) (string, error) {
	names, err := typesOf(s, ptr)
	if err != nil {
		return "", err
	}
	if names == nil {
		return c.b.Value(), nil
	}
	var alts []string
	for _, name := range names {
		expr := ""
		switch name {
		case "object":
			expr, err = c.object(s, ptr, depth)
		case "array":
			expr, err = c.array(s, ptr, depth)
		case "string":
			expr, err = c.str(s, ptr)
		case "number", "integer":
			expr, err = c.number(s, ptr, name == "integer")
		case "boolean":
			expr = c.b.boolean()
		case "null":
			expr = `"null"`
		}
		if errors.Is(err, errNothing) {
			continue
		}
		if err != nil {
			return "", err
		}
		alts = append(alts, expr)
	}
	if len(alts) == 0 {
		return "", errNothing
	}
	return c.b.alternatives(alts), nil
}

// count reads a keyword that is a whole number from 0 on; -1 if absent.
func count(s *value, keyword, ptr string) (int, error) {
	v := s.get(keyword)
	if v == nil {
		return -1, nil
	}
	r, ok := rat(v)
	if !ok || !r.IsInt() || r.Sign() < 0 || !r.Num().IsInt64() {
		return 0, wrong(ptr, keyword, "it must be a whole number from 0 on")
	}
	return int(min(r.Num().Int64(), 1<<40)), nil
}

// bounds reads a pair of counts; hi is -1 without an upper bound.
func bounds(s *value, least, most, ptr string) (lo, hi int, err error) {
	if lo, err = count(s, least, ptr); err != nil {
		return 0, 0, err
	}
	if hi, err = count(s, most, ptr); err != nil {
		return 0, 0, err
	}
	lo = max(lo, 0)
	switch {
	case hi >= 0 && lo > hi:
		return 0, 0, errNothing
	case lo > MaxCount:
		return 0, 0, cannot(ptr, least, "at most %d can be kept", MaxCount)
	case hi > MaxCount:
		return 0, 0, cannot(ptr, most, "at most %d can be kept", MaxCount)
	}
	return lo, hi, nil
}

// cloneVals is for objects that are built from others.
func cloneVals(v *value) *value {
	return &value{kind: isObject, keys: slices.Clone(v.keys), vals: maps.Clone(v.vals)}
}
