package chattmpl

import (
	"context"
	"errors"
	"strings"
	"unicode/utf8"

	"neuron/engine/protocol"
)

// Span is where one message's content lies in a rendered prompt, as byte
// offsets [Start, End), without the content's outer white space (templates
// often trim it).
type Span struct {
	Message int `json:"message"`
	Start   int `json:"start"`
	End     int `json:"end"`
}

// ErrNoSpans says that a template changes or inspects contents in such a way
// that their place in the prompt cannot be told exactly.
var ErrNoSpans = errors.New("the chat template transforms message contents")

// Private-use code points (plane 15) that stand around a content. A content or
// template that holds one of them gets another set.
const (
	markBase  rune = 0xF0000
	markCount rune = 12 // begin, end, and ten digits
	markSets  rune = 64
)

// RenderSpans renders in and finds the contents in the result. It renders a
// second time with marks around each content; when the marked text without its
// marks is not the plain text, or marks got lost, moved or doubled unevenly,
// the place is not known and the error is ErrNoSpans beside the plain text.
func (t *Template) RenderSpans(ctx context.Context, in Input) (string, []Span, error) {
	plain, err := t.Render(ctx, in)
	if err != nil {
		return "", nil, err
	}
	base, ok := t.freeMarks(in.Messages)
	if !ok {
		return plain, nil, ErrNoSpans
	}
	marked := in
	marked.Messages = make([]Message, len(in.Messages))
	for i, m := range in.Messages {
		core := strings.TrimSpace(m.Content)
		if core != "" {
			at := strings.Index(m.Content, core)
			m.Content = m.Content[:at] + mark(base, 0, i) + core + mark(base, 1, i) + m.Content[at+len(core):]
		}
		marked.Messages[i] = m
	}
	text, err := t.Render(ctx, marked)
	if err != nil {
		var e *protocol.Error
		if errors.As(err, &e) { // the template looked at the marks
			return plain, nil, ErrNoSpans
		}
		return "", nil, err
	}
	stripped, spans, ok := unmark(text, base, len(in.Messages))
	if !ok || stripped != plain {
		return plain, nil, ErrNoSpans
	}
	return plain, spans, nil
}

// freeMarks finds a set of code points that occurs nowhere in the input.
func (t *Template) freeMarks(msgs []Message) (rune, bool) {
	for set := range markSets {
		base := markBase + set*markCount
		used := func(s string) bool {
			return strings.IndexFunc(s, func(r rune) bool { return r >= base && r < base+markCount }) >= 0
		}
		free := !used(t.source)
		for i := 0; free && i < len(msgs); i++ {
			free = !used(msgs[i].Content)
		}
		if free {
			return base, true
		}
	}
	return 0, false
}

// mark is a begin (0) or end (1) mark followed by four digits for the index.
func mark(base rune, which rune, i int) string {
	r := []rune{base + which, 0, 0, 0, 0}
	for k := 4; k > 0; k-- {
		r[k] = base + 2 + rune(i%10)
		i /= 10
	}
	return string(r)
}

// unmark removes the marks and returns the spans between them; ok is false
// unless begin and end marks pair up without nesting.
func unmark(s string, base rune, n int) (text string, spans []Span, ok bool) {
	var b strings.Builder
	open := -1
	for i := 0; i < len(s); {
		r, size := utf8.DecodeRuneInString(s[i:])
		if r < base || r >= base+markCount {
			b.WriteString(s[i : i+size])
			i += size
			continue
		}
		if r > base+1 {
			return "", nil, false
		}
		i += size
		index := 0
		for range 4 {
			d, dsize := utf8.DecodeRuneInString(s[i:])
			if d < base+2 || d >= base+markCount {
				return "", nil, false
			}
			index = index*10 + int(d-base-2)
			i += dsize
		}
		switch {
		case index >= n:
			return "", nil, false
		case r == base && open < 0:
			open = index
			spans = append(spans, Span{Message: index, Start: b.Len()})
		case r == base+1 && open == index:
			open = -1
			spans[len(spans)-1].End = b.Len()
		default:
			return "", nil, false
		}
	}
	return b.String(), spans, open < 0
}
