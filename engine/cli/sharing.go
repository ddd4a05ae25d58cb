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

// onEngine makes a command that does something with the engine of --data.
func onEngine(use, short string, args cobra.PositionalArgs, do func(c *cobra.Command, client *localapi.Client, args []string) error) *cobra.Command {
	var data string
	c := &cobra.Command{
		Use: use, Short: short, Args: args,
		RunE: func(c *cobra.Command, args []string) error {
			client, err := localapi.Dial(data)
			if err != nil {
				return err
			}
			defer client.Close()
			return do(c, client, args)
		},
	}
	dataFlag(c, &data, "data folder of the engine")
	return c
}

// shareCommand turns sharing on and off.
func shareCommand() *cobra.Command {
	c := onEngine("share on|off", "Let others use this computer, or not; running sessions go on",
		cobra.MatchAll(cobra.ExactArgs(1), cobra.OnlyValidArgs),
		func(c *cobra.Command, client *localapi.Client, args []string) error {
			if err := client.Share(c.Context(), args[0] == "on"); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "sharing is %s\n", args[0])
			return saved(c, client)
		})
	c.ValidArgs = []string{"on", "off"}
	return c
}

// pauseCommand stops sharing for a while.
func pauseCommand() *cobra.Command {
	c := onEngine("pause 30m|1h|3h|...|tomorrow|until-resumed", "Stop sharing this computer for a while; running sessions are finished", cobra.ExactArgs(1),
		func(c *cobra.Command, client *localapi.Client, args []string) error {
			p, err := parsePause(args[0])
			if err != nil {
				return err
			}
			if err := client.Pause(c.Context(), p); err != nil {
				return err
			}
			s, err := client.Settings(c.Context())
			if err != nil {
				return err
			}
			end := "until you resume it"
			if !s.Pause.UntilResumed {
				end = "until " + s.Pause.Until.Local().Format("Mon 15:04")
			}
			fmt.Fprintf(c.OutOrStdout(), "sharing is paused %s\n", end)
			return saved(c, client)
		})
	c.Long = "Stop sharing this computer for a while. The time is like 30m, 1h or 2h30m, from one\nminute to seven days; tomorrow is six in the morning; until-resumed has no end."
	return c
}

func parsePause(s string) (localapi.PauseOrder, error) {
	switch s {
	case "tomorrow":
		return localapi.PauseOrder{Tomorrow: true}, nil
	case "until-resumed":
		return localapi.PauseOrder{UntilResumed: true}, nil
	}
	d, err := time.ParseDuration(s)
	if err != nil {
		return localapi.PauseOrder{}, protocol.Errorf(protocol.CodeInvalidRequest, "%.100q is no time: want 30m, 1h, tomorrow or until-resumed", s)
	}
	p := localapi.PauseOrder{Seconds: int64(d / time.Second)}
	_, err = p.Pause(time.Now())
	return p, err
}

// resumeCommand ends a pause.
func resumeCommand() *cobra.Command {
	return onEngine("resume", "End a pause of sharing", cobra.NoArgs, func(c *cobra.Command, client *localapi.Client, _ []string) error {
		if err := client.Resume(c.Context()); err != nil {
			return err
		}
		fmt.Fprintln(c.OutOrStdout(), "the pause is over")
		return saved(c, client)
	})
}

// saved tells when what was set is in force and could not be saved.
func saved(c *cobra.Command, client *localapi.Client) error {
	s, err := client.Status(c.Context())
	if err != nil {
		return err
	}
	for _, h := range s.Health {
		if s.Policy != nil && (h.Code == protocol.CodeDiskFull || h.Code == protocol.CodeDataFolder) {
			fmt.Fprintf(c.ErrOrStderr(), "note: %s\n", h.Text)
		}
	}
	return nil
}

// showSharing writes the one sentence of status.
func showSharing(w io.Writer, s *localapi.Status) {
	p := s.Policy
	if p == nil {
		return
	}
	text := p.Text
	if p.Detail != "" {
		text += " (" + p.Detail + ")"
	}
	if p.Until != nil {
		text += " Until " + p.Until.Local().Format("Mon 15:04") + "."
	}
	fmt.Fprintf(w, "sharing\t%s\n", text)
	if x := s.Work; x != nil {
		credit := ""
		if x.CreditKnown {
			credit = ", " + credits(x.CreditToday) + " credits"
		}
		fmt.Fprintf(w, "work\t%d sessions, %.1f tokens/s; today %d tokens, %.1f MB%s\n", x.Sessions, x.TokensPerSecond, x.TokensToday, float64(x.BytesToday)/1e6, credit)
	}
	if s.Gateway != "" {
		fmt.Fprintf(w, "gateway\t%s\n", s.Gateway)
	}
}

// hardwareCommand says what this computer is.
func hardwareCommand() *cobra.Command {
	var probe bool
	c := local("hardware", "Say what this computer is and can do",
		func(ctx context.Context, c *localapi.Client) (*localapi.Hardware, error) {
			if probe {
				return c.Probe(ctx)
			}
			return c.Hardware(ctx)
		},
		func(out io.Writer, h *localapi.Hardware) error {
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, h.Text)
			for _, g := range h.GPUs {
				fmt.Fprintf(w, "device\t%s\t%s\t%.1f GB\n", g.Name, g.Kind, float64(g.Memory)/1e9)
			}
			if s := h.Speed; s != nil {
				fmt.Fprintf(w, "speed\t%s: %.0f tokens/s, reads %.0f tokens/s, %d threads\n", s.Model, s.TokensPerSecond, s.PrefillPerSec, s.Threads)
			}
			return w.Flush()
		})
	c.Flags().BoolVar(&probe, "probe", false, "look again, and measure the speed of a small model")
	return c
}

// networkCommand shows the tracker's view.
func networkCommand() *cobra.Command {
	return local("network", "Show the network that this computer belongs to",
		func(ctx context.Context, c *localapi.Client) (*localapi.Network, error) { return c.Network(ctx) },
		func(out io.Writer, n *localapi.Network) error {
			w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
			fmt.Fprintf(w, "tracker\t%s %s\n", n.Tracker.URL, n.Tracker.State)
			fmt.Fprintf(w, "nodes\t%d\n", n.Nodes)
			fmt.Fprintf(w, "sessions\t%d\n", n.Sessions)
			for i := range n.Models {
				m := &n.Models[i]
				state := "not all layers are held"
				if m.Info.Routable {
					state = "can be used"
				}
				held := ""
				if m.Local != nil {
					held = ", layers " + m.Local.String() + " here"
				}
				fmt.Fprintf(w, "model\t%s\t%d layers, %.1f MB, %s%s\n", m.Info.Name, m.Info.Layers, float64(m.Bytes)/1e6, state, held)
			}
			return w.Flush()
		})
}

// diagnosticsCommand prints the report for those who help.
func diagnosticsCommand() *cobra.Command {
	var file string
	c := onEngine("diagnostics", "Print a report for those who help: no prompts, keys, or names of your files", cobra.NoArgs,
		func(c *cobra.Command, client *localapi.Client, _ []string) error {
			text, err := client.Report(c.Context())
			if err != nil {
				return err
			}
			return writeFile(c, file, []byte(text))
		})
	c.Flags().StringVar(&file, "out", "-", `write a new file ("-": print it)`)
	return c
}
