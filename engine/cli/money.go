package cli

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"neuron/engine/accounts"
	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

func printJSON(out io.Writer, v any) error {
	e := json.NewEncoder(out)
	e.SetIndent("", "  ")
	return e.Encode(v)
}

func earningsCommand() *cobra.Command {
	var f ownerFlags
	var days int
	var file string
	var asJSON bool
	c := &cobra.Command{
		Use: "earnings", Short: "Show what the owner's computers earned, per day, model and layers", Args: cobra.NoArgs,
		RunE: f.with(func(c *cobra.Command, _ []string, o localapi.Owner) error {
			if days < 1 || days > 3660 {
				return protocol.Errorf(protocol.CodeInvalidRequest, "--days is 1 to 3660")
			}
			q := accounts.Query{Since: time.Now().UTC().AddDate(0, 0, 1-days).Format(time.DateOnly)}
			if file != "" {
				raw, err := o.EarningsCSV(c.Context(), q)
				if err != nil {
					return err
				}
				return writeFile(c, file, raw)
			}
			e, err := allEarnings(c, o, q)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), e)
			}
			return showEarnings(c.OutOrStdout(), e)
		}),
	}
	f.add(c)
	c.Flags().IntVar(&days, "days", 30, "how many days back, in UTC")
	c.Flags().StringVar(&file, "csv", "", `write a new CSV file ("-": print it)`)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

// allEarnings follows the answers to their end.
func allEarnings(c *cobra.Command, o localapi.Owner, q accounts.Query) (*accounts.Earnings, error) {
	out, err := o.Earnings(c.Context(), q)
	for err == nil && out.NextUntil != "" {
		q.Until = out.NextUntil
		var more *accounts.Earnings
		if more, err = o.Earnings(c.Context(), q); err == nil {
			if more.NextUntil == q.Until {
				return nil, protocol.Errorf(protocol.CodeUnavailable, "the tracker repeats itself")
			}
			out.Earnings, out.NextUntil = append(out.Earnings, more.Earnings...), more.NextUntil
		}
	}
	return out, err
}

func showEarnings(out io.Writer, e *accounts.Earnings) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "DAY\tMODEL\tLAYERS\tPREFILL\tDECODE\tCREDITS")
	var sum int64
	for i := range e.Earnings {
		x := &e.Earnings[i]
		sum += x.Amount.Micros
		layers := "-"
		if x.Range != nil {
			layers = x.Range.String()
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%d\t%d\t%s\n", x.Day, modelWord(x.ModelName, x.Model), layers, x.Prefill, x.Decode, x.Amount.Credits)
	}
	fmt.Fprintf(w, "in all\t\t\t\t\t%s\n", credits(sum))
	return w.Flush()
}

func modelWord(name string, id protocol.ModelID) string {
	switch {
	case name != "":
		return name
	case id != "":
		return id.Short()
	}
	return "-"
}

// credits writes micro-credits as credits.
func credits(micros int64) string {
	sign := ""
	if micros < 0 {
		sign = "-"
	}
	// Not negated: the smallest number has no opposite.
	whole, part := micros/1e6, micros%1e6
	return fmt.Sprintf("%s%d.%06d", sign, max(whole, -whole), max(part, -part))
}

// writeFile writes a new file, or to the standard output.
func writeFile(c *cobra.Command, path string, raw []byte) error {
	if path == "-" {
		_, err := c.OutOrStdout().Write(raw)
		return err
	}
	if err := writeNew(path, raw); err != nil {
		return err
	}
	fmt.Fprintf(c.ErrOrStderr(), "%s has %d bytes.\n", path, len(raw))
	return nil
}

