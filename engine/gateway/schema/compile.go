package schema

import (
	"errors"
	"slices"
	"strconv"
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

// anyOf is one rule of the alternatives, each merged with what stands beside.
func (c *compiler) anyOf(word string, s *value, ptr string, depth int) (string, error) {
	list := s.get(word)
	if list.kind != isArray || len(list.items) == 0 {
		return "", wrong(ptr, word, "it must be a list of schemas")
	}
	if len(list.items) > MaxChoices {
		return "", cannot(ptr, word, "more than %d alternatives cannot be kept", MaxChoices)
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
