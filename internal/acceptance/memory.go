package acceptance

import (
	"context"
	"errors"
	"fmt"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/probe"
	"neuron/engine/protocol"
	"neuron/internal/localnet"
	"neuron/llama/gguf"
	"neuron/llama/synth"
)

// wideName is the model of AC-03: small weights and much KV state, 16 KiB per
// position and layer, so that sessions show in the memory of a process.
const wideName = "wide"

var wideShape = synth.Shape{
	Family: synth.FamilyLlama, Layers: 8, Embd: 256, FF: 512, Heads: 32, KVHeads: 32, HeadDim: 128, Vocab: 512, Context: 4096,
}

const (
	wideBytes   = 2 * 2 * 32 * 128 // per position and layer
	widePrompt  = 600              // some whole chunks, so that compute buffers are used
	memoryLimit = 0.05             // measured against predicted
	// settleLimit bounds the wait for a session's start and for its end.
	settleLimit = 30 * time.Second
)

// memoryGrows is AC-03: what a session adds to the anonymous memory of stage
// processes, against what their capability reports say. Two ranges of layers
// and two contexts.
func memoryGrows(ctx context.Context, e *env) (figure string, err error) {
	path := filepath.Join(e.data, wideName+".gguf")
	if err := synth.Write(path, wideShape, synth.Options{Type: gguf.TypeQ4_0, Seed: 3}); err != nil {
		return "", err
	}
	n, err := e.start(ctx, "memory", path)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, n.net.Stop()) }()
	ranges := []protocol.Range{{First: 0, Last: 2}, {First: 2, Last: 8}}
	var lines []string
	var worst float64
	for _, cells := range []int{2048, 4096} {
		if err := n.clear(); err != nil {
			return "", err
		}
		for _, r := range ranges {
			// Room for one session: its pool has one sequence.
			budget := strconv.Itoa(cells * wideBytes * r.Len())
			x, err := n.net.StartNode(ctx, fmt.Sprintf("wide-%s-%d", r, cells), localnet.NodeOptions{
				Model: path, Layers: r.String(), Args: []string{"--kv-bytes", budget, "--chunk", "64"},
			})
			if err != nil {
				return "", err
			}
			n.nodes = append(n.nodes, x)
		}
		if err := n.net.WaitCovered(ctx, wideName, 1, time.Minute); err != nil {
			return "", err
		}
		got, err := n.sessionMemory(ctx, cells)
		if err != nil {
			return "", fmt.Errorf("%d cells: %w", cells, err)
		}
		for i, m := range got {
			off := float64(m.grown)/float64(m.predicted) - 1
			if math.Abs(off) > math.Abs(worst) {
				worst = off
			}
			lines = append(lines, fmt.Sprintf("layers=%d cells=%d predicted=%d measured=%d", ranges[i].Len(), cells, m.predicted, m.grown))
			if math.Abs(off) > memoryLimit {
				err = errors.Join(err, fmt.Errorf("off by %.1f %%: %s", 100*off, lines[len(lines)-1]))
			}
		}
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("%s worst=%+.1f%%", strings.Join(lines, "; "), 100*worst), nil
}

// grownBy is one stage's figures, in bytes.
type grownBy struct{ predicted, grown int64 }

// sessionMemory runs a session of so many cells and measures every stage
// before, while it decodes, and after it.
func (n *network) sessionMemory(ctx context.Context, cells int) ([]grownBy, error) {
	out := make([]grownBy, len(n.nodes))
	before := make([]probe.Resident, len(n.nodes))
	for i, x := range n.nodes {
		report, err := capability(ctx, x)
		if err != nil {
			return nil, err
		}
		if report.KVBytesPerCell != int64(wideBytes*report.Loaded.Len()) {
			return nil, fmt.Errorf("layers %s report %d bytes per position", report.Loaded, report.KVBytesPerCell)
		}
		out[i].predicted = report.PoolBytes(cells, 1)
		if before[i], err = stageMemory(ctx, x); err != nil {
			return nil, err
		}
	}
	s := n.background(ctx, wideName, widePrompt, cells-widePrompt)
	err := n.waitSessions(ctx, func(s protocol.SessionState) bool { return s.Counters.DecodeRows > 0 && s.Cells == cells })
	if err == nil {
		// A stage tells what it holds with its next ping.
		err = n.waitNodes(ctx, "status with a session's memory", func(c *localapi.Client) (bool, error) {
			s, err := c.Status(ctx)
			return err == nil && s.Memory.KVInUse > 0 && s.Memory.Compute > 0, err
		})
	}
	for i, x := range n.nodes {
		if err != nil {
			break
		}
		var now probe.Resident
		if now, err = stageMemory(ctx, x); err == nil {
			out[i].grown = now.Anonymous - before[i].Anonymous
			err = statusTellsApart(ctx, x, now)
		}
	}
	if err = errors.Join(err, s.end()); err != nil {
		return nil, err
	}
	if err := n.waitIdle(ctx); err != nil {
		return nil, err
	}
	for i, x := range n.nodes {
		after, err := stageMemory(ctx, x)
		if err != nil {
			return nil, err
		}
		if kept := after.Anonymous - before[i].Anonymous; kept > out[i].predicted/10 {
			return nil, fmt.Errorf("layers %s keep %d bytes of %d after the session's end", x.Layers, kept, out[i].grown)
		}
	}
	return out, nil
}

