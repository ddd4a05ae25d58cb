package program

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"syscall"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/stage"
	"neuron/internal/filelock"
	"neuron/internal/syserr"
)

// Log makes a logger for a component.
type Log func(component string) *slog.Logger

// lockFile is locked by the engine that uses a data folder.
const lockFile = "engine.lock"

// OpenData makes the data folder and takes its lock: one process per folder.
func OpenData(dir string) (*filelock.Lock, error) {
	if dir == "" {
		return nil, protocol.Errorf(protocol.CodeDataFolder, "no data folder is given")
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, dataError(dir, err)
	}
	l, err := filelock.Try(filepath.Join(dir, lockFile))
	if errors.Is(err, filelock.ErrLocked) {
		return nil, protocol.Errorf(protocol.CodeAlreadyRunning, "another engine uses the data folder %s", dir)
	}
	if err != nil {
		return nil, dataError(dir, err)
	}
	return l, nil
}

// stoppedPoll is how often WaitStopped looks.
const stoppedPoll = 50 * time.Millisecond

// WaitStopped returns when no engine uses the data folder any more, or with
// the cause of ctx when that ends first.
func WaitStopped(ctx context.Context, dir string) error {
	tick := time.NewTicker(stoppedPoll)
	defer tick.Stop()
	for {
		l, err := filelock.Try(filepath.Join(dir, lockFile))
		switch {
		case err == nil:
			l.Unlock()
			return nil
		case !errors.Is(err, filelock.ErrLocked):
			return dataError(dir, err)
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}

func dataError(dir string, err error) error {
	switch {
	case syserr.DiskFull(err):
		return protocol.Errorf(protocol.CodeDiskFull, "no space left for the data folder %s: %w", dir, err)
	case errors.Is(err, fs.ErrPermission), errors.Is(err, syscall.EROFS), errors.Is(err, syscall.ENOTDIR):
		return protocol.Errorf(protocol.CodeDataFolder, "the data folder %s cannot be used: %w", dir, err)
	}
	return protocol.Errorf(protocol.CodeDataFolder, "data folder: %w", err)
}

// listen opens a TCP port with a helpful error.
func listen(ctx context.Context, what, addr string) (net.Listener, error) {
	l, err := new(net.ListenConfig).Listen(ctx, "tcp", addr)
	if syserr.AddrInUse(err) {
		return nil, protocol.Errorf(protocol.CodePortInUse, "%s: another program listens on %s", what, addr)
	}
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "%s: cannot listen on %s: %w", what, addr, err)
	}
	return l, nil
}

// spawn says how stage processes are started: this program, as "stage".
func spawn(exe string, log Log) (stage.Spawn, error) {
	if exe == "" {
		var err error
		if exe, err = os.Executable(); err != nil {
			return stage.Spawn{}, fmt.Errorf("find this program: %w", err)
		}
	}
	return stage.Spawn{Exe: exe, Args: []string{"stage"}, Logger: log("stage")}, nil
}
