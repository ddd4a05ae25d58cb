package sqlite

import (
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"
)

// maxPrepared bounds the statements that a connection keeps.
const maxPrepared = 256

// conn is one connection to the database with the statements that it has
// prepared: reading the text of one costs as much as running it. Transactions
// are statements, too: those of database/sql start a goroutine for each query.
// A conn belongs to one goroutine at a time.
type conn struct {
	db    *sql.DB
	c     *sql.Conn // nil until it is needed
	stmts map[string]*sql.Stmt
}

// open connects, if that was not done.
func (c *conn) open(ctx context.Context) error {
	if c.c != nil {
		return nil
	}
	got, err := c.db.Conn(ctx)
	if err != nil {
		return err
	}
	c.c, c.stmts = got, make(map[string]*sql.Stmt)
	return nil
}

// close gives the connection back.
func (c *conn) close() error {
	if c.c == nil {
		return nil
	}
	errs := make([]error, 0, len(c.stmts)+1)
	for _, st := range c.stmts {
		errs = append(errs, st.Close())
	}
	err := errors.Join(append(errs, c.c.Close())...)
	c.c, c.stmts = nil, nil
	return err
}

// discard ends a connection that is in an unknown state; the next use opens
// another one.
func (c *conn) discard() {
	if c.c == nil {
		return
	}
	for _, st := range c.stmts {
		st.Close()
	}
	_ = c.c.Raw(func(any) error { return driver.ErrBadConn }) // it is closed by that
	c.c.Close()
	c.c, c.stmts = nil, nil
}

// stmt is the prepared form of a query, or nil when enough of them are kept.
func (c *conn) stmt(ctx context.Context, query string) (*sql.Stmt, error) {
	if st := c.stmts[query]; st != nil || len(c.stmts) >= maxPrepared {
		return st, nil
	}
	st, err := c.c.PrepareContext(ctx, query)
	if err == nil {
		c.stmts[query] = st
	}
	return st, err
}

// ExecContext runs one statement.
func (c *conn) ExecContext(ctx context.Context, query string, args ...any) (sql.Result, error) {
	st, err := c.stmt(ctx, query) //nolint:sqlclosecheck // it is kept
	if err != nil {
		return nil, err
	}
	if st == nil {
		return c.c.ExecContext(ctx, query, args...)
	}
	return st.ExecContext(ctx, args...)
}

// QueryContext runs a query; its rows are closed before the next statement with
// the same text.
func (c *conn) QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error) {
	st, err := c.stmt(ctx, query) //nolint:sqlclosecheck // it is kept
	if err != nil {
		return nil, err
	}
	if st == nil {
		return c.c.QueryContext(ctx, query, args...)
	}
	return st.QueryContext(ctx, args...)
}

// QueryRowContext runs a query of one row.
func (c *conn) QueryRowContext(ctx context.Context, query string, args ...any) *sql.Row {
	st, err := c.stmt(ctx, query) //nolint:sqlclosecheck // it is kept
	if err != nil || st == nil {
		return c.c.QueryRowContext(ctx, query, args...) // says what is wrong
	}
	return st.QueryRowContext(ctx, args...)
}

// script runs several statements, once.
func (c *conn) script(ctx context.Context, text string) error {
	_, err := c.c.ExecContext(ctx, text)
	return err
}

// exec runs a statement without arguments and results.
func (c *conn) exec(ctx context.Context, query string) error {
	_, err := c.ExecContext(ctx, query)
	return err
}

// rollback ends a transaction without a trace, whatever state it is in.
func (c *conn) rollback(ctx context.Context) {
	if c.exec(ctx, "ROLLBACK") != nil {
		c.discard() // SQLite itself ended it, or the connection is broken
	}
}
