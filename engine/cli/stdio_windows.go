package cli

import (
	"context"
	"os"
	"os/signal"
)

// takeStdio hands out the standard pipes: on Windows the C runtime has its own
// idea of standard output, which this process never gives it.
func takeStdio() (in, out *os.File, err error) { return os.Stdin, os.Stdout, nil }

// ignoreSignals returns a context that no interrupt ends.
func ignoreSignals(ctx context.Context) context.Context {
	signal.Ignore(os.Interrupt)
	return context.WithoutCancel(ctx)
}
