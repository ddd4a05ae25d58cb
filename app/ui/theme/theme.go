// Package theme is the window's look as data: colours for dark and light, a
// scale of sizes, and the icons. The shell, the kit and the pages import it; it
// knows none of them.
package theme

import (
	"image/color"

	"fyne.io/fyne/v2"
	fynetheme "fyne.io/fyne/v2/theme"
)

// Mode says which colours are used.
type Mode string

// The modes.
const (
	System Mode = "system" // as the operating system has it
	Dark   Mode = "dark"
	Light  Mode = "light"
)

// Modes lists all modes.
func Modes() []Mode { return []Mode{System, Dark, Light} }

// Theme is Neuron's theme for Fyne. It has no state: set another one to change
// the mode.
type Theme struct {
	mode Mode
	base fyne.Theme
}

var _ fyne.Theme = (*Theme)(nil)

// New gives the theme of a mode; an unknown mode is System.
func New(mode Mode) *Theme { return &Theme{mode: mode, base: fynetheme.DefaultTheme()} }

// Mode is what the theme was made with.
func (t *Theme) Mode() Mode { return t.mode }

// Color implements fyne.Theme. Names that are neither ours nor Fyne's are drawn
// as text is, which shows the mistake without hiding anything.
func (t *Theme) Color(name fyne.ThemeColorName, variant fyne.ThemeVariant) color.Color {
	p := dark
	if t.mode == Light || t.mode != Dark && variant == fynetheme.VariantLight {
		p = light
	}
	if c, ok := p[name]; ok {
		return c
	}
	return p[Text]
}

// Font implements fyne.Theme: Fyne's own Noto Sans, whose digits have one width.
func (t *Theme) Font(style fyne.TextStyle) fyne.Resource { return t.base.Font(style) }

// Icon implements fyne.Theme, for the icons of Fyne's own widgets.
func (t *Theme) Icon(name fyne.ThemeIconName) fyne.Resource { return t.base.Icon(name) }

// Size implements fyne.Theme.
func (t *Theme) Size(name fyne.ThemeSizeName) float32 {
	if s, ok := sizes[name]; ok {
		return s
	}
	return t.base.Size(name)
}

// Color is the colour of a name in the theme and variant in force.
func Color(name fyne.ThemeColorName) color.Color {
	s := fyne.CurrentApp().Settings()
	return s.Theme().Color(name, s.ThemeVariant())
}
