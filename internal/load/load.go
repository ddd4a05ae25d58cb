// Package load puts a crowd on a real tracker, on this machine: thousands of
// simulated nodes on websockets with TLS, route requests, receipts, and a
// restart. Its nodes are the engine's own control client without an engine
// behind it, all in this process.
//
// The load command imports it; no product code does. It talks to loopback only
// and ends by itself.
package load

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"neuron/internal/localnet"
)

// Options say how large the crowd is.
type Options struct {
	Bin  string // folder with neuron-tracker
	Data string // empty folder for everything
	Out  io.Writer

	Nodes    int
	Models   int // that the nodes hold, in halves
	Owners   int // that the nodes belong to
	Gateways int
	// Routes and Receipts are per second, For how long.
	Routes, Receipts int
	For              time.Duration
	// Brief leaves out the memory and the restart: the load alone.
	Brief bool
}

// spansPerSession follows from the two rates: each session has two hops.
func (o *Options) spansPerSession() int { return max(1, o.Receipts/o.Routes/hops) }

// Targets of a run.
const (
	routeP99    = 50 * time.Millisecond
	nodeBytes   = 30 << 10
	returnAfter = 60 * time.Second
)

// Run does all of it and writes a report. It returns an error when a target is
// missed as well.
func Run(ctx context.Context, o Options) (err error) {
	r := &report{out: o.Out}
	certFile, keyFile, roots, err := certificate(o.Data)
	if err != nil {
		return err
	}
	ids, took, err := bindAll(ctx, &o)
	if err != nil {
		return err
	}
	r.line("owners", "%d nodes bound to %d owners in %s", o.Nodes, o.Owners, took.Round(time.Millisecond))
	net, err := localnet.Start(ctx, localnet.Options{Bin: o.Bin, Data: o.Data, LogLevel: "warn", TrackerArgs: []string{
		"--tls-cert", certFile, "--tls-key", keyFile, "--max-per-address", strconv.Itoa(o.Nodes + 1000), "--log-level", "warn",
		"--credit", "required", "--report-every", "20s",
	}})
	if err != nil {
		return err
	}
	stopped := false
	defer func() {
		if !stopped {
			err = errors.Join(err, net.Stop())
		}
	}()
	r.line("open files", "limit %s", fileLimit())
	models, err := publishModels(ctx, &o, net)
	if err != nil {
		return err
	}
	c, err := newCrowd(ctx, &o, net.TrackerURL, roots, ids, models)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, c.end()) }()
	probe := &tracker{proc: net.Tracker, url: net.TrackerURL, client: c.http}

	if err := joinAll(ctx, &o, c, probe, r); err != nil {
		return err
	}
	w := newWork(&o, c)
	if err := w.prepare(); err != nil {
		return err
	}
	if err := underLoad(ctx, &o, w, probe, r); err != nil {
		return err
	}
	if !o.Brief {
		back, err := c.restart(ctx, net)
		if err != nil {
			return err
		}
		r.judge("after a restart", back.all <= returnAfter, "all back within %s (half within %s), at most %d connections in one second; target %s",
			back.all.Round(10*time.Millisecond), back.half.Round(10*time.Millisecond), back.peak, returnAfter)
	}
	if err := c.end(); err != nil {
		return err
	}
	stopped = true
	if err := net.Stop(); err != nil {
		return err
	}
	if err := checkBooks(ctx, filepath.Join(o.Data, "tracker"), w, r); err != nil {
		return err
	}
	return r.verdict()
}

// joinAll brings the crowd, and measures what it takes of memory when it is idle.
func joinAll(ctx context.Context, o *Options, c *crowd, probe *tracker, r *report) error {
	var before memory
	var err error
	if !o.Brief {
		if before, err = probe.memory(ctx); err != nil {
			return err
		}
	}
	took, err := c.join(ctx)
	if err != nil {
		return err
	}
	r.line("joined", "%d nodes and %d gateways in %s", o.Nodes, o.Gateways, took.Round(time.Millisecond))
	if o.Brief {
		return wait(ctx, memoryFor) // as long as the others: lists of neighbours still go out
	}
	after, err := probe.memory(ctx)
	if err != nil {
		return err
	}
	per := (after.live - before.live) / int64(o.Nodes)
	r.judge("memory per idle node", per <= nodeBytes, "%.1f KiB of heap and stacks (%.1f KiB of the process's resident memory); target %d KiB",
		float64(per)/1024, float64(after.resident-before.resident)/float64(o.Nodes)/1024, nodeBytes>>10)
	return nil
}

// underLoad runs the load and measures the processor time of both sides.
func underLoad(ctx context.Context, o *Options, w *work, probe *tracker, r *report) error {
	theirs, err := probe.cpu()
	if err != nil {
		return err
	}
	ours, err := ownCPU()
	if err != nil {
		return err
	}
	from := time.Now()
	if err := w.run(ctx); err != nil {
		return err
	}
	took := time.Since(from)
	w.report(r)
	share, err := probe.inTime(ctx)
	if err != nil {
		return err
	}
	r.line("of these in the tracker", "%.2f %% from request to answer within %s; the rest of the time is that of two connections and the crowd", 100*share, routeP99)
	for _, p := range []struct {
		name  string
		since time.Duration
		cpu   func() (time.Duration, error)
	}{{"tracker's CPU", theirs, probe.cpu}, {"the crowd's CPU", ours, ownCPU}} {
		now, err := p.cpu()
		if err != nil {
			return err
		}
		r.line(p.name, "%.2f cores during the load; %.2f ms for a route and its %d receipts",
			(now-p.since).Seconds()/took.Seconds(), (now-p.since).Seconds()*1e3/float64(max(1, w.sessions())), hops*o.spansPerSession())
	}
	return w.checkLeases()
}

// report prints figures as they come and remembers what missed its target.
type report struct {
	out    io.Writer
	missed []string
}

func (r *report) line(name, format string, args ...any) {
	fmt.Fprintf(r.out, "%-22s %s\n", name, fmt.Sprintf(format, args...))
}

func (r *report) judge(name string, ok bool, format string, args ...any) {
	word := "ok"
	if !ok {
		word = "MISSED"
		r.missed = append(r.missed, name)
	}
	r.line(name, "%-6s %s", word, fmt.Sprintf(format, args...))
}

func (r *report) verdict() error {
	if len(r.missed) > 0 {
		return fmt.Errorf("missed: %q", r.missed)
	}
	return nil
}

func wait(ctx context.Context, d time.Duration) error {
	t := time.NewTimer(d)
	defer t.Stop()
	select {
	case <-t.C:
		return nil
	case <-ctx.Done():
		return context.Cause(ctx)
	}
}

// DefaultOptions are the sizes of the claim.
func DefaultOptions() Options {
	return Options{Out: os.Stdout, Nodes: 5000, Models: 50, Owners: 100, Gateways: 8, Routes: 200, Receipts: 2000, For: time.Minute}
}
