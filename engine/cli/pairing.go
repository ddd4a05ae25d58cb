package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// await calls look until it says that it is done.
func await(ctx context.Context, look func() (bool, error)) error {
	tick := time.NewTicker(pollEvery)
	defer tick.Stop()
	for {
		if ended, err := look(); ended || err != nil {
			return err
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return protocol.Errorf(protocol.CodeCancelled, "stopped; the same command goes on with it")
		}
	}
}

func ownerPair() *cobra.Command {
	var f ownerFlags
	var yes, fresh bool
	c := &cobra.Command{
		Use:   "pair",
		Short: "Let a further computer belong to this computer's owner",
		Long: "Shows a code for \"neuron-engine owner join CODE\" on the other computer, waits for it,\n" +
			"shows which node came, and asks before it becomes this owner's. When it is stopped,\n" +
			"the same command goes on with the same code, for ten minutes.",
		Args: cobra.NoArgs,
		RunE: f.with(func(c *cobra.Command, _ []string, o localapi.Owner) error {
			ctx, out := c.Context(), c.OutOrStdout()
			p, err := o.StartPairing(ctx, fresh)
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "Code: %s, good until %s. On the other computer: neuron-engine owner join %s\n",
				spaced(p.Code), p.Expires.Local().Format(time.TimeOnly), p.Code)
			err = await(ctx, func() (bool, error) {
				if p, err = o.Pairing(ctx); errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}) {
					return true, protocol.Errorf(protocol.CodeTimeout, "nobody came with the code in time, or it was used up")
				}
				return err == nil && p.Offer != nil, err
			})
			if err != nil {
				return err
			}
			node := p.Offer.Node
			fmt.Fprintf(out, "Node %s came", node.Short())
			if p.Offer.Host != "" {
				fmt.Fprintf(out, " (%s)", p.Offer.Host)
			}
			fmt.Fprintln(out, ". Compare it with what the other computer shows.")
			if !yes {
				ok, err := agree(ctx, c.InOrStdin(), out, "Shall it belong to you?")
				if err != nil {
					return err
				}
				if !ok {
					if err := o.EndPairing(ctx); err != nil {
						return err
					}
					fmt.Fprintln(out, "Not paired.")
					return nil
				}
			}
			if err := o.ConfirmPairing(ctx, node); err != nil {
				return err
			}
			fmt.Fprintf(out, "Node %s belongs to you now.\n", node.Short())
			return nil
		}),
	}
	f.add(c)
	c.Flags().BoolVar(&yes, "yes", false, "confirm the node that comes without asking")
	c.Flags().BoolVar(&fresh, "new", false, "another code, also when one is open")
	return c
}

// spaced makes a code easier to read out.
func spaced(code string) string {
	if len(code) != 8 {
		return code
	}
	return code[:4] + "-" + code[4:]
}

// agree asks a question; only "y" and "yes" agree, and the end of the input does
// not.
func agree(ctx context.Context, in io.Reader, out io.Writer, question string) (bool, error) {
	fmt.Fprintf(out, "%s [y/N] ", question)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	select {
	case line := <-readLines(ctx, in):
		answer := strings.ToLower(strings.TrimSpace(line.text))
		return answer == "y" || answer == "yes", line.err
	case <-ctx.Done():
		fmt.Fprintln(out)
		return false, protocol.Errorf(protocol.CodeCancelled, "stopped; the same command goes on with it")
	}
}

func ownerJoin() *cobra.Command {
	var f ownerFlags
	var yes, noWait bool
	c := &cobra.Command{
		Use:   "join CODE",
		Short: "Let this computer belong to the owner of another one, whose \"owner pair\" shows the code",
		Long: "Looks up whose code it is, asks, and waits until that owner has confirmed. From then on\n" +
			"this computer's node and what it earns are that owner's.",
		Args: cobra.ExactArgs(1),
		RunE: f.with(func(c *cobra.Command, args []string, o localapi.Owner) error {
			ctx, out := c.Context(), c.OutOrStdout()
			state, err := o.Owner(ctx)
			if err != nil {
				return err
			}
			want, err := o.LookupCode(ctx, args[0])
			switch goesOn := state.Status == "waiting" && errors.Is(err, &protocol.Error{Code: protocol.CodeNotFound}); {
			case goesOn:
				want = state.Wanted // the code is used up, by this computer
			case err != nil:
				return err
			default:
				fmt.Fprintf(out, "The code is of owner %s. This computer is node %s.\n", want.Short(), state.Node.Short())
				if !yes {
					ok, err := agree(ctx, c.InOrStdin(), out, "Shall this computer belong to that owner?")
					if err != nil {
						return err
					}
					if !ok {
						fmt.Fprintln(out, "Not joined.")
						return nil
					}
				}
			}
			if _, err := o.Join(ctx, args[0], want); err != nil {
				return err
			}
			if noWait {
				fmt.Fprintln(out, "The owner has to confirm on the other computer.")
				return nil
			}
			fmt.Fprintln(out, "Waiting for the owner to confirm on the other computer.")
			err = await(ctx, func() (bool, error) {
				s, err := o.Owner(ctx)
				switch {
				case err != nil:
					return false, err
				case s.Status == "waiting" && s.Error == nil:
					return false, nil
				case s.Wanted == want && s.Tracker == want:
					return true, nil
				case s.Error != nil:
					return true, s.Error
				}
				return true, protocol.Errorf(protocol.CodeTimeout, "the owner has not confirmed in time")
			})
			if err != nil {
				return err
			}
			fmt.Fprintf(out, "This computer belongs to owner %s now.\n", want.Short())
			return nil
		}),
	}
	f.add(c)
	c.Flags().BoolVar(&yes, "yes", false, "do not ask")
	c.Flags().BoolVar(&noWait, "no-wait", false, "do not wait for the owner")
	return c
}

func ownerLeave() *cobra.Command {
	var f ownerFlags
	c := &cobra.Command{
		Use:   "leave",
		Short: "Bring this computer back from another computer's owner to its own owner key",
		Args:  cobra.NoArgs,
		RunE: f.with(func(c *cobra.Command, _ []string, o localapi.Owner) error {
			if err := o.Leave(c.Context()); err != nil {
				return err
			}
			fmt.Fprintln(c.OutOrStdout(), "This computer belongs to its own owner key again.")
			return nil
		}),
	}
	f.add(c)
	return c
}

func ownerRelease() *cobra.Command {
	var f ownerFlags
	c := &cobra.Command{
		Use:   "release NODE",
		Short: "Let a node go that belongs to this computer's owner; what it has earned stays",
		Args:  cobra.ExactArgs(1),
		RunE: f.with(func(c *cobra.Command, args []string, o localapi.Owner) error {
			node, err := o.Release(c.Context(), args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "Node %s does not belong to you any more.\n", node.Short())
			return nil
		}),
	}
	f.add(c)
	return c
}

// Export and recover work on the files: a passphrase and a key have no business
// on a socket. A running engine reads the key anew at each use.
