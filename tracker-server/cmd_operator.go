package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"net/url"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"neuron/tracker-server/datadir"
	"neuron/tracker-server/operator"
	"neuron/tracker-server/standing"
	"neuron/tracker-server/store"
)

// operatorCommands are those that talk to the running tracker of a data folder,
// with the operator's key of that folder.
func operatorCommands() []command {
	list := []command{
		{"operator-key", "", "print the key for the operator's pages", operatorKeyCommand},
		{"nodes", "[TEXT]", "list nodes with their standing", nodesCommand},
	}
	for _, a := range []struct {
		action standing.Action
		about  string
	}{
		{standing.ActApprove, "let a node serve, where new ones wait for approval"}, {standing.ActDisapprove, "take an approval back"},
		{standing.ActBan, "refuse a node, or with OWNER all nodes of an owner"}, {standing.ActUnban, "lift a ban"},
		{standing.ActDrain, "give a node no new sessions"}, {standing.ActUndrain, "lift that"},
	} {
		args := "NODE"
		if a.action == standing.ActBan || a.action == standing.ActUnban {
			args = "NODE|OWNER"
		}
		list = append(list, command{string(a.action), args, a.about, standingCommand(a.action)})
	}
	return append(list,
		command{"accounts", "[list|show|create|grant|close] ...", "accounts: list [TEXT], show ACCOUNT, create NAME, grant ACCOUNT CREDITS, close ACCOUNT", accountsCommand},
		command{"correct", "TRANSACTION", "undo an entry of the ledger by one of its own", correctCommand},
		command{"keys", "list|create|limits|revoke ...", "API keys: list ACCOUNT, create ACCOUNT NAME, limits or revoke ACCOUNT KEY", keysCommand},
		command{"prices", "[list|add]", "price tables", pricesCommand},
		command{"log", "[ID]", "what the operator did, about one id or all", logCommand},
	)
}

// operatorKeyCommand works without a running tracker.
func operatorKeyCommand(flags *flag.FlagSet) runner {
	data := dataFlag(flags)
	rotate := flags.Bool("rotate", false, "make a new key; browsers have to log in again")
	return func(_ context.Context, _ []string, stdout, _ io.Writer) error {
		dir, err := datadir.Share(*data, false)
		if err != nil {
			return err
		}
		defer dir.Close()
		get := operator.LoadOrCreateKey
		if *rotate {
			get = operator.RotateKey
		}
		key, err := get(dir)
		if err == nil {
			fmt.Fprintln(stdout, key.Reveal())
		}
		return err
	}
}

// with is what commands share: the folder, and the form of the answer.
type with struct {
	data *string
	json *bool
}

func withFlags(flags *flag.FlagSet) with {
	return with{dataFlag(flags), flags.Bool("json", false, "as JSON")}
}

// show asks for something and prints it: as JSON, or by table.
func show[T any](ctx context.Context, o with, path string, stdout io.Writer, table func(*tabwriter.Writer, *T)) error {
	c, err := dialOperator(*o.data)
	if err != nil {
		return err
	}
	raw, err := c.do(ctx, "GET", path, nil)
	if err != nil {
		return err
	}
	if *o.json {
		_, err = stdout.Write(raw)
		return err
	}
	v := new(T)
	if err := json.Unmarshal(raw, v); err != nil {
		return fmt.Errorf("the tracker's answer: %w", err)
	}
	t := tabwriter.NewWriter(stdout, 0, 0, 2, ' ', 0)
	table(t, v)
	return t.Flush()
}

// ask has something done and prints what text makes of the answer.
func ask(ctx context.Context, o with, path string, in map[string]any, stdout io.Writer, text func(map[string]any) string) error {
	c, err := dialOperator(*o.data)
	if err != nil {
		return err
	}
	raw, err := c.do(ctx, "POST", path, in)
	if err != nil {
		return err
	}
	if *o.json {
		_, err = stdout.Write(raw)
		return err
	}
	var v map[string]any
	if err := json.Unmarshal(raw, &v); err != nil {
		return fmt.Errorf("the tracker's answer: %w", err)
	}
	_, err = fmt.Fprintln(stdout, text(v))
	return err
}

