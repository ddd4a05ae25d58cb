package chat

import (
	"context"

	"neuron/app/chat/completion"
	"neuron/engine/protocol"
	"neuron/internal/desktop/link"
)

// Linked is the engine that a link finds.
type Linked struct{ *link.Link }

// API implements Engine.
func (l Linked) API(ctx context.Context) (API, error) {
	c := l.Client()
	if c == nil {
		return nil, protocol.Errorf(protocol.CodeUnavailable, "no engine is running")
	}
	a, err := c.Access(ctx)
	if err != nil {
		return nil, err
	}
	return completion.New(a.URL, a.Key), nil
}
