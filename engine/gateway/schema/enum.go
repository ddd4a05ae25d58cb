package schema

import (
	"math/big"
	"regexp"
	"slices"
	"strings"
	"unicode/utf8"
)

// values is the rule of listed values, without those that s does not allow.
func (c *compiler) values(list []*value, s *value, ptr string) (string, error) {
	rest := s.without("const", "enum")
	if k := s.get("const"); k != nil && s.get("enum") != nil {
		if !slices.ContainsFunc(s.get("enum").items, func(v *value) bool { return equal(v, k) }) {
			return "", errNothing
		}
	}
	var texts []string
	for _, v := range list {
		ok, err := allows(rest, v, ptr)
		if err != nil {
			return "", err
		}
		if ok {
			texts = append(texts, jsonOf(v))
		}
	}
	if len(texts) == 0 {
		return "", errNothing
	}
	slices.Sort(texts)
	return c.b.oneOf(slices.Compact(texts)), nil
}

// oneOf is an expression for one of the sorted texts. Those that begin alike
// share their beginning, so that few ways are open at any place.
func (b *Builder) oneOf(texts []string) string {
	if len(texts) == 1 {
		return Literal(texts[0])
	}
	prefix := texts[0]
	for last := texts[len(texts)-1]; !strings.HasPrefix(last, prefix); { // sorted: what these two share all do
		_, size := utf8.DecodeLastRuneInString(prefix)
		prefix = prefix[:len(prefix)-size]
	}
	var alts []string
	for i := 0; i < len(texts); {
		rest := texts[i][len(prefix):]
		_, size := utf8.DecodeRuneInString(rest)
		var group []string
		for ; i < len(texts) && strings.HasPrefix(texts[i][len(prefix):], rest[:size]) && (size > 0 || texts[i] == prefix); i++ {
			group = append(group, texts[i][len(prefix):])
		}
		alts = append(alts, b.oneOf(group))
	}
	choice := b.Add(strings.Join(alts, " | "))
	if prefix == "" {
		return choice
	}
	return Literal(prefix) + " " + choice
}

// allows says whether a listed value passes the keywords beside the list.
// Those that look into objects and arrays are refused there.
func allows(s, v *value, ptr string) (bool, error) {
	if t := s.get("type"); t != nil {
		names, err := typesOf(s, ptr)
		if err != nil {
			return false, err
		}
		if !slices.ContainsFunc(names, func(n string) bool { return hasType(v, n) }) {
			return false, nil
		}
	}
	for _, k := range s.keys {
		word := s.vals[k]
		switch {
		case annotation(k) || k == "type" || k == "nullable":
		case slices.Contains(about["object"], k) && v.kind != isObject, slices.Contains(about["array"], k) && v.kind != isArray,
			slices.Contains(about["string"], k) && v.kind != isString, slices.Contains(about["number"], k) && v.kind != isNumber:
		case k == "minLength" || k == "maxLength":
			n, err := count(s, k, ptr)
			if err != nil {
				return false, err
			}
			if length := utf8.RuneCountInString(v.text); k == "minLength" && length < n || k == "maxLength" && length > n {
				return false, nil
			}
		case k == "pattern":
			re, err := regexp.Compile(word.text)
			if err != nil || word.kind != isString {
				return false, cannot(ptr, k, "the expression %.60q is not one that can be kept", word.text)
			}
			if !re.MatchString(v.text) {
				return false, nil
			}
		case k == "minimum" || k == "maximum" || k == "exclusiveMinimum" || k == "exclusiveMaximum":
			lo, hi, err := limits(s, ptr)
			if err != nil {
				return false, err
			}
			at, ok := rat(v)
			if !ok || !lo.passed(at, 1) || !hi.passed(at, -1) {
				return false, nil
			}
		default:
			return false, cannot(ptr, k, "it cannot be kept beside enum or const")
		}
	}
	return true, nil
}

// passed reports whether at lies on the allowed side of the bound: above for
// sign 1, under it for -1.
func (l *limit) passed(at *big.Rat, sign int) bool {
	if l == nil {
		return true
	}
	n := at.Cmp(l.at) * sign
	return n > 0 || n == 0 && !l.excluded
}

func hasType(v *value, name string) bool {
	switch name {
	case "object":
		return v.kind == isObject
	case "array":
		return v.kind == isArray
	case "string":
		return v.kind == isString
	case "number":
		return v.kind == isNumber
	case "integer":
		r, ok := rat(v)
		return ok && r.IsInt()
	case "boolean":
		return v.kind == isBool
	}
	return v.kind == isNull
}
