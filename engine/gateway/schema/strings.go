package schema

import (
	"strings"
)

// str is the rule of strings that s allows, quotes included.
func (c *compiler) str(s *value, ptr string) (string, error) {
	lo, hi, err := bounds(s, "minLength", "maxLength", ptr)
	if err != nil {
		return "", err
	}
	limited := s.get("minLength") != nil || s.get("maxLength") != nil
	pattern, format := s.get("pattern"), s.get("format")
	switch {
	case pattern != nil && format != nil:
		return "", cannot(ptr, "pattern", "it cannot be kept together with format")
	case pattern != nil:
		if pattern.kind != isString {
			return "", wrong(ptr, "pattern", "it must be a string")
		}
		if limited {
			return "", cannot(ptr, "pattern", "it cannot be kept together with minLength or maxLength; write the length into the pattern")
		}
		return c.pattern(pattern.text, ptr, "pattern")
	case format != nil:
		if format.kind != isString {
			return "", wrong(ptr, "format", "it must be a string")
		}
		if limited {
			return "", cannot(ptr, "format", "it cannot be kept together with minLength or maxLength")
		}
		return c.format(format.text, ptr)
	case limited:
		return c.b.Add(`"\"" ` + c.b.repeat(c.b.char(), lo, hi) + ` "\""`), nil
	}
	return c.b.str(), nil
}

// Formats are those of JSON Schema's "format" that are kept; the others are
// refused.
var formats = map[string]func(b *Builder) string{
	"date":      func(b *Builder) string { return b.date() },
	"time":      func(b *Builder) string { return b.clock() },
	"date-time": func(b *Builder) string { return b.date() + ` "T" ` + b.clock() },
	"duration": func(b *Builder) string {
		n := b.once("count", func() string { return "[0-9]{1,6}" })
		day := b.once("day", func() string {
			return n + ` "Y" ( ` + n + ` "M" ( ` + n + ` "D" )? )? | ` + n + ` "M" ( ` + n + ` "D" )? | ` + n + ` "D"`
		})
		hour := b.once("hour", func() string {
			return `"T" ( ` + n + ` "H" ( ` + n + ` "M" ( ` + n + ` "S" )? )? | ` + n + ` "M" ( ` + n + ` "S" )? | ` + n + ` "S" )`
		})
		return `"P" ( ` + n + ` "W" | ` + day + " " + hour + "? | " + hour + " )"
	},
	"uuid": func(b *Builder) string {
		h := b.hex()
		return h + `{8} "-" ` + h + `{4} "-" ` + h + `{4} "-" ` + h + `{4} "-" ` + h + `{12}`
	},
	"ipv4":     func(b *Builder) string { o := b.octet(); return o + ` ( "." ` + o + " ){3}" },
	"ipv6":     func(b *Builder) string { return b.ipv6() },
	"hostname": func(b *Builder) string { return b.hostname() },
	"email": func(b *Builder) string {
		atom := b.once("atom", func() string { return "[a-zA-Z0-9!#$%&'*+/=?^_`{|}~-]{1,20}" })
		return atom + ` ( "." ` + atom + ` ){0,2} "@" ` + b.hostname()
	},
	"uri": func(b *Builder) string {
		pct := b.once("pct", func() string { return `"%" ` + b.hex() + " " + b.hex() })
		pchar := b.once("pchar", func() string { return `[a-zA-Z0-9._~!$&'()*+,;=:@-] | ` + pct })
		more := b.once("path", func() string {
			return `( "/" ` + pchar + `* )* ( "?" ( ` + pchar + ` | [/?] )* )? ( "#" ( ` + pchar + ` | [/?] )* )?`
		})
		return `[a-zA-Z] [a-zA-Z0-9+.-]{0,15} ":" ( "//" ` + b.hostname() + ` ( ":" [0-9]{1,4} )? ` + more + ` | ` + pchar + "+ " + more + " )"
	},
}

func (c *compiler) format(name, ptr string) (string, error) {
	body := formats[name]
	if body == nil {
		return "", cannot(ptr, "format", "%.40q is not a format that can be kept", name)
	}
	return c.b.once("format "+name, func() string { return `"\"" ` + body(c.b) + ` "\""` }), nil
}

func (b *Builder) octet() string {
	return b.once("octet", func() string { return `"25" [0-5] | "2" [0-4] [0-9] | "1" [0-9] [0-9] | [1-9] [0-9] | [0-9]` })
}

// date is a day of the calendar, 29 February in leap years only.
func (b *Builder) date() string {
	return b.once("date", func() string {
		four := `"0" [48] | [2468] [048] | [13579] [26]`
		leap := b.Add(`[0-9] [0-9] ( ` + four + ` ) | ( "00" | ` + four + ` ) "00"`)
		return `[0-9]{4} "-" ( ( "01" | "03" | "05" | "07" | "08" | "10" | "12" ) "-" ( "0" [1-9] | [12] [0-9] | "3" [01] ) | ` +
			`( "04" | "06" | "09" | "11" ) "-" ( "0" [1-9] | [12] [0-9] | "30" ) | "02-" ( "0" [1-9] | "1" [0-9] | "2" [0-8] ) ) | ` +
			leap + ` "-02-29"`
	})
}

// clock is a time of day with its offset.
func (b *Builder) clock() string {
	return b.once("clock", func() string {
		hm := b.once("hm", func() string { return `( [01] [0-9] | "2" [0-3] ) ":" [0-5] [0-9]` })
		return hm + ` ":" [0-5] [0-9] ( "." [0-9]{1,9} )? ( "Z" | [+-] ` + hm + " )"
	})
}

func (b *Builder) hostname() string {
	return b.once("hostname", func() string {
		label := b.once("label", func() string { return `[a-zA-Z0-9] ( [a-zA-Z0-9-]{0,20} [a-zA-Z0-9] )?` })
		return label + ` ( "." ` + label + ` ){0,5}`
	})
}

// ipv6 is eight groups, or fewer with one "::" in any place.
func (b *Builder) ipv6() string {
	return b.once("ipv6", func() string {
		h := b.once("h16", func() string { return b.hex() + "{1,4}" })
		next := b.Add(`":" ` + h)
		alts := []string{h + " " + next + "{7}", `"::" ( ` + h + " " + next + "{0,6} )?"}
		for left := 1; left <= 7; left++ {
			alt := h
			if left > 1 {
				alt += " " + b.repeat(next, left-1, left-1)
			}
			alt += ` "::"`
			if right := 7 - left; right > 0 {
				alt += " ( " + h
				if right > 1 {
					alt += " " + b.repeat(next, 0, right-1)
				}
				alt += " )?"
			}
			alts = append(alts, alt)
		}
		return strings.Join(alts, " | ")
	})
}
