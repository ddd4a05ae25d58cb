package schema

import (
	"errors"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// pureRef reports a subschema that is a $ref and nothing else that counts.
func pureRef(s *value) (string, bool) {
	r := s.get("$ref")
	if r == nil || r.kind != isString {
		return "", false
	}
	for _, k := range s.keys {
		if k != "$ref" && !annotation(k) {
			return "", false
		}
	}
	return r.text, true
}

// nothing is the body of a rule that no text passes.
const nothing = `"\x00"`

func (c *compiler) visitRef(ref, ptr string, depth int) (string, error) {
	if c.open[ref] {
		return "", wrong(ptr, "$ref", "%.100q refers to itself without an object or an array in between", ref)
	}
	if name, ok := c.refs[ref]; ok {
		if name == "" {
			return "", errNothing
		}
		return name, nil
	}
	target, err := c.resolve(ref, ptr)
	if err != nil {
		return "", err
	}
	name := c.b.Reserve()
	c.refs[ref] = name
	c.open[ref] = true
	body, verr := c.visit(target, strings.TrimPrefix(ref, "#"), depth+1)
	delete(c.open, ref)
	if verr != nil {
		if errors.Is(verr, errNothing) {
			// What mentioned the rule meanwhile must not pass through it: no
			// token of a text begins with a zero byte.
			c.refs[ref] = ""
			c.b.Define(name, nothing)
		}
		return "", verr
	}
	c.b.Define(name, body)
	return name, nil
}

// inside visits a subschema behind the bracket of an object or array, where
// references may come back to what is being expanded.
func (c *compiler) inside(s *value, ptr string, depth int) (string, error) {
	outer := c.open
	c.open = map[string]bool{}
	defer func() { c.open = outer }()
	return c.visit(s, ptr, depth+1)
}

// resolve finds what a reference within the document names.
func (c *compiler) resolve(ref, ptr string) (*value, error) {
	if ref == "#" {
		return c.doc, nil
	}
	if !strings.HasPrefix(ref, "#/") {
		return nil, cannot(ptr, "$ref", "%.100q is not a JSON pointer into the schema (#/$defs/...)", ref)
	}
	at := c.doc
	for _, part := range strings.Split(ref[2:], "/") {
		if dec, err := url.PathUnescape(part); err == nil {
			part = dec
		}
		part = strings.ReplaceAll(strings.ReplaceAll(part, "~1", "/"), "~0", "~")
		next := at.get(part)
		if at.kind == isArray {
			if i, err := strconv.Atoi(part); err == nil && i >= 0 && i < len(at.items) {
				next = at.items[i]
			}
		}
		if next == nil {
			return nil, wrong(ptr, "$ref", "there is nothing at %.100q", ref)
		}
		at = next
	}
	return at, nil
}

// flatten merges what $ref and allOf bring into one object without them. seen
// are the references followed on the way.
func (c *compiler) flatten(s *value, ptr string, depth int, seen []string) (*value, error) {
	if err := c.step(ptr, depth); err != nil {
		return nil, err
	}
	if s.kind == isBool {
		if !s.yes {
			return nil, errNothing
		}
		return &value{kind: isObject, vals: map[string]*value{}}, nil
	}
	if s.kind != isObject {
		return nil, wrong(ptr, "", "a schema is an object or a boolean")
	}
	out := s.without("$ref", "allOf")
	merge := func(part *value, ptr string, seen []string) error {
		flat, err := c.flatten(part, ptr, depth+1, seen)
		if err != nil {
			return err
		}
		out, err = c.intersect(out, flat, ptr)
		return err
	}
	if r := s.get("$ref"); r != nil {
		if r.kind != isString {
			return nil, wrong(ptr, "$ref", "it must be a string")
		}
		if slices.Contains(seen, r.text) || c.open[r.text] {
			return nil, wrong(ptr, "$ref", "%.100q refers to itself without an object or an array in between", r.text)
		}
		target, err := c.resolve(r.text, ptr)
		if err != nil {
			return nil, err
		}
		if err := merge(target, strings.TrimPrefix(r.text, "#"), append(slices.Clone(seen), r.text)); err != nil {
			return nil, err
		}
	}
	if all := s.get("allOf"); all != nil {
		if all.kind != isArray || len(all.items) == 0 || len(all.items) > MaxValues {
			return nil, wrong(ptr, "allOf", "it must be a list of 1 to %d schemas", MaxValues)
		}
		for i, part := range all.items {
			if err := merge(part, ptr+"/allOf/"+strconv.Itoa(i), seen); err != nil {
				return nil, err
			}
		}
	}
	return out, nil
}
