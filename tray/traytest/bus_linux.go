package traytest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"os/exec"
	"strings"
	"sync"

	"github.com/godbus/dbus/v5"
	"github.com/godbus/dbus/v5/prop"
)

// Bus is a private session bus.
type Bus struct {
	Address string
	cmd     *exec.Cmd
	ended   chan struct{}
}

// StartBus starts one.
func StartBus() (*Bus, error) {
	cmd := exec.Command("dbus-daemon", "--session", "--nofork", "--nopidfile", "--print-address=1")
	out, err := cmd.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	b := &Bus{cmd: cmd, ended: make(chan struct{})}
	line, err := bufio.NewReader(out).ReadString('\n')
	b.Address = strings.TrimSpace(line)
	go func() {
		defer close(b.ended)
		_ = cmd.Wait()
	}()
	if err != nil {
		b.Kill()
		return nil, fmt.Errorf("the bus tells no address: %w", err)
	}
	return b, nil
}

// Kill ends the bus, as a session's end does.
func (b *Bus) Kill() {
	_ = b.cmd.Process.Kill()
	<-b.ended
}

// names of the desktop's side.
const (
	watcherName = "org.kde.StatusNotifierWatcher"
	watcherPath = dbus.ObjectPath("/StatusNotifierWatcher")
	itemPath    = dbus.ObjectPath("/StatusNotifierItem")
	itemName    = "org.kde.StatusNotifierItem"
	menuPath    = dbus.ObjectPath("/StatusNotifierItem/menu")
	menuName    = "com.canonical.dbusmenu"
)

// Panel is a desktop's panel: the watcher with whom icons register, and a host
// that shows them.
type Panel struct {
	conn *dbus.Conn
	// Registered gets the bus name of each item that registers.
	Registered chan string

	mu    sync.Mutex
	props *prop.Properties // guarded by mu
}

// NewPanel puts a watcher on the bus, with or without a host.
func NewPanel(b *Bus, host bool) (*Panel, error) {
	conn, err := dbus.Connect(b.Address)
	if err != nil {
		return nil, err
	}
	p := &Panel{conn: conn, Registered: make(chan string, 8)}
	if err := conn.ExportMethodTable(map[string]any{
		"RegisterStatusNotifierItem": func(_ string, sender dbus.Sender) *dbus.Error {
			p.Registered <- string(sender)
			return nil
		},
	}, watcherPath, watcherName); err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	p.props, err = prop.Export(conn, watcherPath, prop.Map{watcherName: {
		"IsStatusNotifierHostRegistered": {Value: host, Emit: prop.EmitTrue},
	}})
	if err != nil {
		return nil, errors.Join(err, conn.Close())
	}
	r, err := conn.RequestName(watcherName, dbus.NameFlagDoNotQueue)
	if err != nil || r != dbus.RequestNameReplyPrimaryOwner {
		return nil, errors.Join(fmt.Errorf("the watcher's name is taken: %v, %w", r, err), conn.Close())
	}
	return p, nil
}

// AddHost lets a host appear, as a GNOME extension does that is switched on.
func (p *Panel) AddHost() error {
	p.mu.Lock()
	p.props.SetMust(watcherName, "IsStatusNotifierHostRegistered", true)
	p.mu.Unlock()
	return p.conn.Emit(watcherPath, watcherName+".StatusNotifierHostRegistered")
}

// Close takes the panel away, as its crash does.
func (p *Panel) Close() error { return p.conn.Close() }

// Alive reports whether the panel is on the bus still.
func (p *Panel) Alive() bool { return p.conn.Connected() }

// Property reads a property of an item.
func (p *Panel) Property(ctx context.Context, item, name string) (dbus.Variant, error) {
	var v dbus.Variant
	err := p.conn.Object(item, itemPath).CallWithContext(ctx, "org.freedesktop.DBus.Properties.Get", 0, itemName, name).Store(&v)
	return v, err
}

// Entry is an item of a menu as a panel sees it.
type Entry struct {
	ID       int32
	Label    string
	Line     bool
	Enabled  bool
	Visible  bool
	Check    int // -1: no check mark, else 0 or 1
	Children []Entry
}

// layout is dbusmenu's form.
type layout struct {
	ID         int32
	Properties map[string]dbus.Variant
	Children   []dbus.Variant
}

// Menu reads an item's whole menu.
func (p *Panel) Menu(ctx context.Context, item string) ([]Entry, error) {
	var revision uint32
	var root layout
	call := p.conn.Object(item, menuPath).CallWithContext(ctx, menuName+".GetLayout", 0, int32(0), int32(-1), []string{})
	if err := call.Store(&revision, &root); err != nil {
		return nil, err
	}
	return entries(root)
}

func entries(l layout) ([]Entry, error) {
	out := make([]Entry, 0, len(l.Children))
	for _, v := range l.Children {
		var c layout
		if err := dbus.Store([]any{v.Value()}, &c); err != nil {
			return nil, err
		}
		e := Entry{ID: c.ID, Enabled: true, Visible: true, Check: -1}
		for name, v := range c.Properties {
			switch x := v.Value().(type) {
			case string:
				switch name {
				case "label":
					e.Label = x
				case "type":
					e.Line = x == "separator"
				case "toggle-type":
					if x == "checkmark" && e.Check < 0 {
						e.Check = 0
					}
				}
			case bool:
				switch name {
				case "enabled":
					e.Enabled = x
				case "visible":
					e.Visible = x
				}
			case int32:
				if name == "toggle-state" && x == 1 {
					e.Check = 1
				}
			}
		}
		var err error
		if e.Children, err = entries(c); err != nil {
			return nil, err
		}
		out = append(out, e)
	}
	return out, nil
}

// Click clicks an entry of an item's menu.
func (p *Panel) Click(ctx context.Context, item string, id int32) error {
	return p.conn.Object(item, menuPath).CallWithContext(ctx, menuName+".Event", 0, id, "clicked", dbus.MakeVariant(""), uint32(0)).Err
}

// Notifications puts a notification service on the bus and gives what it is
// asked to show: its title, and the number that it replaces.
func Notifications(b *Bus) (shown <-chan Notification, stop func() error, err error) {
	conn, err := dbus.Connect(b.Address)
	if err != nil {
		return nil, nil, err
	}
	out := make(chan Notification, 8)
	const name = "org.freedesktop.Notifications"
	last := uint32(6)
	err = conn.ExportMethodTable(map[string]any{
		"Notify": func(app string, replaces uint32, icon, title, text string, _ []string, hints map[string]dbus.Variant, _ int32) (uint32, *dbus.Error) {
			out <- Notification{App: app, Title: title, Text: text, Replaces: replaces}
			last++
			return last, nil
		},
	}, "/org/freedesktop/Notifications", name)
	if err == nil {
		_, err = conn.RequestName(name, dbus.NameFlagDoNotQueue)
	}
	if err != nil {
		return nil, nil, errors.Join(err, conn.Close())
	}
	return out, conn.Close, nil
}

// Notification is one that was shown.
type Notification struct {
	App, Title, Text string
	Replaces         uint32
}
