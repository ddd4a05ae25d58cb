// Neuron-acceptance runs the acceptance criteria from the repository's root,
// with the programs beside it, and exits with 1 when one fails; arguments are
// the numbers of those to run, all if there are none. See "make acceptance".
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"syscall"

	"neuron/internal/acceptance"
)

func main() { os.Exit(mainStatus()) }

// mainStatus is main with an exit status, so that deferred calls run.
func mainStatus() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var only []int
	for _, a := range os.Args[1:] {
		n, err := strconv.Atoi(a)
		if err != nil {
			fmt.Fprintln(os.Stderr, "usage: neuron-acceptance [number ...]")
			return 2
		}
		only = append(only, n)
	}
	exe, err := os.Executable()
	if err == nil {
		var failed []error
		if failed, err = acceptance.Run(ctx, filepath.Dir(exe), os.Stdout, only...); err == nil && len(failed) > 0 {
			// Once more at the end: of a long log often only that is kept.
			err = fmt.Errorf("%d criteria failed\n%w", len(failed), errors.Join(failed...))
		}
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "acceptance:", err)
		return 1
	}
	return 0
}
