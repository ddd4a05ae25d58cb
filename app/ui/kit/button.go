package kit

import (
	"image/color"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/canvas"
	"fyne.io/fyne/v2/driver/desktop"
	"fyne.io/fyne/v2/widget"

	"neuron/app/ui/theme"
)

// Kind is how much a button asks to be pressed.
type Kind int

// The kinds. A page has at most one primary button at a time.
const (
	KindPrimary Kind = iota
	KindSecondary
	KindQuiet
	KindDanger
)

// Button is a button. Tab reaches it, Space and Return press it.
type Button struct {
	widget.DisableableWidget

	OnTapped func()

	label   string
	icon    theme.Icon
	kind    Kind
	compact bool
	hovered bool
	focused bool
}

var (
	_ fyne.Tappable      = (*Button)(nil)
	_ fyne.Focusable     = (*Button)(nil)
	_ fyne.Disableable   = (*Button)(nil)
	_ desktop.Hoverable  = (*Button)(nil)
	_ desktop.Cursorable = (*Button)(nil)
)

// Primary is the one thing to do.
func Primary(label string, tapped func()) *Button { return newButton(KindPrimary, label, tapped) }

// Secondary is another thing to do.
func Secondary(label string, tapped func()) *Button { return newButton(KindSecondary, label, tapped) }

// Quiet is one beside the point.
func Quiet(label string, tapped func()) *Button { return newButton(KindQuiet, label, tapped) }

// Danger is one that destroys something.
func Danger(label string, tapped func()) *Button { return newButton(KindDanger, label, tapped) }

func newButton(kind Kind, label string, tapped func()) *Button {
	b := &Button{kind: kind, label: label, OnTapped: tapped}
	b.ExtendBaseWidget(b)
	return b
}

// WithIcon adds an icon before the label; a button without a label is square.
func (b *Button) WithIcon(i theme.Icon) *Button { b.icon = i; return b }

// Compact makes it as high as a line of a list.
func (b *Button) Compact() *Button { b.compact = true; return b }

// Label is what stands on it.
func (b *Button) Label() string { return b.label }

// Set changes label and icon ("" for none).
func (b *Button) Set(label string, icon theme.Icon) {
	if label != b.label || icon != b.icon {
		b.label, b.icon = label, icon
		b.Refresh()
	}
}

// SetKind changes the kind.
func (b *Button) SetKind(k Kind) {
	if k != b.kind {
		b.kind = k
		b.Refresh()
	}
}

// SetEnabled is Enable or Disable.
func (b *Button) SetEnabled(on bool) {
	if on == b.Disabled() {
		if on {
			b.Enable()
		} else {
			b.Disable()
		}
	}
}

// Tapped implements fyne.Tappable.
func (b *Button) Tapped(*fyne.PointEvent) {
	if !b.Disabled() && b.OnTapped != nil {
		b.OnTapped()
	}
}

// FocusGained and the next three implement fyne.Focusable.
func (b *Button) FocusGained()     { b.focused = true; b.Refresh() }
func (b *Button) FocusLost()       { b.focused = false; b.Refresh() }
func (b *Button) TypedRune(r rune) {}

// TypedKey presses it.
func (b *Button) TypedKey(e *fyne.KeyEvent) {
	switch e.Name {
	case fyne.KeySpace, fyne.KeyReturn, fyne.KeyEnter:
		b.Tapped(nil)
	case fyne.KeyEscape:
		Escape(fyne.CurrentApp().Driver().CanvasForObject(b))
	}
}

// MouseIn implements desktop.Hoverable, as the next two do.
func (b *Button) MouseIn(*desktop.MouseEvent)    { b.hovered = true; b.Refresh() }
func (b *Button) MouseMoved(*desktop.MouseEvent) {}
func (b *Button) MouseOut()                      { b.hovered = false; b.Refresh() }

// Cursor implements desktop.Cursorable.
func (b *Button) Cursor() desktop.Cursor {
	if b.Disabled() {
		return desktop.DefaultCursor
	}
	return desktop.PointerCursor
}

// colors are those of the face, its border ("" for none) and the words.
func (b *Button) colors() (face, border, words fyne.ThemeColorName) {
	switch b.kind {
	case KindPrimary:
		face, words = theme.Accent, theme.OnAccent
		if b.hovered {
			face = theme.AccentHover
		}
	case KindDanger:
		face, words = theme.BadFill, theme.OnAccent
	case KindSecondary:
		face, border, words = theme.Surface, theme.Strong, theme.Text
		if b.hovered {
			face = theme.Hover
		}
	case KindQuiet:
		words = theme.Muted
		if b.hovered {
			face, words = theme.Hover, theme.Text
		}
	}
	if b.Disabled() {
		words = theme.Faint
		if face != "" {
			face, border = theme.Raised, ""
		}
	}
	return face, border, words
}

const (
	buttonHeight  = 36
	compactHeight = 30
)

// CreateRenderer implements fyne.Widget.
func (b *Button) CreateRenderer() fyne.WidgetRenderer {
	ring := focusRing(theme.RadiusSmall)
	face := &canvas.Rectangle{CornerRadius: theme.RadiusSmall}
	label := &canvas.Text{TextSize: theme.TextBody, TextStyle: fyne.TextStyle{Bold: true}}
	img := &canvas.Image{FillMode: canvas.ImageFillContain}
	height := func() float32 {
		if b.compact {
			return compactHeight
		}
		return buttonHeight
	}
	// width is what icon and label take together.
	width := func() float32 {
		var w float32
		if b.icon != "" {
			w = theme.IconSize
		}
		if b.label != "" {
			if w > 0 {
				w += theme.GapS
			}
			w += fyne.MeasureText(b.label, label.TextSize, label.TextStyle).Width
		}
		return w
	}
	layout := func(s fyne.Size) {
		place(ring, -ringGap, -ringGap, s.Width+2*ringGap, s.Height+2*ringGap)
		place(face, 0, 0, s.Width, s.Height)
		x := (s.Width - width()) / 2
		if b.icon != "" {
			place(img, x, (s.Height-theme.IconSize)/2, theme.IconSize, theme.IconSize)
			x += theme.IconSize + theme.GapS
		}
		m := label.MinSize()
		place(label, x, (s.Height-m.Height)/2, m.Width, m.Height)
	}
	return draw(
		func() fyne.Size {
			if b.label == "" {
				return fyne.NewSquareSize(height())
			}
			pad := theme.GapL
			if b.compact {
				pad = theme.GapM
			}
			return fyne.NewSize(width()+2*pad, height())
		},
		layout,
		func() {
			back, border, words := b.colors()
			face.FillColor, face.StrokeWidth = color.Transparent, 0
			if back != "" {
				face.FillColor = theme.Color(back)
			}
			if border != "" {
				face.StrokeColor, face.StrokeWidth = theme.Color(border), 1
			}
			label.Text, label.Color = b.label, theme.Color(words)
			label.TextSize = theme.TextBody
			if b.compact {
				label.TextSize = theme.TextSmall
			}
			img.Hidden = b.icon == ""
			if b.icon != "" {
				img.Resource = b.icon.Resource(words)
			}
			paintRing(ring, b.focused && !b.Disabled())
			layout(b.Size())
		},
		ring, face, img, label)
}
