// Package page is what the window's shell and its pages agree on. The shell
// (app/ui/shell) and every page import it; it knows none of them.
package page

import (
	"context"
	"time"

	"fyne.io/fyne/v2"

	"neuron/internal/desktop/link"
	"neuron/internal/desktop/prefs"
	"neuron/internal/desktop/words"
)

// Page is one entry of the navigation rail. All methods are called on the UI
// goroutine.
type Page interface {
	// Name is a stable word: "share", "chat". It is part of shortcuts, tests and
	// screenshot names.
	Name() string
	// Title is translated; Icon is drawn in the rail's colours.
	Title() string
	Icon() fyne.Resource
	// Content is made by the first call and stays.
	Content() fyne.CanvasObject
	// Show is called when the page becomes visible, Hide when it does not any
	// more (another page, or the window hides): tickers and streams that only
	// feed the screen run in between and no longer.
	Show()
	Hide()
	// Close ends what the page owns and waits for it. No method follows.
	Close()
}

// Key is a shortcut of a page, for the list of them.
type Key struct {
	Control bool   // together with Control (Command on macOS)
	Name    string // as it stands on the key, translated
	What    string // what it does, translated
}

// Keyed are pages with shortcuts of their own.
type Keyed interface {
	Page
	Keys() []Key
}

// Finisher are pages with work that is finished when all of Neuron ends.
type Finisher interface {
	Page
	// Finish waits until nothing of it is under way any more, or ctx ends. It is
	// called on a goroutine of its own.
	Finish(ctx context.Context)
}

// Env is what pages are given. Its fields do not change.
type Env struct {
	Link   *link.Link   // the engine, whether it runs or not
	Words  *words.Words // the user's language
	Prefs  *prefs.Store // what the window itself remembers
	Window fyne.Window  // for dialogs and the clipboard
	Data   string       // the data folder; the window's own files are in Data/window
	// Do runs f on the UI goroutine soon and does not wait; in tests, at once.
	Do func(f func())
	// Now is the clock.
	Now func() time.Time
	// Open shows the page of that name.
	Open func(name string)
	// OpenURL shows an address in the user's browser, or a folder.
	OpenURL func(address string)
	// Reopen starts the window anew, for what takes effect only then.
	Reopen func()
}
