package schema

import (
	"errors"
	"slices"
	"strconv"
	"strings"
)

// member is a declared property.
type member struct {
	kv       string // rule of `"name": value`
	required bool
}

// object is the rule of objects that s allows. Properties come in the order of
// the schema; required ones that it does not declare come behind them.
func (c *compiler) object(s *value, ptr string, depth int) (string, error) {
	props := s.get("properties")
	if props != nil && (props.kind != isObject || len(props.keys) > MaxProperties) {
		return "", wrong(ptr, "properties", "it must be an object of at most %d properties", MaxProperties)
	}
	required, err := requiredOf(s, ptr)
	if err != nil {
		return "", err
	}
	if props == nil && len(required) == 0 {
		return c.mapping(s, ptr, depth)
	}
	if s.get("patternProperties") != nil || s.get("propertyNames") != nil {
		word := "patternProperties"
		if s.get(word) == nil {
			word = "propertyNames"
		}
		return "", cannot(ptr, word, "it cannot be kept beside declared properties")
	}
	extra, extraPtr := s.get("additionalProperties"), ptr+"/additionalProperties"
	if props == nil {
		props = &value{kind: isObject}
	}
	var members []member
	add := func(name string, sub *value, at string) error {
		expr, err := c.inside(sub, at, depth)
		must := slices.Contains(required, name)
		if errors.Is(err, errNothing) && !must {
			return nil // it cannot be there
		}
		if err != nil {
			return err
		}
		members = append(members, member{c.b.Add(Literal(jsonString(name)+":") + " " + c.b.Space() + " " + expr), must})
		return nil
	}
	for _, name := range props.keys {
		if err := add(name, props.vals[name], ptr+"/properties/"+escapePointer(name)); err != nil {
			return "", err
		}
	}
	for _, name := range required {
		if props.get(name) != nil {
			continue
		}
		sub := extra
		if sub == nil {
			sub = &value{kind: isBool, yes: true}
		}
		if err := add(name, sub, extraPtr); err != nil {
			return "", err
		}
	}
	more := ""
	if extra != nil && (extra.kind != isBool || extra.yes) {
		value, err := c.inside(extra, extraPtr, depth)
		if err != nil && !errors.Is(err, errNothing) {
			return "", err
		}
		if err == nil {
			more = c.b.Add(c.otherKey(append(slices.Clone(props.keys), required...)) + ` ":" ` + c.b.Space() + " " + value)
		}
	}
	if err := c.memberCount(s, ptr, members, more); err != nil {
		return "", err
	}
	row := 0
	for _, m := range members {
		if row++; m.required {
			row = 0
		}
		if row > MaxChoices {
			return "", cannot(ptr, "properties", "more than %d optional ones in a row cannot be kept", MaxChoices)
		}
	}
	return c.members(members, more), nil
}

func requiredOf(s *value, ptr string) ([]string, error) {
	list := s.get("required")
	if list == nil {
		return nil, nil
	}
	if list.kind != isArray || len(list.items) > MaxProperties {
		return nil, wrong(ptr, "required", "it must be a list of at most %d names", MaxProperties)
	}
	var out []string
	for _, e := range list.items {
		if e.kind != isString {
			return nil, wrong(ptr, "required", "it must be a list of names")
		}
		if !slices.Contains(out, e.text) {
			out = append(out, e.text)
		}
	}
	return out, nil
}

// memberCount accepts minProperties and maxProperties where they hold anyway.
func (c *compiler) memberCount(s *value, ptr string, members []member, more string) error {
	lo, err := count(s, "minProperties", ptr)
	if err != nil {
		return err
	}
	hi, err := count(s, "maxProperties", ptr)
	if err != nil {
		return err
	}
	required := 0
	for _, m := range members {
		if m.required {
			required++
		}
	}
	if lo > required {
		return cannot(ptr, "minProperties", "it cannot be kept beside declared properties that are not required")
	}
	if hi >= 0 && (more != "" || hi < len(members)) {
		return cannot(ptr, "maxProperties", "it cannot be kept beside declared properties")
	}
	return nil
}

// members writes the object: each property once, in order, the optional ones
// or not, then any number of others.
func (c *compiler) members(members []member, more string) string {
	ws := c.b.Space()
	// rest[i] is what follows when something stands before member i.
	rest := make([]string, len(members)+1)
	if more != "" {
		rest[len(members)] = c.b.Add(`( "," ` + ws + " " + more + " )*")
	}
	for i := len(members) - 1; i > 0; i-- {
		body := `"," ` + ws + " " + members[i].kv
		if !members[i].required {
			body = "( " + body + " )?"
		}
		rest[i] = c.b.Add(strings.TrimSpace(body + " " + rest[i+1]))
	}
	var firsts []string
	all := true
	for i, m := range members {
		firsts = append(firsts, strings.TrimSpace(m.kv+" "+rest[i+1]))
		if m.required {
			all = false
			break
		}
	}
	if all && more != "" {
		firsts = append(firsts, more+" "+rest[len(members)])
	}
	if len(firsts) == 0 {
		return c.b.Add(`"{" ` + ws + ` "}"`)
	}
	inner := c.b.Add(strings.Join(firsts, " | ")) + " " + ws
	if all {
		inner = "( " + inner + " )?"
	}
	return c.b.Add(`"{" ` + ws + " " + inner + ` "}"`)
}

