package x11

import (
	"context"
	"fmt"
	"time"

	"github.com/jezek/xgb/screensaver"
	"github.com/jezek/xgb/xproto"

	"neuron/engine/host/source"
)

// Idle is the time since the last input that this X server has seen. On a
// Wayland desktop that is only what went to X programs, and worthless.
func (d *Display) Idle(ctx context.Context) (time.Duration, error) {
	var idle time.Duration
	err := d.ask(ctx, func() error {
		there, err := d.extension("MIT-SCREEN-SAVER")
		if err != nil {
			return fmt.Errorf("screen saver extension: %w", err)
		}
		if !there {
			return source.NotTold("the X server has no screen saver extension")
		}
		r, err := screensaver.QueryInfo(d.conn, xproto.Drawable(d.root())).Reply()
		if err != nil {
			return fmt.Errorf("idle time: %w", err)
		}
		idle = time.Duration(r.MsSinceUserInput) * time.Millisecond
		return nil
	})
	return idle, err
}
