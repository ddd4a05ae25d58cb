package main

import (
	"bytes"
	"context"
	"strings"
	"testing"
	"time"

	"neuron/internal/desktop/instance"
	"neuron/tray/traytest"
)

func TestQuitEndsWhatRuns(t *testing.T) {
	t.Parallel()
	data := t.TempDir()
	quitted := func() (int, string) {
		var out bytes.Buffer
		status := run(t.Context(), []string{"--quit", "--data", data}, &out, nil)
		return status, out.String()
	}
	if status, out := quitted(); status != 0 || out != "" {
		t.Errorf("nothing ran: status %d, %q", status, out)
	}
	e := traytest.NewEngine()
	srv, err := e.Serve(data)
	if err != nil {
		t.Fatal(err)
	}
	ended := make(chan struct{})
	go func() {
		defer close(ended)
		<-e.Ended
		srv.Close(context.Background())
	}()
	if status, out := quitted(); status != 0 || out != "" {
		t.Errorf("an engine ran: status %d, %q", status, out)
	}
	<-ended
	// A window that hears and stays, as one that hangs.
	window, err := instance.Take(data, instance.Window)
	if err != nil {
		t.Fatal(err)
	}
	defer window.Close()
	var out bytes.Buffer
	if status := quit(t.Context(), data, &out, 500*time.Millisecond); status != 1 || !strings.Contains(out.String(), "window has not ended") {
		t.Errorf("a window stays: status %d, %q", status, out.String())
	}
}
