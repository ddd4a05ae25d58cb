package desktop

import (
	"context"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// ordered is what a node is to hold: fields of the settings.
type ordered struct{ model, layers string }

// keepHeld passes changes of what is to be held on to the node that runs.
func (e *Engine) keepHeld(ctx context.Context) {
	for ctx.Err() == nil {
		s, changed := e.settings.Watch()
		want := ordered{s.Model, s.Layers}
		e.mu.Lock()
		node, has := e.node, e.held
		e.mu.Unlock()
		if node != nil && has != want {
			err := node.Source().Hold(ctx, localapi.Hold{Model: want.model, Layers: want.layers})
			if ctx.Err() != nil {
				return
			}
			e.noteHeld(has, want, err)
		}
		select {
		case <-changed:
		case <-e.fresh:
		case <-ctx.Done():
		}
	}
}

// noteHeld says what came of an order, unless another one came meanwhile.
func (e *Engine) noteHeld(was, now ordered, err error) {
	e.mu.Lock()
	if e.held == was {
		e.held, e.holdErr = now, nil
		if err != nil {
			e.holdErr = protocol.AsError(err)
		}
	}
	e.mu.Unlock()
	e.nodeNews()
}
