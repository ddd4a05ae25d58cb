// Neuron-load puts thousands of simulated nodes, route requests and receipts on
// a real tracker on this machine, restarts it, and prints what it measured. It
// exits with 1 when a target is missed. See "make load".
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime/debug"
	"syscall"

	"neuron/internal/load"
)

func main() { os.Exit(mainStatus()) }

// mainStatus is main with an exit status, so that deferred calls run.
func mainStatus() int {
	o := load.DefaultOptions()
	flag.IntVar(&o.Nodes, "nodes", o.Nodes, "simulated nodes")
	flag.IntVar(&o.Models, "models", o.Models, "models that they hold")
	flag.IntVar(&o.Routes, "routes", o.Routes, "route requests a second")
	flag.IntVar(&o.Receipts, "receipts", o.Receipts, "receipts a second")
	flag.DurationVar(&o.For, "for", o.For, "how long")
	flag.BoolVar(&o.Brief, "brief", false, "the load alone: no memory figures, no restart")
	flag.Parse()
	// The crowd shares the machine with what it measures: memory is cheaper than
	// collecting it.
	debug.SetGCPercent(800)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	exe, err := os.Executable()
	if err == nil {
		o.Bin = filepath.Dir(exe)
		o.Data, err = os.MkdirTemp("", "neuron-load-")
	}
	if err == nil {
		err = load.Run(ctx, o)
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		fmt.Printf("logs are in %s\n", o.Data)
		return 1
	}
	if err := os.RemoveAll(o.Data); err != nil {
		fmt.Fprintln(os.Stderr, "load:", err)
		return 1
	}
	return 0
}
