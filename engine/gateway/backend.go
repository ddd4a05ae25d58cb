package gateway

import (
	"context"

	"neuron/engine/gateway/chattmpl"
	"neuron/engine/protocol"
)

// Backend is what the API stands on. engine/session implements it over routes
// of the network; tests run a fake through the same suite.
type Backend interface {
	// Models lists what can be asked for now.
	Models(ctx context.Context) ([]protocol.ModelInfo, error)
	// Text returns the text tools of a model by name or id, or an error with
	// CodeModelUnknown.
	Text(ctx context.Context, model string) (TextModel, error)
	// Generate starts a session and returns at once; routing, opening and
	// prefill go on behind the returned Generation. It fails only for
	// requests that can be refused without any work.
	Generate(ctx context.Context, r GenerateRequest) (Generation, error)
	// Telemetry is the newest snapshot of a session that runs or ended
	// recently; ok is false for unknown ones.
	Telemetry(id protocol.SessionID) (t protocol.Telemetry, ok bool)
	// Watch delivers snapshots of one session (or of all, id "") until ctx
	// ends or the session has; slow readers lose intermediate snapshots, never
	// the last one.
	Watch(ctx context.Context, id protocol.SessionID) <-chan protocol.Telemetry
}

// TextModel turns text into tokens and back; it runs libllama's own tokenizer
// in a child process, so calls can fail and take a context.
type TextModel interface {
	Info() protocol.ModelInfo
	// ContextLength is the trained context, capped at protocol.MaxContext.
	ContextLength() int
	// ChatTemplate is the model's own Jinja source, "" if it has none: to tell
	// in which form it teaches tool calls.
	ChatTemplate() string
	// Render runs the model's template over a conversation, with limits on
	// time and memory; spans asks for the places of contents in the result.
	// Failures of the template are template_invalid.
	Render(ctx context.Context, in chattmpl.Input, spans bool) (chattmpl.Output, error)
	// CheckGrammar reports whether the tail's sampler would take a GBNF
	// grammar: nil, or grammar_invalid with the reason.
	CheckGrammar(ctx context.Context, gbnf string) error
	// BOS and EOS are the texts of the special tokens, "" if absent;
	// AddBOS says whether the tokenizer puts BOS in front by itself.
	BOS() string
	EOS() string
	AddBOS() bool
	// Tokenize encodes text. addSpecial lets the model add BOS/EOS as it
	// wants; parseSpecial turns the texts of control tokens into those tokens
	// (only ever for templates, never for user text on its own).
	Tokenize(ctx context.Context, text string, addSpecial, parseSpecial bool) ([]int32, error)
	// Detokenize decodes ids to bytes; special shows control tokens.
	Detokenize(ctx context.Context, ids []int32, special bool) ([]byte, error)
}

// GenerateRequest is one answer to make (one of n).
type GenerateRequest struct {
	// Request is the API's id ("chatcmpl-..."), for telemetry and logs.
	Request string
	Model   string
	Prompt  []int32
	// MaxTokens bounds the answer; at least 1. Prompt and answer together fit
	// the model's context when the gateway calls.
	MaxTokens int
	Sampler   protocol.Sampler
	// Policy is "public" or "private".
	Policy string
	// NoDraft asks for one token per pass over the route: no guesses of the
	// next ones.
	NoDraft bool
	// NoPrefix neither uses nor leaves kept state of prompts. Client tells those
	// apart who must not share it, "" where there is one only; it is kept secret
	// from the network.
	NoPrefix bool
	Client   string
}

// Generation is a running session.
type Generation interface {
	Session() protocol.SessionID
	// Tokens delivers the sampled tokens in order and is closed at the end;
	// an EOG token is delivered (EOG set, empty piece) and is the last one.
	Tokens() <-chan protocol.Token
	// Result says how it ended; valid after Tokens is closed. Finish is stop,
	// length, cancelled or error; err is set for the last two.
	Result() (protocol.FinishReason, *protocol.Error)
	// Cancel ends the session's work on every hop; idempotent, returns at
	// once. The gateway calls it when a stop string matched or the client left.
	Cancel()
}
