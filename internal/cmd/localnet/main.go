// Neuron-localnet starts a network of a tracker, two engines and a gateway on
// this machine. "run" keeps it up; "demo" asks one question, prints the answer
// and the figures of each hop, and ends. See "make run" and "make demo".
package main

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"syscall"
	"text/tabwriter"
	"time"

	"neuron/engine/artifact"
	"neuron/engine/cli/apiclient"
	"neuron/engine/policy"
	"neuron/engine/program"
	"neuron/engine/protocol"
	"neuron/internal/localnet"
	"neuron/internal/logging"
)

const (
	model     = "assets/model/guide-q8_0.gguf"
	dataRun   = "build/run"
	question  = "What is Neuron?"
	routeWait = 60 * time.Second
)

func main() { os.Exit(mainStatus()) }

// mainStatus is main with an exit status, so that deferred calls run.
func mainStatus() int {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	mode := ""
	if len(os.Args) == 2 {
		mode = os.Args[1]
	}
	var err error
	switch mode {
	case "run":
		err = run(ctx)
	case "demo":
		err = demo(ctx)
	default:
		fmt.Fprintln(os.Stderr, "usage: neuron-localnet run|demo")
		return 2
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "%s: failed: %v\n", mode, err)
		return 1
	}
	return 0
}

// network is what both modes start.
type network struct {
	net     *localnet.Net
	nodes   []*localnet.Node
	gateway *localnet.Proc
	end     program.Endpoint
	source  *artifact.Source
}

// start brings the network up: each node gets half of the model's layers.
func start(ctx context.Context, data string) (_ *network, err error) {
	bin, err := os.Executable()
	if err != nil {
		return nil, err
	}
	src, err := artifact.Inspect(ctx, model, "", logging.Discard())
	if err != nil {
		return nil, err
	}
	w := &network{source: src}
	if w.net, err = localnet.Start(ctx, localnet.Options{
		Bin: filepath.Dir(bin), Data: data, TrackerListen: address(data, "127.0.0.1:7700"),
	}); err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, w.net.Stop())
		}
	}()
	if err := w.net.Publish(ctx, model); err != nil {
		return nil, err
	}
	// One person's computers: all programs share the key.
	owner := []string{"--owner-data", filepath.Join(data, "owner")}
	half := src.Model.Layers / 2
	for i, r := range []protocol.Range{{First: 0, Last: half}, {First: half, Last: src.Model.Layers}} {
		n, err := w.net.StartNode(ctx, fmt.Sprintf("node-%c", 'a'+i), localnet.NodeOptions{Model: model, Layers: r.String(), Args: owner})
		if err != nil {
			return nil, err
		}
		w.nodes = append(w.nodes, n)
	}
	if w.gateway, err = w.net.StartGateway(ctx, "gateway", []string{model}, slices.Concat(owner, []string{"--listen", address(data, "127.0.0.1:8484")})...); err != nil {
		return nil, err
	}
	if w.end, err = localnet.Endpoint(w.gateway); err != nil {
		return nil, err
	}
	_, err = w.net.WaitRoute(ctx, src.Name, routeWait)
	return w, err
}

// address is fixed for "make run", so that bookmarks and a client's settings
// stay right; another free port when that one is taken, and for the demo.
func address(data, fixed string) string {
	const free = "127.0.0.1:0"
	if data != dataRun {
		return free
	}
	l, err := net.Listen("tcp", fixed) //nolint:noctx // it is closed at once
	if err != nil {
		return free
	}
	if l.Close() != nil {
		return free
	}
	return fixed
}

func run(ctx context.Context) error {
	began := time.Now()
	w, err := start(ctx, dataRun)
	if err != nil {
		return err
	}
	fmt.Printf("Neuron runs (started in %.1f s).\n\n", time.Since(began).Seconds())
	fmt.Printf("  status page  %s\n  OpenAI API   %s\n  key          %s\n  data, logs   %s\n\n", w.net.TrackerURL, w.end.URL, w.end.Key, dataRun)
	w.printHolds()
	fmt.Printf("\nTry:\n\n  curl %s/chat/completions -H 'Authorization: Bearer %s' \\\n    -H 'Content-Type: application/json' \\\n    -d '{\"model\":\"%s\",\"messages\":[{\"role\":\"user\",\"content\":\"%s\"}]}'\n\n",
		w.end.URL, w.end.Key, w.source.Name, question)
	fmt.Printf("  bin/neuron-engine chat --data %s/gateway\n\n", dataRun)
	desktop, err := w.startDesktop(ctx)
	if err != nil {
		return errors.Join(err, w.net.Stop())
	}
	if err := w.openWindow(desktop); err != nil {
		return errors.Join(err, w.net.Stop())
	}
	fmt.Println("The model is a small guide that shows that everything works; it is not a general assistant.")
	fmt.Println("Ctrl-C stops the network.")
	select {
	case <-ctx.Done():
		fmt.Println("\nStopping.")
	case p := <-w.net.Died():
		err = errors.New(p.Describe())
	}
	// The window has started a tray, which is no part of the network.
	return errors.Join(err, localnet.EndTray(context.WithoutCancel(ctx), desktop.Data), w.net.Stop())
}

