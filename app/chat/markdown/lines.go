package markdown

import (
	"slices"
	"strings"
)

// parser takes whole lines. Only its open block can still change, which is what
// makes the others frozen.
type parser struct {
	done []Block
	open Block
	has  bool // open is a block
	// fence is what ends the open code: the marks it began with, "" for code
	// that is indented; fenceIndent is taken off each line.
	fence       string
	fenceIndent int
	blanks      int // in indented code, not yet known to belong to it
	// lists are the indents of the items around, outermost first; they last over
	// blank lines.
	lists []int
}

// end closes the open block.
func (p *parser) end() {
	if p.has {
		p.done = append(p.done, p.open)
	}
	p.open, p.has, p.blanks = Block{}, false, 0
}

// begin closes the open block and opens b.
func (p *parser) begin(b Block) {
	p.end()
	p.open, p.has = b, true
}

// is reports whether the open block is of kind k.
func (p *parser) is(k Kind) bool { return p.has && p.open.Kind == k }

func (p *parser) add(line string) { p.open.Lines = append(p.open.Lines, line) }

func (p *parser) line(line string) {
	line = strings.TrimSuffix(line, "\r")
	if p.is(Code) && p.code(line) {
		return
	}
	indent, text := splitIndent(line)
	if text == "" {
		p.end()
		return
	}
	if p.markers(indent, text) {
		return
	}
	if !p.has { // after a blank line, or at the beginning
		if indent < 2 {
			p.lists = nil
		}
		if indent >= 4 && len(p.lists) == 0 {
			p.begin(Block{Kind: Code})
			p.fence, p.fenceIndent = "", 4
			p.add(dropIndent(line, 4))
			return
		}
	}
	switch {
	case p.is(Table) && strings.Contains(text, "|"), p.is(Paragraph), p.is(Item):
		if p.is(Paragraph) && p.table(text) {
			return
		}
		p.add(text)
	default:
		if p.has {
			p.lists = nil
		}
		p.begin(Block{Kind: Paragraph, Indent: len(p.lists), Lines: []string{text}})
	}
}

// code takes a line of the open code. False: it does not belong to it.
func (p *parser) code(line string) bool {
	indent, text := splitIndent(line)
	switch {
	case p.fence == "" && text == "":
		p.blanks++
	case p.fence == "" && indent < 4:
		p.end()
		return false
	case p.fence != "" && len(text) >= len(p.fence) && strings.Trim(text, p.fence[:1]) == "":
		p.end()
	default:
		for ; p.blanks > 0; p.blanks-- {
			p.add("")
		}
		p.add(dropIndent(line, p.fenceIndent))
	}
	return true
}

// markers takes a line that begins a block by its first characters.
func (p *parser) markers(indent int, text string) bool {
	inList := indent >= 2 && len(p.lists) > 0
	if fence, info := fenceOf(text); fence != "" && (indent < 4 || inList) {
		if !inList {
			p.lists = nil
		}
		p.begin(Block{Kind: Code, Indent: len(p.lists), Info: info})
		p.fence, p.fenceIndent = fence, indent
		return true
	}
	if isRule(text) && indent < 4 {
		p.lists = nil
		p.begin(Block{Kind: Rule})
		p.end()
		return true
	}
	if n := len(text) - len(strings.TrimLeft(text, "#")); 1 <= n && n <= 6 && indent < 4 && (len(text) == n || text[n] == ' ') {
		p.lists = nil
		title := strings.TrimSpace(text[n:])
		if t := strings.TrimRight(title, "#"); t == "" || strings.HasSuffix(t, " ") {
			title = strings.TrimSpace(t)
		}
		p.begin(Block{Kind: Heading, Level: n, Lines: []string{title}})
		p.end()
		return true
	}
	if text[0] == '>' && (indent < 4 || inList) {
		if !inList {
			p.lists = nil
		}
		if !p.is(Quote) {
			p.begin(Block{Kind: Quote, Indent: len(p.lists)})
		}
		for strings.HasPrefix(text, ">") {
			text = strings.TrimPrefix(text[1:], " ")
		}
		p.add(text)
		return true
	}
	return p.item(indent, text)
}

