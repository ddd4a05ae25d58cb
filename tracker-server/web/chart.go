package web

import (
	"context"
	"fmt"
	"html/template"
	"math"
	"strings"
	"time"

	"neuron/tracker-server/telemetry"
)

// Measures of a chart in units of its view box, about pixels.
const (
	chartW, chartH = 360, 150
	plotL, plotR   = 44, 352
	plotT, plotB   = 12, 122
)

// point is one value; a chart's points stand in order of time.
type point struct {
	at time.Time
	v  float64
}

// chart is one curve over time. Title and unit are our own words.
type chart struct {
	ID, Title, Unit string
	From, To        time.Time
	Step            time.Duration // points further apart than that are not joined
	points          []point
}

// Latest is the newest value in words.
func (c *chart) Latest() string {
	if len(c.points) == 0 {
		return "no data yet"
	}
	return short(c.points[len(c.points)-1].v) + " " + c.Unit
}

// short writes a value of an axis.
func short(v float64) string {
	switch a := math.Abs(v); {
	case a >= 1e9:
		return trim(v/1e9) + "G"
	case a >= 1e6:
		return trim(v/1e6) + "M"
	case a >= 1e4:
		return trim(v/1e3) + "k"
	default:
		return trim(v)
	}
}

func trim(v float64) string {
	digits := 0
	if a := math.Abs(v); a < 10 && v != math.Trunc(v) {
		digits = 2
	} else if a < 100 && v != math.Trunc(v) {
		digits = 1
	}
	text := fmt.Sprintf("%.*f", digits, v)
	if digits > 0 {
		text = strings.TrimRight(strings.TrimRight(text, "0"), ".")
	}
	return text
}

// nice rounds up to 1, 2, 2.5 or 5 times a power of ten, with two equal steps
// below it.
func nice(v float64) float64 {
	if v <= 0 {
		return 1
	}
	p := math.Pow(10, math.Floor(math.Log10(v)))
	for _, m := range []float64{1, 2, 2.5, 5} {
		if v <= m*p {
			return m * p
		}
	}
	return 10 * p
}

