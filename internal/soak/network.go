package soak

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"

	"neuron/internal/chaos"
	"neuron/internal/localnet"
)

// Paths from the repository's root, where the command runs.
const (
	guide     = "assets/model/guide-q8_0.gguf"
	guideName = "guide-q8_0"
)

// layers overlap: the first node is in every route, and either of the others
// completes it, at another cut. All routes have two hops.
var layers = []string{"0-5", "3-8", "2-8"}

// network is what the run breaks and asks.
type network struct {
	net     *localnet.Net
	gateway *localnet.Proc
	asker   chaos.Asker

	mu    sync.Mutex
	nodes []*localnet.Node // replaced when an engine is started again; guarded by mu
}

func startNetwork(ctx context.Context, bin, data string) (_ *network, err error) {
	n := &network{}
	if n.net, err = localnet.Start(ctx, localnet.Options{Bin: bin, Data: data}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.net.Stop())
		}
	}()
	for i := range layers {
		x, err := n.start(ctx, i)
		if err != nil {
			return nil, err
		}
		n.nodes = append(n.nodes, x)
	}
	if n.gateway, err = n.net.StartGateway(ctx, "gateway", []string{guide}); err != nil {
		return nil, err
	}
	end, err := localnet.Endpoint(n.gateway)
	if err != nil {
		return nil, err
	}
	n.asker = chaos.Asker{URL: end.URL, Key: end.Key}
	return n, n.quiet(ctx, time.Minute)
}

func (n *network) start(ctx context.Context, i int) (*localnet.Node, error) {
	return n.net.StartNode(ctx, fmt.Sprintf("node-%d", i), localnet.NodeOptions{Model: guide, Layers: layers[i]})
}

func (n *network) current() []*localnet.Node {
	n.mu.Lock()
	defer n.mu.Unlock()
	return append([]*localnet.Node(nil), n.nodes...)
}

// quiet waits until all nodes are ready and hold nothing.
func (n *network) quiet(ctx context.Context, within time.Duration) error {
	from := time.Now()
	for i, x := range n.current() {
		what := fmt.Sprintf("node %d ready and idle", i)
		if _, err := chaos.Until(ctx, x.Data, from, within, what, func(l chaos.Look) bool { return l.Ready() && l.Idle() }); err != nil {
			return err
		}
	}
	_, err := n.net.WaitRoute(ctx, guideName, within)
	return err
}

// strike does one blow and returns when it is over. The end of ctx cuts the
// waiting short, never the repair.
func (n *network) strike(ctx context.Context, b blow) error {
	wait := func() {
		select {
		case <-time.After(b.lasts):
		case <-ctx.Done():
		}
	}
	x := n.current()[b.node]
	switch b.what {
	case pressure:
		ctx, cancel := context.WithTimeout(ctx, b.lasts)
		defer cancel()
		chaos.Burn(ctx, b.cores)
	case killStage, freezeStage:
		l, err := chaos.At(ctx, x.Data)
		if err != nil || len(l.Status.StagePIDs) != 1 {
			return nil // it is down from the blow before
		}
		sig := syscall.SIGKILL
		if b.what == freezeStage {
			sig = syscall.SIGSTOP // its engine finds and kills it
		}
		if err := syscall.Kill(l.Status.StagePIDs[0], sig); err != nil && !errors.Is(err, syscall.ESRCH) {
			return fmt.Errorf("%s: %w", b, err)
		}
	case killEngine:
		if err := n.net.Kill(x.Proc); err != nil {
			return err
		}
		wait()
		again, err := n.start(context.WithoutCancel(ctx), b.node)
		if err != nil {
			return err
		}
		n.mu.Lock()
		n.nodes[b.node] = again
		n.mu.Unlock()
	case freezeEngine:
		if err := x.Freeze(); err != nil {
			return err
		}
		wait()
		return x.Thaw()
	}
	return nil
}
