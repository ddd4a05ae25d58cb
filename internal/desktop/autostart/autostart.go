// Package autostart keeps the operating system's entry that starts Neuron when
// the user logs in.
//
// Window (settings, first start) imports it. It knows no settings: the entry
// itself is the setting, so that what the user changes in the system's own list
// counts. Nothing here makes an entry but Enable, which is called when the user
// asks for it; Refresh mends one that is there and enabled, after an upgrade has
// moved the program.
//
//   - Linux: ~/.config/autostart/neuron.desktop.
//   - Windows: HKCU\Software\Microsoft\Windows\CurrentVersion\Run, and what the
//     Task Manager says about it (StartupApproved).
//   - macOS: ~/Library/LaunchAgents/network.neuron.tray.plist. What the user
//     switches off in the system's settings is kept elsewhere and not seen.
package autostart

import (
	"errors"
	"slices"
	"strings"

	"neuron/engine/protocol"
)

// Entry is the entry of one user. The zero value is not of use.
type Entry struct{ s system }

// system is one operating system's way.
type system interface {
	// read gives the command and whether it is enabled; found is false without
	// an entry.
	read() (cmd []string, enabled, found bool, err error)
	write(cmd []string) error // enabled
	remove() error            // nil without an entry
}

// ForUser is the entry of the user who runs this program. Error: unavailable,
// when the system has no place for one.
func ForUser() (*Entry, error) {
	s, err := ofUser()
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "this system has no list of programs that start at login: %w", err)
	}
	return &Entry{s}, nil
}

// Enabled reports whether the system starts Neuron at login. Error: unavailable.
func (e *Entry) Enabled() (bool, error) {
	_, enabled, found, err := e.s.read()
	return enabled && found, told("read", err)
}

// Enable makes the entry, also where the user has switched it off elsewhere:
// call it when he asks for it. cmd is the program's path and its arguments.
// Errors: invalid_request, unavailable.
func (e *Entry) Enable(cmd []string) error {
	if err := check(cmd); err != nil {
		return err
	}
	return told("write", e.s.write(cmd))
}

// Disable removes the entry. Error: unavailable.
func (e *Entry) Disable() error { return told("remove", e.s.remove()) }

// Refresh gives an enabled entry the command of this version; without one, or
// with one that is switched off, it does nothing. Errors: those of Enable.
func (e *Entry) Refresh(cmd []string) error {
	if err := check(cmd); err != nil {
		return err
	}
	have, enabled, found, err := e.s.read()
	if err != nil || !found || !enabled || slices.Equal(have, cmd) {
		return told("read", err)
	}
	return told("write", e.s.write(cmd))
}

// check refuses commands that no form can hold.
func check(cmd []string) error {
	if len(cmd) == 0 || cmd[0] == "" {
		return protocol.Errorf(protocol.CodeInvalidRequest, "no program to start at login")
	}
	for _, s := range cmd {
		if strings.ContainsAny(s, "\x00\n\r") {
			return protocol.Errorf(protocol.CodeInvalidRequest, "a line break in the command for login")
		}
	}
	return nil
}

func told(what string, err error) error {
	if err == nil {
		return nil
	}
	var e *protocol.Error
	if errors.As(err, &e) {
		return e
	}
	return protocol.Errorf(protocol.CodeUnavailable, "%s the entry for login: %w", what, err)
}

// maxFile bounds an entry's file, in bytes.
const maxFile = 64 << 10
