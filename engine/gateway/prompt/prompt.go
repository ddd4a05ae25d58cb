// Package prompt turns a conversation into token ids, so that control tokens
// come from the chat template alone. It knows no HTTP; engine/gateway imports
// it.
package prompt

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"neuron/engine/gateway/chattmpl"
	"neuron/engine/protocol"
)

// TextModel is what is needed of a model's text tools; gateway.TextModel has it.
type TextModel interface {
	BOS() string
	EOS() string
	AddBOS() bool
	Render(ctx context.Context, in chattmpl.Input, spans bool) (chattmpl.Output, error)
	Tokenize(ctx context.Context, text string, addSpecial, parseSpecial bool) ([]int32, error)
}

// bad is a mistake of the client in one field.
func bad(param, format string, args ...any) *protocol.Error {
	e := protocol.Errorf(protocol.CodeInvalidRequest, format, args...)
	e.Param = param
	return e
}

// Chat renders the conversation and turns it into ids.
//
// Control tokens come from the template only. Contents that hold no text of a
// control token, which is nearly always so, leave the prompt in one piece, so
// that ids are the same as any other program's. A content that holds one is
// tokenized apart, as plain text. If then the template transforms contents so
// that their place is not known, the request is refused (template_invalid)
// rather than guessed at. Tools, and arguments of earlier calls, that hold one
// are refused in any case: templates write them as JSON, in no fixed place.
func Chat(ctx context.Context, tm TextModel, in chattmpl.Input) ([]int32, error) {
	in.BOS, in.EOS = tm.BOS(), tm.EOS()
	dirty, err := dirtyMessages(ctx, tm, in)
	if err != nil {
		return nil, err
	}
	out, err := tm.Render(ctx, in, len(dirty) > 0)
	if err != nil {
		return nil, err
	}
	text, spans := out.Text, out.Spans
	if len(dirty) == 0 {
		return tm.Tokenize(ctx, text, !startsWithBOS(tm, text), true)
	}
	if !out.Exact {
		at := slices.Index(dirty, true)
		e := protocol.Errorf(protocol.CodeTemplateInvalid,
			"messages[%d] holds the text of a control token, and this model's chat template transforms contents, so that it cannot be kept apart", at)
		e.Param = fmt.Sprintf("messages[%d].content", at)
		return nil, e
	}
	var ids []int32
	add := func(part string, special bool) error {
		if part == "" {
			return nil
		}
		more, err := tm.Tokenize(ctx, part, false, special)
		ids = append(ids, more...)
		return err
	}
	if tm.AddBOS() && tm.BOS() != "" && !startsWithBOS(tm, text) {
		if err := add(tm.BOS(), true); err != nil {
			return nil, err
		}
	}
	from := 0
	for _, s := range spans {
		if !dirty[s.Message] {
			continue
		}
		if err := add(text[from:s.Start], true); err != nil {
			return nil, err
		}
		if err := add(text[s.Start:s.End], false); err != nil {
			return nil, err
		}
		from = s.End
	}
	return ids, add(text[from:], true)
}

func startsWithBOS(tm TextModel, text string) bool {
	return tm.BOS() != "" && strings.HasPrefix(text, tm.BOS())
}

// dirtyMessages says which contents hold the text of a control token: those
// whose ids depend on parseSpecial. nil means none. Everything that a client
// wrote is tried together first, so that the usual case costs two calls.
func dirtyMessages(ctx context.Context, tm TextModel, in chattmpl.Input) ([]bool, error) {
	differs := func(text string) (bool, error) {
		if text == "" {
			return false, nil
		}
		plain, err := tm.Tokenize(ctx, text, false, false)
		if err != nil {
			return false, err
		}
		special, err := tm.Tokenize(ctx, text, false, true)
		return !slices.Equal(plain, special), err
	}
	var all strings.Builder
	for _, m := range in.Messages {
		all.WriteString(m.Content)
		all.WriteByte('\n')
		all.WriteString(callsText(m))
	}
	for _, t := range in.Tools {
		all.WriteString(jsonText(t))
		all.WriteByte('\n')
	}
	found, err := differs(all.String())
	if err != nil || !found {
		return nil, err
	}
	for i, t := range in.Tools {
		if dirty, err := differs(jsonText(t)); err != nil {
			return nil, err
		} else if dirty {
			return nil, bad(fmt.Sprintf("tools[%d]", i), "tools[%d] holds the text of a control token of this model", i)
		}
	}
	dirty := make([]bool, len(in.Messages))
	found = false
	for i, m := range in.Messages {
		if dirty, err := differs(callsText(m)); err != nil {
			return nil, err
		} else if dirty {
			return nil, bad(fmt.Sprintf("messages[%d].tool_calls", i), "messages[%d].tool_calls holds the text of a control token of this model", i)
		}
		if dirty[i], err = differs(m.Content); err != nil {
			return nil, err
		}
		found = found || dirty[i]
	}
	if !found {
		return nil, nil
	}
	return dirty, nil
}

// callsText is what a client wrote into the calls of a message.
func callsText(m chattmpl.Message) string {
	var b strings.Builder
	for _, c := range m.ToolCalls {
		b.WriteString(jsonText([]byte(c.Arguments)))
		b.WriteByte('\n')
	}
	return b.String()
}

// jsonText is JSON with its escapes undone, as a template may show it: an
// escape could hide the text of a control token.
func jsonText(raw []byte) string {
	var out strings.Builder
	out.Write(raw)
	d := json.NewDecoder(bytes.NewReader(raw))
	for {
		tok, err := d.Token()
		if err != nil {
			return out.String()
		}
		if s, ok := tok.(string); ok {
			out.WriteByte('\n')
			out.WriteString(s)
		}
	}
}

// Fit bounds the answer: asked is max_tokens or 0, limit the default
// for requests without one (0: none).
func Fit(prompt, asked, limit, context int) (int, *protocol.Error) {
	if asked == 0 && prompt < context {
		if rest := context - prompt; limit == 0 || rest < limit {
			return rest, nil
		}
		return limit, nil
	}
	if asked > 0 && prompt < context && asked <= context-prompt {
		return asked, nil
	}
	e := protocol.Errorf(protocol.CodeContextExceeded, "the model's context has %d tokens; the request asks for %d (%d in the prompt, %d for the answer)",
		context, prompt+max(1, asked), prompt, max(1, asked)).
		With("asked", strconv.Itoa(prompt+max(1, asked))).With("fits", strconv.Itoa(context)).With("prompt", strconv.Itoa(prompt))
	return 0, e
}
