//go:build linux

// Package xtest gives tests an X server of their own, without a screen that
// anybody sees. Only tests import it.
package xtest

import (
	"bufio"
	"os"
	"os/exec"
	"strings"
	"testing"
)

// Size of the screen, in pixels.
const (
	Width  = 800
	Height = 600
)

// Start runs Xvfb until the test ends and returns its address for DISPLAY;
// without the program the test is skipped. stop ends it before.
func Start(t testing.TB) (display string, stop func()) {
	t.Helper()
	exe, err := exec.LookPath("Xvfb")
	if err != nil {
		t.Skip("SKIPPED: Xvfb is not installed (Debian: xvfb)")
	}
	r, w, err := os.Pipe()
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	cmd := exec.Command(exe, "-displayfd", "3", "-screen", "0", "800x600x24", "-nolisten", "tcp", "-noreset")
	cmd.ExtraFiles = []*os.File{w}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	w.Close()
	stop = func() {
		if cmd.ProcessState == nil {
			cmd.Process.Signal(os.Interrupt) // in order, or its lock file stays
			cmd.Wait()
		}
	}
	t.Cleanup(stop)
	line, err := bufio.NewReader(r).ReadString('\n')
	if err != nil {
		t.Fatalf("Xvfb: %v", err)
	}
	return ":" + strings.TrimSpace(line), stop
}
