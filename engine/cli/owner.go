package cli

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"neuron/engine/accounts"
	"neuron/engine/localapi"
	"neuron/engine/program"
	"neuron/engine/protocol"
	"neuron/engine/wallet"
)

// ownerFlags say whose owner a command is about.
type ownerFlags struct{ data, wallet, tracker string }

func (f *ownerFlags) add(c *cobra.Command) {
	dataFlag(c, &f.data, "data folder of the engine or gateway")
	c.Flags().StringVar(&f.wallet, "owner-data", "", "folder of the owner key where no engine runs (default: that of --data)")
	c.Flags().StringVar(&f.tracker, "tracker", "", "address of the tracker where no engine runs (default: the one used last)")
}

// open asks the engine that runs, or works with the owner key itself where none
// does, or only a gateway.
func (f *ownerFlags) open() (o localapi.Owner, end func(), err error) {
	client, err := localapi.Dial(f.data)
	if err == nil {
		return client, client.Close, nil
	}
	if !errors.Is(err, &protocol.Error{Code: protocol.CodeUnavailable}) {
		return nil, nil, err
	}
	desk, derr := program.OpenOwner(f.data, f.wallet, f.tracker)
	switch {
	case errors.Is(derr, &protocol.Error{Code: protocol.CodeNotFound}):
		return nil, nil, err // no engine, and none was ever here
	case derr != nil:
		return nil, nil, derr
	}
	return desk, desk.Close, nil
}

// with is a command's work with an owner.
func (f *ownerFlags) with(do func(c *cobra.Command, args []string, o localapi.Owner) error) func(*cobra.Command, []string) error {
	return func(c *cobra.Command, args []string) error {
		o, end, err := f.open()
		if err != nil {
			return err
		}
		defer end()
		return do(c, args, o)
	}
}

func ownerCommand() *cobra.Command {
	c := &cobra.Command{
		Use:   "owner",
		Short: "The owner key: who owns this computer's node, further computers, copies of the key",
		Long: "One owner key owns all of a person's computers and their credit. It is made at the\n" +
			"first start. \"pair\" and \"join\" bring a further computer to it, \"export\" and\n" +
			"\"recover\" keep a copy that only a passphrase opens.",
	}
	c.AddCommand(ownerShow(), ownerPair(), ownerJoin(), ownerLeave(), ownerRelease(), ownerExport(), ownerRecover())
	return c
}

func ownerShow() *cobra.Command {
	var f ownerFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "show", Short: "Show the owner, the nodes and the balance", Args: cobra.NoArgs,
		RunE: f.with(func(c *cobra.Command, _ []string, o localapi.Owner) error {
			state, err := o.Owner(c.Context())
			if err != nil {
				return err
			}
			var acc *accounts.Account
			if state.Error == nil {
				if acc, err = o.Account(c.Context()); err != nil && protocol.AsError(err).Code != protocol.CodeNotFound {
					return err
				}
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), struct {
					*localapi.OwnerState
					Account *accounts.Account `json:"account,omitempty"`
				}{state, acc})
			}
			return showOwner(c.OutOrStdout(), state, acc)
		}),
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func showOwner(out io.Writer, s *localapi.OwnerState, a *accounts.Account) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	if s.Wanted == "" || s.Wanted == s.Own {
		fmt.Fprintf(w, "owner\t%s\n", s.Own)
	} else {
		fmt.Fprintf(w, "owner\t%s, whose key is on another computer\n", s.Wanted)
		fmt.Fprintf(w, "own key\t%s, not used\n", s.Own)
	}
	fmt.Fprintf(w, "node\t%s: %s\n", s.Node, statusWords(s))
	if a != nil {
		fmt.Fprintf(w, "balance\t%s\n", balanceWords(a.Balances))
		for _, x := range a.Freezes {
			if x.Ended == "" {
				fmt.Fprintf(w, "frozen\tsince %s for the proof %s: %s\n", x.At.Format(time.DateTime), x.Proof, x.Note)
			}
		}
		if len(a.Nodes) > 0 {
			fmt.Fprintln(w, "\nNODE\tSINCE\tCONNECTED\tCOMPUTER")
		}
		for _, n := range a.Nodes {
			connected, host := "no", ""
			if n.Connected {
				connected = "yes"
			}
			if n.Info != nil {
				host = n.Info.Host
			}
			if n.Node == s.Node {
				host = strings.TrimSpace(host + " (this one)")
			}
			fmt.Fprintf(w, "%s\t%s\t%s\t%s\n", n.Node.Short(), n.Since.Format(time.DateOnly), connected, host)
		}
	}
	return w.Flush()
}

func statusWords(s *localapi.OwnerState) string {
	if s.Error != nil {
		return s.Error.Message
	}
	switch s.Status {
	case "bound":
		return "belongs to this owner"
	case "waiting":
		return "waits until that owner confirms"
	}
	return "the tracker has not said whose it is"
}

