package theme

import (
	"image/color"

	"fyne.io/fyne/v2"
	fynetheme "fyne.io/fyne/v2/theme"
)

// Our colour tokens. A page names what a colour means, never the colour.
const (
	Window      fyne.ThemeColorName = "neuron.window"  // behind everything
	Rail        fyne.ThemeColorName = "neuron.rail"    // navigation
	Surface     fyne.ThemeColorName = "neuron.surface" // cards
	Raised      fyne.ThemeColorName = "neuron.raised"  // on cards: tiles, code, tracks
	Border      fyne.ThemeColorName = "neuron.border"
	Strong      fyne.ThemeColorName = "neuron.strong" // borders of controls
	Text        fyne.ThemeColorName = "neuron.text"
	Muted       fyne.ThemeColorName = "neuron.muted"  // explanations
	Faint       fyne.ThemeColorName = "neuron.faint"  // what is off; not for sentences
	Accent      fyne.ThemeColorName = "neuron.accent" // the one accent
	AccentText  fyne.ThemeColorName = "neuron.accentText"
	AccentHover fyne.ThemeColorName = "neuron.accentHover"
	AccentTint  fyne.ThemeColorName = "neuron.accentTint" // behind selected things
	OnAccent    fyne.ThemeColorName = "neuron.onAccent"
	Good        fyne.ThemeColorName = "neuron.good"
	GoodTint    fyne.ThemeColorName = "neuron.goodTint"
	Warn        fyne.ThemeColorName = "neuron.warn"
	WarnTint    fyne.ThemeColorName = "neuron.warnTint"
	Bad         fyne.ThemeColorName = "neuron.bad"
	BadTint     fyne.ThemeColorName = "neuron.badTint"
	BadFill     fyne.ThemeColorName = "neuron.badFill" // buttons that destroy
	Hover       fyne.ThemeColorName = "neuron.hover"   // over Window, Rail and Surface
	Knob        fyne.ThemeColorName = "neuron.knob"    // of switches
)

type palette map[fyne.ThemeColorName]color.NRGBA

func rgb(v uint32) color.NRGBA {
	return color.NRGBA{R: uint8(v >> 16), G: uint8(v >> 8), B: uint8(v), A: 0xff}
}

func rgba(v uint32, a uint8) color.NRGBA {
	c := rgb(v)
	c.A = a
	return c
}

var dark = withFyne(palette{
	Window:      rgb(0x0f1115),
	Rail:        rgb(0x0b0c10),
	Surface:     rgb(0x171a20),
	Raised:      rgb(0x20242c),
	Border:      rgb(0x272c36),
	Strong:      rgb(0x3a414e),
	Text:        rgb(0xe9ebef),
	Muted:       rgb(0xa1a9b6),
	Faint:       rgb(0x6d7685),
	Accent:      rgb(0x6f7dff),
	AccentText:  rgb(0xa3adff),
	AccentHover: rgb(0x828eff),
	AccentTint:  rgb(0x22264a),
	OnAccent:    rgb(0x0a0c1c),
	Good:        rgb(0x58c997),
	GoodTint:    rgb(0x15302a),
	Warn:        rgb(0xe6b35a),
	WarnTint:    rgb(0x352b18),
	Bad:         rgb(0xf58585),
	BadTint:     rgb(0x3a2024),
	BadFill:     rgb(0xf07575),
	Hover:       rgb(0x1f232b),
	Knob:        rgb(0xf4f5f8),
}, rgba(0x000000, 0x66))

var light = withFyne(palette{
	Window:      rgb(0xf6f7f9),
	Rail:        rgb(0xeef0f3),
	Surface:     rgb(0xffffff),
	Raised:      rgb(0xf2f3f6),
	Border:      rgb(0xe3e6eb),
	Strong:      rgb(0xc6ccd6),
	Text:        rgb(0x171a20),
	Muted:       rgb(0x565f6d),
	Faint:       rgb(0x868f9d),
	Accent:      rgb(0x4a57e0),
	AccentText:  rgb(0x3a46c4),
	AccentHover: rgb(0x3e4acb),
	AccentTint:  rgb(0xe6e8fd),
	OnAccent:    rgb(0xffffff),
	Good:        rgb(0x13734a),
	GoodTint:    rgb(0xdcf3e7),
	Warn:        rgb(0x855400),
	WarnTint:    rgb(0xfbeed3),
	Bad:         rgb(0xb32a2a),
	BadTint:     rgb(0xfbe3e3),
	BadFill:     rgb(0xc43636),
	Hover:       rgb(0xe7eaee),
	Knob:        rgb(0xffffff),
}, rgba(0x1a1d24, 0x30))

// withFyne adds the names that Fyne's own widgets ask for.
func withFyne(p palette, shadow color.NRGBA) palette {
	translucent := func(name fyne.ThemeColorName, a uint8) color.NRGBA {
		c := p[name]
		c.A = a
		return c
	}
	added := palette{
		fynetheme.ColorNameBackground:          p[Window],
		fynetheme.ColorNameButton:              p[Raised],
		fynetheme.ColorNameDisabledButton:      p[Raised],
		fynetheme.ColorNameDisabled:            p[Faint],
		fynetheme.ColorNameError:               p[Bad],
		fynetheme.ColorNameFocus:               translucent(Accent, 0x55),
		fynetheme.ColorNameForeground:          p[Text],
		fynetheme.ColorNameForegroundOnError:   p[OnAccent],
		fynetheme.ColorNameForegroundOnPrimary: p[OnAccent],
		fynetheme.ColorNameForegroundOnSuccess: p[OnAccent],
		fynetheme.ColorNameForegroundOnWarning: p[OnAccent],
		fynetheme.ColorNameHeaderBackground:    p[Surface],
		fynetheme.ColorNameHover:               translucent(Text, 0x12),
		fynetheme.ColorNameHyperlink:           p[AccentText],
		fynetheme.ColorNameInputBackground:     p[Raised],
		fynetheme.ColorNameInputBorder:         p[Strong],
		fynetheme.ColorNameMenuBackground:      p[Surface],
		fynetheme.ColorNameOverlayBackground:   p[Surface],
		fynetheme.ColorNamePlaceHolder:         p[Faint],
		fynetheme.ColorNamePressed:             translucent(Text, 0x20),
		fynetheme.ColorNamePrimary:             p[Accent],
		fynetheme.ColorNameScrollBar:           translucent(Muted, 0x90),
		fynetheme.ColorNameScrollBarBackground: translucent(Muted, 0x00),
		fynetheme.ColorNameSelection:           translucent(Accent, 0x50),
		fynetheme.ColorNameSeparator:           p[Border],
		fynetheme.ColorNameShadow:              shadow,
		fynetheme.ColorNameSuccess:             p[Good],
		fynetheme.ColorNameWarning:             p[Warn],
	}
	for name, c := range added {
		p[name] = c
	}
	return p
}
