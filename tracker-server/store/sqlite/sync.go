package sqlite

import (
	"context"
	"os"
	"time"
)

// A commit leaves its pages with the operating system (synchronous(NORMAL)),
// where they survive the end of the process. The WAL goes to the disk beside the
// writer, which writes the next group meanwhile. The operations of a group are
// answered after a sync that began after its commit: what was answered survives
// the loss of power, too. One sync serves all groups that were committed before.

// toSync hands over a group that is committed, or has failed as a whole.
func (s *Store) toSync(group []*write) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.committed = append(s.committed, group...)
	select {
	case s.unsynced <- struct{}{}:
	default: // it is told already
	}
}

// syncs is the goroutine of syncs. It returns, and closes synced, when the
// writer has ended and all that it has committed is on the disk.
func (s *Store) syncs() {
	defer close(s.synced)
	defer func() { s.wal.Close() }() // nothing is left to be written to it; nil is fine, too
	for ended := false; !ended; {
		select {
		case <-s.unsynced:
		case <-s.written:
			ended = true
		}
		s.mu.Lock()
		group := s.committed
		s.committed = nil
		s.mu.Unlock()
		s.sync(group)
	}
}

// sync answers groups when the WAL is on the disk.
func (s *Store) sync(group []*write) {
	var err error
	for _, w := range group {
		if w.err == nil { // there is something to be synced
			err = s.syncWAL()
			break
		}
	}
	for _, w := range group {
		if w.err == nil {
			w.err = err
		}
		close(w.done)
	}
}

func (s *Store) syncWAL() (err error) {
	begun := time.Now()
	if s.wal == nil {
		// For writing, since Windows flushes only such files.
		if s.wal, err = os.OpenFile(s.log, os.O_RDWR, 0); err != nil {
			s.lost.Store(true)
			return err
		}
	}
	if err = s.wal.Sync(); err != nil {
		// The system may have dropped the pages, and would say once only that it did.
		s.lost.Store(true)
		s.wal.Close()
		s.wal = nil
	}
	s.o.Synced(time.Since(begun))
	return err
}

// recover follows a sync that failed: what the WAL holds goes into the database
// file and with it to the disk, before anything else is written.
func (s *Store) recover(ctx context.Context) error {
	if !s.lost.Swap(false) {
		return nil
	}
	var busy, pages, copied int
	err := s.writer.QueryRowContext(ctx, "PRAGMA wal_checkpoint(FULL)").Scan(&busy, &pages, &copied)
	if err == nil && busy != 0 {
		err = errBusy
	}
	if err != nil {
		s.lost.Store(true)
	}
	return err
}
