// Command bom writes what a delivery is made of: the licences of all parts as one
// text, and an SPDX document. scripts/package.sh runs it.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strconv"
	"time"

	"neuron/internal/bom"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	err := run(ctx, os.Args[1:], os.Getenv("SOURCE_DATE_EPOCH"))
	stop()
	if errors.Is(err, flag.ErrHelp) {
		return
	}
	if err != nil {
		fmt.Fprintln(os.Stderr, "bom:", err)
		os.Exit(1)
	}
}

// run writes the files; epoch is the time of the release, in Unix seconds.
func run(ctx context.Context, args []string, epoch string) error {
	var o bom.Options
	set := flag.NewFlagSet("bom", flag.ContinueOnError)
	set.StringVar(&o.Name, "name", "neuron", "`name` of the delivery")
	set.StringVar(&o.Version, "version", "", "its `version`")
	set.StringVar(&o.GoCommand, "go", "go", "the Go `command`")
	set.StringVar(&o.Native, "native", "", "`folder` with the llama.cpp libraries")
	set.StringVar(&o.Llama, "llama-licence", filepath.Join("installers", "common", "LICENSE.llama.cpp"), "the licence of llama.cpp, a `file`")
	set.StringVar(&o.Model, "model", "", "the bundled model's `file`")
	licences := set.String("licences", "", "`file` for the licences")
	spdx := set.String("spdx", "", "`file` for the SPDX document")
	if err := set.Parse(args); err != nil {
		return err
	}
	o.Programs = set.Args()
	if len(o.Programs) == 0 || o.Version == "" || *licences == "" && *spdx == "" {
		return errors.New("usage: bom -version V [-licences FILE] [-spdx FILE] [-native DIR] [-model FILE] PROGRAM...")
	}
	d, err := bom.New(ctx, o)
	if err != nil {
		return err
	}
	if *licences != "" {
		if err := write(*licences, d.WriteText); err != nil {
			return err
		}
	}
	if *spdx == "" {
		return nil
	}
	seconds, err := strconv.ParseInt(epoch, 10, 64)
	if err != nil {
		return fmt.Errorf("SOURCE_DATE_EPOCH, the time of the release: %w", err)
	}
	return write(*spdx, func(w io.Writer) error { return d.WriteSPDX(w, time.Unix(seconds, 0)) })
}

func write(path string, content func(io.Writer) error) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	return errors.Join(content(f), f.Close())
}
