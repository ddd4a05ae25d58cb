package cli

import (
	"fmt"

	"github.com/spf13/cobra"

	"neuron/engine/program"
)

// chunkRows is the default of --chunk, for which inspect states its figures.
const chunkRows = 256

func runCommand() *cobra.Command {
	var o program.NodeOptions
	c := &cobra.Command{
		Use:   "run --model FILE.gguf",
		Short: "Hold layers of a model and serve them to routes",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Log = logs().For
			n, err := program.NewNode(c.Context(), o)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "node %s seam %s data %s\n", n.ID(), n.SeamAddr(), o.Data)
			return n.Run(c.Context())
		},
	}
	f := c.Flags()
	dataFlag(c, &o.Data, "folder for the key, the layers and the local API")
	f.StringVar(&o.Model, "model", "", "GGUF file (any part of a split one)")
	f.StringVar(&o.Layers, "layers", "all", `layers to hold: "all" or FIRST-LAST (LAST not included)`)
	f.StringVar(&o.Tracker, "tracker", "", "address of the tracker (http:// or https://)")
	f.StringVar(&o.SeamListen, "seam", "127.0.0.1:0", "address on which other nodes reach this one")
	f.StringVar(&o.SeamAddr, "seam-public", "", "host:port that others should dial, when it is another one")
	f.StringVar(&o.APIListen, "local-api", "127.0.0.1:0", "address of the local API, loopback only")
	f.IntVar(&o.Threads, "threads", 0, "threads of the stage (0: as many as other programs leave free)")
	f.IntVar(&o.ChunkRows, "chunk", chunkRows, "most rows of a prefill chunk, a multiple of 64")
	f.IntVar(&o.MaxContext, "context", 0, "longest session in tokens (0: the model's own limit)")
	f.IntVar(&o.MaxSessions, "sessions", 16, "most sessions at a time")
	f.Int64Var(&o.KVBudget, "kv-bytes", 0, "memory for session state in bytes (0: a quarter of what is free)")
	f.BoolVar(&o.NoRepack, "no-repack", false, "keep weights in the mapped file only: less memory, slower")
	f.StringVar(&o.NativeDir, "native", "", "folder with the llama.cpp libraries")
	must(c.MarkFlagRequired("model"))
	return c
}

func gatewayCommand() *cobra.Command {
	var o program.GatewayOptions
	c := &cobra.Command{
		Use:   "gateway --tracker URL --model FILE.gguf",
		Short: "Serve the OpenAI API and drive routes of the network",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Log = logs().For
			g, err := program.NewGateway(c.Context(), o)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "api %s data %s\n", g.Endpoint().URL, o.Data)
			return g.Run(c.Context())
		},
	}
	f := c.Flags()
	dataFlag(c, &o.Data, "folder for the key and the address of the API")
	f.StringVar(&o.Tracker, "tracker", "", "address of the tracker (http:// or https://)")
	f.StringArrayVar(&o.Models, "model", nil, "GGUF whose tokenizer and template are used (may be given several times)")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:0", "address of the API")
	f.StringVar(&o.Key, "key", "", `key that clients must send ("": made once and kept, "none": no key, loopback only)`)
	f.IntVar(&o.MaxActive, "active", 8, "sessions that run at a time")
	f.IntVar(&o.MaxQueue, "queue", 64, "requests that wait behind them")
	f.StringVar(&o.NativeDir, "native", "", "folder with the llama.cpp libraries")
	must(c.MarkFlagRequired("tracker"))
	must(c.MarkFlagRequired("model"))
	return c
}

// must is for errors that only a mistake in this package can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
