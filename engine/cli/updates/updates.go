// Package updates writes for people what is known of newer versions, and waits
// for a download. The command line imports it; it knows the local API alone.
package updates

import (
	"context"
	"fmt"
	"io"
	"text/tabwriter"
	"time"

	"neuron/engine/localapi"
	"neuron/engine/protocol"
)

// look is how often a download is looked at.
const look = 500 * time.Millisecond

// Wait looks until the download is over. Errors: cancelled with ctx, while the
// engine goes on; those of the client.
func Wait(ctx context.Context, client *localapi.Client, u *localapi.Update) (*localapi.Update, error) {
	tick := time.NewTicker(look)
	defer tick.Stop()
	for u.State == localapi.UpdateDownloading {
		select {
		case <-tick.C:
		case <-ctx.Done():
			return nil, protocol.Errorf(protocol.CodeCancelled, "the engine goes on fetching: %w", ctx.Err())
		}
		var err error
		if u, err = client.Update(ctx); err != nil {
			return nil, err
		}
	}
	return u, nil
}

// Show writes what is known, and what can be done next.
func Show(out io.Writer, u *localapi.Update) error {
	w := tabwriter.NewWriter(out, 0, 0, 2, ' ', 0)
	fmt.Fprintf(w, "version\t%s (%s)\n", u.Version, u.Kind)
	switch u.State {
	case localapi.UpdateUnsupported:
		fmt.Fprintf(w, "updates\t%s\n", u.Reason)
	case localapi.UpdateOff:
		fmt.Fprintln(w, "updates\tare not looked for (updates.check is off)")
	case localapi.UpdateUnknown:
		fmt.Fprintln(w, "updates\tthe list of releases has not been read yet")
	case localapi.UpdateCurrent:
		fmt.Fprintln(w, "updates\tthis is the newest version")
	}
	if r := u.Release; r != nil {
		fmt.Fprintf(w, "newest\t%s of %s\n", r.Version, r.Date)
		switch {
		case u.State == localapi.UpdateReady:
			fmt.Fprintf(w, "package\t%s, fetched and checked; next: neuron-engine update install\n", r.File)
		case u.State == localapi.UpdateDownloading:
			fmt.Fprintf(w, "package\t%s, %.1f of %.1f MB\n", r.Name, float64(u.Done)/1e6, float64(r.Bytes)/1e6)
		case r.Name == "":
			fmt.Fprintln(w, "package\tnone for this computer")
		default:
			fmt.Fprintf(w, "package\t%s, %.1f MB; next: neuron-engine update download\n", r.Name, float64(r.Bytes)/1e6)
		}
		if r.Page != "" {
			fmt.Fprintf(w, "page\t%s\n", r.Page)
		}
	}
	if !u.Checked.IsZero() {
		fmt.Fprintf(w, "checked\t%s\n", u.Checked.Local().Format("Mon 2 Jan 15:04"))
	}
	if !u.Next.IsZero() {
		fmt.Fprintf(w, "next check\tabout %s\n", u.Next.Local().Format("Mon 2 Jan 15:04"))
	}
	if u.Error != nil {
		fmt.Fprintf(w, "problem\t%s (%s)\n", u.Error.Message, u.Error.Code)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	if u.Release != nil && u.Release.Notes["en"] != "" {
		fmt.Fprintf(out, "\n%s\n", u.Release.Notes["en"])
	}
	return nil
}
