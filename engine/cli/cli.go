// Package cli is the engine's command line. Each command is a file; it turns
// flags into options of a program or a call of a local API, and errors into a
// sentence with a remedy. Only the engine's main imports it.
package cli

import (
	"context"
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"neuron/engine/cli/manifests"
	"neuron/engine/protocol"
	"neuron/internal/desktop/folders"
	"neuron/internal/logging"
	"neuron/internal/version"
)

// Exit statuses.
const (
	exitOK    = 0
	exitFail  = 1
	exitUsage = 2
)

// Main runs the command line and returns the exit status.
func Main(ctx context.Context, args []string) int {
	if err := version.Check(); err != nil {
		fmt.Fprintln(os.Stderr, "neuron-engine:", err)
		return exitFail
	}
	root := newRoot()
	root.SetArgs(args)
	began := false
	noteBeginning(root, &began)
	err := root.ExecuteContext(ctx)
	if err == nil {
		return exitOK
	}
	var e *protocol.Error
	if !errors.As(err, &e) {
		fmt.Fprintln(os.Stderr, "neuron-engine:", err)
		if began {
			return exitFail
		}
		fmt.Fprintln(os.Stderr, "See: neuron-engine help.")
		return exitUsage
	}
	fmt.Fprintf(os.Stderr, "neuron-engine: %s (%s)\n", e.Message, e.Code)
	if r := e.Code.Remedy(); r != "" {
		fmt.Fprintf(os.Stderr, "What to do: %s.\n", r)
	}
	return exitFail
}

// noteBeginning tells errors of the command line from errors of the work.
func noteBeginning(c *cobra.Command, began *bool) {
	if work := c.RunE; work != nil {
		c.RunE = func(c *cobra.Command, args []string) error {
			*began = true
			return work(c, args)
		}
	}
	for _, sub := range c.Commands() {
		noteBeginning(sub, began)
	}
}

func newRoot() *cobra.Command {
	root := &cobra.Command{
		Use:           "neuron-engine",
		Short:         "Hold layers of a model and answer with others",
		Version:       version.Get().String(),
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.AddCommand(desktopCommand(), runCommand(), seedCommand(), stopCommand(), gatewayCommand(), stageCommand(), swarmCommand(), statusCommand(), modelsCommand(),
		sessionsCommand(), transfersCommand(), holdCommand(), shareCommand(), pauseCommand(), resumeCommand(), limitsCommand(), settingsCommand(), hardwareCommand(), networkCommand(), diagnosticsCommand(), updateCommand(), planCommand(), chatCommand(), ownerCommand(), earningsCommand(), statementCommand(), keysCommand(), pricesCommand(), inspectCommand(), manifests.Command())
	return root
}

// dataFlag adds --data, the folder that names an engine.
func dataFlag(c *cobra.Command, p *string, what string) {
	c.Flags().StringVar(p, "data", folders.DefaultData(), what)
}

// logs are the loggers of a program run by this command line.
func logs() *logging.Log { return logging.FromEnv() }
