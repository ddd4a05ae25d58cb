package chattmpl

import (
	"context"
	"encoding/json"
	"errors"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/ardanlabs/jinja"

	"neuron/engine/protocol"
)

// Message is one turn; Role is one of system, user, assistant and tool. The
// JSON forms here are what an engine sends to the process that renders.
type Message struct {
	Role    string `json:"role"`
	Content string `json:"content"`
	// NoContent says that an assistant's turn has calls and no text at all.
	NoContent  bool       `json:"no_content,omitempty"`
	Name       string     `json:"name,omitempty"`
	ToolCalls  []ToolCall `json:"tool_calls,omitempty"`
	ToolCallID string     `json:"tool_call_id,omitempty"`
}

// ToolCall is a call that the assistant made in an earlier turn. Arguments is
// the text that the API carries, a JSON object in nearly all cases.
type ToolCall struct {
	ID        string `json:"id,omitempty"`
	Name      string `json:"name"`
	Arguments string `json:"arguments"`
}

// Input is what a template sees.
type Input struct {
	Messages []Message `json:"messages"`
	// Tools are the offered functions as OpenAI's API writes them; the order
	// of their keys is kept.
	Tools []json.RawMessage `json:"tools,omitempty"`
	// BOS and EOS become bos_token and eos_token.
	BOS string `json:"bos,omitempty"`
	EOS string `json:"eos,omitempty"`
	// Vars are further variables (chat_template_kwargs): bool, int64, float64
	// or string. They never replace the variables named here.
	Vars map[string]any `json:"vars,omitempty"`
	// Now is what strftime_now says.
	Now time.Time `json:"now"`
}

// Output is a rendered prompt. Spans are there when they were asked for and
// Exact is true, see RenderSpans.
type Output struct {
	Text  string `json:"text"`
	Spans []Span `json:"spans,omitempty"`
	Exact bool   `json:"exact,omitempty"`
}

// Template is a compiled template, safe for concurrent use.
type Template struct {
	source string
	t      *jinja.Template
}

// Compile checks and parses a template; "" means ChatML.
func Compile(source string) (t *Template, err error) {
	if source == "" {
		source = ChatML
	}
	defer func() {
		if r := recover(); r != nil {
			t, err = nil, protocol.Errorf(protocol.CodeTemplateInvalid, "the chat template breaks the template language: %v", r)
		}
	}()
	guarded, err := guard(trimLast(source))
	if err != nil {
		return nil, err
	}
	jt, err := jinja.Compile(guarded)
	if err != nil {
		return nil, protocol.Errorf(protocol.CodeTemplateInvalid, "the chat template does not parse: %w", err)
	}
	return &Template{source: source, t: jt}, nil
}

// trimLast removes one newline at the end, as Jinja does (keep_trailing_newline
// off) and the language here does not.
func trimLast(source string) string {
	return strings.TrimSuffix(strings.TrimSuffix(source, "\n"), "\r")
}

// Render runs the template in the calling goroutine. It ends with ctx, after
// MaxTime, or at one of the limits.
func (t *Template) Render(ctx context.Context, in Input) (string, error) {
	vars := map[string]jinja.Value{}
	for k, v := range in.Vars {
		vars[k] = jinja.FromGoValue(v)
	}
	msgs := make([]jinja.Value, len(in.Messages))
	for i, m := range in.Messages {
		msgs[i] = t.message(m)
	}
	vars["messages"] = jinja.NewList(msgs)
	vars["add_generation_prompt"] = jinja.NewBool(true)
	vars["bos_token"] = jinja.NewString(in.BOS)
	vars["eos_token"] = jinja.NewString(in.EOS)
	// Hugging Face's own renderer always defines these two.
	vars["tools"] = jinja.None()
	if len(in.Tools) > 0 {
		list := make([]jinja.Value, len(in.Tools))
		for i, raw := range in.Tools {
			v, err := jsonValue(raw)
			if err != nil {
				return "", protocol.Errorf(protocol.CodeInvalidRequest, "tool %d is not JSON", i)
			}
			list[i] = v
		}
		vars["tools"] = jinja.NewList(list)
	}
	vars["documents"] = jinja.None()
	vars["strftime_now"] = jinja.NewCallable("strftime_now", func(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
		layout := "%Y-%m-%d"
		if len(args) > 0 && args[0].IsString() {
			layout = args[0].AsString()
		}
		return jinja.NewString(strftime(in.Now, layout)), nil
	})
	return t.render(ctx, vars)
}

