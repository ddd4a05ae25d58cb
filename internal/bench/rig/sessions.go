package rig

import (
	"context"
	"crypto/ed25519"

	"neuron/engine/gateway"
	"neuron/engine/protocol"
	"neuron/engine/session"
)

// router gives leases over fixed nodes to a session manager. It implements
// session.Router and session.Texts.
type router struct {
	n     *Network
	nodes []*Node
}

func (r router) Route(_ context.Context, q protocol.RouteRequest) (*protocol.RouteReply, error) {
	s, _, err := r.n.lease(q.Session, q.Context, r.nodes...)
	return &protocol.RouteReply{Lease: s}, err
}

func (r router) Models(context.Context) ([]protocol.ModelInfo, error) { return nil, nil }
func (r router) TrackerKey() ed25519.PublicKey                        { return r.n.key.Public().(ed25519.PublicKey) }
func (r router) SendSession(protocol.Telemetry)                       {}

func (r router) HopFailed(protocol.SessionID, protocol.NodeID, *protocol.Error) {}

// Text has no tools: prompts here are token ids.
func (r router) Text(context.Context, string) (gateway.TextModel, error) {
	return nil, protocol.Errorf(protocol.CodeModelUnknown, "no text tools")
}

// Manager drives sessions over these nodes as a gateway would. The caller closes
// it.
func (n *Network) Manager(nodes ...*Node) (*session.Manager, error) {
	r := router{n, nodes}
	// A route that is slow for a while is measured, not given up.
	return session.New(session.Options{Node: n.id.ID(), Hops: session.SeamHops{Client: n.client}, Router: r, Texts: r})
}

// Ask is a request for an answer of that many tokens, without guesses and
// without what earlier sessions left.
func Ask(c *protocol.Capability, prompt, tokens int) gateway.GenerateRequest {
	return gateway.GenerateRequest{Request: "bench", Model: string(c.Model), Prompt: Prompt(prompt), MaxTokens: tokens,
		Sampler: protocol.Sampler{IgnoreEOG: true}, Policy: protocol.PolicyPublic, NoDraft: true, NoPrefix: true}
}

// Prompt is n token ids that every vocabulary here has.
func Prompt(n int) []int32 {
	ids := make([]int32, n)
	for i := range ids {
		ids[i] = int32(64 + i%64)
	}
	return ids
}
