package direct

import (
	"database/sql"
	"database/sql/driver"
	"errors"
	"fmt"
	"io"
	"reflect"
)

// errDriver is about a driver that lacks what this package needs.
var errDriver = errors.New("the database driver runs no prepared statements")

// stmt is a prepared statement of the driver.
type stmt struct {
	st     driver.Stmt
	exec   driver.StmtExecContext
	query  driver.StmtQueryContext
	kept   bool
	answer Answer // of the newest query
}

func newStmt(st driver.Stmt) (*stmt, error) {
	exec, ok1 := st.(driver.StmtExecContext)
	query, ok2 := st.(driver.StmtQueryContext)
	if !ok1 || !ok2 {
		return nil, errors.Join(errDriver, st.Close())
	}
	return &stmt{st: st, exec: exec, query: query}, nil
}

// used ends a statement that is not kept.
func (s *stmt) used() error {
	if s.kept {
		return nil
	}
	return s.st.Close()
}

// Answer is the rows of a query. It has what this package uses of sql.Rows, and
// does the same.
type Answer struct {
	st     *stmt
	rows   driver.Rows // nil when they are closed
	values []driver.Value
	err    error
}

func (f *Answer) begin(st *stmt, rows driver.Rows) {
	f.st, f.rows, f.err = st, rows, nil
	if n := len(rows.Columns()); n != len(f.values) {
		f.values = make([]driver.Value, n)
	}
}

// Next goes to the next row, and closes the rows behind the last one.
func (f *Answer) Next() bool {
	if f.rows == nil {
		return false
	}
	err := f.rows.Next(f.values)
	if err == nil {
		return true
	}
	if !errors.Is(err, io.EOF) {
		f.err = err
	}
	if err := f.Close(); f.err == nil {
		f.err = err
	}
	return false
}

// Scan reads the row.
func (f *Answer) Scan(dest ...any) error {
	if len(dest) != len(f.values) {
		return fmt.Errorf("%d columns for %d variables", len(f.values), len(dest))
	}
	for i, d := range dest {
		if err := assign(d, f.values[i]); err != nil {
			return fmt.Errorf("column %d: %w", i, err)
		}
	}
	return nil
}

// Err is what ended the rows too early.
func (f *Answer) Err() error { return f.err }

// Close ends a query. It may be called again.
func (f *Answer) Close() error {
	if f.rows == nil {
		return nil
	}
	rows := f.rows
	f.rows = nil
	return errors.Join(rows.Close(), f.st.used())
}

// OneRow is a query for one row.
type OneRow struct {
	rows *Answer
	err  error
}

// Scan reads the row, and ends the query. Error: sql.ErrNoRows.
func (r OneRow) Scan(dest ...any) error {
	if r.err != nil {
		return r.err
	}
	if !r.rows.Next() {
		if err := r.rows.Err(); err != nil {
			return err
		}
		return sql.ErrNoRows
	}
	return errors.Join(r.rows.Scan(dest...), r.rows.Close())
}

// assign sets a variable. The driver gives int64, float64, string, []byte (of
// which it keeps none) and nil.
func assign(dest any, v driver.Value) error {
	switch d := dest.(type) {
	case *int64:
		if n, ok := v.(int64); ok {
			*d = n
			return nil
		}
	case *string:
		switch x := v.(type) {
		case string:
			*d = x
			return nil
		case []byte:
			*d = string(x)
			return nil
		}
	case *[]byte:
		switch x := v.(type) {
		case []byte:
			*d = x
			return nil
		case string:
			*d = []byte(x)
			return nil
		case nil:
			*d = nil
			return nil
		}
	case sql.Scanner:
		return d.Scan(v)
	default:
		if setKind(reflect.ValueOf(dest).Elem(), v) {
			return nil
		}
	}
	return fmt.Errorf("a value of type %T for a variable of type %T", v, dest)
}

// setKind sets a variable of another type that is a text or a number. It reports
// whether that was possible.
func setKind(d reflect.Value, v driver.Value) bool {
	switch x := v.(type) {
	case string:
		if d.Kind() == reflect.String {
			d.SetString(x)
			return true
		}
	case int64:
		switch {
		case d.CanInt() && !d.OverflowInt(x):
			d.SetInt(x)
			return true
		case d.CanUint() && x >= 0 && !d.OverflowUint(uint64(x)):
			d.SetUint(uint64(x))
			return true
		}
	}
	return false
}
