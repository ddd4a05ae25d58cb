package main

import (
	"bytes"
	"testing"
	"time"

	"neuron/internal/desktop/instance"
)

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
