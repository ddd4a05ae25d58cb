package cli

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// local makes a command that asks the engine of --data and prints the answer
// as a table or, with --json, whole.
func local[T any](use, short string, ask func(context.Context, *localapi.Client) (T, error), show func(io.Writer, T) error) *cobra.Command {
	var data string
	var asJSON bool
	c := &cobra.Command{
		Use: use, Short: short, Args: cobra.NoArgs,
		RunE: func(c *cobra.Command, _ []string) error {
			client, err := localapi.Dial(data)
			if err != nil {
				return err
			}
			defer client.Close()
			v, err := ask(c.Context(), client)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), v)
			}
			return show(c.OutOrStdout(), v)
		},
	}
	dataFlag(c, &data, "data folder of the engine")
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func statusCommand() *cobra.Command {
	return local("status", "Show what the engine of this computer does",
		func(ctx context.Context, c *localapi.Client) (*localapi.Status, error) { return c.Status(ctx) },
		func(out io.Writer, s *localapi.Status) error {
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			showSharing(w, s)
			fmt.Fprintf(w, "node\t%s\n", s.Node)
			fmt.Fprintf(w, "version\t%s", s.Version)
			if s.Llama != "" {
				fmt.Fprintf(w, " (llama.cpp %s)", s.Llama)
			}
			fmt.Fprintln(w)
			fmt.Fprintf(w, "up\t%s\n", time.Duration(s.UptimeSec)*time.Second)
			fmt.Fprintf(w, "tracker\t%s %s\n", s.Tracker.URL, s.Tracker.State)
			if s.Seam != "" {
				fmt.Fprintf(w, "seam\t%s\n", s.Seam)
			}
			for _, x := range s.Shards {
				fmt.Fprintf(w, "holds\t%s layers %s: %s, %.1f MB, %d sessions, %.2f ms per token\n",
					x.Name, x.Range, x.State, float64(x.Bytes)/1e6, x.Sessions, float64(x.StepMicros)/1e3)
			}
			for _, t := range s.Transfers {
				fmt.Fprintf(w, "transfer\t%s\n", transferLine(t))
			}
			m := s.Memory
			fmt.Fprintf(w, "memory\t%.0f MB anonymous (weights, KV, compute), %.0f MB of files, %.1f GB free\n",
				float64(m.Anonymous)/1e6, float64(m.File)/1e6, float64(m.Free)/1e9)
			if m.KVBudget > 0 {
				fmt.Fprintf(w, "pools\t%.0f MB of %.0f MB for KV, %.0f MB for compute buffers\n",
					float64(m.KVInUse)/1e6, float64(m.KVBudget)/1e6, float64(m.Compute)/1e6)
			}
			for _, h := range s.Health {
				fmt.Fprintf(w, "%s\t%s (%s)", h.Severity, h.Text, h.Code)
				if h.Remedy != "" {
					fmt.Fprintf(w, ": %s", h.Remedy)
				}
				fmt.Fprintln(w)
			}
			return w.Flush()
		})
}

// transferLine is a transfer in one line.
func transferLine(t localapi.Transfer) string {
	out := fmt.Sprintf("%s %s: %.1f of %.1f MB", t.Name, t.State, float64(t.Done)/1e6, float64(t.Bytes)/1e6)
	if t.DownRate > 0 {
		out += fmt.Sprintf(", %.1f MB/s down", float64(t.DownRate)/1e6)
	}
	if t.UpRate > 0 {
		out += fmt.Sprintf(", %.1f MB/s up", float64(t.UpRate)/1e6)
	}
	out += fmt.Sprintf(", %d peers", t.Peers)
	if t.ETASeconds > 0 && t.Done < t.Bytes {
		out += ", " + (time.Duration(t.ETASeconds) * time.Second).String() + " left"
	}
	return out
}

// transfersCommand shows what is fetched and seeded, layer by layer.
func transfersCommand() *cobra.Command {
	return local("transfers", "Show what is fetched and seeded, layer by layer",
		func(ctx context.Context, c *localapi.Client) ([]localapi.Transfer, error) {
			s, err := c.Status(ctx)
			if err != nil {
				return nil, err
			}
			return s.Transfers, nil
		},
		func(out io.Writer, list []localapi.Transfer) error {
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			for _, t := range list {
				fmt.Fprintln(w, transferLine(t))
				for _, p := range t.Parts {
					state := "fetched"
					switch {
					case p.Served:
						state = "served"
					case p.Verified:
						state = "verified"
					case p.Done < p.Bytes:
						state = fmt.Sprintf("%.0f %%", 100*float64(p.Done)/float64(max(1, p.Bytes)))
					}
					fmt.Fprintf(w, "  %s\t%.1f MB\t%s\n", p.Name, float64(p.Bytes)/1e6, state)
				}
			}
			return w.Flush()
		})
}

func modelsCommand() *cobra.Command {
	c := local("models", "List the models that the engine of this computer holds",
		func(ctx context.Context, c *localapi.Client) ([]localapi.Model, error) { return c.Models(ctx) },
		func(out io.Writer, list []localapi.Model) error {
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "MODEL\tID\tFAMILY\tLAYERS\tHELD\tCONTEXT")
			for _, m := range list {
				held := "-"
				if m.Local != nil {
					held = m.Local.String()
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%s\t%d\n", m.Info.Name, m.Info.Model.Short(), m.Info.Architecture, m.Info.Layers, held, m.Info.Context)
			}
			return w.Flush()
		})
	c.AddCommand(inspectCommand())
	return c
}

func sessionsCommand() *cobra.Command {
	return local("sessions", "List the sessions that run through this computer",
		func(ctx context.Context, c *localapi.Client) ([]protocol.SessionState, error) { return c.Sessions(ctx) },
		func(out io.Writer, list []protocol.SessionState) error {
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "SESSION\tHOP\tLAYERS\tPHASE\tPREFILL\tDECODE\tCELLS\tAGE")
			for _, s := range list {
				fmt.Fprintf(w, "%s\t%d\t%s\t%s\t%d\t%d\t%d\t%s\n", s.Session, s.Hop, s.Use, s.Phase,
					s.Counters.PrefillRows, s.Counters.DecodeRows, s.Cells, time.Since(s.Opened).Round(time.Second))
			}
			return w.Flush()
		})
}
