// Neuron is the window: a client of the engine's local API that may be closed at
// any time. It starts the engine and the tray when they do not run.
//
// This is the only package that imports fyne/v2/app, which needs cgo and OpenGL:
// everything else of the window is built and tested without them.
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
	"neuron/internal/desktop/folders"
	"neuron/internal/desktop/instance"
	"neuron/internal/desktop/launch"
	"neuron/internal/desktop/opening"
	"neuron/internal/desktop/prefs"
	"neuron/internal/logging"
	"neuron/internal/version"
)

func main() { os.Exit(mainStatus(os.Args[1:], os.Stderr)) }

// options are the command line.
type options struct {
	data   string
	page   string // to open first, "" for the last one
	target string // a model's file or an invitation to open, "" for none
	hidden bool   // start engine and tray, and show no window
}

func parse(args []string, out io.Writer) (o options, version bool, err error) {
	fs := flag.NewFlagSet("neuron", flag.ContinueOnError)
	fs.SetOutput(out)
	fs.Usage = func() {
		fmt.Fprintln(out, "Usage: neuron [FLAGS] [FILE.gguf | neuron://join?tracker=ADDRESS]")
		fs.PrintDefaults()
	}
	fs.StringVar(&o.data, "data", folders.DefaultData(), "the data `folder`")
	fs.StringVar(&o.page, "page", "", "the `name` of the page to open: share, models, chat, earnings, network, settings or diagnostics")
	fs.BoolVar(&o.hidden, "hidden", false, "start the engine and the tray, and show no window")
	fs.BoolVar(&version, "version", false, "print the version")
	if err := fs.Parse(args); err != nil {
		return o, false, err
	}
	if fs.NArg() > 1 {
		fmt.Fprintf(out, "neuron: unexpected argument %q\n", fs.Arg(1))
		return o, false, errors.New("usage")
	}
	if o.target = fs.Arg(0); o.target == "" {
		return o, version, nil
	}
	dir, err := os.Getwd()
	if err == nil {
		var t opening.Target
		if t, err = opening.Parse(o.target, dir); err == nil && t.Model != "" {
			o.target, o.page = t.Model, "models" // another process has another folder
		}
	}
	if err != nil {
		fmt.Fprintln(out, "neuron:", err)
		return o, false, errors.New("usage")
	}
	return o, version, nil
}

// mainStatus is main with an exit status: 0 fine, 1 failed, 2 wrong usage.
func mainStatus(args []string, out io.Writer) int {
	start := time.Now()
	o, show, err := parse(args, out)
	switch {
	case errors.Is(err, flag.ErrHelp):
		return 0
	case err != nil:
		return 2
	case show:
		fmt.Fprintln(out, version.String())
		return 0
	}
	if o.data, err = filepath.Abs(o.data); err != nil {
		fmt.Fprintln(out, "neuron: the data folder:", err)
		return 1
	}
	// A program with a window has nobody who reads its stderr.
	file := logging.NewFiles(filepath.Join(folders.Logs(o.data), "window.log"), logBytes)
	defer file.Close()
	log := logging.ToEnv(func(l logging.Levels) []slog.Handler {
		return []slog.Handler{slog.NewTextHandler(file, &slog.HandlerOptions{Level: l.Lowest()})}
	})
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	programs := &launch.Programs{Data: o.data, Logger: log.For("launch")}
	if o.hidden {
		err = background(ctx, programs)
	} else {
		err = only(ctx, o, log, programs, start)
	}
	if err != nil {
		e := protocol.AsError(err)
		log.For("window").Error("the window cannot go on", "code", string(e.Code), "error", err)
		fmt.Fprintf(out, "neuron: %s\n%s\n", e.Message, e.Code.Remedy())
		return 1
	}
	return 0
}

// logBytes is what all files of the log may take.
const logBytes = 2 << 20

// background starts what works without a window.
func background(ctx context.Context, p *launch.Programs) error {
	if err := p.Tray(); err != nil && protocol.AsError(err).Code != protocol.CodeNotFound {
		return err
	}
	return p.Engine(ctx)
}

// only makes sure that this is the one window of the data folder, or shows the
// one that there is.
func only(ctx context.Context, o options, log *logging.Log, programs *launch.Programs, start time.Time) error {
	store, err := prefs.Open(o.data)
	if err != nil {
		log.For("window").Warn("preferences are not kept", "error", err)
	}
	mine, err := instance.Take(o.data, instance.Window)
	if protocol.AsError(err) != nil && protocol.AsError(err).Code == protocol.CodeAlreadyRunning {
		if o.page != "" && o.target == "" {
			log.For("window").Info("the window is open already and stays at its page")
		}
		word := instance.Show
		if o.target != "" {
			word = instance.Open(o.target)
		}
		return instance.Send(ctx, o.data, instance.Window, word)
	}
	if err != nil {
		return err
	}
	defer mine.Close()
	if err := haveDisplay(); err != nil {
		return err
	}
	w := &window{data: o.data, page: o.page, target: o.target, store: store, programs: programs, log: log, start: start}
	again, err := w.run(ctx, mine.Heard())
	if err != nil || !again {
		return err
	}
	mine.Close() // so that the next one can take its place
	return programs.Window(context.WithoutCancel(ctx))
}
