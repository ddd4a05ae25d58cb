package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// holdCommand changes what a running engine holds.
func holdCommand() *cobra.Command {
	var data string
	c := &cobra.Command{
		Use:   "hold [MODEL [LAYERS]]",
		Short: "Change which layers the engine of this computer holds",
		Long: "Change which layers the engine of this computer holds. MODEL is a GGUF file or a model\n" +
			"of the tracker's catalog; LAYERS is \"all\" or FIRST-LAST (LAST not included). What is\n" +
			"left out, the tracker chooses. What is held now goes on until the new layers are there.",
		Args: cobra.MaximumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			var h localapi.Hold
			if len(args) > 0 {
				h.Model = args[0]
			}
			if len(args) > 1 {
				h.Layers = args[1]
			}
			client, err := localapi.Dial(data)
			if err != nil {
				return err
			}
			defer client.Close()
			if err := client.Hold(c.Context(), h); err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), "accepted; see: neuron-engine transfers")
			return nil
		},
	}
	dataFlag(c, &data, "data folder of the engine")
	return c
}

// planCommand says what this computer could hold.
func planCommand() *cobra.Command {
	return local("plan", "Say what this computer could hold of the tracker's models, and what it would cost",
		func(ctx context.Context, c *localapi.Client) ([]localapi.Plan, error) { return c.Plans(ctx) },
		func(out io.Writer, list []localapi.Plan) error {
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			for _, p := range list {
				fmt.Fprintln(w, p.Text)
				for _, r := range p.Ranges {
					fmt.Fprintf(w, "  layers %s\t%s\n", r.Range, r.Text)
				}
			}
			if len(list) == 0 {
				return protocol.Errorf(protocol.CodeModelUnknown, "the tracker's catalog is empty")
			}
			return w.Flush()
		})
}