// startDesktop adds a person's computer, which shares nothing until its user says
// so, and waits until its chat can answer.
func (w *network) startDesktop(ctx context.Context) (*localnet.Proc, error) {
	p, err := w.net.StartDesktop(ctx, "desktop", func(s *policy.Settings) {
		s.SetUp, s.Tracker = true, w.net.TrackerURL
	}, "--model", model, "--listen", "127.0.0.1:0")
	if err != nil {
		return nil, err
	}
	if err := localnet.WaitAccess(ctx, p, routeWait); err != nil {
		return nil, err
	}
	p.MayEnd() // its user may quit it, and its tray bring it back
	return p, nil
}

// openWindow shows the desktop's window, or says how.
func (w *network) openWindow(desktop *localnet.Proc) error {
	fmt.Printf("A desktop engine runs in %s; it shares nothing until you say so.\n\n", desktop.Data)
	fmt.Printf("  bin/neuron-engine status --data %s\n", desktop.Data)
	switch {
	case !w.net.HasWindow():
		fmt.Printf("  its window was not built here\n\n")
		return nil
	case !localnet.HasDisplay():
		fmt.Printf("  bin/neuron --data %s     (its window, where there is a display)\n\n", desktop.Data)
		return nil
	}
	fmt.Printf("  bin/neuron --data %s     (its window, which opens now)\n\n", desktop.Data)
	_, err := w.net.StartWindow(desktop)
	return err
}

func (w *network) printHolds() {
	t := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "  NODE\tID\tSEAM\tHOLDS")
	for _, n := range w.nodes {
		fmt.Fprintf(t, "  %s\t%s\t%s\tlayers %s of %d of %s\n", n.Name, protocol.NodeID(n.ID).Short(), n.Seam, n.Layers, w.source.Model.Layers, w.source.Name)
	}
	t.Flush()
}

func demo(ctx context.Context) (err error) {
	data, err := os.MkdirTemp("", "neuron-demo-")
	if err != nil {
		return err
	}
	w, err := start(ctx, data)
	if err != nil {
		return fmt.Errorf("%w (logs are in %s)", err, filepath.Join(data, "logs"))
	}
	defer func() {
		stopErr := w.net.Stop()
		if err == nil {
			err = stopErr
		}
		if err == nil {
			err = os.RemoveAll(data)
		} else {
			err = fmt.Errorf("%w (logs are in %s)", err, filepath.Join(data, "logs"))
		}
	}()
	w.printHolds()
	fmt.Printf("\n> %s\n", question)
	var first, last time.Time
	a, err := localnet.Client(w.end).Chat(ctx, apiclient.ChatRequest{
		Model: w.source.Name, Messages: []apiclient.Message{{Role: "user", Content: question}},
	}, func(delta string) {
		last = time.Now()
		if first.IsZero() {
			first = last
		}
		fmt.Print(delta)
	})
	if err != nil {
		return err
	}
	fmt.Print("\n\n")
	return report(a, last.Sub(first))
}

// report prints a line per hop and the summary; decoding is the time from the
// first to the last piece of text.
func report(a *apiclient.Answer, decoding time.Duration) error {
	t := a.Telemetry
	if t.Phase != protocol.PhaseDone || t.Tokens == 0 || a.Text == "" || len(t.Route) != 2 {
		return fmt.Errorf("session %s ended in phase %s with %d tokens over %d hops", t.Session, t.Phase, t.Tokens, len(t.Route))
	}
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(w, "hop\tlayers\tprefill tokens\tdecode steps\tbytes in/step\tbytes out/step\tms/step\t")
	var stages float64 // microseconds of model time per decoded token
	var seam int64
	for i, h := range t.Route {
		c := h.Counters
		if c.PrefillRows == 0 || c.DecodeSteps == 0 {
			return fmt.Errorf("hop %d reports %d prefill rows and %d decode steps", h.Hop, c.PrefillRows, c.DecodeSteps)
		}
		step := float64(c.DecodeMicros) / float64(c.DecodeSteps)
		stages += step
		if i == 0 {
			seam = c.LastDecodeOut
		}
		fmt.Fprintf(w, "%d\t%s\t%d\t%d\t%d\t%d\t%.2f\t\n", h.Hop, h.Use, c.PrefillRows, c.DecodeSteps,
			c.DecodeBytesIn/c.DecodeSteps, c.DecodeBytesOut/c.DecodeSteps, step/1e3)
	}
	if err := w.Flush(); err != nil {
		return err
	}
	overhead := decoding.Seconds()*1e6/float64(max(1, t.Route[0].Counters.DecodeSteps)) - stages
	fmt.Printf("\ndemo: ok hops=%d tokens=%d decode_bytes_per_token=%d seam_overhead_us=%.0f\n", len(t.Route), t.Tokens, seam, overhead)
	return nil
}
