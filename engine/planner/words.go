package planner

import (
	"fmt"
	"math"
	"time"

	"neuron/engine/protocol"
)

// words writes a range for people: the last layer included.
func words(r protocol.Range) string {
	if r.Len() == 1 {
		return fmt.Sprint(r.First)
	}
	return fmt.Sprintf("%d to %d", r.First, r.Last-1)
}

// layersOf begins a sentence.
func layersOf(m *Model, r protocol.Range) string {
	switch {
	case r == m.whole() && m.Layers == 1:
		return "The one layer of " + m.Name
	case r == m.whole():
		return fmt.Sprintf("All %d layers of %s", m.Layers, m.Name)
	case r.Len() == 1:
		return fmt.Sprintf("Layer %s of %s", words(r), m.Name)
	}
	return fmt.Sprintf("Layers %s of %s", words(r), m.Name)
}

// sentence says what a range costs: "Layers 4 to 11 of X: 1.2 GB to fetch,
// about 3 minutes; leaves 2.1 GB for conversations".
func sentence(m *Model, r protocol.Range, c *Cost) string {
	s := layersOf(m, r) + ": "
	switch {
	case c.FetchBytes == 0:
		s += "already on this disk"
	case c.FetchTime == 0:
		s += size(c.FetchBytes) + " to fetch"
	default:
		s += size(c.FetchBytes) + " to fetch, " + span2words(c.FetchTime)
	}
	return s + "; leaves " + size(c.KVRoom) + " for conversations"
}

// upTo says what fits of a model that does not fit whole.
func upTo(m *Model, q *Proposal) string {
	plural := "s"
	if q.Range.Len() == 1 {
		plural = ""
	}
	return fmt.Sprintf("Up to %d layer%s of %d of %s, for example %s: %s to fetch; leaves %s for conversations",
		q.Range.Len(), plural, m.Layers, m.Name, words(q.Range), size(q.Cost.FetchBytes), size(q.Cost.KVRoom))
}

// size writes bytes in decimal units, as disks are sold.
func size(n int64) string {
	f := float64(max(0, n))
	switch {
	case f >= 999.5e6:
		return fmt.Sprintf("%.1f GB", f/1e9)
	case f >= 999.5e3:
		return fmt.Sprintf("%.0f MB", f/1e6)
	case f >= 1000:
		return fmt.Sprintf("%.0f kB", f/1e3)
	}
	return fmt.Sprintf("%.0f bytes", f)
}

// span2words rounds a time as people say it.
func span2words(d time.Duration) string {
	minutes := math.Ceil(d.Minutes())
	switch {
	case d < time.Minute:
		return "less than a minute"
	case minutes < 90:
		if minutes < 2 {
			return "about 1 minute"
		}
		return fmt.Sprintf("about %.0f minutes", minutes)
	case d < 48*time.Hour:
		return fmt.Sprintf("about %.0f hours", math.Round(d.Hours()))
	}
	return fmt.Sprintf("about %.0f days", math.Round(d.Hours()/24))
}
