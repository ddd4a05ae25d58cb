// Package login turns the start of Neuron at login on and off. The wizard's and
// the settings' models import it; the entry of the operating system is itself
// the setting.
package login

import (
	"neuron/internal/desktop/autostart"
	"neuron/internal/desktop/folders"
	"neuron/internal/desktop/launch"
)

// Switch is the start at login of a data folder.
type Switch struct {
	Data string
	// Entry and Find are autostart.ForUser and launch.Find, unless a test has
	// others.
	Entry func() (*autostart.Entry, error)
	Find  func(name string) (string, error)
}

// New gives the switch of this user.
func New(data string) *Switch {
	return &Switch{Data: data, Entry: autostart.ForUser, Find: launch.Find}
}

// On reports whether Neuron starts at login. Error: unavailable.
func (s *Switch) On() (bool, error) {
	e, err := s.Entry()
	if err != nil {
		return false, err
	}
	return e.Enabled()
}

// Set turns it on or off. Errors: unavailable, and not_found when a program is
// missing.
func (s *Switch) Set(on bool) error {
	e, err := s.Entry()
	if err != nil {
		return err
	}
	if !on {
		return e.Disable()
	}
	cmd, err := s.command()
	if err != nil {
		return err
	}
	return e.Enable(cmd)
}

// command starts what works without a window: the tray, which starts the
// engine; without a tray's program, the window's, which does the same.
func (s *Switch) command() ([]string, error) {
	path, err := s.Find(launch.TrayName)
	if err != nil {
		if path, err = s.Find(launch.WindowName); err != nil {
			return nil, err
		}
	}
	cmd := []string{path, "--hidden"}
	if s.Data != folders.DefaultData() {
		cmd = append(cmd, "--data", s.Data)
	}
	return cmd, nil
}
