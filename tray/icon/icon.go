// Package icon puts a menu.View on the screen, as an icon of the system's tray
// with its menu, and tells what is clicked.
//
// tray/agent uses it. A Board knows which calls a change needs; what carries
// them out is the system's tray (Run) or, in tests, a list of calls.
package icon

import (
	"context"
	"sync"
	"time"

	"neuron/assets/icons"
	"neuron/tray/menu"
)

// TooltipEvery is how often the tooltip may change: some panels redraw all of
// their icons for it.
const TooltipEvery = time.Second

// Bar is a tray that can be drawn on. Calls come from one goroutine at a time.
type Bar interface {
	SetIcon(s icons.State)
	SetTooltip(text string)
	// Add adds an item at the end of parent (nil: of the menu). Its state is that
	// of i; clicked gets a value for each click.
	Add(parent Item, i menu.Item) (item Item, clicked <-chan struct{})
	AddLine()
}

// Item is an item on a Bar.
type Item interface {
	SetTitle(title string)
	SetChecked(on bool)
	SetEnabled(on bool)
	SetVisible(on bool)
}

// Board is a menu on a Bar. Show is called by one goroutine; the Board owns the
// goroutines that wait for clicks, and Close waits for them.
type Board struct {
	bar   Bar
	items []shown // in the order of the view, children after their parent
	icon  icons.State
	tip   string
	tipAt time.Time

	clicks chan menu.ID
	cancel context.CancelFunc
	wg     sync.WaitGroup
}

type shown struct {
	on   Item // nil for a line
	last menu.Item
}

// NewBoard adds the items of a view to a bar that has none. The tooltip follows
// a while later: on Linux the title is the item's id until the bar is on the bus.
func NewBoard(bar Bar, v menu.View, now time.Time) *Board {
	ctx, cancel := context.WithCancel(context.Background())
	b := &Board{bar: bar, icon: v.Icon, tipAt: now, clicks: make(chan menu.ID, 8), cancel: cancel}
	bar.SetIcon(v.Icon)
	b.add(ctx, nil, v.Items)
	return b
}

func (b *Board) add(ctx context.Context, parent Item, items []menu.Item) {
	for _, i := range items {
		if i.ID == menu.Line {
			b.bar.AddLine()
			b.items = append(b.items, shown{last: i})
			continue
		}
		on, clicked := b.bar.Add(parent, i)
		b.items = append(b.items, shown{on: on, last: i})
		b.wg.Go(func() { b.listen(ctx, i.ID, clicked) })
		b.add(ctx, on, i.Children)
	}
}

// listen passes clicks on; when nobody takes them, more are of no use.
func (b *Board) listen(ctx context.Context, id menu.ID, clicked <-chan struct{}) {
	for {
		select {
		case <-ctx.Done():
			return
		case _, ok := <-clicked:
			if !ok {
				return
			}
			select {
			case b.clicks <- id:
			default:
			}
		}
	}
}

// Clicked gives the items that were clicked.
func (b *Board) Clicked() <-chan menu.ID { return b.clicks }

// Close ends what waits for clicks; the items stay where they are.
func (b *Board) Close() {
	b.cancel()
	b.wg.Wait()
}

// Show changes what differs from the view shown before. A tooltip that changes
// too soon has to wait: again is how long until Show should be called once more,
// 0 when all is shown.
func (b *Board) Show(v menu.View, now time.Time) (again time.Duration) {
	if v.Icon != b.icon {
		b.icon = v.Icon
		b.bar.SetIcon(v.Icon)
	}
	b.change(v.Items, 0)
	if v.Tooltip == b.tip {
		return 0
	}
	if wait := TooltipEvery - now.Sub(b.tipAt); wait > 0 {
		return wait
	}
	b.tip, b.tipAt = v.Tooltip, now
	b.bar.SetTooltip(v.Tooltip)
	return 0
}

// change goes through the items from the one with index i on, and returns the
// index behind them.
func (b *Board) change(items []menu.Item, i int) int {
	for _, next := range items {
		s := &b.items[i]
		i++
		if s.on != nil {
			if next.Title != s.last.Title {
				s.on.SetTitle(next.Title)
			}
			if next.Checked != s.last.Checked {
				s.on.SetChecked(next.Checked)
			}
			if next.Enabled != s.last.Enabled {
				s.on.SetEnabled(next.Enabled)
			}
			if next.Visible != s.last.Visible {
				s.on.SetVisible(next.Visible)
			}
			s.last = next
		}
		i = b.change(next.Children, i)
	}
	return i
}
