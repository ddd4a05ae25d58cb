package panel

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/godbus/dbus/v5"

	"neuron/internal/desktop/sessionbus"
)

const (
	watcherName = "org.kde.StatusNotifierWatcher"
	watcherPath = "/StatusNotifierWatcher"
	hostMember  = "IsStatusNotifierHostRegistered"
	// busEvery is how often a missing bus is looked for, callTime how long a call
	// may take.
	busEvery = 5 * time.Second
	callTime = 3 * time.Second
)

// Follow tells what there is, at once and after each change, until ctx ends
// (nil) or the bus does (ErrGone). tell is called by the caller's goroutine.
func Follow(ctx context.Context, log *slog.Logger, tell func(Sight)) error {
	conn, err := connect(ctx, log, tell)
	if err != nil {
		return nil // ctx has ended
	}
	defer conn.Close()
	signals := make(chan *dbus.Signal, 16)
	conn.Signal(signals)
	for _, rule := range [][]dbus.MatchOption{
		{dbus.WithMatchInterface("org.freedesktop.DBus"), dbus.WithMatchSender("org.freedesktop.DBus"), dbus.WithMatchMember("NameOwnerChanged"), dbus.WithMatchArg(0, watcherName)},
		{dbus.WithMatchInterface(watcherName), dbus.WithMatchSender(watcherName), dbus.WithMatchMember("StatusNotifierHostRegistered")},
		{dbus.WithMatchInterface(watcherName), dbus.WithMatchSender(watcherName), dbus.WithMatchMember("StatusNotifierHostUnregistered")},
	} {
		if err := conn.AddMatchSignalContext(ctx, rule...); err != nil {
			return end(ctx, conn, err)
		}
	}
	last := Sight("")
	for {
		if now := look(ctx, conn); now != last && ctx.Err() == nil {
			last = now
			tell(now)
		}
		select {
		case <-ctx.Done():
			return nil
		case <-conn.Context().Done():
			return ErrGone
		case _, ok := <-signals:
			if !ok {
				return end(ctx, conn, nil)
			}
		}
	}
}

// connect waits for a bus.
func connect(ctx context.Context, log *slog.Logger, tell func(Sight)) (*dbus.Conn, error) {
	told := false
	for {
		try, cancel := context.WithTimeout(ctx, callTime)
		conn, err := sessionbus.Connect(try)
		cancel()
		if err == nil {
			return conn, nil
		}
		if ctx.Err() != nil {
			return nil, ctx.Err()
		}
		if !told {
			told = true
			log.Warn("no session bus", "error", err)
			tell(NoBus)
		}
		select {
		case <-ctx.Done():
			return nil, ctx.Err()
		case <-time.After(busEvery):
		}
	}
}

func end(ctx context.Context, conn *dbus.Conn, err error) error {
	if ctx.Err() != nil {
		return nil
	}
	if conn.Connected() && err != nil {
		return fmt.Errorf("watch the session bus: %w", err)
	}
	return ErrGone
}

// look asks whether a host is there. A watcher that does not know the question
// and one that has no host are told apart by nobody: no icon is seen.
func look(ctx context.Context, conn *dbus.Conn) Sight {
	ctx, cancel := context.WithTimeout(ctx, callTime)
	defer cancel()
	// A plain call would start a service that is not there.
	var owned bool
	if err := conn.BusObject().CallWithContext(ctx, "org.freedesktop.DBus.NameHasOwner", 0, watcherName).Store(&owned); err != nil || !owned {
		return None
	}
	var v dbus.Variant
	err := conn.Object(watcherName, watcherPath).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", dbus.FlagNoAutoStart, watcherName, hostMember).Store(&v)
	if there, ok := v.Value().(bool); err != nil || !ok || !there {
		return None
	}
	return There
}
