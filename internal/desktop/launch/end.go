package launch

import (
	"context"
	"errors"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/desktop/instance"
)

// EndAll ends tray, window and engine of the data folder in order and returns
// when none of them answers any more; nil when none did. The engine finishes its
// sessions and answers first, for a minute at most. Errors: timeout, and those of the
// local API.
func (p *Programs) EndAll(ctx context.Context) error {
	// The tray first, which ends the other two itself: it would start an engine
	// again that another hand has ended. What it cannot end is tried once more.
	if err := p.gone(ctx, instance.Tray, instance.Send(ctx, p.Data, instance.Tray, instance.Quit)); err != nil {
		return err
	}
	if err := p.gone(ctx, instance.Window, p.EndWindow(ctx)); err != nil {
		return err
	}
	return p.StopEngine(ctx)
}

// gone waits until no program of a kind answers. asked is what came of asking it
// to end: one that has ended meanwhile could not be asked.
func (p *Programs) gone(ctx context.Context, kind string, asked error) error {
	if asked != nil && !errors.Is(asked, &protocol.Error{Code: protocol.CodeNotFound}) {
		return asked
	}
	look := time.NewTicker(100 * time.Millisecond)
	defer look.Stop()
	for instance.Running(p.Data, kind) {
		select {
		case <-ctx.Done():
			return protocol.Errorf(protocol.CodeTimeout, "the %s has not ended in time: %w", kind, ctx.Err())
		case <-look.C:
		}
	}
	return nil
}
