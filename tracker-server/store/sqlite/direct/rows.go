package direct

import (
	"context"
	"strings"
)

// Rows are the values of rows of one table.
type Rows struct {
	n    int
	args []any
}

// Add adds a row.
func (r *Rows) Add(values ...any) {
	r.n++
	r.args = append(r.args, values...)
}

// rowsAtOnce are the numbers of rows of one statement, so that few texts have
// to be prepared.
var rowsAtOnce = [...]int{16, 4, 1}

// Insert runs a statement, in pieces, with the places of the rows between two
// parts of its text, and returns how many rows it has changed.
func (r *Rows) Insert(ctx context.Context, c *Conn, before, after string) (changed int64, err error) {
	if r.n == 0 {
		return 0, nil
	}
	width := len(r.args) / r.n
	row := `(?` + strings.Repeat(`, ?`, width-1) + `)`
	args, left := r.args, r.n
	for _, size := range rowsAtOnce {
		if left < size {
			continue
		}
		query := before + row + strings.Repeat(`, `+row, size-1) + after
		for ; left >= size; left -= size {
			res, err := c.ExecContext(ctx, query, args[:size*width]...)
			if err != nil {
				return changed, err
			}
			n, err := res.RowsAffected()
			if err != nil {
				return changed, err
			}
			args, changed = args[size*width:], changed+n
		}
	}
	return changed, nil
}
