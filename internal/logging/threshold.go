package logging

import (
	"context"
	"log/slog"
)

// threshold is a handler with a level of its own in front of a shared one.
type threshold struct {
	slog.Handler
	level slog.Level
}

func (t threshold) Enabled(_ context.Context, l slog.Level) bool { return l >= t.level }

func (t threshold) WithAttrs(as []slog.Attr) slog.Handler {
	return threshold{t.Handler.WithAttrs(as), t.level}
}

func (t threshold) WithGroup(name string) slog.Handler {
	return threshold{t.Handler.WithGroup(name), t.level}
}