func day(t time.Time) string {
	if t.IsZero() {
		return "-"
	}
	return t.UTC().Format(time.DateTime)
}

func nodesCommand(flags *flag.FlagSet) runner {
	o := withFlags(flags)
	state := flags.String("state", "", "only `those`: online, waiting, unknown, approved, drained or banned")
	page := flags.Int("page", 1, "`page` of the list")
	return func(ctx context.Context, args []string, stdout, _ io.Writer) error {
		q := url.Values{"q": {strings.Join(args, " ")}, "state": {*state}, "page": {strconv.Itoa(*page)}}
		return show(ctx, o, "/nodes?"+q.Encode(), stdout, func(w *tabwriter.Writer, p *operator.NodePage) {
			fmt.Fprintln(w, "NODE\tSTANDING\tNOW\tCOMPUTER\tHOLDS\tOWNER\tSEEN")
			for i := range p.Nodes {
				n := &p.Nodes[i]
				now := "not connected"
				switch {
				case n.Network != "":
					now = string(n.Network)
				case n.Online():
					now = "gateway"
				}
				fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.10s\t%s\n", n.Node.Short(), n.State, now, n.Host, strings.Join(n.Shards, ", "), n.Owner, day(n.LastSeen))
			}
			fmt.Fprintf(w, "%d node(s), page %d of %d, admission %s\n", p.Total, p.Page, p.Pages, p.Policy)
		})
	}
}

// want checks that exactly so many arguments are there.
func want(args []string, n int, what string) error {
	if len(args) != n {
		return &usageError{what}
	}
	return nil
}

func standingCommand(action standing.Action) func(*flag.FlagSet) runner {
	return func(flags *flag.FlagSet) runner {
		o := withFlags(flags)
		reason := flags.String("reason", "", "`why`, for the log; of a ban the node is told")
		return func(ctx context.Context, args []string, stdout, _ io.Writer) error {
			if err := want(args, 1, "name one node, by its id or the beginning of it"); err != nil {
				return err
			}
			kind := "/nodes/"
			if strings.HasPrefix(args[0], "o-") {
				kind = "/owners/"
			}
			return ask(ctx, o, kind+url.PathEscape(args[0])+"/"+string(action), map[string]any{"reason": *reason}, stdout, func(v map[string]any) string {
				if v["changed"] == false {
					return fmt.Sprintf("%s: nothing has changed, it is %s", v["id"], v["standing"])
				}
				return fmt.Sprintf("%s: now %s", v["id"], v["standing"])
			})
		}
	}
}

// accountPath is the path of an account's resource.
func accountPath(id, rest string) string { return "/accounts/" + url.PathEscape(id) + rest }

func accountsCommand(flags *flag.FlagSet) runner {
	o := withFlags(flags)
	reason := flags.String("reason", "", "`why`, for the log")
	ref := flags.String("ref", "", "`name` of a grant: the same again grants nothing (default: a random one)")
	return func(ctx context.Context, args []string, stdout, _ io.Writer) error {
		verb := "list"
		if len(args) > 0 {
			verb, args = args[0], args[1:]
		}
		switch verb {
		case "list":
			return show(ctx, o, "/accounts?"+url.Values{"q": {strings.Join(args, " ")}}.Encode(), stdout, accountTable)
		case "show":
			if err := want(args, 1, "name one account"); err != nil {
				return err
			}
			return show(ctx, o, accountPath(args[0], ""), stdout, accountDetail)
		case "create":
			return ask(ctx, o, "/accounts", map[string]any{"name": strings.Join(args, " ")}, stdout, func(v map[string]any) string { return fmt.Sprint(v["id"]) })
		case "grant":
			if err := want(args, 2, "name an account and an amount of credits"); err != nil {
				return err
			}
			amount, err := operator.ParseAmount(args[1])
			if err != nil {
				return err
			}
			in := map[string]any{"amount": amount, "note": *reason, "ref": *ref}
			return ask(ctx, o, accountPath(args[0], "/grant"), in, stdout, func(v map[string]any) string {
				return fmt.Sprintf("%s: %s credits granted (%s)", v["id"], amount, v["transaction"])
			})
		case "close":
			if err := want(args, 1, "name one account"); err != nil {
				return err
			}
			return ask(ctx, o, accountPath(args[0], "/close"), map[string]any{"reason": *reason}, stdout, func(v map[string]any) string { return fmt.Sprintf("%s: closed", v["id"]) })
		default:
			return &usageError{"unknown argument " + verb}
		}
	}
}

