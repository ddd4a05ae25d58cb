package cli

import (
	"os"

	"golang.org/x/sys/windows"
)

// isTerminal reports whether a person can type there.
func isTerminal(f *os.File) bool {
	var mode uint32
	return windows.GetConsoleMode(windows.Handle(f.Fd()), &mode) == nil
}

// rawTerminal hands keys over as they are typed, unseen, until restore.
func rawTerminal(f *os.File) (restore func(), err error) {
	h := windows.Handle(f.Fd())
	var was uint32
	if err := windows.GetConsoleMode(h, &was); err != nil {
		return nil, err
	}
	if err := windows.SetConsoleMode(h, was&^(windows.ENABLE_ECHO_INPUT|windows.ENABLE_LINE_INPUT|windows.ENABLE_PROCESSED_INPUT)); err != nil {
		return nil, err
	}
	// A console that has gone away meanwhile needs no restoring.
	return func() { _ = windows.SetConsoleMode(h, was) }, nil
}
