package markdown

import (
	"html"
	"net/url"
	"strings"
	"unicode"
	"unicode/utf8"
)

// Span is a piece of text in one style.
type Span struct {
	Text               string
	Bold, Italic, Code bool
	// Link is an http or https address, "" for none.
	Link string
}

// Plain is the text of a line without its marks.
func Plain(text string) string {
	var b strings.Builder
	for _, s := range Inline(text) {
		b.WriteString(s.Text)
	}
	return b.String()
}

// Inline reads the marks inside a block's text. Marks that do not end are text.
func Inline(text string) []Span {
	p := inline{src: text}
	p.scan()
	return p.spans()
}

// piece is text, or a run of * or _ that may begin or end emphasis.
type piece struct {
	Span
	mark        byte // '*' or '_', 0 for text
	left        int  // marks that are not used
	opens, ends bool
}

type inline struct {
	src    string
	at     int
	pieces []piece
	text   strings.Builder // not yet a piece
	open   []int           // pieces that may begin emphasis
}

// maxOpen bounds the marks that wait for their end, so that a text of stars
// costs no more than another one.
const maxOpen = 50

func (p *inline) flush() {
	if p.text.Len() > 0 {
		p.pieces = append(p.pieces, piece{Span: Span{Text: p.text.String()}})
		p.text.Reset()
	}
}

func (p *inline) span(s Span) {
	p.flush()
	p.pieces = append(p.pieces, piece{Span: s})
}

func (p *inline) scan() {
	noLink := 0 // up to here no bracket is closed
	for p.at < len(p.src) {
		rest := p.src[p.at:]
		switch c := rest[0]; {
		case c == '\\' && len(rest) > 1 && isPunct(rest[1]):
			p.text.WriteByte(rest[1])
			p.at += 2
			continue
		case c == '`':
			p.code()
			continue
		case c == '*' || c == '_':
			p.emphasis(c)
			continue
		case c == '&':
			if i := strings.IndexByte(rest[:min(len(rest), 32)], ';'); i > 1 {
				if s := html.UnescapeString(rest[:i+1]); s != rest[:i+1] && strings.Trim(rest[1:i], alnum+"#") == "" {
					p.text.WriteString(s)
					p.at += i + 1
					continue
				}
			}
		case (c == '[' || c == '!' && strings.HasPrefix(rest, "![")) && p.at >= noLink:
			n, ok := p.link(rest)
			if ok {
				continue
			}
			noLink = p.at + n
		case c == '<' && strings.HasPrefix(rest, "<http"):
			if i := strings.IndexAny(rest, "> \n"); i > 0 && rest[i] == '>' && address(rest[1:i]) != "" {
				p.span(Span{Text: rest[1:i], Link: address(rest[1:i])})
				p.at += i + 1
				continue
			}
		case c == 'h' && (strings.HasPrefix(rest, "http://") || strings.HasPrefix(rest, "https://")) && !p.inWord():
			word := firstWord(rest)
			n := bareLength(word)
			if n == 0 { // and what stands in it is no better
				p.text.WriteString(word)
				p.at += len(word)
				continue
			}
			p.span(Span{Text: word[:n], Link: address(word[:n])})
			p.at += n
			continue
		}
		_, n := utf8.DecodeRuneInString(rest)
		p.text.WriteString(rest[:n])
		p.at += n
	}
	p.flush()
}

const alnum = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"

func isPunct(c byte) bool { return c > ' ' && c < 0x7f && !strings.ContainsRune(alnum, rune(c)) }

// inWord reports whether a letter stands before the place.
func (p *inline) inWord() bool {
	r, _ := utf8.DecodeLastRuneInString(p.src[:p.at])
	return p.at > 0 && (unicode.IsLetter(r) || unicode.IsDigit(r))
}

// code reads a run of back-ticks, and what stands up to the next run of the
// same length.
func (p *inline) code() {
	rest := p.src[p.at:]
	n := len(rest) - len(strings.TrimLeft(rest, "`"))
	for i := n; i < len(rest); {
		k := strings.IndexByte(rest[i:], '`')
		if k < 0 {
			break
		}
		i += k
		m := len(rest[i:]) - len(strings.TrimLeft(rest[i:], "`"))
		if m == n {
			body := strings.ReplaceAll(rest[n:i], "\n", " ")
			if len(body) > 2 && body[0] == ' ' && body[len(body)-1] == ' ' && strings.Trim(body, " ") != "" {
				body = body[1 : len(body)-1]
			}
			p.span(Span{Text: body, Code: true})
			p.at += i + n
			return
		}
		i += m
	}
	p.text.WriteString(rest[:n])
	p.at += n
}

// maxLink bounds the text and the address of a link, in bytes.
const maxLink = 1000

