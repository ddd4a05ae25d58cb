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

// The sister that comes after the tray is played as a window, see TestMain.
func TestTrayStartsAnew(t *testing.T) {
	t.Parallel()
	d := newDesk(t)
	var out bytes.Buffer
	if status := run(t.Context(), []string{"--restart", "--data", d.data}, &out, nil); status != 0 || out.Len() != 0 {
		t.Errorf("no tray runs: status %d, %s", status, out.String())
	}
	d.serve()
	panel := d.panel(true)
	tray := d.tray("--hidden")
	d.registers(panel)
	if status := run(t.Context(), []string{"--restart", "--data", d.data}, &out, nil); status != 0 {
		t.Fatalf("status %d, %s", status, out.String())
	}
	if !d.engine.Await(d.ctx, "shutdown") {
		t.Fatal("the engine was not asked to end")
	}
	d.ends(tray)
	for !instance.Running(d.data, instance.Window) {
		select {
		case <-d.ctx.Done():
			t.Fatal("nothing came after the tray")
		case <-time.After(20 * time.Millisecond): // polling another process, bounded
		}
	}
	if err := instance.Send(d.ctx, d.data, instance.Window, instance.Quit); err != nil {
		t.Error(err)
	}
}
