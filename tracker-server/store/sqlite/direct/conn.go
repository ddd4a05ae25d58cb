// Package direct runs prepared statements on one connection to SQLite, past
// database/sql, which only opens it. The store that contains it imports it; it
// knows no tables.
package direct

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// maxPrepared bounds the statements that a connection keeps.
const maxPrepared = 256

// Conn is one connection to the database with the statements that it has
// prepared: reading the text of one costs as much as running it. They are those
// of the driver: database/sql would lock, copy and look after each of them, for a
// fifth of what SQLite itself takes. Transactions are statements, too: those of
// database/sql start a goroutine for each query. A Conn belongs to one goroutine
// at a time.
type Conn struct {
	db    *sql.DB
	c     *sql.Conn // nil until it is needed
	stmts map[string]*stmt
	args  []driver.NamedValue // of the newest statement
}

// New makes a connection that is opened when it is needed.
func New(db *sql.DB) *Conn { return &Conn{db: db} }

// Open connects, if that was not done.
func (c *Conn) Open(ctx context.Context) error {
	if c.c != nil {
		return nil
	}
	got, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	c.c, c.stmts = got, make(map[string]*stmt)
	return nil
}

// Close gives the connection back.
func (c *Conn) Close() error {
	if c.c == nil {
		return nil
	}
	errs := make([]error, 0, len(c.stmts)+1)
	for _, st := range c.stmts {
		errs = append(errs, st.st.Close())
	}
	err := errors.Join(append(errs, c.c.Close())...)
	c.c, c.stmts = nil, nil
	return err
}

// Discard ends a connection that is in an unknown state; the next use opens
// another one.
func (c *Conn) Discard() {
	if c.c == nil {
		return
	}
	for _, st := range c.stmts {
		st.st.Close()
	}
	_ = c.c.Raw(func(any) error { return driver.ErrBadConn }) // it is closed by that
	c.c.Close()
	c.c, c.stmts = nil, nil
}

// stmt is the prepared form of a query. It is kept, unless enough of them are.
func (c *Conn) stmt(ctx context.Context, query string) (st *stmt, err error) {
	if st := c.stmts[query]; st != nil {
		return st, nil
	}
	if c.c == nil {
		return nil, sql.ErrConnDone
	}
	err = c.c.Raw(func(raw any) error {
		p, ok := raw.(driver.ConnPrepareContext)
		if !ok {
			return errDriver
		}
		got, err := p.PrepareContext(ctx, query)
		if err != nil {
			return err
		}
		st, err = newStmt(got)
		return err
	})
	if err != nil {
		return nil, err
	}
	if len(c.stmts) < maxPrepared {
		c.stmts[query], st.kept = st, true
	}
	return st, nil
}

// values turns arguments into what the driver takes.
func (c *Conn) values(args []any) ([]driver.NamedValue, error) {
	c.args = c.args[:0]
	for i, a := range args {
		v := driver.NamedValue{Ordinal: i + 1}
		switch a := a.(type) {
		case int:
			v.Value = int64(a)
		case int64, string, []byte:
			v.Value = a
		default:
			var err error
			if v.Value, err = driver.DefaultParameterConverter.ConvertValue(a); err != nil {
				return nil, err
			}
		}
		c.args = append(c.args, v)
	}
	return c.args, nil
}

// ExecContext runs one statement.
func (c *Conn) ExecContext(ctx context.Context, query string, args ...any) (driver.Result, error) {
	st, err := c.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	values, err := c.values(args)
	if err != nil {
		return nil, errors.Join(err, st.used())
	}
	r, err := st.exec.ExecContext(ctx, values)
	return r, errors.Join(err, st.used())
}

// QueryContext runs a query; its rows are closed before the next statement with
// the same text.
func (c *Conn) QueryContext(ctx context.Context, query string, args ...any) (*Answer, error) {
	st, err := c.stmt(ctx, query)
	if err != nil {
		return nil, err
	}
	values, err := c.values(args)
	if err != nil {
		return nil, errors.Join(err, st.used())
	}
	rows, err := st.query.QueryContext(ctx, values)
	if err != nil {
		return nil, errors.Join(err, st.used())
	}
	st.answer.begin(st, rows)
	return &st.answer, nil
}

// QueryRowContext runs a query of one row.
func (c *Conn) QueryRowContext(ctx context.Context, query string, args ...any) OneRow {
	rows, err := c.QueryContext(ctx, query, args...)
	return OneRow{rows, err}
}

// Script runs several statements, once.
func (c *Conn) Script(ctx context.Context, text string) error {
	_, err := c.c.ExecContext(ctx, text)
	return err
}

// Exec runs a statement without arguments and results.
func (c *Conn) Exec(ctx context.Context, query string) error {
	_, err := c.ExecContext(ctx, query)
	return err
}

// Rollback ends a transaction without a trace, whatever state it is in.
func (c *Conn) Rollback(ctx context.Context) {
	if c.Exec(ctx, "ROLLBACK") != nil {
		c.Discard() // SQLite itself ended it, or the connection is broken
	}
}
