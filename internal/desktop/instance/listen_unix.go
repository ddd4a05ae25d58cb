//go:build unix

package instance

import (
	"context"
	"net"
	"os"
	"path/filepath"
)

// listen makes the socket, which this user alone may use. A path that is too
// long for a socket gives way to a short one in a private folder.
func listen(path string) (net.Listener, error) {
	path, err := filepath.Abs(path)
	if err != nil {
		return nil, err
	}
	if len(path) > maxSocket {
		// MkdirTemp makes a folder of mode 0700 that was not there before.
		dir, err := os.MkdirTemp(os.Getenv("XDG_RUNTIME_DIR"), "neuron-")
		if err != nil {
			if dir, err = os.MkdirTemp("", "neuron-"); err != nil {
				return nil, err
			}
		}
		ln, err := listenAt(filepath.Join(dir, filepath.Base(path)))
		if err != nil {
			os.Remove(dir)
			return nil, err
		}
		return &ownFolder{ln, dir}, nil
	}
	os.Remove(path) // of a process that crashed: the lock is ours
	return listenAt(path)
}

func listenAt(path string) (net.Listener, error) {
	ln, err := new(net.ListenConfig).Listen(context.Background(), "unix", path)
	if err != nil {
		return nil, err
	}
	if err := os.Chmod(path, 0o600); err != nil {
		ln.Close()
		return nil, err
	}
	return ln, nil
}

// ownFolder removes the folder of its socket too.
type ownFolder struct {
	net.Listener
	dir string
}

func (l *ownFolder) Close() error {
	err := l.Listener.Close()
	os.Remove(l.dir)
	return err
}
