package load

import (
	"bytes"
	"context"
	"crypto/ed25519"
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"slices"
	"sync"
	"time"

	"neuron/engine/control"
	"neuron/engine/protocol"
	"neuron/internal/identity"
	"neuron/internal/localnet"
	"neuron/internal/owner"
)

// build is what simulated engines say they are made of.
var build = protocol.Build{Protocol: protocol.Version, Llama: "simulated"}

// node is a simulated node or gateway.
type node struct {
	id     *identity.Identity
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

	cancel context.CancelFunc
	wg     sync.WaitGroup

	mu      sync.Mutex
	errs    []error     // guarded by mu
	arrived []time.Time // of connections since the last reset; guarded by mu
	changed chan struct{}
}

func newCrowd(ctx context.Context, o *Options, url string, roots *x509.CertPool, models []model) (*crowd, error) {
	c := &crowd{o: o, url: url, tls: &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}, byID: map[protocol.NodeID]*node{}, changed: make(chan struct{}, 1)}
	c.http = &http.Client{Transport: &http.Transport{TLSClientConfig: c.tls, MaxIdleConnsPerHost: 16}, Timeout: 20 * time.Second}
	runCtx, cancel := context.WithCancel(ctx)
	c.cancel = cancel
	for i := range o.Nodes + o.Gateways {
		id, err := identity.New()
		if err != nil {
			cancel()
			return nil, err
		}
		n := &node{id: id}
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
	c.wg.Go(func() { c.start(runCtx) })
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

// bind gives the nodes to owners and the gateways to one more, through the
// tracker's account API.
func (c *crowd) bind(ctx context.Context) (time.Duration, error) {
	from := time.Now()
	keys := make([]ed25519.PrivateKey, c.o.Owners+1)
	for i := range keys {
		_, key, err := ed25519.GenerateKey(nil)
		if err != nil {
			return 0, err
		}
		keys[i] = key
	}
	work := make(chan func() error)
	errs := make(chan error, 16)
	for range cap(errs) {
		go func() {
			var err error
			for f := range work {
				if err == nil {
					err = f()
				}
			}
			errs <- err
		}()
	}
	for i, n := range slices.Concat(c.nodes, c.gateways) {
		key := keys[c.o.Owners]
		if i < len(c.nodes) {
			key = keys[i%c.o.Owners]
		}
		work <- func() error { return c.bindOne(ctx, n, key) }
	}
	close(work)
	var all error
	for range cap(errs) {
		all = errors.Join(all, <-errs)
	}
	return time.Since(from), all
}

func (c *crowd) bindOne(ctx context.Context, n *node, key ed25519.PrivateKey) error {
	b := owner.NewBinding(n.id.Public(), key.Public().(ed25519.PublicKey), time.Now())
	b.SignNode(n.id.PrivateKey())
	b.SignOwner(key)
	raw, err := json.Marshal(b)
	if err != nil {
		return fmt.Errorf("encode a binding: %w", err)
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, c.url+"/v1/owners/bind", bytes.NewReader(raw))
	if err != nil {
		return err
	}
	req.Header.Set("Content-Type", "application/json")
	resp, err := c.http.Do(req)
	if err != nil {
		return fmt.Errorf("bind a node: %w", err)
	}
	defer resp.Body.Close()
	text, err := io.ReadAll(io.LimitReader(resp.Body, 4096))
	if err != nil {
		return fmt.Errorf("bind a node: %w", err)
	}
	if resp.StatusCode/100 != 2 {
		return fmt.Errorf("bind a node: status %d: %s", resp.StatusCode, text)
	}
	return nil
}
