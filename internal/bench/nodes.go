package bench

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"neuron/engine/protocol"
	"neuron/internal/bench/chatload"
	"neuron/internal/bench/rig"
	"neuron/internal/localnet"
)

// chunkRows is the engines' default. Drivers may send smaller chunks.
const chunkRows = 256

// nodeKey is what a node is started with.
type nodeKey struct {
	model, layers string
	threads       int
	more          string
}

// folder is a name for a node's folder, where it keeps its layers: one of the same
// layers if none that runs has it, which saves writing them again.
func (r *run) folder(k nodeKey) string {
	name := strings.TrimSuffix(filepath.Base(k.model), ".gguf") + "-" + k.layers
	used := func(name string) bool {
		for _, x := range r.nodes {
			if x.Proc.Name == name {
				return true
			}
		}
		return false
	}
	if !used(name) {
		return name
	}
	for i := 2; ; i++ {
		if x := fmt.Sprintf("%s-%d", name, i); !used(x) {
			return x
		}
	}
}

// node is a node with these layers and threads: the one that an earlier part has
// started, or a new one. It runs until forget or the end.
func (r *run) node(ctx context.Context, model, layers string, threads int, more ...string) (*rig.Node, error) {
	n, err := r.network(ctx)
	if err != nil {
		return nil, err
	}
	k := nodeKey{model, layers, threads, strings.Join(more, " ")}
	if x, ok := r.nodes[k]; ok {
		return x, nil
	}
	defer r.starting()()
	x, err := n.Node(ctx, r.folder(k), model, layers, threads, chunkRows, more...)
	if err != nil {
		return nil, err
	}
	r.nodes[k] = x
	return x, nil
}

// halves are nodes with the first and the second half of a model's layers.
func (r *run) halves(ctx context.Context, model string, layers, threads int, more ...string) ([]*rig.Node, error) {
	var nodes []*rig.Node
	first, second := halves(layers)
	for _, part := range []string{first, second} {
		x, err := r.node(ctx, model, part, threads, more...)
		if err != nil {
			return nil, err
		}
		nodes = append(nodes, x)
	}
	return nodes, nil
}

// forget stops nodes.
func (r *run) forget(nodes ...*rig.Node) error {
	return r.forgetIf(func(_ nodeKey, x *rig.Node) bool { return slices.Contains(nodes, x) })
}

// forgetOthers stops the other nodes of a model: the tracker could choose them
// for a gateway's routes.
func (r *run) forgetOthers(model string, but ...*rig.Node) error {
	return r.forgetIf(func(k nodeKey, x *rig.Node) bool { return k.model == model && !slices.Contains(but, x) })
}

func (r *run) forgetIf(f func(nodeKey, *rig.Node) bool) error {
	defer r.starting()()
	var err error
	for k, x := range r.nodes {
		if f(k, x) {
			delete(r.nodes, k)
			err = errors.Join(err, r.net.Forget(x))
		}
	}
	return err
}

// alone loads a model into this process.
func (r *run) alone(model string, layers, threads int) (*alone, error) {
	defer r.starting()()
	return loadAlone(model, layers, threads, chunkRows)
}

// gatewayOf starts a gateway with a client.
func (r *run) gatewayOf(ctx context.Context, file string, id protocol.ModelID, args ...string) (*localnet.Proc, *chatload.Client, error) {
	defer r.starting()()
	return r.net.Gateway(ctx, "gateway", file, id, args...)
}

// end stops a process that is no node.
func (r *run) end(p *localnet.Proc) error {
	defer r.starting()()
	return r.net.End(p)
}
