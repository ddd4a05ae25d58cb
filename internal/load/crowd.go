package load

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"neuron/engine/control"
	"neuron/engine/protocol"
	"neuron/internal/identity"
	"neuron/internal/localnet"
)

// build is what simulated engines say they are made of.
var build = protocol.Build{Protocol: protocol.Version, Llama: "simulated"}

// node is a simulated node or gateway.
type node struct {
	id     *identity.Identity
	signer *signer
	client *control.Client
	report protocol.Report
}

// crowd is all of them, with one goroutine each besides those of their clients.
type crowd struct {
	o        *Options
	url      string
	http     *http.Client
	tls      *tls.Config
	nodes    []*node
	gateways []*node
	byID     map[protocol.NodeID]*node

	run    context.Context // of the clients
	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	errs    []error     // guarded by mu
	arrived []time.Time // of connections since the last reset; guarded by mu
	changed chan struct{}
}

func newCrowd(ctx context.Context, o *Options, url string, roots *x509.CertPool, ids []*identity.Identity, models []model) (*crowd, error) {
	c := &crowd{o: o, url: url, tls: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, byID: map[protocol.NodeID]*node{}, changed: make(chan struct{}, 1)}
	c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: c.tls, MaxIdleConnsPerHost: 16}, Timeout: 20 * time.Second}
	runCtx, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	for i, id := range ids {
		sign, err := newSigner(id.PrivateKey())
		if err != nil {
			cancel()
			return nil, err
		}
		n := &node{id: id, signer: sign}
		role := protocol.RoleNode
		if i >= o.Nodes {
			role = protocol.RoleGateway
			c.gateways = append(c.gateways, n)
		} else {
			half := protocol.Range{First: 0, Last: layers / 2}
			if i/len(models)%2 == 1 {
				half = protocol.Range{First: layers / 2, Last: layers}
			}
			n.report = report1(models[i%len(models)], half)
			c.nodes = append(c.nodes, n)
		}
		c.byID[id.ID()] = n
		if n.client, err = control.New(control.Options{
			URL: url, Identity: id, Role: role, Build: build, Engine: "simulated", Addr: "127.0.0.1:9", Host: "simulated", TLS: c.tls,
			Report: func() protocol.Report { return n.report }, Logger: slog.New(slog.DiscardHandler),
			OnState: func(s control.State) {
				if s.Status == control.StatusConnected {
					c.arrive()
				}
			},
			HandshakeTimeout: 30 * time.Second, CallTimeout: 30 * time.Second,
		}); err != nil {
			cancel()
			return nil, err
		}
	}
	c.run = runCtx
	return c, nil
}

// report1 is a node that holds one range and is good in everything.
func report1(m model, r protocol.Range) protocol.Report {
	n := int64(r.Len())
	return protocol.Report{FreeMemory: 8 << 30, FreeDisk: 100 << 30, Shards: []protocol.ShardReport{{
		State: protocol.ShardReady, FreeKVBytes: 1 << 30, MaxSessions: 64, StepMicros: 5000 * n, ChunkMicros: 50_000 * n,
		Capability: protocol.Capability{
			Model: m.id, Name: m.name, Architecture: "llama", Layers: layers, Loaded: r, Head: r.First == 0, Tail: r.Last == layers,
			Width: 64, DTypes: []string{"f32"}, KVBytesPerCell: 256 * n, MaxContext: 4096, ChunkRows: 64, Build: build,
		},
	}}}
}

// joinsPerSecond is how fast the crowd comes the first time.
const joinsPerSecond = 400

func (c *crowd) start(ctx context.Context) {
	t := time.NewTicker(time.Second / joinsPerSecond)
	defer t.Stop()
	for _, n := range slices.Concat(c.gateways, c.nodes) {
		select {
		case <-ctx.Done():
			return
		case <-t.C:
		}
		c.wg.Go(func() {
			if err := n.client.Run(ctx); err != nil {
				c.fail(err)
			}
		})
	}
}

func (c *crowd) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if len(c.errs) < 10 {
		c.errs = append(c.errs, err)
	}
}

func (c *crowd) arrive() {
	c.mu.Lock()
	c.arrived = append(c.arrived, time.Now())
	c.mu.Unlock()
	select {
	case c.changed <- struct{}{}:
	default:
	}
}

// end stops all clients; it may be called twice.
func (c *crowd) end() error {
	c.cancel()
	c.wg.Wait()
	c.http.CloseIdleConnections()
	c.mu.Lock()
	defer c.mu.Unlock()
	err := errors.Join(c.errs...)
	c.errs = nil
	return err
}

// all waits until everybody is connected.
func (c *crowd) all(ctx context.Context, within time.Duration) error {
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	for {
		left := 0
		for _, n := range c.byID {
			if !n.client.Connected() {
				left++
			}
		}
		if left == 0 {
			return nil
		}
		select {
		case <-c.changed:
		case <-ctx.Done():
			return fmt.Errorf("%d of %d are not connected after %s", left, len(c.byID), within)
		}
		if err := wait(ctx, 50*time.Millisecond); err != nil { // many come at a time
			return fmt.Errorf("%d of %d are not connected after %s", left, len(c.byID), within)
		}
	}
}

func (c *crowd) join(ctx context.Context) (time.Duration, error) {
	from := time.Now()
	c.wg.Go(func() { c.start(c.run) })
	err := c.all(ctx, 5*time.Minute)
	return time.Since(from), err
}

// comeback is the return of a crowd.
type comeback struct {
	half, all time.Duration
	peak      int // most connections in one second
}

// restart restarts the tracker and watches everybody come back.
func (c *crowd) restart(ctx context.Context, n *localnet.Net) (comeback, error) {
	c.mu.Lock()
	c.arrived = nil
	c.mu.Unlock()
	from := time.Now()
	if err := n.RestartTracker(ctx); err != nil {
		return comeback{}, err
	}
	if err := c.all(ctx, 3*time.Minute); err != nil {
		return comeback{}, err
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	slices.SortFunc(c.arrived, time.Time.Compare)
	b := comeback{half: c.arrived[len(c.arrived)/2].Sub(from), all: c.arrived[len(c.arrived)-1].Sub(from)}
	for i, first := 0, 0; i < len(c.arrived); i++ {
		for c.arrived[i].Sub(c.arrived[first]) > time.Second {
			first++
		}
		b.peak = max(b.peak, i-first+1)
	}
	return b, nil
}
