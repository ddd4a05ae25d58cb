// Package logging sets up slog for every program of Neuron, and holds the type
// that keeps secrets out of logs.
//
// Logs are text on stderr; whoever starts a program decides where they go.
// Messages are static sentences, everything else is an attribute, and each
// logger names its component. Prompts, keys and activations never appear.
//
// Any package but engine/protocol may import it. It imports only the standard
// library.
package logging

import (
	"fmt"
	"io"
	"log/slog"
	"maps"
	"os"
	"slices"
	"strings"
)

// Env is the environment variable that sets what is logged: a level (debug,
// info, warn, error; default info), then levels of single components, as in
// "info,seam=debug,gateway=warn".
const Env = "NEURON_LOG"

// ComponentKey is the attribute that names the part of a program.
const ComponentKey = "component"

// Levels says from which level on each component logs.
type Levels struct {
	Default    slog.Level
	Components map[string]slog.Level
}

// ParseLevels reads the format of Env; "" is info for all.
func ParseLevels(s string) (Levels, error) {
	l := Levels{Default: slog.LevelInfo}
	if strings.TrimSpace(s) == "" {
		return l, nil
	}
	for part := range strings.SplitSeq(s, ",") {
		name, value, named := strings.Cut(strings.TrimSpace(part), "=")
		if !named {
			value = name
		}
		level, err := parseLevel(value)
		if err != nil {
			return Levels{Default: slog.LevelInfo}, err
		}
		switch {
		case !named:
			l.Default = level
		case name == "":
			return Levels{Default: slog.LevelInfo}, fmt.Errorf("log setting %.40q names no component", part)
		default:
			if l.Components == nil {
				l.Components = make(map[string]slog.Level)
			}
			l.Components[name] = level
		}
	}
	return l, nil
}

func parseLevel(s string) (slog.Level, error) {
	switch strings.ToLower(strings.TrimSpace(s)) {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "warn", "warning":
		return slog.LevelWarn, nil
	case "error":
		return slog.LevelError, nil
	}
	return 0, fmt.Errorf("log level %.40q is none of debug, info, warn, error", s)
}

// String is the form that ParseLevels reads.
func (l Levels) String() string {
	parts := []string{strings.ToLower(l.Default.String())}
	for _, name := range slices.Sorted(maps.Keys(l.Components)) {
		parts = append(parts, name+"="+strings.ToLower(l.Components[name].String()))
	}
	return strings.Join(parts, ",")
}

// Lowest is the lowest of all levels.
func (l Levels) Lowest() slog.Level {
	lowest := l.Default
	for _, v := range l.Components {
		lowest = min(lowest, v)
	}
	return lowest
}

// level is the threshold of a component.
func (l Levels) level(component string) slog.Level {
	if v, ok := l.Components[component]; ok {
		return v
	}
	return l.Default
}

// Log hands out the loggers of one program, all on the same writer. Safe for
// concurrent use; it owns no goroutine and no file.
type Log struct {
	levels Levels
	base   slog.Handler
}

// New returns loggers that write text lines to w, one Write call per record.
func New(w io.Writer, levels Levels) *Log {
	return NewTo(levels, slog.NewTextHandler(w, &slog.HandlerOptions{Level: levels.Lowest()}))
}

// NewTo returns loggers whose records go to all handlers.
func NewTo(levels Levels, handlers ...slog.Handler) *Log {
	// One handler for all components: its lock is what keeps lines whole.
	if len(handlers) == 1 {
		return &Log{levels: levels, base: handlers[0]}
	}
	return &Log{levels: levels, base: slog.NewMultiHandler(handlers...)}
}

// FromEnv returns loggers on stderr with the levels of Env.
func FromEnv() *Log {
	return ToEnv(func(levels Levels) []slog.Handler {
		return []slog.Handler{slog.NewTextHandler(os.Stderr, &slog.HandlerOptions{Level: levels.Lowest()})}
	})
}

// ToEnv returns loggers on the handlers that to makes for the levels of Env. A
// setting that cannot be read is no reason to stay silent or to stop: the levels
// are info, and the first line says what is wrong.
func ToEnv(to func(Levels) []slog.Handler) *Log {
	levels, err := ParseLevels(os.Getenv(Env))
	l := NewTo(levels, to(levels)...)
	if err != nil {
		l.For("logging").Warn("log setting ignored", "variable", Env, "error", err)
	}
	return l
}

// For returns the logger of a component ("seam", "gateway", "stage", ...).
func (l *Log) For(component string) *slog.Logger {
	h := threshold{Handler: l.base, level: l.levels.level(component)}
	return slog.New(h).With(ComponentKey, component)
}

// Discard drops everything; for tests and for options left out.
func Discard() *slog.Logger { return slog.New(slog.DiscardHandler) }
