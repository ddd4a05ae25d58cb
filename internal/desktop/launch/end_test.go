package launch

import (
	"context"
	"testing"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/desktop/instance"
)

// playTray is a tray that does what it is told, or nothing; it says what it
// heard first.
func playTray(t *testing.T, p *Programs, obeys bool) <-chan string {
	t.Helper()
	tray, err := instance.Take(p.Data, instance.Tray)
	if err != nil {
		t.Fatal(err)
	}
	heard := make(chan string, 1)
	over := make(chan struct{})
	stop := make(chan struct{})
	go func() {
		defer close(over)
		select {
		case w := <-tray.Heard():
			heard <- w
			if obeys {
				tray.Close()
			}
		case <-stop:
		}
	}()
	t.Cleanup(func() {
		close(stop)
		<-over
		tray.Close()
	})
	return heard
}

func TestEndAllEndsEverything(t *testing.T) {
	p := programs(t, "engine")
	if err := p.EndAll(t.Context()); err != nil {
		t.Errorf("nothing runs: %v", err)
	}
	if err := p.Engine(t.Context()); err != nil {
		t.Fatal(err)
	}
	t.Setenv("NEURON_LAUNCH_PLAY", "window")
	if err := p.Window(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 200 {
		if instance.Running(p.Data, instance.Window) {
			break
		}
		time.Sleep(50 * time.Millisecond) // polling a process, bounded
	}
	// This tray leaves the others to whoever asked it.
	heard := playTray(t, p, true)
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	if err := p.EndAll(ctx); err != nil {
		t.Fatal(err)
	}
	if w := <-heard; w != instance.Quit {
		t.Errorf("the tray heard %q", w)
	}
	if answers(p.Data) || instance.Running(p.Data, instance.Window) || instance.Running(p.Data, instance.Tray) {
		t.Error("something still answers")
	}
}

// A tray that does not end keeps its engine: nothing is replaced under it.
func TestEndAllSaysWhatStays(t *testing.T) {
	p := programs(t, "engine")
	if err := p.Engine(t.Context()); err != nil {
		t.Fatal(err)
	}
	defer p.StopEngine(context.Background())
	playTray(t, p, false)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	if e := protocol.AsError(p.EndAll(ctx)); e == nil || e.Code != protocol.CodeTimeout {
		t.Errorf("a tray that stays: %v", e)
	}
	if !answers(p.Data) {
		t.Error("the engine was ended, and the tray would start it again")
	}
}
