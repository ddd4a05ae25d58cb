package sqlite

import (
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"io/fs"
	"strconv"
	"strings"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store/sqlite/direct"
)

//go:embed migrations/*.sql
var migrations embed.FS

type migration struct {
	version int
	name    string
	sql     string
	sum     string
}

// loadMigrations reads NNNN_name.sql files in order, without gaps.
func loadMigrations(fsys fs.FS) ([]migration, error) {
	entries, err := fs.ReadDir(fsys, "migrations")
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInternal, "read migrations: %w", err)
	}
	var out []migration
	for i, e := range entries { // ReadDir sorts by name
		raw, err := fs.ReadFile(fsys, "migrations/"+e.Name())
		if err != nil {
			return nil, protocol.Errorf(protocol.CodeInternal, "read migration: %w", err)
		}
		num, _, _ := strings.Cut(e.Name(), "_")
		v, err := strconv.Atoi(num)
		if err != nil || v != i+1 {
			return nil, protocol.Errorf(protocol.CodeInternal, "migration %s is not number %d", e.Name(), i+1)
		}
		sum := sha256.Sum256(raw)
		out = append(out, migration{version: v, name: e.Name(), sql: string(raw), sum: hex.EncodeToString(sum[:])})
	}
	return out, nil
}

func (s *Store) migrate(ctx context.Context) error {
	all, err := loadMigrations(migrations)
	if err != nil {
		return err
	}
	return s.apply(ctx, all)
}

// apply runs the missing migrations, each in one transaction with its entry in
// schema_migrations. A migration that was changed after it ran, or one that
// this build does not know, is refused. Another process may do the same at the
// same time: what is missing is asked again under the write lock.
func (s *Store) apply(ctx context.Context, all []migration) error {
	const table = `CREATE TABLE IF NOT EXISTS schema_migrations (
		version BIGINT NOT NULL PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied BIGINT NOT NULL)`
	if err := s.inTx(ctx, "migrate", func(ctx context.Context, tx *txn) error { return tx.Script(ctx, table) }); err != nil {
		return err
	}
	for {
		done := 0
		err := s.inTx(ctx, "migrate", func(ctx context.Context, tx *txn) (err error) {
			if done, err = s.present(ctx, tx, all); err != nil || done == len(all) {
				return err
			}
			m := all[done]
			if err := tx.Script(ctx, m.sql); err != nil {
				return s.wrap("migrate to "+m.name, err)
			}
			_, err = tx.ExecContext(ctx, `INSERT INTO schema_migrations (version, name, checksum, applied) VALUES (?, ?, ?, ?)`,
				m.version, m.name, m.sum, time.Now().UnixMicro())
			return err
		})
		if err != nil || done == len(all) {
			return err
		}
	}
}

// querier is a database or a transaction.
type querier interface {
	QueryContext(ctx context.Context, query string, args ...any) (*direct.Answer, error)
}

// present checks the migrations that ran against those of this build and
// returns their number.
func (s *Store) present(ctx context.Context, q querier, all []migration) (int, error) {
	done, err := s.applied(ctx, q)
	if err != nil {
		return 0, err
	}
	for i, sum := range done {
		if i >= len(all) {
			return 0, protocol.Errorf(protocol.CodeDataFolder,
				"the database %s was written by a newer version of Neuron (schema %d, this build knows %d)", s.path, len(done), len(all))
		}
		if all[i].sum != sum {
			return 0, protocol.Errorf(protocol.CodeDataFolder, "migration %s is not the one that made the database %s", all[i].name, s.path)
		}
	}
	return len(done), nil
}

// applied lists the checksums of the migrations that ran, in order.
func (s *Store) applied(ctx context.Context, q querier) ([]string, error) {
	rows, err := q.QueryContext(ctx, `SELECT checksum FROM schema_migrations ORDER BY version`)
	if err != nil {
		return nil, s.wrap("read the schema's version", err)
	}
	defer rows.Close()
	var out []string
	for rows.Next() {
		var sum string
		if err := rows.Scan(&sum); err != nil {
			return nil, s.wrap("read the schema's version", err)
		}
		out = append(out, sum)
	}
	return out, s.wrap("read the schema's version", rows.Err())
}
