package gateway

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"neuron/engine/gateway/chattmpl"
	"neuron/engine/gateway/schema"
	"neuron/engine/gateway/toolcall"
	"neuron/engine/protocol"
)

// responseFormat is what response_format asks for; kind "" for plain text.
type responseFormat struct {
	kind   string // "", "json_object", "json_schema"
	schema json.RawMessage
}

func (f *fields) responseFormat() (out responseFormat) {
	var in struct {
		Type   string `json:"type"`
		Schema struct {
			Name   string          `json:"name"`
			Schema json.RawMessage `json:"schema"`
		} `json:"json_schema"`
	}
	if !f.decode("response_format", &in, "an object") {
		return out
	}
	switch in.Type {
	case "text":
	case "json_object":
		out.kind = in.Type
	case "json_schema":
		out.kind = in.Type
		if out.schema = in.Schema.Schema; len(out.schema) == 0 || string(out.schema) == "null" {
			f.fail(badParam("response_format.json_schema.schema", "response_format.json_schema needs a schema"))
		}
		if !namePattern.MatchString(in.Schema.Name) {
			f.fail(badParam("response_format.json_schema.name", "response_format.json_schema needs a name that matches %s", namePattern))
		}
	default:
		f.fail(badParam("response_format.type", "response_format.type must be text, json_object or json_schema"))
	}
	if out.kind != "" && f.has("grammar") {
		f.fail(badParam("grammar", "grammar and response_format exclude each other"))
	}
	return out
}

// rule adds what the format allows to a grammar.
func (r responseFormat) rule(b *schema.Builder) (string, *protocol.Error) {
	if r.kind == "json_object" {
		return b.Object(), nil
	}
	rule, err := b.Schema(r.schema)
	if err != nil {
		return "", schemaError(err, "response_format.json_schema.schema")
	}
	return rule, nil
}

// schemaError says what is wrong with a schema that a client sent.
func schemaError(err error, param string) *protocol.Error {
	code := protocol.CodeInvalidRequest
	var serr *schema.Error
	if errors.As(err, &serr) && serr.Unsupported {
		code = protocol.CodeUnsupported
	}
	e := protocol.Errorf(code, "the schema cannot be used: %w", err)
	e.Param = param
	if serr != nil {
		e = e.With("pointer", serr.Pointer)
		if serr.Keyword != "" {
			e = e.With("keyword", serr.Keyword)
		}
	}
	return e
}

// constrain makes the grammar that a request's format and tools need, has it
// checked, and says how to read calls; nil when there are none to read.
func constrain(ctx context.Context, tm TextModel, p *params, box *toolbox) (*caller, error) {
	if box != nil && !box.active() && p.sampler.Grammar == "" {
		if form, _, _ := toolcall.Detect(tm.ChatTemplate()); form.Channels() {
			return channeled(ctx, tm, form, p)
		}
	}
	b := schema.NewBuilder()
	var c *caller
	param := "grammar"
	grammar, err := "", error(nil)
	switch {
	case box != nil && box.active():
		form, why, ok := toolcall.Detect(tm.ChatTemplate())
		if !ok {
			e := unsupported("tools")
			e.Message = "this model's chat template writes " + why + ", which is not read here"
			return nil, e
		}
		param = "tools"
		if grammar, err = box.grammar(b, &form, p); err != nil {
			return nil, err
		}
		if c, err = newCaller(ctx, tm, form, box); err != nil {
			return nil, err
		}
	case p.format.kind != "":
		param = "response_format"
		rule, rerr := p.format.rule(b)
		if rerr != nil {
			return nil, rerr
		}
		if grammar, err = b.Grammar(rule); err != nil {
			return nil, schemaError(err, "response_format.json_schema.schema")
		}
	default:
		grammar = p.sampler.Grammar
	}
	if grammar == "" {
		return c, nil
	}
	return c, checked(ctx, tm, p, grammar, param)
}