func accountTable(w *tabwriter.Writer, p *operator.AccountPage) {
	fmt.Fprintln(w, "ACCOUNT\tKIND\tNAME\tAVAILABLE\tRESERVED\tPENDING\tFROZEN")
	for i := range p.Accounts {
		a := &p.Accounts[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\n", a.ID, a.Kind, a.Name, a.Book("available"), a.Book("reserved"), a.Book("pending"), a.Book("frozen"))
	}
	if p.Next != "" {
		fmt.Fprintln(w, "there are more; search by a part of the name or id")
	}
}

func accountDetail(w *tabwriter.Writer, a *operator.AccountDetail) {
	fmt.Fprintf(w, "%s\t%s %s\nsince\t%s\n", a.ID, a.Kind, a.Name, day(a.Created))
	if !a.Closed.IsZero() {
		fmt.Fprintf(w, "closed\t%s\n", day(a.Closed))
	}
	for _, b := range store.Books {
		if v := a.Book(b.String()); v != 0 {
			fmt.Fprintf(w, "%s\t%s\n", b, v)
		}
	}
	for _, n := range a.Nodes {
		fmt.Fprintf(w, "node\t%s\n", n)
	}
	for _, l := range a.Lines {
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\n", day(l.At), l.Kind, l.Book, l.Amount, l.ID, l.Note)
	}
}

func correctCommand(flags *flag.FlagSet) runner {
	o := withFlags(flags)
	reason := flags.String("reason", "", "`why`, for statement and log")
	return func(ctx context.Context, args []string, stdout, _ io.Writer) error {
		if err := want(args, 1, "name one transaction, as statements show it"); err != nil {
			return err
		}
		return ask(ctx, o, "/corrections", map[string]any{"transaction": args[0], "reason": *reason}, stdout, func(v map[string]any) string {
			return fmt.Sprintf("undone by %s", v["transaction"])
		})
	}
}

func keysCommand(flags *flag.FlagSet) runner {
	o := withFlags(flags)
	reason := flags.String("reason", "", "`why`, for the log")
	budget := flags.String("budget", "0", "`credits` that the key may spend in all; 0: no bound")
	budgetDay := flags.String("budget-day", "0", "`credits` that it may spend a day (UTC); 0: no bound")
	perMinute := flags.Int64("per-minute", 0, "`requests` in a minute; 0: no bound")
	return func(ctx context.Context, args []string, stdout, _ io.Writer) error {
		if len(args) < 2 {
			return &usageError{"say what to do, and name an account"}
		}
		verb, account, args := args[0], args[1], args[2:]
		if verb == "list" {
			return show(ctx, o, accountPath(account, ""), stdout, keyTable)
		}
		if err := want(args, 1, "after the account, give one key or the name of a new one"); err != nil {
			return err
		}
		all, err1 := operator.ParseAmount(*budget)
		today, err2 := operator.ParseAmount(*budgetDay)
		if err := errors.Join(err1, err2); err != nil {
			return err
		}
		in := map[string]any{"budget": all, "budget_day": today, "per_minute": *perMinute}
		key := func(rest string) string { return accountPath(account, "/keys/"+url.PathEscape(args[0])+rest) }
		said := func(what string) func(map[string]any) string {
			return func(v map[string]any) string { return fmt.Sprintf("%s: %s", v["id"], what) }
		}
		switch verb {
		case "create":
			in["name"] = args[0]
			return ask(ctx, o, accountPath(account, "/keys"), in, stdout, func(v map[string]any) string { return fmt.Sprint(v["secret"]) })
		case "limits":
			return ask(ctx, o, key("/limits"), in, stdout, said("limits changed"))
		case "revoke":
			return ask(ctx, o, key("/revoke"), map[string]any{"reason": *reason}, stdout, said("revoked"))
		default:
			return &usageError{"unknown argument " + verb}
		}
	}
}

func keyTable(w *tabwriter.Writer, a *operator.AccountDetail) {
	fmt.Fprintln(w, "KEY\tNAME\tMADE\tREVOKED\tSPENT\tBUDGET\tTODAY\tBUDGET A DAY\tREQUESTS A MINUTE")
	for i := range a.Keys {
		k := &a.Keys[i]
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t%d\n", k.ID, k.Name, day(k.Created), day(k.Revoked), k.Spent, k.Budget, k.Today, k.BudgetDay, k.PerMinute)
	}
}

func pricesCommand(flags *flag.FlagSet) runner {
	o := withFlags(flags)
	from := flags.String("from", "", "`time` (UTC) from which the next version holds, as in 2027-01-31T18:00:00Z (default: in a minute)")
	reason := flags.String("reason", "", "`why`, for the log")
	in := map[string]any{}
	amount := func(name, about string) {
		flags.Func(strings.ReplaceAll(name, "_", "-"), about+" (default: as before)", func(text string) (err error) {
			in[name], err = operator.ParseAmount(text)
			return err
		})
	}
	part := func(name, about string) {
		flags.Func(strings.ReplaceAll(name, "_", "-"), about+" (default: as before)", func(text string) (err error) {
			in[name], err = strconv.ParseInt(text, 10, 64)
			return err
		})
	}
	amount("decode_per_mib", "`credits` for a decoded position and MiB of weights")
	part("prefill_ppm", "a prefilled position's part of that, in `millionths`")
	amount("seed_per_mib", "`credits` for a seeded MiB")
	part("fee_ppm", "the house's part, in `millionths`")
	return func(ctx context.Context, args []string, stdout, _ io.Writer) error {
		switch {
		case len(args) == 0, len(args) == 1 && args[0] == "list":
			return show(ctx, o, "/prices", stdout, priceTable)
		case len(args) != 1 || args[0] != "add":
			return &usageError{"unknown argument " + args[0]}
		}
		in["reason"] = *reason
		if *from != "" {
			t, err := time.Parse(time.RFC3339, *from)
			if err != nil {
				return &usageError{*from + " is not a time, as in 2027-01-31T18:00:00Z"}
			}
			in["from"] = t.UTC()
		}
		return ask(ctx, o, "/prices", in, stdout, func(v map[string]any) string {
			return fmt.Sprintf("version %v holds from %v on", v["version"], v["from"])
		})
	}
}

func priceTable(w *tabwriter.Writer, p *operator.PricePage) {
	fmt.Fprintln(w, "VERSION\tFROM\tDECODE A MIB\tPREFILL PPM\tSEED A MIB\tFEE PPM\t")
	for _, v := range p.Prices {
		now := ""
		if v.Version == p.Now {
			now = "now"
		}
		fmt.Fprintf(w, "%d\t%s\t%s\t%d\t%s\t%d\t%s\n", v.Version, day(v.From), v.DecodeMiB, v.PrefillPPM, v.SeedMiB, v.FeePPM, now)
	}
}

func logCommand(flags *flag.FlagSet) runner {
	o := withFlags(flags)
	before := flags.Int64("before", 0, "entries below this `number`")
	return func(ctx context.Context, args []string, stdout, _ io.Writer) error {
		if len(args) > 1 {
			return &usageError{"name one id, or none"}
		}
		q := url.Values{"subject": {strings.Join(args, "")}, "before": {strconv.FormatInt(*before, 10)}}
		return show(ctx, o, "/log?"+q.Encode(), stdout, func(w *tabwriter.Writer, p *operator.LogPage) {
			fmt.Fprintln(w, "NUMBER\tWHEN\tWHAT\tABOUT\tWHY\tWHO")
			for i := range p.Entries {
				e := &p.Entries[i]
				what := e.Action
				if e.Failed != "" {
					what += " (failed: " + e.Failed + ")"
				}
				about := strings.TrimSpace(e.Subject + " " + e.Detail)
				fmt.Fprintf(w, "%d\t%s\t%s\t%s\t%s\t%s\n", e.Seq, day(e.At), what, about, e.Reason, e.By)
			}
		})
	}
}
