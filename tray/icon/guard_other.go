//go:build !linux

package icon

import "log/slog"

func prepare(*slog.Logger) {}

func contain(_ *slog.Logger, call func()) { call() }
