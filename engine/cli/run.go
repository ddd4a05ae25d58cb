package cli

import (
	"crypto/ed25519"
	"encoding/hex"
	"fmt"

	"github.com/spf13/cobra"

	"neuron/engine/program"
)

// chunkRows is the default of --chunk, for which inspect states its figures.
const chunkRows = 256

func runCommand() *cobra.Command {
	var o program.NodeOptions
	c := &cobra.Command{
		Use:   "run",
		Short: "Hold layers of a model and serve them to routes",
		Long:  "Hold layers of a model and serve them to routes. --model is a GGUF file, or the\nname of a model in the tracker's catalog, whose layers are then fetched from other\nnodes. Without --model the tracker says what is needed.",
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
	f.StringVar(&o.Owner, "owner-data", "", ownerHelp)
	f.StringVar(&o.Model, "model", "", `GGUF file (any part of a split one), or a model of the tracker's catalog ("": the tracker says)`)
	f.StringVar(&o.Layers, "layers", "", `layers to hold: "all" or FIRST-LAST (LAST not included; "": all of a file, else what the tracker says)`)
	f.StringArrayVar(&o.Adopt, "adopt", nil, "GGUF file of this computer that is seeded from where it lies (may be given several times)")
	f.StringVar(&o.Tracker, "tracker", "", "address of the tracker (http:// or https://)")
	f.StringVar(&o.SwarmListen, "swarm", "127.0.0.1:0", "address on which other nodes fetch layers from this one")
	f.Var(keysFlag{&o.Publishers}, "publisher", publisherHelp)
	f.Int64Var(&o.Swarm.UpBytes, "up-rate", 0, "most bytes per second that are sent to others' downloads (0: no limit)")
	f.Int64Var(&o.Swarm.DownBytes, "down-rate", 0, "most bytes per second that are fetched (0: no limit)")
	f.IntVar(&o.Swarm.Peers, "swarm-peers", 0, "most connections per model (0: 40)")
	f.Int64Var(&o.Swarm.DiskBytes, "disk-bytes", 0, "most bytes of layers on disk (0: what is free)")
	f.Int64Var(&o.Swarm.KeepFree, "keep-free", 1<<30, "bytes that stay free on the disk")
	f.Int64Var(&o.MemoryLimit, "memory-bytes", 0, "memory for weights and sessions when the tracker chooses (0: what is available)")
	f.StringVar(&o.SeamListen, "seam", "127.0.0.1:0", "address on which other nodes reach this one")
	f.StringVar(&o.SeamAddr, "seam-public", "", "host:port that others should dial, when it is another one")
	f.StringVar(&o.APIListen, "local-api", "127.0.0.1:0", "address of the local API, loopback only")
	f.IntVar(&o.Threads, "threads", 0, "threads of the stage (0: as many as other programs leave free)")
	f.IntVar(&o.ChunkRows, "chunk", chunkRows, "most rows of a prefill chunk, a multiple of 64")
	f.IntVar(&o.MaxContext, "context", 0, "longest session in tokens (0: the model's own limit)")
	f.IntVar(&o.MaxSessions, "sessions", 16, "most sessions at a time")
	f.Int64Var(&o.KVBudget, "kv-bytes", 0, "memory for session state in bytes (0: a quarter of what is free)")
	f.Int64Var(&o.PrefixDisk, "prefix-bytes", 0, "most bytes on disk for the state of prompts' beginnings (0: 1 GiB, negative: none)")
	f.BoolVar(&o.PrivatePrefixes, "private-prefixes", false, "write that of private sessions to disk, too")
	f.BoolVar(&o.NoRepack, "no-repack", false, "keep weights in the mapped file only: less memory, slower")
	f.StringVar(&o.NativeDir, "native", "", "folder with the llama.cpp libraries")
	return c
}

// keysFlag collects public keys of publishers.
type keysFlag struct{ keys *[]ed25519.PublicKey }

func (f keysFlag) String() string { return "" }
func (f keysFlag) Type() string   { return "key" }

// Set implements pflag.Value.
func (f keysFlag) Set(s string) error {
	raw, err := hex.DecodeString(s)
	if err != nil || len(raw) != ed25519.PublicKeySize {
		return fmt.Errorf("a publisher's key is %d hex digits", 2*ed25519.PublicKeySize)
	}
	*f.keys = append(*f.keys, raw)
	return nil
}

const ownerHelp = "folder of the owner key, for several programs of one person (default: that of --data)"

const halvesHelp = "let hidden states cross seams in 16 bits where a model's family allows it: half the bytes, and answers that may differ"

const publisherHelp = "public key (64 hex digits) whose manifests count besides the tracker's (may be given several times)"

// seedCommand is "run" for a computer that only gives files away.
func seedCommand() *cobra.Command {
	o := program.NodeOptions{SeedOnly: true}
	c := &cobra.Command{
		Use:   "seed FILE.gguf...",
		Short: "Give models that lie on this computer to nodes that fetch them",
		Args:  cobra.MinimumNArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			o.Log, o.Adopt = logs().For, args
			n, err := program.NewNode(c.Context(), o)
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "node %s seam %s data %s\n", n.ID(), n.SeamAddr(), o.Data)
			return n.Run(c.Context())
		},
	}
	f := c.Flags()
	dataFlag(c, &o.Data, "folder for the key and the local API")
	f.StringVar(&o.Owner, "owner-data", "", ownerHelp)
	f.StringVar(&o.Tracker, "tracker", "", "address of the tracker (http:// or https://)")
	f.StringVar(&o.SwarmListen, "swarm", "127.0.0.1:0", "address on which other nodes fetch layers from this one")
	f.Int64Var(&o.Swarm.UpBytes, "up-rate", 0, "most bytes per second that are sent (0: no limit)")
	f.Var(keysFlag{&o.Publishers}, "publisher", publisherHelp)
	must(c.MarkFlagRequired("tracker"))
	return c
}

