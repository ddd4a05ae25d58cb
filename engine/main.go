// Neuron-engine is the node: it holds layers of a model and runs its part of
// routes, and it is the gateway and the command line. See "neuron-engine help".
package main

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"neuron/engine/cli"
)

func main() { os.Exit(mainStatus()) }

// mainStatus is main with an exit status, so that deferred calls run.
func mainStatus() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return cli.Main(ctx, os.Args[1:])
}
