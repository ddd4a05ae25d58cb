package suite

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"golang.org/x/sync/errgroup"

	"neuron/llama/archs"
	"neuron/llama/gguf"
)

// Options say what to run.
type Options struct {
	// Only are names of models or architectures; empty: all.
	Only []string
	// Types are those of the matrices, by ggml's names.
	Types []string
	// Fresh runs again what this build has run before; Keep leaves results of
	// other builds of the program as they are.
	Fresh, Keep bool
	// Brief tries a few cuts of each model only, for tests.
	Brief bool
	// Vulkan compares stages on Vulkan and on the processor.
	Vulkan bool
	// State is the file with results, Page the page, "" for none.
	State, Page string
	// Jobs is how many children run at a time, 1 by default.
	Jobs int
	// Limit is the most time for one child.
	Limit time.Duration
	// Program is the executable that JobOf and Do belong to.
	Program string
	Out     io.Writer
}

type run struct {
	o     Options
	stamp string
	kept  *results
	// vulkan is the folder of the libraries with Vulkan.
	vulkan string
}

// ErrFailed is that some model did not do what it should.
var ErrFailed = errors.New("some families failed")

// Run checks the models and writes the page. ErrFailed is wrapped when a model neither
// passed nor is left whole for a reason.
func Run(ctx context.Context, o Options) error {
	for _, t := range o.Types {
		if _, err := gguf.ParseType(t); err != nil {
			return err
		}
	}
	models, err := chosen(o.Only)
	if err != nil {
		return err
	}
	stamp, err := stampOf(o.Program)
	if err != nil {
		return err
	}
	kept, err := openResults(o.State)
	if err != nil {
		return err
	}
	r := &run{o: o, stamp: stamp, kept: kept}
	if o.Vulkan {
		err = r.runVulkan(ctx, models)
	} else {
		err = r.runAll(ctx, models)
	}
	if o.Page != "" && ctx.Err() == nil {
		err = errors.Join(err, writePage(o.Page, kept))
	}
	return err
}

func chosen(only []string) ([]archs.Model, error) {
	all := archs.List()
	if len(only) == 0 {
		return all, nil
	}
	var out []archs.Model
	for _, name := range only {
		n := len(out)
		for _, m := range all {
			if (m.Name == name || m.Arch == name) && !slices.Contains(out, m) {
				out = append(out, m)
			}
		}
		if len(out) == n {
			return nil, fmt.Errorf("no model %q", name)
		}
	}
	return out, nil
}

// runAll checks every model in every type on the processor.
func (r *run) runAll(ctx context.Context, models []archs.Model) error {
	var jobs []Job
	for _, typ := range r.o.Types {
		for _, m := range models {
			if quick := typ != thorough; !quick || !variant(m) || typ == plain {
				jobs = append(jobs, Job{Model: m.Name, Type: typ, Quick: quick, Brief: r.o.Brief})
			}
		}
	}
	return r.each(ctx, jobs)
}

// variant tells another shape of a family from its first one. It is checked in two
// types only: kernels do not depend on it.
func variant(m archs.Model) bool { return m.Name != m.Arch }

// each runs jobs, Options.Jobs at a time, prints a line for each and counts failures.
func (r *run) each(ctx context.Context, jobs []Job) error {
	began := time.Now()
	var mu sync.Mutex // guards the numbers, the results and the output
	failed, ran, done := 0, 0, 0
	g, ctx := errgroup.WithContext(ctx)
	g.SetLimit(max(1, r.o.Jobs))
	for _, j := range jobs {
		g.Go(func() error {
			mu.Lock()
			o, known := r.known(j)
			mu.Unlock()
			if !known {
				var err error
				if o, err = r.spawn(ctx, j); err != nil {
					return err
				}
				o.Stamp = r.stamp
			}
			mu.Lock()
			defer mu.Unlock()
			if done++; o.State() == Failed {
				failed++
			}
			if !known || o.State() == Failed {
				fmt.Fprintf(r.o.Out, "%3d/%d %-22s %-5s %s\n", done, len(jobs), j.Model, j.Type, o.line())
			}
			if known {
				return nil
			}
			ran++
			return r.kept.add(o)
		})
	}
	err := g.Wait()
	fmt.Fprintf(r.o.Out, "%d of %d run in %s, %d failed\n", ran, len(jobs), time.Since(began).Round(time.Second), failed)
	if err == nil && failed > 0 {
		err = fmt.Errorf("%w: %d of %d", ErrFailed, failed, len(jobs))
	}
	return err
}

// known gives an earlier result that is still good.
func (r *run) known(j Job) (*Outcome, bool) {
	o, ok := r.kept.get(j.Model, j.Type, j.device())
	if !ok || r.o.Fresh || o.Stamp != r.stamp && !r.o.Keep {
		return nil, false
	}
	return o, true
}

// line says an outcome in a line.
func (o *Outcome) line() string {
	switch o.State() {
	case Certified, WithRule:
		if o.Vulkan != nil {
			return o.Vulkan.line()
		}
		s := fmt.Sprintf("certified at %d of %d cuts, %d routes", o.Legal, o.Layers-1, o.Report.Routes)
		if o.Report.Pads > 0 {
			s += fmt.Sprintf(", up to %d pads", o.Report.Pads)
		}
		return fmt.Sprintf("%s (%.1f s)", s, o.Seconds)
	case Whole:
		return "whole: " + o.Report.WholeOnly
	}
	return "FAILED: " + strings.ReplaceAll(o.problem(), "\n", " ")
}

// problem says what went wrong.
func (o *Outcome) problem() string {
	if o.Failure != "" {
		return o.Failure
	}
	switch {
	case o.Report == nil:
		return "no report"
	case len(o.Report.Failures) > 0:
		return fmt.Sprintf("%s (%d in all)", o.Report.Failures[0], len(o.Report.Failures))
	case o.Report.Routes == 0:
		return "no route was run"
	}
	return ""
}
