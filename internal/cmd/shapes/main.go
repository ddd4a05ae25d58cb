// Neuron-shapes works with the published sizes of models that are too large for
// a developer's computer; docs/models has its tables. From the repository's root:
//
//	go run ./internal/cmd/shapes list                      names and recipes
//	go run ./internal/cmd/shapes header NAME RECIPE FILE   write a GGUF whose weights are a hole
//	go run ./internal/cmd/shapes measure NAME RECIPE [DIR [RUNS]]
//	                                                       time real-size layers (some 10 GB in DIR, minutes)
//	go run ./internal/cmd/shapes tables                    write the tables of docs/models again
package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"neuron/internal/bench/layers"
	"neuron/internal/shapes"
)

// docs is where the reports lie.
const docs = "docs/models"

// usualRuns of a measurement.
const usualRuns = 3

var errUsage = errors.New("usage: shapes list | header NAME RECIPE FILE | measure NAME RECIPE [DIR [RUNS]] | tables")

func main() { os.Exit(mainStatus()) }

// mainStatus is main with an exit status, so that deferred calls run.
func mainStatus() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if err := run(ctx, os.Args[1:]); err != nil {
		fmt.Fprintln(os.Stderr, "shapes:", err)
		return 1
	}
	return 0
}

func run(ctx context.Context, args []string) error {
	switch {
	case len(args) == 1 && args[0] == "list":
		for _, s := range shapes.All() {
			var names []string
			for _, r := range s.Recipes() {
				names = append(names, fmt.Sprintf("%s %.1f GB", r.Name, float64(s.Bytes(r))/1e9))
			}
			fmt.Printf("%s: %d layers; %s\n", s.Name, s.Layers(), strings.Join(names, ", "))
		}
		return nil
	case len(args) == 4 && args[0] == "header":
		s, r, err := find(args[1], args[2])
		if err != nil {
			return err
		}
		return s.WriteHeader(args[3], r)
	case len(args) >= 3 && len(args) <= 5 && args[0] == "measure":
		s, r, err := find(args[1], args[2])
		if err != nil {
			return err
		}
		parent, n := "", usualRuns
		if len(args) > 3 {
			parent = args[3]
		}
		if len(args) > 4 {
			if n, err = strconv.Atoi(args[4]); err != nil || n < 1 {
				return errUsage
			}
		}
		return measure(ctx, s, r, parent, n)
	case len(args) == 1 && args[0] == "tables":
		changed, err := shapes.WriteTables(docs)
		for _, p := range changed {
			fmt.Println("written:", p)
		}
		return err
	}
	return errUsage
}

func find(name, recipe string) (*shapes.Shape, shapes.Recipe, error) {
	s, err := shapes.Find(name)
	if err != nil {
		return nil, shapes.Recipe{}, err
	}
	r, ok := s.Recipe(recipe)
	if !ok {
		return nil, r, fmt.Errorf("%s is not stored in %q", name, recipe)
	}
	return s, r, nil
}

// measure completes what the day's measurements lack; without the file in
// docs/models/measured it begins anew.
func measure(ctx context.Context, s *shapes.Shape, r shapes.Recipe, parent string, runs int) (err error) {
	dir, err := os.MkdirTemp(parent, "neuron-shapes-")
	if err != nil {
		return fmt.Errorf("folder: %w", err)
	}
	defer func() { err = errors.Join(err, os.RemoveAll(dir)) }()
	o := layers.Options{Shape: s, Recipe: r, Dir: dir, Runs: runs, Out: os.Stdout, Save: func(m *shapes.Measured) error { return s.Save(docs, m) }}
	list, err := s.Saved(docs)
	if err != nil {
		return err
	}
	for _, m := range list {
		if m.Recipe == r.Name {
			o.Before = m
		}
	}
	_, err = layers.Measure(ctx, o)
	return err
}
