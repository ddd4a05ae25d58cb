package web

import (
	"fmt"
	"strconv"
	"strings"
	"time"

	"neuron/engine/protocol"
)

// Functions of the templates. All turn figures into short words.

func millis(us int64) string {
	switch {
	case us <= 0:
		return "–"
	case us < 10_000:
		return fmt.Sprintf("%.2f ms", float64(us)/1000)
	case us < 1_000_000:
		return fmt.Sprintf("%.0f ms", float64(us)/1000)
	case us < 60_000_000:
		return fmt.Sprintf("%.1f s", float64(us)/1e6)
	default:
		return fmt.Sprintf("%.0f s", float64(us)/1e6)
	}
}

func showBytes(n int64) string {
	switch {
	case n >= 1<<40:
		return fmt.Sprintf("%.1f TiB", float64(n)/(1<<40))
	case n >= 1<<30:
		return fmt.Sprintf("%.1f GiB", float64(n)/(1<<30))
	case n >= 1<<20:
		return fmt.Sprintf("%.0f MiB", float64(n)/(1<<20))
	case n >= 1<<10:
		return fmt.Sprintf("%.0f KiB", float64(n)/(1<<10))
	default:
		return fmt.Sprintf("%d B", n)
	}
}

// ago is coarse on purpose: the page must not change every second when
// nothing happens.
func ago(now, t time.Time) string {
	switch d := now.Sub(t); {
	case t.IsZero():
		return "never"
	case d < 15*time.Second:
		return "just now"
	case d < time.Minute:
		return "under a minute ago"
	case d < time.Hour:
		return fmt.Sprintf("%d min ago", int(d.Minutes()))
	case d < 48*time.Hour:
		return fmt.Sprintf("%d h ago", int(d.Hours()))
	default:
		return fmt.Sprintf("%d days ago", int(d.Hours()/24))
	}
}

// count writes a number in groups of three.
func count[N int | int64](n N) string {
	text := strconv.FormatInt(int64(n), 10)
	var out []string
	for len(text) > 3 && text[len(text)-4] != '-' {
		out = append([]string{text[len(text)-3:]}, out...)
		text = text[:len(text)-3]
	}
	return strings.Join(append([]string{text}, out...), ",")
}

// plural is "1 node", "2 nodes".
func plural(n int, one string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + one + "s"
}

// credits writes micro-credits.
func credits(micro int64) string {
	switch c := float64(micro) / 1e6; {
	case micro == 0:
		return "0"
	case c < 10 && c > -10:
		return fmt.Sprintf("%.3f", c)
	default:
		return count(int64(c))
	}
}

// rate writes tokens per second.
func rate(f float64) string {
	if f >= 100 {
		return count(int64(f + 0.5))
	}
	return fmt.Sprintf("%.1f", f)
}

// layers says which layers a range has, the last one included.
func layers(r protocol.Range) string {
	if r.Len() == 1 {
		return fmt.Sprintf("layer %d", r.First)
	}
	return fmt.Sprintf("layers %d–%d", r.First, r.Last-1)
}

func percent(a, b int) int { return a * 100 / max(b, 1) }

func clock(t time.Time) string { return t.UTC().Format("2006-01-02 15:04:05 UTC") }