// SVG draws the chart: axes with units, a line with an area below it, gaps
// where there are no figures.
func (c *chart) SVG() template.HTML {
	var top, sum float64
	highest := time.Time{}
	for _, p := range c.points {
		sum += p.v
		if p.v > top || highest.IsZero() {
			top, highest = p.v, p.at
		}
	}
	scale := nice(top)
	span := max(c.To.Sub(c.From), time.Second)
	x := func(t time.Time) float64 { return plotL + float64(t.Sub(c.From))/float64(span)*(plotR-plotL) }
	y := func(v float64) float64 { return plotB - v/scale*(plotB-plotT) }
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="chart" role="img" viewBox="0 0 %d %d" aria-labelledby="%s-t %s-d"><title id="%s-t">%s, in %s</title><desc id="%s-d">`,
		chartW, chartH, c.ID, c.ID, c.ID, c.Title, c.Unit, c.ID)
	if len(c.points) == 0 {
		b.WriteString("No figures yet.")
	} else {
		fmt.Fprintf(&b, "From %s to %s. Newest %s, mean %s, highest %s at %s.", c.From.UTC().Format("2006-01-02 15:04"), c.To.UTC().Format("2006-01-02 15:04 UTC"),
			short(c.points[len(c.points)-1].v), short(sum/float64(len(c.points))), short(top), highest.UTC().Format("15:04"))
	}
	b.WriteString("</desc>")
	for _, v := range []float64{0, scale / 2, scale} {
		fmt.Fprintf(&b, `<line class="grid" x1="%d" x2="%d" y1="%.1f" y2="%.1f"/><text class="tick y" x="%d" y="%.1f">%s</text>`, plotL, plotR, y(v), y(v), plotL-6, y(v)+4, short(v))
	}
	format := "15:04"
	switch {
	case span > 48*time.Hour:
		format = "Jan 2"
	case span < 10*time.Minute:
		format = "15:04:05"
	}
	for i, anchor := range []string{"start", "middle", "end"} {
		at := c.From.Add(span * time.Duration(i) / 2)
		fmt.Fprintf(&b, `<text class="tick" text-anchor="%s" x="%.1f" y="%d">%s</text>`, anchor, x(at), plotB+18, at.UTC().Format(format))
	}
	var line, area strings.Builder
	var dots []point
	for i := 0; i < len(c.points); {
		first := i
		for i++; i < len(c.points) && c.points[i].at.Sub(c.points[i-1].at) <= c.Step+c.Step/2; i++ {
		}
		part := c.points[first:i]
		if len(part) == 1 {
			dots = append(dots, part[0])
			continue
		}
		fmt.Fprintf(&area, "M%.1f %d", x(part[0].at), plotB)
		for k, p := range part {
			cmd := "L"
			if k == 0 {
				cmd = "M"
			}
			fmt.Fprintf(&line, "%s%.1f %.1f", cmd, x(p.at), y(p.v))
			fmt.Fprintf(&area, "L%.1f %.1f", x(p.at), y(p.v))
		}
		fmt.Fprintf(&area, "L%.1f %dz", x(part[len(part)-1].at), plotB)
	}
	if line.Len() > 0 {
		fmt.Fprintf(&b, `<path class="area" d="%s"/><path class="line" d="%s"/>`, area.String(), line.String())
	}
	for _, p := range dots {
		fmt.Fprintf(&b, `<circle class="dot" cx="%.1f" cy="%.1f" r="2"/>`, x(p.at), y(p.v))
	}
	if len(c.points) == 0 {
		fmt.Fprintf(&b, `<text class="none" text-anchor="middle" x="%d" y="%d">no figures yet</text>`, (plotL+plotR)/2, (plotT+plotB)/2)
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // numbers and our own words
}

// charts makes the curves of a series.
func charts(list []telemetry.Figures, from, to time.Time, step time.Duration) []chart {
	out := []chart{
		{ID: "chart-tokens", Title: "Tokens generated", Unit: "tokens/s"},
		{ID: "chart-prefill", Title: "Prompt tokens read", Unit: "tokens/s"},
		{ID: "chart-credit", Title: "Credit posted", Unit: "credits/min"},
		{ID: "chart-started", Title: "Sessions started", Unit: "per min"},
		{ID: "chart-failed", Title: "Sessions failed", Unit: "per min"},
		{ID: "chart-nodes", Title: "Ready nodes", Unit: "nodes"},
	}
	for i := range out {
		out[i].From, out[i].To, out[i].Step = from, to, step
	}
	for i := range list {
		f := &list[i]
		minutes := float64(max(1, f.Measured))
		for k, v := range []float64{
			float64(f.Tokens) / minutes / 60, float64(f.Prefill) / minutes / 60, float64(f.Credit) / 1e6 / minutes,
			float64(f.Started) / minutes, float64(f.Failed) / minutes, float64(f.Nodes),
		} {
			out[k].points = append(out[k].points, point{f.At, v})
		}
	}
	return out
}

// chartSpan is what the summary page shows, in steps of chartStep.
const (
	chartSpan = 3 * time.Hour
	chartStep = time.Minute
)

// chartCache keeps the charts of the summary page for the minute that they are
// good for; the board's lock guards it.
type chartCache struct {
	minute   time.Time
	charts   []chart
	measured int
	credit   int64
}

func (c *chartCache) get(src Source, now time.Time) *chartCache {
	minute := now.Truncate(time.Minute)
	if minute.Equal(c.minute) && c.charts != nil {
		return c
	}
	from := minute.Add(-chartSpan)
	// The newest day is in memory: this reads no disk and cannot fail for its
	// sake.
	list, err := src.Figures(context.Background(), from, chartStep)
	if err != nil {
		list = nil
	}
	*c = chartCache{minute: minute, charts: charts(list, from, minute, chartStep), measured: len(list)}
	for i := range list {
		if list[i].At.After(now.Add(-time.Hour)) {
			c.credit += list[i].Credit
		}
	}
	return c
}