// balanceWords lists the books that hold something.
func balanceWords(b map[string]accounts.Money) string {
	out := []string{b["available"].Credits + " credits available"}
	for _, name := range []string{"reserved", "held", "pending", "frozen"} {
		if b[name].Micros != 0 {
			out = append(out, b[name].Credits+" "+name)
		}
	}
	return strings.Join(out, ", ")
}

// pollEvery is how often a waiting command looks.
const pollEvery = 2 * time.Second

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

func ownerExport() *cobra.Command {
	var dir, pass string
	c := &cobra.Command{
		Use:   "export FILE",
		Short: "Write a copy of the owner key that a passphrase opens",
		Long: "Writes a copy of the owner key, encrypted with a passphrase, to a new file. Keep it on\n" +
			"another disk: a lost key is lost credit, and without the passphrase nobody can open it.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			w := wallet.At(dir)
			id, err := w.Owner()
			if err != nil {
				return err
			}
			p, err := passphrases{file: pass, in: c.InOrStdin(), ask: c.ErrOrStderr()}.read("Passphrase for the copy: ", true)
			if err != nil {
				return err
			}
			sealed, err := w.Export(p)
			if err != nil {
				return err
			}
			if err := writeNew(args[0], sealed); err != nil {
				return err
			}
			// What is on the disk has to open, or it is no copy.
			back, err := os.ReadFile(args[0])
			if err != nil {
				return protocol.Errorf(protocol.CodeDataFolder, "read the copy again: %w", err)
			}
			if _, err := wallet.Unseal(back, p); err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "The key of owner %s is in %s.\n", id.Short(), args[0])
			return nil
		},
	}
	dataFlag(c, &dir, "folder of the owner key")
	c.Flags().StringVar(&pass, "passphrase-file", "", passphraseHelp)
	return c
}

// writeNew writes a file that must not exist, to the disk.
func writeNew(path string, b []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, os.ErrExist) {
		return protocol.Errorf(protocol.CodeConflict, "%s exists already; choose another name", path)
	}
	if err == nil {
		_, err = f.Write(b)
		err = errors.Join(err, f.Sync(), f.Close())
	}
	if err != nil {
		return protocol.Errorf(protocol.CodeDataFolder, "write %s: %w", path, err)
	}
	return nil
}

func ownerRecover() *cobra.Command {
	var dir, pass string
	var replace bool
	c := &cobra.Command{
		Use:   "recover FILE",
		Short: "Use the owner key of an exported file on this computer",
		Long: "Puts the owner key of an exported file into the data folder; this computer's node is\n" +
			"that owner's from then on. Another key that is there is replaced with --replace only,\n" +
			"and kept beside it.",
		Args: cobra.ExactArgs(1),
		RunE: func(c *cobra.Command, args []string) error {
			sealed, err := readSealed(args[0])
			if err != nil {
				return err
			}
			id, err := wallet.SealedOwner(sealed)
			if err != nil {
				return err
			}
			p, err := passphrases{file: pass, in: c.InOrStdin(), ask: c.ErrOrStderr()}.read("Passphrase of owner "+id.Short()+": ", false)
			if err != nil {
				return err
			}
			got, err := wallet.At(dir).Recover(sealed, p, replace)
			if err != nil {
				if errors.Is(err, &protocol.Error{Code: protocol.CodeConflict}) {
					return protocol.Errorf(protocol.CodeConflict, "%s. With --replace that key is kept beside the new one", protocol.AsError(err).Message)
				}
				return err
			}
			out := c.OutOrStdout()
			if !got.Changed {
				fmt.Fprintf(out, "This computer has the key of owner %s already.\n", got.Owner.Short())
				return nil
			}
			fmt.Fprintf(out, "This computer has the key of owner %s now.\n", got.Owner.Short())
			if got.Saved != "" {
				fmt.Fprintf(out, "The key that was here is kept in %s.\n", got.Saved)
			}
			return settleAfter(c.Context(), dir)
		},
	}
	dataFlag(c, &dir, "folder of the owner key")
	c.Flags().StringVar(&pass, "passphrase-file", "", passphraseHelp)
	c.Flags().BoolVar(&replace, "replace", false, "replace another owner key, which is kept beside the new one")
	return c
}

func readSealed(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "read the exported key: %w", err)
	}
	defer f.Close()
	b, err := io.ReadAll(io.LimitReader(f, wallet.MaxSealed+1))
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeInvalidRequest, "read the exported key: %w", err)
	}
	return b, nil
}

// settleAfter has an engine that runs look at its new key at once. One that does
// not run does so at its next start.
func settleAfter(ctx context.Context, dir string) error {
	client, err := localapi.Dial(dir)
	if errors.Is(err, &protocol.Error{Code: protocol.CodeUnavailable}) {
		return nil
	}
	if err != nil {
		return err
	}
	defer client.Close()
	_, err = client.Owner(ctx)
	return err
}