// statusTellsApart checks that the node's status shows both kinds of memory
// and what its session holds.
func statusTellsApart(ctx context.Context, x *localnet.Node, stage probe.Resident) error {
	s, err := nodeStatus(ctx, x)
	if err != nil {
		return err
	}
	m := s.Memory
	if m.Anonymous < stage.Anonymous/2 || m.File < stage.File/2 || m.Engine != m.Anonymous+m.File || m.KVInUse <= 0 || m.Compute <= 0 {
		return fmt.Errorf("layers %s show memory %+v, the stage alone has %+v", x.Layers, m, stage)
	}
	return nil
}

func nodeStatus(ctx context.Context, x *localnet.Node) (*localapi.Status, error) {
	c, err := localapi.Dial(x.Data)
	if err != nil {
		return nil, err
	}
	defer c.Close()
	return c.Status(ctx)
}

func stageMemory(ctx context.Context, x *localnet.Node) (probe.Resident, error) {
	s, err := nodeStatus(ctx, x)
	if err != nil {
		return probe.Resident{}, err
	}
	if len(s.StagePIDs) != 1 {
		return probe.Resident{}, fmt.Errorf("layers %s have %d stage processes", x.Layers, len(s.StagePIDs))
	}
	return probe.ProcessMemory(s.StagePIDs...), nil
}

// background is a request that runs until its end is called.
type background struct {
	cancel context.CancelFunc
	done   chan error
}

// background asks for an answer without waiting for it.
func (n *network) background(ctx context.Context, model string, prompt, tokens int) *background {
	ctx, cancel := context.WithCancel(ctx)
	b := &background{cancel: cancel, done: make(chan error, 1)}
	go func() {
		_, err := n.client.complete(ctx, model, promptIDs(prompt), tokens, 0)
		b.done <- err
	}()
	return b
}

// end leaves the request; an error that came before counts.
func (b *background) end() error {
	select {
	case err := <-b.done:
		b.cancel()
		if err != nil {
			return fmt.Errorf("the session ended by itself: %w", err)
		}
		return nil
	default:
	}
	b.cancel()
	<-b.done //nolint:errcheck // what it says after it was cancelled is of no use
	return nil
}

// waitSessions waits until every node has exactly one session, and it is as
// wanted.
func (n *network) waitSessions(ctx context.Context, ok func(protocol.SessionState) bool) error {
	return n.waitNodes(ctx, "a session that runs on every hop", func(c *localapi.Client) (bool, error) {
		list, err := c.Sessions(ctx)
		return err == nil && len(list) == 1 && ok(list[0]), err
	})
}

// waitIdle waits until no node holds a session or memory for one.
func (n *network) waitIdle(ctx context.Context) error {
	return n.waitNodes(ctx, "nodes without sessions", func(c *localapi.Client) (bool, error) {
		list, err := c.Sessions(ctx)
		if err != nil || len(list) > 0 {
			return false, err
		}
		s, err := c.Status(ctx)
		return err == nil && s.Memory.KVInUse == 0, err
	})
}

func (n *network) waitNodes(ctx context.Context, what string, ok func(*localapi.Client) (bool, error)) error {
	ctx, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	for _, x := range n.nodes {
		c, err := localapi.Dial(x.Data)
		if err != nil {
			return err
		}
		for done := false; !done && err == nil; {
			if done, err = ok(c); !done && err == nil {
				select {
				case <-ctx.Done():
					err = fmt.Errorf("no %s within %s", what, settleLimit)
				case <-time.After(20 * time.Millisecond):
				}
			}
		}
		c.Close()
		if err != nil {
			return err
		}
	}
	return nil
}
