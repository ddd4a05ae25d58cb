package cli

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"neuron/engine/accounts"
	"neuron/engine/desktop"
	"neuron/engine/localapi"
	"neuron/engine/ownership/desk"
	"neuron/engine/protocol"
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
	there, derr := f.visit()
	switch {
	case errors.Is(derr, &protocol.Error{Code: protocol.CodeNotFound}):
		return nil, nil, err // no engine, and none was ever here
	case derr != nil:
		return nil, nil, derr
	}
	return there, there.Close, nil
}

// visit works with the keys of the folder itself; those of a desktop engine's node
// lie in a folder below.
func (f *ownerFlags) visit() (*desk.Desk, error) {
	data, wallet := f.data, f.wallet
	node := filepath.Join(data, desktop.NodeFolder)
	if _, err := os.Stat(node); err == nil {
		if wallet == "" {
			wallet = data
		}
		data = node
	}
	return desk.Visit(data, wallet, f.tracker)
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
