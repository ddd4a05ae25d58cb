// Neuron-bench measures routes against libllama alone, prints the table and
// rewrites it in docs/performance.md; a figure below its target is no failure.
// It runs from the repository's root with the programs beside it, see "make
// bench".
package main

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"syscall"

	"neuron/engine/stage"
	"neuron/internal/bench"
)

func main() { os.Exit(mainStatus()) }

// mainStatus is main with an exit status, so that deferred calls run.
func mainStatus() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if len(os.Args) == 2 && os.Args[1] == "peer" {
		return status(bench.Peer(ctx, os.Stdin, os.Stdout))
	}
	if err := startAgain(); err != nil {
		return status(err)
	}
	var o bench.Options
	flag.StringVar(&o.Model, "model", bench.Model1B, "1b, or tiny for a quick look")
	flag.StringVar(&o.Only, "only", "", "measure only parts that match this regular expression")
	flag.BoolVar(&o.Long, "long", false, "the mixed load with all its loads, some three minutes more")
	doc := flag.String("doc", "docs/performance.md", "document with the table; \"\" leaves it alone")
	flag.StringVar(&o.Dir, "dir", "build/bench", "folder for models and shards, kept")
	flag.StringVar(&o.Guide, "guide", "assets/model/guide-q8_0.gguf", "the bundled model")
	flag.Parse()
	return status(run(ctx, o, *doc))
}

// startAgain replaces this process by one with the environment of stages, unless
// it has that: what is measured here beside them has to have its memory from the
// system as they do. It returns only with an error, or when there is nothing to do.
func startAgain() error {
	lacks := func(v string) bool { return !slices.Contains(os.Environ(), v) }
	if runtime.GOOS == "windows" || !slices.ContainsFunc(stage.LibraryEnv(), lacks) {
		return nil
	}
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	// Of a name that stands twice the first counts.
	return fmt.Errorf("start again: %w", syscall.Exec(exe, os.Args, slices.Concat(stage.LibraryEnv(), os.Environ())))
}

func run(ctx context.Context, o bench.Options, doc string) error {
	exe, err := os.Executable()
	if err != nil {
		return fmt.Errorf("find this program: %w", err)
	}
	o.Bin, o.Out, o.Peer = filepath.Dir(exe), os.Stdout, []string{exe, "peer"}
	rep, err := bench.Run(ctx, o)
	if err != nil {
		return err
	}
	// Parts and other models are a look, not the table.
	if doc == "" || o.Only != "" || o.Model != bench.Model1B {
		return nil
	}
	return rep.Rewrite(doc)
}

func status(err error) int {
	if err != nil {
		fmt.Fprintln(os.Stderr, "bench:", err)
		return 1
	}
	return 0
}
