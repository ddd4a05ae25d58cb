package sqlite

import (
	"context"
	"errors"
	"time"

	"neuron/tracker-server/store/sqlite/direct"
)

const (
	// checkpointEvery is the time between two looks at the WAL.
	checkpointEvery = time.Second
	// longWAL is a number of pages: a longer WAL is begun anew.
	longWAL = 4000
	// littleWAL is a number of pages that others may wait for.
	littleWAL = 200
	// passes bounds how often the WAL is copied until that little is left.
	passes = 5
)

// checkpoints copies what the WAL holds into the file, beside the writer: done
// by a commit (as wal_autocheckpoint does) all others wait for it. It returns
// when the store is closed. When it fails, the WAL grows until a commit does it.
func (s *Store) checkpoints() {
	defer close(s.copied)
	t := time.NewTicker(checkpointEvery)
	defer t.Stop()
	seen := uint64(0)
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
		}
		if n := s.commits.Load(); n != seen && s.checkpoint(context.Background()) == nil {
			seen = n
		}
	}
}

// checkpoint copies most of the WAL while others write, and then, when it is
// long, the little that came meanwhile while nobody does: the next write begins
// the WAL anew.
func (s *Store) checkpoint(ctx context.Context) error {
	return s.view(ctx, func(c *direct.Conn) error {
		had := 0
		for range passes {
			pages, err := copyWAL(ctx, c)
			if err != nil || pages < longWAL {
				return err
			}
			if pages-had < littleWAL { // and less came meanwhile
				break
			}
			had = pages
		}
		s.pen.Lock()
		defer s.pen.Unlock()
		_, err := copyWAL(ctx, c)
		return err
	})
}

var errBusy = errors.New("another process copies the WAL")

// copyWAL copies what can be copied without waiting for anybody, and tells how
// many pages the WAL has.
func copyWAL(ctx context.Context, c *direct.Conn) (pages int, err error) {
	var busy, copied int
	if err := c.QueryRowContext(ctx, "PRAGMA wal_checkpoint(PASSIVE)").Scan(&busy, &pages, &copied); err != nil {
		return 0, err
	}
	if busy != 0 {
		return 0, errBusy
	}
	return pages, nil
}
