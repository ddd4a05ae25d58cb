// Command neuron-tracker is the control plane of a Neuron network: it knows
// the nodes, chooses routes, signs leases, publishes models and shows the state
// of the network.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"syscall"

	"neuron/engine/protocol"
)

func main() { os.Exit(mainStatus()) }

// mainStatus is main with an exit status, so that deferred calls run.
func mainStatus() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// command is one command of the program. Its flags may stand before and after
// the arguments.
type command struct {
	name, args, about string
	setup             func(*flag.FlagSet) runner
}

// runner does the work, after the flags are parsed. A usageError ends the
// program with status 2.
type runner func(ctx context.Context, args []string, stdout, stderr io.Writer) error

// commands lists what the program can do; without a name it serves.
func commands() []command {
	return append([]command{
		{"serve", "", "run the tracker (also without a command)", serve},
		{"publish", "PATH...", "put a model of this computer into the catalog", publishCommand},
		{"unpublish", "MODEL", "take a model out of the catalog", unpublishCommand},
		{"catalog", "", "list the published models", catalogCommand},
		{"verify-proof", "FILE", "check the proof of a node's fault, with nothing but its file", verifyProofCommand},
		{"backup", "FILE", "save database and keys while the tracker runs", backupCommand},
		{"config", "", "print a configuration file with all settings", configCommand},
	}, operatorCommands()...)
}

// usageError is a mistake on the command line.
type usageError struct{ text string }

func (e *usageError) Error() string { return e.text }

// run is the program; it returns the exit code: 0 after an orderly stop, 1
// after an error, 2 for wrong flags.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	name := "serve"
	if len(args) > 0 && !strings.HasPrefix(args[0], "-") {
		name, args = args[0], args[1:]
	}
	for _, c := range commands() {
		if c.name == name {
			return c.run(ctx, args, stdout, stderr)
		}
	}
	fmt.Fprintf(stderr, "neuron-tracker: there is no command %.40q; see --help\n", name)
	return 2
}

func (c *command) run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	flags := flag.NewFlagSet("neuron-tracker "+c.name, flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.Usage = func() { c.usage(flags) }
	work := c.setup(flags)
	rest, err := parse(flags, args)
	if err == nil {
		if wrong := settings(flags); wrong != nil {
			fmt.Fprintln(stderr, "neuron-tracker:", wrong)
			return 2
		}
	}
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil: // the flag package has told
		return 2
	case c.args == "" && len(rest) > 0:
		err = &usageError{"unknown argument " + rest[0]}
	default:
		err = work(ctx, rest, stdout, stderr)
	}
	if err == nil {
		return 0
	}
	fmt.Fprintln(stderr, "neuron-tracker:", err)
	var wrong *usageError
	if errors.As(err, &wrong) {
		fmt.Fprintf(stderr, "see neuron-tracker %s --help\n", c.name)
		return 2
	}
	if remedy := protocol.AsError(err).Code.Remedy(); remedy != "" {
		fmt.Fprintln(stderr, remedy)
	}
	return 1
}

func (c *command) usage(flags *flag.FlagSet) {
	w := flags.Output()
	fmt.Fprintf(w, "Usage: neuron-tracker %s %s[flags]\n%s\n\n", c.name, strings.TrimPrefix(c.args+" ", " "), c.about)
	flags.PrintDefaults()
	if c.name == "serve" {
		fmt.Fprintln(w, "\nCommands:")
		for _, o := range commands() {
			fmt.Fprintf(w, "  %-20s %s\n", o.name+" "+o.args, o.about)
		}
	}
}

// parse reads flags wherever they stand, up to "--", and returns the rest.
func parse(flags *flag.FlagSet, args []string) (rest []string, err error) {
	for {
		if err := flags.Parse(args); err != nil {
			return nil, err
		}
		left := flags.Args()
		if n := len(args) - len(left); len(left) == 0 || n > 0 && args[n-1] == "--" {
			return append(rest, left...), nil
		}
		rest, args = append(rest, left[0]), left[1:]
	}
}

func dataFlag(flags *flag.FlagSet) *string {
	return flags.String("data", defaultData(), "`folder` for database and key")
}

func defaultData() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "neuron", "tracker")
}
