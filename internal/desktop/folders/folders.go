// Package folders says where the desktop programs keep their files. Engine,
// tray and window must agree on the data folder, or they do not find each
// other. Any desktop program may import it; it creates nothing but what Make is
// asked for.
package folders

import (
	"os"
	"path/filepath"
	"runtime"

	"neuron/engine/protocol"
)

// DefaultData is the user's folder for Neuron on this system.
func DefaultData() string {
	home, err := os.UserHomeDir()
	if err != nil {
		return "neuron-data"
	}
	switch runtime.GOOS {
	case "windows":
		if d := os.Getenv("LOCALAPPDATA"); d != "" {
			return filepath.Join(d, "Neuron")
		}
		return filepath.Join(home, "AppData", "Local", "Neuron")
	case "darwin":
		return filepath.Join(home, "Library", "Application Support", "Neuron")
	}
	if d := os.Getenv("XDG_DATA_HOME"); filepath.IsAbs(d) {
		return filepath.Join(d, "neuron")
	}
	return filepath.Join(home, ".local", "share", "neuron")
}

// Window is the folder of the window's own files within a data folder.
func Window(data string) string { return filepath.Join(data, "window") }

// Logs is the folder of the logs of programs that were started without a
// terminal.
func Logs(data string) string { return filepath.Join(data, "logs") }

// Make creates a folder for this user alone, with those above it. Error:
// data_folder.
func Make(dir string) error {
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return protocol.Errorf(protocol.CodeDataFolder, "make the folder %s: %w", dir, err)
	}
	return nil
}
