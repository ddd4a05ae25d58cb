// Package draw draws the icons of Neuron, at any size, and writes them as PNG
// and ICO. assets/icons/gen uses it to make the committed files; no program
// imports it.
package draw

import (
	"image"
	"image/color"
	"math"
)

// shape tells the distance of a point to its edge, negative inside, in parts of
// the picture's side (0 to 1 from left to right and from top to bottom).
type shape func(x, y float64) float64

func circle(cx, cy, r float64) shape {
	return func(x, y float64) float64 { return math.Hypot(x-cx, y-cy) - r }
}

// box has round corners of radius r; w and h are half its sides.
func box(cx, cy, w, h, r float64) shape {
	return func(x, y float64) float64 {
		dx, dy := math.Abs(x-cx)-w+r, math.Abs(y-cy)-h+r
		return math.Hypot(max(dx, 0), max(dy, 0)) + min(max(dx, dy), 0) - r
	}
}

// line has round ends; w is half its width.
func line(ax, ay, bx, by, w float64) shape {
	return func(x, y float64) float64 {
		px, py, dx, dy := x-ax, y-ay, bx-ax, by-ay
		t := min(max((px*dx+py*dy)/(dx*dx+dy*dy), 0), 1)
		return math.Hypot(px-t*dx, py-t*dy) - w
	}
}

// triangle has round corners of radius r; its corners go around clockwise.
func triangle(ax, ay, bx, by, cx, cy, r float64) shape {
	side := func(px, py, qx, qy, x, y float64) float64 {
		return ((x-px)*(qy-py) - (y-py)*(qx-px)) / math.Hypot(qx-px, qy-py)
	}
	ab, bc, ca := line(ax, ay, bx, by, r), line(bx, by, cx, cy, r), line(cx, cy, ax, ay, r)
	return func(x, y float64) float64 {
		in := max(side(ax, ay, bx, by, x, y), side(bx, by, cx, cy, x, y), side(cx, cy, ax, ay, x, y))
		return min(in, ab(x, y), bc(x, y), ca(x, y))
	}
}

func union(s ...shape) shape {
	return func(x, y float64) float64 {
		d := math.Inf(1)
		for _, f := range s {
			d = min(d, f(x, y))
		}
		return d
	}
}

func without(a, b shape) shape {
	return func(x, y float64) float64 { return max(a(x, y), -b(x, y)) }
}

// grown is a shape with an edge that lies by so much further out.
func grown(s shape, by float64) shape {
	return func(x, y float64) float64 { return s(x, y) - by }
}

// paint is a colour that may change over the picture.
type paint func(x, y float64) color.NRGBA

func plain(r, g, b uint8) paint {
	return func(_, _ float64) color.NRGBA { return color.NRGBA{r, g, b, 255} }
}

// blend goes from one colour to another from the upper left to the lower right.
func blend(from, to color.NRGBA) paint {
	return func(x, y float64) color.NRGBA {
		t := min(max((x+y)/2, 0), 1)
		mix := func(a, b uint8) uint8 { return uint8(math.Round(float64(a)*(1-t) + float64(b)*t)) }
		return color.NRGBA{mix(from.R, to.R), mix(from.G, to.G), mix(from.B, to.B), 255}
	}
}

// layer is a shape in a colour.
type layer struct {
	shape shape
	paint paint
	alpha float64 // of the whole layer, 0 to 1
}

// render draws layers from the lowest to the highest, with smooth edges.
func render(size int, layers []layer) *image.NRGBA {
	img := image.NewNRGBA(image.Rect(0, 0, size, size))
	pixel := 1 / float64(size)
	for py := range size {
		for px := range size {
			x, y := (float64(px)+0.5)*pixel, (float64(py)+0.5)*pixel
			var r, g, b, a float64 // premultiplied, 0 to 1
			for _, l := range layers {
				cover := min(max(0.5-l.shape(x, y)/pixel, 0), 1) * l.alpha
				if cover == 0 {
					continue
				}
				c := l.paint(x, y)
				r = r*(1-cover) + float64(c.R)/255*cover
				g = g*(1-cover) + float64(c.G)/255*cover
				b = b*(1-cover) + float64(c.B)/255*cover
				a = a*(1-cover) + cover
			}
			if a == 0 {
				continue
			}
			to8 := func(v float64) uint8 { return uint8(math.Round(min(v/a, 1) * 255)) }
			img.SetNRGBA(px, py, color.NRGBA{to8(r), to8(g), to8(b), uint8(math.Round(a * 255))})
		}
	}
	return img
}
