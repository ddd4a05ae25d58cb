package cli

import (
	"context"
	"time"

	"github.com/spf13/cobra"

	"neuron/engine/localapi"
	"neuron/engine/program"
	"neuron/engine/protocol"
)

// stopCommand ends an engine in order. It is the only way on Windows, where no
// signal asks a program without a window to end.
func stopCommand() *cobra.Command {
	var data string
	var wait time.Duration
	c := &cobra.Command{
		Use:   "stop",
		Short: "Stop the engine of this computer in order",
		Long: "Stop the engine of --data in order: its sessions end with a reason and the tracker\n" +
			"hears of it; a desktop engine finishes them and the answers of its gateway first, for\n" +
			"a minute at most; asked again it ends at once. Returns when the engine has given up\n" +
			"its data folder.",
		Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := localapi.Dial(data)
			if err != nil {
				return err
			}
			defer client.Close()
			if err := client.Shutdown(c.Context()); err != nil {
				return err
			}
			ctx, cancel := context.WithTimeoutCause(c.Context(), wait,
				protocol.Errorf(protocol.CodeTimeout, "the engine has agreed to stop and still runs after %s", wait))
			defer cancel()
			return program.WaitStopped(ctx, data)
		},
	}
	dataFlag(c, &data, "data folder of the engine")
	c.Flags().DurationVar(&wait, "wait", 75*time.Second, "how long to wait for its end")
	return c
}
