// Package manifests answers on the command line what can be asked about a model's
// manifest. The command line imports it; it asks no engine.
package manifests

import (
	"encoding/json"

	"github.com/spf13/cobra"

	"neuron/engine/protocol"
	"neuron/internal/publish"
)

// Command groups what can be asked about a model's manifest.
func Command() *cobra.Command {
	c := &cobra.Command{Use: "manifest", Short: "Say which bytes of a model a node has to hold, and check them"}
	c.AddCommand(showCommand(), verifyCommand())
	return c
}

func showCommand() *cobra.Command {
	var layers string
	var asJSON, hash bool
	c := &cobra.Command{
		Use:   "show PATH",
		Short: "Print tensors, bytes and pieces that a node with some layers holds",
		Long: `Print which tensors, byte extents and torrent pieces a node needs to serve a
range of layers. PATH is a GGUF (any file of a split set) or a signed manifest.`,
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			m, publisher, err := loadManifest(c.Context(), args[0], hash, c.ErrOrStderr())
			if err != nil {
				return err
			}
			r := protocol.Range{Last: m.Layers}
			switch layers {
			case "", "all":
			case "none":
				r = protocol.Range{}
			default:
				if r, err = protocol.ParseRange(layers); err != nil {
					return err
				}
			}
			n, err := m.Need(r)
			if err != nil {
				return err
			}
			v := needView(m, n, publisher)
			if asJSON {
				e := json.NewEncoder(c.OutOrStdout())
				e.SetIndent("", "  ")
				return e.Encode(v)
			}
			return v.print(c.OutOrStdout(), m)
		},
	}
	c.Flags().StringVar(&layers, "layers", "all", "range FIRST-LAST (LAST not included), all, or none for the metadata alone")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	c.Flags().BoolVar(&hash, "hash", false, "read the whole GGUF for model id and hashes (a signed manifest has them)")
	return c
}

func verifyCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "verify MANIFEST FILE...",
		Short: "Compare a model's files with a signed manifest",
		Long: `Compare a model's files, or the folder that holds them, with a signed manifest:
every tensor, header and file by its SHA-256.`,
		Args: cobra.MinimumNArgs(2),
		RunE: func(c *cobra.Command, args []string) error {
			s, err := readManifest(args[0])
			if err != nil {
				return err
			}
			paths, err := filesFor(s.Manifest, args[1:])
			if err != nil {
				return err
			}
			p := newHashing(c.ErrOrStderr())
			damage, err := publish.Verify(c.Context(), s.Manifest, paths, publish.Options{Progress: p.update})
			p.end()
			if err != nil {
				return err
			}
			return printDamage(c.OutOrStdout(), s, damage)
		},
	}
}
