package power

import (
	"context"
	"os"

	"github.com/godbus/dbus/v5"

	"neuron/engine/host/bus"
)

// NewAwake asks logind for an inhibitor lock. It is held by an open file, so it
// ends with this process, however that ends.
func NewAwake(system *bus.Bus) *Awake {
	return &Awake{hold: func(ctx context.Context) (func() error, error) {
		var fd dbus.UnixFD
		err := system.Call(ctx, "org.freedesktop.login1", "/org/freedesktop/login1", "org.freedesktop.login1.Manager.Inhibit",
			[]any{"idle:sleep", "Neuron", why, "block"}, &fd)
		if err != nil {
			return nil, err
		}
		return os.NewFile(uintptr(fd), "inhibitor").Close, nil
	}}
}
