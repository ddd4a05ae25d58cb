package bench

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
	"neuron/internal/identity"
	"neuron/internal/localnet"
)

// network is a tracker and engines as processes on loopback. This process
// signs leases with the tracker's key, so that it chooses the routes.
type network struct {
	net    *localnet.Net
	key    ed25519.PrivateKey
	id     *identity.Identity
	client *seamclient.Client
}

// node is an engine that is ready.
type node struct {
	proc  *localnet.Node
	hop   protocol.Hop
	capab *protocol.Capability
}

const readyWait = 2 * time.Minute

func startNetwork(ctx context.Context, bin, dir string) (_ *network, err error) {
	n := &network{}
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

func (n *network) stop() error {
	n.client.Close()
	return n.net.Stop()
}

// node starts an engine and waits until its stage is ready.
func (n *network) node(ctx context.Context, name, model, layers string, threads, chunk int) (*node, error) {
	p, err := n.net.StartNode(ctx, name, localnet.NodeOptions{
		Model: model, Layers: layers, Args: []string{"--threads", strconv.Itoa(threads), "--chunk", strconv.Itoa(chunk)},
	})
	if err != nil {
		return nil, err
	}
	x := &node{proc: p, hop: protocol.Hop{Node: protocol.NodeID(p.ID), Addr: p.Seam}}
	err = retry(ctx, func() (err error) {
		x.capab, err = n.client.Report(ctx, p.Seam, x.hop.Node)
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("%s: %w", name, err)
	}
	x.hop.Use = x.capab.Loaded
	return x, nil
}

// forget stops engines.
func (n *network) forget(nodes ...*node) error {
	var err error
	for _, x := range nodes {
		err = errors.Join(err, n.net.Forget(x.proc.Proc))
	}
	return err
}

// retry repeats f while a node is starting.
func retry(ctx context.Context, f func() error) error {
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
func (n *network) lease(id protocol.SessionID, cells int, nodes ...*node) (*protocol.SignedLease, *protocol.Lease, error) {
	first := nodes[0].capab
	l := &protocol.Lease{
		Version: protocol.Version, Session: id, Model: first.Model, Layers: first.Layers, Driver: n.id.ID(),
		Context: cells, DType: protocol.DTypeF32, EngineBuild: first.Build, Policy: protocol.PolicyPublic,
		Issued: time.Now(), Expires: time.Now().Add(time.Hour),
	}
	for _, x := range nodes {
		l.Hops = append(l.Hops, x.hop)
	}
	s, err := protocol.SignLease(l, n.key)
	return s, l, err
}

// network starts the tracker at the first call.
func (r *run) network(ctx context.Context) (_ *network, err error) {
	if r.net == nil {
		r.net, err = startNetwork(ctx, r.o.Bin, filepath.Join(r.o.Dir, "data"))
	}
	return r.net, err
}

func (r *run) stopNetwork() error {
	if r.net == nil {
		return nil
	}
	err := r.net.stop()
	r.net = nil
	return err
}