// render adds the guards' functions to vars and runs the template.
func (t *Template) render(ctx context.Context, vars map[string]jinja.Value) (out string, err error) {
	defer func() {
		if r := recover(); r != nil {
			out, err = "", protocol.Errorf(protocol.CodeTemplateInvalid, "the chat template breaks the template language: %v", r)
		}
	}()
	start := time.Now()
	steps, depth := 0, 0
	step := func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		steps++
		if steps > MaxSteps {
			return jinja.Value{}, errors.New("too many steps")
		}
		if steps%64 == 0 {
			if ctx.Err() != nil {
				return jinja.Value{}, context.Cause(ctx)
			}
			if time.Since(start) > MaxTime {
				return jinja.Value{}, errors.New("it takes too long")
			}
		}
		return jinja.None(), nil
	}
	vars[fnStep] = jinja.NewCallable(fnStep, step)
	vars[fnEnter] = jinja.NewCallable(fnEnter, func(a []jinja.Value, k map[string]jinja.Value) (jinja.Value, error) {
		if depth++; depth > MaxDepth {
			return jinja.Value{}, errors.New("macros call each other too deeply")
		}
		return step(a, k)
	})
	vars[fnLeave] = jinja.NewCallable(fnLeave, func([]jinja.Value, map[string]jinja.Value) (jinja.Value, error) {
		depth--
		return jinja.None(), nil
	})
	vars["range"] = jinja.NewCallable("range", boundedRange)
	for name, f := range ownFilters {
		vars[filterPrefix+name] = jinja.NewCallable(filterPrefix+name, f)
	}
	out, err = t.t.RenderValues(vars)
	if err != nil {
		if ctx.Err() != nil {
			return "", context.Cause(ctx)
		}
		return "", protocol.Errorf(protocol.CodeTemplateInvalid, "the chat template refuses this conversation: %w", err)
	}
	if len(out) > MaxOutput {
		return "", protocol.Errorf(protocol.CodeTemplateInvalid, "the chat template made %d bytes, at most %d are allowed", len(out), MaxOutput)
	}
	return out, nil
}

// boundedRange is Python's range with a limit on the length.
func boundedRange(args []jinja.Value, _ map[string]jinja.Value) (jinja.Value, error) {
	n := []int64{0, 0, 1}
	for i, a := range args {
		if i >= 3 || !a.IsInt() {
			return jinja.Value{}, errors.New("range takes one to three integers")
		}
		n[i] = a.AsInt()
	}
	switch len(args) {
	case 0:
		return jinja.Value{}, errors.New("range takes one to three integers")
	case 1:
		n[0], n[1] = 0, n[0]
	}
	if n[2] == 0 {
		return jinja.Value{}, errors.New("range with a step of zero")
	}
	var items []jinja.Value
	for v := n[0]; (n[2] > 0 && v < n[1]) || (n[2] < 0 && v > n[1]); v += n[2] {
		if len(items) == maxRange {
			return jinja.Value{}, errors.New("range is too long")
		}
		items = append(items, jinja.NewInt(v))
	}
	return jinja.NewList(items), nil
}

// Cache keeps compiled templates by their source. Safe for concurrent use.
type Cache struct {
	limit int

	mu    sync.Mutex
	byKey map[string]*Template
	order []string // oldest use first
}

// NewCache returns a cache of at most limit templates (at least one).
func NewCache(limit int) *Cache {
	return &Cache{limit: max(1, limit), byKey: map[string]*Template{}}
}

// Compile returns the cached template of source, or compiles it. Failures are
// not kept: they are cheap, since the limits come first.
func (c *Cache) Compile(source string) (*Template, error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if t, ok := c.byKey[source]; ok {
		i := slices.Index(c.order, source)
		c.order = append(slices.Delete(c.order, i, i+1), source)
		return t, nil
	}
	t, err := Compile(source)
	if err != nil {
		return nil, err
	}
	if len(c.order) == c.limit {
		delete(c.byKey, c.order[0])
		c.order = slices.Delete(c.order, 0, 1)
	}
	c.byKey[source], c.order = t, append(c.order, source)
	return t, nil
}

// Run compiles and renders; spans asks for the places of contents.
func (c *Cache) Run(ctx context.Context, source string, in Input, spans bool) (Output, error) {
	t, err := c.Compile(source)
	if err != nil {
		return Output{}, err
	}
	if !spans {
		text, err := t.Render(ctx, in)
		return Output{Text: text}, err
	}
	text, found, err := t.RenderSpans(ctx, in)
	if errors.Is(err, ErrNoSpans) {
		return Output{Text: text}, nil
	}
	return Output{Text: text, Spans: found, Exact: err == nil}, err
}
