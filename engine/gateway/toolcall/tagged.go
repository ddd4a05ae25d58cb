package toolcall

import (
	"encoding/json"
	"strings"
)

// tags is how a form writes a call as tags, a pair of them for each argument.
type tags struct {
	// name stands in front of the call's name; nameEnd are the characters of
	// which one ends it, and keep says that this one belongs to what follows.
	name, nameEnd string
	keep          bool
	// key and keyEnd stand around an argument's name, value and valueEnd
	// around its value; pad is the line end on both sides of the value that
	// is no part of it.
	key, keyEnd, value, valueEnd, pad string
	// gap stands between key and value in what the model was trained on.
	gap string
	// end closes the arguments; "" where the call's end does.
	end string
}

var (
	parameterTags = tags{name: "<function=", nameEnd: ">", key: "<parameter=", keyEnd: ">", valueEnd: "</parameter>", pad: "\n", end: "</function>"}
	seedTags      = tags{name: "<function=", nameEnd: ">", key: "<parameter=", keyEnd: ">", valueEnd: "</parameter>", end: "</function>"}
	argTags       = tags{nameEnd: "<\n", keep: true, key: "<arg_key>", keyEnd: "</arg_key>", value: "<arg_value>", valueEnd: "</arg_value>", gap: "\n"}
)

// tagged reads a call of tags. Its arguments become one JSON object. A value
// ends at the first tag that closes it.
type tagged struct {
	t      *tags
	end    string // what closes the call
	params map[string]json.RawMessage

	told    bool
	schema  properties
	args    int  // arguments begun
	inValue bool // a value is being read
	fresh   bool // and nothing of it came yet
	over    bool // the arguments are complete
	value   tagValue
	out     strings.Builder // arguments that this feed made
}

func (g *tagged) started() bool { return g.told }

// feed implements scanner.
func (g *tagged) feed(s string, emit func(name, args string)) (rest string, done, ok bool) {
	if !g.told {
		name, behind, wait := g.readName(s)
		if wait {
			return s, false, true
		}
		if name == "" {
			return s, false, false
		}
		g.told = true
		g.schema = propertiesOf(g.params[name])
		emit(name, "{")
		s = behind
	}
	g.out.Reset()
	for wait := false; !wait && !done; {
		switch {
		case g.over:
			var i int
			i, rest, wait = expect(s, g.end)
			if done = !wait; i == 0 {
				s = rest
			}
		case g.inValue:
			s, wait = g.readValue(s)
		default:
			s, wait, done = g.next(s)
		}
	}
	if g.out.Len() > 0 {
		emit("", g.out.String())
	}
	return s, done, true
}

// readName reads the call's name; it is "" when this is no call.
func (g *tagged) readName(s string) (name, rest string, wait bool) {
	i, rest, wait := expect(s, g.t.name)
	if wait || i < 0 {
		return "", s, wait
	}
	end := strings.IndexAny(rest, g.t.nameEnd)
	if end < 0 || end > maxName {
		return "", s, end < 0 && len(rest) <= maxName
	}
	name = strings.TrimSpace(rest[:end])
	if strings.ContainsAny(name, space+`<>{}"`) {
		return "", s, false
	}
	if !g.t.keep {
		end++
	}
	return name, rest[end:], false
}

// next reads up to an argument's value, or the end of the arguments. What is
// neither ends the call.
func (g *tagged) next(s string) (rest string, wait, done bool) {
	ends := []string{g.t.key, g.end}
	if g.t.end != "" {
		ends = append(ends, g.t.end)
	}
	which, behind, wait := expect(s, ends...)
	if wait {
		return s, true, false
	}
	switch which {
	case 0:
		key, behind, wait := g.readKey(behind)
		if wait {
			return s, true, false
		}
		if key != "" {
			g.begin(key)
			return behind, false, false
		}
	case 1:
		g.out.WriteByte('}')
		return behind, false, true
	case 2:
		g.out.WriteByte('}')
		g.over = true
		return behind, false, false
	}
	g.out.WriteByte('}')
	return s, false, true
}

// readKey reads an argument's name and what opens its value; it is "" when
// that is not there.
func (g *tagged) readKey(s string) (key, rest string, wait bool) {
	end := strings.Index(s, g.t.keyEnd)
	if end < 0 || end > maxName {
		return "", s, end < 0 && len(s) <= maxName+len(g.t.keyEnd)
	}
	key, rest = strings.TrimSpace(s[:end]), s[end+len(g.t.keyEnd):]
	if g.t.value == "" || key == "" {
		return key, rest, false
	}
	i, rest, wait := expect(rest, g.t.value)
	if i < 0 {
		key = ""
	}
	return key, rest, wait
}

// begin opens an argument.
func (g *tagged) begin(key string) {
	if g.args > 0 {
		g.out.WriteString(", ")
	}
	g.args++
	g.out.WriteByte('"')
	escape(&g.out, key)
	g.out.WriteString(`": `)
	g.inValue, g.fresh = true, true
	g.value = newTagValue(g.schema.kinds(key), &g.out)
}

// readValue reads of a value what is there.
func (g *tagged) readValue(s string) (rest string, wait bool) {
	if s == "" {
		return s, true
	}
	if g.fresh {
		g.fresh = false
		s = strings.TrimPrefix(s, g.t.pad)
	}
	if i := strings.Index(s, g.t.valueEnd); i >= 0 {
		g.value.write(strings.TrimSuffix(s[:i], g.t.pad))
		g.value.finish()
		g.inValue = false
		return s[i+len(g.t.valueEnd):], false
	}
	hold := max(overlap(s, g.t.valueEnd), overlap(s, g.t.pad+g.t.valueEnd))
	g.value.write(s[:len(s)-hold])
	return s[len(s)-hold:], true
}

// overlap is how much of mark's beginning stands at the end of s, mark itself
// left out.
func overlap(s, mark string) int {
	for n := min(len(mark)-1, len(s)); n > 0; n-- {
		if strings.HasSuffix(s, mark[:n]) {
			return n
		}
	}
	return 0
}

// text is a whole call.
func (t *tags) text(open, end, name string, arguments json.RawMessage) string {
	var b strings.Builder
	b.WriteString(open + t.opening(name))
	for _, m := range members(arguments) {
		b.WriteString(t.before(m.name))
		var str string
		if json.Unmarshal(m.value, &str) == nil && m.value[0] == '"' {
			b.WriteString(str)
		} else {
			b.Write(m.value)
		}
		b.WriteString(t.pad + t.valueEnd + "\n")
	}
	if t.end != "" {
		b.WriteString(t.end + "\n")
	}
	b.WriteString(end)
	return b.String()
}

// opening is what stands between the call's opening mark and its arguments.
func (t *tags) opening(name string) string {
	if t.name == "" {
		return name + "\n"
	}
	return "\n" + t.name + name + t.nameEnd + "\n"
}

// before is what stands in front of an argument's value.
func (t *tags) before(key string) string { return t.key + key + t.keyEnd + t.gap + t.value + t.pad }
