package gateway

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"slices"

	"neuron/engine/gateway/toolcall"
	"neuron/engine/protocol"
)

// Limits of tools.
const (
	maxTools           = 128
	maxToolDescription = 16 << 10
	maxToolCalls       = 128 // of one earlier message
)

// Values of tool_choice.
const (
	choiceAuto     = "auto"
	choiceNone     = "none"
	choiceRequired = "required"
)

// toolbox is what a request says about tools.
type toolbox struct {
	tools    []toolcall.Tool
	choice   string // choiceAuto, choiceNone, choiceRequired
	named    string // the tool that tool_choice names; choice is choiceRequired then
	parallel bool
}

// active reports whether the model may call.
func (t *toolbox) active() bool { return len(t.tools) > 0 && t.choice != choiceNone }

// strict reports whether a tool wants its arguments held to its schema.
func (t *toolbox) strict() bool {
	return slices.ContainsFunc(t.tools, func(o toolcall.Tool) bool { return o.Strict })
}

// toolbox reads tools, tool_choice and parallel_tool_calls.
func (f *fields) toolbox() toolbox {
	box := toolbox{choice: choiceAuto, parallel: true}
	f.decode("parallel_tool_calls", &box.parallel, "true or false")
	var list []struct {
		Type     string          `json:"type"`
		Function json.RawMessage `json:"function"`
	}
	if f.decode("tools", &list, "a list of objects") && len(list) > maxTools {
		f.fail(badParam("tools", "at most %d tools are allowed", maxTools))
		return box
	}
	for i, in := range list {
		at := fmt.Sprintf("tools[%d]", i)
		if in.Type != "function" {
			e := unsupported(at + ".type")
			e.Message = "only tools of the type function are supported here"
			f.fail(e)
			return box
		}
		t, err := readTool(in.Function, at+".function")
		if err != nil {
			f.fail(err)
			return box
		}
		if slices.ContainsFunc(box.tools, func(o toolcall.Tool) bool { return o.Name == t.Name }) {
			f.fail(badParam(at+".function.name", "two tools are called %s", t.Name))
			return box
		}
		box.tools = append(box.tools, t)
	}
	f.toolChoice(&box)
	return box
}

func readTool(raw json.RawMessage, at string) (toolcall.Tool, *protocol.Error) {
	var in struct {
		Name        string          `json:"name"`
		Description *string         `json:"description"`
		Parameters  json.RawMessage `json:"parameters"`
		Strict      *bool           `json:"strict"`
	}
	var t toolcall.Tool
	if len(raw) == 0 || json.Unmarshal(raw, &in) != nil {
		return t, badParam(at, "%s must be an object with a name", at)
	}
	t.Name, t.Strict = in.Name, in.Strict != nil && *in.Strict
	if in.Description != nil {
		t.Description = *in.Description
	}
	if !namePattern.MatchString(t.Name) {
		return t, badParam(at+".name", "a tool's name must match %s", namePattern)
	}
	if len(t.Description) > maxToolDescription {
		return t, badParam(at+".description", "a description of at most %d bytes is allowed", maxToolDescription)
	}
	if s := string(in.Parameters); s != "" && s != "null" {
		var m map[string]json.RawMessage
		if json.Unmarshal(in.Parameters, &m) != nil {
			return t, badParam(at+".parameters", "parameters must be a JSON schema of an object")
		}
		if len(m) > 0 {
			t.Parameters = in.Parameters
		}
	}
	return t, nil
}

// toolChoice reads tool_choice: a word, or an object that names a function.
func (f *fields) toolChoice(box *toolbox) {
	raw, ok := f.raw["tool_choice"]
	if !ok {
		return
	}
	var word string
	if json.Unmarshal(raw, &word) == nil {
		switch word {
		case choiceAuto, choiceNone, choiceRequired:
			box.choice = word
		default:
			f.fail(badParam("tool_choice", "tool_choice must be none, auto, required, or an object that names a function"))
		}
	} else {
		var in struct {
			Type     string `json:"type"`
			Function struct {
				Name string `json:"name"`
			} `json:"function"`
		}
		if json.Unmarshal(raw, &in) != nil {
			f.fail(badParam("tool_choice", "tool_choice must be none, auto, required, or an object that names a function"))
			return
		}
		if in.Type != "function" {
			f.fail(unsupported("tool_choice.type"))
			return
		}
		box.choice, box.named = choiceRequired, in.Function.Name
		if !slices.ContainsFunc(box.tools, func(t toolcall.Tool) bool { return t.Name == box.named }) {
			f.fail(badParam("tool_choice.function.name", "there is no tool %.64q in tools", box.named))
		}
	}
	if box.choice == choiceRequired && len(box.tools) == 0 {
		f.fail(badParam("tool_choice", "tool_choice needs tools"))
	}
}

// calls reads an assistant message's tool_calls.
func (f *fields) calls() ([]rawCall, *protocol.Error) {
	var list []rawCall
	if !f.decode("tool_calls", &list, "a list of objects") {
		return nil, f.err
	}
	if len(list) > maxToolCalls {
		return nil, badParam("tool_calls", "at most %d calls are allowed", maxToolCalls)
	}
	for i, c := range list {
		at := fmt.Sprintf("tool_calls[%d]", i)
		if c.Type != "" && c.Type != "function" {
			return nil, unsupported(at + ".type")
		}
		if !namePattern.MatchString(c.Function.Name) {
			return nil, badParam(at+".function.name", "a function's name must match %s", namePattern)
		}
		if c.ID != "" && !namePattern.MatchString(c.ID) {
			return nil, badParam(at+".id", "a call's id must match %s", namePattern)
		}
	}
	return list, nil
}

type rawCall struct {
	ID       string `json:"id"`
	Type     string `json:"type"`
	Function struct {
		Name      string `json:"name"`
		Arguments string `json:"arguments"`
	} `json:"function"`
}

// caller is what an exchange needs to turn text into calls.
type caller struct {
	form  toolcall.Form
	tools []toolcall.Tool
	// markers are the control tokens that belong to the form; their text is
	// no part of a token's piece. For answers in channels nil says that the
	// vocabulary has no tokens for the marks.
	markers map[int32]string
	// single: the answer ends with its first call.
	single bool
	// named: tool_choice named the function; such an answer ends with stop,
	// as OpenAI's does.
	named bool
}

// newCaller finds the form's control tokens in the model's vocabulary.
func newCaller(ctx context.Context, tm TextModel, form toolcall.Form, box *toolbox) (*caller, error) {
	c := &caller{form: form, tools: box.tools, markers: map[int32]string{}, single: !box.parallel, named: box.named != ""}
	missing := false
	for _, m := range form.Markers() {
		ids, err := tm.Tokenize(ctx, m, false, true)
		if err != nil {
			return nil, err
		}
		if len(ids) != 1 {
			missing = true
			continue
		}
		if form.Channels() { // whatever its piece is, it is a mark
			c.markers[ids[0]] = m
			continue
		}
		text, err := tm.Detokenize(ctx, ids, false)
		if err != nil {
			return nil, err
		}
		if len(text) == 0 {
			c.markers[ids[0]] = m
		}
	}
	if form.Channels() && missing {
		c.markers = nil // the vocabulary is of another family: marks come spelled
	}
	return c, nil
}

// callID is a new id for a call.
func (c *caller) callID() string {
	const letters = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
	prefix, n := c.form.IDLength()
	b := make([]byte, n)
	rand.Read(b) // never fails (crypto/rand)
	for i := range b {
		b[i] = letters[int(b[i])%len(letters)]
	}
	return prefix + string(b)
}
