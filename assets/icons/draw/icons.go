package draw

import (
	"image"
	"image/color"
	"math"
)

// States are those of the tray icon. Each has a shape of its own, so that they
// are told apart without colour.
func States() []string { return []string{"sharing", "paused", "attention", "off", "connecting"} }

var (
	white = plain(255, 255, 255)
	black = plain(0, 0, 0)
	teal  = blend(color.NRGBA{20, 184, 166, 255}, color.NRGBA{13, 132, 140, 255})
	grey  = plain(110, 118, 132)
	amber = plain(217, 119, 6)
	night = blend(color.NRGBA{30, 41, 66, 255}, color.NRGBA{12, 18, 34, 255})
	mint  = plain(94, 234, 212)
)

// net is the sign of Neuron: a node with three others around it. scale 1 fills
// a circle of radius 0.3; thick is half the width of its lines.
func net(cx, cy, scale, thick float64) shape {
	out := []shape{circle(cx, cy, 0.1*scale)}
	for i := range 3 {
		a := -math.Pi/2 + float64(i)*2*math.Pi/3
		x, y := cx+0.23*scale*math.Cos(a), cy+0.23*scale*math.Sin(a)
		out = append(out, line(cx, cy, x, y, thick), circle(x, y, 0.085*scale))
	}
	return union(out...)
}

// App is the icon of the programs.
func App(size int) *image.NRGBA {
	tile := box(0.5, 0.5, 0.46, 0.46, 0.22)
	layers := []layer{{tile, night, 1}}
	if size >= 48 {
		layers = append(layers, layer{without(tile, grown(tile, -0.012)), white, 0.14})
	}
	ends := make([]shape, 0, 3)
	lines := make([]shape, 0, 3)
	for i := range 3 {
		a := -math.Pi/2 + float64(i)*2*math.Pi/3
		x, y := 0.5+0.29*math.Cos(a), 0.555+0.29*math.Sin(a)
		lines = append(lines, line(0.5, 0.555, x, y, 0.03))
		ends = append(ends, circle(x, y, 0.08))
	}
	return render(size, append(layers,
		layer{union(lines...), white, 0.9},
		layer{union(ends...), white, 1},
		layer{circle(0.5, 0.555, 0.15), night, 1},
		layer{circle(0.5, 0.555, 0.112), mint, 1},
	))
}

// sign is a state's body and what is cut out of it in white.
func sign(state string) (body, mark shape, p paint) {
	disc := circle(0.5, 0.5, 0.43)
	switch state {
	case "sharing":
		return disc, net(0.5, 0.52, 1.22, 0.035), teal
	case "paused":
		return disc, union(box(0.385, 0.5, 0.07, 0.2, 0.03), box(0.615, 0.5, 0.07, 0.2, 0.03)), grey
	case "attention":
		return triangle(0.5, 0.15, 0.88, 0.82, 0.12, 0.82, 0.08), union(line(0.5, 0.36, 0.5, 0.58, 0.055), circle(0.5, 0.745, 0.065)), amber
	case "connecting":
		dots := union(circle(0.29, 0.5, 0.072), circle(0.5, 0.5, 0.072), circle(0.71, 0.5, 0.072))
		return disc, dots, grey
	}
	// Off: an empty ring with a stroke through it.
	ring := without(disc, circle(0.5, 0.5, 0.29))
	return union(ring, line(0.28, 0.72, 0.72, 0.28, 0.07)), circle(-1, -1, 0), grey
}

// Tray is the tray icon of a state, in colours that show on dark and on light
// panels: a thin pale edge surrounds the body.
func Tray(state string, size int) *image.NRGBA {
	body, mark, p := sign(state)
	return render(size, []layer{{grown(body, 0.04), white, 0.75}, {body, p, 1}, {mark, white, 1}})
}

// Template is the tray icon of a state for macOS: its form alone, in black,
// which the system colours.
func Template(state string, size int) *image.NRGBA {
	body, mark, _ := sign(state)
	return render(size, []layer{{without(body, mark), black, 1}})
}
