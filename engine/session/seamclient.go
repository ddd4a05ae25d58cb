package session

import (
	"context"

	"neuron/engine/protocol"
	"neuron/engine/seam/seamclient"
)

// SeamHops makes the seam client a Hops: it only gives its two stream types
// the names of this package.
type SeamHops struct{ *seamclient.Client }

var _ Hops = SeamHops{}

// Stream opens the row stream of hop 0.
func (s SeamHops) Stream(ctx context.Context, hop protocol.Hop, id protocol.SessionID) (Stream, error) {
	st, err := s.Client.Stream(ctx, hop, id)
	if err != nil {
		return nil, err // not a typed nil in st
	}
	return st, nil
}

// Tokens opens the token stream of the tail.
func (s SeamHops) Tokens(ctx context.Context, hop protocol.Hop, id protocol.SessionID) (TokenStream, error) {
	st, err := s.Client.Tokens(ctx, hop, id)
	if err != nil {
		return nil, err
	}
	return st, nil
}
