package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"neuron/engine/swarm/worker"
	"neuron/internal/logging"
	"neuron/internal/lowprio"
)

// swarmCommand is the BitTorrent process. It is started by an engine only;
// people have no use for it.
func swarmCommand() *cobra.Command {
	return &cobra.Command{
		Use:    "swarm",
		Short:  "Fetch and seed models for an engine over standard input and output",
		Args:   cobra.NoArgs,
		Hidden: true,
		RunE: func(c *cobra.Command, _ []string) error {
			log := logging.FromEnv().For("swarm")
			if err := lowprio.Process(); err != nil {
				log.Warn("Fetching runs at normal priority", "error", err)
			}
			in, out, err := takeStdio()
			if err != nil {
				return fmt.Errorf("standard input and output: %w", err)
			}
			// An interrupt at the terminal reaches the whole group; the engine
			// ends this process by closing its input.
			return worker.Run(ignoreSignals(c.Context()), in, out, log)
		},
	}
}
