// Command neuron-tray is the tray icon of Neuron: it shows whether this computer
// shares, pauses sharing, starts the engine and opens the window. It is a client
// of the engine's local API and links no window toolkit.
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
	"runtime/debug"
	"sync"
	"syscall"
	"time"

	"neuron/engine/protocol"
	"neuron/internal/desktop/folders"
	"neuron/internal/desktop/instance"
	"neuron/internal/desktop/launch"
	"neuron/internal/desktop/link"
	"neuron/internal/desktop/notify"
	"neuron/internal/desktop/prefs"
	"neuron/internal/logging"
	"neuron/internal/version"
	"neuron/tray/agent"
	"neuron/tray/icon"
	"neuron/tray/panel"
)

// logBytes bounds the tray's log.
const logBytes = 2 << 20

// gcPercent keeps the heap small: the tray waits nearly always, and people look
// at what it takes. It costs nothing that could be measured.
const gcPercent = 25

func main() {
	debug.SetGCPercent(gcPercent)
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	status := run(ctx, os.Args[1:], os.Stderr, launch.Find)
	stop()
	os.Exit(status)
}

// run is the program; find finds its sisters. The status is 2 for a wrong
// command line, else 1 when the tray cannot run. With --quit it is that of quit.
func run(ctx context.Context, args []string, stderr io.Writer, find func(string) (string, error)) int {
	set := flag.NewFlagSet("neuron-tray", flag.ContinueOnError)
	set.SetOutput(stderr)
	data := set.String("data", folders.DefaultData(), "data `folder`, which names the engine")
	hidden := set.Bool("hidden", false, "show the icon alone, as at login")
	end := set.Bool("quit", false, "end window, engine and tray in order, and return when they have")
	anew := set.Bool("restart", false, "have the tray that runs start anew with the engine, as after an upgrade; without one, do nothing")
	showVersion := set.Bool("version", false, "print the version")
	if err := set.Parse(args); err != nil {
		if errors.Is(err, flag.ErrHelp) {
			return 0
		}
		return 2
	}
	if *showVersion {
		fmt.Fprintln(stderr, "neuron-tray version", version.Get())
		return 0
	}
	if *end {
		return quit(ctx, *data, stderr, quitTime)
	}
	if *anew {
		return restart(ctx, *data, stderr)
	}
	if err := tray(ctx, *data, *hidden, find); err != nil {
		fmt.Fprintln(stderr, "neuron-tray:", err)
		return 1
	}
	return 0
}

func tray(ctx context.Context, data string, hidden bool, find func(string) (string, error)) error {
	data, err := filepath.Abs(data)
	if err != nil {
		return fmt.Errorf("the data folder: %w", err)
	}
	self, err := takeOver(ctx, data, hidden)
	if self == nil {
		return err
	}
	defer self.Close()
	levels, err := logging.ParseLevels(os.Getenv(logging.Env))
	if err != nil {
		return err
	}
	file := logging.NewFiles(filepath.Join(folders.Logs(data), "tray.log"), logBytes)
	defer file.Close()
	log := logging.New(file, levels).For("tray")
	slog.SetDefault(log) // the tray's library writes there too
	kept, err := prefs.Open(data)
	if err != nil {
		log.Warn("preferences cannot be kept", "error", err)
	}
	programs := &launch.Programs{Data: data, Logger: log, Find: find}
	engine := link.New(link.Options{Data: data, Start: programs.Engine, Logger: log})
	a := agent.New(agent.Options{
		Link: engine, Prefs: kept, Programs: programs, Notifier: notify.New("Neuron"),
		Heard: self.Heard(), Opened: icon.Opened(), Hidden: hidden, Logger: log,
	})
	show(ctx, log, engine, a)
	if !a.Again() {
		return nil
	}
	self.Close()
	return programs.Tray()
}

// takeOver makes this process the tray of the data folder. Without an error and
// an instance another one is, and has been told what this launch was for.
func takeOver(ctx context.Context, data string, hidden bool) (*instance.Instance, error) {
	word := instance.Show
	if hidden {
		// A tray that cannot be seen may be of a session that is over.
		word = instance.Yield
	}
	told := false
	for try := 0; ; try++ {
		self, err := instance.Take(data, instance.Tray)
		if err == nil || protocol.AsError(err).Code != protocol.CodeAlreadyRunning {
			return self, err
		}
		if !told {
			// One that is about to end does not answer.
			err = instance.Send(ctx, data, instance.Tray, word)
			told = err == nil
		}
		switch {
		case told && word == instance.Show:
			return nil, nil
		case try == 10 && told:
			return nil, nil
		case try == 10:
			return nil, err
		}
		select {
		case <-ctx.Done():
			return nil, nil
		case <-time.After(100 * time.Millisecond):
		}
	}
}

// show runs the parts until one of them is the end: ctx, the user's wish, or
// that of the session. The system's tray wants the main goroutine.
func show(ctx context.Context, log *slog.Logger, engine *link.Link, a *agent.Agent) {
	ctx, cancel := context.WithCancel(ctx)
	var parts sync.WaitGroup
	defer parts.Wait()
	defer cancel()
	seen := make(chan struct{})
	var once sync.Once
	first := a.First()
	parts.Go(func() { engine.Run(ctx) })
	parts.Go(func() {
		defer cancel()
		err := panel.Follow(ctx, log, func(s panel.Sight) {
			a.Saw(s)
			if s == panel.There {
				once.Do(func() { close(seen) })
			}
		})
		if err != nil {
			log.Info("the session has ended", "reason", err)
		}
	})
	parts.Go(func() {
		defer cancel()
		a.Run(ctx)
	})
	select {
	case <-ctx.Done():
		return
	case <-seen:
	}
	parts.Go(func() {
		<-ctx.Done()
		icon.Quit()
	})
	icon.Run(log, first, a.Attach)
	cancel() // the tray ended by itself
}
