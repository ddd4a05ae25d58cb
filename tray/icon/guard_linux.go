package icon

import (
	"log/slog"
	"os"

	"neuron/internal/desktop/sessionbus"
)

// guard runs the library where it can do no harm. It is told where the bus is,
// since it would start one that it does not find. A panic stays here: without a
// connection to the bus, which may have died a moment ago, quitting dereferences
// nil in systray 1.12.2, in this goroutine, and there is nothing left to do then.
func guard(log *slog.Logger, run func()) {
	if a, err := sessionbus.Address(); err == nil {
		if err := os.Setenv("DBUS_SESSION_BUS_ADDRESS", a); err != nil {
			log.Warn("the tray's library cannot be told where the bus is", "error", err)
		}
	}
	defer func() {
		if fault := recover(); fault != nil {
			log.Warn("the tray's library has failed", "fault", fault)
		}
	}()
	run()
}
