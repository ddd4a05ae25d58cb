// Package acceptance runs the product's acceptance criteria against the real
// programs and prints a line for each: "AC-nn pass|fail|todo  name  figure".
// Nothing is remembered between runs. The command in internal/cmd/acceptance
// is its only user.
package acceptance

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"

	"neuron/internal/acceptance/credits"
	"neuron/internal/acceptance/factors"
	"neuron/internal/acceptance/reports"
	"neuron/internal/acceptance/reuse"
	"neuron/internal/acceptance/torch"
	"neuron/internal/localnet"
)

// criterion is one line. check returns the figure; nil marks a later issue,
// whose subject stands in later.
type criterion struct {
	id    int
	name  string
	check func(context.Context, *env) (string, error)
	later string
}

// criteria are all twenty, in the order of their numbers.
var criteria = []criterion{
	{1, "a two-node route prefills once and decodes without recomputing the prompt", prefillOnce, ""},
	{2, "the decode seam payload is one hidden state per token", constantSeam, ""},
	{3, "KV memory grows with owned layers and context", memoryGrows, ""},
	{4, "loss of a hop ends the session with its reason", lossOfHop, ""},
	{5, "a local GGUF beats PyTorch on the CPU", beatsTorch, ""},
	{6, "a manifest names the files and pieces of a layer range", namesPieces, ""},
	{7, "routes give the whole model's greedy tokens", sameTokens, ""},
	{8, "telemetry is seen before the first token and during decode", telemetrySeen, ""},
	{9, "token deltas stream and join to the whole text", deltasJoin, ""},
	{10, "a whole local GGUF serves through the same node API", wholeModel, ""},
	{11, "a manifest proves what a node can serve", provesService, ""},
	{12, "support reports exist for the large models", supportReports, ""},
	{13, "the session id is the same on all hops, in logs and in telemetry", sameSession, ""},
	{14, "capability reports, and refusal of what does not fit", refusesWhatDoesNotFit, ""},
	{15, "route choice weighs all stated factors", weighsFactors, ""},
	{16, "billing follows receipts", followsReceipts, ""},
	{17, "no stage opens a byte outside its layers' extents", ownExtents, ""},
	{18, "prefix snapshots stay outside the decode loop", reusesPrefixes, ""},
	{19, "the context is capped", capsContext, ""},
	{20, "prefill is chunked, with bounded bytes in flight", boundedPrefill, ""},
}

// each bounds one criterion.
const each = 10 * time.Minute

// Run checks the criteria with the given numbers, all if there are none, and
// writes the lines to out. It returns those that failed, with the reason.
func Run(ctx context.Context, bin string, out io.Writer, only ...int) (failed []error, err error) {
	data, err := os.MkdirTemp("", "neuron-acceptance-")
	if err != nil {
		return nil, fmt.Errorf("data folder: %w", err)
	}
	e := &env{bin: bin, data: data}
	defer func() {
		if cerr := e.close(); err == nil {
			err = cerr
		}
		if err == nil && len(failed) == 0 {
			err = os.RemoveAll(data)
			return
		}
		fmt.Fprintf(out, "logs are in %s\n", data)
	}()
	for _, c := range criteria {
		if len(only) > 0 && !slices.Contains(only, c.id) {
			continue
		}
		line := fmt.Sprintf("AC-%02d", c.id)
		if c.check == nil {
			fmt.Fprintf(out, "%s todo  %s  issue: %s\n", line, c.name, c.later)
			continue
		}
		if ctx.Err() != nil {
			return failed, context.Cause(ctx)
		}
		cctx, cancel := context.WithTimeout(ctx, each)
		figure, err := c.check(cctx, e)
		cancel()
		var missing *torch.MissingError
		if errors.As(err, &missing) {
			fmt.Fprintf(out, "%s todo  %s  %v\n", line, c.name, missing)
			continue
		}
		if err != nil {
			failed = append(failed, fmt.Errorf("%s: %w", line, err))
			fmt.Fprintf(out, "%s fail  %s  %v\n", line, c.name, err)
			continue
		}
		fmt.Fprintf(out, "%s pass  %s  %s\n", line, c.name, figure)
	}
	return failed, nil
}

