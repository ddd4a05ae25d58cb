package schema

import (
	"fmt"
	"regexp/syntax"
	"slices"
	"strings"
)

// maxRegexDepth bounds nested groups; libllama parses them recursively.
const maxRegexDepth = 24

// pattern is the rule of strings that a regular expression finds something in.
// The language is what ECMAScript's and Go's expressions have in common.
func (c *compiler) pattern(src, ptr, keyword string) (string, error) {
	re, err := syntax.Parse(src, syntax.Perl&^syntax.UnicodeGroups)
	if err != nil || len(src) > 4096 {
		return "", cannot(ptr, keyword, "the expression %.60q is not one that can be kept", src)
	}
	r := regex{b: c.b, ptr: ptr, keyword: keyword}
	var alts []string
	for _, alt := range topAlternatives(re) {
		parts := alt.Sub
		if alt.Op != syntax.OpConcat {
			parts = []*syntax.Regexp{alt}
		}
		front, back := c.b.char()+"* ", " "+c.b.char()+"*"
		for len(parts) > 0 && (parts[0].Op == syntax.OpBeginText || parts[0].Op == syntax.OpBeginLine) {
			front, parts = "", parts[1:]
		}
		for len(parts) > 0 && (parts[len(parts)-1].Op == syntax.OpEndText || parts[len(parts)-1].Op == syntax.OpEndLine) {
			back, parts = "", parts[:len(parts)-1]
		}
		var body []string
		for _, p := range parts {
			expr, err := r.expr(p, 0)
			if err != nil {
				return "", err
			}
			body = append(body, expr)
		}
		alts = append(alts, strings.TrimSpace(`"\"" `+front+strings.Join(body, " ")+back+` "\""`))
	}
	return c.b.Add(strings.Join(alts, " | ")), nil
}

// topAlternatives splits an expression at its outermost alternation, also in
// a group that is all of it; anchors may stand in each of them.
func topAlternatives(re *syntax.Regexp) []*syntax.Regexp {
	for re.Op == syntax.OpCapture {
		re = re.Sub[0]
	}
	if re.Op == syntax.OpAlternate {
		return re.Sub
	}
	return []*syntax.Regexp{re}
}

// regex writes one expression as GBNF over the characters of a JSON string.
type regex struct {
	b            *Builder
	ptr, keyword string
}

// expr returns something that may stand in a sequence.
func (r *regex) expr(re *syntax.Regexp, depth int) (string, error) {
	if depth > maxRegexDepth {
		return "", cannot(r.ptr, r.keyword, "its groups are nested deeper than %d", maxRegexDepth)
	}
	switch re.Op {
	case syntax.OpEmptyMatch:
		return `""`, nil
	case syntax.OpLiteral:
		if re.Flags&syntax.FoldCase != 0 {
			return "", cannot(r.ptr, r.keyword, "flags cannot be kept")
		}
		var out strings.Builder
		for _, c := range re.Rune {
			out.WriteString(inString(c))
		}
		return Literal(out.String()), nil
	case syntax.OpCharClass:
		return r.class(re.Rune)
	case syntax.OpAnyChar, syntax.OpAnyCharNotNL:
		return r.class([]rune{0, '\n' - 1, '\n' + 1, '\r' - 1, '\r' + 1, 0x2027, 0x202a, 0x10ffff})
	case syntax.OpCapture:
		return r.expr(re.Sub[0], depth)
	case syntax.OpConcat, syntax.OpAlternate:
		var parts []string
		for _, s := range re.Sub {
			p, err := r.expr(s, depth+1)
			if err != nil {
				return "", err
			}
			parts = append(parts, p)
		}
		if re.Op == syntax.OpConcat {
			return "( " + strings.Join(parts, " ") + " )", nil
		}
		return "( " + strings.Join(parts, " | ") + " )", nil
	case syntax.OpStar, syntax.OpPlus, syntax.OpQuest, syntax.OpRepeat:
		elem, err := r.expr(re.Sub[0], depth+1)
		if err != nil {
			return "", err
		}
		lo, hi := re.Min, re.Max
		switch re.Op {
		case syntax.OpStar:
			lo, hi = 0, -1
		case syntax.OpPlus:
			lo, hi = 1, -1
		case syntax.OpQuest:
			lo, hi = 0, 1
		}
		if hi == 0 {
			return `""`, nil
		}
		if lo > MaxCount || hi > MaxCount {
			return "", cannot(r.ptr, r.keyword, "repetitions above %d cannot be kept", MaxCount)
		}
		if nullable(re.Sub[0]) && hi != 1 {
			// A loop over nothing would not move on.
			return "", cannot(r.ptr, r.keyword, "it repeats something that may be empty")
		}
		// A rule of its own, so that nested repetitions do not multiply.
		return r.b.repeat(r.b.Add(elem), lo, hi), nil
	}
	return "", cannot(r.ptr, r.keyword, "anchors and word boundaries can be kept at the ends only, look-around and flags not at all")
}

// nullable reports whether an expression matches the empty text.
func nullable(re *syntax.Regexp) bool {
	switch re.Op {
	case syntax.OpEmptyMatch, syntax.OpStar, syntax.OpQuest:
		return true
	case syntax.OpRepeat:
		return re.Min == 0 || nullable(re.Sub[0])
	case syntax.OpCapture, syntax.OpPlus:
		return nullable(re.Sub[0])
	case syntax.OpConcat:
		return !slices.ContainsFunc(re.Sub, func(s *syntax.Regexp) bool { return !nullable(s) })
	case syntax.OpAlternate:
		return slices.ContainsFunc(re.Sub, nullable)
	}
	return false
}

// class writes ranges of characters: most as they are, quote, backslash and
// the control characters as JSON escapes.
func (r *regex) class(ranges []rune) (string, error) {
	var plain strings.Builder
	var escaped []string
	for i := 0; i+1 < len(ranges); i += 2 {
		lo, hi := ranges[i], ranges[i+1]
		for c := lo; c <= min(hi, '\\'); c++ {
			if c == '"' || c == '\\' || c < ' ' {
				escaped = append(escaped, Literal(inString(c)))
			}
		}
		for _, cut := range [][2]rune{{' ', '!'}, {'#', '['}, {']', 0x7e}, {0x80, 0xd7ff}, {0xe000, 0x10ffff}} {
			a, b := max(lo, cut[0]), min(hi, cut[1])
			if a < b {
				plain.WriteString(ClassRune(a) + "-" + ClassRune(b))
			} else if a == b {
				plain.WriteString(ClassRune(a))
			}
		}
	}
	if plain.Len() > 0 {
		escaped = append([]string{"[" + plain.String() + "]"}, escaped...)
	}
	switch len(escaped) {
	case 0:
		return "", cannot(r.ptr, r.keyword, "a class of it matches no character")
	case 1:
		return escaped[0], nil
	}
	return "( " + strings.Join(escaped, " | ") + " )", nil
}

// inString is a character as it stands in a JSON string.
func inString(c rune) string {
	s := jsonString(string(c))
	return s[1 : len(s)-1]
}

// ClassRune is a character as it stands in a GBNF class.
func ClassRune(c rune) string {
	switch {
	case c == '\\' || c == ']' || c == '[' || c == '^' || c == '-':
		return fmt.Sprintf(`\x%02X`, c)
	case c > ' ' && c < 0x7f:
		return string(c)
	case c <= 0xff:
		return fmt.Sprintf(`\x%02X`, c)
	case c <= 0xffff:
		return fmt.Sprintf(`\u%04X`, c)
	}
	return fmt.Sprintf(`\U%08X`, c)
}