// link reads [text](address) and ![text](address). Where it is none, n bytes
// hold no link.
func (p *inline) link(rest string) (n int, ok bool) {
	from := strings.IndexByte(rest, '[') + 1
	depth, end := 1, -1
	for i := from; i < min(len(rest), maxLink); i++ {
		switch rest[i] {
		case '\\':
			i++
		case '[':
			depth++
		case ']':
			depth--
		case '\n':
			if strings.HasPrefix(rest[i:], "\n\n") {
				depth = 0
			}
		}
		if depth == 0 {
			end = i
			break
		}
	}
	if end < 0 {
		return min(len(rest), maxLink), false
	}
	if !strings.HasPrefix(rest[end:], "](") {
		return 0, false
	}
	to := rest[end+2:]
	close, depth := -1, 1
	for i := 0; i < min(len(to), maxLink) && close < 0; i++ {
		switch to[i] {
		case '(':
			depth++
		case ')':
			if depth--; depth == 0 {
				close = i
			}
		case '\n':
			depth = 1 << 20
		}
	}
	if close < 0 {
		return 0, false
	}
	where, _, _ := strings.Cut(strings.TrimSpace(to[:close]), ` "`)
	target := address(strings.Trim(where, "<>"))
	label := Plain(rest[from:end])
	if label == "" {
		label = where
	}
	if target == "" {
		// An address that a browser must not get stays readable.
		p.span(Span{Text: label + " (" + where + ")"})
	} else {
		p.span(Span{Text: label, Link: target})
	}
	p.at += end + 2 + close + 1
	return 0, true
}

// address checks an address of a link: http and https with a host, and nothing
// that only looks like it.
func address(s string) string {
	u, err := url.Parse(s)
	if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.User != nil || len(s) > maxLink ||
		strings.ContainsFunc(s, func(r rune) bool { return unicode.IsControl(r) || unicode.IsSpace(r) }) {
		return ""
	}
	return u.String()
}

// firstWord is running text up to what cannot be part of an address.
func firstWord(s string) string {
	n := 0
	for n < min(len(s), maxLink) && s[n] > ' ' && !strings.ContainsRune("<>\"`|*", rune(s[n])) {
		n++
	}
	for n > 0 && n < len(s) && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n]
}

// bareLength is how much of a word is an address: what ends a sentence is not.
func bareLength(s string) int {
	for {
		t := strings.TrimRight(s, ".,;:!?'_")
		if strings.HasSuffix(t, ")") && strings.Count(t, ")") > strings.Count(t, "(") {
			t = t[:len(t)-1]
		}
		if t == s {
			break
		}
		s = t
	}
	if address(s) == "" {
		return 0
	}
	return len(s)
}

// emphasis reads a run of stars or underscores (CommonMark 0.31, section 6.2,
// without the rule of three).
func (p *inline) emphasis(c byte) {
	rest := p.src[p.at:]
	n := len(rest) - len(strings.TrimLeft(rest, string(c)))
	before, _ := utf8.DecodeLastRuneInString(p.src[:p.at])
	after, _ := utf8.DecodeRuneInString(rest[n:])
	p.at += n
	left, right := flanking(before, after, p.at == n, p.at == len(p.src))
	m := piece{mark: c, left: n, opens: left, ends: right}
	if c == '_' {
		m.opens = left && (!right || unicode.IsPunct(before))
		m.ends = right && (!left || unicode.IsPunct(after))
	}
	p.flush()
	m.Text = rest[:n]
	p.pieces = append(p.pieces, m)
	self := len(p.pieces) - 1
	if m.ends {
		p.match(self)
	}
	if m.opens && p.pieces[self].left > 0 {
		if len(p.open) == maxOpen {
			p.open = p.open[1:]
		}
		p.open = append(p.open, self)
	}
}

func flanking(before, after rune, first, last bool) (left, right bool) {
	space := func(r rune, edge bool) bool { return edge || unicode.IsSpace(r) }
	punct := func(r rune) bool { return unicode.IsPunct(r) || unicode.IsSymbol(r) }
	left = !space(after, last) && (!punct(after) || space(before, first) || punct(before))
	right = !space(before, first) && (!punct(before) || space(after, last) || punct(after))
	return left, right
}

// match ends emphasis at a run with the nearest run that may begin it.
func (p *inline) match(end int) {
	e := &p.pieces[end]
	for k := len(p.open) - 1; k >= 0 && e.left > 0; k-- {
		o := &p.pieces[p.open[k]]
		if o.mark != e.mark {
			continue
		}
		for o.left > 0 && e.left > 0 {
			strong := o.left >= 2 && e.left >= 2
			n := 1
			if strong {
				n = 2
			}
			for i := p.open[k] + 1; i < end; i++ {
				if strong {
					p.pieces[i].Bold = true
				} else {
					p.pieces[i].Italic = true
				}
			}
			o.left -= n
			e.left -= n
		}
		keep := k // runs in between stay text
		if o.left > 0 {
			keep++
		}
		p.open = p.open[:keep]
	}
}

// spans joins the pieces; marks that were not used are text.
func (p *inline) spans() []Span {
	var out []Span
	var text strings.Builder
	var last Span // without its text, which is in text
	put := func() {
		if text.Len() > 0 {
			last.Text = text.String()
			out = append(out, last)
			text.Reset()
		}
	}
	for i := range p.pieces {
		s := p.pieces[i].Span
		piece := s.Text
		if p.pieces[i].mark != 0 {
			piece = piece[:p.pieces[i].left]
		}
		if piece == "" {
			continue
		}
		s.Text = ""
		if s != last || s.Link != "" {
			put()
			last = s
		}
		text.WriteString(piece)
	}
	put()
	return out
}
