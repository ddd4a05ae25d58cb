// Command gen draws the icons anew into the folder above it; go generate runs
// it (assets/icons).
package main

import (
	"fmt"
	"os"
	"path/filepath"

	"neuron/assets/icons/draw"
)

func main() {
	if err := run(); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run() error {
	files, err := draw.Files()
	if err != nil {
		return err
	}
	for name, b := range files {
		if err := os.WriteFile(filepath.Join(".", name), b, 0o644); err != nil {
			return err
		}
	}
	return nil
}
