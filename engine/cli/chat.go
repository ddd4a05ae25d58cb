package cli

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"unicode"

	"github.com/spf13/cobra"

	"neuron/engine/cli/apiclient"
	"neuron/engine/program"
	"neuron/engine/protocol"
)

// chatOptions are the flags of chat.
type chatOptions struct {
	data, api, key, model, system string
	maxTokens                     int
	temperature                   float64
}

func chatCommand() *cobra.Command {
	var o chatOptions
	c := &cobra.Command{
		Use:   "chat [QUESTION]",
		Short: "Talk to a model of the network in the terminal",
		Long: "Talk to a model through a gateway. With a question it prints the answer and ends;\n" +
			"without one it asks for lines until the input ends. Ctrl-C stops an answer, and\n" +
			"ends the program while no answer comes.",
		Args: cobra.ArbitraryArgs,
		RunE: func(c *cobra.Command, args []string) error {
			client, model, err := o.connect()
			if err != nil {
				return err
			}
			t := &talk{o: o, model: model, client: client, out: c.OutOrStdout()}
			if o.system != "" {
				t.history = append(t.history, apiclient.Message{Role: "system", Content: o.system})
			}
			if len(args) > 0 {
				return t.ask(c.Context(), strings.Join(args, " "))
			}
			// The program's context ends with the first interrupt; here the first
			// one may mean the answer only.
			interrupts := make(chan os.Signal, 1)
			signal.Notify(interrupts, os.Interrupt, syscall.SIGTERM)
			defer signal.Stop(interrupts)
			return t.loop(context.WithoutCancel(c.Context()), c.InOrStdin(), interrupts)
		},
	}
	dataFlag(c, &o.data, "data folder of the gateway")
	c.Flags().StringVar(&o.api, "api", "", "address of the API, ending in /v1 (default: the gateway of --data)")
	c.Flags().StringVar(&o.key, "key", "", "key of the API")
	c.Flags().StringVar(&o.model, "model", "", "model (default: the first one served)")
	c.Flags().StringVar(&o.system, "system", "", "system prompt")
	c.Flags().IntVar(&o.maxTokens, "max-tokens", 0, "longest answer in tokens (0: what fits)")
	c.Flags().Float64Var(&o.temperature, "temperature", 0, "0 always takes the most probable token")
	return c
}

// connect finds the API: flags first, then the gateway of the data folder,
// then the one in its sub-folder "gateway".
func (o chatOptions) connect() (*apiclient.Client, string, error) {
	e := program.Endpoint{URL: o.api, Key: o.key}
	if o.api == "" {
		var err error
		if e, err = program.ReadEndpoint(o.data); err != nil {
			if e, err = program.ReadEndpoint(filepath.Join(o.data, "gateway")); err != nil {
				return nil, "", err
			}
		}
	}
	model := o.model
	if model == "" && len(e.Models) > 0 {
		model = e.Models[0]
	}
	if model == "" {
		return nil, "", protocol.Errorf(protocol.CodeInvalidRequest, "say which model with --model")
	}
	return apiclient.New(e.URL, e.Key), model, nil
}

// talk is one conversation.
type talk struct {
	o       chatOptions
	model   string
	client  *apiclient.Client
	out     io.Writer
	history []apiclient.Message
}

// loop asks for lines until the input ends or a signal comes while no answer
// is under way. A failed or stopped answer ends itself, not the conversation.
func (t *talk) loop(ctx context.Context, in io.Reader, signals <-chan os.Signal) error {
	fmt.Fprintf(t.out, "Talking to %s. An empty line or Ctrl-D ends.\n", t.model)
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	input := readLines(ctx, in)
	for {
		fmt.Fprint(t.out, "\n> ")
		var line inputLine
		select {
		case line = <-input:
		case <-signals:
			fmt.Fprintln(t.out)
			return nil
		}
		if line.err != nil || strings.TrimSpace(line.text) == "" {
			fmt.Fprintln(t.out)
			return line.err
		}
		actx, cancel := context.WithCancelCause(ctx)
		answered := make(chan error, 1)
		go func() { answered <- t.ask(actx, line.text) }()
		var err error
		var end bool
		select {
		case err = <-answered:
		case s := <-signals:
			cancel(errStopped)
			err, end = <-answered, s != os.Interrupt
		}
		cancel(nil)
		var e *protocol.Error
		switch {
		case err == nil:
		case end || !errors.As(err, &e):
			return err
		default:
			fmt.Fprintf(t.out, "[%s: %s]\n", e.Code, e.Message)
		}
	}
}

// inputLine is a line of the input; the zero value is its end.
type inputLine struct {
	text string
	err  error
}

// readLines reads in the background: nothing interrupts a read from a
// terminal. The goroutine ends with the input, at the next line after ctx, or
// with the program.
func readLines(ctx context.Context, in io.Reader) <-chan inputLine {
	out := make(chan inputLine)
	give := func(l inputLine) bool {
		select {
		case out <- l:
			return true
		case <-ctx.Done():
			return false
		}
	}
	go func() {
		defer close(out)
		lines := bufio.NewScanner(in)
		lines.Buffer(nil, maxInput)
		for lines.Scan() {
			if !give(inputLine{text: lines.Text()}) {
				return
			}
		}
		if err := lines.Err(); err != nil {
			give(inputLine{err: protocol.Errorf(protocol.CodeInvalidRequest, "read the question: %w", err)})
		}
	}()
	return out
}

// maxInput bounds one line of input, in bytes.
const maxInput = 1 << 20

// harmless drops the control characters that could steer a terminal: the text
// comes from other people's computers.
func harmless(r rune) rune {
	if unicode.IsControl(r) && r != '\n' && r != '\t' {
		return -1
	}
	return r
}

var errStopped = errors.New("stopped by the user")

// ask sends one question and prints the answer as it comes. An answer that is
// not complete is an error and leaves no trace in the history.
func (t *talk) ask(ctx context.Context, question string) error {
	turns := append(slices.Clone(t.history), apiclient.Message{Role: "user", Content: question})
	printed := false
	answer, err := t.client.Chat(ctx, apiclient.ChatRequest{
		Model: t.model, Messages: turns, MaxTokens: t.o.maxTokens, Temperature: t.o.temperature,
	}, func(delta string) {
		printed = true
		fmt.Fprint(t.out, strings.Map(harmless, delta))
	})
	if err != nil {
		if printed {
			fmt.Fprintln(t.out)
		}
		if ctx.Err() != nil {
			return protocol.Errorf(protocol.CodeCancelled, "the answer was stopped: %w", context.Cause(ctx))
		}
		return err
	}
	turns = append(turns, apiclient.Message{Role: "assistant", Content: answer.Text})
	t.history = turns
	fmt.Fprintf(t.out, "\n[%d tokens, %.0f tokens/s, %d hops]\n", answer.Telemetry.Tokens, answer.Telemetry.TokensPerSecond, len(answer.Telemetry.Route))
	return nil
}
