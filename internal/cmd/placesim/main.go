// Neuron-placesim plays placement against thousands of computers with churn,
// prints coverage, routes, bytes moved and decision times, and ends with status
// 1 when layers that are covered were ever left without a route:
//
//	go run ./internal/cmd/placesim -nodes 10000 -models 200 -hours 24 -seed 1
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime/pprof"
	"syscall"
	"time"

	"neuron/internal/cmd/placesim/sim"
	"neuron/internal/stopwatch"
)

func main() { os.Exit(mainStatus()) }

// mainStatus is main with an exit status, so that deferred calls run.
func mainStatus() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	o := sim.Options{Out: os.Stdout}
	flag.IntVar(&o.Nodes, "nodes", 10_000, "computers that join at the start; half as many more come later")
	flag.IntVar(&o.Models, "models", 200, "models of the catalog")
	flag.IntVar(&o.Hours, "hours", 24, "hours to play")
	flag.Uint64Var(&o.Seed, "seed", 1, "seed; one seed, one history")
	flag.DurationVar(&o.Config.Patience, "patience", 0, "time of fetching that halves a range's worth (0: the default)")
	flag.Float64Var(&o.Config.MoveFactor, "move-factor", 0, "how many times more another range must be worth (0: the default)")
	profile := flag.String("cpuprofile", "", "write a CPU profile to this file")
	flag.Parse()
	if o.Nodes < 1 || o.Models < 1 || o.Hours < 1 || flag.NArg() > 0 {
		fmt.Fprintln(os.Stderr, "placesim: -nodes, -models and -hours are at least 1, and nothing else is taken")
		return 2
	}
	if *profile != "" {
		f, err := os.Create(*profile)
		if err != nil {
			fmt.Fprintln(os.Stderr, "placesim:", err)
			return 1
		}
		defer f.Close()
		if err := pprof.StartCPUProfile(f); err != nil {
			fmt.Fprintln(os.Stderr, "placesim:", err)
			return 1
		}
		defer pprof.StopCPUProfile()
	}
	watch := stopwatch.Start()
	r, err := sim.Run(ctx, o)
	if err != nil {
		fmt.Fprintln(os.Stderr, "placesim:", err)
		return 1
	}
	r.Print(os.Stdout)
	fmt.Printf("played %d hours in %s\n", o.Hours, watch.Elapsed().Round(100*time.Millisecond))
	return 0
}
