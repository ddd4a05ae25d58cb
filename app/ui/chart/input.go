package chart

import (
	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/driver/desktop"
)

// at is the bar under a position, -1 for none.
func (c *Chart) at(p fyne.Position) int {
	left, step := c.field()
	i := int((p.X - left) / step)
	if p.X < left || i < 0 || i >= len(c.bars) {
		return -1
	}
	return i
}

// MouseIn implements desktop.Hoverable, like the next two.
func (c *Chart) MouseIn(e *desktop.MouseEvent) { c.choose(c.at(e.Position)) }

// MouseMoved chooses the bar under the pointer.
func (c *Chart) MouseMoved(e *desktop.MouseEvent) { c.choose(c.at(e.Position)) }

// MouseOut gives up the choice, unless the keyboard has made it.
func (c *Chart) MouseOut() {
	if !c.focused {
		c.choose(-1)
	}
}

// Tapped implements fyne.Tappable.
func (c *Chart) Tapped(e *fyne.PointEvent) {
	if on := fyne.CurrentApp().Driver().CanvasForObject(c); on != nil {
		on.Focus(c)
	}
	c.choose(c.at(e.Position))
}

// FocusGained and the next three implement fyne.Focusable.
func (c *Chart) FocusGained() {
	c.focused = true
	if c.chosen < 0 && len(c.bars) > 0 {
		c.choose(len(c.bars) - 1)
	}
	c.Refresh()
}

// FocusLost gives up the choice.
func (c *Chart) FocusLost() {
	c.focused = false
	c.choose(-1)
	c.Refresh()
}

// TypedRune implements fyne.Focusable.
func (c *Chart) TypedRune(rune) {}

// TypedKey moves the choice.
func (c *Chart) TypedKey(e *fyne.KeyEvent) {
	if len(c.bars) == 0 {
		return
	}
	last := len(c.bars) - 1
	switch e.Name {
	case fyne.KeyLeft:
		c.choose(max(0, c.chosen-1))
	case fyne.KeyRight:
		c.choose(min(last, c.chosen+1))
	case fyne.KeyHome:
		c.choose(0)
	case fyne.KeyEnd:
		c.choose(last)
	}
}
