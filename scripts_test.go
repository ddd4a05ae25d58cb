package neuron

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
)

// TestPackageScriptsTakeTurns: two of them at once in one tree shipped each other's
// files. The second one ends at once and says which it has met.
func TestPackageScriptsTakeTurns(t *testing.T) {
	t.Parallel()
	for _, program := range []string{"bash", "flock"} {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED: %v", err)
		}
	}
	for _, f := range repoFiles(t) {
		base := filepath.Base(f)
		packs := strings.HasPrefix(f, "scripts/package") && base != "package-needs.sh" || base == "licences.sh" // that one only reads
		if packs && strings.HasSuffix(f, ".sh") != slices.Contains(strings.Split(read(t, f), "\n"), `alone "$@"`) {
			t.Errorf("%s does not take its turn", f)
		}
	}

	tree := t.TempDir()
	if err := os.Mkdir(filepath.Join(tree, "scripts"), 0o700); err != nil {
		t.Fatal(err)
	}
	script := fmt.Sprintf("#!/usr/bin/env bash\nset -euo pipefail\n. '%s/scripts/alone.bash'\nalone \"$@\"\n%s\n", must(os.Getwd()),
		`[ "$1" != outer ] || { scripts/second.sh inner; sleep 20 >/dev/null & }; echo "$1 works"; [ "$1" != outer ] || read -r _; exit "${2:-0}"`)
	for _, name := range []string{"first.sh", "second.sh"} {
		if err := os.WriteFile(filepath.Join(tree, "scripts", name), []byte(script), 0o700); err != nil {
			t.Fatal(err)
		}
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	run := func(args ...string) *exec.Cmd {
		c := exec.CommandContext(ctx, args[0], args[1:]...)
		c.Dir = tree
		return c
	}
	first := run("scripts/first.sh", "outer")
	in, out := must(first.StdinPipe()), bufio.NewReader(must(first.StdoutPipe()))
	if err := first.Start(); err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"inner works\n", "outer works\n"} {
		if got, err := out.ReadString('\n'); err != nil || got != want {
			t.Errorf("%q, %v, want %q", got, err, want)
		}
	}
	said, err := run("scripts/second.sh", "alone").CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != 75 || !strings.Contains(string(said), "second: another script works on this tree's packages (first.sh, process ") {
		t.Errorf("%v: %s", err, said)
	}
	// It ends; a program that it has left behind keeps nobody waiting.
	if _, err := io.WriteString(in, "go on\n"); err != nil {
		t.Error(err)
	}
	if err := first.Wait(); err != nil {
		t.Error(err)
	}
	said, err = run("scripts/second.sh", "alone", "3").CombinedOutput()
	if !errors.As(err, &exit) || exit.ExitCode() != 3 || string(said) != "alone works\n" {
		t.Errorf("%v: %s", err, said)
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}
