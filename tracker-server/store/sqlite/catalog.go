package sqlite

import (
	"context"
	"database/sql"
	"encoding/json"
	"errors"
	"slices"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

const catalogColumns = `model, name, info_hash, private, webseeds, published, manifest_sha256, torrent_sha256`

// Publish implements store.Store.
func (s *Store) Publish(ctx context.Context, m store.CatalogModel) (changed bool, err error) {
	if err := m.Seal(); err != nil {
		return false, err
	}
	if m.WebSeeds == nil {
		m.WebSeeds = []string{}
	}
	seeds, err := json.Marshal(m.WebSeeds)
	if err != nil {
		return false, protocol.Errorf(protocol.CodeInternal, "encode web seeds: %w", err)
	}
	private := 0
	if m.Private {
		private = 1
	}
	err = s.inTx(ctx, "publish", func(ctx context.Context, tx *txn) error {
		have, err := scanCatalog(tx.QueryRowContext(ctx, `SELECT `+catalogColumns+` FROM catalog WHERE model = ?`, string(m.Model)))
		if err == nil && have.Name == m.Name && have.InfoHash == m.InfoHash && have.Private == m.Private && slices.Equal(have.WebSeeds, m.WebSeeds) &&
			have.ManifestSHA256 == m.ManifestSHA256 && have.TorrentSHA256 == m.TorrentSHA256 {
			return nil
		}
		if err != nil && !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		var other protocol.ModelID
		err = tx.QueryRowContext(ctx, `SELECT model FROM catalog WHERE name = ? AND model <> ?`, m.Name, string(m.Model)).Scan(&other)
		if err == nil {
			return protocol.Errorf(protocol.CodeInvalidRequest, "the model %s has the name %q already; choose another one, or unpublish that model", other.Short(), m.Name)
		}
		if !errors.Is(err, sql.ErrNoRows) {
			return err
		}
		changed = true
		_, err = tx.ExecContext(ctx, `INSERT INTO catalog (`+catalogColumns+`, manifest, torrent) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
			ON CONFLICT (model) DO UPDATE SET name = excluded.name, info_hash = excluded.info_hash, private = excluded.private,
				webseeds = excluded.webseeds, published = excluded.published, manifest_sha256 = excluded.manifest_sha256,
				torrent_sha256 = excluded.torrent_sha256, manifest = excluded.manifest, torrent = excluded.torrent`,
			string(m.Model), m.Name, m.InfoHash, private, string(seeds), micros(m.Published), m.ManifestSHA256, m.TorrentSHA256, m.Manifest, m.Torrent)
		if err != nil {
			return err
		}
		return countUp(ctx, tx)
	})
	return changed && err == nil, err
}

// Unpublish implements store.Store.
func (s *Store) Unpublish(ctx context.Context, id protocol.ModelID) error {
	return s.inTx(ctx, "unpublish", func(ctx context.Context, tx *txn) error {
		res, err := tx.ExecContext(ctx, `DELETE FROM catalog WHERE model = ?`, string(id))
		if err != nil {
			return err
		}
		if n, err := res.RowsAffected(); err != nil || n != 1 {
			return errNoModel(id)
		}
		return countUp(ctx, tx)
	})
}

func countUp(ctx context.Context, tx *txn) error {
	_, err := tx.ExecContext(ctx, `UPDATE catalog_version SET version = version + 1`)
	return err
}

func errNoModel(id protocol.ModelID) error {
	return protocol.Errorf(protocol.CodeModelUnknown, "the model %.80q is not in the catalog", string(id))
}

// Catalog implements store.Store.
func (s *Store) Catalog(ctx context.Context) ([]store.CatalogModel, error) {
	rows, err := s.read.QueryContext(ctx, `SELECT `+catalogColumns+` FROM catalog ORDER BY name, model`)
	if err != nil {
		return nil, s.wrap("list the catalog", err)
	}
	defer rows.Close()
	out := []store.CatalogModel{}
	for rows.Next() {
		m, err := scanCatalog(rows)
		if err != nil {
			return nil, s.wrap("list the catalog", err)
		}
		out = append(out, m)
	}
	return out, s.wrap("list the catalog", rows.Err())
}

// CatalogModel implements store.Store.
func (s *Store) CatalogModel(ctx context.Context, id protocol.ModelID) (store.CatalogModel, error) {
	var manifest, torrent []byte
	m, err := scanCatalog(s.read.QueryRowContext(ctx, `SELECT `+catalogColumns+`, manifest, torrent FROM catalog WHERE model = ?`, string(id)),
		&manifest, &torrent)
	if errors.Is(err, sql.ErrNoRows) {
		return m, errNoModel(id)
	}
	m.Manifest, m.Torrent = manifest, torrent
	return m, s.wrap("find a model", err)
}

// CatalogVersion implements store.Store.
func (s *Store) CatalogVersion(ctx context.Context) (v int64, err error) {
	err = s.read.QueryRowContext(ctx, `SELECT MAX(version) FROM catalog_version`).Scan(&v)
	return v, s.wrap("read the catalog's version", err)
}

func scanCatalog(row interface{ Scan(...any) error }, more ...any) (store.CatalogModel, error) {
	var m store.CatalogModel
	var private, published int64
	var seeds string
	if err := row.Scan(append([]any{
		&m.Model, &m.Name, &m.InfoHash, &private, &seeds, &published, &m.ManifestSHA256, &m.TorrentSHA256,
	}, more...)...); err != nil {
		return m, err
	}
	m.Private, m.Published = private != 0, fromMicros(published)
	return m, json.Unmarshal([]byte(seeds), &m.WebSeeds)
}
