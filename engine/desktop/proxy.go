package desktop

import (
	"context"

	"neuron/internal/proxy"
)

// useProxy puts the proxy of the settings into use. Parts of the engine call it
// before they connect: their first connection is to go the right way.
func (e *Engine) useProxy() {
	e.proxy.Lock()
	defer e.proxy.Unlock()
	proxy.Use(e.settings.Get().Proxy)
}

// keepProxy follows the settings until ctx ends. Node and gateway, which keep
// connections and processes, are made anew by their plans.
func (e *Engine) keepProxy(ctx context.Context) {
	for ctx.Err() == nil {
		_, changed := e.settings.Watch()
		e.useProxy()
		select {
		case <-changed:
		case <-ctx.Done():
		}
	}
}
