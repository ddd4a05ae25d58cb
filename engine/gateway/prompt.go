package gateway

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"neuron/engine/gateway/chattmpl"
	"neuron/engine/protocol"
)

// chatPrompt renders the conversation and turns it into ids.
//
// Control tokens come from the template only. Contents that hold no text of a
// control token, which is nearly always so, leave the prompt in one piece, so
// that ids are the same as any other program's. A content that holds one is
// tokenized apart, as plain text. If then the template transforms contents so
// that their place is not known, the request is refused (template_invalid)
// rather than guessed at.
func chatPrompt(ctx context.Context, cache *chattmpl.Cache, tm TextModel, msgs []chattmpl.Message, vars map[string]any, now time.Time) ([]int32, error) {
	t, err := cache.Compile(tm.ChatTemplate())
	if err != nil {
		return nil, err
	}
	in := chattmpl.Input{Messages: msgs, BOS: tm.BOS(), EOS: tm.EOS(), Vars: vars, Now: now}
	dirty, err := dirtyMessages(ctx, tm, msgs)
	if err != nil {
		return nil, err
	}
	if len(dirty) == 0 {
		text, err := t.Render(ctx, in)
		if err != nil {
			return nil, err
		}
		return tm.Tokenize(ctx, text, !startsWithBOS(tm, text), true)
	}
	text, spans, err := t.RenderSpans(ctx, in)
	if errors.Is(err, chattmpl.ErrNoSpans) {
		at := slices.Index(dirty, true)
		e := protocol.Errorf(protocol.CodeTemplateInvalid,
			"messages[%d] holds the text of a control token, and this model's chat template transforms contents, so that it cannot be kept apart", at)
		e.Param = fmt.Sprintf("messages[%d].content", at)
		return nil, e
	}
	if err != nil {
		return nil, err
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
// whose ids depend on parseSpecial. nil means none. All contents together are
// tried first, so that the usual case costs two calls.
func dirtyMessages(ctx context.Context, tm TextModel, msgs []chattmpl.Message) ([]bool, error) {
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
	for _, m := range msgs {
		all.WriteString(m.Content)
		all.WriteByte('\n')
	}
	any, err := differs(all.String())
	if err != nil || !any {
		return nil, err
	}
	dirty := make([]bool, len(msgs))
	any = false
	for i, m := range msgs {
		if dirty[i], err = differs(m.Content); err != nil {
			return nil, err
		}
		any = any || dirty[i]
	}
	if !any {
		return nil, nil
	}
	return dirty, nil
}

// fitContext bounds the answer: asked is max_tokens or 0, limit the default
// for requests without one (0: none).
func fitContext(prompt, asked, limit, context int) (int, *protocol.Error) {
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
