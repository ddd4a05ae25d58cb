package routing

import (
	"strconv"

	"neuron/engine/protocol"
)

// Prices of what nobody has measured, and of a hop itself. They are high on
// purpose: a measured node wins over an unknown one.
const (
	// DefaultStepPerLayer is the decode time of a layer on a slow computer.
	DefaultStepPerLayer = 20_000 // us
	// DefaultRTT is a slow home connection's round trip.
	DefaultRTT = 60_000 // us
	// HopOverhead covers framing, TLS and two wake-ups per hop and token.
	HopOverhead = 500 // us

	maxQueueRows   = 64 // rows waiting that count
	pressureWeight = 4  // full memory pressure costs this many times the stage
	minAnswer      = 64 // tokens over which prefill is spread at least
)

// stageCost is what using the first used layers of s costs per token, without
// the link.
func stageCost(s *Shard, used int, r Request) Cost {
	loaded := int64(s.Loaded.Len())
	step := s.StepMicros
	if step <= 0 {
		step = DefaultStepPerLayer * loaded
	}
	stage := ceilDiv(step*int64(used), loaded)
	c := Cost{Stage: stage, Overhead: HopOverhead}
	// Sessions on one stage take turns: each one that is active adds half a
	// step on average, each waiting row one.
	c.Load = stage*int64(s.Sessions)/2 + stage*int64(min(s.Queue, maxQueueRows))
	c.Memory = (stage + HopOverhead) * pressureWeight * s.Pressure * s.Pressure / 1_000_000
	if r.Prompt > 0 {
		rows := int64(max(s.ChunkRows, 1))
		chunk := s.ChunkMicros
		if chunk <= 0 {
			chunk = step * rows / 8 // batches are cheaper than single rows
		}
		answer := int64(max(r.Context-r.Prompt, minAnswer))
		c.Prefill = ceilDiv(chunk*int64(used), loaded) * ceilDiv(int64(r.Prompt), rows) / answer
	}
	return c
}

// kvBytes is what a session reserves on s: a stage keeps KV for all layers that
// it has loaded, also for a session that leaves it early.
func kvBytes(s *Shard, cells int) int64 { return s.KVPerCell * int64(cells) }

// between is the one-way time from hop a to hop b: a token crosses each link
// once, so half the round trip counts.
func (n *Network) between(a, b protocol.NodeID) int64 {
	if n.RTT != nil {
		if us, ok := n.RTT(a, b); ok {
			return ceilDiv(us, 2)
		}
	}
	return DefaultRTT / 2
}

// gatewayLink is the one-way time between the gateway and a hop. The gateway's
// own measurement comes first.
func (n *Network) gatewayLink(r Request, node protocol.NodeID) int64 {
	if node == r.Gateway {
		return 0
	}
	if us, ok := r.RTT[node]; ok {
		return ceilDiv(us, 2)
	}
	return n.between(r.Gateway, node)
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

func itoa(n int) string { return strconv.Itoa(n) }
