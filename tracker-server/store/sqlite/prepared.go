package sqlite

import (
	"context"
	"database/sql"
	"sync"
)

// maxPrepared bounds the statements that are kept.
const maxPrepared = 256

// prepared keeps the statements of a pool of connections over transactions:
// reading the text of one costs as much as running it. A transaction that meets
// a new one prepares it for itself, since preparing for the pool takes a
// connection, and the transaction may hold the last one; fill does that later.
type prepared struct {
	db *sql.DB

	mu     sync.Mutex
	ready  map[string]*sql.Stmt // guarded by mu
	wanted []string             // guarded by mu
}

func newPrepared(db *sql.DB) *prepared {
	return &prepared{db: db, ready: make(map[string]*sql.Stmt)}
}

// in is the statement of query within tx. It ends with the transaction.
func (p *prepared) in(ctx context.Context, tx *sql.Tx, query string) (*sql.Stmt, error) {
	p.mu.Lock()
	st := p.ready[query]
	if st == nil && len(p.ready)+len(p.wanted) < maxPrepared {
		p.wanted = append(p.wanted, query)
	}
	p.mu.Unlock()
	if st != nil {
		return tx.StmtContext(ctx, st), nil
	}
	return tx.PrepareContext(ctx, query)
}

// exec runs a statement without results.
func (p *prepared) exec(ctx context.Context, tx *sql.Tx, query string) error {
	st, err := p.in(ctx, tx, query)
	if err != nil {
		return err
	}
	defer st.Close()
	_, err = st.ExecContext(ctx)
	return err
}

// fill prepares what was wanted. The caller holds no transaction. What cannot
// be prepared is left out: its transactions go on doing it themselves.
func (p *prepared) fill(ctx context.Context) {
	p.mu.Lock()
	wanted := p.wanted
	p.wanted = nil
	p.mu.Unlock()
	for _, query := range wanted {
		st, err := p.db.PrepareContext(ctx, query) //nolint:sqlclosecheck // the end of the pool closes it
		if err != nil {
			continue
		}
		p.mu.Lock()
		old := p.ready[query]
		p.ready[query] = st
		p.mu.Unlock()
		if old != nil {
			old.Close()
		}
	}
}
