package session

import (
	"context"
	"crypto/ed25519"

	"neuron/engine/gateway"
	"neuron/engine/protocol"
)

// Hops reaches the seams of a route. Calls are safe for concurrent use; errors
// are coded (*protocol.Error) where the other side or the transport said why.
type Hops interface {
	// Open reserves the session on one hop before anything runs.
	Open(ctx context.Context, hop protocol.Hop, r *protocol.OpenRequest) (*protocol.OpenReply, error)
	// State is the hop's view of the session.
	State(ctx context.Context, hop protocol.Hop, s protocol.SessionID) (*protocol.SessionState, error)
	// Release frees the session; releasing an unknown one is no harm.
	Release(ctx context.Context, hop protocol.Hop, s protocol.SessionID) error
	// Stream opens the row stream of hop 0; it returns when the whole chain
	// stands. The stream ends at the latest when ctx does.
	Stream(ctx context.Context, hop protocol.Hop, s protocol.SessionID) (Stream, error)
	// Tokens opens the token stream of the tail; it ends with ctx.
	Tokens(ctx context.Context, hop protocol.Hop, s protocol.SessionID) (TokenStream, error)
}

// Stream carries frames to hop 0 and its acks and errors back.
type Stream interface {
	// Send hands over one frame; it may block while the hop takes nothing.
	Send(ctx context.Context, f *protocol.Frame) error
	// Frames is closed when nothing follows; Err then says why.
	Frames() <-chan *protocol.Frame
	Err() error
	// Close sends the close frame, which ends the session along the route, and
	// waits a bounded time for the stream's end; idempotent.
	Close() error
}

// TokenStream carries the tail's acks, tokens and errors.
type TokenStream interface {
	Frames() <-chan *protocol.Frame
	Err() error
	Close() error
}

// Router is the tracker; *control.Client satisfies it.
type Router interface {
	Route(ctx context.Context, r protocol.RouteRequest) (*protocol.RouteReply, error)
	Models(ctx context.Context) ([]protocol.ModelInfo, error)
	// TrackerKey is the key that leases must carry, nil when none is known.
	TrackerKey() ed25519.PublicKey
	// SendSession and HopFailed never block.
	SendSession(t protocol.Telemetry)
	HopFailed(s protocol.SessionID, n protocol.NodeID, e *protocol.Error)
}

// Texts finds the text tools of a model.
type Texts interface {
	Text(ctx context.Context, model string) (gateway.TextModel, error)
}

var _ gateway.Backend = (*Manager)(nil)
