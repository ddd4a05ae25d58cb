package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net/netip"
	"os"
	"runtime/debug"
	"strings"
	"time"

	"neuron/tracker-server/billing"
	"neuron/tracker-server/server"
	"neuron/tracker-server/standing"
	"neuron/tracker-server/store"
)

// serve runs the tracker until the context ends.
func serve(flags *flag.FlagSet) runner {
	o := server.Options{}
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:7700", "`HOST:PORT` for nodes, API and status page")
	data := dataFlag(flags)
	flags.StringVar(&o.Name, "name", "", "what the network is called in its members' windows; a `text` of at most 64 characters")
	flags.String(configFlag, "", "`file` with settings; \"neuron-tracker config\" prints one")
	flags.StringVar(&o.PublicURL, "public-url", "", "`URL` under which others reach this tracker; published torrents carry it")
	flags.StringVar(&o.TLSCert, "tls-cert", "", "PEM `file` with the certificate")
	flags.StringVar(&o.TLSKey, "tls-key", "", "PEM `file` with its key")
	flags.BoolVar(&o.Insecure, "insecure", false, "allow plain HTTP on addresses other than loopback")
	flags.DurationVar(&o.ReportEvery, "report-every", 5*time.Second, "how often nodes report (1s to 20s)")
	flags.IntVar(&o.MaxConns, "max-connections", 20_000, "most connections of nodes and gateways")
	flags.IntVar(&o.MaxPerAddress, "max-per-address", 512, "most connections from one IP address")
	flags.StringVar((*string)(&o.Credit), "credit", string(billing.Optional), "whether sessions cost credit: off, optional (who has none runs unpaid) or required")
	starting := flags.Int64("starting-credit", 100_000, "`credits` that each new owner is given")
	flags.IntVar(&o.TelemetryDays, "telemetry-days", 30, "`days` for which the history of sessions is kept; 0 keeps none")
	flags.Float64Var(&o.Audits.Share, "audit-share", 0.02, "`part` of public sessions, 0 to 1, whose work is re-executed by another node and compared; results are recorded and nothing follows from them")
	flags.StringVar((*string)(&o.Admission), "admission", string(standing.Open), "open: every node may serve; approve: new nodes wait for the operator's approval")
	flags.Var((*texts)(&o.PublishFrom), "publish-from", "`folder` out of which the operator's pages may publish models; may be repeated")
	proxies := flags.String("trusted-proxies", "", "`addresses` of reverse proxies in front (IP or IP/BITS, with commas), whose X-Forwarded-For is believed")
	level := flags.String("log-level", "info", "debug, info, warn or error")
	return func(ctx context.Context, _ []string, stdout, stderr io.Writer) error {
		o.Data = *data
		if o.StartingCredit = store.Credit(*starting) * 1_000_000; o.StartingCredit/1_000_000 != store.Credit(*starting) {
			return &usageError{"the starting credit is too large"}
		}
		var l slog.Level
		if err := l.UnmarshalText([]byte(*level)); err != nil {
			return &usageError{"unknown log level " + *level}
		}
		var err error
		if o.Proxies, err = prefixes(*proxies); err != nil {
			return err
		}
		o.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: l}))
		if os.Getenv("GOGC") == "" {
			// The heap of a tracker is small beside what a busy one allocates.
			debug.SetGCPercent(200)
		}
		s, err := server.New(o)
		if err != nil {
			return err
		}
		// The port is open: whoever reads this line can connect.
		fmt.Fprintln(stdout, s.URL())
		return s.Run(ctx)
	}
}

func prefixes(list string) ([]netip.Prefix, error) {
	var out []netip.Prefix
	for text := range strings.SplitSeq(list, ",") {
		if text = strings.TrimSpace(text); text == "" {
			continue
		}
		p, err := netip.ParsePrefix(text)
		if ip, ipErr := netip.ParseAddr(text); ipErr == nil {
			p, err = netip.PrefixFrom(ip, ip.BitLen()), nil
		}
		if err != nil {
			return nil, &usageError{text + " is not an IP address or IP/BITS"}
		}
		out = append(out, p)
	}
	return out, nil
}
