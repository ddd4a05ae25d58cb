package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"neuron/engine/stage/worker"
	"neuron/internal/logging"
)

// stageCommand is the stage process. It is started by an engine only; people
// have no use for it.
func stageCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "stage",
		Short:  "Run a stage for an engine over standard input and output",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			in, out, err := takeStdio()
			if err != nil {
				return fmt.Errorf("standard input and output: %w", err)
			}
			// An interrupt at the terminal reaches the whole group; the stage
			// must outlive it until its engine has ended the sessions.
			return worker.Run(ignoreSignals(c.Context()), in, out, logging.FromEnv().For("worker"))
		},
	}
}
