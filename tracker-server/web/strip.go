package web

import (
	"fmt"
	"html/template"
	"slices"
	"strings"

	"neuron/engine/protocol"
)

// maxColumns bounds the columns of a strip; models with more layers share them.
const maxColumns = 128

// Measures of a strip in units of its view box, which is stretched to the width
// of its card.
const (
	column      = 10
	columnWidth = 36 // pixels, at most
	stripHeight = 36
)

// runs groups layers next to each other by a property.
func runs(replicas []int, same func(a, b int) bool) (out []protocol.Range) {
	for l := 0; l < len(replicas); {
		first := l
		for l++; l < len(replicas) && same(replicas[first], replicas[l]); l++ {
		}
		out = append(out, protocol.Range{First: first, Last: l})
	}
	return out
}

// holes lists the ranges that no ready node holds.
func holes(replicas []int) (out []protocol.Range, layers int) {
	for _, r := range runs(replicas, func(a, b int) bool { return (a == 0) == (b == 0) }) {
		if replicas[r.First] == 0 {
			out = append(out, r)
			layers += r.Len()
		}
	}
	return out, layers
}

// maxRangesNamed bounds the ranges in one sentence.
const maxRangesNamed = 8

// coverageWords says in a sentence how well the layers are covered.
func coverageWords(replicas []int) string {
	if len(replicas) == 0 {
		return "No figures about layers yet."
	}
	missing, n := holes(replicas)
	switch {
	case n == len(replicas):
		return fmt.Sprintf("No ready node holds any of the %s.", plural(n, "layer"))
	case n > 0:
		var words []string
		for _, r := range missing[:min(len(missing), maxRangesNamed)] {
			words = append(words, strings.TrimPrefix(strings.TrimPrefix(layers(r), "layers "), "layer "))
		}
		more := ""
		if len(missing) > maxRangesNamed {
			more = fmt.Sprintf(" and %d more ranges", len(missing)-maxRangesNamed)
		}
		noun := "layers"
		if n == 1 {
			noun = "layer"
		}
		return fmt.Sprintf("Missing: %s %s%s (%d of %d). No ready node holds them.", noun, strings.Join(words, ", "), more, n, len(replicas))
	}
	lo, hi := slices.Min(replicas), slices.Max(replicas)
	if lo == hi {
		return fmt.Sprintf("Each layer is on %s.", plural(lo, "ready node"))
	}
	return fmt.Sprintf("Each layer is on %d to %s.", lo, plural(hi, "ready node"))
}

// strip draws how many ready nodes hold each layer: the higher the bar the more
// nodes, up to four; layers without any are a dashed box with a cross.
func strip(replicas []int) template.HTML {
	if len(replicas) == 0 {
		return ""
	}
	cols := replicas
	shared := (len(replicas) + maxColumns - 1) / maxColumns
	if shared > 1 {
		cols = nil
		for part := range slices.Chunk(replicas, shared) {
			cols = append(cols, slices.Min(part))
		}
	}
	var bars [5]strings.Builder
	for i, n := range cols {
		if level := min(n, 4); level > 0 {
			h := []int{0, 11, 18, 25, 34}[level]
			fmt.Fprintf(&bars[level], "M%d %dh%dv%dh-%dz", i*column+1, stripHeight-1-h, column-2, h, column-2)
		}
	}
	gaps, _ := holes(cols)
	for _, g := range gaps {
		x, w, h := g.First*column+1, g.Len()*column-2, stripHeight-2
		fmt.Fprintf(&bars[0], "M%d 1h%dv%dh-%dz", x, w, h, w)
		fmt.Fprintf(&bars[0], "M%d 1l%d %dm0 -%dl-%d %d", x, w, h, h, w, h)
	}
	var desc []string
	for _, r := range runs(replicas, func(a, b int) bool { return a == b }) {
		if len(desc) == 2*maxRangesNamed {
			desc = append(desc, "and further ranges")
			break
		}
		if n := replicas[r.First]; n == 0 {
			desc = append(desc, layers(r)+": none")
		} else {
			desc = append(desc, layers(r)+": "+count(n))
		}
	}
	if shared > 1 {
		desc = append(desc, fmt.Sprintf("each column stands for %d layers and shows the fewest", shared))
	}
	var b strings.Builder
	fmt.Fprintf(&b, `<svg class="strip" role="img" width="%d" height="40" viewBox="0 0 %d %d" preserveAspectRatio="none"><title>Ready nodes per layer</title><desc>%s</desc>`,
		len(cols)*columnWidth, len(cols)*column, stripHeight, strings.Join(desc, "; "))
	for level := range bars {
		if bars[level].Len() > 0 {
			fmt.Fprintf(&b, `<path class="l%d" d="%s"/>`, level, bars[level].String())
		}
	}
	b.WriteString("</svg>")
	return template.HTML(b.String()) // numbers and our own words
}

// marks are the layers written below a strip: first, middle, last.
func marks(n int) []int {
	switch {
	case n <= 1:
		return []int{0}
	case n < 8:
		return []int{0, n - 1}
	default:
		return []int{0, n / 2, n - 1}
	}
}