// checked puts a grammar into the request when libllama takes it.
func checked(ctx context.Context, tm TextModel, p *params, grammar, param string) error {
	if err := tm.CheckGrammar(ctx, grammar); err != nil {
		e := *protocol.AsError(err)
		if e.Code == protocol.CodeGrammarInvalid {
			e.Param = param
		}
		return &e
	}
	p.sampler.Grammar = grammar
	return nil
}

// channeled is constrain for a model that always answers in channels, and a
// request without tools: its text has to be found, and a format holds for that.
func channeled(ctx context.Context, tm TextModel, form toolcall.Form, p *params) (*caller, error) {
	c, err := newCaller(ctx, tm, form, &toolbox{parallel: true})
	if err != nil || p.format.kind == "" {
		return c, err
	}
	b := schema.NewBuilder()
	rule, rerr := p.format.rule(b)
	if rerr != nil {
		return nil, rerr
	}
	grammar, err := toolcall.ChannelGrammar(b, rule)
	if err != nil {
		return nil, schemaError(err, "response_format.json_schema.schema")
	}
	return c, checked(ctx, tm, p, grammar, "response_format")
}

// grammar is what forces calls or, with strict tools or a format, keeps them
// and the text to their schemas; "" leaves the model free.
func (t *toolbox) grammar(b *schema.Builder, form *toolcall.Form, p *params) (string, error) {
	if p.sampler.Grammar != "" {
		return "", badParam("grammar", "grammar and tools exclude each other")
	}
	tools := t.tools
	d := toolcall.Demand{Text: t.choice == choiceAuto, Parallel: t.parallel}
	switch {
	case t.named != "":
		d.Parallel = false
		for _, o := range t.tools {
			if o.Name == t.named {
				tools = []toolcall.Tool{o}
			}
		}
	case t.choice == choiceRequired:
	case p.format.kind != "":
		rule, err := p.format.rule(b)
		if err != nil {
			return "", err
		}
		d.Value = rule
	case t.strict():
		*form = form.Enforced()
	default:
		return "", nil
	}
	g, err := form.Grammar(b, tools, d)
	var aerr *toolcall.ArgumentError
	if errors.As(err, &aerr) {
		at := aerr.Tool
		for i := range t.tools {
			if t.tools[i].Name == tools[aerr.Tool].Name {
				at = i
			}
		}
		return "", schemaError(aerr.Err, fmt.Sprintf("tools[%d].function.parameters", at))
	}
	if err != nil {
		return "", schemaError(err, "tools")
	}
	return g, nil
}

// conversation is what the template gets: with tools where it knows them, with
// texts in their place where it does not.
func conversation(template string, msgs []chattmpl.Message, box *toolbox) (out []chattmpl.Message, tools []json.RawMessage) {
	form, _, known := toolcall.Detect(template)
	if box.active() && !form.Taught {
		for _, t := range box.tools {
			tools = append(tools, t.JSON())
		}
	}
	if known && form.Channels() {
		msgs = chattmpl.Apart(msgs)
	}
	inText := form.Taught || known && !strings.Contains(template, "tool_calls")
	for _, m := range msgs {
		if inText {
			for _, c := range m.ToolCalls {
				if m.Content != "" {
					m.Content += "\n"
				}
				m.Content += form.CallText(c.Name, json.RawMessage(c.Arguments))
			}
			m.ToolCalls, m.NoContent = nil, false
		}
		if form.Taught && m.Role == "tool" {
			m = chattmpl.Message{Role: "user", Content: toolcall.AnswerText(m.Content)}
		}
		out = append(out, m)
	}
	if !form.Taught || !box.active() {
		return out, tools
	}
	text := toolcall.Teach(box.tools)
	if len(out) > 0 && out[0].Role == "system" {
		out[0].Content += "\n\n" + text
		return out, nil
	}
	return append([]chattmpl.Message{{Role: "system", Content: text}}, out...), nil
}