// item takes a line that begins an item of a list.
func (p *parser) item(indent int, text string) bool {
	marker, rest, ok := itemOf(text)
	switch {
	case !ok:
		return false
	case p.is(Paragraph) && (marker != "•" && marker != "1." || rest == ""):
		return false // a line of text that begins with a number or a dash
	case len(p.lists) == 0 && indent >= 4:
		return false
	}
	for len(p.lists) > 0 && indent < p.lists[len(p.lists)-1] {
		p.lists = p.lists[:len(p.lists)-1]
	}
	// One space more is sloppy, two are a list in the list.
	if n := len(p.lists); n == 0 || indent >= p.lists[n-1]+2 {
		p.lists = append(p.lists, indent)
	}
	if marker == "•" && len(rest) >= 4 && rest[0] == '[' && rest[2:4] == "] " {
		switch rest[1] {
		case ' ':
			marker, rest = "☐", rest[4:]
		case 'x', 'X':
			marker, rest = "☑", rest[4:]
		}
	}
	p.begin(Block{Kind: Item, Indent: len(p.lists) - 1, Marker: marker, Lines: []string{rest}})
	return true
}

// table turns the last line of the open paragraph into the header of a table, if
// the line of dashes follows it.
func (p *parser) table(text string) bool {
	head := p.open.Lines[len(p.open.Lines)-1]
	if !strings.Contains(head, "|") || !isDashes(text) || len(cells(head)) != len(cells(text)) {
		return false
	}
	before := p.open.Lines[:len(p.open.Lines)-1]
	indent := p.open.Indent
	if len(before) > 0 {
		p.open.Lines = slices.Clip(before)
		p.end()
	}
	p.open, p.has = Block{Kind: Table, Indent: indent, Lines: []string{head}}, true
	return true
}

// splitIndent counts the columns before the text; a tab goes to the next
// multiple of four.
func splitIndent(line string) (indent int, text string) {
	for i := range len(line) {
		switch line[i] {
		case ' ':
			indent++
		case '\t':
			indent += 4 - indent%4
		default:
			return indent, strings.TrimRight(line[i:], " \t")
		}
	}
	return indent, ""
}

// dropIndent takes up to n columns off the front; of a tab that goes further,
// the rest stays as spaces.
func dropIndent(line string, n int) string {
	at := 0
	for i := range len(line) {
		switch {
		case at >= n, line[i] != ' ' && line[i] != '\t':
			return strings.Repeat(" ", max(0, at-n)) + line[i:]
		case line[i] == ' ':
			at++
		default:
			at += 4 - at%4
		}
	}
	return ""
}

// fenceOf reads the first line of fenced code.
func fenceOf(text string) (fence, info string) {
	for _, mark := range []string{"`", "~"} {
		rest := strings.TrimLeft(text, mark)
		if n := len(text) - len(rest); n >= 3 && !(mark == "`" && strings.Contains(rest, "`")) {
			return text[:n], strings.TrimSpace(rest)
		}
	}
	return "", ""
}

// isRule reports whether text is three or more of one of -, * and _.
func isRule(text string) bool {
	bare := strings.ReplaceAll(text, " ", "")
	return len(bare) >= 3 && strings.ContainsRune("-*_", rune(bare[0])) && strings.Trim(bare, bare[:1]) == ""
}

// itemOf reads the marker of an item.
func itemOf(text string) (marker, rest string, ok bool) {
	n := 0
	switch {
	case strings.ContainsRune("-*+", rune(text[0])):
		n, marker = 1, "•"
	default:
		for n < len(text) && n < 9 && '0' <= text[n] && text[n] <= '9' {
			n++
		}
		if n == 0 || n == len(text) || text[n] != '.' && text[n] != ')' {
			return "", "", false
		}
		marker = text[:n] + "."
		n++
	}
	if n < len(text) && text[n] != ' ' && text[n] != '\t' {
		return "", "", false
	}
	return marker, strings.TrimSpace(text[n:]), true
}
