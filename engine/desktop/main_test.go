package desktop_test

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"neuron/engine/cli"
)

// commandEnv makes the test binary the program, as its main does.
const commandEnv = "NEURON_DESKTOP_TEST_COMMAND"

// TestMain makes the test binary its own stage and swarm process, and a desktop
// engine to be killed.
func TestMain(m *testing.M) {
	child := len(os.Args) > 1 && (os.Args[1] == "stage" || os.Args[1] == "swarm")
	if child || os.Getenv(commandEnv) != "" {
		ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
		status := cli.Main(ctx, os.Args[1:])
		stop()
		os.Exit(status)
	}
	os.Exit(m.Run())
}
