package program

import (
	"context"
	"log/slog"
	"maps"
	"sync"
	"time"

	"neuron/engine/protocol"
)

// pinger measures round trips; *seamclient.Client satisfies it.
type pinger interface {
	Ping(ctx context.Context, addr string, node protocol.NodeID) (time.Duration, error)
}

const (
	pingRound   = 15 * time.Second // between measurements
	pingTimeout = 3 * time.Second
	pingTries   = 3 // the best of: noise only adds
	maxPeers    = 256
)

// peers measures round trips to the nodes that the tracker names.
type peers struct {
	ping pinger
	self protocol.NodeID
	log  *slog.Logger
	wake chan struct{}

	mu      sync.Mutex
	changed func()                    // called after each round; guarded by mu
	list    []protocol.Peer           // guarded by mu
	rtt     map[protocol.NodeID]int64 // microseconds; guarded by mu
}

func newPeers(p pinger, self protocol.NodeID, log *slog.Logger) *peers {
	return &peers{ping: p, self: self, log: log, wake: make(chan struct{}, 1), rtt: map[protocol.NodeID]int64{}}
}

// set replaces the list; the next round starts at once.
func (p *peers) set(list []protocol.Peer) {
	p.mu.Lock()
	p.list = append([]protocol.Peer(nil), list[:min(len(list), maxPeers)]...)
	keep := map[protocol.NodeID]bool{}
	for _, x := range p.list {
		keep[x.Node] = true
	}
	maps.DeleteFunc(p.rtt, func(n protocol.NodeID, _ int64) bool { return !keep[n] })
	p.mu.Unlock()
	select {
	case p.wake <- struct{}{}:
	default:
	}
}

// onRound sets what is called after each round of measurements.
func (p *peers) onRound(f func()) {
	p.mu.Lock()
	p.changed = f
	p.mu.Unlock()
}

// snapshot is what was measured, in microseconds.
func (p *peers) snapshot() map[protocol.NodeID]int64 {
	p.mu.Lock()
	defer p.mu.Unlock()
	return maps.Clone(p.rtt)
}

// run measures until ctx ends.
func (p *peers) run(ctx context.Context) {
	tick := time.NewTicker(pingRound)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		case <-p.wake:
		}
		p.mu.Lock()
		list, changed := p.list, p.changed
		p.mu.Unlock()
		for _, peer := range list {
			if peer.Node != p.self && peer.Addr != "" {
				p.measure(ctx, peer)
			}
		}
		if changed != nil && len(list) > 0 && ctx.Err() == nil {
			changed()
		}
	}
}

func (p *peers) measure(ctx context.Context, peer protocol.Peer) {
	var best time.Duration
	for range pingTries {
		pctx, cancel := context.WithTimeout(ctx, pingTimeout)
		d, err := p.ping.Ping(pctx, peer.Addr, peer.Node)
		cancel()
		if err != nil {
			p.log.Debug("Peer does not answer", "node", peer.Node.Short(), "error", err)
			p.mu.Lock()
			delete(p.rtt, peer.Node)
			p.mu.Unlock()
			return
		}
		if best == 0 || d < best {
			best = d
		}
	}
	p.mu.Lock()
	p.rtt[peer.Node] = best.Microseconds()
	p.mu.Unlock()
}
