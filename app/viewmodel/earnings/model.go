// Package earnings is the state and the logic of the earnings page without the
// page: what the owner of this computer has, what came in by day, model and
// layers, and the lines of the account. It knows no toolkit.
package earnings

import (
	"context"
	"sync"
	"time"

	"neuron/app/viewmodel/task"
	"neuron/engine/accounts"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/desktop/words"
)

// Engine is what the page needs of *localapi.Client.
type Engine interface {
	Account(ctx context.Context) (*accounts.Account, error)
	Earnings(ctx context.Context, q accounts.Query) (*accounts.Earnings, error)
	Statement(ctx context.Context, q accounts.Query) (*accounts.Statement, error)
	EarningsCSV(ctx context.Context, q accounts.Query) ([]byte, error)
	StatementCSV(ctx context.Context, q accounts.Query) ([]byte, error)
}

var _ Engine = (*localapi.Client)(nil)

// Options configure a Model.
type Options struct {
	Engine func() Engine // nil: none answers
	Words  *words.Words
	Now    func() time.Time
}

// Grouping is what one bar of the chart stands for.
type Grouping int

// The groupings, with how many bars each shows.
const (
	Days   Grouping = iota // 30
	Weeks                  // 12
	Months                 // 12
)

// pageLines is how many lines of the account are asked for at a time, maxPages
// bounds the pages of earnings.
const (
	pageLines = 50
	maxPages  = 24
)

// Model keeps what was told last. Its methods return at once and are safe for
// concurrent use. It owns goroutines until Close.
type Model struct {
	o     Options
	tasks *task.Group

	mu       sync.Mutex
	grouping Grouping // guarded by mu, like all below
	loading  bool
	loaded   bool
	asked    int // questions for everything; only the newest one's answer counts
	err      *protocol.Error
	account  *accounts.Account
	earned   []accounts.Earning
	lines    []accounts.Line
	next     string // of the lines
	more     bool   // the next lines are being asked for
	file     *File
	fileErr  *protocol.Error
}

// File is an export that waits to be saved.
type File struct {
	Name string
	Data []byte
}

// New makes a model that has not asked yet: see Load.
func New(o Options) *Model { return &Model{o: o, tasks: task.New()} }

// Changed gives a value after each change.
func (m *Model) Changed() <-chan struct{} { return m.tasks.Changed() }

// Close ends the goroutines and waits for them.
func (m *Model) Close() { m.tasks.Close() }

func (m *Model) set(f func()) {
	m.mu.Lock()
	f()
	m.mu.Unlock()
	m.tasks.Tell()
}

func gone() error { return protocol.Errorf(protocol.CodeUnavailable, "the engine does not run") }

// Load asks for everything.
func (m *Model) Load() {
	var number int
	m.set(func() {
		m.asked++
		number, m.loading = m.asked, true
	})
	m.tasks.Go(func(ctx context.Context) {
		var (
			account *accounts.Account
			earned  []accounts.Earning
			lines   *accounts.Statement
			err     = gone()
		)
		if e := m.o.Engine(); e != nil {
			account, err = e.Account(ctx)
			if err == nil {
				earned, err = m.earnings(ctx, e)
			}
			if err == nil {
				lines, err = e.Statement(ctx, accounts.Query{Limit: pageLines})
			}
		}
		m.set(func() {
			if number != m.asked {
				return
			}
			m.loading, m.err = false, nil
			if err != nil {
				m.err = protocol.AsError(err)
				return
			}
			m.loaded = true
			m.account, m.earned, m.lines, m.next = account, earned, lines.Lines, lines.Next
		})
	})
}

// since is the first day that the page shows.
func (m *Model) since() time.Time { return m.o.Now().UTC().AddDate(-1, 0, 0) }

// earnings asks for the last year, page by page.
func (m *Model) earnings(ctx context.Context, e Engine) ([]accounts.Earning, error) {
	q := accounts.Query{Since: m.since().Format(time.DateOnly)}
	var all []accounts.Earning
	for range maxPages {
		x, err := e.Earnings(ctx, q)
		if err != nil {
			return nil, err
		}
		all = append(all, x.Earnings...)
		if x.NextUntil == "" || x.NextUntil == q.Until {
			break
		}
		q.Until = x.NextUntil
	}
	return all, nil
}

// More asks for further lines of the account.
func (m *Model) More() {
	m.mu.Lock()
	next, number := m.next, m.asked
	if next == "" || m.more {
		m.mu.Unlock()
		return
	}
	m.more = true
	m.mu.Unlock()
	m.tasks.Tell()
	m.tasks.Go(func(ctx context.Context) {
		var s *accounts.Statement
		err := gone()
		if e := m.o.Engine(); e != nil {
			s, err = e.Statement(ctx, accounts.Query{Limit: pageLines, Cursor: next})
		}
		m.set(func() {
			m.more = false
			switch {
			case number != m.asked: // everything was asked for anew
			case err != nil:
				m.err = protocol.AsError(err)
			default:
				m.err = nil
				m.lines, m.next = append(m.lines, s.Lines...), s.Next
			}
		})
	})
}

// Group changes what a bar stands for.
func (m *Model) Group(g Grouping) { m.set(func() { m.grouping = g }) }

// ExportEarnings and ExportStatement get a CSV file, which View.File then holds.
func (m *Model) ExportEarnings() {
	m.export("neuron-earnings", func(ctx context.Context, e Engine) ([]byte, error) {
		return e.EarningsCSV(ctx, accounts.Query{Since: m.since().Format(time.DateOnly)})
	})
}

// ExportStatement gets the lines of the account.
func (m *Model) ExportStatement() {
	m.export("neuron-statement", func(ctx context.Context, e Engine) ([]byte, error) {
		return e.StatementCSV(ctx, accounts.Query{Since: m.since().Format(time.DateOnly)})
	})
}

func (m *Model) export(name string, get func(context.Context, Engine) ([]byte, error)) {
	m.tasks.Go(func(ctx context.Context) {
		var b []byte
		err := gone()
		if e := m.o.Engine(); e != nil {
			b, err = get(ctx, e)
		}
		m.set(func() {
			m.file, m.fileErr = nil, nil
			if err != nil {
				m.fileErr = protocol.AsError(err)
				return
			}
			m.file = &File{Name: name + "-" + m.o.Now().Format(time.DateOnly) + ".csv", Data: b}
		})
	})
}

// Taken forgets the file that View.File showed, and what went wrong with one.
func (m *Model) Taken() { m.set(func() { m.file, m.fileErr = nil, nil }) }

// SaveFailed tells that a file could not be written.
func (m *Model) SaveFailed(err error) {
	m.set(func() { m.fileErr = protocol.Errorf(protocol.CodeDiskFull, "save the file: %w", err) })
}
