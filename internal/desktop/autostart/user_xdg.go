//go:build !windows && !darwin

package autostart

import (
	"os"
	"path/filepath"
)

func ofUser() (system, error) {
	// $XDG_CONFIG_HOME or ~/.config.
	dir, err := os.UserConfigDir()
	if err != nil {
		return nil, err
	}
	return desktopFile{filepath.Join(dir, "autostart", "neuron.desktop")}, nil
}
