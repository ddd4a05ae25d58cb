package icon

import (
	"log/slog"
	"os"

	"neuron/internal/desktop/sessionbus"
)

// prepare tells the library where the bus is; it would start one that it does
// not find.
func prepare(log *slog.Logger) {
	a, err := sessionbus.Address()
	if err == nil {
		err = os.Setenv("DBUS_SESSION_BUS_ADDRESS", a)
	}
	if err != nil {
		log.Warn("the tray's library cannot be told where the bus is", "error", err)
	}
}

// contain keeps a panic of the library here. When the bus has died, systray
// 1.12.2 panics in SetIcon and in quitting, in the caller's goroutine and with
// its locks given back; the end of the bus is noticed elsewhere.
func contain(log *slog.Logger, call func()) {
	defer func() {
		if fault := recover(); fault != nil {
			log.Warn("the tray's library has failed", "fault", fault)
		}
	}()
	call()
}