// mapping is the rule of objects without declared properties.
func (c *compiler) mapping(s *value, ptr string, depth int) (string, error) {
	key, item, itemPtr := c.b.str(), s.get("additionalProperties"), ptr+"/additionalProperties"
	if p := s.get("patternProperties"); p != nil {
		closed := item != nil && item.kind == isBool && !item.yes
		if p.kind != isObject || len(p.keys) != 1 || !closed || s.get("propertyNames") != nil {
			return "", cannot(ptr, "patternProperties", "only one pattern with additionalProperties false can be kept")
		}
		expr, err := c.pattern(p.keys[0], ptr, "patternProperties")
		if err != nil {
			return "", err
		}
		key, item, itemPtr = expr, p.vals[p.keys[0]], ptr+"/patternProperties/"+escapePointer(p.keys[0])
	}
	if n := s.get("propertyNames"); n != nil {
		if n.kind == isObject {
			flat, err := c.flatten(n, ptr+"/propertyNames", depth, nil)
			if err != nil {
				return "", err
			}
			if n = flat; n.get("type") == nil {
				n = both(n, object("type", &value{kind: isString, text: "string"}))
			}
		}
		expr, err := c.inside(n, ptr+"/propertyNames", depth)
		if err != nil {
			return "", err
		}
		key = expr
	}
	lo, hi, err := bounds(s, "minProperties", "maxProperties", ptr)
	if err != nil {
		return "", err
	}
	if item == nil {
		item = &value{kind: isBool, yes: true}
	}
	expr, err := c.inside(item, itemPtr, depth)
	if errors.Is(err, errNothing) {
		if lo > 0 {
			return "", errNothing
		}
		return c.b.Add(`"{" ` + c.b.Space() + ` "}"`), nil
	}
	if err != nil {
		return "", err
	}
	if lo > 1 { // members of the same name count once, and a grammar cannot tell
		return "", cannot(ptr, "minProperties", "more than one cannot be kept, since names may repeat")
	}
	return c.list(`"{"`, c.b.Add(key+` ":" `+c.b.Space()+" "+expr), `"}"`, lo, hi), nil
}

// array is the rule of arrays that s allows.
func (c *compiler) array(s *value, ptr string, depth int) (string, error) {
	items, itemsPtr := s.get("items"), ptr+"/items"
	prefix := s.get("prefixItems")
	if items != nil && items.kind == isArray { // the older form of a tuple
		prefix, items = items, s.get("additionalItems")
	}
	if u := s.get("uniqueItems"); u != nil && u.yes {
		return "", cannot(ptr, "uniqueItems", "this keyword cannot be kept by a grammar")
	}
	lo, hi, err := bounds(s, "minItems", "maxItems", ptr)
	if err != nil {
		return "", err
	}
	if items == nil {
		items = &value{kind: isBool, yes: true}
	}
	if prefix != nil {
		return c.tuple(prefix, items, ptr, depth, lo, hi)
	}
	expr, err := c.inside(items, itemsPtr, depth)
	if errors.Is(err, errNothing) && lo == 0 {
		return c.b.Add(`"[" ` + c.b.Space() + ` "]"`), nil
	}
	if err != nil {
		return "", err
	}
	return c.list(`"["`, expr, `"]"`, lo, hi), nil
}

// list is lo to hi elements between brackets.
func (c *compiler) list(open, elem, end string, lo, hi int) string {
	ws := c.b.Space()
	if hi == 0 {
		return c.b.Add(open + " " + ws + " " + end)
	}
	next := c.b.Add(`"," ` + ws + " " + elem)
	inner := elem + " "
	if hi != 1 {
		inner += c.b.repeat(next, max(lo-1, 0), hi-sign(hi)) + " "
	}
	inner += ws
	if lo == 0 {
		inner = "( " + inner + " )?"
	}
	return c.b.Add(open + " " + ws + " " + inner + " " + end)
}

// sign is 1 for a bound, 0 for none, so that hi-sign(hi) keeps "no bound".
func sign(hi int) int {
	if hi < 0 {
		return 0
	}
	return 1
}

// tuple is the rule of arrays whose first elements have schemas of their own.
func (c *compiler) tuple(prefix, items *value, ptr string, depth, lo, hi int) (string, error) {
	if prefix.kind != isArray || len(prefix.items) > MaxValues {
		return "", wrong(ptr, "prefixItems", "it must be a list of at most %d schemas", MaxValues)
	}
	n := len(prefix.items)
	if hi >= 0 && hi < n {
		n = hi
	}
	ws := c.b.Space()
	tail := ""
	if hi < 0 || hi > n {
		expr, err := c.inside(items, ptr+"/items", depth)
		switch {
		case errors.Is(err, errNothing):
			if lo > n {
				return "", errNothing
			}
		case err != nil:
			return "", err
		default:
			top := -1
			if hi >= 0 {
				top = hi - n
			}
			if n == 0 {
				return c.list(`"["`, expr, `"]"`, lo, hi), nil
			}
			tail = c.b.repeat(c.b.Add(`"," `+ws+" "+expr), max(lo-n, 0), top)
		}
	}
	for i := n - 1; i >= 0; i-- {
		expr, err := c.inside(prefix.items[i], ptr+"/prefixItems/"+strconv.Itoa(i), depth)
		if errors.Is(err, errNothing) && i >= lo {
			tail = "" // the list ends before it
			continue
		}
		if err != nil {
			return "", err
		}
		body := strings.TrimSpace(expr + " " + tail)
		if i > 0 {
			body = `"," ` + ws + " " + body
		}
		tail = c.b.Add(body)
		if i >= lo {
			tail += "?"
		}
	}
	return c.b.Add(`"[" ` + ws + " " + strings.TrimSpace(tail+" "+ws) + ` "]"`), nil
}
