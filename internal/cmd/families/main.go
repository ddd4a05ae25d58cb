// Neuron-families runs the parity suite over a small random model of every
// architecture, in several types, and writes docs/models/families.md. See "make
// families".
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"runtime"
	"strings"
	"syscall"
	"time"

	"neuron/internal/cmd/families/suite"
)

func main() { os.Exit(mainStatus()) }

// mainStatus is main with an exit status, so that deferred calls run.
func mainStatus() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if job, ok := suite.JobOf(os.Args); ok {
		return child(ctx, job)
	}
	if err := run(ctx); err != nil {
		if !errors.Is(err, flag.ErrHelp) {
			fmt.Fprintln(os.Stderr, "families:", err)
		}
		return 1
	}
	return 0
}

// child is one model in a process of its own: the outcome goes to standard output.
func child(ctx context.Context, job suite.Job) int {
	runtime.LockOSThread() // libllama computes on the thread that calls
	out := suite.Do(ctx, job)
	if err := json.NewEncoder(os.Stdout).Encode(out); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 0
}

func run(ctx context.Context) error {
	o := suite.Options{Out: os.Stdout}
	only := flag.String("only", "", "models, with commas between them; an architecture stands for its variants too")
	types := flag.String("types", strings.Join(suite.Types, ","), "types of the matrices")
	flag.BoolVar(&o.Fresh, "fresh", false, "run also what the same program has run before")
	flag.BoolVar(&o.Keep, "keep", false, "keep results of other builds of the program")
	flag.BoolVar(&o.Vulkan, "vulkan", false, "compare stages on Vulkan and on the processor instead")
	flag.StringVar(&o.State, "state", "build/families/results.jsonl", "file that keeps the results")
	flag.StringVar(&o.Page, "page", "docs/models/families.md", "page to write; empty: none")
	flag.IntVar(&o.Jobs, "jobs", 1, "children at a time")
	flag.DurationVar(&o.Limit, "limit", 3*time.Minute, "most time for one model in one type")
	flag.Parse()
	if flag.NArg() > 0 {
		return fmt.Errorf("unknown argument %q", flag.Arg(0))
	}
	if *only != "" {
		o.Only = strings.Split(*only, ",")
	}
	o.Types = strings.Split(*types, ",")
	exe, err := os.Executable()
	if err != nil {
		return err
	}
	o.Program = exe
	return suite.Run(ctx, o)
}
