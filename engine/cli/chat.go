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
	"strings"

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
			"without one it asks for lines until the input ends. Ctrl-C stops an answer.",
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
			return t.loop(c.Context(), c.InOrStdin())
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

func (t *talk) loop(ctx context.Context, in io.Reader) error {
	fmt.Fprintf(t.out, "Talking to %s. An empty line or Ctrl-D ends.\n", t.model)
	lines := bufio.NewScanner(in)
	lines.Buffer(nil, 1<<20)
	for {
		fmt.Fprint(t.out, "\n> ")
		if !lines.Scan() || strings.TrimSpace(lines.Text()) == "" {
			fmt.Fprintln(t.out)
			return lines.Err()
		}
		if err := t.ask(ctx, lines.Text()); err != nil {
			var e *protocol.Error
			if !errors.As(err, &e) || ctx.Err() != nil {
				return err
			}
			// A failed answer ends itself, not the conversation.
			fmt.Fprintf(t.out, "\n[%s: %s]\n", e.Code, e.Message)
			t.history = t.history[:len(t.history)-1]
		}
	}
}

// ask sends one question and prints the answer as it comes.
func (t *talk) ask(ctx context.Context, question string) error {
	ctx, stop := signal.NotifyContext(ctx, os.Interrupt)
	defer stop()
	t.history = append(t.history, apiclient.Message{Role: "user", Content: question})
	answer, err := t.client.Chat(ctx, apiclient.ChatRequest{
		Model: t.model, Messages: t.history, MaxTokens: t.o.maxTokens, Temperature: t.o.temperature,
	}, func(delta string) { fmt.Fprint(t.out, delta) })
	if ctx.Err() != nil {
		fmt.Fprintln(t.out, "\n[stopped]")
		t.history = t.history[:len(t.history)-1]
		return nil
	}
	if err != nil {
		return err
	}
	t.history = append(t.history, apiclient.Message{Role: "assistant", Content: answer.Text})
	fmt.Fprintf(t.out, "\n[%d tokens, %.0f tokens/s, %d hops]\n", answer.Telemetry.Tokens, answer.Telemetry.TokensPerSecond, len(answer.Telemetry.Route))
	return nil
}