func statementCommand() *cobra.Command {
	var f ownerFlags
	var file string
	var asJSON bool
	q := accounts.Query{Limit: 50}
	c := &cobra.Command{
		Use: "statement", Short: "Show the lines of the owner's account, the newest first", Args: cobra.NoArgs,
		RunE: f.with(func(c *cobra.Command, _ []string, o localapi.Owner) error {
			if file != "" {
				all := q
				all.Limit, all.Cursor = 0, ""
				raw, err := o.StatementCSV(c.Context(), all)
				if err != nil {
					return err
				}
				return writeFile(c, file, raw)
			}
			s, err := o.Statement(c.Context(), q)
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), s)
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "TIME\tWHAT\tBOOK\tCREDITS\tMODEL\tNODE\tNOTE")
			for i := range s.Lines {
				l := &s.Lines[i]
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", l.At.Local().Format(time.DateTime), l.Kind, l.Book, l.Amount.Credits,
					modelWord(l.ModelName, l.Model), l.Node.Short(), l.Note)
			}
			if err := w.Flush(); err != nil {
				return err
			}
			if s.Next != "" {
				fmt.Fprintf(c.ErrOrStderr(), "There is more: --cursor %s\n", s.Next)
			}
			return nil
		}),
	}
	f.add(c)
	c.Flags().IntVar(&q.Limit, "lines", q.Limit, "lines of a page, to 1000")
	c.Flags().StringVar(&q.Cursor, "cursor", "", "where the page begins, as the one before said")
	c.Flags().StringVar(&q.Since, "since", "", "a day (2027-01-31, UTC) or a time, included")
	c.Flags().StringVar(&q.Until, "until", "", "a day or a time, not included")
	c.Flags().StringVar(&q.Book, "book", "", "available, reserved, held, pending or frozen, with commas between")
	c.Flags().StringVar(&file, "csv", "", `write all of it to a new CSV file ("-": print it)`)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func pricesCommand() *cobra.Command {
	var f ownerFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "prices", Short: "Show the tracker's prices", Args: cobra.NoArgs,
		RunE: f.with(func(c *cobra.Command, _ []string, o localapi.Owner) error {
			p, err := o.Prices(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), p)
			}
			w := tabwriter.NewWriter(c.OutOrStdout(), 0, 0, 2, ' ', 0)
			fmt.Fprintln(w, "VERSION\tFROM\tDECODE PER GiB\tPREFILL\tSEED PER GiB\tFEE\t")
			for _, x := range p.Prices {
				now := ""
				if x.Version == p.Now {
					now = "holds now"
				}
				fmt.Fprintf(w, "%d\t%s\t%s\t%s %%\t%s\t%s %%\t%s\n", x.Version, x.From.UTC().Format(time.DateTime), credits(1024*x.DecodeMiB),
					percent(x.PrefillPPM), credits(1024*x.SeedMiB), percent(x.FeePPM), now)
			}
			return w.Flush()
		}),
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func percent(ppm int64) string { return strconv.FormatFloat(float64(ppm)/1e4, 'f', -1, 64) }

// keysCommand is about the API keys that spend the owner's credit.
func keysCommand() *cobra.Command {
	c := &cobra.Command{Use: "keys", Short: "API keys that spend the owner's credit: create, list, revoke, limit"}
	c.AddCommand(keysCreate(), keysList(), keysRevoke(), keysLimit())
	return c
}

// limitFlags are the limits of a key; 0 is no bound.
type limitFlags struct {
	budget, day string
	perMinute   int64
}

func (l *limitFlags) add(c *cobra.Command) {
	c.Flags().StringVar(&l.budget, "budget", "0", "credits that it may spend in all (0: no bound)")
	c.Flags().StringVar(&l.day, "budget-day", "0", "credits that it may spend per day, in UTC (0: no bound)")
	c.Flags().Int64Var(&l.perMinute, "per-minute", 0, "requests per minute (0: no bound)")
}

func (l *limitFlags) limits() (out accounts.Limits, err error) {
	out.PerMinute = l.perMinute
	if out.Budget, err = parseCredits("--budget", l.budget); err == nil {
		out.BudgetDay, err = parseCredits("--budget-day", l.day)
	}
	return out, err
}

// parseCredits reads credits with at most six digits after the point, exactly.
func parseCredits(flag, s string) (int64, error) {
	bad := protocol.Errorf(protocol.CodeInvalidRequest, "%s is a number of credits, as 12 or 0.5, with at most six digits after the point", flag)
	whole, part, _ := strings.Cut(s, ".")
	n, err := strconv.ParseUint(whole, 10, 43)
	if err != nil || len(part) > 6 || strings.HasSuffix(s, ".") {
		return 0, bad
	}
	m, err := strconv.ParseUint(part+strings.Repeat("0", 6-len(part)), 10, 32)
	if err != nil {
		return 0, bad
	}
	// Below 2^43 * 10^6, which is below 2^63.
	return int64(n)*1e6 + int64(m), nil
}

