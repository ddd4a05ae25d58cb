package notify

import (
	"context"
	"errors"
	"html"

	"github.com/godbus/dbus/v5"

	"neuron/internal/desktop/sessionbus"
)

// show asks the session's notification service. Text may be read as markup
// there.
func show(ctx context.Context, app, title, text string, replaces uint32) (uint32, error) {
	conn, err := sessionbus.Connect(ctx)
	if err != nil {
		return 0, err
	}
	defer conn.Close()
	hints := map[string]dbus.Variant{"desktop-entry": dbus.MakeVariant("neuron"), "urgency": dbus.MakeVariant(byte(1))}
	var id uint32
	const service = "org.freedesktop.Notifications"
	call := conn.Object(service, "/org/freedesktop/Notifications").
		CallWithContext(ctx, service+".Notify", 0, app, replaces, "neuron", title, html.EscapeString(text), []string{}, hints, int32(-1))
	if err := call.Store(&id); err != nil {
		return 0, err
	}
	if id == 0 {
		return 0, errors.New("the notification service gave no number")
	}
	return id, nil
}
