package ledger

import (
	"context"
	"fmt"
	"slices"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// maxPage bounds one page of a statement.
const maxPage = 1000

// Page is a part of a statement, the newest lines first.
type Page struct {
	Items []store.LineItem
	// Next is the cursor of the following page, "" after the last one. New
	// entries do not move it.
	Next string
}

// Statement lists lines of an account. cursor is "" or a Next; limit is 1 to
// 1000. Errors: not_found, invalid_request.
func (l *Ledger) Statement(ctx context.Context, q store.LineQuery, cursor string, limit int) (p Page, err error) {
	seq, n, err := parseCursor(cursor)
	if err != nil {
		return p, err
	}
	if err := checkQuery(&q); err != nil {
		return p, err
	}
	limit = min(max(limit, 1), maxPage)
	err = l.View(ctx, func(tx store.LedgerView) (err error) {
		p.Items, err = tx.Lines(q, seq, n, limit+1)
		return err
	})
	if len(p.Items) > limit {
		last := p.Items[limit-1]
		p.Items, p.Next = p.Items[:limit], fmt.Sprintf("%d-%d", last.Seq, last.N)
	}
	return p, err
}

// Earnings adds up what an owner earned per day (UTC), model and range, the
// newest day first.
func (l *Ledger) Earnings(ctx context.Context, q store.LineQuery, limit int) (out []store.Earning, err error) {
	if err := checkQuery(&q); err != nil {
		return nil, err
	}
	err = l.View(ctx, func(tx store.LedgerView) (err error) {
		out, err = tx.Earnings(q, min(max(limit, 1), 10*maxPage))
		return err
	})
	return out, err
}

func checkQuery(q *store.LineQuery) error {
	if q.Account == "" || len(q.Account) > 80 || len(q.Model) > 80 || len(q.Books) > len(store.Books) || !q.Since.IsZero() && !q.Until.IsZero() && q.Until.Before(q.Since) {
		return protocol.Errorf(protocol.CodeInvalidRequest, "the statement's filter is not well formed")
	}
	for _, b := range q.Books {
		if !slices.Contains(store.Books, b) {
			return protocol.Errorf(protocol.CodeInvalidRequest, "there is no book %d", int(b))
		}
	}
	return nil
}

func parseCursor(s string) (seq int64, n int, err error) {
	if s == "" {
		return 0, 0, nil
	}
	if len(s) > 40 {
		return 0, 0, errCursor
	}
	if k, err := fmt.Sscanf(s, "%d-%d", &seq, &n); k != 2 || err != nil || seq <= 0 || n < 0 || fmt.Sprintf("%d-%d", seq, n) != s {
		return 0, 0, errCursor
	}
	return seq, n, nil
}

var errCursor = protocol.Errorf(protocol.CodeInvalidRequest, "the cursor is not one of this statement")
