package cli

import (
	"encoding/json"
	"fmt"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"neuron/engine/artifact"
	"neuron/engine/protocol"
	"neuron/llama/family"
)

// inspectCommand prints what a GGUF is and how it may be cut.
func inspectCommand() *cobra.Command {
	var asJSON bool
	c := &cobra.Command{
		Use:   "inspect FILE.gguf",
		Short: "Say what a GGUF is, what it costs and how it may be cut",
		Args:  cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			src, err := artifact.Inspect(c.Context(), args[0], "", logs().For("artifact"))
			if err != nil {
				return err
			}
			shard := artifact.Shard{Source: src, Range: protocol.Range{Last: src.Model.Layers}}
			report := shard.Capability(chunkRows)
			report.WeightBytes = src.Weight
			out := c.OutOrStdout()
			if asJSON {
				e := json.NewEncoder(out)
				e.SetIndent("", "  ")
				return e.Encode(report)
			}
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "model\t%s\n", src.Name)
			fmt.Fprintf(w, "id\t%s\n", src.ID)
			fmt.Fprintf(w, "family\t%s\n", report.Architecture)
			fmt.Fprintf(w, "layers\t%d\n", report.Layers)
			fmt.Fprintf(w, "weights\t%.1f MB\n", float64(src.Weight)/1e6)
			fmt.Fprintf(w, "context\t%d tokens\n", report.MaxContext)
			fmt.Fprintf(w, "seam\t%d floats per token\n", report.Width)
			fmt.Fprintf(w, "KV memory\t%d bytes per token\n", report.KVBytesPerCell)
			fmt.Fprintf(w, "cuts\t%s\n", cuts(src.Model))
			return w.Flush()
		},
	}
	c.Flags().BoolVar(&asJSON, "json", false, "print the capability report as JSON")
	return c
}

// cuts says which layer ranges a node may hold.
func cuts(m *family.Model) string {
	if m.WholeOnly != "" {
		return "none: " + m.WholeOnly
	}
	legal, all := 0, 0
	for first := range m.Layers {
		for last := first + 1; last <= m.Layers; last++ {
			all++
			if m.CheckRange(first, last) == nil {
				legal++
			}
		}
	}
	if legal == all {
		return "at every layer"
	}
	return fmt.Sprintf("%d of %d ranges of layers", legal, all)
}
