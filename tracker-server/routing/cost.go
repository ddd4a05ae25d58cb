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
	// RelayMicros is the price of a relay between two hops: its bytes travel
	// twice and share its bandwidth with others.
	RelayMicros = 20_000 // us
	// FairMicros is the price of each session that a node was given lately.
	// It is small: it shares work among equals and moves none to a slower node.
	FairMicros = 100 // us

	maxQueueRows   = 64 // rows waiting that count
	maxRecent      = 64 // sessions given lately that count
	pressureWeight = 4  // full memory pressure costs this many times the stage
	diskWeight     = 1  // and a full disk this many times
	minAnswer      = 64 // tokens over which prefill is spread at least
)

// stageCost is what using the first used layers of s costs per token, without
// the link and without prefill.
func stageCost(s *Shard, used int) Cost {
	loaded := int64(s.Loaded.Len())
	stage := ceilDiv(s.step()*int64(used), loaded)
	c := Cost{Stage: stage, Overhead: HopOverhead}
	// Sessions on one stage take turns: each one that is active adds half a
	// step on average, each waiting row one.
	c.Load = stage * int64(s.Sessions) / 2
	c.Queue = stage * int64(min(s.Queue, maxQueueRows))
	c.Memory = (stage + HopOverhead) * pressureWeight * s.Pressure * s.Pressure / 1_000_000
	c.Disk = (stage + HopOverhead) * diskWeight * s.DiskPressure * s.DiskPressure / 1_000_000
	if s.Relayed {
		c.Relay = RelayMicros
	}
	c.Fair = FairMicros * int64(min(s.Recent, maxRecent))
	return c
}

// chunkCost is the time of one prefill chunk in the first used layers.
func chunkCost(s *Shard, used int) int64 {
	chunk := s.ChunkMicros
	if chunk <= 0 {
		chunk = s.step() * s.rows() / 8 // batches are cheaper than single rows
	}
	return ceilDiv(chunk*int64(used), int64(s.Loaded.Len()))
}

// step is the time of a step in all loaded layers.
func (s *Shard) step() int64 {
	if s.StepMicros > 0 {
		return s.StepMicros
	}
	return DefaultStepPerLayer * int64(s.Loaded.Len())
}

func (s *Shard) rows() int64 { return int64(max(s.ChunkRows, 1)) }

// prefill spreads the time of the prompt over the answer: all is the share of
// a node that knows nothing of it, and saved what cached prefixes take off.
func (r *Request) prefill(s *Shard, chunk int64) (all, saved int64) {
	if r.Prompt <= 0 {
		return 0, 0
	}
	answer := int64(max(r.Context-r.Prompt, minAnswer))
	all = chunk * ceilDiv(int64(r.Prompt), s.rows()) / answer
	if warm := r.warm(s); warm > 0 {
		saved = all - chunk*ceilDiv(int64(r.Prompt-warm), s.rows())/answer
	}
	return all, saved
}

// warm is the number of prompt tokens whose state s has cached.
func (r *Request) warm(s *Shard) int {
	best := 0
	if len(s.Cached) == 0 {
		return 0
	}
	for _, p := range r.Prefixes {
		if p.Tokens > best && p.Tokens <= r.Prompt {
			for _, c := range s.Cached {
				if c == p.ID {
					best = p.Tokens
					break
				}
			}
		}
	}
	return best
}

// kvBytes is what a session reserves on s: a stage keeps KV for all layers that
// it has loaded, also for a session that leaves it early.
func kvBytes(s *Shard, cells int) int64 {
	if len(s.Memory) > 0 {
		return s.Memory.Bytes(cells)
	}
	return s.KVPerCell * int64(cells)
}

// gatewayLink is the one-way time between the gateway and a hop. The gateway's
// own measurement comes first.
func (x *Index) gatewayLink(r *Request, node protocol.NodeID, site int32) int64 {
	if node == r.Gateway {
		return 0
	}
	if us, ok := r.RTT[node]; ok {
		return ceilDiv(us, 2)
	}
	if at, ok := x.links.index[r.Gateway]; ok {
		if half, ok := x.links.half(at, site); ok {
			return half
		}
	}
	return DefaultRTT / 2
}

func ceilDiv(a, b int64) int64 { return (a + b - 1) / b }

func itoa(n int) string { return strconv.Itoa(n) }
