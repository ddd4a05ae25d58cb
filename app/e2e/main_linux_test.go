package e2e

import (
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// bin has the programs, "" where the window cannot be built.
var bin, missing string

func TestMain(m *testing.M) { os.Exit(mainStatus(m)) }

func mainStatus(m *testing.M) int {
	root, err := filepath.Abs(filepath.Join("..", ".."))
	if err == nil && exec.Command(filepath.Join(root, "scripts", "setup.sh"), "window").Run() != nil {
		missing = "what the window is built with is not installed (make setup says what)"
		return m.Run()
	}
	// The result counts until a source of the programs changes: go test watches
	// what is looked at.
	for _, part := range []string{"app", "tray", "engine", "tracker-server", "internal", "llama", "assets", "go.mod"} {
		if err := filepath.WalkDir(filepath.Join(root, part), func(string, fs.DirEntry, error) error { return nil }); err != nil {
			fmt.Fprintln(os.Stderr, err)
			return 1
		}
	}
	dir, err := os.MkdirTemp("", "neuron-e2e-*")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	// As they are now, not as bin/ has them. The Makefile's GOFLAGS hold here too,
	// so that nothing is compiled twice.
	for program, pkg := range map[string]string{"neuron": "./app", "neuron-tray": "./tray", "neuron-engine": "./engine", "neuron-tracker": "./tracker-server"} {
		cgo := "CGO_ENABLED=0"
		if program == "neuron" {
			cgo = "CGO_ENABLED=1"
		}
		cmd := exec.Command("go", "build", "-buildvcs=false", "-tags", "nosqlite", "-o", filepath.Join(dir, program), pkg)
		cmd.Dir, cmd.Stderr = root, os.Stderr
		cmd.Env = append(os.Environ(), cgo)
		if err := cmd.Run(); err != nil {
			fmt.Fprintf(os.Stderr, "build %s: %v\n", program, err)
			return 1
		}
	}
	bin = dir
	// The programs lie elsewhere than bin/, beside which they look for libllama.
	const name = "NEURON_LLAMA_DIR"
	if libraries, _ := filepath.Glob(filepath.Join(root, "build", "native", "linux-*")); len(libraries) > 0 && os.Getenv(name) == "" {
		os.Setenv(name, libraries[0])
	}
	return m.Run()
}
