package icon

import (
	"log/slog"
	"runtime"
	"strings"
	"time"
	"unicode/utf16"

	"fyne.io/systray"

	"neuron/assets/icons"
	"neuron/tray/menu"
)

// Run shows the icon and calls ready with its board, from a goroutine of its
// own. It blocks until Quit, and works once in a process; the main goroutine
// calls it. On Linux a session bus must be there.
func Run(log *slog.Logger, v menu.View, ready func(*Board)) {
	systray.SetTitle("neuron") // the item's stable id on Linux, when it is set before
	prepare(log)
	contain(log, func() {
		systray.Run(func() { ready(NewBoard(bar{log}, v, time.Now())) }, nil)
	})
}

// Quit takes the icon away and ends Run. It may be called before or after Run
// too, from any goroutine.
func Quit() { systray.Quit() }

// Opened gets a value when the menu is opened, where the system tells.
func Opened() <-chan struct{} { return systray.TrayOpenedCh }

// bar is the system's tray.
type bar struct{ log *slog.Logger }

func (b bar) SetIcon(s icons.State) {
	icon, template := icons.Tray(s)
	contain(b.log, func() {
		if template != nil {
			systray.SetTemplateIcon(template, icon)
		} else {
			systray.SetIcon(icon)
		}
	})
}

// SetTooltip also sets the title on Linux, which many panels show instead; on
// macOS a title would stand beside the icon.
func (bar) SetTooltip(text string) {
	switch runtime.GOOS {
	case "windows":
		text = fit(text, longestTip)
	case "darwin":
	default:
		systray.SetTitle(strings.ReplaceAll(text, "\n", " · "))
	}
	systray.SetTooltip(text)
}

// longestTip is what Windows shows of a tooltip, in UTF-16 units.
const longestTip = 127

// fit cuts a text at a whole letter.
func fit(text string, most int) string {
	n := 0
	for i, r := range text {
		n += utf16.RuneLen(r)
		if n > most {
			cut := []rune(text[:i])
			return string(cut[:max(len(cut)-1, 0)]) + "…"
		}
	}
	return text
}

func (bar) AddLine() { systray.AddSeparator() }

func (bar) Add(parent Item, i menu.Item) (Item, <-chan struct{}) {
	var m *systray.MenuItem
	switch p, _ := parent.(entry); {
	case p.m != nil && i.Checkable:
		m = p.m.AddSubMenuItemCheckbox(i.Title, "", i.Checked)
	case p.m != nil:
		m = p.m.AddSubMenuItem(i.Title, "")
	case i.Checkable:
		m = systray.AddMenuItemCheckbox(i.Title, "", i.Checked)
	default:
		m = systray.AddMenuItem(i.Title, "")
	}
	e := entry{m}
	if !i.Enabled {
		e.SetEnabled(false)
	}
	if !i.Visible {
		e.SetVisible(false)
	}
	return e, m.ClickedCh
}

// entry is an item of the system's tray.
type entry struct{ m *systray.MenuItem }

func (e entry) SetTitle(s string) { e.m.SetTitle(s) }

func (e entry) SetChecked(on bool) {
	if on {
		e.m.Check()
	} else {
		e.m.Uncheck()
	}
}

func (e entry) SetEnabled(on bool) {
	if on {
		e.m.Enable()
	} else {
		e.m.Disable()
	}
}

func (e entry) SetVisible(on bool) {
	if on {
		e.m.Show()
	} else {
		e.m.Hide()
	}
}
