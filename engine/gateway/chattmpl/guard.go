package chattmpl

import (
	"regexp"
	"strings"

	"neuron/engine/protocol"
)

// Names under which the guards call back; a template that uses them itself
// only spends its own budget.
const (
	fnStep  = "neuron_step"
	fnEnter = "neuron_enter"
	fnLeave = "neuron_leave"
)

var endraw = regexp.MustCompile(`\{%[-+]?\s*endraw\s*[-+]?%\}`)

// guard checks a template's static limits and inserts a call into each loop
// body and macro, because the language itself has no limits and no way to stop
// it. A call is a {% set %} tag that carries over the neighbouring tag's
// whitespace control, so that the text comes out the same.
func guard(src string) (string, error) {
	bad := func(format string, args ...any) (string, error) {
		return "", protocol.Errorf(protocol.CodeTemplateInvalid, format, args...)
	}
	if len(src) > MaxSource {
		return bad("the chat template has %d bytes, at most %d are allowed", len(src), MaxSource)
	}
	var out strings.Builder
	blocks := 0
	for i := 0; i < len(src); {
		open := strings.IndexByte(src[i:], '{')
		if open < 0 || i+open+1 >= len(src) {
			out.WriteString(src[i:])
			break
		}
		out.WriteString(src[i : i+open])
		i += open
		kind := src[i+1]
		if kind != '{' && kind != '%' && kind != '#' {
			out.WriteByte('{')
			i++
			continue
		}
		end, depth := tagEnd(src, i)
		if end < 0 {
			return bad("the chat template has a tag that does not end")
		}
		if depth > MaxDepth {
			return bad("the chat template nests brackets deeper than %d", MaxDepth)
		}
		tag := src[i:end]
		i = end
		if kind != '#' {
			tag = rename(tag)
		}
		if kind != '%' {
			out.WriteString(tag)
			continue
		}
		opener, closer := "{%", "%}"
		body := tag[2 : len(tag)-2]
		if strings.HasPrefix(body, "-") {
			opener, body = "{%-", body[1:]
		}
		if strings.HasSuffix(body, "-") {
			closer, body = "-%}", body[:len(body)-1]
		}
		word, _, _ := strings.Cut(strings.TrimSpace(strings.TrimPrefix(body, "+")), " ")
		word, _, _ = strings.Cut(word, "(") // {% call(x) m() %}
		switch word {
		case "raw":
			out.WriteString(tag)
			m := endraw.FindStringIndex(src[i:])
			if m == nil {
				return bad("the chat template has a raw block that does not end")
			}
			out.WriteString(src[i : i+m[1]])
			i += m[1]
			continue
		case "endmacro":
			out.WriteString(opener + " set neuron_mark = " + fnLeave + "() %}")
			out.WriteString(tag)
		case "for":
			out.WriteString(tag + "{% set neuron_mark = " + fnStep + "() " + closer)
		case "macro":
			out.WriteString(tag + "{% set neuron_mark = " + fnEnter + "() " + closer)
		default:
			out.WriteString(tag)
		}
		switch {
		case word == "for" || word == "if" || word == "macro" || word == "call" || word == "filter":
			if blocks++; blocks > MaxDepth {
				return bad("the chat template nests blocks deeper than %d", MaxDepth)
			}
		case strings.HasPrefix(word, "end") && blocks > 0:
			blocks--
		}
	}
	return out.String(), nil
}

// tagEnd finds the end of the tag that starts at i, as Jinja does (quotes hide
// closers, not in comments; so do braces that are open), and the deepest
// bracket nesting inside it; -1 if it does not end.
func tagEnd(src string, i int) (end, depth int) {
	kind := src[i+1]
	closer := "}}"
	switch kind {
	case '%':
		closer = "%}"
	case '#':
		closer = "#}"
	}
	level, braces := 0, 0
	for j := i + 2; j < len(src); j++ {
		if kind != '#' && (src[j] == '\'' || src[j] == '"') {
			q := src[j]
			for j++; j < len(src) && src[j] != q; j++ {
				if src[j] == '\\' {
					j++
				}
			}
			continue
		}
		if strings.HasPrefix(src[j:], closer) && (kind != '{' || braces <= 0) {
			return j + 2, depth
		}
		switch src[j] {
		case '{':
			braces++
		case '}':
			braces--
		}
		switch src[j] {
		case '(', '[', '{':
			level++
			depth = max(depth, level)
		case ')', ']', '}':
			level--
		}
	}
	return -1, depth
}
