package cli

import (
	"bytes"
	"context"
	"errors"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"neuron/engine/protocol"
)

const guide = "../../assets/model/guide-q8_0.gguf"

// commandEnv makes the test binary the program, as its main does.
const commandEnv = "NEURON_CLI_TEST_COMMAND"

func TestMain(m *testing.M) {
	stage := len(os.Args) > 1 && os.Args[1] == "stage"
	if os.Getenv(commandEnv) != "" || stage {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		status := Main(ctx, os.Args[1:])
		stop()
		os.Exit(status)
	}
	os.Exit(m.Run())
}

// command prepares the program as a process of its own.
func command(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe, args...)
	c.WaitDelay = 10 * time.Second
	// The race detector's pause at the end of a process is no use here.
	c.Env = append(os.Environ(), commandEnv+"=1", "NEURON_LOG=error", "GORACE=atexit_sleep_ms=0")
	return c
}

// result runs the program to its end.
func result(t *testing.T, input string, args ...string) (stdout, stderr string, status int) {
	t.Helper()
	c := command(t, args...)
	var out, errs bytes.Buffer
	c.Stdin, c.Stdout, c.Stderr = strings.NewReader(input), &out, &errs
	err := c.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatal(err)
	}
	return out.String(), errs.String(), c.ProcessState.ExitCode()
}

// TestStatusAndErrors wants usage errors to be 2, all others 1 with a code and
// a remedy, and nothing on standard output.
func TestStatusAndErrors(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	text := filepath.Join(data, "text.gguf")
	if err := os.WriteFile(text, []byte("not a model at all"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, c := range map[string]struct {
		args   []string
		status int
		code   protocol.Code
		text   string
	}{
		"unknown command":            {[]string{"dance"}, exitUsage, "", `unknown command "dance"`},
		"unknown flag":               {[]string{"status", "--dance"}, exitUsage, "", "unknown flag: --dance"},
		"neither model, nor tracker": {[]string{"run", "--data", data}, exitFail, protocol.CodeInvalidRequest, "needs a model"},
		"seed without a tracker":     {[]string{"seed", guide}, exitUsage, "", `"tracker" not set`},
		"a bad key":                  {[]string{"seed", guide, "--tracker", "http://127.0.0.1:1", "--publisher", "xy"}, exitUsage, "", "64 hex digits"},
		"hold without one":           {[]string{"hold", "--data", data, "m"}, exitFail, protocol.CodeUnavailable, "no engine is running"},
		"share what":                 {[]string{"share", "--data", data, "maybe"}, exitUsage, "", "maybe"},
		"plan without one":           {[]string{"plan", "--data", data}, exitFail, protocol.CodeUnavailable, "no engine is running"},
		"missing flags":              {[]string{"gateway", "--model", "x"}, exitUsage, "", `"tracker" not set`},
		"bad number":                 {[]string{"run", "--model", "x", "--threads", "many"}, exitUsage, "", "many"},
		"arguments":                  {[]string{"status", "me"}, exitUsage, "", "me"},
		"no file":                    {[]string{"inspect"}, exitUsage, "", "1 arg"},
		"inspect nothing":            {[]string{"inspect", "absent.gguf"}, exitFail, protocol.CodeModelUnknown, "absent.gguf"},
		"inspect a text":             {[]string{"inspect", text}, exitFail, protocol.CodeModelInvalid, "not a usable GGUF"},
		"run without a file":         {[]string{"run", "--data", data, "--model", "absent.gguf"}, exitFail, protocol.CodeModelUnknown, "absent.gguf"},
		"run a wrong range":          {[]string{"run", "--data", data, "--model", guide, "--layers", "3-99"}, exitFail, protocol.CodeRangeInvalid, "99"},
		"run in a file":              {[]string{"run", "--data", text, "--model", guide}, exitFail, protocol.CodeDataFolder, "data folder"},
		"no library":                 {[]string{"run", "--data", data, "--model", guide, "--native", data}, exitFail, protocol.CodeNativeMissing, "libllama"},
		"status without one":         {[]string{"status", "--data", data}, exitFail, protocol.CodeUnavailable, "no engine is running"},
		"models without one":         {[]string{"models", "--data", data}, exitFail, protocol.CodeUnavailable, "no engine is running"},
		"sessions without one":       {[]string{"sessions", "--data", data}, exitFail, protocol.CodeUnavailable, "no engine is running"},
		"chat without one":           {[]string{"chat", "--data", data, "Hi"}, exitFail, protocol.CodeUnavailable, "no gateway is running"},
		"chat, nobody there":         {[]string{"chat", "--api", "http://127.0.0.1:1/v1", "--model", "m", "Hi"}, exitFail, protocol.CodeUnavailable, "does not answer"},
		"chat, no model":             {[]string{"chat", "--api", "http://127.0.0.1:1/v1", "Hi"}, exitFail, protocol.CodeInvalidRequest, "--model"},
		"chat, bad address":          {[]string{"chat", "--api", "http://\x7f/v1", "--model", "m", "Hi"}, exitFail, protocol.CodeInvalidRequest, "address"},
	} {
		t.Run(name, func(t *testing.T) {
			stdout, stderr, status := result(t, "", c.args...)
			if status != c.status || !strings.Contains(stderr, "neuron-engine: ") || !strings.Contains(stderr, c.text) {
				t.Errorf("status %d, want %d with %q:\n%s", status, c.status, c.text, stderr)
			}
			if c.code != "" && !strings.Contains(stderr, "("+string(c.code)+")") {
				t.Errorf("no code %s:\n%s", c.code, stderr)
			}
			if r := c.code.Remedy(); r != "" && !strings.Contains(stderr, "What to do: "+r+".") {
				t.Errorf("no remedy %q:\n%s", r, stderr)
			}
			// "run" prints its line before the library is looked for.
			if stdout != "" && !strings.HasPrefix(stdout, "node ") {
				t.Errorf("standard output: %q", stdout)
			}
		})
	}
}

func TestHelpAndVersion(t *testing.T) {
	t.Parallel()
	stdout, _, status := result(t, "", "help")
	for _, word := range []string{"run", "stop", "gateway", "status", "models", "sessions", "chat", "inspect"} {
		if !strings.Contains(stdout, "\n  "+word) {
			t.Errorf("help does not name %s:\n%s", word, stdout)
		}
	}
	if status != exitOK || strings.Contains(stdout, "stage ") {
		t.Errorf("status %d:\n%s", status, stdout)
	}
	if stdout, _, status = result(t, "", "--version"); status != exitOK || !strings.HasPrefix(stdout, "neuron-engine version ") {
		t.Errorf("status %d: %q", status, stdout)
	}
}
