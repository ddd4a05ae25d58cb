// Package diagnostics is the state and the logic of the diagnostics page
// without the page: what is wrong and what to do, the processes, the engine's
// log. The page is app/ui/diagnostics; this package knows no toolkit.
package diagnostics

import (
	"context"
	"slices"
	"strings"
	"sync"
	"time"

	"neuron/app/viewmodel/task"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// maxLines bounds what is kept of the log, Every is how often it is read.
const (
	maxLines = 4000
	Every    = time.Second
)

// Engine is what the page needs of *localapi.Client.
type Engine interface {
	Logs(ctx context.Context, after int64) ([]localapi.LogLine, error)
	Report(ctx context.Context) (string, error)
	Shutdown(ctx context.Context) error
}

// Level is from which level on lines are shown.
type Level int

// The levels, by what they leave out.
const (
	All Level = iota
	Info
	Warnings
	Errors
)

// View is what the page shows.
type View struct {
	// Lines are those of the chosen level that match the words, oldest first;
	// they belong to everybody: do not change them.
	Lines []localapi.LogLine
	Level Level
	Words string // that lines must contain, "" for all
	// Err is why the log cannot be read, nil when it can.
	Err *protocol.Error
	// Report is a report that was asked for, to be taken once.
	Report     string
	ReportErr  *protocol.Error
	Busy       bool // a report or a restart is on its way
	RestartErr *protocol.Error
}

// Model keeps what the page shows. Its methods return at once and are safe for
// concurrent use.
type Model struct {
	engine func() Engine
	tasks  *task.Group

	mu   sync.Mutex
	all  []localapi.LogLine // guarded by mu
	view View               // guarded by mu
	stop context.CancelFunc // guarded by mu; ends the reading, nil while none
}

// New makes a model that reads nothing yet.
func New(engine func() Engine) *Model {
	return &Model{engine: engine, tasks: task.New(), view: View{Level: Info}}
}

// Changed gives a value after each change of View.
func (m *Model) Changed() <-chan struct{} { return m.tasks.Changed() }

// Close ends the goroutines and waits for them.
func (m *Model) Close() { m.tasks.Close() }

// View is the present state.
func (m *Model) View() View {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.view
}

func (m *Model) set(f func(*View)) {
	m.mu.Lock()
	f(&m.view)
	m.mu.Unlock()
	m.tasks.Tell()
}

// Follow reads the log until Rest; a second call changes nothing.
func (m *Model) Follow() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop == nil {
		m.stop = m.tasks.Repeat(Every, m.read)
	}
}

// Rest stops reading.
func (m *Model) Rest() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.stop != nil {
		m.stop()
		m.stop = nil
	}
}

// read adds the lines that came since the last time. An engine that was started
// anew counts from the beginning, which its first line shows.
func (m *Model) read(ctx context.Context) {
	e := m.engine()
	if e == nil {
		return // the banner says so
	}
	ctx, cancel := context.WithTimeout(ctx, task.Patience)
	defer cancel()
	m.mu.Lock()
	var after int64
	if n := len(m.all); n > 0 {
		after = m.all[n-1].Number
	}
	m.mu.Unlock()
	lines, err := e.Logs(ctx, after)
	if err == nil && len(lines) == 0 && after > 0 {
		// Nothing new, or a new engine that has not come so far yet.
		if first, ferr := e.Logs(ctx, 0); ferr == nil && (len(first) == 0 || first[len(first)-1].Number < after) {
			lines, after = first, 0
		}
	}
	if ctx.Err() != nil {
		return
	}
	m.mu.Lock()
	known := protocol.AsError(err)
	changed := len(lines) > 0 || (known == nil) != (m.view.Err == nil)
	m.view.Err = known
	if after == 0 && len(lines) > 0 {
		m.all = nil
	}
	m.all = append(m.all, lines...)
	if over := len(m.all) - maxLines; over > 0 {
		m.all = slices.Clone(m.all[over:])
	}
	if len(lines) > 0 {
		m.choose()
	}
	m.mu.Unlock()
	if changed {
		m.tasks.Tell()
	}
}

// Choose changes which lines are shown.
func (m *Model) Choose(l Level, words string) {
	m.mu.Lock()
	m.view.Level, m.view.Words = l, words
	m.choose()
	m.mu.Unlock()
	m.tasks.Tell()
}

// choose fills View.Lines anew; the lock is held.
func (m *Model) choose() {
	words := strings.ToLower(m.view.Words)
	shown := make([]localapi.LogLine, 0, len(m.all))
	for _, l := range m.all {
		if levelOf(l.Level) >= m.view.Level && (words == "" || strings.Contains(strings.ToLower(l.Part+" "+l.Text), words)) {
			shown = append(shown, l)
		}
	}
	m.view.Lines = shown
}

func levelOf(s string) Level {
	switch strings.ToUpper(s) {
	case "DEBUG":
		return All
	case "WARN":
		return Warnings
	case "ERROR":
		return Errors
	}
	return Info
}

// LevelOf is the level of a line.
func LevelOf(l localapi.LogLine) Level { return levelOf(l.Level) }

// Report asks for a report; it is in View.Report then, until Taken.
func (m *Model) Report() {
	m.order(func(ctx context.Context, e Engine) {
		text, err := e.Report(ctx)
		m.set(func(v *View) { v.Report, v.ReportErr, v.Busy = text, protocol.AsError(err), false })
	}, func(v *View, e *protocol.Error) { v.ReportErr = e })
}

// Taken forgets the report.
func (m *Model) Taken() { m.set(func(v *View) { v.Report, v.ReportErr = "", nil }) }

// Restart ends the engine in order; then is called when it has agreed, and
// starts another one.
func (m *Model) Restart(then func()) {
	m.order(func(ctx context.Context, e Engine) {
		err := e.Shutdown(ctx)
		if err == nil {
			then()
		}
		m.set(func(v *View) { v.RestartErr, v.Busy = protocol.AsError(err), false })
	}, func(v *View, e *protocol.Error) { v.RestartErr = e })
}

// order runs f with the engine, or says by absent that there is none.
func (m *Model) order(f func(ctx context.Context, e Engine), absent func(*View, *protocol.Error)) {
	e := m.engine()
	if e == nil {
		m.set(func(v *View) { absent(v, protocol.Errorf(protocol.CodeUnavailable, "the engine does not run")) })
		return
	}
	m.set(func(v *View) { v.Busy = true })
	m.tasks.Go(func(ctx context.Context) { f(ctx, e) })
}
