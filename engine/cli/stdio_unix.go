//go:build unix

package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"

	"golang.org/x/sys/unix"
)

// takeStdio keeps the frame pipe for ourselves: what native code prints to
// standard output must not land between frames, so it goes to stderr.
func takeStdio() (in, out *os.File, err error) {
	fd, err := unix.Dup(1)
	if err != nil {
		return nil, nil, err
	}
	unix.CloseOnExec(fd)
	if err := unix.Dup2(2, 1); err != nil {
		return nil, nil, err
	}
	// A read that blocks keeps Go's only processor (engine/stage) until the
	// runtime's monitor takes it away, some 0.1 ms later; a polled one does not.
	if err := unix.SetNonblock(0, true); err != nil {
		return nil, nil, err
	}
	return os.NewFile(0, "stdin"), os.NewFile(uintptr(fd), "frames"), nil
}

// ignoreSignals returns a context that no interrupt ends.
func ignoreSignals(ctx context.Context) context.Context {
	signal.Ignore(os.Interrupt, syscall.SIGTERM)
	return context.WithoutCancel(ctx)
}
