// Neuron-soak runs a network on this machine under random requests and random
// blows, from the repository's root and with the programs beside it, and exits
// with 1 when it finds a false success, a leak or growth. See "make soak".
package main

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"neuron/internal/soak"
)

func main() { os.Exit(mainStatus()) }

// mainStatus is main with an exit status, so that deferred calls run.
func mainStatus() int {
	length := flag.Duration("for", 5*time.Minute, "how long")
	seed := flag.Uint64("seed", 0, "seed of the plan (0: a new one)")
	flag.Parse()
	if *seed == 0 {
		*seed = rand.Uint64()
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, data, err := run(ctx, *length, *seed)
	if report != nil {
		report.Write(os.Stdout)
	}
	if err == nil && !report.Failed() {
		err = os.RemoveAll(data)
		if err == nil {
			return 0
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "soak:", err)
	}
	fmt.Printf("logs are in %s\n", data)
	return 1
}

func run(ctx context.Context, length time.Duration, seed uint64) (*soak.Report, string, error) {
	exe, err := os.Executable()
	if err != nil {
		return nil, "", err
	}
	data, err := os.MkdirTemp("", "neuron-soak-")
	if err != nil {
		return nil, "", err
	}
	r, err := soak.Run(ctx, soak.Options{Bin: filepath.Dir(exe), Data: data, For: length, Seed: seed, Out: os.Stdout})
	return r, data, err
}
