package schema

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"
)

// compiler turns one schema document into rules of a Builder.
type compiler struct {
	b    *Builder
	doc  *value
	refs map[string]string // rule of each $ref met
	// open are the refs that are being expanded without an object or an array
	// in between: to meet one again would be left recursion.
	open map[string]bool
	// steps bounds the work: merging may multiply.
	steps int
}

// maxSteps bounds the subschemas visited and merged for one grammar.
const maxSteps = 20000

// errNothing says that no value can satisfy a subschema.
var errNothing = errors.New("no value can satisfy it")

// Schema adds the rules of a schema and returns the name of the one that
// stands for it. Errors are *Error.
func (b *Builder) Schema(raw []byte) (string, error) {
	doc, err := parse(raw)
	if err != nil {
		return "", err
	}
	c := &compiler{b: b, doc: doc, refs: map[string]string{}, open: map[string]bool{}}
	name, cerr := c.visit(doc, "", 0)
	switch {
	case errors.Is(cerr, errNothing):
		return "", wrong("", "", "no value can satisfy it")
	case cerr != nil:
		return "", cerr
	case b.err != nil:
		return "", b.err
	}
	return name, nil
}

// visit returns an expression for a subschema: a rule's name or a literal.
// Errors are *Error or errNothing.
func (c *compiler) visit(s *value, ptr string, depth int) (string, error) {
	if err := c.step(ptr, depth); err != nil {
		return "", err
	}
	if s.kind == isBool {
		if !s.yes {
			return "", errNothing
		}
		return c.b.Value(), nil
	}
	if s.kind != isObject {
		return "", wrong(ptr, "", "a schema is an object or a boolean")
	}
	if ref, only := pureRef(s); only {
		return c.visitRef(ref, ptr, depth)
	}
	flat, err := c.flatten(s, ptr, depth, nil)
	if err != nil {
		return "", err
	}
	if err := checkKeywords(flat, ptr); err != nil {
		return "", err
	}
	switch {
	case flat.get("const") != nil:
		return c.values([]*value{flat.get("const")}, flat, ptr)
	case flat.get("enum") != nil:
		list := flat.get("enum")
		if list.kind != isArray || len(list.items) == 0 || len(list.items) > MaxValues {
			return "", wrong(ptr, "enum", "it must be a list of 1 to %d values", MaxValues)
		}
		return c.values(list.items, flat, ptr)
	}
	for _, word := range []string{"anyOf", "oneOf"} {
		if flat.get(word) != nil {
			return c.anyOf(word, flat, ptr, depth)
		}
	}
	return c.types(flat, ptr, depth)
}

func (c *compiler) step(ptr string, depth int) error {
	if c.steps++; c.steps > maxSteps || c.b.err != nil {
		if c.b.err != nil {
			return c.b.err
		}
		return cannot(ptr, "", "the schema is too large when its references are followed")
	}
	if depth > MaxDepth {
		return cannot(ptr, "", "subschemas are nested deeper than %d, or the schema contains itself with other keywords beside $ref", MaxDepth)
	}
	return nil
}

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

// anyOf is one rule of the alternatives, each merged with what stands beside.
func (c *compiler) anyOf(word string, s *value, ptr string, depth int) (string, error) {
	list := s.get(word)
	if list.kind != isArray || len(list.items) == 0 || len(list.items) > MaxValues {
		return "", wrong(ptr, word, "it must be a list of 1 to %d schemas", MaxValues)
	}
	base := s.without(word)
	bare := !slices.ContainsFunc(base.keys, func(k string) bool { return !annotation(k) })
	var alts []string
	for i, alt := range list.items {
		at := ptr + "/" + word + "/" + strconv.Itoa(i)
		expr, err := "", error(nil)
		if bare {
			expr, err = c.visit(alt, at, depth+1)
		} else {
			var flat *value
			if flat, err = c.flatten(alt, at, depth+1, nil); err == nil {
				if flat, err = c.intersect(base, flat, at); err == nil {
					expr, err = c.visit(flat, at, depth+1)
				}
			}
		}
		if errors.Is(err, errNothing) {
			continue
		}
		if err != nil {
			return "", err
		}
		if !slices.Contains(alts, expr) {
			alts = append(alts, expr)
		}
	}
	if len(alts) == 0 {
		return "", errNothing
	}
	return c.b.alternatives(alts), nil
}

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
