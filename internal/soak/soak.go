// Package soak runs a small network for a while under random requests and
// random blows, and then looks for what must not be there: a wrong or short
// answer that looks like a success, a session that is left, and processes that
// have grown.
//
// Only internal/cmd/soak imports it. The plan (what is asked and what breaks)
// follows from a seed; how the two meet is left to the machine.
package soak

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"sync"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/chaos"
)

// Options of a run.
type Options struct {
	Bin  string // folder with neuron-engine and neuron-tracker
	Data string // folder for data and logs; kept
	For  time.Duration
	Seed uint64
	Out  io.Writer // gets the plan's blows and the table
}

const (
	clients = 4
	// answerLimit is longer than any answer may take, broken network or not.
	answerLimit = 90 * time.Second
	settleTime  = 45 * time.Second
)

// Run runs. The error says that the run itself did not work; what it found is
// in the report.
func Run(ctx context.Context, o Options) (_ *Report, err error) {
	fmt.Fprintf(o.Out, "soak: seed %d, %s, %d clients\n", o.Seed, o.For, clients)
	n, err := startNetwork(ctx, o.Bin, o.Data)
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, n.net.Stop()) }()
	refs, err := references(ctx, n.asker, guideName)
	if err != nil {
		return nil, err
	}
	r := newReport()
	// The same clients once without blows, so that the first measurement is of
	// a network that has worked.
	warm, cancel := context.WithTimeout(ctx, min(o.For/6, 10*time.Second))
	n.clients(warm, o.Seed, 1000, refs, newReport())
	cancel()
	if err := n.quiet(ctx, settleTime); err != nil {
		return nil, err
	}
	if r.first, err = n.measure(ctx); err != nil {
		return nil, err
	}

	work, cancel := context.WithTimeout(ctx, o.For)
	defer cancel()
	var breaker sync.WaitGroup
	var broke error
	breaker.Go(func() {
		if broke = n.blows(work, o, r); broke != nil {
			cancel()
		}
	})
	n.clients(work, o.Seed, 1, refs, r)
	breaker.Wait()
	if ctx.Err() != nil {
		return nil, context.Cause(ctx)
	}
	if broke != nil {
		return nil, broke
	}
	fmt.Fprintln(o.Out, "settling")
	if err := n.quiet(ctx, settleTime); err != nil {
		r.violation("%v", err)
	}
	for _, x := range n.current() {
		if l, err := chaos.At(ctx, x.Data); err == nil {
			r.leaked += max(len(l.Sessions), l.Status.Shards[0].Sessions)
		}
	}
	if err := n.wholeAgain(ctx, refs, r); err != nil {
		return nil, err
	}
	return r, n.grown(ctx, r)
}

// wholeAgain wants every reference answer of the settled network.
func (n *network) wholeAgain(ctx context.Context, refs []*reference, r *Report) error {
	for _, ref := range refs {
		a, err := n.asker.Ask(ctx, ref.req)
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		r.outcome(ref, a, err)
		if err != nil {
			r.violation("a request after settling: %v", err)
		}
	}
	return nil
}

// grown measures until nothing has grown; kept connections end with time.
func (n *network) grown(ctx context.Context, r *Report) error {
	deadline := time.Now().Add(settleTime)
	for {
		if err := n.quiet(ctx, settleTime); err != nil {
			r.violation("%v", err)
			return nil
		}
		last, err := n.measure(ctx)
		if err != nil {
			return err
		}
		r.last, r.grown = last, nil
		for pid, f := range last {
			if first, ok := r.first[pid]; ok {
				r.grown = append(r.grown, f.grown(first)...)
			}
		}
		if len(r.grown) == 0 || time.Now().After(deadline) {
			return nil
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-time.After(time.Second):
		}
	}
}

// clients ask until ctx ends and returns when all answers are over. place is
// the first client's place in the plan.
func (n *network) clients(ctx context.Context, seed, place uint64, refs []*reference, r *Report) {
	var wg sync.WaitGroup
	for i := range clients {
		wg.Go(func() {
			plan := stream(seed, place+uint64(i))
			for ctx.Err() == nil {
				n.ask(ctx, nextJob(plan, len(refs)), refs, r)
			}
		})
	}
	wg.Wait()
}

// ask does one job. An answer under way is not cut by the end of the run.
func (n *network) ask(ctx context.Context, j job, refs []*reference, r *Report) {
	select {
	case <-ctx.Done():
		return
	case <-time.After(j.pause):
	}
	ref := refs[j.ref]
	req := ref.req
	req.Stream = j.stream
	if j.stop {
		req.Stop = " "
	}
	actx, cancel := context.WithTimeout(context.WithoutCancel(ctx), answerLimit)
	defer cancel()
	if j.leave > 0 {
		leave := time.AfterFunc(j.leave, cancel)
		defer leave.Stop()
	}
	a, err := n.asker.Ask(actx, req)
	switch {
	case errors.Is(err, context.Canceled):
		r.count("client left")
		return
	case errors.Is(err, context.DeadlineExceeded):
		r.violation("an answer did not end within %s", answerLimit)
		return
	}
	if j.stop && err == nil {
		r.stopped(ref, a)
		return
	}
	r.outcome(ref, a, err)
	var e *protocol.Error
	if errors.As(err, &e) { // a network without a route answers at once
		select {
		case <-ctx.Done():
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// blows breaks things until ctx ends.
func (n *network) blows(ctx context.Context, o Options, r *Report) error {
	plan := stream(o.Seed, 0)
	began := time.Now()
	for {
		b := nextBlow(plan, len(layers))
		select {
		case <-ctx.Done():
			return nil
		case <-time.After(b.after):
		}
		fmt.Fprintf(o.Out, "%7.1fs %s\n", time.Since(began).Seconds(), b)
		r.blow(b.what)
		if err := n.strike(ctx, b); err != nil {
			return fmt.Errorf("%s: %w", b, err)
		}
	}
}

// stopped judges an answer that was cut at its first space.
func (r *Report) stopped(ref *reference, a *chaos.Answer) {
	want, _, found := strings.Cut(ref.text, " ")
	if !found || len(want) >= ref.sure {
		r.count("completed")
		return
	}
	if a.Text != want || a.Finish != "stop" {
		r.wrong("an answer with a stop string: %d bytes and finish %q, want %d", len(a.Text), a.Finish, len(want))
		return
	}
	r.count("completed")
}