// Paths from the repository's root, where the command runs.
const (
	guide       = "assets/model/guide-q8_0.gguf"
	guideF16    = "assets/model/guide-f16.gguf"
	guideName   = "guide-q8_0"
	stories     = "../shared/testdata/gguf/stories260K.gguf"
	storiesName = "stories260K"
	modelDocs   = "docs/models"
)

// env is what the criteria share: one running network of two nodes, started
// when the first criterion needs it.
type env struct {
	bin, data string
	pair      *network
}

// network is a tracker with a gateway, and the nodes that run now.
type network struct {
	net     *localnet.Net
	gateway *localnet.Proc
	nodes   []*localnet.Node
	client  *client
}

// start starts a tracker and a gateway for the models.
func (e *env) start(ctx context.Context, name string, models ...string) (_ *network, err error) {
	n := &network{}
	n.net, err = localnet.Start(ctx, localnet.Options{Bin: e.bin, Data: filepath.Join(e.data, name)})
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, n.net.Stop())
		}
	}()
	if n.gateway, err = n.net.StartGateway(ctx, "gateway", models); err != nil {
		return nil, err
	}
	end, err := localnet.Endpoint(n.gateway)
	if err != nil {
		return nil, err
	}
	n.client = &client{Client: localnet.Client(end)}
	return n, nil
}

// hold replaces the running nodes by ones that hold the given layers.
func (n *network) hold(ctx context.Context, model, modelName string, layers []string, o localnet.NodeOptions) error {
	if err := n.clear(); err != nil {
		return err
	}
	for i, l := range layers {
		o.Model, o.Layers = model, l
		x, err := n.net.StartNode(ctx, fmt.Sprintf("%s-%d-%s", modelName, i, l), o)
		if err != nil {
			return err
		}
		n.nodes = append(n.nodes, x)
	}
	return n.net.WaitCovered(ctx, modelName, 1, time.Minute)
}

// clear stops the nodes.
func (n *network) clear() error {
	for _, x := range n.nodes {
		if err := n.net.Forget(x.Proc); err != nil {
			return err
		}
	}
	n.nodes = nil
	return nil
}

// twoNodes is the shared network of two nodes with half of the guide each.
func (e *env) twoNodes(ctx context.Context) (*network, error) {
	if e.pair != nil {
		return e.pair, nil
	}
	n, err := e.start(ctx, "pair", guide)
	if err != nil {
		return nil, err
	}
	if err := n.hold(ctx, guide, guideName, []string{"0-4", "4-8"}, localnet.NodeOptions{}); err != nil {
		return nil, errors.Join(err, n.net.Stop())
	}
	e.pair = n
	return n, nil
}

func (e *env) close() error {
	if e.pair == nil {
		return nil
	}
	return e.pair.net.Stop()
}

// followsReceipts is AC-16, see package credits.
func followsReceipts(ctx context.Context, e *env) (string, error) {
	return credits.Check(ctx, e.bin, e.data, guide, guideName)
}

// reusesPrefixes is AC-18, see package reuse.
func reusesPrefixes(ctx context.Context, e *env) (string, error) {
	return reuse.Check(ctx, e.bin, e.data)
}

// weighsFactors is AC-15, see package factors.
func weighsFactors(ctx context.Context, e *env) (string, error) {
	return factors.Check(ctx, e.bin, e.data)
}

// beatsTorch is AC-05, see package torch.
func beatsTorch(ctx context.Context, e *env) (string, error) {
	return torch.Check(ctx, e.bin, e.data, guideF16, guide)
}

// supportReports is AC-12, see package reports.
func supportReports(ctx context.Context, _ *env) (string, error) {
	return reports.Check(ctx, modelDocs)
}
