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

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	os.Exit(cli.Main(ctx, os.Args[1:]))
}
