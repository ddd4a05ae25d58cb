package autostart

import (
	"os"
	"path/filepath"
)

func ofUser() (system, error) {
	home, err := os.UserHomeDir()
	if err != nil {
		return nil, err
	}
	return plist{filepath.Join(home, "Library", "LaunchAgents", label+".plist")}, nil
}
