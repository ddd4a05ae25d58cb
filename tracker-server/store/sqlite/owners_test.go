package sqlite

import (
	"context"
	"database/sql"
	"errors"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/store"
)

// ownerOf asks in a view; "" for none.
func ownerOf(t *testing.T, v store.LedgerView) store.AccountID {
	t.Helper()
	o, err := v.OwnerOf("n")
	if err != nil && protocol.AsError(err).Code != protocol.CodeNotFound {
		t.Error(err)
	}
	return o.Owner
}

// give makes a the owner of node n.
func give(tx store.LedgerTx, a store.AccountID) error {
	return errors.Join(tx.EndNodeOwner("n", time.Unix(2, 0)), tx.AddNodeOwner(store.NodeOwner{Node: "n", Owner: a, Binding: []byte("b"), At: time.Unix(1, 0)}))
}

// TestOwnerIsRememberedOfItsTime: what is remembered of owners is what each
// transaction would read: its own changes, nothing that came after it began, and
// nothing that was undone.
func TestOwnerIsRememberedOfItsTime(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	update := func(f func(store.LedgerTx) error) error { return s.UpdateLedger(t.Context(), f) }
	view := func(want store.AccountID, meanwhile func()) {
		t.Helper()
		if err := s.ViewLedger(t.Context(), func(v store.LedgerView) error {
			for range 2 {
				if got := ownerOf(t, v); got != want {
					t.Errorf("the owner is %q, want %q", got, want)
				}
				if meanwhile != nil {
					meanwhile()
				}
			}
			return nil
		}); err != nil {
			t.Error(err)
		}
		o, err := s.OwnerOf(t.Context(), "n")
		if err != nil && protocol.AsError(err).Code != protocol.CodeNotFound || want != "" && o.Owner != want {
			t.Errorf("the owner is %q, %v, want %q", o.Owner, err, want)
		}
	}
	if err := update(func(tx store.LedgerTx) error {
		return errors.Join(tx.AddAccount(store.Account{ID: "a", Kind: store.KindOwner}), tx.AddAccount(store.Account{ID: "b", Kind: store.KindOwner}))
	}); err != nil {
		t.Fatal(err)
	}
	view("", nil) // that there is none is remembered, too
	once := sync.OnceFunc(func() {
		if err := update(func(tx store.LedgerTx) error { return give(tx, "a") }); err != nil {
			t.Error(err)
		}
	})
	view("", once)
	view("a", nil)
	if o, err := s.OwnerOf(t.Context(), "n"); err != nil || o.Owner != "a" {
		t.Errorf("the owner is %+v, %v", o, err)
	}
	if _, err := s.OwnerOf(t.Context(), "m"); protocol.AsError(err).Code != protocol.CodeNotFound {
		t.Errorf("of an unknown node: %v", err)
	}
	undone := errors.New("undone")
	if err := update(func(tx store.LedgerTx) error {
		if err := give(tx, "b"); err != nil {
			return err
		}
		if got := ownerOf(t, tx); got != "b" {
			t.Errorf("in its own transaction the owner is %q", got)
		}
		return undone
	}); !errors.Is(err, undone) {
		t.Error(err)
	}
	view("a", nil)
	if err := s.ViewLedger(t.Context(), func(v store.LedgerView) error {
		o, err := v.OwnerOf("n")
		o.Binding[0] = 'x'
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := s.ViewLedger(t.Context(), func(v store.LedgerView) error {
		o, err := v.OwnerOf("n")
		if string(o.Binding) != "b" {
			t.Errorf("the binding was changed to %q", o.Binding)
		}
		return err
	}); err != nil {
		t.Error(err)
	}
	if err := update(func(tx store.LedgerTx) error { return tx.EndNodeOwner("n", time.Unix(3, 0)) }); err != nil {
		t.Error(err)
	}
	view("", nil)
}

// TestOwnersBesideChanges: nobody who asks after a change was answered is told
// what was before it.
func TestOwnersBesideChanges(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), filepath.Join(t.TempDir(), "db"))
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	names := []store.AccountID{"a", "b"}
	if err := s.UpdateLedger(t.Context(), func(tx store.LedgerTx) error {
		return errors.Join(tx.AddAccount(store.Account{ID: "a", Kind: store.KindOwner}), tx.AddAccount(store.Account{ID: "b", Kind: store.KindOwner}))
	}); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 {
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, err := s.OwnerOf(t.Context(), "n"); err != nil && protocol.AsError(err).Code != protocol.CodeNotFound {
					t.Error(err)
				}
			}
		})
	}
	for i := range 50 {
		want := names[i%2]
		if err := s.UpdateLedger(t.Context(), func(tx store.LedgerTx) error { return give(tx, want) }); err != nil {
			t.Fatal(err)
		}
		if got, err := s.OwnerOf(t.Context(), "n"); err != nil || got.Owner != want {
			t.Errorf("change %d: the owner is %q, %v, want %q", i, got.Owner, err, want)
		}
	}
	cancel()
	wg.Wait()
}

// TestOpenedWhileAnotherMakesIt: of two that make a new file a WAL database at
// one time, SQLite sent one away without waiting ("database is locked").
func TestOpenedWhileAnotherMakesIt(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "t.db")
	db, err := sql.Open("sqlite", path)
	if err != nil {
		t.Fatal(err)
	}
	defer db.Close()
	db.SetMaxOpenConns(1)
	run := func(text string) {
		t.Helper()
		if _, err := db.ExecContext(t.Context(), text); err != nil {
			t.Fatal(err)
		}
	}
	run(`BEGIN IMMEDIATE`)
	ended := make(chan error, 1)
	go func() {
		s, err := Open(context.Background(), path)
		if err == nil {
			err = s.Close()
		}
		ended <- err
	}()
	select {
	case err := <-ended:
		t.Fatalf("it did not wait: %v", err)
	case <-time.After(100 * time.Millisecond):
	}
	run(`COMMIT`)
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestNewFileOfMany: those that make a new file at one time all open it. SQLite
// sends some of them away without waiting, see connect.
func TestNewFileOfMany(t *testing.T) {
	t.Parallel()
	for range 20 {
		path := filepath.Join(t.TempDir(), "t.db")
		errs := make(chan error, 8)
		begin := make(chan struct{})
		for range cap(errs) {
			go func() {
				<-begin
				s, err := Open(context.Background(), path)
				if err == nil {
					err = s.Close()
				}
				errs <- err
			}()
		}
		close(begin)
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Error(err)
			}
		}
	}
}
