package schema

import (
	"slices"
)

// about lists the keywords that speak of one type; "number" is for integers
// too.
var about = map[string][]string{
	"object": {"properties", "required", "additionalProperties", "minProperties", "maxProperties", "patternProperties", "propertyNames"},
	"array":  {"items", "prefixItems", "minItems", "maxItems", "uniqueItems"},
	"string": {"minLength", "maxLength", "pattern", "format"},
	"number": {"minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"},
}

// known are keywords without a type that are kept.
var known = []string{"type", "enum", "const", "anyOf", "oneOf", "allOf", "$ref", "nullable"}

// refused are keywords of JSON Schema that no grammar of ours keeps.
var refused = []string{
	"not", "if", "then", "else", "dependentRequired", "dependentSchemas", "dependencies", "unevaluatedProperties", "unevaluatedItems",
	"contains", "minContains", "maxContains", "additionalItems", "$dynamicRef", "$recursiveRef",
}

// annotation reports a keyword that does not change which values are allowed:
// those that say so, definitions, and whatever JSON Schema does not know.
func annotation(k string) bool {
	if slices.Contains(known, k) || slices.Contains(refused, k) {
		return false
	}
	for _, list := range about {
		if slices.Contains(list, k) {
			return false
		}
	}
	return true
}

// checkKeywords refuses what cannot be kept.
func checkKeywords(s *value, ptr string) error {
	for _, k := range s.keys {
		v := s.vals[k]
		switch {
		case k == "uniqueItems" && v.kind == isBool && !v.yes:
		case (k == "unevaluatedProperties" || k == "unevaluatedItems" || k == "additionalItems") && v.kind == isBool:
			// Nothing is written that is not declared, so both values hold;
			// where the schema asks for more by additionalProperties or
			// items, that has evaluated it.
		case k == "uniqueItems" || slices.Contains(refused, k):
			return cannot(ptr, k, "this keyword cannot be kept by a grammar")
		}
	}
	return nil
}

// intersect merges two flat schemas: what it allows, both allow.
func (c *compiler) intersect(a, b *value, ptr string) (*value, error) {
	out := cloneVals(a)
	if err := c.joinObjects(a, b, out); err != nil {
		return nil, err
	}
	for _, k := range b.keys {
		x, y := a.get(k), b.vals[k]
		if x == nil {
			if k != "properties" && k != "additionalProperties" {
				out.put(k, y)
			}
			continue
		}
		if annotation(k) {
			continue
		}
		switch k {
		case "properties", "additionalProperties":
		case "type":
			t, err := commonTypes(x, y, ptr)
			if err != nil {
				return nil, err
			}
			out.put(k, t)
		case "required":
			list := &value{kind: isArray, items: slices.Clone(x.items)}
			for _, e := range y.items {
				if !slices.ContainsFunc(list.items, func(o *value) bool { return equal(o, e) }) {
					list.items = append(list.items, e)
				}
			}
			out.put(k, list)
		case "enum":
			list := &value{kind: isArray}
			for _, e := range x.items {
				if slices.ContainsFunc(y.items, func(o *value) bool { return equal(o, e) }) {
					list.items = append(list.items, e)
				}
			}
			if len(list.items) == 0 {
				return nil, errNothing
			}
			out.put(k, list)
		case "minimum", "exclusiveMinimum", "minLength", "minItems", "minProperties":
			out.put(k, pick(x, y, 1))
		case "maximum", "exclusiveMaximum", "maxLength", "maxItems", "maxProperties":
			out.put(k, pick(x, y, -1))
		case "items", "propertyNames":
			out.put(k, both(x, y))
		case "nullable":
			out.put(k, &value{kind: isBool, yes: x.yes && y.yes})
		default:
			if equal(x, y) {
				continue
			}
			if k == "const" {
				return nil, errNothing
			}
			return nil, cannot(ptr, k, "two different ones apply to the same value")
		}
	}
	return out, nil
}

// both is the schema that asks for x and y.
func both(x, y *value) *value {
	if equal(x, y) {
		return x
	}
	return object("allOf", &value{kind: isArray, items: []*value{x, y}})
}

// pick takes the larger (sign 1) or the smaller bound; what is no number stays
// for the check that follows.
func pick(x, y *value, sign int) *value {
	a, okA := rat(x)
	b, okB := rat(y)
	if !okA || okB && b.Cmp(a)*sign > 0 {
		return y
	}
	return x
}

func commonTypes(x, y *value, ptr string) (*value, error) {
	list := func(v *value) []string {
		if v.kind == isString {
			return []string{v.text}
		}
		var out []string
		for _, e := range v.items {
			out = append(out, e.text)
		}
		return out
	}
	a, b := list(x), list(y)
	out := &value{kind: isArray}
	for _, t := range typeNames {
		has := func(l []string) bool {
			return slices.Contains(l, t) || t == "integer" && slices.Contains(l, "number")
		}
		if has(a) && has(b) {
			out.items = append(out.items, &value{kind: isString, text: t})
		}
	}
	if len(out.items) == 0 {
		for _, t := range slices.Concat(a, b) {
			if !slices.Contains(typeNames, t) {
				return nil, wrong(ptr, "type", "%.40q is not a type", t)
			}
		}
		return nil, errNothing
	}
	return out, nil
}

// joinObjects merges properties and additionalProperties: a property that one
// side does not declare has to pass what that side asks of additional ones.
func (c *compiler) joinObjects(a, b, out *value) error {
	pa, pb := a.get("properties"), b.get("properties")
	xa, xb := a.get("additionalProperties"), b.get("additionalProperties")
	if pb == nil && xb == nil {
		return nil
	}
	if pa == nil && xa == nil {
		if pb != nil {
			out.put("properties", pb)
		}
		if xb != nil {
			out.put("additionalProperties", xb)
		}
		return nil
	}
	props := &value{kind: isObject, vals: map[string]*value{}}
	add := func(from, other, extra *value) {
		if from == nil {
			return
		}
		for _, k := range from.keys {
			s := from.vals[k]
			switch o := other.orNil(k); {
			case o != nil:
				s = both(s, o)
			case extra != nil:
				s = both(s, extra)
			}
			if props.get(k) == nil {
				props.put(k, s)
			}
		}
	}
	add(pa, pb, xb)
	add(pb, pa, xa)
	if pa != nil || pb != nil {
		out.put("properties", props)
	}
	switch {
	case xa != nil && xb != nil:
		out.put("additionalProperties", both(xa, xb))
	case xb != nil:
		out.put("additionalProperties", xb)
	}
	return nil
}

// orNil is get for a value that may be missing itself.
func (v *value) orNil(key string) *value {
	if v == nil {
		return nil
	}
	return v.get(key)
}
