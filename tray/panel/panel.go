// Package panel tells whether there is something on the screen that shows tray
// icons. On Windows and macOS there always is; on Linux it depends on the
// desktop, and on a session bus.
//
// tray uses it before it shows an icon; it knows no icon.
package panel

import "errors"

// Sight is what there is.
type Sight string

// The sights.
const (
	NoBus Sight = "no_bus" // Linux without a session bus
	None  Sight = "none"   // nothing shows icons now; that may change
	There Sight = "there"
)

// ErrGone says that the session bus was there and has ended, which it does with
// the session.
var ErrGone = errors.New("the session bus has ended")
