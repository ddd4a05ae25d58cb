// Package rig is the network that is measured: a tracker, engines and gateways
// as real processes on loopback, routes over them that this process drives
// itself, and lines with a delay between them.
//
// Only internal/bench imports it. It measures nothing.
package rig

import (
	"context"
	"crypto/ed25519"
	"crypto/x509"
	"encoding/pem"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"neuron/engine/protocol"
	"neuron/engine/seam/seamclient"
	"neuron/internal/bench/chatload"
	"neuron/internal/identity"
	"neuron/internal/localnet"
)

// Network is a tracker and engines as processes on loopback. This process
// signs leases with the tracker's key, so that it chooses the routes.
type Network struct {
	net    *localnet.Net
	key    ed25519.PrivateKey
	id     *identity.Identity
	client *seamclient.Client
}

// Node is an engine that is ready.
type Node struct {
	Proc  *localnet.Node
	Hop   protocol.Hop
	Capab *protocol.Capability
}

const readyWait = 2 * time.Minute

// Start starts the tracker; dir keeps the data and logs.
func Start(ctx context.Context, bin, dir string) (_ *Network, err error) {
	n := &Network{}
	if n.net, err = localnet.Start(ctx, localnet.Options{Bin: bin, Data: dir, LogLevel: "warn"}); err != nil {
		return nil, err
	}
	if n.key, err = readKey(filepath.Join(n.net.Tracker.Data, "tracker.key")); err == nil {
		n.id, err = identity.New()
	}
	if err != nil {
		return nil, errors.Join(err, n.net.Stop())
	}
	n.client = seamclient.New(n.id)
	return n, nil
}

// readKey reads the tracker's signing key, PKCS #8 in PEM.
func readKey(path string) (ed25519.PrivateKey, error) {
	raw, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("tracker key: %w", err)
	}
	block, _ := pem.Decode(raw)
	if block == nil {
		return nil, fmt.Errorf("tracker key: %s is not PEM", path)
	}
	k, err := x509.ParsePKCS8PrivateKey(block.Bytes)
	if err != nil {
		return nil, fmt.Errorf("tracker key: %w", err)
	}
	key, ok := k.(ed25519.PrivateKey)
	if !ok {
		return nil, fmt.Errorf("tracker key: %T", k)
	}
	return key, nil
}

// Stop ends all processes.
func (n *Network) Stop() error {
	n.client.Close()
	return n.net.Stop()
}

// Node starts an engine, with more flags of "neuron-engine run", and waits until
// its stage is ready.
func (n *Network) Node(ctx context.Context, name, model, layers string, threads, chunk int, more ...string) (*Node, error) {
	p, err := n.net.StartNode(ctx, name, localnet.NodeOptions{
		Model: model, Layers: layers, Args: append([]string{"--threads", strconv.Itoa(threads), "--chunk", strconv.Itoa(chunk)}, more...),
	})
	if err != nil {
		return nil, err
	}
	x := &Node{Proc: p, Hop: protocol.Hop{Node: protocol.NodeID(p.ID), Addr: p.Seam}}
	err = Retry(ctx, func() (err error) {
		x.Capab, err = n.client.Report(ctx, p.Seam, x.Hop.Node)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	x.Hop.Use = x.Capab.Loaded
	return x, nil
}

// Forget stops engines.
func (n *Network) Forget(nodes ...*Node) error {
	var err error
	for _, x := range nodes {
		err = errors.Join(err, n.net.Forget(x.Proc.Proc))
	}
	return err
}

// Retry repeats f while a node is starting.
func Retry(ctx context.Context, f func() error) error {
	ctx, cancel := context.WithTimeout(ctx, readyWait)
	defer cancel()
	tick := time.NewTicker(50 * time.Millisecond)
	defer tick.Stop()
	for {
		err := f()
		if err == nil || protocol.AsError(err).Code != protocol.CodeUnavailable {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return errors.Join(err, context.Cause(ctx))
		}
	}
}

// lease signs a lease over nodes in order.
//
// Its routes are private: the driver here signs no receipts, and hops that are
// owed signatures end a session after some seconds.
func (n *Network) lease(id protocol.SessionID, cells int, nodes ...*Node) (*protocol.SignedLease, *protocol.Lease, error) {
	first := nodes[0].Capab
	l := &protocol.Lease{
		Version: protocol.Version, Session: id, Model: first.Model, Layers: first.Layers, Driver: n.id.ID(),
		Context: cells, DType: protocol.DTypeF32, EngineBuild: first.Build, Policy: protocol.PolicyPrivate,
		Issued: time.Now(), Expires: time.Now().Add(time.Hour),
	}
	for _, x := range nodes {
		l.Hops = append(l.Hops, x.Hop)
	}
	s, err := protocol.SignLease(l, n.key)
	return s, l, err
}

// Using is the same node, of which a route uses that part of its layers.
func (x *Node) Using(first, last int) *Node {
	y := *x
	y.Hop.Use = protocol.Range{First: first, Last: last}
	return &y
}

// Via is the same node, reached over a line to it.
func (x *Node) Via(l *Line) *Node {
	y := *x
	y.Hop.Addr = l.Addr()
	return &y
}

// Gateway starts a gateway that knows the text of a model file, and waits until
// the tracker has a route for the model.
func (n *Network) Gateway(ctx context.Context, name, model string, id protocol.ModelID, args ...string) (*localnet.Proc, *chatload.Client, error) {
	p, err := n.net.StartGateway(ctx, name, []string{model}, args...)
	if err != nil {
		return nil, nil, err
	}
	e, err := localnet.Endpoint(p)
	if err == nil {
		_, err = n.net.WaitRoute(ctx, string(id), readyWait)
	}
	if err != nil {
		return nil, nil, errors.Join(err, n.net.Forget(p))
	}
	return p, &chatload.Client{URL: e.URL, Key: e.Key, Model: string(id)}, nil
}

// End stops a process that is no node.
func (n *Network) End(p *localnet.Proc) error { return n.net.Forget(p) }
