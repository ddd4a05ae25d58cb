package shell

import (
	"fmt"

	"fyne.io/fyne/v2"
	"fyne.io/fyne/v2/driver/desktop"

	"neuron/app/ui/kit"
	"neuron/app/ui/page"
	"neuron/app/ui/theme"
)

// keys sets the window's own shortcuts.
func (s *Shell) keys(c fyne.Canvas) {
	for i, p := range s.pages {
		if i < 9 {
			s.onKey(c, fyne.KeyName(fmt.Sprint(i+1)), func() { s.Open(p.Name()) })
		}
	}
	s.onKey(c, fyne.KeyComma, func() { s.Open("settings") })
	s.onKey(c, fyne.KeyW, func() { s.close() })
	s.onKey(c, fyne.KeyQ, func() { s.quit() })
	c.SetOnTypedKey(func(e *fyne.KeyEvent) {
		switch e.Name {
		case fyne.KeyF1:
			s.shortcuts()
		case fyne.KeyEscape:
			kit.Escape(c)
		}
	})
}

// onKey sets what a key with Control (Command on macOS) does. Fyne has no F1 for
// who types in a field; the list has a button too.
func (s *Shell) onKey(c fyne.Canvas, key fyne.KeyName, f func()) {
	c.AddShortcut(&desktop.CustomShortcut{KeyName: key, Modifier: fyne.KeyModifierShortcutDefault}, func(fyne.Shortcut) {
		if c.Overlays().Top() == nil { // a question is answered first
			f()
		}
	})
}

// shortcuts shows the list of them.
func (s *Shell) shortcuts() {
	w := s.env.Words
	control := w.T("shell.key_control")
	var rows []fyne.CanvasObject
	add := func(keys, what string) {
		rows = append(rows, kit.Beside(theme.GapL, kit.Fixed(130, kit.Mono(keys)), kit.Line(what).Cut()))
	}
	for i, p := range s.pages {
		if i < 9 {
			add(fmt.Sprintf("%s+%d", control, i+1), p.Title())
		}
	}
	add(control+"+,", w.T("shell.keys_settings"))
	add("Tab", w.T("shell.keys_next"))
	add(w.T("shell.key_space"), w.T("shell.keys_press"))
	add("Esc", w.T("shell.keys_escape"))
	add(control+"+W", w.T("shell.keys_close"))
	add(control+"+Q", w.T("shell.keys_quit"))
	add("F1", w.T("shell.keys_list"))
	for _, p := range s.pages {
		keyed, ok := p.(page.Keyed)
		if !ok {
			continue
		}
		rows = append(rows, kit.Inset(0, theme.GapXS, kit.Strong(p.Title())))
		for _, k := range keyed.Keys() {
			name := k.Name
			if k.Control {
				name = control + "+" + name
			}
			add(name, k.What)
		}
	}
	d := &kit.Dialog{Title: w.T("shell.keys_title"), Body: kit.Column(theme.GapS, rows...)}
	d.Buttons = []fyne.CanvasObject{kit.Primary(w.T("shell.keys_done"), d.Close)}
	d.Open(s.env.Window)
}
