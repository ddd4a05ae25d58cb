package direct

import (
	"database/sql"
	"errors"
	"fmt"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
	_ "modernc.org/sqlite" // the driver
)

func opened(t *testing.T) *Conn {
	t.Helper()
	db, err := sql.Open("sqlite", filepath.Join(t.TempDir(), "t.db"))
	if err != nil {
		t.Fatal(err)
	}
	c := New(db)
	if err := c.Open(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := errors.Join(c.Close(), db.Close()); err != nil {
			t.Error(err)
		}
	})
	return c
}

type (
	name  string
	count int
	size  uint16
)

type row struct {
	A int64
	B string
	C []byte
	D name
	E count
	F size
	G sql.NullInt64
	H sql.NullString
}

// TestRows: what is written is read, as database/sql would.
func TestRows(t *testing.T) {
	t.Parallel()
	c := opened(t)
	if err := c.Script(t.Context(), `CREATE TABLE t (n INTEGER PRIMARY KEY, a BIGINT, b TEXT, c BYTEA, d TEXT, e BIGINT, f BIGINT, g BIGINT, h TEXT); CREATE TABLE u (x)`); err != nil {
		t.Fatal(err)
	}
	want := []row{
		{A: -1 << 63, B: "b\x00\"", C: []byte{0, 1}, D: "d", E: -5, F: 65535, G: sql.NullInt64{Int64: 3, Valid: true}, H: sql.NullString{String: "h", Valid: true}},
		{},
	}
	var list Rows
	for i, r := range want {
		var g, h any
		if r.G.Valid {
			g, h = r.G.Int64, r.H.String
		}
		list.Add(i, r.A, r.B, r.C, r.D, r.E, r.F, g, h)
	}
	if n, err := list.Insert(t.Context(), c, `INSERT INTO t VALUES `, ``); n != 2 || err != nil {
		t.Fatal(n, err)
	}
	const query = `SELECT a, b, c, d, e, f, g, h FROM t WHERE n >= ? ORDER BY n`
	for range 2 { // the statement is used again
		var got []row
		rows, err := c.QueryContext(t.Context(), query, 0)
		if err != nil {
			t.Fatal(err)
		}
		for rows.Next() {
			var r row
			if err := rows.Scan(&r.A, &r.B, &r.C, &r.D, &r.E, &r.F, &r.G, &r.H); err != nil {
				t.Fatal(err)
			}
			got = append(got, r)
		}
		if err := errors.Join(rows.Err(), rows.Close(), rows.Close()); err != nil || rows.Next() {
			t.Error("after the end:", err)
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Error(d)
		}
	}
	var a int64
	if err := c.QueryRowContext(t.Context(), `SELECT a FROM t WHERE n = ?`, 9).Scan(&a); !errors.Is(err, sql.ErrNoRows) {
		t.Errorf("no row: %v", err)
	}
	var f size
	for _, q := range []string{`SELECT 65536`, `SELECT -1`, `SELECT 'x'`, `SELECT NULL`, `SELECT 1.5`} {
		if err := c.QueryRowContext(t.Context(), q).Scan(&f); err == nil {
			t.Errorf("%s became %d", q, f)
		}
	}
	if err := c.QueryRowContext(t.Context(), `SELECT 1, 2`).Scan(&a); err == nil {
		t.Error("two columns for one variable")
	}
	if err := c.QueryRowContext(t.Context(), `SELECT nothing FROM t`).Scan(&a); err == nil {
		t.Error("an unknown column was read")
	}
	if _, err := c.ExecContext(t.Context(), `INSERT INTO t VALUES (0, 0, '', '', '', 0, 0, 0, '')`); err == nil {
		t.Error("a key was used twice")
	}
}

// TestManyStatements: more texts than are kept, and the connection is closed.
func TestManyStatements(t *testing.T) {
	t.Parallel()
	c := opened(t)
	for i := range maxPrepared + 20 {
		var got int64
		if err := c.QueryRowContext(t.Context(), fmt.Sprintf(`SELECT %d + ?`, i), 1).Scan(&got); err != nil || got != int64(i)+1 {
			t.Fatal(i, got, err)
		}
		if err := c.Exec(t.Context(), fmt.Sprintf(`PRAGMA cache_size(%d)`, 100+i)); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(c.stmts); n != maxPrepared {
		t.Errorf("%d statements are kept", n)
	}
	if err := c.Close(); err != nil {
		t.Error(err)
	}
	if err := c.Exec(t.Context(), `SELECT 1`); err == nil {
		t.Error("a statement ran on a closed connection")
	}
	c.Discard()
	if err := c.Open(t.Context()); err != nil {
		t.Error(err)
	}
	c.Discard()
}
