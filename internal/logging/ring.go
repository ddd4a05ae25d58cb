package logging

import (
	"context"
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"
	"time"
	"unicode/utf8"
)

// Line is a record as a Ring keeps it.
type Line struct {
	Number    int64 // from 1 on, without gaps
	Time      time.Time
	Level     slog.Level
	Component string
	Text      string // the message and its attributes, at most maxLine bytes
}

// maxLine bounds the text of a kept line, in bytes.
const maxLine = 2 << 10

// Ring keeps the newest records in memory, for those who look at a program
// while it runs. It is safe for concurrent use and has no goroutine.
type Ring struct {
	mu    sync.Mutex
	lines []Line // of one size once it is full; guarded by mu
	most  int
	last  int64 // number of the newest line; guarded by mu
}

// NewRing keeps most lines.
func NewRing(most int) *Ring { return &Ring{most: max(1, most)} }

func (r *Ring) add(l Line) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.last++
	l.Number = r.last
	if len(r.lines) < r.most {
		r.lines = append(r.lines, l)
		return
	}
	r.lines[(l.Number-1)%int64(r.most)] = l
}

// After are the kept lines with a number above n, oldest first.
func (r *Ring) After(n int64) []Line {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := max(n, r.last-int64(len(r.lines)), 0) + 1
	out := make([]Line, 0, max(0, r.last-first+1))
	for ; first <= r.last; first++ {
		out = append(out, r.lines[(first-1)%int64(r.most)])
	}
	return out
}

// Handler gives the ring records; levels are the caller's affair.
func (r *Ring) Handler() slog.Handler { return ringHandler{ring: r} }

// ringHandler holds what With has given a logger.
type ringHandler struct {
	ring      *Ring
	component string
	attrs     string // as they are appended to the message
	group     string // with its dot
}

func (h ringHandler) Enabled(context.Context, slog.Level) bool { return true }

func (h ringHandler) Handle(_ context.Context, rec slog.Record) error {
	var b strings.Builder
	b.WriteString(rec.Message)
	b.WriteString(h.attrs)
	component := h.component
	rec.Attrs(func(a slog.Attr) bool {
		component = h.append(&b, a, component)
		return true
	})
	h.ring.add(Line{Time: rec.Time, Level: rec.Level, Component: component, Text: cut(b.String())})
	return nil
}

// append writes an attribute, unless it is the component, which it returns.
func (h ringHandler) append(b *strings.Builder, a slog.Attr, component string) string {
	v := a.Value.Resolve()
	switch {
	case a.Equal(slog.Attr{}):
	case a.Key == ComponentKey && h.group == "":
		return v.String()
	case v.Kind() == slog.KindGroup:
		for _, x := range v.Group() {
			ringHandler{group: h.group + a.Key + "."}.append(b, x, "")
		}
	default:
		text := v.String()
		if v.Kind() == slog.KindAny {
			text = fmt.Sprint(v.Any()) // as the text handler shows errors
		}
		if text == "" || strings.ContainsAny(text, " \"=\n\t") {
			text = strconv.Quote(text)
		}
		b.WriteString(" " + h.group + a.Key + "=" + text)
	}
	return component
}

func (h ringHandler) WithAttrs(as []slog.Attr) slog.Handler {
	var b strings.Builder
	b.WriteString(h.attrs)
	for _, a := range as {
		h.component = h.append(&b, a, h.component)
	}
	h.attrs = b.String()
	return h
}

func (h ringHandler) WithGroup(name string) slog.Handler {
	if name != "" {
		h.group += name + "."
	}
	return h
}

// cut bounds a line, at the beginning of a character.
func cut(s string) string {
	if len(s) <= maxLine {
		return s
	}
	n := maxLine - len("...")
	for n > 0 && !utf8.RuneStart(s[n]) {
		n--
	}
	return s[:n] + "..."
}
