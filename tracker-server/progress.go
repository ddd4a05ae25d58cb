package main

import (
	"fmt"
	"io"
	"os"
	"strings"
	"time"

	"neuron/internal/publish"
)

// progress shows how far hashing is: a bar that moves on a terminal, a line
// from time to time elsewhere. Its methods are called by one goroutine at a
// time.
type progress struct {
	w        io.Writer
	terminal bool
	now      func() time.Time

	start, shown time.Time
	width        int // of what stands on the terminal's line
}

const (
	barCells  = 24
	barEvery  = 100 * time.Millisecond
	lineEvery = 5 * time.Second
)

func newProgress(w io.Writer) *progress {
	f, ok := w.(*os.File)
	if ok {
		info, err := f.Stat()
		ok = err == nil && info.Mode()&os.ModeCharDevice != 0
	}
	return &progress{w: w, terminal: ok, now: time.Now}
}

func (p *progress) update(done, total int64) {
	now := p.now()
	if p.start.IsZero() {
		p.start, p.shown = now, now
	}
	every := lineEvery
	if p.terminal {
		every = barEvery
	}
	last := done >= total
	if now.Sub(p.shown) < every && !(last && p.terminal) {
		return
	}
	p.shown = now
	elapsed := now.Sub(p.start)
	text := fmt.Sprintf("%3d %%  %s of %s", percent(done, total), size(done), size(total))
	if s := elapsed.Seconds(); s > 0 {
		text += fmt.Sprintf("  %s/s", size(int64(float64(done)/s)))
	}
	if eta := publish.ETA(done, total, elapsed); eta > 0 {
		text += "  ETA " + clock(eta)
	}
	if !p.terminal {
		fmt.Fprintln(p.w, "hashing", strings.TrimSpace(text))
		return
	}
	cells := barCells * percent(done, total) / 100
	text = "[" + strings.Repeat("#", cells) + strings.Repeat("-", barCells-cells) + "] " + text
	fmt.Fprintf(p.w, "\r%-*s", p.width, text)
	p.width = len(text)
}

// end leaves the terminal's line.
func (p *progress) end() {
	if p.width > 0 {
		fmt.Fprintln(p.w)
	}
}

func percent(done, total int64) int {
	if total <= 0 {
		return 100
	}
	return int(float64(min(max(done, 0), total)) / float64(total) * 100)
}

// clock is minutes and seconds, with hours where there are some.
func clock(d time.Duration) string {
	s := int((d + time.Second - 1) / time.Second)
	if s >= 3600 {
		return fmt.Sprintf("%d:%02d:%02d", s/3600, s/60%60, s%60)
	}
	return fmt.Sprintf("%d:%02d", s/60, s%60)
}

func size(n int64) string {
	switch {
	case n >= 10<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.1f MiB", float64(n)/(1<<20))
	default:
		return fmt.Sprintf("%.1f KiB", float64(n)/(1<<10))
	}
}
