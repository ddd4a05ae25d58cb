package program_test

import (
	"context"
	"os"
	"testing"

	"neuron/engine/cli"
)

// TestMain makes the test binary its own stage and swarm process: the engines of these
// tests start it again with "stage" or "swarm", which runs what neuron-engine runs.
func TestMain(m *testing.M) {
	if len(os.Args) > 1 && (os.Args[1] == "stage" || os.Args[1] == "swarm") {
		os.Exit(cli.Main(context.Background(), os.Args[1:]))
	}
	os.Exit(m.Run())
}
