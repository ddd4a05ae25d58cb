// Package clitest runs commands in the test's own process and compares what they
// print with golden files. Only tests of engine/cli and of the packages below it
// import it; it knows none of the commands.
package clitest

import (
	"bytes"
	"errors"
	"flag"
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"neuron/engine/protocol"
)

var update = flag.Bool("update", false, "write the golden files of commands anew, in testdata")

// Golden compares what a command has printed with testdata/NAME; go test -update
// writes the file anew.
func Golden(t testing.TB, name, got string) {
	t.Helper()
	path := filepath.Join("testdata", name)
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if d := cmp.Diff(string(want), got); d != "" {
		t.Errorf("%s (-want +got):\n%s", name, d)
	}
}

// In runs a command and wants no error; it returns what was printed.
func In(t testing.TB, c *cobra.Command, args ...string) string {
	t.Helper()
	out, err := run(t, c, args)
	if err != nil {
		t.Fatalf("%v: %v", args, err)
	}
	return out
}

// Refused runs a command and wants an error with a code.
func Refused(t testing.TB, code protocol.Code, c *cobra.Command, args ...string) (out string, err error) {
	t.Helper()
	out, err = run(t, c, args)
	if !errors.Is(err, &protocol.Error{Code: code}) {
		t.Errorf("%v: %v, want %s", args, err, code)
	}
	return out, err
}

func run(t testing.TB, c *cobra.Command, args []string) (out string, err error) {
	var b bytes.Buffer
	c.SilenceUsage, c.SilenceErrors = true, true
	c.SetArgs(args)
	c.SetOut(&b)
	c.SetErr(&b)
	err = c.ExecuteContext(t.Context())
	return b.String(), err
}
