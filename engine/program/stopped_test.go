package program

import (
	"context"
	"errors"
	"path/filepath"
	"testing"

	"neuron/engine/protocol"
)

func TestWaitStopped(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	l, err := OpenData(dir)
	if err != nil {
		t.Fatal(err)
	}
	why := errors.New("no more patience")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	if err := WaitStopped(ctx, dir); !errors.Is(err, why) {
		t.Errorf("a used folder: %v", err)
	}
	done := make(chan error, 1)
	go func() { done <- WaitStopped(t.Context(), dir) }()
	l.Unlock()
	if err := <-done; err != nil {
		t.Error(err)
	}
	var e *protocol.Error
	if err := WaitStopped(t.Context(), filepath.Join(dir, "absent")); !errors.As(err, &e) || e.Code != protocol.CodeDataFolder {
		t.Errorf("no folder: %v", err)
	}
}
