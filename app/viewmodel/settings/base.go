package settings

import (
	"sync"

	"neuron/app/viewmodel/task"
	"neuron/engine/protocol"
)

// base is what the models of this package have in common: a view, and the
// goroutines that change it.
type base[V any] struct {
	tasks *task.Group

	mu   sync.Mutex
	view V // guarded by mu
}

// Changed gives a value after each change of View.
func (b *base[V]) Changed() <-chan struct{} { return b.tasks.Changed() }

// Close ends the goroutines and waits for them.
func (b *base[V]) Close() { b.tasks.Close() }

// View is the present state; what it points to is not changed any more.
func (b *base[V]) View() V {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.view
}

func (b *base[V]) set(f func(*V)) {
	b.mu.Lock()
	f(&b.view)
	b.mu.Unlock()
	b.tasks.Tell()
}

// gone is what an order comes to while no engine answers.
func gone() error {
	return protocol.Errorf(protocol.CodeUnavailable, "the engine does not run")
}
