package cli

import (
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"neuron/engine/cli/fields"
	"neuron/engine/localapi"
	"neuron/engine/policy"
)

// settingsCommand shows the settings of a desktop engine, and changes one.
func settingsCommand() *cobra.Command {
	c := settingsUnder("settings [NAME [VALUE]]", "Show the settings of this computer, or change one", "")
	c.Long = "Show the settings of this computer, or one of them, or change one. Names are like\n" +
		"rules.on_battery; values are on and off, numbers, sizes (500kB, 2MB, 8GB), lists with\n" +
		"commas, or text. none is the value of a limit that is not to be."
	return c
}

// limitsCommand is settings for the limits alone.
func limitsCommand() *cobra.Command {
	c := settingsUnder("limits [NAME [VALUE]]", "Show what sharing may take of this computer, or change it", "limits.")
	c.Long = "Show the most that sharing may take of this computer, or change a limit: threads,\n" +
		"memory_bytes, disk_bytes, keep_free, up_rate, down_rate, day_bytes, sessions, gpus.\n" +
		"Sizes are like 500kB, 2MB or 8GB, rates the same per second; none is no limit."
	return c
}

func settingsUnder(use, short, prefix string) *cobra.Command {
	var asJSON bool
	c := onEngine(use, short, cobra.MaximumNArgs(2), func(c *cobra.Command, client *localapi.Client, args []string) error {
		s, err := client.Settings(c.Context())
		if err != nil {
			return err
		}
		if len(args) == 2 {
			if s, err = fields.With(s, prefix+args[0], args[1]); err != nil {
				return err
			}
			if s, err = client.SetSettings(c.Context(), s); err != nil {
				return err
			}
			if err := saved(c, client); err != nil {
				return err
			}
		}
		if asJSON {
			return printJSON(c.OutOrStdout(), s)
		}
		only := ""
		if len(args) > 0 {
			only = prefix + args[0]
		}
		return showSettings(c.OutOrStdout(), s, prefix, only)
	})
	c.Flags().BoolVar(&asJSON, "json", false, "print all settings as JSON")
	return c
}

func showSettings(out io.Writer, s policy.Settings, prefix, only string) error {
	all, err := fields.All(s)
	if err != nil {
		return err
	}
	if _, ok := all[only]; only != "" && !ok {
		return fields.Unknown(only)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	for _, name := range slices.Sorted(maps.Keys(all)) {
		if !strings.HasPrefix(name, prefix) || only != "" && name != only {
			continue
		}
		fmt.Fprintf(w, "%s\t%s\n", strings.TrimPrefix(name, prefix), fields.Text(name, all[name]))
	}
	return w.Flush()
}
