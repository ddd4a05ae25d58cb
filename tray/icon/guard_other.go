//go:build !linux

package icon

import "log/slog"

func guard(_ *slog.Logger, run func()) { run() }
