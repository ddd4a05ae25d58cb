package schema

import (
	"slices"
	"strings"
	"unicode/utf8"
)

// otherKey is the rule of a key that is none of names. Its characters are
// written without escapes, so that a name cannot come back in disguise.
func (c *compiler) otherKey(names []string) string {
	plain := c.b.once("plain", func() string { return plainChar })
	var usable []string
	for _, n := range names {
		if !strings.ContainsFunc(n, func(r rune) bool { return r == '"' || r == '\\' || r < ' ' || r == 0x7f || r == utf8.RuneError }) {
			usable = append(usable, n)
		}
	}
	slices.Sort(usable)
	return c.b.Add(`"\"" ` + c.notAny(slices.Compact(usable), plain) + ` "\""`)
}

// notAny is the rule of texts that are none of the sorted names, which share a
// prefix that was read already and is left out. It is a tree over their
// characters.
func (c *compiler) notAny(names []string, plain string) string {
	if len(names) == 0 {
		return plain + "*"
	}
	ended := names[0] == ""
	if ended {
		names = names[1:]
	}
	var alts, first []string
	for len(names) > 0 {
		r, size := utf8.DecodeRuneInString(names[0])
		n := 1
		for n < len(names) && strings.HasPrefix(names[n], names[0][:size]) {
			n++
		}
		var below []string
		for _, name := range names[:n] {
			below = append(below, name[size:])
		}
		alts = append(alts, Literal(string(r))+" "+c.notAny(below, plain))
		first = append(first, ClassRune(r))
		names = names[n:]
	}
	alts = append(alts, `[^"\\\x00-\x1F\x7F`+strings.Join(first, "")+`] `+plain+"*")
	body := strings.Join(alts, " | ")
	if !ended { // a shorter text than the names is another one
		body = "( " + body + " )?"
	}
	return c.b.Add(body)
}