func keysCreate() *cobra.Command {
	var f ownerFlags
	var l limitFlags
	var file string
	c := &cobra.Command{
		Use:   "create NAME",
		Short: "Make a key; it is shown this once",
		Args:  cobra.ExactArgs(1),
		RunE: f.with(func(c *cobra.Command, args []string, o localapi.Owner) error {
			limits, err := l.limits()
			if err != nil {
				return err
			}
			if file != "" {
				// Before the key is made: it could not be shown again.
				if err := writeNew(file, nil); err != nil {
					return err
				}
			}
			k, err := o.CreateKey(c.Context(), args[0], limits)
			if err != nil {
				if file != "" {
					_ = os.Remove(file) // empty; err is what counts
				}
				return err
			}
			if file == "" {
				fmt.Fprintln(c.OutOrStdout(), k.Secret)
				fmt.Fprintf(c.ErrOrStderr(), "This is key %s. It is not shown again.\n", k.Key.ID)
				return nil
			}
			if err := os.WriteFile(file, []byte(k.Secret+"\n"), 0o600); err != nil {
				fmt.Fprintln(c.OutOrStdout(), k.Secret)
				return protocol.Errorf(protocol.CodeDataFolder, "the key is made and printed above, it could not be written to %s: %w", file, err)
			}
			fmt.Fprintf(c.OutOrStdout(), "Key %s is in %s.\n", k.Key.ID, file)
			return nil
		}),
	}
	f.add(c)
	l.add(c)
	c.Flags().StringVar(&file, "file", "", "write the key to a new file, for --pay-with of a gateway")
	return c
}

func keysList() *cobra.Command {
	var f ownerFlags
	var asJSON bool
	c := &cobra.Command{
		Use: "list", Short: "List the keys", Args: cobra.NoArgs,
		RunE: f.with(func(c *cobra.Command, _ []string, o localapi.Owner) error {
			keys, err := o.Keys(c.Context())
			if err != nil {
				return err
			}
			if asJSON {
				return printJSON(c.OutOrStdout(), keys)
			}
			return showKeys(c.OutOrStdout(), keys)
		}),
	}
	f.add(c)
	c.Flags().BoolVar(&asJSON, "json", false, "print JSON")
	return c
}

func showKeys(out io.Writer, keys []accounts.Key) error {
	bound := func(micros int64) string {
		if micros == 0 {
			return "-"
		}
		return credits(micros)
	}
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintln(w, "KEY\tNAME\tMADE\tSPENT TODAY\tPER DAY\tSPENT\tBUDGET\tPER MINUTE\t")
	for i := range keys {
		k := &keys[i]
		minute, revoked := "-", ""
		if k.Limits.PerMinute > 0 {
			minute = strconv.FormatInt(k.Limits.PerMinute, 10)
		}
		if k.Revoked != nil {
			revoked = "revoked"
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\n", k.ID, k.Name, k.Created.Local().Format(time.DateOnly), k.Today.Credits,
			bound(k.Limits.BudgetDay), k.Total.Credits, bound(k.Limits.Budget), minute, revoked)
	}
	return w.Flush()
}

func keysRevoke() *cobra.Command {
	var f ownerFlags
	c := &cobra.Command{
		Use: "revoke KEY", Short: "End a key, given by its beginning, for good", Args: cobra.ExactArgs(1),
		RunE: f.with(func(c *cobra.Command, args []string, o localapi.Owner) error {
			k, err := o.RevokeKey(c.Context(), args[0])
			if err != nil {
				return err
			}
			fmt.Fprintf(c.OutOrStdout(), "Key %s (%s) is revoked.\n", k.ID, k.Name)
			return nil
		}),
	}
	f.add(c)
	return c
}

func keysLimit() *cobra.Command {
	var f ownerFlags
	var l limitFlags
	c := &cobra.Command{
		Use:   "limit KEY",
		Short: "Replace all limits of a key; those that are not given have no bound",
		Args:  cobra.ExactArgs(1),
		RunE: f.with(func(c *cobra.Command, args []string, o localapi.Owner) error {
			limits, err := l.limits()
			if err != nil {
				return err
			}
			k, err := o.LimitKey(c.Context(), args[0], limits)
			if err != nil {
				return err
			}
			return showKeys(c.OutOrStdout(), []accounts.Key{*k})
		}),
	}
	f.add(c)
	l.add(c)
	return c
}
