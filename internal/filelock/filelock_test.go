package filelock

import (
	"errors"
	"path/filepath"
	"testing"
)

func TestSecondOwnerIsRefusedUntilUnlock(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "x.lock")
	first, err := Try(path)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := Try(path); !errors.Is(err, ErrLocked) {
		t.Fatalf("second Try = %v, want ErrLocked", err)
	}
	got := make(chan error, 1)
	go func() {
		l, err := Wait(path)
		if err == nil {
			l.Unlock()
		}
		got <- err
	}()
	first.Unlock()
	if err := <-got; err != nil {
		t.Fatal(err)
	}
}