func gatewayCommand() *cobra.Command {
	var o program.GatewayOptions
	var pay string
	c := &cobra.Command{
		Use:   "gateway --tracker URL",
		Short: "Serve the OpenAI API and drive routes of the network",
		Args:  cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			o.Log = logs().For
			var err error
			if o.PayWith, err = payKey(pay); err != nil {
				return err
			}
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
	f.StringVar(&o.Owner, "owner-data", "", ownerHelp)
	f.StringVar(&pay, "pay-with", "", "file with the key of the network that pays for all sessions (default: "+payEnv+", else the owner pays)")
	f.StringVar(&o.Tracker, "tracker", "", "address of the tracker (http:// or https://)")
	f.StringArrayVar(&o.Models, "model", nil, "GGUF whose tokenizer and template are used (may be given several times); those of other models are fetched")
	f.StringVar(&o.Listen, "listen", "127.0.0.1:0", "address of the API")
	f.StringVar(&o.Key, "key", "", `key that clients must send ("": made once and kept, "none": no key, loopback only)`)
	f.IntVar(&o.MaxActive, "active", 8, "sessions that run at a time")
	f.IntVar(&o.MaxQueue, "queue", 64, "requests that wait behind them")
	f.BoolVar(&o.Halves, "half-seams", false, halvesHelp)
	f.StringVar(&o.NativeDir, "native", "", "folder with the llama.cpp libraries")
	f.Var(keysFlag{&o.Publishers}, "publisher", publisherHelp)
	f.StringVar(&o.SwarmListen, "swarm", "127.0.0.1:0", "address of this gateway among those that fetch models")
	must(c.MarkFlagRequired("tracker"))
	return c
}

// must is for errors that only a mistake in this package can cause.
func must(err error) {
	if err != nil {
		panic(err)
	}
}
