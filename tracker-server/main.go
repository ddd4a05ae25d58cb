// Command neuron-tracker is the control plane of a Neuron network: it knows
// the nodes, chooses routes, signs leases and shows the state of the network.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"
	"path/filepath"
	"syscall"
	"time"

	"neuron/engine/protocol"
	"neuron/tracker-server/server"
)

func main() { os.Exit(mainStatus()) }

// mainStatus is main with an exit status, so that deferred calls run.
func mainStatus() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	return run(ctx, os.Args[1:], os.Stdout, os.Stderr)
}

// run is the program; it returns the exit code: 0 after an orderly stop, 1
// after an error, 2 for wrong flags.
func run(ctx context.Context, args []string, stdout, stderr io.Writer) int {
	o := server.Options{}
	flags := flag.NewFlagSet("neuron-tracker", flag.ContinueOnError)
	flags.SetOutput(stderr)
	flags.StringVar(&o.Listen, "listen", "127.0.0.1:7700", "`HOST:PORT` for nodes, API and status page")
	flags.StringVar(&o.Data, "data", defaultData(), "`folder` for database and key")
	flags.StringVar(&o.TLSCert, "tls-cert", "", "PEM `file` with the certificate")
	flags.StringVar(&o.TLSKey, "tls-key", "", "PEM `file` with its key")
	flags.BoolVar(&o.Insecure, "insecure", false, "allow plain HTTP on addresses other than loopback")
	flags.DurationVar(&o.ReportEvery, "report-every", 5*time.Second, "how often nodes report (1s to 20s)")
	flags.IntVar(&o.MaxConns, "max-connections", 20_000, "most connections of nodes and gateways")
	flags.IntVar(&o.MaxPerAddress, "max-per-address", 512, "most connections from one IP address")
	level := flags.String("log-level", "info", "debug, info, warn or error")
	if err := flags.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	var l slog.Level
	if err := l.UnmarshalText([]byte(*level)); err != nil || flags.NArg() > 0 {
		fmt.Fprintln(stderr, "neuron-tracker: unknown log level or argument; see --help")
		return 2
	}
	o.Logger = slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: l}))
	s, err := server.New(o)
	if err == nil {
		// The port is open: whoever reads this line can connect.
		fmt.Fprintln(stdout, s.URL())
		err = s.Run(ctx)
	}
	if err != nil {
		fmt.Fprintln(stderr, "neuron-tracker:", err)
		if remedy := protocol.AsError(err).Code.Remedy(); remedy != "" {
			fmt.Fprintln(stderr, remedy)
		}
		return 1
	}
	return 0
}

func defaultData() string {
	dir, err := os.UserConfigDir()
	if err != nil {
		return ""
	}
	return filepath.Join(dir, "neuron", "tracker")
}
