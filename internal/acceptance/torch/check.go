package torch

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// prompt is a fixed sequence of n ids that every vocabulary here has.
func prompt(n int) []int32 {
	ids := make([]int32, n)
	x := uint32(12345)
	for i := range ids {
		x = x*1664525 + 1013904223 // a common linear congruential generator (Numerical Recipes)
		ids[i] = int32(x>>16) % 500
	}
	return ids
}

// Check runs the criterion with the programs in bin, in a folder of its own below
// data, and returns its figure. guides are files of the bundled model. Without
// PyTorch the error is a *MissingError.
func Check(ctx context.Context, bin, data string, guides ...string) (figure string, err error) {
	python, err := interpreter(ctx)
	if err != nil {
		return "", err
	}
	dir := filepath.Join(data, "torch")
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return "", fmt.Errorf("folder: %w", err)
	}
	if err := loadLibrary(); err != nil {
		return "", err
	}
	logits, err := checkLogits(ctx, python, dir, guides)
	if err != nil {
		return "", err
	}
	speed, err := checkSpeed(ctx, bin, python, dir)
	if err != nil {
		return "", err
	}
	return speed + "; " + logits, nil
}

// checkLogits compares the guide model and the random ones.
func checkLogits(ctx context.Context, python, dir string, guides []string) (figure string, err error) {
	ref, err := start(ctx, python, dir)
	if err != nil {
		return "", err
	}
	defer func() { err = errors.Join(err, ref.close()) }()
	var sums [3]result // exact, route, Q8_0
	add := func(into *result, path string, m mode, tolerance float64, loose bool) error {
		r, err := ref.against(path, m)
		if err == nil && loose {
			err = r.mostly()
		} else if err == nil {
			err = r.check(tolerance)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", filepath.Base(path), err)
		}
		if loose { // its largest difference says nothing
			r.abs, r.rel = 0, 0
		}
		*into = worse(*into, r)
		return nil
	}
	list := models()
	for _, m := range list {
		path := filepath.Join(dir, m.name+".gguf")
		err := m.write(path)
		if err == nil {
			err = ref.load(path)
		}
		if err == nil {
			err = add(&sums[0], path, exact, m.exact(), false)
		}
		if err == nil {
			err = add(&sums[1], path, route, toleranceRoute, m.experts)
		}
		if err = errors.Join(err, os.Remove(path)); err != nil {
			return "", err
		}
	}
	for _, path := range guides {
		into, tolerance := &sums[1], toleranceRoute
		if strings.Contains(path, "q8_0") {
			into, tolerance = &sums[2], toleranceQ8
		}
		err := ref.load(path)
		if err == nil {
			err = add(into, path, route, tolerance, false)
		}
		if err != nil {
			return "", err
		}
	}
	return fmt.Sprintf("logits of %d models and the guide, largest difference: %s in float32 (allowed %g of the spread, Gemma %g), %s as routes compute (%g), %s in Q8_0 (%g)",
		len(list), sums[0], toleranceExact, toleranceTable, sums[1], toleranceRoute, sums[2], toleranceQ8), nil
}

func worse(a, b result) result {
	return result{abs: max(a.abs, b.abs), rel: max(a.rel, b.rel), rows: a.rows + b.rows, agree: a.agree + b.agree}
}

// String is the figure of some comparisons.
func (r result) String() string {
	return fmt.Sprintf("%.2g, %.5f of the spread, greedy %d/%d", r.abs, r.rel, r.agree, r.rows)
}

// against compares the model that the reference has with path.
func (r *reference) against(path string, m mode) (result, error) {
	o, err := ours(path, m, prompt(chunk*chunks))
	if err != nil {
		return result{}, err
	}
	return o.against(r)
}

// median of a few figures.
func median(v []float64) float64 {
	v = slices.Clone(v)
	slices.Sort(v)
	return v[len(v)/2]
}

// perSecond is a rate.
func perSecond(n int, d time.Duration) float64 { return float64(n) / d.Seconds() }
