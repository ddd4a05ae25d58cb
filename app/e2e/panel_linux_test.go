package e2e

import (
	"context"
	"os"
	"strings"
	"testing"

	"neuron/tray/traytest"
)

// panel is the desktop's panel with the tray's icon.
type panel struct {
	*traytest.Panel
	t    *testing.T
	ctx  context.Context
	item string // the icon's bus name
}

// newPanel puts a panel on the desk's session bus.
func (d *desk) newPanel() *panel {
	d.t.Helper()
	p, err := traytest.NewPanel(&traytest.Bus{Address: os.Getenv("DBUS_SESSION_BUS_ADDRESS")}, true)
	if err != nil {
		d.t.Fatal(err)
	}
	d.t.Cleanup(func() { p.Close() })
	return &panel{Panel: p, t: d.t, ctx: d.ctx}
}

// registers waits for the icon.
func (p *panel) registers() {
	p.t.Helper()
	select {
	case p.item = <-p.Registered:
	case <-p.ctx.Done():
		p.t.Fatal("no icon came to the panel")
	}
}

// entry looks for what a user could click now.
func entry(menu []traytest.Entry, label string) *traytest.Entry {
	for i := range menu {
		e := &menu[i]
		if !e.Visible || !e.Enabled {
			continue
		}
		if e.Label == label {
			return e
		}
		if e := entry(e.Children, label); e != nil {
			return e
		}
	}
	return nil
}

// click waits until an entry of the icon's menu can be clicked, and does it.
func (p *panel) click(label string) {
	p.t.Helper()
	var found *traytest.Entry
	until(p.ctx, p.t, "the menu has "+label, func() bool {
		menu, err := p.Menu(p.ctx, p.item)
		found = entry(menu, label)
		return err == nil && found != nil
	})
	if err := p.Click(p.ctx, p.item, found.ID); err != nil {
		p.t.Fatal(err)
	}
}

// says waits until the menu's first line begins with a text.
func (p *panel) says(text string) {
	p.t.Helper()
	until(p.ctx, p.t, "the menu says "+text, func() bool {
		menu, err := p.Menu(p.ctx, p.item)
		return err == nil && len(menu) > 0 && strings.HasPrefix(menu[0].Label, text)
	})
}
