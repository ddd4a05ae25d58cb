package localnet

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/policy"
	"neuron/engine/protocol"
	"neuron/internal/desktop/instance"
)

// StartDesktop starts a desktop engine in a data folder called name and brings
// its settings to what change wants.
func (n *Net) StartDesktop(ctx context.Context, name string, change func(*policy.Settings), args ...string) (*Proc, error) {
	p, _, err := n.spawn(ctx, name, nil, "neuron-engine", append([]string{"desktop", "--data", n.dir(name)}, args...)...)
	if err != nil {
		return nil, err
	}
	client, err := localapi.Dial(p.Data)
	if err != nil {
		return nil, err
	}
	defer client.Close()
	s, err := client.Settings(ctx)
	if err != nil {
		return nil, err
	}
	change(&s)
	if _, err := client.SetSettings(ctx, s); err != nil {
		return nil, err
	}
	return p, nil
}

// window is the program with the window.
const window = "neuron"

// HasWindow reports whether the window was built.
func (n *Net) HasWindow() bool {
	st, err := os.Stat(filepath.Join(n.o.Bin, window))
	return err == nil && st.Mode().IsRegular()
}

// HasDisplay reports whether this session can show windows.
func HasDisplay() bool {
	switch runtime.GOOS {
	case "windows", "darwin":
		return true
	}
	return os.Getenv("DISPLAY") != "" || os.Getenv("WAYLAND_DISPLAY") != ""
}

// StartWindow opens the window of a desktop engine. The user may close it at any
// time: its end is no fault.
func (n *Net) StartWindow(of *Proc) (*Proc, error) {
	p, err := n.launch("window", nil, window, "--data", of.Data)
	if err != nil {
		return nil, err
	}
	p.MayEnd()
	n.keep(p)
	return p, nil
}

// MayEnd says that the process may end at any time: Died does not tell.
func (p *Proc) MayEnd() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.asked = true
}

// trayTime bounds the wait for a tray to end with what belongs to it.
const trayTime = 20 * time.Second

// EndTray ends the tray that a window has started, and with it the window and
// the engine of the data folder, whoever has started them by now.
func EndTray(ctx context.Context, data string) error {
	ctx, cancel := context.WithTimeout(ctx, trayTime)
	defer cancel()
	if err := instance.Send(ctx, data, instance.Tray, instance.Quit); err != nil {
		if errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
			return nil // none runs
		}
		return err
	}
	for instance.Running(data, instance.Tray) {
		select {
		case <-ctx.Done():
			return errors.New("the tray takes long to quit; it ends by itself")
		case <-time.After(100 * time.Millisecond):
		}
	}
	return nil
}
