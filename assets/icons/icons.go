// Package icons embeds the icons of the programs. Window and tray import it;
// draw makes the files (go generate ./assets/icons), and a test compares them.
package icons

import _ "embed" // App and the tray's icons

// App is the icon of the programs, a PNG of 256 pixels.
//
//go:embed app-256.png
var App []byte

//go:generate go run ./gen

// State is what the tray icon says.
type State string

// The states; their shapes differ.
const (
	Sharing    State = "sharing"
	Paused     State = "paused"
	Attention  State = "attention"
	Off        State = "off"
	Connecting State = "connecting"
)

// States lists them all.
func States() []State { return []State{Sharing, Paused, Attention, Off, Connecting} }

// Tray gives the icon of a state in the form that this system's tray takes, and
// on macOS the form that the system colours, nil elsewhere. An unknown state
// has the icon of Attention.
func Tray(s State) (icon, template []byte) {
	read := func(ending string) []byte {
		b, err := tray.ReadFile("tray-" + string(s) + ending)
		if err != nil {
			b, _ = tray.ReadFile("tray-" + string(Attention) + ending) // embedded, and tested
		}
		return b
	}
	icon = read(ending)
	if templateEnding != "" {
		template = read(templateEnding)
	}
	return icon, template
}
