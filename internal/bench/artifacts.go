package bench

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
	"neuron/internal/bench/report"
	"neuron/internal/localnet"
	"neuron/llama/cut"
	"neuron/llama/gguf"
)

// swarm compares the throughput of our transfers with aria2c's.
func (r *run) swarm(ctx context.Context) error {
	o := SwarmOptions{Bin: r.o.Bin, Dir: r.o.Dir}
	if r.o.Model == ModelTiny {
		o.Layers, o.Rounds = 2, 1
	}
	f, err := Swarm(ctx, o)
	if err != nil {
		return err
	}
	rate := func(d []time.Duration) float64 { return float64(f.Bytes) / 1e6 / middle(d).Seconds() }
	r.rep.AtLeast("fetching a model from a node, over aria2c from aria2c", f.Ratio(), 0.8,
		fmt.Sprintf("%.0f and %.0f MB/s, %.0f MB", rate(f.Ours), rate(f.Aria2), float64(f.Bytes)/1e6))
	return nil
}

// verifyRounds is how often the load gate and sha256sum take turns.
const verifyRounds = 3

// verify compares the load gate's hashing of all layers with sha256sum over the
// same files, both out of the page cache.
func (r *run) verify(ctx context.Context) (err error) {
	sum, err := exec.LookPath("sha256sum")
	if err != nil {
		return fmt.Errorf("sha256sum is missing: %w", err)
	}
	m, err := gguf.OpenModel(r.model)
	if err != nil {
		return err
	}
	dir := filepath.Join(r.o.Dir, "verify")
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	layers := r.s.shape.Layers
	store, err := cut.Import(ctx, m, "bench", dir, 0, layers, nil)
	err = errors.Join(err, m.Close())
	if err != nil {
		return err
	}
	files, err := filepath.Glob(filepath.Join(dir, "*.gguf"))
	if err != nil {
		return err
	}
	var p report.Pairs
	for i := range verifyRounds + 1 {
		began := time.Now()
		if err := exec.CommandContext(ctx, sum, files...).Run(); err != nil {
			return fmt.Errorf("sha256sum: %w", err)
		}
		theirs := time.Since(began)
		began = time.Now()
		bad, err := store.Verify(ctx, 0, layers, cut.VerifyOptions{Again: true})
		if err != nil || len(bad) > 0 {
			return fmt.Errorf("verify: %d damaged files: %w", len(bad), err)
		}
		if i > 0 {
			p.Add(theirs, time.Since(began))
		}
	}
	r.rep.AtLeast("verifying layers, speed over sha256sum", p.Speed(), 4,
		fmt.Sprintf("%.2f s and %.2f s for the same files", report.Median(p.Other).Seconds(), report.Median(p.Base).Seconds()))
	return nil
}

// join is the time from the start of a node that has nothing until it serves a
// quarter of the model that a neighbour seeds. There is nothing to compare it
// with, so it has no target.
func (r *run) join(ctx context.Context) (err error) {
	net, err := localnet.Start(ctx, localnet.Options{Bin: r.o.Bin, Data: filepath.Join(r.o.Dir, "join"), LogLevel: "warn"})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, net.Stop(), os.RemoveAll(filepath.Join(r.o.Dir, "join"))) }()
	if err := net.Publish(ctx, r.model); err != nil {
		return err
	}
	if _, err := net.StartSeeder(ctx, "seeder", r.model); err != nil {
		return err
	}
	quarter := r.s.shape.Layers / 4
	began := time.Now()
	x, err := net.StartNode(ctx, "node", localnet.NodeOptions{
		Model: strings.TrimSuffix(filepath.Base(r.model), ".gguf"), Layers: protocol.Range{First: quarter, Last: 2 * quarter}.String(),
	})
	if err != nil {
		return err
	}
	c, err := localapi.Dial(x.Data)
	if err != nil {
		return err
	}
	defer c.Close()
	ready := errors.New("ready")
	var got int64
	err = c.Events(ctx, func(e localapi.Event) error {
		for _, s := range e.Status.Shards {
			if s.State == protocol.ShardReady {
				got = s.Bytes
				return ready
			}
		}
		return nil
	})
	if !errors.Is(err, ready) {
		return fmt.Errorf("the node never served: %w", err)
	}
	r.rep.Add(report.Row{Name: "join to serving", Figure: fmt.Sprintf("%.2f s", time.Since(began).Seconds()), Note: fmt.Sprintf("fetch, verify and load %.0f MB on loopback", float64(got)/1e6)})
	return nil
}
